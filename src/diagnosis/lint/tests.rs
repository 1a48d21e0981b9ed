use rstest::rstest;
use serde_json::{Value, json};

use super::super::Looked;
use super::*;

fn rollout(kind: &str, strategy: Value) -> Value {
    let version = if kind == "StatefulSet" {
        "apps/v1"
    } else {
        "example.io/v1"
    };
    json!({"apiVersion": "rollouts.kruise.io/v1beta1", "kind": "Rollout", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"workloadRef": {"apiVersion": version, "kind": kind, "name": "app"}, "strategy": strategy}})
}

fn custom(steps: Value) -> Value {
    rollout("MyStatefulApp", json!({"canary": {"steps": steps}}))
}

fn steps() -> Value {
    json!([{"replicas": 1, "pause": {}}, {"replicas": "50%", "pause": {"duration": 300}}, {"replicas": "100%"}])
}

fn app() -> Value {
    json!({"apiVersion": "example.io/v1", "kind": "MyStatefulApp",
        "metadata": {"name": "app", "namespace": "shop", "labels": {"rollouts.kruise.io/workload-type": "statefulset"}},
        "spec": {"replicas": 5, "template": {"metadata": {}, "spec": {}}, "updateStrategy": {"type": "RollingUpdate"}}})
}

fn edited(mut value: Value, parent: &str, member: &str, new: Value) -> Value {
    value.pointer_mut(parent).unwrap()[member] = new;
    value
}

fn without(mut value: Value, parent: &str, member: &str) -> Value {
    value
        .pointer_mut(parent)
        .unwrap()
        .as_object_mut()
        .unwrap()
        .remove(member);
    value
}

#[test]
fn what_is_in_order_has_no_problem() {
    assert_eq!(lint(&[custom(steps()), app()], None, "shop"), []);
    assert_eq!(
        lint(
            &[rollout("StatefulSet", json!({"canary": {"steps": steps()}}))],
            Some(5),
            "shop"
        ),
        []
    );
    // What is no Rollout, and no workload of one, is somebody else's.
    assert_eq!(
        lint(
            &[json!({"apiVersion": "v1", "kind": "ConfigMap", "rubbish": 1})],
            None,
            "shop"
        ),
        []
    );
}

#[rstest]
#[case::misspelt(vec![custom(json!([{"replica": 1, "replicas": 1}, {"replicas": "100%"}]))], Rule::Schema, Level::Error, "spec.strategy.canary.steps.0.replica", "did you mean replicas?")]
#[case::swapped(vec![edited(custom(steps()), "/spec", "disalbed", json!(true))], Rule::Schema, Level::Error, "spec.disalbed", "did you mean disabled?")]
#[case::other_type(vec![edited(custom(steps()), "/spec", "disabled", json!("yes"))], Rule::Schema, Level::Error, "spec.disabled", "write true or false")]
#[case::no_map(vec![edited(custom(steps()), "", "spec", json!([]))], Rule::Schema, Level::Error, "spec", "write a map")]
#[case::no_name(vec![without(custom(steps()), "/metadata", "name")], Rule::Schema, Level::Error, "metadata", "metadata.name")]
#[case::no_kind(vec![without(custom(steps()), "/spec/workloadRef", "kind")], Rule::Schema, Level::Error, "spec.workloadRef.kind", "missing")]
#[case::other_version(vec![edited(custom(steps()), "", "apiVersion", json!("rollouts.kruise.io/v2"))], Rule::Schema, Level::Error, "apiVersion", "v1beta1")]
#[case::no_version(vec![without(custom(steps()), "", "apiVersion")], Rule::Schema, Level::Error, "kind", "write rollouts.kruise.io/v1beta1")]
#[case::other_kind(vec![edited(custom(steps()), "", "kind", json!("Rolout"))], Rule::Schema, Level::Error, "kind", "did you mean Rollout?")]
#[case::no_object(vec![json!(["a"])], Rule::Schema, Level::Warning, "", "no object of Kubernetes")]
#[case::of_no_kind(vec![json!({"replicas": 3})], Rule::Schema, Level::Warning, "", "no object of Kubernetes")]
#[case::odd_name(vec![edited(custom(steps()), "/metadata", "name", json!("Web_1"))], Rule::Schema, Level::Error, "metadata.name", "\"Web_1\"")]
#[case::no_effect(vec![rollout("StatefulSet", json!({"canary": {"steps": steps(), "trafficRoutingRef": "x"}}))], Rule::Schema, Level::Warning,
    "spec.strategy.canary.trafficRoutingRef", "no effect")]
