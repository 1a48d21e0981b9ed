//! What a command is about.

use serde_json::json;

use crate::server::{Answer, Request, Server, failure};
use crate::world::*;

/// Two Rollouts, and discovery that knows the types.
fn two() -> impl Fn(&Request) -> Answer + Send + Sync + 'static {
    let mut other = rollout("Healthy", 2, "Completed");
    other["metadata"]["name"] = json!("web");
    other["spec"]["workloadRef"] =
        json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "name": "web"});
    let rest = paused();
    let resource = |plural: &str, kind: &str, group: &str, version: &str, short: &str| {
        json!({"metadata": {"name": group}, "versions": [{"version": version, "resources": [
            {"resource": plural, "responseKind": {"group": group, "version": version, "kind": kind}, "scope": "Namespaced",
                "singularResource": kind.to_lowercase(), "shortNames": [short], "verbs": ["get", "patch"]}]}]})
    };
    let groups = json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": [
        resource("statefulsets", "StatefulSet", "apps", "v1", "sts"),
        resource("statefulsets", "StatefulSet", "apps.kruise.io", "v1beta1", "asts"),
        resource("mystatefulapps", "MyStatefulApp", "example.io", "v1", "msa")]});
    move |request| match (request.method.as_str(), request.path.as_str()) {
        ("GET", ROLLOUTS) if !request.is_watch() => {
            list(vec![rollout("Progressing", 1, "StepPaused"), other.clone()])
        }
        ("GET", "/apis") => Answer::Object(200, groups.clone()),
        ("GET", path) if path.starts_with("/apis/") && path.matches('/').count() < 4 => {
            failure(404, "NotFound", "no such group")
        }
        _ => rest(request),
    }
}

#[test]
fn a_workload_stands_for_the_rollout_that_names_it() {
    for word in [
        "mystatefulapps.example.io/my-app",
        "mystatefulapp.example.io/my-app",
        "mystatefulapps.v1beta1.example.io/my-app",
        "MyStatefulApp/my-app",
        "msa/my-app",
    ] {
        let server = Server::start(two());
        let outcome = call(&server, &format!("rollout approve {word}"));
        assert_eq!(
            (outcome.code, outcome.out.as_str()),
            (0, "rollout.rollouts.kruise.io/my-app-rollout approved\n"),
            "{word}: {}",
            outcome.err
        );
        let shown = call(&server, &format!("rollout status {word} --watch=false -o name"));
        assert_eq!(
            shown.out, "rollout.rollouts.kruise.io/my-app-rollout\n",
            "{}",
            shown.err
        );
    }
}

#[test]
fn what_no_rollout_names_is_said_with_what_comes_close() {
    for (word, says) in [
        (
            "mystatefulapps.example.io/my-ap",
            "error: no Rollout in namespace shop references mystatefulapp.example.io/my-ap\n\
             hint: did you mean mystatefulapp.example.io/my-app?\n",
        ),
        (
            "sts/web",
            "error: no Rollout in namespace shop references statefulset.apps/web\n\
             hint: did you mean statefulset.apps.kruise.io/web?\n",
        ),
        (
            "sts/other",
            "error: no Rollout in namespace shop references statefulset.apps/other\n\
             hint: create a Rollout for it, look in another namespace with -n, or name the Rollout itself: rollout/NAME\n",
        ),
        (
            "web/shop",
            "error: the server has no type of workloads \"web\"\n\
             hint: kubectl api-resources --namespaced=true lists the types; write TYPE.GROUP/NAME\n",
        ),
    ] {
        // A type of this group is looked for on the server first.
        let groups = json!({"preferredVersion": {"version": "v1"}, "versions": [{"version": "v1"}]});
        let resources = json!({"resources": [{"name": "mystatefulapps", "singularName": "mystatefulapp", "namespaced": true,
            "kind": "MyStatefulApp"}]});
        let rest = two();
        let server = Server::start(move |request| match request.path.as_str() {
            "/apis/example.io" => Answer::Object(200, groups.clone()),
            "/apis/example.io/v1" => Answer::Object(200, resources.clone()),
            _ => rest(request),
        });
        let outcome = call(&server, &format!("rollout approve {word}"));
        assert_eq!((outcome.code, outcome.err.as_str()), (1, says), "{word}");
        assert!(server.writes().is_empty());
    }
}

#[test]
fn a_selection_takes_all_that_it_finds() {
    let server = Server::start(two());
    let outcome = call(&server, "rollout approve -l app=web -A");
    assert_eq!(outcome.code, 1);
    let lists: Vec<_> = server
        .requests()
        .into_iter()
        .filter(|request| request.path == "/apis/rollouts.kruise.io/v1beta1/rollouts")
        .collect();
    assert_eq!(lists.len(), 1);
    assert!(
        lists[0].query.contains("labelSelector=app%3Dweb"),
        "{}",
        lists[0].query
    );
    let none = Server::start(|_| list(Vec::new()));
    let nothing = call(&none, "rollout approve --all");
    assert_eq!(
        (nothing.code, nothing.err.as_str()),
        (0, "No rollouts wait for an approval in namespace shop.\n")
    );
    let failed = call(&none, "rollout approve --all --fail-if-empty");
    assert_eq!(
        (failed.code, failed.err.as_str()),
        (1, "error: no rollouts found in namespace shop\n")
    );
}

/// A set of 5, of which the partition keeps 3 back.
fn alone(updated: u32) -> serde_json::Value {
    json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db", "namespace": "shop", "uid": "u", "generation": 2,
            "resourceVersion": "5"},
        "spec": {"replicas": 5, "template": {}, "updateStrategy": {"rollingUpdate": {"partition": 3}}},
        "status": {"observedGeneration": 2, "readyReplicas": 5, "updatedReplicas": updated}})
}

#[test]
fn r68_a_workload_without_a_rollout_has_a_status_that_ends() {
    let rest = two();
    let server = Server::start(move |request| match request.path.as_str() {
        "/apis/apps/v1/namespaces/shop/statefulsets/db" => Answer::Object(200, alone(1)),
        "/apis/apps/v1/namespaces/shop/statefulsets" if !request.is_watch() => {
            super::world::list(vec![alone(2)])
        }
        _ => rest(request),
    });
    let once = call(&server, "rollout status sts/db --watch=false");
    assert_eq!(
        (once.code, once.out.as_str()),
        (
            0,
            "statefulset.apps/db: waiting: 1 of 2 pods are updated, 5 of 5 are ready\n"
        ),
        "{}",
        once.err
    );
    let followed = call(&server, "rollout status sts/db --timeout=20s");
    let lines: Vec<_> = followed.out.lines().collect();
    assert_eq!(followed.code, 0, "{}", followed.err);
    assert_eq!(
        lines[1..],
        [
            "statefulset.apps/db: partitioned roll out complete: 2 of 2 pods are updated, 5 of 5 are ready, and the partition \
             keeps back 3"
        ]
    );
    let json = call(&server, "rollout status sts/db --watch=false -o json");
    let document: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(
        (&document["kind"], &document["complete"]),
        (&json!("WorkloadStatus"), &json!(false))
    );
}
