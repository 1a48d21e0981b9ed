//! The table of writes, as each of those who may send them.

use kruise_rollout::intent;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};
use support::Identity;

use super::{Stage, impersonated, table};

/// A Rollout's status after a write: the object as the server answers it, or the refusal.
async fn write(by: &Api<DynamicObject>, name: &str, patch: &Patch<Value>) -> Result<Value, (u16, String)> {
    match by.patch_status(name, &PatchParams::default(), patch).await {
        Ok(object) => Ok(serde_json::to_value(object).unwrap()["status"].take()),
        Err(kube::Error::Api(status)) => Err((status.code, status.message.clone())),
        Err(error) => panic!("{error}"),
    }
}

/// Sends every row over a Rollout of its own, and expects each to be stored as written.
async fn pass(stage: &Stage, who: &str, by: &Api<DynamicObject>, rows: Vec<table::Row>) {
    for (number, (what, before, patch)) in rows.into_iter().enumerate() {
        let name = stage.rollout(&format!("{who}-passes-{number}"), &before).await;
        let mut wanted = stage.stored(&name).await;
        let patch = json!({"status": patch});
        json_patch::merge(&mut wanted, &patch);
        let wanted = match &wanted["status"] {
            Value::Null => table::blank(),
            status => status.clone(),
        };
        match write(by, &name, &Patch::Merge(patch)).await {
            Ok(status) => assert_eq!(status, wanted, "{who}: {what}"),
            Err(refusal) => panic!("{who}: {what}: {refusal:?}"),
        }
    }
}

/// Sends every row over a Rollout of its own, and expects each to be refused by the policy with nothing stored.
async fn fail(stage: &Stage, who: &str, by: &Api<DynamicObject>, rows: Vec<table::Row>) {
    for (number, (what, before, patch)) in rows.into_iter().enumerate() {
        let name = stage.rollout(&format!("{who}-fails-{number}"), &before).await;
        let stored = stage.stored(&name).await;
        let answer = write(by, &name, &Patch::Merge(json!({"status": patch}))).await;
        let (code, message) = answer.expect_err(what);
        assert_eq!(code, 403, "{who}: {what}: {message}");
        let says = format!(
            "Rollout {}/{name}: this would change status.",
            stage.namespace.name()
        );
        assert!(message.contains(&says), "{who}: {what}: {message}");
        assert!(
            message.contains("rollouts.kruise.io:break-glass"),
            "{who}: {what}: {message}"
        );
        assert_eq!(stage.stored(&name).await, stored, "{who}: {what}");
    }
}

#[tokio::test]
async fn people_approve_and_write_nothing_else() {
    let stage = Stage::new("approve-only", false).await;
    for (who, by) in [("approver", &stage.approver), ("admin", &stage.bound_admin)] {
        pass(&stage, who, by, table::allowed()).await;
        fail(&stage, who, by, table::refused()).await;
        let jumps = [1, 3, 9].map(|to| ("jump", table::paused(), table::jump(&json!(to))));
        fail(&stage, &format!("{who}-jump"), by, jumps.into()).await;
    }
}

#[tokio::test]
async fn the_controller_and_the_break_glass_group_write_what_they_like() {
    let stage = Stage::new("exempt", false).await;
    let groups = ["approver", "rollouts.kruise.io:break-glass"];
    let member = impersonated(&stage.namespace, Identity::Approver.user(), &groups).await;
    for (who, by) in [("controller", &stage.controller), ("member", &member)] {
        pass(&stage, who, by, table::allowed()).await;
        pass(&stage, &format!("{who}-all"), by, table::refused()).await;
    }
}

#[tokio::test]
async fn jumps_where_they_are_allowed() {
    let stage = Stage::new("jump", true).await;
    let jump = |to: i64| ("jump", table::paused(), table::jump(&json!(to)));
    let updating = (
        "jump while updating",
        table::at("StepUpgrade"),
        table::jump(&json!(3)),
    );
    for (who, by) in [("approver", &stage.approver), ("admin", &stage.bound_admin)] {
        pass(&stage, who, by, table::allowed()).await;
        let there = vec![jump(1), jump(2), jump(3), updating.clone()];
        pass(&stage, &format!("{who}-jump"), by, there).await;
        fail(&stage, who, by, table::refused()).await;
        let mut with_phase = table::jump(&json!(3));
        with_phase["phase"] = json!("Healthy");
        let nowhere = vec![
            jump(9),
            jump(4),
            jump(0),
            jump(-1),
            ("jump and phase", table::paused(), with_phase),
        ];
        fail(&stage, &format!("{who}-nowhere"), by, nowhere).await;
    }
    let name = stage.rollout("text", &table::paused()).await;
    let text = Patch::Merge(json!({"status": table::jump(&json!("3"))}));
    let (code, message) = write(&stage.approver, &name, &text).await.unwrap_err();
    assert_eq!(code, 422, "{message}");
}

#[tokio::test]
async fn our_plugins_patch_passes_once() {
    let stage = Stage::new("tested", false).await;
    for (style, status) in [
        ("canary", table::paused()),
        ("blue-green", table::paused_blue_green()),
    ] {
        let name = stage.rollout(style, &status).await;
        let rollout = serde_json::from_value(stage.stored(&name).await).unwrap();
        let approval = intent::approve(&rollout, &intent::Wanted::default());
        let Ok(intent::Approve::Write(approval)) = approval else {
            panic!("{approval:?}");
        };
        let patch = Patch::Json(approval.patch);
        let approved = write(&stage.approver, &name, &patch).await.unwrap();
        let states = ["canaryStatus", "blueGreenStatus"].map(|style| &approved[style]["currentStepState"]);
        assert!(states.contains(&&json!("StepReady")), "{approved:#}");
        // What it tested is not so any more.
        let (code, message) = write(&stage.approver, &name, &patch).await.unwrap_err();
        assert_eq!(code, 422, "{message}");
    }
}

#[tokio::test]
async fn a_refusal_says_what_is_wrong_and_what_is_right() {
    let stage = Stage::new("says", false).await;
    let name = stage.rollout("my-app-rollout", &table::at("StepUpgrade")).await;
    let patch = json!({"status": {"phase": "Healthy", "canaryStatus": {"currentStepState": "StepReady", "rolledBack": true}}});
    let (_, message) = write(&stage.approver, &name, &Patch::Merge(patch))
        .await
        .unwrap_err();
    let (_, said) = message.split_once("denied request: ").unwrap();
    let namespace = stage.namespace.name();
    assert_eq!(
        said,
        format!(
            "Rollout {namespace}/my-app-rollout: this would change status.phase, status.canaryStatus.currentStepState, \
             status.canaryStatus.rolledBack; the step is StepUpgrade and would become StepReady. Of the status people may write \
             an approval, that is status.canaryStatus.currentStepState from StepPaused to StepReady, and nothing else. To repair \
             a status, write it as a member of the group rollouts.kruise.io:break-glass"
        )
    );
}
