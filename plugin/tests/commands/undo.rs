//! Where undo finds a template, and what it shows.

use std::io::Write;

use serde_json::{Value, json};

use crate::server::{Answer, Request, Server, failure};
use crate::world::*;

const REPLICA_SETS: &str = "/apis/apps/v1/namespaces/shop/replicasets";
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/shop/deployments/web";

/// A Deployment of v2 whose ReplicaSets are its history.
fn deployment() -> impl Fn(&Request) -> Answer + Send + Sync + 'static {
    let mut rollout = rollout("Healthy", 2, "Completed");
    rollout["spec"]["workloadRef"] = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let mut object = app(2, None);
    object["kind"] = json!("Deployment");
    object["apiVersion"] = json!("apps/v1");
    object["metadata"]["name"] = json!("web");
    let set = |version: u32, owner: &str| {
        let mut template = template(version);
        template["metadata"] =
            json!({"labels": {"app": "web", "pod-template-hash": format!("c0de{version}")}});
        json!({"metadata": {"name": format!("web-c0de{version}"), "ownerReferences": [{"uid": owner}],
                "annotations": {"deployment.kubernetes.io/revision": version.to_string()}},
            "spec": {"template": template}})
    };
    let sets = vec![set(1, "w"), set(2, "w"), set(7, "other")];
    move |request| match (request.method.as_str(), request.path.as_str()) {
        ("GET", ROLLOUT) => Answer::Object(200, rollout.clone()),
        ("GET" | "PATCH", DEPLOYMENT) => Answer::Object(200, object.clone()),
        ("GET", REPLICA_SETS) => list(sets.clone()),
        ("GET", RECORDS) => list(Vec::new()),
        _ => failure(404, "NotFound", "not found"),
    }
}

#[test]
fn a_deployment_goes_back_by_its_replica_sets() {
    let server = Server::start(deployment());
    let outcome = call(&server, "rollout undo my-app-rollout --yes --to-revision=1");
    assert_eq!(
        (outcome.code, outcome.out.as_str()),
        (0, "deployment.apps/web rolled back to revision 1\n"),
        "{}",
        outcome.err
    );
    let mut expected = template(1);
    expected["metadata"] = json!({"labels": {"app": "web"}});
    assert_eq!(server.writes()[0].body[2]["value"], expected);
    let by_hash = call(&server, "rollout undo my-app-rollout --yes --to-revision=c0de1");
    assert_eq!(by_hash.code, 0, "{}", by_hash.err);
    let unknown = call(&server, "rollout undo my-app-rollout --yes --to-revision=7");
    assert!(
        unknown.code == 1
            && unknown.err.contains(
                "no revision 7 is recorded: looked at ReplicaSets of the workload (1, 2), ControllerRevisions of the workload \
                 (none), templates recorded for the Rollout (none)"
            ),
        "{}",
        unknown.err
    );
}

#[test]
fn the_operators_own_history_comes_first() {
    let rest = paused();
    let own = |number: i64, version: u32| {
        let mut template = template(version);
        template["$patch"] = json!("replace");
        json!({"metadata": {"name": format!("my-app-{version}"), "ownerReferences": [{"uid": "w"}]}, "revision": number,
            "data": {"spec": {"template": template}}})
    };
    let server = Server::start(move |request: &Request| match request.path.as_str() {
        RECORDS => list(vec![record(1, 1), own(8, 1), own(9, 2)]),
        _ => rest(request),
    });
    let outcome = call(&server, "rollout undo my-app-rollout --yes");
    assert_eq!(
        outcome.out,
        "mystatefulapp.example.io/my-app rolled back to revision 8\n"
    );
    assert_eq!(server.writes()[0].body[2]["value"], template(1));
}

