//! Long lists: what is asked for, what is written on the way, and what becomes of a list that breaks.

use serde_json::{Value, json};

use crate::server::{Answer, Request, Server, failure};
use crate::world::*;

const ALL: &str = "/apis/rollouts.kruise.io/v1beta1/rollouts";
const ALL_APPS: &str = "/apis/example.io/v1/mystatefulapps";
const KINDS: &str = "/apis/example.io/v1";
/// Rollouts on a page of this server, whatever is asked for.
const PAGE: usize = 20;

fn token(request: &Request) -> usize {
    let mut pairs = request.query.split('&').filter_map(|pair| pair.split_once('='));
    let token = pairs.find(|(key, _)| *key == "continue");
    token.map_or(0, |(_, token)| token.parse().unwrap())
}

/// One page of a list; `rest` follow behind it.
fn page(items: &[Value], next: Option<usize>, rest: usize) -> Answer {
    let mut metadata = json!({"resourceVersion": "5"});
    if let Some(next) = next {
        metadata["continue"] = json!(next.to_string());
        metadata["remainingItemCount"] = json!(rest);
    }
    Answer::Object(
        200,
        json!({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items}),
    )
}

/// The page of these objects that is asked for.
fn part(all: &[Value], size: usize, request: &Request) -> Answer {
    let from = token(request);
    let to = (from + size).min(all.len());
    page(&all[from..to], (to < all.len()).then_some(to), all.len() - to)
}

/// In the order of a server, which has `a-b/x` before `a/x`.
fn sorted(mut objects: Vec<Value>) -> Vec<Value> {
    objects.sort_by_key(|object| {
        let text = |member: &str| object["metadata"][member].as_str().unwrap().to_owned();
        format!("{}/{}", text("namespace"), text("name"))
    });
    objects
}

fn placed(mut object: Value, number: usize) -> Value {
    let namespace = ["a", "a-b", "b", "c"][number / 15];
    object["metadata"]["namespace"] = json!(namespace);
    object["metadata"]["name"] = json!(format!("app-{number:02}"));
    object
}

/// Sixty Rollouts in four namespaces, in three pages.
fn rollouts() -> Vec<Value> {
    let each = (0..60).map(|number| {
        let mut rollout = placed(rollout("Progressing", 1, "StepPaused"), number);
        rollout["spec"]["workloadRef"]["name"] = rollout["metadata"]["name"].clone();
        rollout
    });
    sorted(each.collect())
}

/// Their workloads, each with pods of a number of its own, but for the last one, which is missing.
fn apps() -> Vec<Value> {
    let each = (0..59).map(|number| {
        let mut app = placed(app(2, Some(2)), number);
        app["spec"]["replicas"] = json!(100 + number);
        app
    });
    sorted(each.collect())
}

fn kinds() -> Answer {
    let resources = json!([{"name": "mystatefulapps", "kind": "MyStatefulApp", "namespaced": true}]);
    Answer::Object(200, json!({"kind": "APIResourceList", "resources": resources}))
}

fn asked(server: &Server, path: &str) -> usize {
    server
        .requests()
        .iter()
        .filter(|request| request.path == path)
        .count()
}

#[test]
fn workloads_are_listed_beside_the_rollouts() {
    let (rollouts, apps) = (rollouts(), apps());
    let server = Server::start(move |request| match request.path.as_str() {
        ALL => part(&rollouts, PAGE, request),
        ALL_APPS => part(&apps, 7, request),
        KINDS => kinds(),
        // Two lists are of two moments, so what is missing is looked for once more.
        "/apis/example.io/v1/namespaces/c/mystatefulapps/app-59" => failure(404, "NotFound", "not found"),
        _ => failure(500, "InternalError", "nobody asks for that"),
    });
    let outcome = call(&server, "rollout list -A -o json");
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    let document: Value = serde_json::from_str(&outcome.out).unwrap();
    let items = document["items"].as_array().unwrap();
    assert_eq!(items.len(), 60);
    for item in items {
        let number: u32 = item["name"].as_str().unwrap()[4..].parse().unwrap();
        let workload = &item["workload"];
        if number == 59 {
            assert_eq!(workload["found"], false, "{item:#}");
        } else {
            assert_eq!(
                (&workload["found"], &workload["replicas"]),
                (&json!(true), &json!(100 + number)),
                "{item:#}"
            );
        }
    }
    assert_eq!(
        (
            asked(&server, ALL),
            asked(&server, ALL_APPS),
            asked(&server, KINDS)
        ),
        (3, 9, 1)
    );
    assert_eq!(server.requests().len(), 14);
}

