//! What is wrong is named, and the command that is printed mends it.

mod outages;
mod requirements;

use std::path::Path;

use kruise_rollout::names;
use serde_json::{Value, json};
use support::{Identity, eventually, installed};

use crate::kinds::OwnKind;
use crate::plugin::{Said, kruise};
use crate::scene::{APP, ROLLOUT, SOON, Scene, condition, mark, partition, walk_steps};

fn target() -> String {
    format!("rollout/{ROLLOUT}")
}

/// Runs a command of the plugin whose answer is JSON; its exit code is checked.
async fn answer(scene: &Scene<'_>, who: Identity, arguments: &[&str], codes: &[i32]) -> Value {
    let said = kruise(scene, who, &[arguments, &["-o", "json"]].concat()).await;
    assert!(codes.contains(&said.code), "{said:?}");
    let document = serde_json::from_str(&said.answer).unwrap();
    crate::views::documented::check(&document);
    document
}

async fn doctor(scene: &Scene<'_>, who: Identity) -> Value {
    answer(scene, who, &["doctor", &target()], &[0, 3]).await
}

async fn explained(scene: &Scene<'_>) -> Value {
    answer(scene, Identity::Viewer, &["rollout", "explain", &target()], &[0]).await
}

/// The findings of a check.
fn of_check<'a>(diagnosis: &'a Value, check: &str) -> Vec<&'a Value> {
    let findings = diagnosis["findings"].as_array().unwrap();
    findings
        .iter()
        .filter(|finding| finding["check"] == check)
        .collect()
}

fn has(finding: &Value, words: &str) -> bool {
    finding["message"]
        .as_str()
        .is_some_and(|message| message.contains(words))
}

/// Waits until a check fails, or warns, with these words.
async fn wait_found(scene: &Scene<'_>, who: Identity, check: &str, words: &str) -> Value {
    eventually(SOON, &format!("{check} tells {words:?}"), async || {
        let diagnosis = doctor(scene, who).await;
        let wrong = |finding: &&&Value| {
            ["failure", "warning"]
                .iter()
                .any(|severity| finding["severity"] == *severity)
        };
        match of_check(&diagnosis, check)
            .iter()
            .filter(wrong)
            .find(|finding| has(finding, words))
        {
            Some(finding) => Ok((*finding).clone()),
            None => Err(format!("{diagnosis:#}")),
        }
    })
    .await
}

/// Waits until nothing of a check is wrong.
async fn wait_mended(scene: &Scene<'_>, who: Identity, check: &str) {
    eventually(SOON, &format!("{check} passes"), async || {
        let diagnosis = doctor(scene, who).await;
        let found = of_check(&diagnosis, check);
        match found.iter().all(|finding| {
            ["pass", "note"]
                .iter()
                .any(|severity| finding["severity"] == *severity)
        }) {
            true => Ok(()),
            false => Err(format!("{found:#?}")),
        }
    })
    .await;
}

/// Waits until one of the causes has these words.
async fn wait_cause(scene: &Scene<'_>, words: &str) -> Value {
    eventually(SOON, &format!("the cause {words:?}"), async || {
        let explanation = explained(scene).await;
        let causes = explanation["causes"].as_array().unwrap();
        match causes.iter().find(|cause| has(cause, words)) {
            Some(cause) => Ok(cause.clone()),
            None => Err(format!("{explanation:#}")),
        }
    })
    .await
}

/// Runs a printed line in a shell, as somebody.
async fn run(scene: &Scene<'_>, who: Identity, line: &str) -> Said {
    let kubectl = scene.namespace.kubectl(who).unwrap();
    let kubectl = kubectl.as_std();
    let folder = Path::new(kubectl.get_program()).parent().unwrap().to_owned();
    let mut shell = tokio::process::Command::new("sh");
    shell.arg("-c").arg(line).kill_on_drop(true);
    for (name, value) in kubectl.get_envs() {
        let Some(value) = value else { continue };
        if name == "PATH" {
            let mut path = folder.clone().into_os_string();
            path.push(":");
            path.push(value);
            shell.env(name, path);
        } else {
            shell.env(name, value);
        }
    }
    let output = shell.output().await.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let said = Said {
        code: output.status.code().unwrap(),
        answer: text(output.stdout),
        talk: text(output.stderr),
    };
    assert_eq!(said.code, 0, "{line}: {said:?}");
    said
}

