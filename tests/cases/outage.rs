//! Outages: what is held while no process of ours runs, and that nobody's update waits for us.

use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kruise_rollout::names;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use support::{Component, ControlPlane, Identity, Installation, Options, eventually};
use tokio::time::sleep;

use crate::gate::Gate;
use crate::scene::{SOON, Scene, image, mark, partition, walk_steps};
use crate::writes::{Way, Write, send};

/// How many workloads are written during the outage.
const WORKLOADS: usize = 20;
/// How long nothing of ours runs after the last of these writes.
const OUTAGE: Duration = Duration::from_secs(60);
/// How long the API server waits for a webhook that it can do without. An answer that is quicker has not waited for it.
const WEBHOOK_TIMEOUT: Duration = Duration::from_secs(1);

/// What is to happen when the webhook fails, for updates of the example's apps.
pub async fn failure_policy(admin: &Client) -> Option<String> {
    failure_policy_of(admin, names::WEBHOOK_CONFIGURATION).await
}

/// The same by a webhook configuration of this name.
pub async fn failure_policy_of(admin: &Client, configuration: &str) -> Option<String> {
    let api: Api<MutatingWebhookConfiguration> = Api::all(admin.clone());
    let found = api.get_opt(configuration).await.unwrap()?;
    let name = format!("mystatefulapps.example.io.{}", names::HOLD_WEBHOOK);
    let entry = found
        .webhooks
        .unwrap_or_default()
        .into_iter()
        .find(|entry| entry.name == name);
    entry?.failure_policy
}

/// Waits until the API server can do with or without the webhook.
pub async fn wait_failure_policy(admin: &Client, wanted: &str) {
    wait_failure_policy_of(admin, names::WEBHOOK_CONFIGURATION, wanted).await;
}

/// The same by a webhook configuration of this name.
pub async fn wait_failure_policy_of(admin: &Client, configuration: &str, wanted: &str) {
    eventually(
        SOON,
        &format!("failurePolicy {wanted}"),
        async || match failure_policy_of(admin, configuration).await {
            Some(policy) if policy == wanted => Ok(()),
            other => Err(format!("{other:?}")),
        },
    )
    .await;
}

fn policies(admin: &Client, kind: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind);
    Api::all_with(admin.clone(), &ApiResource::from_gvk(&kind))
}

/// Brings v2 into the cluster in one of five ways.
async fn write(scene: &Scene<'_>, number: usize) {
    let manifest = scene.manifest("v2", Some(0));
    match number % 5 {
        0 => drop(scene.deploy(Way::Merge, &image("v2")).await),
        1 => drop(scene.deploy(Way::Kubectl, &manifest).await),
        2 => drop(scene.apply(&manifest, true).await.object()),
        3 => drop(scene.deploy(Way::Put, &manifest).await),
        _ => {
            let mut both = image("v2");
            both["spec"]["replicas"] = json!(7);
            let apps = scene.apps(&scene.developer);
            let answer = send(&scene.developer, &apps, crate::scene::APP, Write::Merge(&both)).await;
            drop(answer.object());
        }
    }
}

