//! Faults that people have reported of commands that write; a case begins with the number of its report.

use futures::future::join;
use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, PostParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use support::{Identity, eventually, installed};

use super::{done, refused, run};
use crate::plugin::{Said, kruise};
use crate::scene::{APP, ROLLOUT, SOON, Scene, condition, mark};

const DEVELOPER: Identity = Identity::Developer;

fn steps() -> Value {
    json!([{"replicas": 1, "pause": {}}, {"replicas": "100%"}])
}

async fn rollout_command(scene: &Scene<'_>, words: &[&str]) -> Said {
    kruise(scene, DEVELOPER, &[&["rollout"], words].concat()).await
}

#[tokio::test]
async fn r64_every_way_to_name_a_rollout() {
    let scene = Scene::new(installed().await, "r64").await;
    scene.create_rollout(&steps()).await;
    for verb in ["pause", "disable"] {
        for kind in [
            "rollout",
            "rollouts",
            "ro",
            "rollouts.v1beta1.rollouts.kruise.io",
            "rollouts.rollouts.kruise.io",
        ] {
            let word = format!("{kind}/{ROLLOUT}");
            for words in [
                &[verb, &word, "--dry-run=server"][..],
                &[verb, kind, ROLLOUT, "--dry-run=server"],
            ] {
                let said = rollout_command(&scene, words).await;
                assert_eq!(said.code, 0, "{words:?}: {said:?}");
            }
        }
        let foreign = format!("rollouts.argoproj.io/{ROLLOUT}");
        let said = rollout_command(&scene, &[verb, &foreign]).await;
        assert!(
            said.code == 1 && said.talk.contains("rollouts.argoproj.io"),
            "{said:?}"
        );
    }
}

#[tokio::test]
async fn r65_undo_changes_exactly_the_object_that_is_named() {
    let scene = Scene::with_stateful_set(installed().await, "r65").await;
    scene.set(None, &steps()).await;
    // A custom workload of the same name, without pods.
    let gvk = GroupVersionKind::gvk("example.io", "v1", "MyStatefulApp");
    let resource = ApiResource::from_gvk_with_plural(&gvk, "mystatefulapps");
    let customs: Api<DynamicObject> =
        Api::namespaced_with(scene.developer.clone(), scene.namespace.name(), &resource);
    let mut custom = scene.manifest("v1", None);
    custom["apiVersion"] = json!("example.io/v1");
    custom["kind"] = json!("MyStatefulApp");
    custom["spec"] = json!({"replicas": 0, "template": custom["spec"]["template"]});
    customs
        .create(&PostParams::default(), &serde_json::from_value(custom).unwrap())
        .await
        .unwrap();
    let mut other = scene.rollout_manifest(&steps());
    other["metadata"]["name"] = json!("other");
    other["spec"]["workloadRef"] =
        json!({"apiVersion": "example.io/v1", "kind": "MyStatefulApp", "name": APP});
    scene
        .rollouts(&scene.developer)
        .create(&PostParams::default(), &serde_json::from_value(other).unwrap())
        .await
        .unwrap();
    let spec = async || serde_json::to_value(customs.get(APP).await.unwrap()).unwrap()["spec"].clone();
    let before = (spec().await, scene.app().await["spec"]["template"].clone());

    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    let undone = rollout_command(&scene, &["undo", &format!("sts/{APP}"), "--yes"]).await;
    assert!(
        undone.answer.starts_with("statefulset.apps/my-app rolled back"),
        "{undone:?}"
    );
    assert_eq!(
        (spec().await, scene.app().await["spec"]["template"].clone()),
        before
    );
    let workload = format!("mystatefulapps.example.io/{APP}");
    let undone = rollout_command(&scene, &["undo", &workload, "--yes"]).await;
    let nothing = undone.talk.contains("recorded: looked at");
    assert!(undone.code == 1 && nothing, "{undone:?}");
    assert_eq!(
        (spec().await, scene.app().await["spec"]["template"].clone()),
        before
    );
    let restarted = rollout_command(&scene, &["restart", &workload]).await;
    assert_eq!(restarted.answer, "mystatefulapp.example.io/my-app restarted\n");
    assert_ne!(spec().await, before.0);
    assert_eq!(scene.app().await["spec"]["template"], before.1);
}