/// The command of a finding.
fn command(finding: &Value) -> &str {
    finding["command"]
        .as_str()
        .unwrap_or_else(|| panic!("no command in {finding:#}"))
}

#[tokio::test]
async fn a_label_is_missing() {
    let scene = Scene::new(installed().await, "diagnosis-label").await;
    let mut manifest = scene.manifest("v1", Some(0));
    manifest["metadata"].as_object_mut().unwrap().remove("labels");
    scene.create_app(&manifest).await;
    scene.wait_pods("v1", 5).await;
    scene.create_rollout(&walk_steps()).await;
    scene.wait_phase("Disabled").await;

    let found = wait_found(&scene, Identity::Developer, "D07", "no label").await;
    let cause = &explained(&scene).await["causes"][0];
    assert_eq!(
        (&cause["check"], &cause["message"]),
        (&json!("D07"), &found["message"])
    );
    let said = kruise(&scene, Identity::Developer, &["doctor", &target()]).await;
    assert_eq!(said.code, 3, "{said:?}");
    assert!(said.answer.contains("Most likely cause: D07"), "{}", said.answer);

    run(&scene, Identity::Developer, command(&found)).await;
    scene.wait_phase("Healthy").await;
    wait_mended(&scene, Identity::Viewer, "D07").await;
    let well = kruise(&scene, Identity::Admin, &["doctor", &target()]).await;
    assert_eq!(well.code, 0, "{}", well.answer);
    // What doctor has tried has changed nothing.
    assert_eq!(partition(&scene.app().await), 0);
}

#[tokio::test]
async fn a_schema_lacks_the_partition() {
    let installation = installed().await;
    let kind = OwnKind::new("PrunedPartitionApp");
    kind.enable(installation).await;
    kind.define(installation, &["--no-partition"]).await;
    let _operator = kind.operate(installation, &[]);
    let scene = Scene::of_kind(installation, "diagnosis-pruned", kind.resource.clone()).await;
    scene.create_app(&scene.manifest("v1", None)).await;
    scene.wait_pods("v1", 5).await;
    scene.create_rollout(&walk_steps()).await;
    scene.wait_phase("Disabled").await;

    let found = wait_found(&scene, Identity::Viewer, "D08", "rollingUpdate.partition").await;
    let cause = wait_cause(&scene, "rollingUpdate.partition").await;
    assert_eq!(command(&cause), command(&found));
    let crd = "prunedpartitionapps.example.io";
    let unfit = answer(
        &scene,
        Identity::Viewer,
        &["workload", "check", "--crd", crd],
        &[3],
    )
    .await;
    assert_eq!(unfit["fit"], false);
    // Nobody labels what cannot be held, unless told to.
    let bare = format!("{crd}/{APP}");
    let refused = kruise(&scene, Identity::Admin, &["workload", "label", &bare]).await;
    assert!(
        refused.code == 1 && refused.talk.contains("--force"),
        "{refused:?}"
    );

    run(&scene, Identity::Admin, command(&found)).await;
    scene.wait_phase("Healthy").await;
    wait_mended(&scene, Identity::Viewer, "D08").await;
    let fit = answer(
        &scene,
        Identity::Developer,
        &["workload", "check", &bare, "--probe"],
        &[0],
    )
    .await;
    assert_eq!(fit["fit"], true);
}

#[tokio::test]
async fn an_operator_stops_and_a_step_waits_for_approval() {
    let installation = installed().await;
    let kind = OwnKind::new("StoppedOperatorApp");
    kind.enable(installation).await;
    kind.define(installation, &[]).await;
    let operator = kind.operate(installation, &[]);
    let scene = Scene::of_kind(installation, "diagnosis-operator", kind.resource.clone()).await;
    scene.set(Some(0), &walk_steps()).await;
    drop(operator);
    scene.set_version("v2").await;

    let cause = wait_cause(
        &scene,
        "the operator of StoppedOperatorApp.example.io is not running",
    )
    .await;
    assert!(
        cause["advice"]
            .as_str()
            .is_some_and(|advice| advice.contains("start the operator")),
        "{cause:#}"
    );
    assert!(
        cause["evidence"].to_string().contains("observedGeneration"),
        "{cause:#}"
    );
    wait_found(&scene, Identity::Viewer, "D09", "is not running").await;

    let _operator = kind.operate(installation, &[]);
    scene.wait_state(1, "StepPaused").await;
    wait_mended(&scene, Identity::Viewer, "D09").await;
    let cause = wait_cause(&scene, "step 1 of 3 is done and waits for approval").await;
    assert_eq!(cause["severity"], "note");
    run(&scene, Identity::Approver, command(&cause)).await;
    scene.wait_state(2, "StepPaused").await;
}