#[tokio::test]
async fn with_every_process_of_ours_stopped_updates_pass_and_nothing_escapes() {
    let control_plane = ControlPlane::start(Options::default()).await.unwrap();
    let mut installation = Installation::start(&control_plane).await.unwrap();
    let mut scenes = Vec::new();
    for _ in 0..WORKLOADS {
        let scene = Scene::new(&installation, "outage").await;
        scene.create_app(&scene.manifest("v1", Some(0))).await;
        scene.create_rollout(&walk_steps()).await;
        scenes.push(scene);
    }
    let mut gates = Vec::new();
    for scene in &scenes {
        scene.wait_pods("v1", 5).await;
        scene.wait_phase("Healthy").await;
        gates.push(Gate::open(scene).await);
    }
    wait_failure_policy(&scenes[0].admin, "Ignore").await;
    installation.kill_controller();

    let since = control_plane.audit().mark();
    for (number, scene) in scenes.iter().enumerate() {
        write(scene, number).await;
        let app = scene.app().await;
        assert_eq!(partition(&app), names::HOLD_PARTITION, "{app:#}");
        assert_eq!(mark(&app, names::GRANTED_PARTITION), "32767", "{app:#}");
    }
    let took = writes_took(&control_plane, since).await;
    println!("{WORKLOADS} updates without us: slowest {:?}", took.last());
    assert!(took.last() < Some(&WEBHOOK_TIMEOUT), "{took:?}");

    sleep(OUTAGE).await;
    for (number, (scene, gate)) in scenes.iter().zip(&gates).enumerate() {
        let replicas = if number % 5 == 4 { 7 } else { 5 };
        let pods = scene.wait_pods("v1", replicas).await;
        assert_eq!(scene.pods().await.len(), pods.len(), "no pod of another version");
        let steps = gate.steps("v2").await;
        assert!(steps.iter().all(|(_, pods)| *pods == 0), "{steps:?}");
    }

    installation.start_controller().await.unwrap();
    for scene in &scenes {
        scene.wait_state(1, "StepPaused").await;
        scene.wait_pods("v2", 1).await;
        eventually(SOON, "what was changed meanwhile is told", async || {
            match scene.events("ChangedWhileAway").await.as_slice() {
                [told] if told.contains("a new template") => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
        scene.approve().await;
    }
    for scene in &scenes {
        scene.wait_phase("Healthy").await;
    }
}

/// How long the API server took for each write of an app by a developer, in order.
async fn writes_took(control_plane: &ControlPlane, since: support::Mark) -> Vec<Duration> {
    let mut took = Vec::new();
    eventually(SOON, "the writes are logged", async || {
        let entries = control_plane.audit().since(since).into_iter();
        let ours = entries.filter(|entry| {
            entry.resource == "mystatefulapps"
                && entry.subresource.is_empty()
                && entry.user == Identity::Developer.user()
                && entry.succeeded()
        });
        took = ours
            .map(|entry| entry.answered.duration_since(entry.received).unsigned_abs())
            .collect();
        if took.len() == WORKLOADS {
            Ok(())
        } else {
            Err(took.len())
        }
    })
    .await;
    took.sort();
    took
}

#[tokio::test]
async fn the_webhook_must_answer_again_as_soon_as_a_policy_is_gone() {
    let control_plane = ControlPlane::start(Options::default()).await.unwrap();
    let mut installation = Installation::start(&control_plane).await.unwrap();
    let scene = Scene::new(&installation, "broken").await;
    scene.set(Some(0), &walk_steps()).await;
    let admin = &scene.admin;
    wait_failure_policy(admin, "Ignore").await;

    // A restart changes nothing of it, and writes nothing.
    let since = control_plane.audit().mark();
    installation.kill_controller();
    installation.start_controller().await.unwrap();
    scene.looked_at("release-1").await;
    let registrations = control_plane.audit().since(since).into_iter();
    let registrations: Vec<_> = registrations
        .filter(|entry| entry.group == "admissionregistration.k8s.io" && entry.is_write())
        .collect();
    assert!(registrations.is_empty(), "{registrations:#?}");

    for (kind, how) in [
        ("MutatingAdmissionPolicy", "deleted"),
        ("MutatingAdmissionPolicyBinding", "deleted"),
        ("ValidatingAdmissionPolicy", "deleted"),
        ("MutatingAdmissionPolicy", "narrowed"),
        ("MutatingAdmissionPolicyBinding", "narrowed"),
    ] {
        let changes = Changes {
            control_plane: &control_plane,
            since: control_plane.audit().mark(),
        };
        let api = policies(admin, kind);
        let list = api.list(&ListParams::default()).await.unwrap();
        let name = list
            .items
            .iter()
            .map(|item| item.name_any())
            .find(|name| {
                name.starts_with("kruise-rollout-hold") || name.starts_with("kruise-rollout-confirm")
            })
            .unwrap();
        if how == "deleted" {
            api.delete(&name, &DeleteParams::default()).await.unwrap();
        } else {
            let selector = json!({"matchLabels": {"nobody": "has-this"}});
            let spec = if kind.ends_with("Binding") {
                json!({"matchResources": {"objectSelector": selector}})
            } else {
                json!({"matchConstraints": {"objectSelector": selector}})
            };
            let patch = Patch::Merge(json!({ "spec": spec }));
            api.patch(&name, &PatchParams::default(), &patch).await.unwrap();
        }
        changes.wait(&["Fail", "Ignore"], &format!("{kind} {how}")).await;
        wait_failure_policy(admin, "Ignore").await;
    }

    // Nor does it prove anything that somebody writes so.
    let name = names::WEBHOOK_CONFIGURATION;
    installation.kill_controller();
    for policy in policies(admin, "MutatingAdmissionPolicyBinding")
        .list(&ListParams::default())
        .await
        .unwrap()
    {
        let api = policies(admin, "MutatingAdmissionPolicyBinding");
        api.delete(&policy.name_any(), &DeleteParams::default())
            .await
            .unwrap();
    }
    let changes = Changes {
        control_plane: &control_plane,
        since: control_plane.audit().mark(),
    };
    installation.start_controller().await.unwrap();
    changes
        .wait(&["Fail", "Ignore"], "an outage in which a binding was deleted")
        .await;
    let ignore = json!([{"op": "replace", "path": "/webhooks/0/timeoutSeconds", "value": 30}]);
    let patch: Patch<()> = Patch::Json(serde_json::from_value(ignore).unwrap());
    let api: Api<MutatingWebhookConfiguration> = Api::all(admin.clone());
    api.patch(name, &PatchParams::default(), &patch).await.unwrap();
    eventually(SOON, "the entry is as it was", async || {
        let found = api.get(name).await.unwrap();
        let seconds = found.webhooks.unwrap()[0].timeout_seconds;
        if seconds == Some(1) {
            Ok(())
        } else {
            Err(format!("{seconds:?}"))
        }
    })
    .await;
}

#[tokio::test]
async fn a_server_relies_on_the_webhook_where_it_is_older_or_told_so() {
    let options = Options {
        api_server_flags: vec!["--emulated-version=1.35".to_owned()],
        ..Options::default()
    };
    let control_plane = ControlPlane::start(options).await.unwrap();
    let mut installation = Installation::start(&control_plane).await.unwrap();
    let scene = Scene::new(&installation, "older").await;
    scene.set(Some(0), &walk_steps()).await;
    assert_eq!(failure_policy(&scene.admin).await.as_deref(), Some("Fail"));
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;

    control_plane.set_flags(Component::ApiServer, &[]);
    control_plane
        .restart_component(Component::ApiServer)
        .await
        .unwrap();
    // The server is asked again from time to time.
    eventually(
        SOON * 2,
        "it relies on the policies",
        async || match failure_policy(&scene.admin).await {
            Some(policy) if policy == "Ignore" => Ok(()),
            other => Err(format!("{other:?}")),
        },
    )
    .await;
    installation.kill_controller();
    let held = scene.set_version("v3").await;
    assert_eq!(partition(&held), names::HOLD_PARTITION);

    // Back to the older server, which has no policies: the webhook has to answer again.
    installation.start_controller().await.unwrap();
    let older = ["--emulated-version=1.35"];
    control_plane.set_flags(Component::ApiServer, &older);
    control_plane
        .restart_component(Component::ApiServer)
        .await
        .unwrap();
    wait_failure_policy(&scene.admin, "Fail").await;
    control_plane.set_flags(Component::ApiServer, &[]);
    control_plane
        .restart_component(Component::ApiServer)
        .await
        .unwrap();
    installation.kill_controller();

    // The webhook alone, by its flag. The policies go.
    installation.set_flags(&["--admission=webhook"]);
    installation.start_controller().await.unwrap();
    wait_failure_policy(&scene.admin, "Fail").await;
    eventually(SOON, "no policy holds", async || {
        let list = policies(&scene.admin, "MutatingAdmissionPolicy");
        match list.list(&ListParams::default()).await.unwrap().items.len() {
            0 => Ok(()),
            left => Err(left),
        }
    })
    .await;
    // Kubelet and scheduler take their time after three restarts of the server, so that no pod is waited for here.
    eventually(SOON * 3, "the release goes on", async || {
        let app = scene.app().await;
        if partition(&app) == 4 {
            Ok(())
        } else {
            Err(format!("{app:#}"))
        }
    })
    .await;
}

/// What the webhook's failure policy is written to from now on.
struct Changes<'a> {
    control_plane: &'a ControlPlane,
    since: support::Mark,
}

impl Changes<'_> {
    async fn wait(&self, wanted: &[&str], after: &str) {
        eventually(SOON, &format!("{wanted:?} after {after}"), async || {
            let entries = self.control_plane.audit().since(self.since).into_iter();
            let written: Vec<_> = entries
                .filter(|entry| {
                    entry.resource == "mutatingwebhookconfigurations" && entry.is_write() && entry.succeeded()
                })
                .map(|entry| written_policy(&entry.request))
                .collect();
            if written == wanted {
                Ok(())
            } else {
                Err(format!("{written:?}"))
            }
        })
        .await;
    }
}

/// The failure policy in a JSON patch of the configuration.
fn written_policy(patch: &Value) -> String {
    let text = patch.to_string();
    ["Ignore", "Fail"]
        .into_iter()
        .find(|policy| text.contains(&format!("\"failurePolicy\":\"{policy}\"")))
        .unwrap_or("none")
        .to_owned()
}
