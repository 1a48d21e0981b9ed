//! The kinds of OpenKruise, with stand-ins for its controllers.

mod updating;

use std::ops::Range;

use futures::future::join_all;
use kruise_rollout::names;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, PostParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use support::{Identity, Installation, Process, eventually, installed};
use tokio::sync::OnceCell;

use self::Kind::{CloneSet, DaemonSet, StatefulSet};
use crate::courses::Subject;
use crate::gate::Gate;
use crate::ground::{Ground, called, two_steps};
use crate::scene::{APP, SOON, Scene, assert_free, mark};

const GROUP: &str = "apps.kruise.io";
/// The newer version, in which the strategy of a CloneSet looks different.
const NEWER: &str = "v1beta1";
/// The version that all have.
const OLDER: &str = "v1alpha1";
/// Label of the nodes that DaemonSets run on.
const POOL: &str = "example.io/pool";
/// Its value, where nodes neither come nor go.
const STEADY: &str = "daemons";

#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(clippy::enum_variant_names, reason = "that is what they are called")]
enum Kind {
    CloneSet,
    DaemonSet,
    StatefulSet,
}

const KINDS: [Kind; 3] = [CloneSet, DaemonSet, StatefulSet];

impl Kind {
    fn plural(self) -> &'static str {
        match self {
            CloneSet => "clonesets",
            DaemonSet => "daemonsets",
            StatefulSet => "statefulsets",
        }
    }

    /// The version that people write it in here.
    fn version(self) -> &'static str {
        match self {
            CloneSet => OLDER,
            DaemonSet | StatefulSet => NEWER,
        }
    }

    fn resource(self, version: &str) -> ApiResource {
        let gvk = GroupVersionKind::gvk(GROUP, version, &format!("{self:?}"));
        ApiResource::from_gvk_with_plural(&gvk, self.plural())
    }

    /// An update strategy with these members where this kind has them.
    fn strategy(self, members: &Value) -> Value {
        match self {
            CloneSet => json!({"updateStrategy": members}),
            DaemonSet | StatefulSet => json!({"updateStrategy": {"rollingUpdate": members}}),
        }
    }

    fn partition(self, app: &Value) -> &Value {
        let strategy = &app["spec"]["updateStrategy"];
        match self {
            CloneSet => &strategy["partition"],
            DaemonSet | StatefulSet => &strategy["rollingUpdate"]["partition"],
        }
    }

    /// Applies its definition, and runs its stand-in until dropped.
    async fn install(self, installation: &Installation<'_>) -> Process {
        let arguments = ["--openkruise", self.plural()];
        installation.define(&arguments).await.unwrap();
        installation.run_operator(&arguments).unwrap()
    }

    /// A workload of this kind with these members of its spec; nothing of it exists yet.
    async fn subject<'a>(
        self,
        installation: &Installation<'a>,
        prefix: &str,
        version: &str,
        spec: &Value,
    ) -> Subject<'a> {
        let prefix = format!("{prefix}-{self:?}").to_lowercase();
        let scene = Scene::of_kind(installation, &prefix, self.resource(version)).await;
        let mut manifest = scene.manifest("v1", None);
        manifest["metadata"].as_object_mut().unwrap().remove("labels");
        manifest["spec"]["selector"] = json!({"matchLabels": {"app": APP}});
        if self == DaemonSet {
            manifest["spec"].as_object_mut().unwrap().remove("replicas");
            let pod = &mut manifest["spec"]["template"]["spec"];
            pod["nodeSelector"] = json!({POOL: STEADY});
            pod["tolerations"] = json!([{"operator": "Exists"}]);
        }
        for (field, value) in spec.as_object().unwrap() {
            manifest["spec"][field] = value.clone();
        }
        Subject { scene, manifest }
    }
}

