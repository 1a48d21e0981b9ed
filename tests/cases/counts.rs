//! Counts: what a release costs the API server, from its audit log.

use std::time::Duration;

use futures::{StreamExt as _, stream};
use k8s_openapi::api::apps::v1::ControllerRevision;
use kruise_rollout::api::v1beta1::Rollout;
use kruise_rollout::names;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use support::{Entry, Identity, Mark, eventually, installed};
use tokio::time::sleep;

use crate::changes::Changes;
use crate::outage::wait_failure_policy;
use crate::scene::{SOON, Scene, walk_steps};

/// The most writes to Rollout, records and workload in a release of three steps.
const BUDGET: usize = 14;
/// For this long nothing is written once a release has ended.
const IDLE: Duration = Duration::from_secs(3);

/// Stored or dry-run writes in the namespace of the scene; events apart, which tell and decide nothing.
fn writes(scene: &Scene<'_>, since: Mark) -> Vec<Entry> {
    let entries = scene.namespace.control_plane().audit().since(since);
    let concerns = |entry: &Entry| {
        let reads = matches!(entry.verb.as_str(), "get" | "list" | "watch");
        entry.namespace == scene.namespace.name() && entry.resource != "events" && !reads && entry.succeeded()
    };
    entries.into_iter().filter(concerns).collect()
}

fn by_controller(entries: &[Entry]) -> Vec<&Entry> {
    let ours = entries
        .iter()
        .filter(|entry| entry.user == Identity::Controller.user());
    ours.collect()
}

fn told(entries: &[&Entry]) -> String {
    let line = |entry: &&Entry| {
        let (verb, resource, part) = (&entry.verb, &entry.resource, &entry.subresource);
        format!(
            "{verb} {resource}/{part} dry-run={} {}\n",
            entry.dry_run, entry.request
        )
    };
    entries.iter().map(line).collect()
}

fn rollouts(scene: &Scene<'_>) -> Api<DynamicObject> {
    let resource = ApiResource::erase::<Rollout>(&());
    Api::namespaced_with(scene.admin.clone(), scene.namespace.name(), &resource)
}

/// App and Rollout once nobody has written them for some looks.
async fn quiet(scene: &Scene<'_>) -> [Value; 2] {
    const LOOKS: u32 = 10;
    let (mut last, mut same) = ([Value::Null, Value::Null], 0);
    eventually(SOON, "nobody writes", async || {
        let now = [scene.app().await, scene.rollout().await];
        same = if now == last { same + 1 } else { 0 };
        last.clone_from(&now);
        if same >= LOOKS {
            Ok(now)
        } else {
            Err(format!("the same for {same} looks"))
        }
    })
    .await
}

#[tokio::test]
async fn a_release_of_three_steps_keeps_the_budget_of_writes() {
    let installation = installed().await;
    let scene = Scene::new(installation, "counts").await;
    scene.set(Some(2), &walk_steps()).await;
    // The policies of the kind have been proven, which takes a dry-run for all its workloads together.
    wait_failure_policy(&scene.admin, "Ignore").await;
    let audit = scene.namespace.control_plane().audit();
    // Whatever led here has reached the log before what follows.
    let before = quiet(&scene).await;
    let mark = audit.mark();
    let apps = Changes::watch(&scene.apps(&scene.admin)).await;
    let rollouts = Changes::watch(&rollouts(&scene)).await;

    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    scene.approve().await;
    scene.wait_phase("Healthy").await;
    scene.wait_pods("v2", 5).await;
    let after = quiet(&scene).await;
    let ended = audit.mark();
    // What is watched for here is that nothing happens, so this is no wait for a condition.
    sleep(IDLE).await;
    let idle = writes(&scene, ended);
    let idle: Vec<&Entry> = by_controller(&idle);
    assert_eq!(quiet(&scene).await, after, "{}", told(&idle));

    let all = writes(&scene, mark);
    let (labels, ours): (Vec<_>, Vec<_>) = by_controller(&all)
        .into_iter()
        .partition(|entry| entry.resource == "pods");
    assert!(ours.len() <= BUDGET, "{} writes:\n{}", ours.len(), told(&ours));
    assert_eq!(labels.len(), 5, "one for each pod:\n{}", told(&labels));
    assert!(ours.iter().all(|entry| !entry.dry_run), "{}", told(&ours));

    // Every write has changed something: the server shows as many changes as there were writes.
    for (resource, changes) in [("mystatefulapps", &apps), ("rollouts", &rollouts)] {
        let count = all.iter().filter(|entry| entry.resource == resource).count();
        eventually(SOON, "the changes are seen", async || {
            let seen = changes.count();
            if seen >= count {
                Ok(())
            } else {
                Err(format!("{seen} changes by {count} writes of {resource}"))
            }
        })
        .await;
        assert_eq!(changes.count(), count, "{resource}");
    }
    assert_ne!(before, after);
}

