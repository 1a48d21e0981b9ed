//! Many objects, many writers, and objects that are no good.

use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::future::join_all;
use kruise_rollout::names;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use support::{Entry, Identity, eventually, installed};
use tokio::task::JoinSet;

use crate::gate::Gate;
use crate::ground::{Ground, finish, two_steps, without_reviews};
use crate::kinds::OwnKind;
use crate::scene::{APP, ROLLOUT, SOON, Scene, condition, mark, partition};

/// Environment variable: how many objects a list has that takes several pages.
const OBJECTS: &str = "KRUISE_OBJECTS";
/// So many in a usual run: more than one page.
const FEW_OBJECTS: usize = 300;
/// All that is there is known so long after a start.
const KNOWN: Duration = Duration::from_secs(30);

/// Two writers that change app and Rollout every 50 ms during a whole release.
#[tokio::test]
async fn r39_other_writers_all_the_time() {
    let scene = Scene::new(installed().await, "writers").await;
    scene.set(Some(2), &two_steps()).await;
    let gate = Gate::open(&scene).await;
    let audit = scene.namespace.control_plane().audit();
    let since = audit.mark();
    let mut writers = JoinSet::new();
    let (apps, rollouts) = (scene.apps(&scene.developer), scene.rollouts(&scene.developer));
    writers.spawn(async move {
        let mut rhythm = tokio::time::interval(Duration::from_millis(50));
        for count in 0.. {
            rhythm.tick().await;
            let note =
                Patch::Merge(json!({"metadata": {"annotations": {"example.io/count": count.to_string()}}}));
            let params = PatchParams::default();
            let (app, rollout) = tokio::join!(
                apps.patch(APP, &params, &note),
                rollouts.patch(ROLLOUT, &params, &note)
            );
            app.unwrap();
            rollout.unwrap();
        }
    });
    scene.set_version("v2").await;
    finish(&scene, "v2").await;
    scene
        .wait_app("handed back", |app| mark(app, names::IN_PROGRESSING).is_null())
        .await;
    assert!(writers.try_join_next().is_none(), "a writer was refused");
    writers.shutdown().await;
    let held = Some(names::HOLD_PARTITION);
    assert_eq!(
        gate.steps("v2").await,
        [(Some(2), 0), (held, 0), (Some(4), 1), (Some(0), 5), (Some(2), 5)]
    );
    let entries = audit.since(since);
    let ours = |entry: &&Entry| {
        entry.user == Identity::Controller.user()
            && entry.namespace == scene.namespace.name()
            && entry.is_write()
    };
    let ours: Vec<_> = entries.iter().filter(ours).collect();
    let of_app = ours.iter().filter(|entry| entry.resource == "mystatefulapps");
    assert!(of_app.filter(|entry| entry.succeeded()).count() <= 4, "{ours:#?}");
    let of_rollout: Vec<_> = ours.iter().filter(|entry| entry.resource == "rollouts").collect();
    // Three for each of two steps and the end, and twice as many that lost a race.
    let succeeded = of_rollout.iter().filter(|entry| entry.succeeded()).count();
    assert!(succeeded <= 9 && of_rollout.len() <= 27, "{ours:#?}");
}

/// Rollouts that no webhook has refused.
fn unfit(scene: &Scene<'_>, late: &OwnKind) -> Vec<Value> {
    let of = |name: &str, reference: Value, pause: Value| {
        let mut rollout = scene.rollout_manifest(&json!([{"replicas": 1, "pause": pause}]));
        rollout["metadata"]["name"] = json!(name);
        rollout["spec"]["workloadRef"] = reference;
        rollout
    };
    let app = json!({"apiVersion": "example.io/v1", "kind": "MyStatefulApp", "name": "absent"});
    let kind = json!({"apiVersion": "example.io/v1", "kind": late.resource.kind, "name": APP});
    let slashes = json!({"apiVersion": "a/b/c", "kind": "MyStatefulApp", "name": APP});
    let without = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "kube-root-ca.crt"});
    let past = json!({"apiVersion": "example.io/v1", "kind": "MyStatefulApp", "name": "negative"});
    vec![
        of("absent", app, json!({})),
        of("kind", kind, json!({})),
        of("slashes", slashes, json!({})),
        of("without", without, json!({})),
        of("past", past, json!({"duration": -5})),
    ]
}

