//! Documents against the typed objects of their kinds, and the YAML against its readers.

mod reference;

use std::collections::BTreeSet;

use clap::Parser as _;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kruise_rollout::names;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::*;
use crate::args::{Args, Command, Run};

fn read(flags: &[&str]) -> (String, Vec<Value>) {
    let line = ["x", "manifests"].iter().chain(flags);
    let Command::Manifests(args) = Args::try_parse_from(line).unwrap().command else {
        panic!()
    };
    let text = stream(&documents(&args).unwrap()).unwrap();
    let read = serde_saphyr::from_multiple(&text).unwrap();
    (text, read)
}

/// What the controller's container is started with.
fn run_of(documents: &[Value]) -> Run {
    let args = &documents.last().unwrap()["spec"]["template"]["spec"]["containers"][0]["args"];
    let args = args.as_array().unwrap().iter().map(|arg| arg.as_str().unwrap());
    match Args::try_parse_from(["x"].into_iter().chain(args))
        .unwrap()
        .command
    {
        Command::Run(run) => run,
        other => panic!("{other:?}"),
    }
}

/// A typed object knows the fields of its kind only: what it does not give back is misspelt.
fn is_typed<T: DeserializeOwned + Serialize>(document: &Value) {
    let typed: T = serde_json::from_value(document.clone()).unwrap();
    assert_eq!(serde_json::to_value(typed).unwrap(), *document);
}

#[test]
fn every_document_is_an_object_of_its_kind() {
    let (_, documents) = read(&[]);
    for document in &documents {
        match document["kind"].as_str().unwrap() {
            "Namespace" => is_typed::<Namespace>(document),
            "CustomResourceDefinition" => is_typed::<CustomResourceDefinition>(document),
            "ServiceAccount" => is_typed::<ServiceAccount>(document),
            "ClusterRole" => is_typed::<ClusterRole>(document),
            "ClusterRoleBinding" => is_typed::<ClusterRoleBinding>(document),
            "Role" => is_typed::<Role>(document),
            "RoleBinding" => is_typed::<RoleBinding>(document),
            "Service" => is_typed::<Service>(document),
            "PodDisruptionBudget" => is_typed::<PodDisruptionBudget>(document),
            "NetworkPolicy" => is_typed::<NetworkPolicy>(document),
            "Deployment" => is_typed::<Deployment>(document),
            other => panic!("{other}"),
        }
    }
}

#[test]
fn what_others_need_comes_first() {
    let (_, documents) = read(&[]);
    let kinds: Vec<_> = documents
        .iter()
        .map(|document| document["kind"].as_str().unwrap())
        .collect();
    let order = [
        "Namespace",
        "CustomResourceDefinition",
        "ServiceAccount",
        "ClusterRole",
        "ClusterRoleBinding",
        "Deployment",
    ];
    let places: Vec<_> = order
        .iter()
        .map(|kind| kinds.iter().position(|found| found == kind).unwrap())
        .collect();
    assert!(places.is_sorted(), "{kinds:?}");
    let named: BTreeSet<_> = documents
        .iter()
        .map(|document| (&document["kind"], &document["metadata"]["name"]))
        .map(|(kind, name)| format!("{kind}/{name}"))
        .collect();
    assert_eq!(named.len(), documents.len());
}

