//! The ways in which these kinds can be told to update: in place, with pods to spare, in no order, beside gaps.

use futures::future::join_all;
use kruise_rollout::names;
use kube::api::ListParams;
use serde_json::{Value, json};
use support::eventually;

use super::Kind::{CloneSet, DaemonSet, StatefulSet};
use super::{KINDS, Kind, nodes, subject, with_kinds};
use crate::courses::Subject;
use crate::gate::Gate;
use crate::ground::two_steps;
use crate::scene::{SOON, Scene, condition};

impl Kind {
    /// Containers are replaced in the pods that there are.
    fn in_place(self) -> Value {
        match self {
            CloneSet => self.strategy(&json!({"type": "InPlaceIfPossible"})),
            DaemonSet => self.strategy(&json!({"rollingUpdateType": "InPlaceIfPossible"})),
            StatefulSet => self.strategy(&json!({"podUpdatePolicy": "InPlaceIfPossible"})),
        }
    }

    /// Two pods more than are wanted while others are updated, and none less.
    fn surging(self) -> Value {
        self.strategy(&json!({"maxUnavailable": 0, "maxSurge": 2}))
    }
}

async fn in_place(kind: Kind, prefix: &str) -> Subject<'static> {
    let mut subject = subject(kind, &format!("in-place-{prefix}"), &kind.in_place()).await;
    // Without it the pod would be served while its container is replaced.
    subject.manifest["spec"]["template"]["spec"]["readinessGates"] =
        json!([{"conditionType": "InPlaceUpdateReady"}]);
    subject
}

/// Names and uids of the pods, in order.
async fn identities(scene: &Scene<'_>) -> Vec<(String, String)> {
    let list = scene.all_pods().list(&ListParams::default()).await.unwrap();
    let of = |meta: kube::core::ObjectMeta| (meta.name.unwrap_or_default(), meta.uid.unwrap_or_default());
    list.items.into_iter().map(|pod| of(pod.metadata)).collect()
}

/// Walks, and returns the pods before and after.
async fn walks_in_place(kind: Kind) {
    let subject = in_place(kind, "walks").await;
    subject.set().await;
    let before = identities(&subject.scene).await;
    subject.walks_on().await;
    assert_eq!(identities(&subject.scene).await, before, "{kind:?}");
}

#[tokio::test]
async fn pods_that_are_updated_in_place_walk_the_steps_and_stay() {
    join_all(KINDS.map(walks_in_place)).await;
}

#[tokio::test]
async fn pods_that_are_updated_in_place_go_back() {
    join_all(KINDS.map(async |kind| in_place(kind, "back").await.rolls_back().await)).await;
}

#[tokio::test]
async fn pods_that_are_updated_in_place_are_overtaken() {
    join_all(KINDS.map(async |kind| in_place(kind, "overtaken").await.is_overtaken().await)).await;
}

#[tokio::test]
async fn a_broken_image_stops_in_place_at_the_first_step() {
    join_all(KINDS.map(async |kind| in_place(kind, "breaks").await.breaks().await)).await;
}

#[tokio::test]
async fn pods_that_are_updated_in_place_are_scaled_and_let_go() {
    let scaled = [CloneSet, StatefulSet].map(async |kind| in_place(kind, "scaled").await.is_scaled().await);
    let free = KINDS.map(async |kind| in_place(kind, "free").await.loses_its_rollout().await);
    tokio::join!(join_all(scaled), join_all(free));
}

#[tokio::test]
async fn pods_to_spare_are_no_pods_beyond_the_step() {
    let surging = async |kind: Kind, prefix: &str| {
        let subject = subject(kind, &format!("spare-{prefix}"), &kind.surging()).await;
        (subject, prefix.to_owned())
    };
    let course = async |kind, prefix| {
        let (subject, prefix) = surging(kind, prefix).await;
        match prefix.as_str() {
            "walks" => subject.walks().await,
            "back" => subject.rolls_back().await,
            "overtaken" => subject.is_overtaken().await,
            _ => subject.loses_its_rollout().await,
        }
    };
    let courses = ["walks", "back", "overtaken", "free"].into_iter();
    let all = courses.flat_map(|prefix| [CloneSet, DaemonSet].map(|kind| course(kind, prefix)));
    join_all(all).await;
}

#[tokio::test]
async fn a_set_with_pods_to_spare_is_scaled_in_mid_release() {
    let surging = CloneSet.surging();
    subject(CloneSet, "spare-scaled", &surging)
        .await
        .is_scaled()
        .await;
}

/// The broken pod is one to spare: all of the others stay.
async fn breaks_beside_the_others(kind: Kind) {
    let subject = subject(kind, "spare-breaks", &kind.surging()).await;
    let scene = &subject.scene;
    subject.set().await;
    let gate = Gate::open(scene).await;
    scene.set_version("bad").await;
    scene.wait_some("bad").await;
    scene.looked_at("broken").await;
    scene.wait_state(1, "StepUpgrade").await;
    scene.wait_pods("v1", 5).await;
    scene.set_version("v1").await;
    let back = |rollout: &Value| condition(rollout, "Succeeded")["reason"] == "RolledBack";
    scene.wait("back", back).await;
    scene.wait_pods("v1", 5).await;
    assert_eq!(gate.most("bad").await, 1);
}

