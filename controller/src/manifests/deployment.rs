//! What runs: two replicas behind a Service, kept apart, kept alive, and reached at two ports only.

use kruise_rollout::names;
use serde_json::{Value, json};

use super::APP;
use crate::admin::{HEALTHZ, METRICS, READYZ};
use crate::args::{Admission, Manifests};
use crate::shutdown::{ENDPOINT_PAUSE, GRACE};

/// Port of the webhook in the pod, as `--webhook-bind` has it by default.
const WEBHOOK_PORT: u16 = 9443;
/// Port of the probes and metrics, as `--admin-bind` has it by default.
const ADMIN_PORT: u16 = 8080;
/// A user that owns nothing: images without one would run as root, which the namespace forbids.
const USER: u32 = 65_532;

/// Service, PodDisruptionBudget, NetworkPolicy, Deployment.
pub(super) fn objects(args: &Manifests) -> impl Iterator<Item = Value> + use<> {
    [
        service(&args.namespace),
        disruption_budget(&args.namespace),
        network_policy(&args.namespace),
        deployment(args),
    ]
    .into_iter()
}

/// Labels that select the pods.
fn selector() -> Value {
    json!({ APP.0: APP.1, "app.kubernetes.io/component": "controller" })
}

fn metadata(name: &str, namespace: &str) -> Value {
    json!({ "name": name, "namespace": namespace, "labels": selector() })
}

fn service(namespace: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(names::WEBHOOK_SERVICE, namespace),
        "spec": {
            "selector": selector(),
            "ports": [{ "name": "webhook", "port": 443, "targetPort": "webhook", "protocol": "TCP" }],
        },
    })
}

/// One replica at a time may be drained; one that is not ready protects nobody.
fn disruption_budget(namespace: &str) -> Value {
    json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(names::CONTROLLER, namespace),
        "spec": {
            "maxUnavailable": 1,
            "selector": { "matchLabels": selector() },
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    })
}

/// Nothing else than webhook, probes and metrics is reached. From where is left open: the API server and the kubelets call from
/// addresses that no selector names. What the pods call is the API server, whose address is not known here either.
fn network_policy(namespace: &str) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(names::CONTROLLER, namespace),
        "spec": {
            "podSelector": { "matchLabels": selector() },
            "policyTypes": ["Ingress"],
            "ingress": [{
                "ports": [{ "port": "webhook", "protocol": "TCP" }, { "port": "admin", "protocol": "TCP" }],
            }],
        },
    })
}

fn deployment(args: &Manifests) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(names::CONTROLLER, &args.namespace),
        "spec": {
            "replicas": 2,
            "selector": { "matchLabels": selector() },
            // Admission must not pause while the controller itself is updated.
            "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 0 } },
            "template": {
                "metadata": {
                    "labels": selector(),
                    "annotations": {
                        "prometheus.io/scrape": "true",
                        "prometheus.io/port": ADMIN_PORT.to_string(),
                        "prometheus.io/path": METRICS,
                    },
                },
                "spec": pod(args),
            },
        },
    })
}

fn pod(args: &Manifests) -> Value {
    // The two phases of the shutdown, and some air.
    let grace = ENDPOINT_PAUSE.as_secs() + GRACE.as_secs() + 10;
    json!({
        "serviceAccountName": names::CONTROLLER,
        "terminationGracePeriodSeconds": grace,
        "securityContext": {
            "runAsNonRoot": true,
            "runAsUser": USER,
            "runAsGroup": USER,
            "seccompProfile": { "type": "RuntimeDefault" },
        },
        "affinity": {
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{
                    "weight": 100,
                    "podAffinityTerm": {
                        "topologyKey": "kubernetes.io/hostname",
                        "labelSelector": { "matchLabels": selector() },
                    },
                }],
            },
        },
        "containers": [container(args)],
    })
}

fn container(args: &Manifests) -> Value {
    let mut flags = vec!["run".to_owned(), format!("--namespace={}", args.namespace)];
    if !args.part.watch_namespaces.is_empty() {
        flags.push(format!(
            "--watch-namespaces={}",
            args.part.watch_namespaces.join(",")
        ));
    }
    if args.hold.admission == Admission::Webhook {
        flags.push("--admission=webhook".to_owned());
    }
    if args.hold.keep_held_on_deletion {
        flags.push("--keep-held-on-deletion=true".to_owned());
    }
    if !args.pods.replace_stuck_pods {
        flags.push("--replace-stuck-pods=false".to_owned());
    }
    if args.people.approvers_may_jump {
        flags.push("--approvers-may-jump=true".to_owned());
    }
    let probe = |path: &str| json!({ "httpGet": { "path": path, "port": "admin" }, "periodSeconds": 5, "timeoutSeconds": 2 });
    json!({
        "name": "controller",
        "image": args.image,
        "args": flags,
        "ports": [
            { "name": "webhook", "containerPort": WEBHOOK_PORT, "protocol": "TCP" },
            { "name": "admin", "containerPort": ADMIN_PORT, "protocol": "TCP" },
        ],
        "livenessProbe": probe(HEALTHZ),
        "readinessProbe": probe(READYZ),
        // No limit of CPU: being throttled would slow down every write to a guarded workload.
        "resources": { "requests": { "cpu": "50m", "memory": "32Mi" }, "limits": { "memory": "128Mi" } },
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": { "drop": ["ALL"] },
            "readOnlyRootFilesystem": true,
        },
    })
}
