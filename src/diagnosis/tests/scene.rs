//! A cluster in which all is as it should be, for cases to change.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::*;
use crate::area::Area;
use crate::names;
use crate::workload::{GroupKind, Guard, PodView, TemplateId};

pub(super) const NOW: &str = "2026-01-05T12:00:00Z";
/// Two minutes before.
pub(super) const LONG_AGO: &str = "2026-01-05T11:58:00Z";

pub(super) fn now() -> Timestamp {
    NOW.parse().unwrap()
}

pub(super) fn template() -> Value {
    json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "app", "image": "app:v1"}]}})
}

/// A workload that its operator has seen, guarded and at rest.
pub(in super::super) fn app() -> Value {
    let guard = Guard::text("u", "web", &TemplateId::of(&template()));
    json!({
        "apiVersion": "example.io/v1", "kind": "MyStatefulApp",
        "metadata": {"name": "app", "namespace": "shop", "uid": "u", "generation": 3, "creationTimestamp": LONG_AGO,
            "labels": {names::WORKLOAD_TYPE: "statefulset"}, "annotations": {names::GUARDED_BY: guard}},
        "spec": {"replicas": 5, "template": template(), "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}},
        "status": {"observedGeneration": 3, "replicas": 5, "readyReplicas": 5, "updatedReplicas": 5,
            "currentRevision": "app-1", "updateRevision": "app-1"}
    })
}

pub(super) fn rollout() -> Value {
    json!({
        "apiVersion": names::API_VERSION, "kind": "Rollout",
        "metadata": {"name": "web", "namespace": "shop", "uid": "r", "generation": 1, "creationTimestamp": LONG_AGO},
        "spec": {"workloadRef": {"apiVersion": "example.io/v1", "kind": "MyStatefulApp", "name": "app"},
            "strategy": {"canary": {"steps": [{"replicas": 1, "pause": {}}, {"replicas": "50%", "pause": {"duration": 300}}, {"replicas": "100%"}]}}},
        "status": {"observedGeneration": 1, "phase": "Healthy", "currentStepIndex": 3, "currentStepState": "Completed",
            "conditions": [{"type": "Guarded", "status": "True", "reason": "Proven", "message": ""}],
            "canaryStatus": {"currentStepIndex": 3, "currentStepState": "Completed"}}
    })
}

/// The rollout at a step, in a state.
pub(super) fn at(step: i32, state: &str, since: &str) -> Value {
    let mut rollout = rollout();
    rollout["status"]["phase"] = json!("Progressing");
    rollout["status"]["canaryStatus"] = json!({"currentStepIndex": step, "currentStepState": state, "lastUpdateTime": since.replace('Z', ".000000Z"),
            "canaryRevision": "app-2", "stableRevision": "app-1"});
    rollout
}

/// The app in a release.
pub(super) fn releasing(partition: i64) -> Value {
    let mut app = app();
    app["metadata"]["annotations"][names::IN_PROGRESSING] = json!(r#"{"rolloutName":"web"}"#);
    app["metadata"]["annotations"][names::GRANTED_PARTITION] = json!(partition.to_string());
    app["metadata"]["annotations"][names::ORIGINAL_PARTITION] = json!("0");
    app["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = json!(partition);
    app["spec"]["template"]["spec"]["containers"][0]["image"] = json!("app:v2");
    app["status"]["updateRevision"] = json!("app-2");
    app["status"]["updatedReplicas"] = json!((5 - partition).max(0));
    app
}

pub(super) fn integer() -> Value {
    json!({"type": "integer"})
}

pub(in super::super) fn definition() -> Value {
    json!({"metadata": {"name": "mystatefulapps.example.io"}, "spec": {"versions": [{"name": "v1", "served": true, "storage": true,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {
            "spec": {"type": "object", "properties": {"replicas": integer(), "selector": {"type": "object"},
                "template": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                "updateStrategy": {"type": "object", "properties": {"type": {"type": "string"},
                    "rollingUpdate": {"type": "object", "properties": {"partition": integer(), "paused": {"type": "boolean"}}}}}}},
            "status": {"type": "object", "properties": {"observedGeneration": integer(), "replicas": integer(),
                "readyReplicas": integer(), "updatedReplicas": integer(),
                "currentRevision": {"type": "string"}, "updateRevision": {"type": "string"}}}}}}}]}})
}

/// The definition with more in the schema of the partition.
pub(super) fn bounded(more: Value) -> Value {
    let partition = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/updateStrategy/properties/rollingUpdate\
        /properties/partition";
    let mut schema = more;
    schema["type"] = json!("integer");
    edited(definition(), partition, schema)
}

pub(super) fn deployment(name: &str, replicas: i64, available: i64) -> Value {
    json!({"metadata": {"name": name}, "spec": {"replicas": replicas, "template": {"spec": {"containers": [
            {"name": "manager", "args": ["--leader-elect"]}]}}},
        "status": {"availableReplicas": available}})
}

pub(super) fn lease(renewed: &str) -> Value {
    json!({"metadata": {"name": names::CONTROLLER},
        "spec": {"holderIdentity": "pod-1", "leaseDurationSeconds": 4, "renewTime": renewed}})
}

pub(super) fn configuration() -> Value {
    let name = format!("mystatefulapps.example.io.{}", names::HOLD_WEBHOOK);
    json!({"metadata": {"name": names::WEBHOOK_CONFIGURATION}, "webhooks": [{"name": name, "failurePolicy": "Fail",
        "clientConfig": {"caBundle": "QQ==", "service": {"name": "kruise-rollout-webhook", "namespace": "kruise-rollout"}},
        "objectSelector": {"matchLabels": {names::WORKLOAD_TYPE: "statefulset"}},
        "rules": [{"apiGroups": ["example.io"], "resources": ["mystatefulapps"], "operations": ["UPDATE"]}]}]})
}

/// The same of a controller that governs this area.
pub(super) fn selecting(name: &str, area: &Area) -> Value {
    let mut configuration = edited(configuration(), "/metadata/name", json!(name));
    configuration["webhooks"][0]["namespaceSelector"] = area.selector();
    configuration
}

pub(super) fn rollouts_definition() -> Value {
    json!({"spec": {"versions": [{"name": "v1beta1", "served": true, "storage": true, "subresources": {"status": {}}}]}})
}

pub(super) fn role() -> Value {
    json!({"rules": [{"apiGroups": ["example.io"], "resources": ["mystatefulapps"], "verbs": ["get", "list", "watch", "patch"]}]})
}

/// Facts as JSON, so that a case can change any of them.
pub(super) struct Scene {
    pub(super) facts: Facts,
}

impl Scene {
    pub(super) fn healthy() -> Self {
        let subject = Subject {
            rollout: serde_json::from_value(rollout()).unwrap(),
            plural: Looked::Seen(Some("mystatefulapps".to_owned())),
            workload: Looked::Seen(Some(app())),
            definition: Looked::Seen(Some(definition())),
            pods: Looked::Seen(Vec::new()),
            probe: Looked::Seen(Answer::Held),
        };
        let right = |verb: &str, resource: &str, purpose: &str| Right {
            verb: verb.to_owned(),
            group: names::GROUP.to_owned(),
            resource: resource.to_owned(),
            purpose: purpose.to_owned(),
            allowed: true,
        };
        let path = "/usr/bin/kubectl-kruise".to_owned();
        let facts = Facts {
            now: now(),
            namespace: "shop".to_owned(),
            server: Server {
                version: "v1.36.3".to_owned(),
            },
            definition: Looked::Seen(Some(rollouts_definition())),
            controller: Controller {
                namespace: "kruise-rollout".to_owned(),
                deployments: Looked::Seen(vec![deployment(names::CONTROLLER, 2, 2)]),
                leases: Looked::Seen(vec![lease(NOW)]),
            },
            registrations: Registrations {
                webhooks: Looked::Seen(vec![configuration()]),
                policies: Looked::Seen(Some(Vec::new())),
                bindings: Looked::Seen(Some(Vec::new())),
                roles: Looked::Seen(vec![role()]),
                endpoints: Looked::Seen(vec![json!({"endpoints": [{"conditions": {"ready": true}}]})]),
            },
            rollouts: Looked::Seen(vec![subject.rollout.clone()]),
            labelled: Looked::Seen(vec![labelled("app", app())]),
            subjects: vec![subject],
            rights: vec![
                right("get", "rollouts", "every command"),
                right("patch", "rollouts/status", "rollout approve"),
            ],
            user: "ann".to_owned(),
            programs: Programs {
                found: vec![path.clone()],
                running: path,
                krew: None,
            },
        };
        Self { facts }
    }

    pub(super) fn rollout(mut self, rollout: Value) -> Self {
        self.facts.subjects[0].rollout = serde_json::from_value(rollout).unwrap();
        self.facts.rollouts = Looked::Seen(vec![self.facts.subjects[0].rollout.clone()]);
        self
    }

    pub(super) fn app(mut self, app: Value) -> Self {
        self.facts.subjects[0].workload = Looked::Seen(Some(app));
        self
    }

    pub(super) fn with(mut self, change: impl FnOnce(&mut Facts)) -> Self {
        change(&mut self.facts);
        self
    }

    pub(super) fn subject(self, change: impl FnOnce(&mut Subject)) -> Self {
        self.with(|facts| change(&mut facts.subjects[0]))
    }
}

pub(super) fn labelled(name: &str, mut object: Value) -> Labelled {
    object["metadata"]["name"] = json!(name);
    Labelled {
        kind: GroupKind {
            group: "example.io".to_owned(),
            kind: "MyStatefulApp".to_owned(),
        },
        plural: "mystatefulapps".to_owned(),
        object,
    }
}

pub(super) fn edited(mut value: Value, pointer: &str, new: Value) -> Value {
    *value.pointer_mut(pointer).unwrap() = new;
    value
}

pub(super) fn without(mut value: Value, parent: &str, member: &str) -> Value {
    value
        .pointer_mut(parent)
        .unwrap()
        .as_object_mut()
        .unwrap()
        .remove(member);
    value
}

pub(super) fn label() -> String {
    names::WORKLOAD_TYPE.to_owned()
}

pub(super) fn crashing() -> PodView {
    PodView::read(&json!({
        "metadata": {"name": "app-4", "labels": {names::CONTROLLER_REVISION_HASH: "app-2"}},
        "status": {"conditions": [{"type": "Ready", "status": "False"}], "containerStatuses": [{"name": "app", "ready": false,
            "image": "app:v2", "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": 1, "reason": "Error"}}}]}}))
}