#[tokio::test]
async fn proving_the_guard_takes_two_dry_runs() {
    let installation = installed().await;
    // The kind is registered from here on.
    let first = Scene::new(installation, "counts-first").await;
    first.set(None, &walk_steps()).await;
    wait_failure_policy(&first.admin, "Ignore").await;

    let scene = Scene::new(installation, "counts-proof").await;
    scene.create_app(&scene.manifest("v1", None)).await;
    scene.wait_pods("v1", 5).await;
    let mark = scene.namespace.control_plane().audit().beginning();
    scene.create_rollout(&walk_steps()).await;
    scene.wait_phase("Healthy").await;
    quiet(&scene).await;
    let all = writes(&scene, mark);
    let ours = by_controller(&all);
    let count = |resource: &str, dry_run: bool| {
        let like = |entry: &&&Entry| entry.resource == resource && entry.dry_run == dry_run;
        ours.iter().filter(like).count()
    };
    assert_eq!(count("mystatefulapps", true), 2, "{}", told(&ours));
    assert_eq!(count("mystatefulapps", false), 1, "{}", told(&ours));
    assert_eq!(count("controllerrevisions", false), 1, "{}", told(&ours));
    assert!(count("rollouts", false) <= 2, "{}", told(&ours));
    assert_eq!(
        scene.app().await["metadata"]["annotations"]
            .as_object()
            .unwrap()
            .len(),
        1
    );
    assert_eq!(
        json!(null),
        scene.app().await["metadata"]["annotations"][names::IN_PROGRESSING]
    );
}

/// Revisions of others: more than a page of a list.
const NEIGHBOURS: usize = 120;

/// Revisions of others in the namespace of a scene.
async fn create_neighbours(scene: &Scene<'_>) {
    let revisions: Api<ControllerRevision> = Api::namespaced(scene.admin.clone(), scene.namespace.name());
    let create = async |number: usize| {
        let revision = json!({"metadata": {"name": format!("theirs-{number}")}, "revision": 1, "data": {}});
        let revision = serde_json::from_value(revision).unwrap();
        revisions.create(&PostParams::default(), &revision).await.unwrap();
    };
    stream::iter(0..NEIGHBOURS)
        .map(create)
        .buffer_unordered(16)
        .collect::<Vec<()>>()
        .await;
}

/// What the controller has listed of the revisions in the namespace of the scene: the selectors.
fn selectors(scene: &Scene<'_>, since: Mark) -> Vec<String> {
    let entries = scene.namespace.control_plane().audit().since(since).into_iter();
    let lists = entries.filter(|entry| {
        entry.user == Identity::Controller.user()
            && (entry.verb.as_str(), entry.resource.as_str()) == ("list", "controllerrevisions")
            && entry.namespace == scene.namespace.name()
    });
    let selector = |uri: &str| {
        let (_, query) = uri.split_once('?')?;
        let selector = query
            .split('&')
            .find_map(|pair| pair.strip_prefix("labelSelector="))?;
        Some(
            selector
                .replace("%2F", "/")
                .replace("%3D", "=")
                .replace("%21", "!"),
        )
    };
    lists
        .map(|entry| selector(&entry.uri).unwrap_or_default())
        .collect()
}

