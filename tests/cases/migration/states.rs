//! Every state that the existing controller may be stopped in.

use futures::future::join_all;
use kruise_rollout::names;
use serde_json::json;
use support::Installation;

use super::left::{Left, STEP_1, define_batch_releases, is_tidy, nothing_registered};
use crate::gate::Gate;
use crate::ground::{Ground, called, finish};
use crate::scene::{Scene, assert_free, condition, partition};

const HELD: Option<i64> = Some(names::HOLD_PARTITION);

/// How a state goes on without anybody's doing.
#[derive(Clone, Copy, Debug)]
enum On {
    /// The release waits for an approval in this step, with so many pods of the new version.
    Pauses(i64, usize),
    /// It is complete, by success.
    Completes,
    /// Every pod is on the stable version again.
    RollsBack,
}

use On::{Completes, Pauses, RollsBack};

/// Name, state, and how it goes on.
const STATES: [(&str, Left, On); 13] = [
    (
        "held",
        Left {
            partition: HELD,
            marks: (true, false),
            phase: "Healthy",
            reason: "Completed",
            step: 3,
            state: "Completed",
            releases: "v1",
            ..STEP_1
        },
        Pauses(1, 1),
    ),
    (
        "initial",
        Left {
            partition: HELD,
            marks: (true, false),
            reason: "Initializing",
            state: "BeforeStepUpgrade",
            ..STEP_1
        },
        Pauses(1, 1),
    ),
    (
        "begins",
        Left {
            partition: HELD,
            state: "StepUpgrade",
            ..STEP_1
        },
        Pauses(1, 1),
    ),
    (
        "upgrade",
        Left {
            state: "StepUpgrade",
            ..STEP_1
        },
        Pauses(1, 1),
    ),
    (
        "analysis",
        Left {
            state: "StepMetricsAnalysis",
            ..STEP_1
        },
        Pauses(1, 1),
    ),
    ("paused", STEP_1, Pauses(1, 1)),
    (
        "approved",
        Left {
            state: "StepReady",
            ..STEP_1
        },
        Pauses(2, 3),
    ),
    (
        "next",
        Left {
            step: 2,
            state: "BeforeStepUpgrade",
            ..STEP_1
        },
        Pauses(2, 3),
    ),
    (
        "second",
        Left {
            partition: Some(2),
            step: 2,
            ..STEP_1
        },
        Pauses(2, 3),
    ),
    (
        "newer",
        Left {
            version: "v3",
            partition: HELD,
            step: 2,
            ..STEP_1
        },
        Pauses(1, 1),
    ),
    (
        "back",
        Left {
            version: "v1",
            partition: HELD,
            marks: (false, true),
            reason: "Cancelling",
            releases: "v1",
            ..STEP_1
        },
        RollsBack,
    ),
    (
        "reverted",
        Left {
            version: "v1",
            partition: HELD,
            ..STEP_1
        },
        RollsBack,
    ),
    (
        "ending",
        Left {
            partition: Some(0),
            marks: (false, true),
            reason: "Finalising",
            step: 3,
            state: "Completed",
            ..STEP_1
        },
        Completes,
    ),
];

async fn scene<'a>(installation: &Installation<'a>, native: bool, name: &str) -> Scene<'a> {
    let name = format!("from-{name}");
    if native {
        Scene::with_stateful_set(installation, &name).await
    } else {
        Scene::new(installation, &name).await
    }
}

/// Checks how a state has gone on, takes it to its end, and lets a release come after it.
async fn goes_on(scene: &Scene<'_>, gate: &Gate, name: &str, left: &Left, on: On) {
    match on {
        Pauses(step, pods) => {
            scene.wait_state(step, "StepPaused").await;
            scene.wait_pods(left.version, pods).await;
            let most = gate.most(left.version).await;
            assert_eq!(most, pods, "{name}: more pods than step {step} allows");
        }
        Completes | RollsBack => {
            scene.wait_phase("Healthy").await;
        }
    }
    finish(scene, left.version).await;
    let done = scene.wait_phase("Healthy").await;
    let expected = match on {
        RollsBack => ("False", "RolledBack"),
        _ => ("True", "Success"),
    };
    let succeeded = condition(&done, "Succeeded");
    assert_eq!(
        (succeeded["status"].as_str(), succeeded["reason"].as_str()),
        (Some(expected.0), Some(expected.1)),
        "{name}"
    );
    is_tidy(scene).await;
    let app = scene.app().await;
    assert_free(&app);
    assert_eq!(partition(&app), &json!(0), "{name}");
    ours(scene).await;
}

/// From here on it is a workload like any other: a new template is held, and the deletion of the Rollout waits for nobody.
async fn ours(scene: &Scene<'_>) {
    scene.set_version("v4").await;
    scene.wait_state(1, "StepPaused").await;
    scene.wait_pods("v4", 1).await;
    scene.delete_rollout().await;
    let gone = scene
        .rollouts(&scene.admin)
        .get_opt(crate::scene::ROLLOUT)
        .await
        .unwrap();
    assert!(gone.is_none());
    scene.wait_pods("v4", 5).await;
}

async fn every_state(native: bool) {
    let mut ground = Ground::take().await;
    nothing_registered(&ground).await;
    define_batch_releases(&ground).await;
    let scenes = STATES.iter().map(async |(name, left, on)| {
        let scene = scene(&ground, native, name).await;
        left.in_scene(&scene).await;
        let gate = Gate::open(&scene).await;
        (scene, gate, *name, *left, *on)
    });
    let scenes = join_all(scenes).await;
    ground.start_controller().await.unwrap();
    called(&ground).await;
    join_all(
        scenes
            .iter()
            .map(|(scene, gate, name, left, on)| goes_on(scene, gate, name, left, *on)),
    )
    .await;
}

#[tokio::test]
async fn a_custom_workload_goes_on_from_every_state() {
    every_state(false).await;
}

#[tokio::test]
async fn a_stateful_set_goes_on_from_every_state() {
    every_state(true).await;
}