#[tokio::test]
async fn an_operator_reports_too_little() {
    let installation = installed().await;
    let kind = OwnKind::new("SilentStatusApp");
    kind.enable(installation).await;
    kind.define(installation, &[]).await;
    let omitted = [
        "--omit-status",
        "observedGeneration",
        "--omit-status",
        "updatedReplicas",
        "--omit-status",
        "updateRevision",
    ];
    let operator = kind.operate(installation, &omitted);
    let scene = Scene::of_kind(installation, "diagnosis-silent", kind.resource.clone()).await;
    scene.create_app(&scene.manifest("v1", None)).await;
    scene.wait_pods("v1", 5).await;
    scene.create_rollout(&walk_steps()).await;
    for field in ["status.observedGeneration", "status.updatedReplicas"] {
        wait_found(&scene, Identity::Viewer, "D09", field).await;
        wait_cause(&scene, field).await;
    }
    drop(operator);
    // What the advice says.
    let _operator = kind.operate(installation, &[]);
    wait_mended(&scene, Identity::Viewer, "D09").await;
}

#[tokio::test]
async fn pods_of_the_new_template_crash() {
    let scene = Scene::new(installed().await, "diagnosis-crash").await;
    scene.set(Some(0), &walk_steps()).await;
    scene
        .patch_rollout(&json!({"spec": {"strategy": {"canary": {"progressDeadlineSeconds": 2}}}}))
        .await;
    scene.set_version("bad").await;
    let cause = wait_cause(&scene, "pods of the new template do not start").await;
    assert!(has(&cause, "CrashLoopBackOff"), "{cause:#}");
    assert_eq!(explained(&scene).await["causes"][0]["message"], cause["message"]);
    wait_found(
        &scene,
        Identity::Viewer,
        "D11",
        "pods of the new template do not start",
    )
    .await;

    run(&scene, Identity::Developer, command(&cause)).await;
    scene
        .wait("rolled back", |rollout| {
            condition(rollout, "Succeeded")["reason"] == "RolledBack"
        })
        .await;
    scene.wait_pods("v1", 5).await;
    wait_mended(&scene, Identity::Viewer, "D11").await;
}