#[case::no_strategy(vec![rollout("MyStatefulApp", json!({}))], Rule::Strategy, Level::Error, "spec.strategy.canary", "steps")]
#[case::both(vec![rollout("MyStatefulApp", json!({"canary": {"steps": steps()}, "blueGreen": {}}))], Rule::Strategy, Level::Error, "spec.strategy.blueGreen", "not both")]
#[case::no_steps(vec![custom(json!([]))], Rule::Strategy, Level::Error, "spec.strategy.canary.steps", "needs a step")]
#[case::many_steps(vec![custom(json!(vec![json!({"replicas": "100%"}); 51]))], Rule::Strategy, Level::Error, "spec.strategy.canary.steps", "at most 50")]
#[case::zero(vec![custom(json!([{"replicas": 0}, {"replicas": "100%"}]))], Rule::Amount, Level::Error, "spec.strategy.canary.steps.0.replicas", "at least one pod")]
#[case::too_much(vec![custom(json!([{"replicas": "101%"}]))], Rule::Amount, Level::Error, "spec.strategy.canary.steps.0.replicas", "at most all")]
#[case::back(vec![custom(json!([{"replicas": 3}, {"replicas": 2}, {"replicas": "100%"}]))], Rule::Amount, Level::Error, "spec.strategy.canary.steps.1.replicas", "go forward")]
#[case::negative_pause(vec![custom(json!([{"replicas": 1, "pause": {"duration": -1}}, {"replicas": "100%"}]))], Rule::Amount, Level::Error,
    "spec.strategy.canary.steps.0.pause.duration", "negative")]
#[case::traffic(vec![rollout("StatefulSet", json!({"canary": {"steps": [{"replicas": "100%", "traffic": "5%"}]}}))], Rule::Traffic, Level::Error,
    "spec.strategy.canary.steps.0.traffic", "not supported")]
#[case::blue_green(vec![rollout("StatefulSet", json!({"blueGreen": {"steps": []}}))], Rule::BlueGreen, Level::Error, "spec.strategy.blueGreen", "not supported")]
#[case::custom_traffic(vec![rollout("MyStatefulApp", json!({"canary": {"steps": steps(), "trafficRoutings": [{"service": "a"}]}}))], Rule::Custom, Level::Error,
    "spec.strategy.canary.trafficRoutings", "custom workload")]
#[case::remainder(vec![custom(json!([{"replicas": "50%"}]))], Rule::Remainder, Level::Warning, "spec.strategy.canary.steps.0.replicas", "leaves pods behind")]
#[case::number_of_all(vec![custom(json!([{"replicas": 5}]))], Rule::Remainder, Level::Warning, "spec.strategy.canary.steps.0.replicas", "for more than 5")]
#[case::repeated(vec![custom(json!([{"replicas": 2}, {"replicas": "40%"}, {"replicas": "100%"}])), app()], Rule::Idle, Level::Warning,
    "spec.strategy.canary.steps.1.replicas", "updates no pod")]
#[case::falls(vec![custom(json!([{"replicas": 3}, {"replicas": "40%"}, {"replicas": "100%"}])), app()], Rule::Idle, Level::Warning,
    "spec.strategy.canary.steps.1.replicas", "fewer than the 3 pods")]
#[case::no_label(vec![custom(steps()), without(app(), "/metadata", "labels")], Rule::Label, Level::Warning, "metadata.labels", "is missing")]
#[case::wrong_label(vec![custom(steps()), edited(app(), "/metadata/labels", "rollouts.kruise.io/workload-type", json!("StatefulSet"))], Rule::Label, Level::Warning,
    "metadata.labels.rollouts.kruise.io/workload-type", "write statefulset")]
#[case::no_template(vec![custom(steps()), without(app(), "/spec/template", "spec")], Rule::Shape, Level::Error, "spec.template", "spec.template.spec is missing")]
#[case::on_delete(vec![custom(steps()), edited(app(), "/spec/updateStrategy", "type", json!("OnDelete"))], Rule::Shape, Level::Error, "spec.updateStrategy.type", "write RollingUpdate")]
#[case::malformed(vec![custom(steps()), edited(app(), "/spec", "replicas", json!("five"))], Rule::Shape, Level::Error, "spec.replicas", "should be")]
#[case::unsupported(vec![rollout("StatefulSet", json!({"canary": {"steps": steps()}})).pointer_mut("/spec/workloadRef").map(|r| { r["kind"] = json!("ReplicaSet"); r.clone() })
        .map(|r| json!({"apiVersion": "rollouts.kruise.io/v1beta1", "kind": "Rollout", "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"workloadRef": r, "strategy": {"canary": {"steps": steps()}}}})).unwrap(),
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "app", "namespace": "shop"}})],
    Rule::Shape, Level::Error, "kind", "not supported")]
