//! Restarts: a controller that is killed at any moment, or started as another user, and registrations that somebody resets. Where
//! nothing else is said, the webhook holds alone.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use kruise_rollout::names;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use support::{Identity, Installation, eventually};

use crate::gate::Gate;
use crate::ground::Ground;
use crate::kinds::OwnKind;
use crate::outage::wait_failure_policy;
use crate::scene::{SOON, Scene, WALK, assert_free, condition, mark, partition, walk_steps};

/// Kills the controller and starts it again.
async fn crash(installation: &mut Installation<'_>) {
    installation.kill_controller();
    installation.start_controller().await.unwrap();
}

#[tokio::test]
async fn a_controller_that_is_killed_at_every_turn_goes_on() {
    let mut installation = Ground::with_webhook_alone().await;
    let manual = Scene::new(&installation, "crash-manual").await;
    manual.set(Some(0), &walk_steps()).await;
    let timed = Scene::new(&installation, "crash-timed").await;
    let pause = 8;
    timed
        .set(
            None,
            &json!([{"replicas": 1, "pause": {"duration": pause}}, {"replicas": "100%"}]),
        )
        .await;
    let moving = Scene::new(&installation, "crash-moving").await;
    let second = json!({"duration": 1});
    let steps =
        json!([{"replicas": 1, "pause": second}, {"replicas": "50%", "pause": second}, {"replicas": "100%"}]);
    moving.set(Some(2), &steps).await;
    let gates = [
        Gate::open(&manual).await,
        Gate::open(&timed).await,
        Gate::open(&moving).await,
    ];
    manual.set_version("v2").await;
    timed.set_version("v2").await;
    manual.wait_state(1, "StepPaused").await;
    let paused = timed.wait_state(1, "StepPaused").await;

    // Right after the hold.
    moving.set_version("v2").await;
    installation.kill_controller();
    nothing_escapes_while_it_is_down(&manual).await;
    manual.approve().await;
    installation.start_controller().await.unwrap();
    for granted in [4, 2, 0, 2] {
        moving
            .wait_app(&format!("partition {granted}"), |app| {
                partition(app) == &json!(granted)
            })
            .await;
        crash(&mut installation).await;
    }

    for scene in [&manual, &timed, &moving] {
        let done = scene
            .wait("completed", |rollout| {
                condition(rollout, "Succeeded")["status"] == "True"
            })
            .await;
        assert_eq!(done["status"]["phase"], "Healthy");
        scene.wait_pods("v2", 5).await;
        assert_free(&scene.app().await);
    }
    let changed = |rollout: &Value| -> Timestamp {
        let time = rollout["status"]["canaryStatus"]["lastUpdateTime"].as_str();
        time.unwrap().parse().unwrap()
    };
    let waited = changed(&timed.rollout().await).duration_since(changed(&paused));
    assert!(waited >= SignedDuration::from_secs(pause), "{waited:?}");

    let [manual, timed, moving] = &gates;
    let held = (Some(names::HOLD_PARTITION), 0);
    assert_eq!(manual.steps("v2").await, [&[(Some(0), 0)], &WALK[..]].concat());
    assert_eq!(
        timed.steps("v2").await,
        [(None, 0), held, (Some(4), 1), (Some(0), 5), (None, 5)]
    );
    assert_eq!(
        moving.steps("v2").await,
        [&[(Some(2), 0)], &WALK[..], &[(Some(2), 5)]].concat()
    );
}

/// Without a controller, what could loosen a hold is refused, and everything else goes through.
async fn nothing_escapes_while_it_is_down(scene: &Scene<'_>) {
    let open = json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}});
    let image = json!({"spec": {"template": {"metadata": {"labels": {"app": "my-app", "more": "x"}}}}});
    let marks = json!({"metadata": {"annotations": null}});
    for patch in [open, image, marks] {
        let answer = scene.merge(&patch).await;
        let message = answer.body["message"].as_str().unwrap_or_default();
        assert!(
            answer.code >= 500 && message.contains(names::HOLD_WEBHOOK),
            "{answer:?}"
        );
    }
    let note = json!({"metadata": {"annotations": {"example.io/note": "x"}, "labels": {"tier": "web"}}});
    assert_eq!(scene.merge(&note).await.code, 200);
}

/// The entry of a kind in the MutatingWebhookConfiguration.
async fn registration(scene: &Scene<'_>, plural: &str) -> Result<(), String> {
    let api: Api<MutatingWebhookConfiguration> = Api::all(scene.admin.clone());
    let found = api
        .get(names::WEBHOOK_CONFIGURATION)
        .await
        .map_err(|error| error.to_string())?;
    let webhooks = found.webhooks.unwrap_or_default();
    let name = format!("{plural}.example.io.{}", names::HOLD_WEBHOOK);
    if webhooks.iter().any(|webhook| webhook.name == name) {
        Ok(())
    } else {
        Err(format!(
            "{:?}",
            webhooks.iter().map(|webhook| &webhook.name).collect::<Vec<_>>()
        ))
    }
}