/// Nodes for DaemonSets alone.
async fn nodes(installation: &Installation<'_>, pool: &str, indices: Range<u32>) {
    let room = json!({"cpu": "1k", "memory": "1Ti", "pods": "1000"});
    let nodes = indices.map(|index| {
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": format!("{pool}-{index}"), "labels": {POOL: pool},
                "annotations": {"kwok.x-k8s.io/node": "fake"}},
            "spec": {"taints": [{"key": POOL, "value": pool, "effect": "NoSchedule"}]},
            "status": {"allocatable": room, "capacity": room},
        })
    });
    let nodes = json!({"apiVersion": "v1", "kind": "List", "items": nodes.collect::<Vec<_>>()});
    installation.kubectl_apply(&nodes.to_string()).await.unwrap();
}

/// Whether the cluster has OpenKruise itself.
fn external() -> bool {
    std::env::var("KRUISE_MANAGER").is_ok_and(|value| value == "external")
}

/// The shared installation, where the kinds are installed and operated: by stand-ins, unless the cluster has OpenKruise itself.
async fn with_kinds() -> &'static Installation<'static> {
    static OPERATORS: OnceCell<Vec<Process>> = OnceCell::const_new();
    let installation = installed().await;
    let install = async || {
        nodes(installation, STEADY, 0..5).await;
        if external() {
            // It may have been called for an earlier run.
            called(installation).await;
            return Vec::new();
        }
        join_all(KINDS.map(|kind| kind.install(installation))).await
    };
    OPERATORS.get_or_init(install).await;
    for kind in KINDS {
        served(installation, kind).await;
    }
    installation
}

async fn served(installation: &Installation<'_>, kind: Kind) {
    let admin = installation
        .control_plane()
        .client(Identity::Admin)
        .await
        .unwrap();
    let api: Api<DynamicObject> = Api::all_with(admin, &kind.resource(kind.version()));
    eventually(SOON, "the kind is served", async || {
        api.list(&ListParams::default()).await.map(drop)
    })
    .await;
}

async fn subject(kind: Kind, prefix: &str, spec: &Value) -> Subject<'static> {
    kind.subject(with_kinds().await, prefix, kind.version(), spec)
        .await
}

macro_rules! releases {
    ($($name:ident: $kind:ident $course:ident;)*) => {$(
        #[tokio::test]
        async fn $name() {
            let prefix = stringify!($course).replace('_', "-");
            subject($kind, &prefix, &json!({})).await.$course().await;
        }
    )*};
}

releases! {
    a_clone_set_walks_its_steps: CloneSet walks;
    a_clone_set_rolls_back_at_the_first_step: CloneSet rolls_back;
    a_clone_set_is_overtaken_by_another_version: CloneSet is_overtaken;
    a_clone_set_is_scaled_in_mid_release: CloneSet is_scaled;
    a_clone_set_loses_its_rollout_in_mid_release: CloneSet loses_its_rollout;
    a_clone_set_of_a_broken_image_stops_at_the_first_step: CloneSet breaks;
    a_clone_set_walks_five_steps_by_time: CloneSet walks_by_time;
    a_daemon_set_walks_its_steps: DaemonSet walks;
    a_daemon_set_rolls_back_at_the_first_step: DaemonSet rolls_back;
    a_daemon_set_is_overtaken_by_another_version: DaemonSet is_overtaken;
    a_daemon_set_loses_its_rollout_in_mid_release: DaemonSet loses_its_rollout;
    a_daemon_set_of_a_broken_image_stops_at_the_first_step: DaemonSet breaks;
    a_daemon_set_walks_five_steps_by_time: DaemonSet walks_by_time;
    an_advanced_stateful_set_walks_its_steps: StatefulSet walks;
    an_advanced_stateful_set_walks_five_steps_by_time: StatefulSet walks_by_time;
    an_advanced_stateful_set_rolls_back_at_the_first_step: StatefulSet rolls_back;
    an_advanced_stateful_set_is_overtaken_by_another_version: StatefulSet is_overtaken;
    an_advanced_stateful_set_is_scaled_in_mid_release: StatefulSet is_scaled;
    an_advanced_stateful_set_loses_its_rollout_in_mid_release: StatefulSet loses_its_rollout;
    an_advanced_stateful_set_of_a_broken_image_stops_at_the_first_step: StatefulSet breaks;
}

