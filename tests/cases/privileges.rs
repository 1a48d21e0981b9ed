//! What the controller is allowed to, and what of it the API server's audit log has it use: each right, in one life of an installation.

use std::collections::BTreeSet;
use std::process::Command;

use k8s_openapi::api::core::v1::Secret;
use kruise_rollout::names;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use support::{ControlPlane, Entry, Identity, Installation, Options, eventually};

use crate::scene::{SOON, Scene, condition, walk_steps};

/// Group, resource, verb.
type Right = (String, String, String);

/// Rights that this life does not use for certain, and why they are there.
const EXCUSED: [(&str, &str, &str, &str); 1] = [(
    "coordination.k8s.io",
    "leases",
    "get",
    "the lease is read again when two replicas wrote it at the same moment",
)];
/// The roles of kinds whose pods the controller moves itself, and of what another controller has left. Their cases run under these
/// rights, and use them.
const ELSEWHERE: [&str; 3] = [
    "kruise-rollout-controller-deployments",
    "kruise-rollout-controller-daemonsets",
    "kruise-rollout-controller-batchreleases",
];
/// The operators of these kinds do not run here; `mystatefulapps` stand for them, since every kind goes the same way.
const ALIKE: &str = "apps.kruise.io";

/// Sorts of what the controller registers.
const REGISTERED: [&str; 6] = [
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
];

fn registrations(admin: &Client, kind: &str) -> Api<DynamicObject> {
    let gvk = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind);
    Api::all_with(admin.clone(), &ApiResource::from_gvk(&gvk))
}

/// Our registrations of a sort.
async fn ours(admin: &Client, kind: &str) -> Vec<DynamicObject> {
    let all = registrations(admin, kind).list(&ListParams::default()).await;
    let all = all.unwrap().items.into_iter();
    all.filter(|object| object.name_any().contains("kruise-rollout"))
        .collect()
}

/// The rights that the manifests give the controller, and that the example's role adds to them.
fn granted(installation: &Installation<'_>) -> BTreeSet<Right> {
    let manifests = Command::new(&installation.product().controller)
        .arg("manifests")
        .output()
        .unwrap();
    let text = String::from_utf8(manifests.stdout).unwrap();
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    let own = |document: &&Value| {
        let gathered = document["metadata"]["labels"][names::AGGREGATE_TO_CONTROLLER] == "true";
        let elsewhere = document["metadata"]["name"]
            .as_str()
            .is_some_and(|name| ELSEWHERE.contains(&name));
        document["kind"] == "Role" || (gathered && !elsewhere)
    };
    let rules = documents
        .iter()
        .filter(own)
        .filter_map(|role| role["rules"].as_array())
        .flatten();
    let words = |rule: &Value, member: &str| -> Vec<String> {
        let words = rule[member].as_array().unwrap().iter();
        words.map(|word| word.as_str().unwrap().to_owned()).collect()
    };
    let mut rights: BTreeSet<Right> = names::KIND_VERBS
        .iter()
        .map(|verb| {
            (
                "example.io".to_owned(),
                "mystatefulapps".to_owned(),
                (*verb).to_owned(),
            )
        })
        .collect();
    for rule in rules {
        for group in words(rule, "apiGroups") {
            for resource in words(rule, "resources") {
                for verb in words(rule, "verbs") {
                    rights.insert((group.clone(), resource.clone(), verb));
                }
            }
        }
    }
    rights
}

/// What the controller has asked for.
fn requests(control_plane: &ControlPlane) -> Vec<Entry> {
    let audit = control_plane.audit();
    let all = audit.since(audit.beginning()).into_iter();
    all.filter(|entry| entry.user == Identity::Controller.user())
        .collect()
}

fn right_of(entry: &Entry) -> Right {
    let resource = match entry.subresource.as_str() {
        "" => entry.resource.clone(),
        subresource => format!("{}/{subresource}", entry.resource),
    };
    (entry.group.clone(), resource, entry.verb.clone())
}