/// As another controller leaves it whose Rollout was deleted while it was down.
#[tokio::test]
async fn marks_are_left() {
    let installation = installed().await;
    let kind = OwnKind::new("LeftoverApp");
    kind.define(installation, &[]).await;
    let _operator = kind.operate(installation, &[]);
    let scene = Scene::of_kind(installation, "diagnosis-marks", kind.resource.clone()).await;
    let mut manifest = scene.manifest("v1", Some(names::HOLD_PARTITION));
    manifest["metadata"]["annotations"] = json!({names::IN_PROGRESSING: r#"{"rolloutName":"gone"}"#});
    scene.create_app(&manifest).await;
    scene.wait_pods("v1", 5).await;
    let look = async || answer(&scene, Identity::Viewer, &["doctor"], &[0, 3]).await;
    let diagnosis = look().await;
    let found = of_check(&diagnosis, "D13");
    assert!(has(found[0], "no Rollout is in force"), "{diagnosis:#}");
    let listed = answer(&scene, Identity::Viewer, &["workload", "list"], &[0]).await;
    let item = &listed["items"][0];
    assert_eq!(
        (&item["name"], &item["releasing"], &item["rollout"]),
        (&json!(APP), &json!(true), &Value::Null)
    );

    run(&scene, Identity::Developer, command(found[0])).await;
    let app = scene.app().await;
    assert_eq!(
        (partition(&app), mark(&app, names::IN_PROGRESSING)),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(of_check(&look().await, "D13")[0]["severity"], "pass");
}

#[tokio::test]
async fn rights_are_missing() {
    let scene = Scene::new(installed().await, "diagnosis-rights").await;
    scene.set(Some(0), &walk_steps()).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    let diagnosis = doctor(&scene, Identity::Developer).await;
    for (check, right) in [
        ("D02", "get customresourcedefinitions"),
        ("D05", "get mutatingwebhookconfigurations"),
        ("D08", "get customresourcedefinitions"),
    ] {
        let found = of_check(&diagnosis, check)[0];
        assert!(found["severity"] == "skipped" && has(found, right), "{found:#}");
    }
    let approving = |finding: &&&Value| has(finding, "may not patch rollouts.rollouts.kruise.io/status");
    let denied = of_check(&diagnosis, "D14");
    let denied = denied
        .iter()
        .find(approving)
        .unwrap_or_else(|| panic!("{diagnosis:#}"));
    let approve = ["rollout", "approve", &target()];
    let refused = kruise(&scene, Identity::Developer, &approve).await;
    assert_eq!(refused.code, 1, "{refused:?}");

    run(&scene, Identity::Admin, command(denied)).await;
    eventually(SOON, "the right is there", async || {
        let diagnosis = doctor(&scene, Identity::Developer).await;
        match of_check(&diagnosis, "D14")
            .iter()
            .any(|finding| approving(&finding))
        {
            false => Ok(()),
            true => Err(format!("{diagnosis:#}")),
        }
    })
    .await;
    let approved = kruise(&scene, Identity::Developer, &approve).await;
    assert_eq!(approved.code, 0, "{approved:?}");
}

#[tokio::test]
async fn plans_and_manifests_are_looked_at_before_they_are_applied() {
    let scene = Scene::new(installed().await, "diagnosis-lint").await;
    scene.set(Some(0), &walk_steps()).await;
    let app = format!("mystatefulapp/{APP}");
    let plan = answer(&scene, Identity::Viewer, &["rollout", "plan", &app], &[0]).await;
    let partitions: Vec<_> = plan["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| step["partition"].clone())
        .collect();
    assert_eq!(partitions, [4, 2, 0]);

    let folder = scene
        .namespace
        .kubeconfig(Identity::Viewer)
        .unwrap()
        .parent()
        .unwrap()
        .to_owned();
    let file = folder.join(format!("{}-lint.json", scene.namespace.name()));
    let lint = async |manifest: &Value, codes: &[i32]| {
        std::fs::write(&file, manifest.to_string()).unwrap();
        let path = file.to_str().unwrap();
        answer(
            &scene,
            Identity::Developer,
            &["rollout", "lint", "--online", "-f", path],
            codes,
        )
        .await
    };
    assert_eq!(
        lint(&scene.rollout_manifest(&walk_steps()), &[0]).await["errors"],
        0
    );
    let mut other = scene.rollout_manifest(&walk_steps());
    other["metadata"]["name"] = json!("other");
    let report = lint(&other, &[3]).await;
    assert_eq!(report["problems"][0]["rule"], "KR012", "{report:#}");
    other["spec"]["workloadRef"]["name"] = json!("nothing");
    let report = lint(&other, &[3]).await;
    assert!(
        report["problems"][0]["message"]
            .as_str()
            .unwrap()
            .contains("no MyStatefulApp nothing"),
        "{report:#}"
    );
}

#[tokio::test]
async fn labels_are_set_and_taken_away_by_selector() {
    let scene = Scene::new(installed().await, "diagnosis-labels").await;
    for name in ["one", "two"] {
        let mut manifest = scene.manifest("v1", None);
        manifest["metadata"]["name"] = json!(name);
        manifest["metadata"]["labels"] = json!({"team": name});
        scene.create_app(&manifest).await;
    }
    let label = async |arguments: &[&str]| {
        let all = [&["workload", "label", "mystatefulapps.example.io"], arguments].concat();
        kruise(&scene, Identity::Developer, &all).await
    };
    let one = label(&["-l", "team=one"]).await;
    assert_eq!(
        (one.code, one.answer.as_str()),
        (0, "mystatefulapp.example.io/one labeled\n"),
        "{one:?}"
    );
    let wrong = label(&["--all", "--type", "cloneset"]).await;
    assert!(
        wrong.code == 1 && wrong.talk.contains("statefulset, not cloneset"),
        "{wrong:?}"
    );
    let all = label(&["--all"]).await;
    let lines: Vec<_> = all.answer.lines().collect();
    assert_eq!(
        lines,
        [
            "mystatefulapp.example.io/one not labeled",
            "mystatefulapp.example.io/two labeled"
        ],
        "{all:?}"
    );
    let away = label(&["--all", "--remove"]).await;
    assert_eq!(away.answer.matches("unlabeled").count(), 2, "{away:?}");
    let listed = answer(&scene, Identity::Viewer, &["workload", "list"], &[0]).await;
    assert_eq!(listed["items"], json!([]));
}
