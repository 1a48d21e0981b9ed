//! What the plugin asks of the API server, from its audit log: each request has a reason, and long lists come in pages.

use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::apps::v1::StatefulSet;
use kruise_rollout::api::v1beta1::Rollout;
use kruise_rollout::names;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use support::{ControlPlane, Identity, Installation, Options, TestNamespace, eventually};

use crate::scene::SOON;

/// How long a new control plane may take to give a workload its pods.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// Requests of this test that are under way at the same time.
const AT_ONCE: usize = 16;

/// StatefulSets without pods, and their Rollouts, which no controller looks at.
struct Many<'a> {
    namespace: TestNamespace<'a>,
    sets: Api<StatefulSet>,
    rollouts: Api<Rollout>,
}

impl<'a> Many<'a> {
    async fn new(control_plane: &'a ControlPlane) -> Self {
        let namespace = TestNamespace::create(control_plane, "requests").await.unwrap();
        let admin = namespace.client(Identity::Admin).await.unwrap();
        Self {
            sets: Api::namespaced(admin.clone(), namespace.name()),
            rollouts: Api::namespaced(admin, namespace.name()),
            namespace,
        }
    }

    async fn create(&self, numbers: std::ops::Range<usize>) {
        let params = PostParams::default();
        let each = numbers.map(async |number| {
            let name = format!("app-{number:04}");
            let labels = json!({"app": name});
            let set = json!({
                "metadata": {"name": name},
                "spec": {"replicas": 0, "serviceName": name, "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "app", "image": "my-registry/my-app:v1"}]}}}
            });
            let rollout = json!({
                "apiVersion": names::API_VERSION, "kind": "Rollout",
                "metadata": {"name": format!("{name}-rollout"), "labels": labels},
                "spec": {"workloadRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name},
                    "strategy": {"canary": {"steps": [{"replicas": 1, "pause": {}}, {"replicas": "100%"}]}}}
            });
            let set = serde_json::from_value(set).unwrap();
            let rollout = serde_json::from_value(rollout).unwrap();
            self.sets.create(&params, &set).await?;
            self.rollouts.create(&params, &rollout).await
        });
        let created = stream::iter(each).buffer_unordered(AT_ONCE);
        created.try_for_each(async |_| Ok(())).await.unwrap();
    }

    async fn scale(&self, name: &str, replicas: i32) {
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        self.sets
            .patch(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
        eventually(READY_WITHIN, "the pods are ready", async || {
            let set = self.sets.get(name).await.map_err(|error| error.to_string())?;
            let ready = set.status.and_then(|status| status.ready_replicas);
            (ready == Some(replicas))
                .then_some(())
                .ok_or_else(|| format!("{ready:?}"))
        })
        .await;
    }

    /// Runs a command, and checks what it asks: `VERB RESOURCE`, or a path, sorted. Returns its answer.
    async fn asks(&self, command: &str, expected: &[&str]) -> String {
        let audit = self.namespace.control_plane().audit();
        let mark = audit.mark();
        let mut kubectl = self.namespace.kubectl(Identity::Viewer).unwrap();
        let output = kubectl
            .arg("kruise")
            .args(command.split(' '))
            .output()
            .await
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{command}: {}", text(&output.stderr));
        eventually(SOON, command, async || {
            let mut asked: Vec<_> = audit
                .since(mark)
                .into_iter()
                .filter(|entry| entry.user == Identity::Viewer.user())
                .map(|entry| match entry.resource.as_str() {
                    "" => entry.uri,
                    resource => format!("{} {resource}", entry.verb),
                })
                .collect();
            asked.sort();
            (asked == expected)
                .then_some(())
                .ok_or_else(|| format!("{asked:?}"))
        })
        .await;
        text(&output.stdout)
    }
}

#[tokio::test]
async fn each_request_has_a_reason_and_long_lists_come_in_pages() {
    let control_plane = ControlPlane::start(Options::default()).await.unwrap();
    Installation::apply(&control_plane).await.unwrap();
    let many = Many::new(&control_plane).await;
    many.create(0..50).await;
    many.scale("app-0000", 2).await;

    let status = "rollout status app-0000-rollout --watch=false";
    many.asks(status, &["get rollouts", "get statefulsets", "list pods"])
        .await;
    many.asks(
        "rollout get app-0000-rollout",
        &[
            "get rollouts",
            "get statefulsets",
            // The records of the Rollout, and the StatefulSet's own.
            "list controllerrevisions",
            "list controllerrevisions",
            "list events",
            "list pods",
        ],
    )
    .await;
    many.asks("rollout get app-0000-rollout -o name", &["get rollouts"])
        .await;

    // However many there are, workloads take no request of their own.
    let page = ["list rollouts", "list statefulsets"];
    for place in ["", " -A"] {
        let rows = many
            .asks(&format!("rollout list --no-headers{place}"), &page)
            .await;
        assert_eq!(rows.lines().count(), 50, "{rows}");
        assert!(rows.contains("2/2"), "{rows}");
    }
    many.create(50..450).await;
    let pages = [
        "list rollouts",
        "list rollouts",
        "list rollouts",
        "list statefulsets",
        "list statefulsets",
        "list statefulsets",
    ];
    let rows = many.asks("rollout list -A --no-headers", &pages).await;
    assert_eq!(rows.lines().count(), 450, "{rows}");
    let document = many.asks("rollout list -o json", &pages).await;
    let document: Value = serde_json::from_str(&document).unwrap();
    let items = document["items"].as_array().unwrap();
    assert_eq!(items.len(), 450);
    let found = items.iter().filter(|item| item["workload"]["found"] == true);
    assert_eq!(found.count(), 450, "{document:#}");
    // Few are asked about one by one.
    many.asks(
        "rollout list -l app=app-0007",
        &["get statefulsets", "list rollouts"],
    )
    .await;
}