#[tokio::test]
async fn each_right_of_the_controller_is_used() {
    let control_plane = ControlPlane::start(Options::default()).await.unwrap();
    let mut installation = Installation::start(&control_plane).await.unwrap();
    let admin = control_plane.client(Identity::Admin).await.unwrap();
    releases(&installation).await;
    a_stuck_pod(&installation).await;
    spoilt_registrations(&admin).await;
    a_spoilt_secret(&admin).await;

    // Where the webhook holds, the policies go.
    installation.kill_controller();
    installation.set_flags(&["--admission=webhook"]);
    installation.start_controller().await.unwrap();
    eventually(SOON, "only the policy of approvals is left", async || {
        let mut left = Vec::new();
        for kind in &REGISTERED[2..] {
            left.extend(ours(&admin, kind).await.iter().map(kube::ResourceExt::name_any));
        }
        let done = left.iter().all(|name| name == names::STATUS_POLICY);
        if done { Ok(()) } else { Err(left.join(", ")) }
    })
    .await;
    // Its watches appear in the log when they end.
    installation.kill_controller();

    let granted = granted(&installation);
    let excused = |right: &Right| {
        right.0 == ALIKE
            || EXCUSED.iter().any(|(group, resource, verb, _)| {
                (&*right.0, &*right.1, &*right.2) == (*group, *resource, *verb)
            })
    };
    for (group, resource, verb, why) in EXCUSED {
        let right = (group.to_owned(), resource.to_owned(), verb.to_owned());
        assert!(granted.contains(&right), "{right:?} is excused: {why}");
    }
    eventually(SOON, "every right is used", async || {
        let used: BTreeSet<_> = requests(&control_plane).iter().map(right_of).collect();
        let unused: Vec<_> = granted
            .difference(&used)
            .filter(|right| !excused(right))
            .collect();
        if unused.is_empty() {
            Ok(())
        } else {
            Err(format!("unused: {unused:#?}"))
        }
    })
    .await;
    // What is only tried may be refused by our own policies: that is how they are seen to hold.
    let refused: Vec<_> = requests(&control_plane)
        .iter()
        .filter(|entry| entry.code == 403 && !entry.dry_run)
        .map(right_of)
        .collect();
    assert_eq!(refused, []);
}

/// Releases with an approval and without an end: of many templates, of an older one again, back, disabled in between, left by its
/// Rollout.
async fn releases(installation: &Installation<'_>) {
    let scene = Scene::new(installation, "rights-release").await;
    scene.set(Some(0), &walk_steps()).await;
    scene.name_release("r1").await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    pods_of_others(&scene).await;
    scene.approve().await;
    scene.wait_released().await;
    // Back at the first step.
    scene.set_version("v3").await;
    scene.wait_state(1, "StepPaused").await;
    scene.set_version("v2").await;
    rolled_back(&scene).await;
    // An older template again gets a new number, and the eleventh drops the oldest record.
    for version in ["v1", "v3"].into_iter().map(str::to_owned) {
        releases_to(&scene, &version).await;
    }
    for version in 4..=13 {
        releases_to(&scene, &format!("v{version}")).await;
    }
    scene.patch_rollout(&json!({"spec": {"disabled": true}})).await;
    scene.wait_phase("Disabled").await;
    scene
        .patch_rollout(
            &json!({"metadata": {"finalizers": [names::LEGACY_FINALIZER]}, "spec": {"disabled": false}}),
        )
        .await;
    scene.wait_phase("Healthy").await;
    scene.delete_rollout().await;
    eventually(SOON, "nobody governs the app any more", async || {
        let app = scene.app().await;
        let mark = &app["metadata"]["annotations"][names::GUARDED_BY];
        mark.is_null().then_some(()).ok_or(mark.clone())
    })
    .await;
}

async fn releases_to(scene: &Scene<'_>, version: &str) {
    scene.set_version(version).await;
    scene.wait_pods(version, 1).await;
}

