//! Several controllers in one cluster, each for namespaces of its own.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kruise_rollout::area::in_part;
use kruise_rollout::names;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use support::{ControlPlane, Identity, Installation, Options, eventually};

use crate::outage::{failure_policy_of, wait_failure_policy_of};
use crate::plugin::kruise;
use crate::scene::{APP, SOON, Scene, mark, partition, walk_steps};
use crate::uninstall::{assert_unmarked, registered, uninstall};

/// Namespace of the second controller.
const SECOND: &str = "kruise-rollout-b";
/// What a controller of a part asks of the whole cluster: none of it is in a namespace.
const CLUSTER_WIDE: [&str; 9] = [
    "clusterroles",
    "customresourcedefinitions",
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "mutatingwebhookconfigurations",
    "selfsubjectreviews",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "validatingwebhookconfigurations",
];

/// A whole release, which waits for its people.
async fn release(scene: &Scene<'_>) {
    scene.set(Some(0), &walk_steps()).await;
    let changed = scene.set_version("v2").await;
    assert_eq!(partition(&changed), names::HOLD_PARTITION);
    scene.wait_state(1, "StepPaused").await;
    scene.approve().await;
    scene.wait_phase("Healthy").await;
    scene.wait_pods("v2", 5).await;
}

/// Namespaces that a controller has asked for, and what it has asked for in all of them at once.
fn asked(control_plane: &ControlPlane, identity: Identity) -> (BTreeSet<String>, BTreeSet<String>) {
    let audit = control_plane.audit();
    let entries = audit.since(audit.beginning()).into_iter();
    let ours = entries.filter(|entry| entry.user == identity.user() && !entry.resource.is_empty());
    let (wide, narrow): (Vec<_>, Vec<_>) = ours.partition(|entry| entry.namespace.is_empty());
    (
        narrow.into_iter().map(|entry| entry.namespace).collect(),
        wide.into_iter().map(|entry| entry.resource).collect(),
    )
}