/// A release from step 1 to its end.
async fn release(scene: &Scene<'_>, version: &str) {
    scene.set_version(version).await;
    scene.wait_state(1, "StepPaused").await;
    scene.approve().await;
    scene.wait_phase("Healthy").await;
}

/// The records of the scene's Rollout: number and label, by number.
async fn records(scene: &Scene<'_>) -> Vec<(i64, Option<String>)> {
    let revisions: Api<ControllerRevision> = Api::namespaced(scene.admin.clone(), scene.namespace.name());
    let all = revisions.list(&ListParams::default()).await.unwrap();
    let ours = all.items.into_iter().filter(|revision| {
        let owners = revision.metadata.owner_references.as_deref().unwrap_or_default();
        owners.iter().any(|owner| owner.kind == "Rollout")
    });
    let mut records: Vec<_> = ours
        .map(|record| {
            let labels = record.metadata.labels.unwrap_or_default();
            (record.revision, labels.get(names::RECORD_OF).cloned())
        })
        .collect();
    records.sort();
    records
}

#[tokio::test]
async fn what_is_read_for_a_record_does_not_depend_on_the_neighbours() {
    let installation = installed().await;
    let scene = Scene::new(installation, "counts-records").await;
    create_neighbours(&scene).await;
    let mark = scene.namespace.control_plane().audit().beginning();
    scene.set(None, &walk_steps()).await;
    release(&scene, "v2").await;
    let uid = scene.rollout().await["metadata"]["uid"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(
        records(&scene).await,
        [(1, Some(uid.clone())), (2, Some(uid.clone()))]
    );
    // One list for the stable template and one for the release.
    let own = format!("{}={uid}", names::RECORD_OF);
    eventually(SOON, "the lists are in the log", async || {
        let lists = selectors(&scene, mark);
        if lists.len() >= 2 {
            Ok(())
        } else {
            Err(format!("{lists:?}"))
        }
    })
    .await;
    assert_eq!(selectors(&scene, mark), [own.clone(), own]);
}

#[tokio::test]
async fn records_of_a_version_without_the_label_are_found_and_labelled_once() {
    let installation = installed().await;
    let scene = Scene::new(installation, "counts-old-records").await;
    scene.set(None, &walk_steps()).await;
    release(&scene, "v2").await;
    let revisions: Api<ControllerRevision> = Api::namespaced(scene.admin.clone(), scene.namespace.name());
    let labelled = ListParams::default().labels(names::RECORD_OF);
    for record in revisions.list(&labelled).await.unwrap().items {
        let patch = json!({"metadata": {"labels": {names::RECORD_OF: null}}});
        let (name, params) = (record.metadata.name.unwrap(), PatchParams::default());
        revisions
            .patch(&name, &params, &Patch::Merge(patch))
            .await
            .unwrap();
    }
    let uid = scene.rollout().await["metadata"]["uid"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(records(&scene).await, [(1, None), (2, None)]);
    let mark = scene.namespace.control_plane().audit().mark();
    release(&scene, "v3").await;
    let of = |number| (number, Some(uid.clone()));
    assert_eq!(records(&scene).await, [of(1), of(2), of(3)]);
    release(&scene, "v4").await;
    assert_eq!(records(&scene).await, [of(1), of(2), of(3), of(4)]);
    let (own, old) = (
        format!("{}={uid}", names::RECORD_OF),
        format!("!{}", names::RECORD_OF),
    );
    eventually(SOON, "the lists are in the log", async || {
        let lists = selectors(&scene, mark);
        if lists == [&own, &old, &own].map(String::as_str) {
            Ok(())
        } else {
            Err(format!("{lists:?}"))
        }
    })
    .await;
}