#[tokio::test]
async fn r66_only_the_named_value_changes() {
    let scene = Scene::new(installed().await, "r66").await;
    let mut manifest = scene.manifest("v1", None);
    let containers = manifest["spec"]["template"]["spec"]["containers"]
        .as_array_mut()
        .unwrap();
    containers[0]["env"] = json!([{"name": "A", "value": "1"}, {"name": "B", "value": "2"}, {"name": "C"}]);
    containers.push(json!({"name": "side", "image": "my-registry/side:v1", "args": ["a", "b"]}));
    manifest["spec"]["template"]["spec"]["initContainers"] =
        json!([{"name": "init", "image": "my-registry/init:v1"}]);
    scene.set_to(&manifest, &steps()).await;
    let before = scene.app().await["spec"]["template"].clone();
    let rollout = scene.rollout().await["spec"].clone();
    done(&scene, DEVELOPER, "pause", &[]).await;
    done(&scene, DEVELOPER, "resume", &[]).await;
    let mut after = scene.rollout().await["spec"].clone();
    after["strategy"].as_object_mut().unwrap().remove("paused");
    assert_eq!(after, rollout);
    done(&scene, DEVELOPER, "restart", &[]).await;
    let mut after = scene.app().await["spec"]["template"].clone();
    let annotations = after["metadata"].as_object_mut().unwrap().remove("annotations");
    assert_eq!(annotations.unwrap().as_object().unwrap().len(), 1);
    assert_eq!(after, before);
}

#[tokio::test]
async fn r67_the_flag_beats_the_context() {
    let (here, there) = (
        Scene::new(installed().await, "r67-here").await,
        Scene::new(installed().await, "r67-there").await,
    );
    there.create_rollout(&steps()).await;
    let (target, elsewhere) = (format!("rollout/{ROLLOUT}"), there.namespace.name().to_owned());
    for verb in ["pause", "resume", "disable", "enable"] {
        let missing = rollout_command(&here, &[verb, &target]).await;
        assert_eq!(missing.code, 1, "{missing:?}");
        let says = format!("not found in namespace {}", here.namespace.name());
        assert!(missing.talk.contains(&says), "{missing:?}");
        let found = rollout_command(&here, &[verb, &target, "-n", &elsewhere]).await;
        assert_eq!(found.code, 0, "{found:?}");
    }
    let word = format!("{ROLLOUT}/{elsewhere}");
    let slashed = rollout_command(&here, &["pause", &word]).await;
    assert!(
        slashed.code == 1 && slashed.talk.contains("type of workloads"),
        "{slashed:?}"
    );
    assert!(slashed.talk.contains("hint:"), "{slashed:?}");
}

#[tokio::test]
async fn r71_each_command_has_its_effect_or_names_what_is_in_the_way() {
    let scene = Scene::new(installed().await, "r71").await;
    let mut manifest = scene.manifest("v1", None);
    manifest["spec"]["podManagementPolicy"] = json!("Parallel");
    scene
        .set_to(
            &manifest,
            &json!([{"replicas": 1, "pause": {}}, {"replicas": 2, "pause": {}}, {"replicas": "100%"}]),
        )
        .await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    done(&scene, DEVELOPER, "pause", &[]).await;
    refused(&scene, Identity::Approver, "approve", &[], "rollout resume").await;
    refused(
        &scene,
        Identity::Admin,
        "promote",
        &["--full", "--yes"],
        "rollout resume",
    )
    .await;
    done(&scene, DEVELOPER, "resume", &[]).await;
    // While somebody takes a broken version to its end, it is taken back.
    scene.set_version("bad").await;
    scene.wait_state(1, "StepUpgrade").await;
    let (promoted, undone) = join(
        run(
            &scene,
            Identity::Approver,
            "promote",
            &["--full", "--yes", "--timeout=60s"],
        ),
        async {
            scene.wait_pods("v1", 4).await;
            run(&scene, DEVELOPER, "undo", &["--yes"]).await
        },
    )
    .await;
    assert_eq!(undone.code, 0, "{undone:?}");
    assert_eq!(promoted.code, 6, "{promoted:?}");
    scene
        .wait("rolled back", |rollout| {
            condition(rollout, "Succeeded")["reason"] == "RolledBack"
        })
        .await;
}