/// What each of the controllers has done was within its rights, and the workloads of the other one are beyond them.
async fn no_right_reaches_further(control_plane: &ControlPlane, [first, second]: [&Scene<'_>; 2]) {
    let audit = control_plane.audit();
    for (identity, governed, other) in [
        (Identity::Controller, first, second),
        (Identity::OtherController, second, first),
    ] {
        // What is only tried may be refused by our own policies: that is how they are seen to hold.
        let entries = audit.since(audit.beginning()).into_iter();
        let refused: Vec<_> = entries
            .filter(|entry| entry.user == identity.user() && entry.code == 403 && !entry.dry_run)
            .collect();
        assert!(refused.is_empty(), "{refused:#?}");
        assert_eq!(
            beyond_rights(governed, identity).await,
            [false; 4],
            "{identity:?}"
        );
        assert_eq!(beyond_rights(other, identity).await, [true; 4], "{identity:?}");
    }
}

/// Whether the API server refuses to have the workloads, Rollouts and pods of a scene read, and the workload patched.
pub async fn beyond_rights(scene: &Scene<'_>, identity: Identity) -> [bool; 4] {
    let client = scene.namespace.client(identity).await.unwrap();
    let all = ListParams::default();
    let pods: Api<Pod> = Api::namespaced(client.clone(), scene.namespace.name());
    let label = Patch::Merge(json!({"metadata": {"labels": {"x": "y"}}}));
    let dry_run = PatchParams::default().dry_run();
    [
        is_forbidden(scene.apps(&client).list(&all).await),
        is_forbidden(scene.rollouts(&client).list(&all).await),
        is_forbidden(pods.list(&all).await),
        is_forbidden(scene.apps(&client).patch(APP, &dry_run, &label).await),
    ]
}

fn is_forbidden<T>(answer: kube::Result<T>) -> bool {
    match answer {
        Ok(_) => false,
        Err(kube::Error::Api(status)) if status.code == 403 => true,
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn two_controllers_share_a_cluster_and_each_governs_its_own_namespaces() {
    let control_plane = ControlPlane::start(Options::default()).await.unwrap();
    let bare = Installation::new(&control_plane).unwrap();
    let first = Scene::new(&bare, "parts-first").await;
    let second = Scene::new(&bare, "parts-second").await;
    let nobodys = Scene::new(&bare, "parts-nobodys").await;
    let of = |scene: &Scene<'_>| format!("--watch-namespaces={}", scene.namespace.name());

    let _of_first = Installation::start_with(&control_plane, &[&of(&first)])
        .await
        .unwrap();
    let (namespace, part) = (format!("--namespace={SECOND}"), of(&second));
    let mut of_second = Installation::new(&control_plane).unwrap();
    of_second.set_flags(&[&namespace, &part]);
    of_second.apply_manifests().await.unwrap();
    let kubeconfig = control_plane.kubeconfig(Identity::OtherController);
    of_second.start_controller_with(&kubeconfig, &[]).await.unwrap();

    // By the webhooks first, and then by the policies.
    tokio::join!(release(&first), release(&second));
    let configurations =
        [names::DEFAULT_NAMESPACE, SECOND].map(|own| in_part(names::WEBHOOK_CONFIGURATION, own));
    for (scene, configuration) in [&first, &second].into_iter().zip(&configurations) {
        wait_failure_policy_of(&scene.admin, configuration, "Ignore").await;
        let changed = scene.set_version("v3").await;
        assert_eq!(partition(&changed), names::HOLD_PARTITION);
        scene.wait_state(1, "StepPaused").await;
        scene.approve().await;
        scene.wait_phase("Healthy").await;
    }

    // Where nobody governs, a Rollout is nothing and an update is an update.
    nobodys.create_app(&nobodys.manifest("v1", Some(0))).await;
    nobodys.wait_pods("v1", 5).await;
    nobodys.create_rollout(&walk_steps()).await;
    let changed = nobodys.set_version("v2").await;
    assert_eq!(partition(&changed), 0);
    assert_unmarked(&changed);
    nobodys.wait_pods("v2", 5).await;
    assert_eq!(nobodys.rollout().await["status"].get("phase"), None);

    let own = |namespace: &str, scene: &Scene<'_>| {
        BTreeSet::from([namespace.to_owned(), scene.namespace.name().to_owned()])
    };
    for (identity, namespaces) in [
        (Identity::Controller, own(names::DEFAULT_NAMESPACE, &first)),
        (Identity::OtherController, own(SECOND, &second)),
    ] {
        let (narrow, wide) = asked(&control_plane, identity);
        assert_eq!(narrow, namespaces);
        let known: BTreeSet<_> = CLUSTER_WIDE.map(str::to_owned).into();
        assert_eq!(wide.difference(&known).collect::<Vec<_>>(), [""; 0]);
    }

    no_right_reaches_further(&control_plane, [&first, &second]).await;

    // One of them goes: the other one and what it governs stay.
    of_second.kill_controller();
    let answer = uninstall(&of_second, &[&namespace, &part]).await;
    assert_eq!(answer.lines().count(), 1, "{answer}");
    assert_unmarked(&second.app().await);
    let left = registered(&first.admin).await;
    assert!(left.iter().all(|name| !name.ends_with(SECOND)), "{left:?}");
    let [kept, gone] = &configurations;
    assert_eq!(
        failure_policy_of(&first.admin, kept).await.as_deref(),
        Some("Ignore")
    );
    assert_eq!(failure_policy_of(&first.admin, gone).await, None);
    assert_ne!(mark(&first.app().await, names::GUARDED_BY), &Value::Null);
    let changed = first.set_version("v4").await;
    assert_eq!(partition(&changed), names::HOLD_PARTITION);
}

/// Whether an installation and the doctor say that another controller governs the namespace too.
async fn overlap_is_said(installation: &Installation<'_>, scene: &Scene<'_>, own: &str, is: bool) {
    eventually(SOON, &format!("the overlap is said in {own}: {is}"), async || {
        let metrics = installation.metrics().await.unwrap();
        let counted = metrics.contains(&format!("kruise_rollout_other_controller {}", i64::from(is)));
        let installed = format!("--controller-namespace={own}");
        let doctor = kruise(scene, Identity::Admin, &["doctor", &installed, "-o", "json"]).await;
        let sentence = format!("governs the namespace {} too", scene.namespace.name());
        let told = doctor.answer.contains(&sentence);
        if counted && told == is {
            Ok(())
        } else {
            Err(format!("{counted} {}", doctor.answer))
        }
    })
    .await;
}

#[tokio::test]
async fn a_namespace_that_two_controllers_govern_is_named() {
    let control_plane = ControlPlane::start(Options::default()).await.unwrap();
    let whole = Installation::start(&control_plane).await.unwrap();
    let scene = Scene::new(&whole, "overlap").await;
    scene.set(Some(0), &walk_steps()).await;
    overlap_is_said(&whole, &scene, names::DEFAULT_NAMESPACE, false).await;

    let flags = [
        format!("--namespace={SECOND}"),
        format!("--watch-namespaces={}", scene.namespace.name()),
    ];
    let flags = flags.each_ref().map(String::as_str);
    let mut part = Installation::new(&control_plane).unwrap();
    part.set_flags(&flags);
    part.apply_manifests().await.unwrap();
    let kubeconfig = control_plane.kubeconfig(Identity::OtherController);
    part.start_controller_with(&kubeconfig, &[]).await.unwrap();
    overlap_is_said(&whole, &scene, names::DEFAULT_NAMESPACE, true).await;
    overlap_is_said(&part, &scene, SECOND, true).await;
    // Each of them tells of the registration of the other one.
    let events: Api<Event> = Api::all(scene.admin.clone());
    let reason = ListParams::default().fields("reason=TwoControllers");
    let theirs = in_part(names::WEBHOOK_CONFIGURATION, SECOND);
    eventually(SOON, "two events", async || {
        let found = events.list(&reason).await.map_err(|error| error.to_string())?;
        let about: BTreeSet<_> = found
            .items
            .into_iter()
            .filter_map(|event| event.involved_object.name)
            .collect();
        let both = BTreeSet::from([names::WEBHOOK_CONFIGURATION.to_owned(), theirs.clone()]);
        if about == both {
            Ok(())
        } else {
            Err(format!("{about:?}"))
        }
    })
    .await;

    part.kill_controller();
    let roles: Api<ClusterRole> = Api::all(scene.admin.clone());
    let role = in_part(names::CLUSTER_ROLE, SECOND);
    roles.delete(&role, &DeleteParams::default()).await.unwrap();
    overlap_is_said(&whole, &scene, names::DEFAULT_NAMESPACE, false).await;
}
