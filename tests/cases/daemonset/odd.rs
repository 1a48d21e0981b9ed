//! DaemonSets that are asked for what is rare.

use support::Identity;

use super::*;
use crate::scene::image;

/// While its type is `OnDelete` the API server would store any `rollingUpdate`.
#[tokio::test]
async fn a_strategy_that_cannot_be_is_refused_in_mid_release() {
    let own = rolling(json!({"maxSurge": 0, "maxUnavailable": 1}));
    let daemons = daemons("refused", own.clone()).await;
    let scene = daemons.scene();
    daemons.subject.set().await;
    let gate = Gate::open(scene).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    let before = scene.app().await;
    for (strategy, told) in [
        (
            json!({"rollingUpdate": {"maxUnavailable": 0}}),
            "spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0",
        ),
        (
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}),
            "may not be set when maxUnavailable is non-zero",
        ),
        (
            json!({"rollingUpdate": {"maxUnavailable": "half"}}),
            "spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: \"half\"",
        ),
        (json!({"type": "half"}), "spec.updateStrategy: Unsupported value"),
    ] {
        let patch = Patch::Merge(json!({"spec": {"updateStrategy": strategy}}));
        let answer = scene
            .apps(&scene.developer)
            .patch(APP, &PatchParams::default(), &patch)
            .await;
        let answer = answer.unwrap_err().to_string();
        assert!(answer.contains(told), "{strategy}: {answer}");
    }
    let after = scene.app().await;
    assert_eq!(after["spec"], before["spec"]);
    assert_eq!(gate.most("v2").await, 1);
    finish(scene, "v2").await;
    let app = scene.app().await;
    assert_free(&app);
    assert_eq!(app["spec"]["updateStrategy"], own["updateStrategy"]);
}

/// As a version of ours has let it be stored that did not look.
#[tokio::test]
async fn a_strategy_that_cannot_be_and_is_there_holds_nothing_up() {
    let daemons = daemons("stored", rolling(json!({"maxUnavailable": 2}))).await;
    let scene = daemons.scene();
    daemons.subject.set().await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    let ours = scene.namespace.client(Identity::Controller).await.unwrap();
    let params = PatchParams {
        field_manager: Some(names::FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let bad = json!({"spec": {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 0}}}});
    scene
        .apps(&ours)
        .patch(APP, &params, &Patch::Merge(bad))
        .await
        .unwrap();
    // Nobody who writes something else has to answer for it.
    scene.looked_at("another").await;
    finish(scene, "v2").await;
    let app = scene.app().await;
    assert_free(&app);
    let default = rolling(json!({"maxSurge": 0, "maxUnavailable": 1}));
    assert_eq!(app["spec"]["updateStrategy"], default["updateStrategy"]);
    eventually(SOON, "an event", async || {
        match &scene.events("DefaultStrategy").await[..] {
            [told] if told.contains("DaemonSet.apps my-app: spec.updateStrategy gets its default") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

/// To its controller an empty member makes another template.
#[tokio::test]
async fn a_template_that_differs_in_an_empty_member_takes_steps() {
    let daemons = daemons("empty", json!({})).await;
    let scene = daemons.scene();
    daemons.subject.set().await;
    let names = scene.wait_pods("v1", 5).await;
    let mut template = image("v1");
    template["spec"]["template"]["spec"]["containers"][0]["securityContext"] = json!({});
    scene.patch_app(template).await;
    scene.wait_state(1, "StepPaused").await;
    let now = scene.wait_pods("v1", 5).await;
    let kept = now.iter().filter(|name| names.contains(name)).count();
    assert_eq!(kept, 4, "{now:?}");
}