/// Five that cannot work, beside one that can: each is told why, and none costs anything.
#[tokio::test]
async fn r29_objects_that_are_no_good_cost_nothing() {
    let late = OwnKind::new("LateApp");
    let mut ground = Ground::take().await;
    let bad = Scene::new(&ground, "no-good").await;
    let good = Scene::new(&ground, "good").await;
    without_reviews(&ground).await;
    let mut created = Vec::new();
    for manifest in unfit(&bad, &late) {
        // The schema may refuse some by itself.
        let rollout = serde_json::from_value(manifest).unwrap();
        if let Ok(rollout) = bad
            .rollouts(&bad.admin)
            .create(&PostParams::default(), &rollout)
            .await
        {
            created.push(rollout.metadata.name.unwrap());
        }
    }
    println!("accepted by the schema: {created:?}");
    assert!(created.len() >= 3, "{created:?}");
    ground.start_controller().await.unwrap();
    for name in &created {
        let told = |rollout: &Value| {
            let ready = condition(rollout, "Ready");
            ready["status"] == "False" && ready["reason"].as_str().is_some_and(|reason| !reason.is_empty())
        };
        until(&bad, name, "told why", told).await;
    }
    let audit = ground.control_plane().audit();
    let (mark, since) = (audit.mark(), Instant::now());
    good.set(Some(0), &two_steps()).await;
    good.set_version("v2").await;
    good.wait_state(1, "StepPaused").await;
    finish(&good, "v2").await;
    // What is measured is a rate, so this is no wait for a condition.
    tokio::time::sleep(Duration::from_secs(5).saturating_sub(since.elapsed())).await;
    let spent = spent_elsewhere(&audit.since(mark), &good);
    let seconds = since.elapsed().as_secs() as usize;
    assert!(spent.len() <= seconds, "{seconds} s: {spent:#?}");

    // What was missing comes, and no restart is needed.
    let mut absent = bad.manifest("v1", Some(0));
    absent["metadata"]["name"] = json!("absent");
    bad.create_app(&absent).await;
    late.enable(&ground).await;
    late.define(&ground, &[]).await;
    let _operator = late.operate(&ground, &[]);
    let apps: Api<DynamicObject> =
        Api::namespaced_with(bad.admin.clone(), bad.namespace.name(), &late.resource);
    let mut app = bad.manifest("v1", Some(0));
    app["kind"] = json!("LateApp");
    app["spec"]["template"]["metadata"]["labels"]["app"] = json!("late");
    let app = serde_json::from_value(app).unwrap();
    apps.create(&PostParams::default(), &app).await.unwrap();
    for name in ["absent", "kind"] {
        let healthy = |rollout: &Value| rollout["status"]["phase"] == "Healthy";
        until(&bad, name, "healthy", healthy).await;
    }
    assert!(ground.controller.as_ref().unwrap().is_running());
}

/// The controller's requests that have nothing to do with a release elsewhere, the registrations or the lease.
fn spent_elsewhere(entries: &[Entry], release: &Scene<'_>) -> Vec<String> {
    let apart = |entry: &&Entry| {
        entry.user == Identity::Controller.user()
            && entry.namespace != release.namespace.name()
            && entry.verb != "watch"
            && !["leases", "clusterroles"].contains(&entry.resource.as_str())
            && entry.group != "admissionregistration.k8s.io"
    };
    let told = |entry: &Entry| format!("{} {}", entry.verb, entry.uri);
    entries.iter().filter(apart).map(told).collect()
}

/// Waits until a Rollout of this name satisfies the condition.
async fn until(scene: &Scene<'_>, name: &str, what: &str, condition: impl Fn(&Value) -> bool) {
    eventually(SOON, &format!("{name}: {what}"), async || {
        let rollout = scene.rollouts(&scene.admin).get(name).await.unwrap();
        let rollout = serde_json::to_value(rollout).unwrap();
        if condition(&rollout) {
            Ok(())
        } else {
            Err(format!("{:#}", rollout["status"]))
        }
    })
    .await;
}

/// More objects than one page of a list has, in front of those that are in mid-release.
#[tokio::test]
async fn r81_a_list_of_several_pages() {
    let objects = std::env::var(OBJECTS).map_or(FEW_OBJECTS, |text| text.parse().unwrap());
    let mut ground = Ground::with_controller().await;
    let many = Scene::new(&ground, "aa-paged").await;
    let last = join_all((0..3).map(|_| Scene::new(&ground, "zz-paged"))).await;
    join_all(last.iter().map(async |scene| {
        scene.set(Some(0), &two_steps()).await;
        scene.set_version("v2").await;
        scene.wait_state(1, "StepPaused").await;
    }))
    .await;
    ground.kill_controller();
    let (apps, rollouts) = (many.apps(&many.admin), many.rollouts(&many.admin));
    without_reviews(&ground).await;
    let began = Instant::now();
    futures::stream::iter(0..objects)
        .for_each_concurrent(16, async |number| {
            let mut app = many.manifest("v1", Some(0));
            app["metadata"]["name"] = json!(format!("app-{number}"));
            app["spec"]["replicas"] = json!(0);
            let mut rollout = many.rollout_manifest(&two_steps());
            rollout["metadata"]["name"] = json!(format!("rollout-{number}"));
            rollout["spec"]["workloadRef"]["name"] = json!(format!("missing-{number}"));
            let (app, rollout) = (
                serde_json::from_value(app).unwrap(),
                serde_json::from_value(rollout).unwrap(),
            );
            apps.create(&PostParams::default(), &app).await.unwrap();
            rollouts.create(&PostParams::default(), &rollout).await.unwrap();
        })
        .await;
    println!("{objects} of each made in {:?}", began.elapsed());

    let started = Instant::now();
    ground.start_controller().await.unwrap();
    // The last one is held at once.
    let held = last[2].set_version("v3").await;
    assert_eq!(partition(&held), names::HOLD_PARTITION);
    eventually(KNOWN, "all are known", async || {
        let list = rollouts
            .list(&ListParams::default())
            .await
            .map_err(|error| error.to_string())?;
        let unknown = list
            .items
            .iter()
            .filter(|rollout| rollout.status.is_none())
            .count();
        if unknown == 0 {
            Ok(())
        } else {
            Err(format!("{unknown} are not"))
        }
    })
    .await;
    println!("all known {:?} after the start", started.elapsed());
    for (scene, version) in last.iter().zip(["v2", "v2", "v3"]) {
        finish(scene, version).await;
    }
}