pub(super) fn unschedulable() -> PodView {
    PodView::read(&json!({
        "metadata": {"name": "app-4", "labels": {names::CONTROLLER_REVISION_HASH: "app-2"}},
        "status": {"conditions": [{"type": "Ready", "status": "False"},
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}}))
}

pub(super) fn stalled(reason: &str, message: &str) -> Value {
    let mut rollout = at(1, "StepUpgrade", NOW);
    let condition = json!({"type": "Stalled", "status": "True", "reason": reason, "message": message});
    rollout["status"]["conditions"]
        .as_array_mut()
        .unwrap()
        .push(condition);
    rollout
}

pub(super) fn not_guarded(reason: &str, message: &str) -> Value {
    edited(
        rollout(),
        "/status/conditions/0",
        json!({"type": "Guarded", "status": "False", "reason": reason, "message": message}),
    )
}

pub(super) fn leftover() -> Value {
    without(
        releasing(names::HOLD_PARTITION),
        "/metadata/annotations",
        names::GUARDED_BY,
    )
}

/// A controller that governs other namespaces than the one that is looked at.
pub(super) fn of_a_part(facts: &mut Facts) {
    let area = Area::of("kruise-rollout", ["bar".to_owned()]).unwrap();
    let mut of_part = configuration();
    of_part["metadata"]["name"] = json!(area.name(names::WEBHOOK_CONFIGURATION));
    of_part["webhooks"][0]["namespaceSelector"] = area.selector();
    facts.registrations.webhooks = Looked::Seen(vec![of_part]);
}

pub(super) fn two_rollouts(mut facts: Facts) -> Facts {
    let mut other = facts.subjects[0].rollout.clone();
    other.metadata.name = Some("late".to_owned());
    facts.rollouts = Looked::Seen(vec![facts.subjects[0].rollout.clone(), other]);
    facts
}