/// Pods that come while a step is paused belong to the batches that have been, each as large as it would have been.
#[tokio::test]
async fn a_clone_set_that_is_scaled_in_mid_release_has_its_batches_labelled() {
    let subject = subject(CloneSet, "labels", &json!({})).await;
    let scene = &subject.scene;
    let steps = ["20%", "40%", "60%", "100%"].map(|share| json!({"replicas": share, "pause": {}}));
    subject.set_by(&json!(steps)).await;
    scene.name_release("scaled").await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    scene.approve().await;
    scene.wait_state(2, "StepPaused").await;
    subject.batches("scaled", &[1, 1]).await;
    scene.patch_app(json!({"spec": {"replicas": 10}})).await;
    scene.wait_pods("v2", 4).await;
    subject.batches("scaled", &[2, 2]).await;
    scene.approve().await;
    scene.wait_state(3, "StepPaused").await;
    scene.approve().await;
    scene.wait_pods("v2", 10).await;
    subject.batches("scaled", &[2, 2, 2, 4]).await;
}

/// However many pods a workload may update at a time, the partition keeps the others.
#[tokio::test]
async fn no_pace_takes_more_than_the_step_allows() {
    let fast = json!({"maxUnavailable": "100%"});
    let surging = json!({"maxUnavailable": 0, "maxSurge": 2});
    let mut gaps = StatefulSet.strategy(&fast);
    gaps["podManagementPolicy"] = json!("Parallel");
    gaps["reserveOrdinals"] = json!([1, 3]);
    let subjects = [
        subject(CloneSet, "fast", &CloneSet.strategy(&fast)).await,
        subject(CloneSet, "surge", &CloneSet.strategy(&surging)).await,
        subject(DaemonSet, "fast", &DaemonSet.strategy(&fast)).await,
        subject(DaemonSet, "surge", &DaemonSet.strategy(&surging)).await,
        subject(StatefulSet, "gaps", &gaps).await,
    ];
    join_all(subjects.iter().map(Subject::walks)).await;
}

#[tokio::test]
async fn a_partition_that_people_had_set_comes_back_as_they_wrote_it() {
    let mut subjects = Vec::new();
    for (kind, partition) in [
        (CloneSet, json!(2)),
        (CloneSet, json!("40%")),
        (DaemonSet, json!(2)),
        (DaemonSet, json!("40%")),
        (StatefulSet, json!(2)),
    ] {
        let spec = kind.strategy(&json!({ "partition": partition }));
        subjects.push(subject(kind, "own", &spec).await);
    }
    join_all(subjects.iter().map(Subject::walks)).await;
}

/// What people ask for in mid-release is for its end, be it a percentage of none or of all.
async fn asks_in_mid_release(kind: Kind) {
    let wish = |partition: &str| kind.strategy(&json!({ "partition": partition }));
    let subject = subject(kind, "asked", &wish("20%")).await;
    let scene = &subject.scene;
    subject.set().await;
    let gate = Gate::open(scene).await;
    let held = scene.set_version("v2").await;
    assert_eq!(*kind.partition(&held), names::HOLD_PARTITION);
    assert_eq!(mark(&held, names::ORIGINAL_PARTITION), "20%");
    scene.wait_state(1, "StepPaused").await;
    for partition in ["0%", "100%", "40%"] {
        let app = scene.patch_app(json!({ "spec": wish(partition) })).await;
        assert_eq!(mark(&app, names::ORIGINAL_PARTITION), partition);
        assert_eq!(*kind.partition(&app), 4, "{partition}");
    }
    scene.wait_pods("v1", 4).await;
    for step in [1, 2] {
        scene.wait_state(step, "StepPaused").await;
        scene.approve().await;
    }
    let back = scene
        .wait_app("handed back", |app| *kind.partition(app) == "40%")
        .await;
    assert_free(&back);
    scene.wait_pods("v2", 5).await;
    let most: Vec<_> = gate
        .exposures("v2")
        .await
        .into_iter()
        .map(|(_, most)| most)
        .collect();
    assert!(most.is_sorted(), "{most:?}");
}