#[case::old_version(vec![edited(custom(steps()), "", "apiVersion", json!("rollouts.kruise.io/v1alpha1"))], Rule::Version, Level::Warning, "apiVersion", "v1beta1")]
#[case::twice(vec![custom(steps()), edited(custom(steps()), "/metadata", "name", json!("other"))], Rule::Cluster, Level::Error, "spec.workloadRef", "names this workload already")]
fn each_rule_finds_what_it_is_for(
    #[case] documents: Vec<Value>,
    #[case] rule: Rule,
    #[case] level: Level,
    #[case] path: &str,
    #[case] words: &str,
) {
    let problems = lint(&documents, None, "shop");
    let found = problems
        .iter()
        .find(|p| p.rule == rule && p.path.join(".") == path);
    let found = found.unwrap_or_else(|| panic!("{problems:#?}"));
    assert_eq!(found.level, level, "{found:#?}");
    assert!(found.message.contains(words), "{}", found.message);
}

#[test]
fn what_is_right_in_one_namespace_is_not_looked_for_in_another() {
    let elsewhere = edited(
        without(app(), "/metadata", "labels"),
        "/metadata",
        "namespace",
        json!("other"),
    );
    assert_eq!(lint(&[custom(steps()), elsewhere], None, "shop"), []);
}

#[test]
fn idle_steps_are_told_only_where_the_number_of_pods_is_known() {
    let repeated = custom(json!([{"replicas": 2}, {"replicas": "40%"}, {"replicas": "100%"}]));
    assert_eq!(lint(std::slice::from_ref(&repeated), None, "shop"), []);
    assert_eq!(lint(&[repeated], Some(5), "shop").len(), 1);
}

#[test]
fn ids_are_stable_and_read_back() {
    for (number, rule) in Rule::ALL.into_iter().enumerate() {
        assert_eq!(rule.id(), format!("KR{:03}", number + 1));
        assert_eq!(Rule::of_id(&rule.id().to_lowercase()), Some(rule));
    }
    assert_eq!(Rule::of_id("KR099"), None);
}

fn in_cluster() -> Online {
    Online {
        rollout: serde_json::from_value(custom(steps())).unwrap(),
        others: Looked::Seen(Vec::new()),
        kind_served: Looked::Seen(true),
        workload: Looked::Seen(Some(app())),
        refused: Looked::Seen(None),
        ..Online::default()
    }
}

fn pruning() -> Value {
    json!({"metadata": {"name": "mystatefulapps.example.io"}, "spec": {"versions": [{"name": "v1", "storage": true, "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"properties": {"spec": {"type": "object"}, "status": {"x-kubernetes-preserve-unknown-fields": true}}}}}]}})
}

#[rstest]
#[case::fine(|_: &mut Online| {}, None)]
#[case::itself(|o: &mut Online| o.others = Looked::Seen(vec![o.rollout.clone()]), None)]
#[case::rival(|o: &mut Online| { let mut other = o.rollout.clone(); other.metadata.name = Some("other".into()); o.others = Looked::Seen(vec![other]) },
    Some("governs this workload already"))]
#[case::no_kind(|o: &mut Online| o.kind_served = Looked::Seen(false), Some("no kind MyStatefulApp"))]
#[case::missing(|o: &mut Online| o.workload = Looked::Seen(None), Some("no MyStatefulApp app in namespace shop"))]
#[case::comes_along(|o: &mut Online| { o.workload = Looked::Seen(None); o.comes_along = true }, None)]
#[case::pruned(|o: &mut Online| o.definition = Looked::Seen(Some(pruning())), Some("kubectl patch crd"))]
#[case::refused(|o: &mut Online| o.refused = Looked::Seen(Some("admission webhook \"x\" denied it.".into())), Some("refuses it: admission webhook \"x\" denied it"))]
#[case::forbidden(|o: &mut Online| { o.others = Looked::Forbidden("list rollouts".into()); o.workload = Looked::Forbidden("get x".into()) }, None)]
fn what_the_cluster_says_is_a_rule_too(#[case] change: fn(&mut Online), #[case] words: Option<&str>) {
    let mut facts = in_cluster();
    change(&mut facts);
    let problems = online(&facts);
    match words {
        None => assert_eq!(problems, []),
        Some(words) => {
            let found = problems.iter().find(|problem| problem.message.contains(words));
            assert!(
                found.is_some_and(|p| p.rule == Rule::Cluster && p.level == Level::Error),
                "{problems:#?}"
            );
        }
    }
}
