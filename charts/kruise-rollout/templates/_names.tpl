{{- define "kruise-rollout.selector" -}}
app.kubernetes.io/component: controller
app.kubernetes.io/name: kruise-rollout
{{- end }}

{{- define "kruise-rollout.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
