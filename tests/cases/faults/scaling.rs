//! Replicas that change in mid-release, and what a step means for few pods or none.

use futures::future::{join, join_all};
use k8s_openapi::api::core::v1::Pod;
use kruise_rollout::names;
use kube::api::Api;
use serde_json::{Value, json};
use support::{Identity, eventually, installed};

use super::fixtures::{approved_steps, sized};
use crate::gate::{Gate, Step};
use crate::plugin::kruise;
use crate::scene::{ROLLOUT, SOON, Scene, assert_free, partition};
use crate::writes::Way;

const HELD: Option<i64> = Some(names::HOLD_PARTITION);

async fn uid_of(scene: &Scene<'_>, pod: &str) -> Option<String> {
    let pods: Api<Pod> = Api::namespaced(scene.admin.clone(), scene.namespace.name());
    pods.get(pod).await.unwrap().metadata.uid
}

/// A StatefulSet of two, scaled up to four while its second pod alone runs v2.
async fn grows_in_mid_release(prefix: &str, by_subresource: bool) {
    let scene = Scene::with_stateful_set(installed().await, prefix).await;
    let steps = json!([{"replicas": 1, "pause": {}}, {"replicas": "100%"}]);
    scene.set_to(&sized(scene.manifest("v1", None), 2), &steps).await;
    let gate = Gate::open(&scene).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    assert_eq!(scene.wait_pods("v2", 1).await, ["my-app-1"]);
    let updated = uid_of(&scene, "my-app-1").await;
    let (names, beyond) = if by_subresource {
        // Nobody is asked before: the StatefulSet makes both above the partition that is in force.
        scene.scale(4).await;
        (scene.wait_pods("v2", 3).await, json!(2))
    } else {
        let patch = json!({"spec": {"replicas": 4, "updateStrategy": {"rollingUpdate": {"partition": 3}}}});
        assert_eq!(partition(&scene.patch_app(patch).await), 4);
        scene.wait_pods("v1", 3).await;
        (scene.wait_pods("v2", 1).await, Value::Null)
    };
    // The pods that run v2 already count, so that the step needs no other and stays done.
    scene
        .wait_app("nothing more is granted", |app| partition(app) == 4)
        .await;
    scene.wait_state(1, "StepPaused").await;
    let report = scene.report().await;
    assert_eq!(report["workload"]["updated"], names.len(), "{report:#}");
    assert_eq!(report["breach"]["beyond"], beyond, "{report:#}");
    scene.approve().await;
    scene.wait_released().await;
    scene.wait_pods("v2", 4).await;
    assert_eq!(
        uid_of(&scene, "my-app-1").await,
        updated,
        "an updated pod was sent back"
    );
    let partitions = gate.steps("v2").await.into_iter().map(|(partition, _)| partition);
    // 3 is granted until the pods that came are seen.
    let partitions: Vec<_> = partitions.filter(|partition| *partition != Some(3)).collect();
    assert_eq!(partitions, [Some(0), HELD, Some(1), Some(4), Some(0)]);
}

#[tokio::test]
async fn r06_pods_that_are_not_the_top_ordinals_after_a_scale_up() {
    join(
        grows_in_mid_release("r06-scale", true),
        grows_in_mid_release("r06-patch", false),
    )
    .await;
}

/// One apply sets another size and version; nobody changes anything else until the end.
async fn sized_with_the_template(prefix: &str, to: u32, expected: &[Step]) {
    let scene = Scene::new(installed().await, prefix).await;
    scene
        .deploy(Way::ServerSide, &sized(scene.manifest("v1", None), 3))
        .await;
    scene.wait_pods("v1", 3).await;
    scene.create_rollout(&approved_steps()).await;
    scene.wait_phase("Healthy").await;
    let gate = Gate::open(&scene).await;
    let held = scene
        .deploy(Way::ServerSide, &sized(scene.manifest("v2", None), to))
        .await;
    assert_eq!(held["spec"]["replicas"], to);
    for step in [1, 2] {
        scene.wait_state(step, "StepPaused").await;
        scene.approve().await;
    }
    scene.wait_released().await;
    scene.wait_pods("v2", usize::try_from(to).unwrap()).await;
    assert_free(&scene.app().await);
    assert_eq!(gate.steps("v2").await, expected);
}