#[tokio::test]
async fn r72_whoever_applies_the_template_again_is_named() {
    let scene = Scene::new(installed().await, "r72").await;
    let apply = async |version: &str, more: &[&str]| {
        let mut kubectl = scene.namespace.kubectl(DEVELOPER).unwrap();
        let file = std::env::temp_dir().join(format!("{}-{version}.json", scene.namespace.name()));
        std::fs::write(&file, scene.manifest(version, None).to_string()).unwrap();
        let output = kubectl
            .arg("apply")
            .arg("-f")
            .arg(&file)
            .args(more)
            .output()
            .await
            .unwrap();
        std::fs::remove_file(&file).unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    apply("v1", &[]).await;
    scene.wait_pods("v1", 5).await;
    scene.create_rollout(&steps()).await;
    scene.wait_phase("Healthy").await;
    apply("v2", &[]).await;
    scene.wait_state(1, "StepPaused").await;
    let undone = done(&scene, DEVELOPER, "undo", &["--yes", "--wait", "--timeout=60s"]).await;
    assert!(
        undone.talk.contains("its template is also kept by kubectl apply"),
        "{undone:?}"
    );
}

#[tokio::test]
async fn r74_history_that_has_been_trimmed() {
    let scene = Scene::with_stateful_set(installed().await, "r74").await;
    let mut manifest = scene.manifest("v1", None);
    manifest["spec"]["revisionHistoryLimit"] = json!(0);
    scene.set_to(&manifest, &steps()).await;
    let first = scene.app().await["spec"]["template"].clone();
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    // Revisions that pods have are kept.
    let undone = done(&scene, DEVELOPER, "undo", &["--yes", "--wait", "--timeout=60s"]).await;
    assert!(undone.answer.contains("rolled back to revision 1"), "{undone:?}");
    assert_eq!(scene.app().await["spec"]["template"], first);
    for revision in ["99", "-1", "abc"] {
        let flag = format!("--to-revision={revision}");
        let words =
            format!("no revision {revision} is recorded: looked at ControllerRevisions of the workload");
        refused(&scene, DEVELOPER, "undo", &["--yes", &flag], &words).await;
    }

    scene.set_version("v3").await;
    scene.wait_state(1, "StepPaused").await;
    let revisions: Api<ControllerRevision> = Api::namespaced(scene.admin.clone(), scene.namespace.name());
    // The operator may write one again that it needs for a new pod; the stable one it does not.
    let generation = scene.app().await["metadata"]["generation"].clone();
    eventually(SOON, "no revision is left", async || {
        revisions
            .delete_collection(&DeleteParams::default(), &ListParams::default())
            .await
            .map_err(|error| error.to_string())?;
        let left = revisions
            .list(&ListParams::default())
            .await
            .map_err(|error| error.to_string())?;
        let stable = |revision: &&ControllerRevision| {
            serde_json::to_value(revision)
                .unwrap()
                .to_string()
                .contains("my-app:v1")
        };
        match left.items.iter().filter(stable).count() {
            0 => Ok(()),
            count => Err(format!("{count} revisions")),
        }
    })
    .await;
    refused(
        &scene,
        DEVELOPER,
        "undo",
        &["--yes"],
        "is not recorded: looked at",
    )
    .await;
    assert_eq!(scene.app().await["metadata"]["generation"], generation);
    // The way out that is told.
    let file = std::env::temp_dir().join(format!("{}.json", scene.namespace.name()));
    std::fs::write(&file, scene.manifest("v1", None).to_string()).unwrap();
    let from = format!("--from-file={}", file.display());
    let undone = done(
        &scene,
        DEVELOPER,
        "undo",
        &["--yes", &from, "--wait", "--timeout=60s"],
    )
    .await;
    std::fs::remove_file(&file).unwrap();
    assert!(
        undone.answer.contains("rolled back to the template of"),
        "{undone:?}"
    );
    assert_eq!(
        mark(&scene.app().await, kruise_rollout::names::IN_PROGRESSING),
        &Value::Null
    );
    scene.wait_pods("v1", 5).await;
}