#[test]
fn few_among_many_are_asked_about_one_by_one() {
    let (rollouts, apps) = (rollouts(), apps());
    let server = Server::start(move |request| match request.path.as_str() {
        ALL => part(&rollouts, PAGE, request),
        ALL_APPS => page(&apps[..10], Some(10), 100_000),
        KINDS => kinds(),
        path => {
            let name = path.rsplit('/').next().unwrap();
            let found = apps.iter().find(|app| app["metadata"]["name"] == name);
            found.map_or_else(
                || failure(404, "NotFound", "not found"),
                |app| Answer::Object(200, app.clone()),
            )
        }
    });
    let outcome = call(&server, "rollout list -A --no-headers");
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    assert_eq!(outcome.out.lines().count(), 60, "{}", outcome.out);
    assert_eq!(
        outcome.out.matches("WorkloadMissing").count(),
        1,
        "{}",
        outcome.out
    );
    assert_eq!((asked(&server, ALL), asked(&server, ALL_APPS)), (3, 1));
}

#[test]
fn workloads_that_may_not_be_listed_are_asked_about_one_by_one() {
    let (rollouts, apps) = (rollouts(), apps());
    let server = Server::start(move |request| match request.path.as_str() {
        ALL => part(&rollouts, PAGE, request),
        ALL_APPS => failure(403, "Forbidden", "mystatefulapps is forbidden"),
        KINDS => kinds(),
        _ => Answer::Object(200, apps[0].clone()),
    });
    let outcome = call(&server, "rollout list -A");
    assert_eq!((outcome.code, outcome.err.as_str()), (0, ""));
    assert_eq!(asked(&server, ALL_APPS), 1);
}

/// A server that forgets its state once, when the second page is asked for.
fn forgetful() -> Server {
    let rollouts = rollouts();
    let forgotten = std::sync::atomic::AtomicBool::new(false);
    Server::start(move |request| match request.path.as_str() {
        ALL if token(request) > 0 && !forgotten.swap(true, std::sync::atomic::Ordering::Relaxed) => {
            failure(410, "Expired", "The provided continue parameter is too old")
        }
        ALL => part(&rollouts, PAGE, request),
        KINDS => kinds(),
        _ => failure(403, "Forbidden", "forbidden"),
    })
}

#[test]
fn a_list_that_expires_begins_anew_unless_something_is_written() {
    let server = forgetful();
    let outcome = call(&server, "rollout list -A --no-headers");
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    assert_eq!(outcome.out.lines().count(), 60, "{}", outcome.out);
    assert_eq!(asked(&server, ALL), 5);

    let outcome = call(&forgetful(), "rollout list -A -o name");
    assert_eq!(outcome.code, 1);
    assert_eq!(outcome.out.lines().count(), 20, "{}", outcome.out);
    assert!(
        outcome.err.contains(
            "error: the list is not complete, it ends after 20: Error from server (Expired): The provided continue parameter \
             is too old\nhint: repeat the command\n"
        ),
        "{}",
        outcome.err
    );

    // It does not go on for ever.
    let rollouts = rollouts();
    let server = Server::start(move |request| match request.path.as_str() {
        ALL if token(request) > 0 => failure(410, "Expired", "too old"),
        ALL => part(&rollouts, PAGE, request),
        _ => failure(403, "Forbidden", "forbidden"),
    });
    let outcome = call(&server, "rollout list -A");
    assert_eq!((outcome.code, outcome.out.as_str()), (1, ""));
    assert_eq!(asked(&server, ALL), 6);
}

#[test]
fn a_list_that_breaks_says_where() {
    for format in ["json", "yaml", "name"] {
        let rollouts = rollouts();
        let server = Server::start(move |request| match request.path.as_str() {
            ALL if token(request) > 20 => Answer::Hangup,
            ALL => part(&rollouts, PAGE, request),
            _ => failure(403, "Forbidden", "forbidden"),
        });
        let outcome = call(&server, &format!("rollout list -A -o {format}"));
        assert_eq!(outcome.code, 1, "{format}: {}", outcome.err);
        let told = "error: the list is not complete, it ends after 40: unable to connect to the server";
        assert!(outcome.err.contains(told), "{format}: {}", outcome.err);
    }
}

#[test]
fn a_list_ends_in_order_when_its_reader_has_seen_enough() {
    for format in ["json", "yaml", "name", "wide"] {
        let (rollouts, apps) = (rollouts(), apps());
        let server = Server::start(move |request| match request.path.as_str() {
            ALL => part(&rollouts, PAGE, request),
            ALL_APPS => part(&apps, PAGE, request),
            KINDS => kinds(),
            _ => failure(404, "NotFound", "not found"),
        });
        let ended = unread(&format!("rollout list -A -o {format} --server {}", server.url));
        assert_eq!(ended, (Some(0), String::new()), "{format}");
    }
}