#[tokio::test]
async fn r07_replicas_and_template_in_one_apply() {
    let grown = [
        (None, 0),
        (HELD, 0),
        (Some(4), 1),
        (Some(2), 3),
        (Some(0), 5),
        (None, 5),
    ];
    // 60 % of two pods are both.
    let shrunk = [(None, 0), (HELD, 0), (Some(1), 1), (Some(0), 2), (None, 2)];
    join(
        sized_with_the_template("r07-up", 5, &grown),
        sized_with_the_template("r07-down", 2, &shrunk),
    )
    .await;
}

/// Every count of a report is between none and all pods.
fn assert_sane(report: &Value) {
    let all = report["workload"]["replicas"].as_u64().unwrap();
    let mut counts: Vec<&Value> = ["updated", "updatedReady"]
        .iter()
        .map(|field| &report["workload"][field])
        .collect();
    for step in report["steps"].as_array().unwrap() {
        counts.extend(["target", "partition", "updated", "ready"].map(|field| &step[field]));
    }
    for count in counts.into_iter().filter(|count| !count.is_null()) {
        assert!(count.as_u64().is_some_and(|count| count <= all), "{report:#}");
    }
}

#[tokio::test]
async fn r09_replicas_fall_below_the_partition() {
    let scene = Scene::new(installed().await, "r09").await;
    let ten = sized(scene.manifest("v1", None), 10);
    scene.set_to(&ten, &approved_steps()).await;
    // Paused, so that the instant between the hold and the first step lasts.
    scene
        .patch_rollout(&json!({"spec": {"strategy": {"paused": true}}}))
        .await;
    let gate = Gate::open(&scene).await;
    assert_eq!(partition(&scene.set_version("v2").await), names::HOLD_PARTITION);
    scene.wait_phase("Progressing").await;
    assert_sane(&scene.report().await);
    scene
        .patch_rollout(&json!({"spec": {"strategy": {"paused": false}}}))
        .await;
    scene.wait_state(1, "StepPaused").await;
    assert_eq!(partition(&scene.app().await), 9);

    scene.scale(3).await;
    assert_sane(&scene.report().await);
    scene
        .wait_app("step 1 of three pods", |app| partition(app) == 2)
        .await;
    scene.wait_pods("v1", 2).await;
    scene.wait_state(1, "StepPaused").await;
    assert_eq!(scene.wait_pods("v2", 1).await, ["my-app-2"]);
    let report = scene.report().await;
    assert_sane(&report);
    assert_eq!(
        (&report["workload"]["updated"], &report["breach"]),
        (&json!(1), &Value::Null)
    );
    scene.approve().await;
    scene.wait_state(2, "StepPaused").await;
    scene.wait_pods("v2", 2).await;
    scene.approve().await;
    let target = format!("rollout/{ROLLOUT}");
    let arguments = ["rollout", "status", &target, "--timeout=30s"];
    let said = kruise(&scene, Identity::Viewer, &arguments).await;
    assert_eq!(said.code, 0, "{said:?}");
    scene.wait_pods("v2", 3).await;
    let expected = [
        (None, 0),
        (HELD, 0),
        (Some(9), 1),
        (Some(2), 1),
        (Some(1), 2),
        (Some(0), 3),
        (None, 3),
    ];
    assert_eq!(gate.steps("v2").await, expected);
}