#[tokio::test]
async fn a_broken_image_takes_no_pod_away_where_there_are_pods_to_spare() {
    join_all([CloneSet, DaemonSet].map(breaks_beside_the_others)).await;
}

#[tokio::test]
async fn r13_an_advanced_stateful_set_with_reserved_ordinals_keeps_so_many_pods() {
    let spec = json!({"reserveOrdinals": [1, 3]});
    let subject = subject(StatefulSet, "r13-reserved", &spec).await;
    let scene = &subject.scene;
    subject.set().await;
    let gate = Gate::open(scene).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    assert_eq!(*StatefulSet.partition(&scene.app().await), 4);
    assert_eq!(scene.wait_pods("v2", 1).await, ["my-app-6"]);
    scene.looked_at_in(1, "r13").await;
    assert_eq!(scene.batches().await, ["my-app-6 r13 1"]);

    // A pod that is kept back comes back as it was, although its ordinal is the partition.
    scene.lose_pod("my-app-4").await;
    scene.wait_pods("v1", 4).await;

    scene.approve().await;
    scene.wait_state(2, "StepPaused").await;
    assert_eq!(*StatefulSet.partition(&scene.app().await), 2);
    let updated = ["my-app-4", "my-app-5", "my-app-6"];
    assert_eq!(scene.wait_pods("v2", 3).await, updated);
    let batches = ["my-app-4 r13 2", "my-app-5 r13 2", "my-app-6 r13 1"];
    assert_eq!(scene.batches().await, batches);
    let seen = gate.exposures("v2").await;
    assert_eq!(seen, [(5, 0), (0, 0), (1, 1), (3, 3)]);

    // 50 % of 8, three of which are there.
    scene.patch_app(json!({"spec": {"replicas": 8}})).await;
    scene.wait_pods("v2", 4).await;
    scene.wait_pods("v1", 4).await;
    scene.looked_at_in(2, "r13").await;
    scene.approve().await;
    scene.wait_pods("v2", 8).await;
}

/// An order of its own leaves the partition a number of pods.
#[tokio::test]
async fn a_stateful_set_that_is_updated_in_no_order_keeps_so_many_pods() {
    let members =
        json!({"unorderedUpdate": {"priorityStrategy": {"orderPriority": [{"orderedKey": "none"}]}}});
    let spec = || {
        let mut spec = StatefulSet.strategy(&members);
        spec["podManagementPolicy"] = json!("Parallel");
        spec
    };
    let walks = async || {
        subject(StatefulSet, "unordered-walks", &spec())
            .await
            .walks()
            .await
    };
    let back = async || {
        subject(StatefulSet, "unordered-back", &spec())
            .await
            .rolls_back()
            .await
    };
    let overtaken = async || {
        let subject = subject(StatefulSet, "unordered-overtaken", &spec()).await;
        subject.is_overtaken().await;
    };
    tokio::join!(walks(), back(), overtaken());
}

#[tokio::test]
async fn nodes_that_come_in_mid_release_get_the_new_version_and_count() {
    let installation = with_kinds().await;
    let pool = "later";
    nodes(installation, pool, 0..5).await;
    let mut subject = subject(DaemonSet, "nodes", &json!({})).await;
    subject.manifest["spec"]["template"]["spec"]["nodeSelector"] = json!({super::POOL: pool});
    let scene = &subject.scene;
    subject.set().await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    nodes(installation, pool, 5..10).await;
    // One by the step, five on the new nodes.
    scene.wait_pods("v2", 6).await;
    scene.wait_pods("v1", 4).await;
    scene.looked_at_in(1, "nodes").await;
    scene.approve().await;
    scene.looked_at_in(2, "half").await;
    scene.wait_pods("v2", 6).await;
    scene.wait_pods("v1", 4).await;
    scene.approve().await;
    scene.wait_pods("v2", 10).await;
    let done = |rollout: &Value| rollout["status"]["currentStepState"] == "Completed";
    scene.wait("the end", done).await;
}

/// What an operator of its own counts among its pods is not what we count.
#[tokio::test]
async fn what_a_person_reads_of_an_in_place_release_is_what_there_is() {
    let subject = in_place(CloneSet, "told").await;
    let scene = &subject.scene;
    scene.create_app(&subject.manifest).await;
    scene.wait_pods("v1", 5).await;
    scene.create_rollout(&two_steps()).await;
    scene.wait_phase("Healthy").await;
    let identities = identities(scene).await;
    scene.set_version("v2").await;
    let paused = scene.looked_at_in(1, "told").await;
    assert_eq!(paused["status"]["canaryStatus"]["canaryReplicas"], 1);
    assert_eq!(paused["status"]["canaryStatus"]["canaryReadyReplicas"], 1);
    let batch = |name: &str| format!("{name} told 1");
    eventually(SOON, "the pod has its batch", async || {
        let batches = scene.batches().await;
        let told = identities.iter().any(|(name, _)| batches == [batch(name)]);
        if told { Ok(()) } else { Err(format!("{batches:?}")) }
    })
    .await;
    assert_eq!(
        scene.app().await["metadata"]["labels"][names::WORKLOAD_TYPE],
        "cloneset"
    );
}