#[tokio::test]
async fn a_rollout_that_is_deleted_meanwhile_frees_its_workload() {
    let mut installation = Ground::with_webhook_alone().await;
    let kind = OwnKind::new("OrphanApp");
    kind.enable(&installation).await;
    kind.define(&installation, &[]).await;
    let _operator = kind.operate(&installation, &[]);
    let scene = Scene::of_kind(&installation, "crash-deleted", kind.resource.clone()).await;
    scene.set(Some(2), &walk_steps()).await;
    registration(&scene, "orphanapps").await.unwrap();
    let gate = Gate::open(&scene).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;

    installation.kill_controller();
    scene.delete_rollout().await;
    assert_eq!(
        scene
            .rollouts(&scene.admin)
            .get_opt(crate::scene::ROLLOUT)
            .await
            .unwrap(),
        None
    );
    installation.start_controller().await.unwrap();

    let app = scene
        .wait_app("freed", |app| mark(app, names::GUARDED_BY).is_null())
        .await;
    assert_free(&app);
    assert_eq!(partition(&app), &json!(2));
    scene.wait_pods("v2", 5).await;
    assert_eq!(
        gate.steps("v2").await,
        [&[(Some(2), 0)], &WALK[..2], &[(Some(0), 5), (Some(2), 5)]].concat()
    );
    eventually(
        SOON,
        "the kind is not registered any more",
        async || match registration(&scene, "orphanapps").await {
            Ok(()) => Err("it is"),
            Err(_) => Ok(()),
        },
    )
    .await;
    // Nobody waits for us any more.
    let free = scene.set_version("v3").await;
    assert_eq!(partition(&free), &json!(2));
    scene.wait_pods("v3", 3).await;
}

#[tokio::test]
async fn a_registration_that_somebody_resets_is_put_right() {
    let installation = Ground::with_webhook_alone().await;
    let scene = Scene::new(&installation, "reset").await;
    scene.set(Some(0), &walk_steps()).await;
    let is_back = async |how: &str| {
        eventually(SOON, &format!("registered again after {how}"), async || {
            registration(&scene, "mystatefulapps").await?;
            // It is in force, too.
            scene.would_be_held().await
        })
        .await;
    };
    is_back("nothing").await;

    let mutating: Api<MutatingWebhookConfiguration> = Api::all(scene.admin.clone());
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(scene.admin.clone());
    let name = names::WEBHOOK_CONFIGURATION;
    mutating.delete(name, &DeleteParams::default()).await.unwrap();
    is_back("a deletion").await;

    let emptied = Patch::Merge(json!({"webhooks": []}));
    let params = PatchParams::default();
    mutating.patch(name, &params, &emptied).await.unwrap();
    is_back("its entries were removed").await;

    let mut kubectl = scene.namespace.kubectl(Identity::Admin).unwrap();
    let operation = r#"[{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]"#;
    kubectl.args([
        "patch",
        "mutatingwebhookconfiguration",
        name,
        "--type=json",
        "-p",
        operation,
    ]);
    let output = kubectl.output().await.unwrap();
    assert!(output.status.success(), "{output:?}");
    is_back("its CA was removed").await;

    validating.patch(name, &params, &emptied).await.unwrap();
    eventually(SOON, "Rollouts are reviewed again", async || {
        let mut second = scene.rollout_manifest(&walk_steps());
        second["metadata"]["name"] = json!("second");
        let second = serde_json::from_value(second).unwrap();
        let params = kube::api::PostParams {
            dry_run: true,
            ..kube::api::PostParams::default()
        };
        match scene.rollouts(&scene.developer).create(&params, &second).await {
            Err(kube::Error::Api(status)) if status.code == 422 => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

#[tokio::test]
async fn a_release_goes_on_when_the_controller_runs_as_another_user() {
    let mut installation = Ground::with_controller().await;
    let scene = Scene::new(&installation, "other-user").await;
    let second = json!({"duration": 1});
    scene
        .set(
            Some(0),
            &json!([{"replicas": 1, "pause": second}, {"replicas": "100%"}]),
        )
        .await;
    let gate = Gate::open(&scene).await;
    for (identity, version) in [(Identity::Admin, "v2"), (Identity::Controller, "v3")] {
        // The policies hold without a controller from now on.
        wait_failure_policy(&scene.admin, "Ignore").await;
        installation.kill_controller();
        scene.set_version(version).await;
        let kubeconfig = installation.control_plane().kubeconfig(identity);
        // The policies exempt the user before from the hold, and no other.
        installation
            .start_controller_with(&kubeconfig, &[])
            .await
            .unwrap();
        scene.wait_pods(version, 5).await;
        scene.wait_phase("Healthy").await;
        assert_free(&scene.app().await);
        gate.within_grants(version).await;
    }
}