#[test]
fn where_records_may_not_be_read_a_file_helps() {
    let rest = paused();
    let server = Server::start(move |request: &Request| match request.path.as_str() {
        RECORDS => failure(
            403,
            "Forbidden",
            "User \"eve\" cannot list resource \"controllerrevisions\"",
        ),
        _ => rest(request),
    });
    let refused = call(&server, "rollout undo my-app-rollout --yes");
    assert_eq!(refused.code, 1);
    assert!(
        refused.err.contains("ControllerRevisions of the workload (you may not list controllerrevisions.apps in namespace shop)")
            && refused.err.ends_with("hint: give the template yourself: --from-file FILE, a manifest of the workload\n"),
        "{}",
        refused.err
    );
    let mut manifest = app(1, None);
    manifest["spec"]["template"] = template(5);
    let other = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "my-app"}});
    let mut file = tempfile();
    writeln!(
        file.0,
        "{other}\n---\n{}",
        json!({"kind": "List", "items": [manifest]})
    )
    .unwrap();
    let outcome = call(
        &server,
        &format!("rollout undo my-app-rollout --yes --from-file {}", file.1),
    );
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    assert_eq!(
        outcome.out,
        format!(
            "mystatefulapp.example.io/my-app rolled back to the template of {}\n",
            file.1
        )
    );
    assert_eq!(server.writes()[0].body[2]["value"], template(5));
    let mut empty = tempfile();
    writeln!(empty.0, "{other}").unwrap();
    let outcome = call(
        &server,
        &format!("rollout undo my-app-rollout --yes --from-file {}", empty.1),
    );
    assert!(
        outcome.code == 1
            && outcome
                .err
                .contains("has no mystatefulapp.example.io/my-app with a spec.template"),
        "{}",
        outcome.err
    );
    std::fs::remove_file(file.1).unwrap();
    std::fs::remove_file(empty.1).unwrap();
}

fn tempfile() -> (std::fs::File, String) {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("kubectl-kruise-{}-{number}.yaml", std::process::id()));
    (std::fs::File::create(&path).unwrap(), path.display().to_string())
}

#[test]
fn the_difference_is_shown_first() {
    let server = Server::start(paused());
    let outcome = call(&server, "rollout undo my-app-rollout --diff --dry-run=client");
    assert_eq!(
        outcome.out,
        [
            "--- mystatefulapp.example.io/my-app now",
            "+++ mystatefulapp.example.io/my-app at revision 1",
            "@@ -1,4 +1,4 @@",
            " spec:",
            "   containers:",
            "-  - image: app:v2",
            "+  - image: app:v1",
            "     name: app",
            "mystatefulapp.example.io/my-app rolled back to revision 1 (dry run)",
            ""
        ]
        .join("\n"),
        "{}",
        outcome.err
    );
    let json = call(
        &server,
        "rollout undo my-app-rollout --diff --dry-run=client -o json",
    );
    let object: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(object["spec"]["template"], template(1));
    assert!(json.err.contains("+  - image: app:v1"), "{}", json.err);
    assert!(server.writes().is_empty());
}

#[test]
fn whoever_applies_the_template_again_is_named() {
    let mut applied = app(2, Some(2));
    applied["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] = json!("{}");
    let server = Server::start(world(
        rollout("Progressing", 1, "StepPaused"),
        applied,
        Vec::new(),
    ));
    let outcome = call(&server, "rollout undo my-app-rollout --yes");
    assert_eq!(outcome.code, 0);
    assert!(
        outcome.err.contains("its template is also kept by kubectl apply"),
        "{}",
        outcome.err
    );
}

#[test]
fn abort_ends_a_release_and_nothing_else() {
    let server = Server::start(paused());
    let outcome = call(&server, "rollout abort my-app-rollout --yes");
    assert_eq!(
        outcome.out,
        "mystatefulapp.example.io/my-app rolled back to revision 1\n"
    );
    let at_rest = Server::start(world(
        rollout("Healthy", 2, "Completed"),
        app(2, None),
        Vec::new(),
    ));
    let outcome = call(&at_rest, "rollout abort my-app-rollout --yes");
    assert!(
        outcome.code == 1 && outcome.err.contains("no release is in progress"),
        "{}",
        outcome.err
    );
    assert!(at_rest.writes().is_empty());
}