#[test]
fn flags_reach_every_place() {
    let (text, documents) = read(&["--namespace", "ops", "--image", "registry.example/controller:1"]);
    assert!(!text.contains("namespace: kruise-rollout"));
    for document in &documents {
        let namespaced = !matches!(
            document["kind"].as_str().unwrap(),
            "Namespace" | "CustomResourceDefinition" | "ClusterRole" | "ClusterRoleBinding"
        );
        assert_eq!(
            document["metadata"]["namespace"] == "ops",
            namespaced,
            "{}",
            document["kind"]
        );
        for subject in document["subjects"].as_array().into_iter().flatten() {
            assert_eq!(subject["namespace"], "ops");
        }
    }
    let container = &documents.last().unwrap()["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], "registry.example/controller:1");
    let run = run_of(&documents);
    assert_eq!(run.connect.namespace, "ops");
    let ports = container["ports"].as_array().unwrap();
    assert_eq!(ports[0]["containerPort"], run.webhook_bind.port());
    assert_eq!(ports[1]["containerPort"], run.admin_bind.port());
}

#[test]
fn pods_are_deleted_only_where_stuck_ones_are_replaced() {
    for (flags, deletes) in [(&[][..], true), (&["--replace-stuck-pods=false"][..], false)] {
        let (_, documents) = read(flags);
        // Those of DaemonSets are always the controller's to replace; that role may be left out.
        let mut rules = documents
            .iter()
            .filter(|role| role["metadata"]["name"] != "kruise-rollout-controller-daemonsets")
            .filter_map(|role| role["rules"].as_array())
            .flatten();
        let granted = rules.any(|rule| {
            let has = |field: &str, word: &str| {
                rule[field]
                    .as_array()
                    .is_some_and(|words| words.contains(&json!(word)))
            };
            has("resources", "pods") && has("verbs", "delete")
        });
        assert_eq!(granted, deletes);
        assert_eq!(run_of(&documents).pods.replace_stuck_pods, deletes);
    }
}

#[test]
fn jumps_of_approvers_are_the_deployments_business() {
    for (flags, jumps) in [(&[][..], false), (&["--approvers-may-jump"][..], true)] {
        let (_, documents) = read(flags);
        assert_eq!(run_of(&documents).people.approvers_may_jump, jumps);
    }
}

#[test]
fn crds_alone() {
    let (_, documents) = read(&["crds"]);
    assert_eq!(documents.len(), 1);
    assert_eq!(
        documents[0]["metadata"]["name"],
        format!("rollouts.{}", names::GROUP)
    );
}

#[test]
fn the_controllers_role_gathers_what_is_labelled() {
    let (_, documents) = read(&[]);
    let mut roles = documents
        .iter()
        .filter(|document| document["kind"] == "ClusterRole");
    let role = roles
        .find(|role| role["metadata"]["name"] == names::CLUSTER_ROLE)
        .unwrap();
    assert!(role.get("rules").is_none());
    let labels = role["aggregationRule"]["clusterRoleSelectors"][0]["matchLabels"]
        .as_object()
        .unwrap();
    let gathered: Vec<_> = documents
        .iter()
        .filter(|document| {
            labels
                .iter()
                .all(|(label, value)| document["metadata"]["labels"][label] == *value)
        })
        .map(|document| document["metadata"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        gathered,
        [
            "kruise-rollout-controller-base",
            "kruise-rollout-controller-registrations",
            "kruise-rollout-controller-daemonsets",
            "kruise-rollout-controller-statefulsets",
            "kruise-rollout-controller-deployments",
            "kruise-rollout-controller-kruise",
            "kruise-rollout-controller-batchreleases",
        ]
    );
}

#[test]
fn the_example_of_a_custom_kind_is_a_role() {
    let (text, _) = read(&[]);
    let lines = text.lines().skip_while(|line| !line.starts_with("# apiVersion"));
    let example: String = lines
        .map_while(|line| line.strip_prefix("# "))
        .map(|line| format!("{line}\n"))
        .collect();
    let example: Value = serde_saphyr::from_str(&example).unwrap();
    is_typed::<ClusterRole>(&example);
    assert_eq!(example["rules"][0]["resources"][0], "mystatefulapps");
}

/// The lines that stand directly before the rules of the controller's own roles.
#[test]
fn every_rule_says_what_it_is_for() {
    for flags in [&[][..], &["--replace-stuck-pods=false"]] {
        let (text, documents) = read(flags);
        let own = [
            "kruise-rollout-controller-base",
            "kruise-rollout-controller-registrations",
            "kruise-rollout-controller",
        ];
        let rules: usize = documents
            .iter()
            .filter(|document| own.contains(&document["metadata"]["name"].as_str().unwrap()))
            .filter_map(|document| document["rules"].as_array().map(Vec::len))
            .sum();
        let lines: Vec<_> = text.lines().collect();
        let explained = lines
            .windows(2)
            .filter(|pair| pair[0].starts_with("# ") && pair[1].starts_with("- apiGroups:"));
        assert!(rules > 10);
        assert_eq!(explained.count(), rules);
    }
}

#[test]
fn strings_stay_strings_for_readers_of_yaml_1_1() {
    let words = [
        "true",
        "True",
        "false",
        "yes",
        "Yes",
        "no",
        "on",
        "On",
        "off",
        "y",
        "Y",
        "n",
        "N",
        "null",
        "Null",
        "~",
        "",
        "1",
        "-1",
        "+1",
        "0755",
        "0o17",
        "0x1f",
        "0b11",
        "1_000",
        "1e3",
        "1.5",
        ".5",
        "1.",
        ".inf",
        "-.inf",
        ".nan",
        "2026-11-30",
        "2026-11-30T00:00:00Z",
        "12:30:45",
        "=",
        "<<",
        "-",
        "?",
        "- a",
        "a: b",
        "a #b",
        "#a",
        "*a",
        "&a",
        "!a",
        "%a",
        "@a",
        "`a",
        "[a",
        "{a",
        "]",
        "}",
        "|",
        ">",
        "'a",
        "\"a",
        " a",
        "a ",
        "a:",
        "---",
        "...",
    ];
    for word in words {
        for value in [json!({ "key": word }), json!([word])] {
            let text = yaml(&value).unwrap();
            let scalar = text.trim_start_matches("key:").trim_start_matches('-').trim();
            assert!(scalar.starts_with(['"', '\'']), "{word} came out as {scalar}");
            assert_eq!(serde_saphyr::from_str::<Value>(&text).unwrap(), value);
        }
        let key = json!({ word: 1 });
        let text = yaml(&key).unwrap();
        assert!(text.starts_with(['"', '\'']), "key {word} came out as {text}");
        assert_eq!(serde_saphyr::from_str::<Value>(&text).unwrap(), key);
    }
    for text in [
        "two\nlines",
        "ends\n",
        "tab\tinside",
        "\u{7}bell",
        "ü",
        "a\n\nb\n\n",
        " \n x",
    ] {
        let value = json!({ "key": text });
        assert_eq!(
            serde_saphyr::from_str::<Value>(&yaml(&value).unwrap()).unwrap(),
            value,
            "{text:?}"
        );
    }
}

#[test]
fn a_controller_of_a_part_writes_over_nothing_of_another() {
    let name = |document: &Value| {
        let text = |pointer: &str| {
            document
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        [text("/kind"), text("/metadata/namespace"), text("/metadata/name")]
    };
    let part = |own: &str, governed: &str| {
        let flags = [
            format!("--namespace={own}"),
            format!("--watch-namespaces={governed}"),
        ];
        read(&flags.each_ref().map(String::as_str)).1
    };
    let (one, other) = (part("ops-a", "shop,bar"), part("ops-b", "lab"));
    assert_eq!(run_of(&one).part.watch_namespaces, ["shop", "bar"]);
    let names: BTreeSet<_> = one.iter().map(name).collect();
    for shared in other.iter().filter(|document| names.contains(&name(document))) {
        // What they share is the same for both.
        assert!(one.contains(shared), "{shared}");
        assert_eq!(
            shared["metadata"]["labels"].get("app.kubernetes.io/instance"),
            None
        );
    }
    let own = |kind: &str| {
        let of_part = |document: &&Value| {
            document["kind"] == kind
                && document["metadata"]["labels"]["app.kubernetes.io/instance"] == "ops-a"
        };
        let names = one.iter().filter(of_part).map(name);
        names
            .map(|[_, place, name]| format!("{place}/{name}"))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        own("ClusterRole"),
        [
            "/kruise-rollout-controller-ops-a",
            "/kruise-rollout-controller-base-ops-a",
            "/kruise-rollout-controller-registrations-ops-a"
        ]
    );
    // In the whole cluster it has only what is in no namespace.
    assert_eq!(
        own("ClusterRoleBinding"),
        ["/kruise-rollout-controller-registrations-ops-a"]
    );
    assert_eq!(
        own("RoleBinding"),
        [
            "bar/kruise-rollout-controller-ops-a",
            "shop/kruise-rollout-controller-ops-a"
        ]
    );
    let everywhere = one
        .iter()
        .find(|document| name(document)[2] == "kruise-rollout-controller-registrations-ops-a");
    let everywhere = everywhere.unwrap();
    assert_eq!(
        everywhere["metadata"]["labels"].get(names::AGGREGATE_TO_CONTROLLER),
        None
    );
    let rules = everywhere["rules"].to_string();
    assert!(rules.contains(r#""zz-kruise-rollout-ops-a""#), "{rules}");
    assert!(!rules.contains(r#""zz-kruise-rollout""#), "{rules}");
    assert!(
        !rules.contains("pods") && !rules.contains("rollouts.kruise.io"),
        "{rules}"
    );
}