#[tokio::test]
async fn a_partition_that_people_ask_for_in_mid_release_is_for_its_end() {
    join_all([CloneSet, DaemonSet].map(asks_in_mid_release)).await;
}

/// People pause their workload in mid-release: nothing more is updated until they let it go on.
async fn pauses(kind: Kind) {
    let subject = subject(kind, "paused", &json!({})).await;
    let scene = &subject.scene;
    subject.set().await;
    let gate = Gate::open(scene).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    let paused = |paused: bool| json!({"spec": kind.strategy(&json!({ "paused": paused }))});
    scene.patch_app(paused(true)).await;
    scene.approve().await;
    scene.wait_state(2, "StepUpgrade").await;
    scene.looked_at("paused").await;
    assert_eq!(gate.most("v2").await, 1);
    scene.patch_app(paused(false)).await;
    scene.wait_state(2, "StepPaused").await;
    scene.wait_pods("v2", 3).await;
    assert_eq!(gate.most("v2").await, 3);
}

#[tokio::test]
async fn a_workload_that_people_have_paused_waits_for_them() {
    join_all(KINDS.map(pauses)).await;
}

/// The older version means the same workloads, for Rollouts and for whoever writes them.
async fn in_the_older_version(kind: Kind) {
    let installation = with_kinds().await;
    let subject = kind.subject(installation, "older", OLDER, &json!({})).await;
    subject.rolls_back().await;
    let scene = &subject.scene;
    let mut second = scene.rollout_manifest(&two_steps());
    second["metadata"]["name"] = json!("second");
    second["spec"]["workloadRef"]["apiVersion"] = json!(format!("{GROUP}/{NEWER}"));
    let second = serde_json::from_value(second).unwrap();
    let rollouts = scene.rollouts(&scene.developer);
    let created = rollouts.create(&PostParams::default(), &second).await;
    let refused = created.unwrap_err().to_string();
    assert!(refused.contains("governs this workload already"), "{refused}");
}

#[tokio::test]
async fn a_workload_is_governed_in_every_version() {
    join_all(KINDS.map(in_the_older_version)).await;
}

#[tokio::test]
async fn kinds_may_be_installed_after_the_controller_has_started() {
    let installation = Ground::with_controller().await;
    let mut subjects = Vec::new();
    for kind in KINDS {
        let subject = kind
            .subject(&installation, "later", kind.version(), &json!({}))
            .await;
        subject.scene.create_rollout(&two_steps()).await;
        let waiting = subject.scene.wait_phase("Initial").await;
        let message = waiting["status"]["message"].as_str().unwrap();
        assert!(message.contains("install its CRD"), "{message}");
        subjects.push(subject);
    }
    nodes(&installation, STEADY, 0..5).await;
    let mut operators = Vec::new();
    for kind in KINDS {
        operators.push(kind.install(&installation).await);
        served(&installation, kind).await;
    }
    for Subject { scene, manifest } in &subjects {
        scene.create_app(manifest).await;
        scene.wait_pods("v1", 5).await;
        scene.wait_phase("Healthy").await;
        scene.set_version("v2").await;
        scene.wait_state(1, "StepPaused").await;
        scene.wait_pods("v2", 1).await;
        scene.wait_pods("v1", 4).await;
    }
    // The next case finds the ground without them.
    for (kind, subject) in KINDS.into_iter().zip(&subjects) {
        subject.scene.delete_rollout().await;
        let definitions = ApiResource::from_gvk(&GroupVersionKind::gvk(
            "apiextensions.k8s.io",
            "v1",
            "CustomResourceDefinition",
        ));
        let definitions: Api<DynamicObject> = Api::all_with(subject.scene.admin.clone(), &definitions);
        let name = format!("{}.{GROUP}", kind.plural());
        definitions.delete(&name, &DeleteParams::default()).await.unwrap();
    }
}
