//! list, pods, events and history where the server is to say what a real one says seldom.

use serde_json::{Value, json};

use crate::server::{Answer, Request, Server, failure};
use crate::world::*;

const ALL: &str = "/apis/rollouts.kruise.io/v1beta1/rollouts";
const EVENTS: &str = "/api/v1/namespaces/shop/events";

/// Three pages of two Rollouts each, in a namespace each.
fn pages(request: &Request) -> Answer {
    let query = |name: &str| {
        let mut pairs = request.query.split('&').filter_map(|pair| pair.split_once('='));
        pairs
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value.to_owned())
    };
    match request.path.as_str() {
        ALL => {
            let page: usize =
                query("continue").map_or(0, |token| token.trim_start_matches('t').parse().unwrap());
            let items: Vec<_> = (0..2)
                .map(|place| {
                    let mut rollout = rollout("Progressing", 1, "StepPaused");
                    rollout["metadata"]["name"] = json!(format!("r{page}{place}"));
                    rollout["metadata"]["namespace"] = json!(format!("n{page}{place}"));
                    rollout
                })
                .collect();
            let next = if page < 2 {
                format!("t{}", page + 1)
            } else {
                String::new()
            };
            Answer::Object(
                200,
                json!({"kind": "RolloutList", "apiVersion": "rollouts.kruise.io/v1beta1", "metadata": {"resourceVersion": "5", "continue": next},
                    "items": items}),
            )
        }
        "/apis/example.io/v1" => Answer::Object(
            200,
            json!({"kind": "APIResourceList", "resources": [
                {"name": "mystatefulapps", "kind": "MyStatefulApp", "namespaced": true}]}),
        ),
        _ => failure(403, "Forbidden", "mystatefulapps is forbidden"),
    }
}

#[test]
fn a_long_list_is_read_and_written_page_by_page() {
    let server = Server::start(pages);
    let outcome = call(&server, "rollout list -A -o json");
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    let document: Value = serde_json::from_str(&outcome.out).unwrap();
    let names: Vec<_> = document["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["name"].clone())
        .collect();
    assert_eq!(names, ["r00", "r01", "r10", "r11", "r20", "r21"]);
    assert_eq!(document["items"][0]["overlays"][0]["type"], "PartialView");
    let queries: Vec<_> = server
        .requests()
        .into_iter()
        .filter(|r| r.path == ALL)
        .map(|r| r.query)
        .collect();
    assert_eq!(queries.len(), 3);
    assert!(
        queries.iter().all(|query| query.contains("limit=200")),
        "{queries:?}"
    );
    assert!(
        queries[1].contains("continue=t1") && queries[2].contains("continue=t2"),
        "{queries:?}"
    );
    // In all namespaces together, and for one kind, once.
    assert_eq!(
        outcome.err,
        "workloads are not shown: you may not get mystatefulapps.example.io\n"
    );
    let kinds = server
        .requests()
        .iter()
        .filter(|r| r.path == "/apis/example.io/v1")
        .count();
    assert_eq!(kinds, 1);

    let yaml = call(&server, "rollout list -A -o yaml");
    assert!(
        yaml.out
            .starts_with("apiVersion: kruise.cli/v1\nkind: RolloutReportList\nitems:\n- apiVersion: "),
        "{}",
        yaml.out
    );
    assert_eq!(
        yaml.out.matches("\n- apiVersion: kruise.cli/v1").count(),
        6,
        "{}",
        yaml.out
    );
    let sorted = call(
        &server,
        "list -A --sort-by age --no-headers --state awaitingapproval",
    );
    assert_eq!(sorted.out.lines().count(), 6, "{}", sorted.out);
    let none = call(&server, "list -A --state Idle");
    assert_eq!((none.out.as_str(), none.code), ("", 0));
    assert!(none.err.ends_with("No Rollouts found.\n"), "{}", none.err);
}

#[test]
fn events_are_told_once_and_harmless() {
    let all = paused();
    let server = Server::start(move |request| match request.path.as_str() {
        EVENTS => {
            let event = |kind: &str, name: &str, uid: &str, message: &str| {
                json!({"metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z"}, "type": "Normal", "reason": "R",
                    "involvedObject": {"kind": kind, "name": name, "uid": uid}, "message": message})
            };
            list(vec![
                event("Rollout", "my-app-rollout", "r", "x\u{1b}[2Jy"),
                event("Rollout", "my-app-rollout", "r", "x\u{1b}[2Jy"),
                event(
                    "Rollout",
                    "my-app-rollout",
                    "one of the same name before it",
                    "old",
                ),
                event("MyStatefulApp", "my-app", "w", "of the workload"),
                event("Pod", "my-app-2", "gone", "of a pod before it"),
                event("Pod", "other-2", "p9", "foreign"),
                event("BatchRelease", "my-app-rollout", "b", "of the helper object"),
            ])
        }
        _ => all(request),
    });
    let outcome = call(&server, "rollout events my-app-rollout");
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    assert!(outcome.out.contains("x\\u{1b}[2Jy ×2"), "{}", outcome.out);
    assert_eq!(outcome.out.lines().count(), 5, "{}", outcome.out);
    for gone in ["foreign", "old"] {
        assert!(!outcome.out.contains(gone), "{}", outcome.out);
    }
    let json = call(&server, "rollout events my-app-rollout -o json");
    assert!(!json.out.contains('\u{1b}'));
    let document: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(document["items"][0]["message"], "x\u{1b}[2Jy");
}

#[test]
fn what_is_not_there_is_said() {
    let server = Server::start(world(rollout("Initial", 0, ""), app(1, None), Vec::new()));
    for (line, code, says) in [
        (
            "rollout pods my-app-rollout",
            0,
            "No such pods of rollout.rollouts.kruise.io/my-app-rollout in namespace shop.",
        ),
        (
            "rollout history my-app-rollout --revision 9",
            1,
            "has no revision \"9\": there are 1, 2",
        ),
        (
            "rollout history my-app-rollout --diff 1",
            2,
            "names no two revisions",
        ),
        (
            "rollout history my-app-rollout --diff 1..1",
            0,
            "The two templates are the same.",
        ),
        ("rollout pods my-app-rollout --batch 0", 2, "0 is not in"),
        ("rollout list --state Sleeping", 2, "invalid value 'Sleeping'"),
    ] {
        let outcome = call(&server, line);
        assert_eq!(outcome.code, code, "{line}: {}", outcome.err);
        assert!(outcome.err.contains(says), "{line}: {}", outcome.err);
        assert_eq!(outcome.out, "", "{line}");
    }
}
