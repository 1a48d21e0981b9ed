//! Servers of the existing controller: Rollouts in `v1alpha1` only, and in versions that nobody knows yet.

use kruise_rollout::names;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use support::{ControlPlane, Identity, Options, build_binaries, eventually};

use crate::plugin::Said;
use crate::scene::SOON;

/// A definition of Rollouts with these versions, of which nothing is known but that they have a status.
fn definition(versions: &[&str]) -> Value {
    let version = |(index, name): (usize, &&str)| {
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        json!({"name": name, "served": true, "storage": index == 0, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}}})
    };
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "rollouts.rollouts.kruise.io"},
        "spec": {"group": names::GROUP, "scope": "Namespaced",
            "names": {"kind": "Rollout", "plural": "rollouts", "singular": "rollout"},
            "versions": versions.iter().enumerate().map(version).collect::<Vec<_>>()}})
}

struct Old(ControlPlane);

impl Old {
    async fn start(versions: &[&str]) -> Self {
        build_binaries().unwrap();
        let old = Self(ControlPlane::start(Options::default()).await.unwrap());
        old.define(versions).await;
        let sets = old.api("apps", "v1", "StatefulSet", "statefulsets").await;
        let set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web"},
            "spec": {"replicas": 5, "serviceName": "web", "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "app", "image": "my-registry/my-app:v1"}]}}}});
        let set = serde_json::from_value(set).unwrap();
        sets.create(&PostParams::default(), &set).await.unwrap();
        eventually(SOON, "its pods are ready", async || {
            let set = serde_json::to_value(sets.get("web").await.unwrap()).unwrap();
            if set["status"]["readyReplicas"] == 5 {
                Ok(())
            } else {
                Err(set["status"].to_string())
            }
        })
        .await;
        old
    }

    async fn api(&self, group: &str, version: &str, kind: &str, plural: &str) -> Api<DynamicObject> {
        let gvk = GroupVersionKind::gvk(group, version, kind);
        let resource = ApiResource::from_gvk_with_plural(&gvk, plural);
        let client = self.0.client(Identity::Admin).await.unwrap();
        if kind == "CustomResourceDefinition" {
            Api::all_with(client, &resource)
        } else {
            Api::namespaced_with(client, "default", &resource)
        }
    }

    async fn rollouts(&self, version: &str) -> Api<DynamicObject> {
        self.api(names::GROUP, version, "Rollout", "rollouts").await
    }

    async fn define(&self, versions: &[&str]) {
        let api = self
            .api(
                "apiextensions.k8s.io",
                "v1",
                "CustomResourceDefinition",
                "customresourcedefinitions",
            )
            .await;
        let params = PatchParams::apply("test").force();
        let patch = Patch::Apply(definition(versions));
        api.patch("rollouts.rollouts.kruise.io", &params, &patch)
            .await
            .unwrap();
        for version in versions {
            let rollouts = self.rollouts(version).await;
            eventually(SOON, "the version is served", async || {
                rollouts
                    .list(&kube::api::ListParams::default())
                    .await
                    .map_err(|error| error.to_string())
            })
            .await;
        }
    }

    async fn create(&self, version: &str, mut rollout: Value) {
        let api = self.rollouts(version).await;
        let name = rollout["metadata"]["name"].as_str().unwrap().to_owned();
        let mut status = rollout["status"].take();
        // As that controller names it: the part behind the last dash.
        let sets = self.api("apps", "v1", "StatefulSet", "statefulsets").await;
        let set = serde_json::to_value(sets.get("web").await.unwrap()).unwrap();
        let revision = set["status"]["updateRevision"].as_str().unwrap();
        status["canaryStatus"]["canaryRevision"] = json!(revision.rsplit('-').next());
        let object = serde_json::from_value(rollout).unwrap();
        api.create(&PostParams::default(), &object).await.unwrap();
        let patch = Patch::Merge(json!({"status": status}));
        api.patch_status(&name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    async fn kruise(&self, words: &str) -> Said {
        let mut command = self.0.kubectl(Identity::Admin);
        let output = command
            .arg("kruise")
            .args(words.split(' '))
            .output()
            .await
            .unwrap();
        Said {
            code: output.status.code().unwrap(),
            answer: String::from_utf8(output.stdout).unwrap(),
            talk: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// A release of the existing controller that waits in its first step.
fn paused(version: &str) -> Value {
    let workload = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"});
    let (reference, steps) = if version == "v1alpha1" {
        (
            json!({"objectRef": {"workloadRef": workload}}),
            json!([{"weight": 20, "pause": {}}, {"weight": 100}]),
        )
    } else {
        (
            json!({"workloadRef": workload}),
            json!([{"replicas": "20%", "pause": {}}, {"replicas": "100%"}]),
        )
    };
    let mut spec = reference;
    spec["strategy"] = json!({"canary": {"steps": steps}});
    json!({"apiVersion": format!("{}/{version}", names::GROUP), "kind": "Rollout",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": spec,
        "status": {"phase": "Progressing", "message": "Rollout is in step(1/2), and you need manually confirm to enter the next step",
            "conditions": [{"type": "Progressing", "status": "True", "reason": "InRolling", "message": "Rollout is in Progressing",
                "lastTransitionTime": "2026-01-01T00:00:00Z", "lastUpdateTime": "2026-01-01T00:00:00Z"}],
            "canaryStatus": {"currentStepIndex": 1, "currentStepState": "StepPaused", "canaryRevision": "b", "stableRevision": "a",
                "podTemplateHash": "b", "canaryReplicas": 1, "canaryReadyReplicas": 1, "lastUpdateTime": "2026-01-01T00:00:00Z"}}})
}

#[tokio::test]
async fn r64_rollouts_of_v1alpha1_are_shown_approved_and_followed() {
    let old = Old::start(&["v1alpha1"]).await;
    old.create("v1alpha1", paused("v1alpha1")).await;

    let shown = old
        .kruise("rollout status rollout/web --watch=false -o json")
        .await;
    let report: Value = serde_json::from_str(&shown.answer).unwrap_or_else(|_| panic!("{shown:?}"));
    assert_eq!(report["state"], "AwaitingApproval", "{report:#}");
    let again = old.kruise("rollout status web --watch=false").await;
    assert!(again.answer.contains("step 1 of 2"), "{again:?}");

    let late = old.kruise("rollout approve web --step 2").await;
    assert_eq!(late.code, 1, "{late:?}");
    let watching = async {
        let watched = old.kruise("rollout status web --timeout=60s -o json").await;
        assert_eq!(watched.code, 0, "{watched:?}");
        watched
    };
    let working = async {
        let approved = old.kruise("rollout approve rollout/web").await;
        assert_eq!(
            (approved.code, approved.answer.as_str()),
            (0, "rollout.rollouts.kruise.io/web approved\n"),
            "{approved:?}"
        );
        let api = old.rollouts("v1alpha1").await;
        let stored = serde_json::to_value(api.get("web").await.unwrap()).unwrap();
        assert_eq!(stored["status"]["canaryStatus"]["currentStepState"], "StepReady");
        assert!(stored["spec"]["objectRef"].is_object(), "{stored:#}");
        // The controller ends the release.
        let done = json!({"status": {"phase": "Healthy", "canaryStatus": {"currentStepIndex": 2, "currentStepState": "Completed"},
            "conditions": [{"type": "Succeeded", "status": "True", "reason": "Completed", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z", "lastUpdateTime": "2026-01-01T00:00:00Z"}]}});
        api.patch_status("web", &PatchParams::default(), &Patch::Merge(done))
            .await
            .unwrap();
    };
    let (watched, ()) = tokio::join!(watching, working);
    let last: Value = serde_json::from_str(watched.answer.lines().last().unwrap()).unwrap();
    assert_eq!(last["phase"], "Healthy", "{last:#}");

    let missing = old.kruise("rollout status wed --watch=false").await;
    assert!(
        missing.code == 1 && missing.talk.contains("did you mean web?"),
        "{missing:?}"
    );
    let version = old.kruise("version").await;
    assert!(version.answer.contains("Rollouts:   v1alpha1\n"), "{version:?}");
}

#[tokio::test]
async fn r64_the_version_is_chosen_among_those_that_are_served() {
    let old = Old::start(&["v1"]).await;
    let unknown = old.kruise("rollout status web --watch=false").await;
    assert!(
        unknown.code == 1
            && unknown
                .talk
                .contains("the server has Rollouts in v1, and this plugin knows v1beta1 and v1alpha1"),
        "{unknown:?}"
    );
    // One that is known beside others, whatever is stored.
    old.define(&["v1alpha1", "v1beta1", "v1"]).await;
    old.create("v1beta1", paused("v1beta1")).await;
    let shown = old.kruise("rollout status web --watch=false").await;
    assert!(
        shown.answer.contains("AwaitingApproval, step 1 of 2"),
        "{shown:?}"
    );
    for target in [
        "rollouts/web",
        "rollout web",
        "rollouts.v1beta1.rollouts.kruise.io/web",
        "ro/web",
    ] {
        let named = old
            .kruise(&format!("rollout status {target} --watch=false -o name"))
            .await;
        assert_eq!(named.answer, "rollout.rollouts.kruise.io/web\n", "{named:?}");
    }
    let approved = old.kruise("rollout approve web").await;
    assert_eq!(approved.code, 0, "{approved:?}");

    let version = old.kruise("version -o json").await;
    let version: Value = serde_json::from_str(&version.answer).unwrap();
    let served = version["rolloutVersions"].as_array().unwrap();
    assert_eq!(served.len(), 3, "{version:#}");
    assert!(version["serverVersion"].as_str().unwrap().starts_with("v1."));
    assert!(
        version["clientVersion"]["target"]
            .as_str()
            .unwrap()
            .contains("linux")
    );
    assert!(version.get("controller").is_none());
}