/// The numbers of pods on v2 at the end of each of five steps, of which all but the last wait for approval.
async fn rounded(replicas: u32, counts: [usize; 5]) {
    let scene = Scene::new(installed().await, &format!("r17-{replicas}")).await;
    let amounts = ["1%", "34%", "50%", "99%", "100%"];
    let steps: Vec<Value> = amounts
        .iter()
        .map(|amount| json!({"replicas": amount, "pause": {}}))
        .collect();
    scene
        .set_to(&sized(scene.manifest("v1", None), replicas), &json!(steps))
        .await;
    scene.set_version("v2").await;
    for (step, count) in (1_u8..).zip(&counts[..4]) {
        let paused = scene.wait_state(step.into(), "StepPaused").await;
        let reached = &paused["status"]["canaryStatus"]["canaryReadyReplicas"];
        assert_eq!(reached, count, "{replicas} replicas, step {step}");
        scene.wait_pods("v2", *count).await;
        scene.wait_pods("v1", counts[4] - count).await;
        if step == 1 {
            // The plugin computes the same steps.
            let report = scene.report().await;
            let targets: Vec<_> = report["steps"].as_array().unwrap().iter().collect();
            let targets: Vec<_> = targets
                .iter()
                .map(|step| step["target"].as_u64().unwrap())
                .collect();
            assert_eq!(targets, counts.map(|count| count as u64), "{report:#}");
        }
        scene.approve().await;
    }
    scene.wait_released().await;
    scene.wait_pods("v2", counts[4]).await;
}

#[tokio::test]
async fn r17_percentages_of_few_pods_round_up() {
    join_all([
        rounded(1, [1, 1, 1, 1, 1]),
        rounded(2, [1, 1, 1, 2, 2]),
        rounded(3, [1, 2, 2, 3, 3]),
        rounded(7, [1, 3, 4, 7, 7]),
    ])
    .await;
}

/// A workload without pods, of either kind.
async fn none_at_all(scene: &Scene<'_>, manifest: &Value) {
    scene.set_to(manifest, &approved_steps()).await;
    assert_eq!(partition(&scene.set_version("v2").await), names::HOLD_PARTITION);
    let original = if manifest["kind"] == "StatefulSet" {
        json!(0)
    } else {
        Value::Null
    };
    scene
        .wait_app("handed back", |app| {
            *partition(app) == original && app["metadata"]["annotations"][names::IN_PROGRESSING].is_null()
        })
        .await;
    let target = format!("rollout/{ROLLOUT}");
    let arguments = ["rollout", "status", &target, "--timeout=10s"];
    let said = kruise(scene, Identity::Viewer, &arguments).await;
    assert_eq!(said.code, 0, "{said:?}");
    scene.scale(5).await;
    scene.wait_pods("v2", 5).await;
    scene.wait_phase("Healthy").await;

    // From nothing to five pods of another version in one write: all begin on the stable one, and follow by steps.
    scene.scale(0).await;
    eventually(SOON, "no pods", async || {
        let pods = scene.pods().await;
        if pods.is_empty() {
            Ok(())
        } else {
            Err(format!("{pods:?}"))
        }
    })
    .await;
    let gate = Gate::open(scene).await;
    let image = json!([{"name": "app", "image": "my-registry/my-app:v3"}]);
    scene
        .patch_app(json!({"spec": {"replicas": 5, "template": {"spec": {"containers": image}}}}))
        .await;
    for (step, pods) in [(1, 1), (2, 3)] {
        scene.wait_state(step, "StepPaused").await;
        scene.wait_pods("v3", pods).await;
        scene.wait_pods("v2", 5 - pods).await;
        scene.approve().await;
    }
    scene.wait_released().await;
    scene.wait_pods("v3", 5).await;
    gate.within_grants("v3").await;
    assert_free(&scene.app().await);
}

#[tokio::test]
async fn r23_a_workload_without_pods() {
    let installation = installed().await;
    let own = Scene::new(installation, "r23-app").await;
    let native = Scene::with_stateful_set(installation, "r23-set").await;
    join(
        none_at_all(&own, &sized(own.manifest("v1", None), 0)),
        none_at_all(&native, &sized(native.manifest("v1", None), 0)),
    )
    .await;
}