/// Pods of a StatefulSet and of a Deployment: whether they belong to the app through these, their owners tell.
async fn pods_of_others(scene: &Scene<'_>) {
    for kind in ["StatefulSet", "Deployment"] {
        let gvk = GroupVersionKind::gvk("apps", "v1", kind);
        let api: Api<DynamicObject> = Api::namespaced_with(
            scene.admin.clone(),
            scene.namespace.name(),
            &ApiResource::from_gvk(&gvk),
        );
        let name = kind.to_lowercase();
        let labels = json!({"other": name});
        let object = json!({
            "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name},
            "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels},
                "spec": {"containers": [{"name": "other", "image": "my-registry/other:beside"}]}}},
        });
        let params = PatchParams::apply("others");
        api.patch(&name, &params, &Patch::Apply(object)).await.unwrap();
    }
    let audit = scene.namespace.control_plane();
    eventually(SOON, "the owners are asked for", async || {
        let asked = requests(audit);
        let of = |resource: &str| {
            asked
                .iter()
                .any(|entry| entry.resource == resource && entry.verb == "get")
        };
        (of("replicasets") && of("statefulsets"))
            .then_some(())
            .ok_or("not yet")
    })
    .await;
}

/// A pod of a version that crashes stands in the way of a rollback.
async fn a_stuck_pod(installation: &Installation<'_>) {
    let scene = Scene::with_stateful_set(installation, "rights-stuck").await;
    scene.set(None, &walk_steps()).await;
    // So long it may be in the way.
    let deadline = json!({"spec": {"strategy": {"canary": {"progressDeadlineSeconds": 2}}}});
    scene.patch_rollout(&deadline).await;
    scene.set_version("bad").await;
    eventually(SOON, "a pod of the bad version", async || {
        let pods = scene.pods().await;
        let crashes = pods.iter().any(|(_, version, ready)| version == "bad" && !ready);
        if crashes { Ok(()) } else { Err(format!("{pods:?}")) }
    })
    .await;
    scene.set_version("v1").await;
    rolled_back(&scene).await;
}

async fn rolled_back(scene: &Scene<'_>) {
    scene
        .wait("rolled back", |rollout| {
            condition(rollout, "Succeeded")["reason"] == "RolledBack"
        })
        .await;
}

/// Everything that is registered loses its owner, and gets it back.
async fn spoilt_registrations(admin: &Client) {
    for kind in REGISTERED {
        let found = ours(admin, kind).await;
        assert!(!found.is_empty(), "no {kind}");
        let name = found[0].name_any();
        let api = registrations(admin, kind);
        let orphan = Patch::Merge(json!({"metadata": {"ownerReferences": null}}));
        api.patch(&name, &PatchParams::default(), &orphan).await.unwrap();
        eventually(SOON, "it has its owner again", async || {
            let object = api.get(&name).await.map_err(|error| error.to_string())?;
            let owned = !object.owner_references().is_empty();
            owned.then_some(()).ok_or(format!("{kind} {name}"))
        })
        .await;
    }
}

/// The certificate's Secret is written again.
async fn a_spoilt_secret(admin: &Client) {
    const CERTIFICATE: &str = "tls.crt";
    let secrets: Api<Secret> = Api::namespaced(admin.clone(), names::DEFAULT_NAMESPACE);
    let patch = Patch::Merge(json!({"data": {CERTIFICATE: "AAAA"}}));
    let spoilt = secrets
        .patch(names::WEBHOOK_SERVICE, &PatchParams::default(), &patch)
        .await
        .unwrap();
    let certificate = |secret: &Secret| {
        secret
            .data
            .as_ref()
            .and_then(|data| data.get(CERTIFICATE).cloned())
    };
    eventually(SOON, "the Secret has another certificate", async || {
        let now = secrets.get(names::WEBHOOK_SERVICE).await;
        let now = now.map_err(|error| error.to_string())?;
        let written = certificate(&now) != certificate(&spoilt);
        written.then_some(()).ok_or("not yet".to_owned())
    })
    .await;
}
