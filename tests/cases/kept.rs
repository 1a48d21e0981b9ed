//! A controller that keeps a workload held when its Rollout is deleted in mid-release.

use kruise_rollout::names;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use support::{ControlPlane, Installation, Options, eventually};

use crate::courses::Subject;
use crate::daemonset::Daemons;
use crate::scene::{ROLLOUT, SOON, assert_free, mark};
use crate::{deployment, native};

/// A control plane with such a controller.
async fn keeping(control_plane: &ControlPlane) -> Installation<'_> {
    let flags = ["--keep-held-on-deletion"];
    Installation::start_with(control_plane, &flags).await.unwrap()
}

#[tokio::test]
async fn a_workload_that_is_kept_goes_on_when_its_rollout_is_there_again() {
    let control_plane = ControlPlane::start(Options::default()).await.unwrap();
    let installation = keeping(&control_plane).await;
    let set = native::subject_on(&installation, "kept", json!({})).await;
    let deployment = deployment::subject_on(&installation, "kept", json!({})).await;
    let daemons = Daemons::new(&installation, "kept", &json!({})).await;
    tokio::join!(
        set.is_kept_and_goes_on(),
        deployment.is_kept_and_goes_on(),
        daemons.subject.is_kept_and_goes_on()
    );
}

/// Two ways out: a Rollout of the same name that is disabled, and a controller without the flag.
#[tokio::test]
async fn a_workload_that_is_kept_can_be_let_go() {
    let control_plane = ControlPlane::start(Options::default()).await.unwrap();
    let mut installation = keeping(&control_plane).await;
    let (one, other) = (
        native::subject_on(&installation, "let-go", json!({})).await,
        native::subject_on(&installation, "unflagged", json!({})).await,
    );
    tokio::join!(one.is_kept(), other.is_kept());

    // A Rollout of another name says how.
    let scene = &one.scene;
    let mut rollout = scene.rollout_manifest(&json!([{"replicas": "100%"}]));
    rollout["metadata"]["name"] = json!("another");
    create(&one, &rollout).await;
    let message = eventually(SOON, "the other one tells", async || {
        let another = scene.rollouts(&scene.admin).get("another").await.unwrap();
        let message = another.status.map(|status| status.message).unwrap_or_default();
        if message.contains(ROLLOUT) {
            Ok(message)
        } else {
            Err(message)
        }
    })
    .await;
    assert!(message.contains(&format!("create {ROLLOUT} again")), "{message}");
    let rollouts = scene.rollouts(&scene.developer);
    rollouts
        .delete("another", &DeleteParams::default())
        .await
        .unwrap();
    rollout["metadata"]["name"] = json!(ROLLOUT);
    rollout["spec"]["disabled"] = json!(true);
    create(&one, &rollout).await;
    scene.wait_pods("v2", 5).await;

    installation.kill_controller();
    installation.set_flags(&[]);
    installation.start_controller().await.unwrap();
    other.scene.wait_pods("v2", 5).await;
    let free = |app: &Value| mark(app, names::GUARDED_BY).is_null();
    assert_free(&other.scene.wait_app("free", free).await);
}

async fn create(subject: &Subject<'_>, rollout: &Value) {
    let scene = &subject.scene;
    let rollouts = scene.rollouts(&scene.developer);
    let name = rollout["metadata"]["name"].as_str().unwrap();
    let params = PatchParams::apply("developer");
    rollouts
        .patch(name, &params, &Patch::Apply(rollout))
        .await
        .unwrap();
}
