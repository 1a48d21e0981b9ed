//! The wire: the schema against the facts, and manifests that must come back as they went in.

use std::collections::{BTreeMap, BTreeSet};

use rstest::rstest;
use serde_json::{Value, json};

use super::*;

/// Fields of the steps of either strategy: path, type, `!` if required.
const STEP: &[(&str, &str)] = &[
    ("", "array<=50"),
    ("[]", "object"),
    ("[].replicas", "int-or-string"),
    ("[].pause", "object"),
    ("[].pause.duration", "integer/int32"),
    ("[].traffic", "string"),
    ("[].matches", "array<=16"),
    ("[].matches[]", "object"),
    ("[].matches[].path", "object"),
    ("[].matches[].path.type", "string"),
    ("[].matches[].path.value", "string"),
    ("[].matches[].headers", "array<=16"),
    ("[].matches[].headers[]", "object"),
    ("[].matches[].headers[].type", "string"),
    ("[].matches[].headers[].name", "string!"),
    ("[].matches[].headers[].value", "string!"),
    ("[].matches[].queryParams", "array<=16"),
    ("[].matches[].queryParams[]", "object"),
    ("[].matches[].queryParams[].type", "string"),
    ("[].matches[].queryParams[].name", "string!"),
    ("[].matches[].queryParams[].value", "string!"),
    ("[].requestHeaderModifier", "object"),
    ("[].requestHeaderModifier.set", "array<=16"),
    ("[].requestHeaderModifier.set[]", "object"),
    ("[].requestHeaderModifier.set[].name", "string!"),
    ("[].requestHeaderModifier.set[].value", "string!"),
    ("[].requestHeaderModifier.add", "array<=16"),
    ("[].requestHeaderModifier.add[]", "object"),
    ("[].requestHeaderModifier.add[].name", "string!"),
    ("[].requestHeaderModifier.add[].value", "string!"),
    ("[].requestHeaderModifier.remove", "array<=16"),
    ("[].requestHeaderModifier.remove[]", "string"),
];

/// Fields of the traffic routings of either strategy.
const ROUTING: &[(&str, &str)] = &[
    ("", "array"),
    ("[]", "object"),
    ("[].service", "string!"),
    ("[].gracePeriodSeconds", "integer/int32"),
    ("[].ingress", "object"),
    ("[].ingress.classType", "string"),
    ("[].ingress.name", "string!"),
    ("[].gateway", "object"),
    ("[].gateway.httpRouteName", "string"),
    ("[].customNetworkRefs", "array"),
    ("[].customNetworkRefs[]", "object"),
    ("[].customNetworkRefs[].apiVersion", "string!"),
    ("[].customNetworkRefs[].kind", "string!"),
    ("[].customNetworkRefs[].name", "string!"),
];

/// Fields that both sub-statuses have.
const RELEASE: &[(&str, &str)] = &[
    ("", "object"),
    (".observedWorkloadGeneration", "integer/int64"),
    (".observedRolloutID", "string"),
    (".rolloutHash", "string"),
    (".stableRevision", "string"),
    (".podTemplateHash", "string!"),
    (".currentStepIndex", "integer/int32"),
    (".nextStepIndex", "integer/int32!"),
    (".finalisingStep", "string!"),
    (".currentStepState", "string!"),
    (".message", "string"),
    (".lastUpdateTime", "string/date-time"),
];

/// Everything else.
const REST: &[(&str, &str)] = &[
    ("", "object"),
    ("spec", "object!"),
    ("spec.workloadRef", "object!"),
    ("spec.workloadRef.apiVersion", "string!"),
    ("spec.workloadRef.kind", "string!"),
    ("spec.workloadRef.name", "string!"),
    ("spec.strategy", "object!"),
    ("spec.strategy.paused", "boolean"),
    ("spec.strategy.canary", "object"),
    ("spec.strategy.canary.failureThreshold", "int-or-string"),
    ("spec.strategy.canary.progressDeadlineSeconds", "integer/int32"),
    ("spec.strategy.canary.patchPodTemplateMetadata", "object"),
    ("spec.strategy.canary.patchPodTemplateMetadata.annotations", "map"),
    (
        "spec.strategy.canary.patchPodTemplateMetadata.annotations{}",
        "string",
    ),
    ("spec.strategy.canary.patchPodTemplateMetadata.labels", "map"),
    ("spec.strategy.canary.patchPodTemplateMetadata.labels{}", "string"),
    ("spec.strategy.canary.enableExtraWorkloadForCanary", "boolean"),
    ("spec.strategy.canary.trafficRoutingRef", "string"),
    ("spec.strategy.canary.disableGenerateCanaryService", "boolean"),
    ("spec.strategy.blueGreen", "object"),
    ("spec.strategy.blueGreen.failureThreshold", "int-or-string"),
    ("spec.strategy.blueGreen.trafficRoutingRef", "string"),
    ("spec.strategy.blueGreen.disableGenerateCanaryService", "boolean"),
    ("spec.disabled", "boolean"),
    ("status", "object"),
    ("status.observedGeneration", "integer/int64"),
    ("status.phase", "string"),
    ("status.message", "string"),
    ("status.conditions", "array"),
    ("status.conditions[]", "object"),
    ("status.conditions[].type", "string!"),
    ("status.conditions[].status", "string!"),
    ("status.conditions[].reason", "string!"),
    ("status.conditions[].message", "string!"),
    ("status.conditions[].lastUpdateTime", "string/date-time"),
    ("status.conditions[].lastTransitionTime", "string/date-time"),
    ("status.currentStepIndex", "integer/int32!"),
    ("status.currentStepState", "string!"),
    ("status.canaryStatus.canaryRevision", "string!"),
    ("status.canaryStatus.canaryReplicas", "integer/int32!"),
    ("status.canaryStatus.canaryReadyReplicas", "integer/int32!"),
    ("status.canaryStatus.templateId", "string"),
    ("status.canaryStatus.stableTemplateId", "string"),
    ("status.canaryStatus.workloadUid", "string"),
    ("status.canaryStatus.rolledBack", "boolean"),
    ("status.blueGreenStatus.updatedRevision", "string!"),
    ("status.blueGreenStatus.updatedReplicas", "integer/int32!"),
    ("status.blueGreenStatus.updatedReadyReplicas", "integer/int32!"),
];

/// The expected fields: path to type.
fn facts() -> BTreeMap<String, String> {
    let shared = [
        ("spec.strategy.canary.steps", STEP),
        ("spec.strategy.blueGreen.steps", STEP),
        ("spec.strategy.canary.trafficRoutings", ROUTING),
        ("spec.strategy.blueGreen.trafficRoutings", ROUTING),
        ("status.canaryStatus", RELEASE),
        ("status.blueGreenStatus", RELEASE),
        ("", REST),
    ];
    let fields = shared
        .iter()
        .flat_map(|(prefix, fields)| fields.iter().map(move |field| (prefix, field)));
    fields
        .map(|(prefix, (path, kind))| (format!("{prefix}{path}"), (*kind).to_owned()))
        .collect()
}

fn schema() -> Value {
    let crd = serde_json::to_value(crd()).unwrap();
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

/// Calls `visit` with the path, the schema and the required-ness of every field, and on the way down checks what the API
/// server asks of a structural schema.
fn walk(path: &str, schema: &Value, required: bool, visit: &mut impl FnMut(&str, &Value, bool)) {
    visit(path, schema, required);
    let needed: BTreeSet<&str> = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|name| name.as_str().unwrap())
        .collect();
    let none = serde_json::Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&none);
    assert!(
        needed.iter().all(|name| properties.contains_key(*name)),
        "{path}: required but unknown"
    );
    for (name, property) in properties {
        let below = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        walk(&below, property, needed.contains(name.as_str()), visit);
    }
    if let Some(items) = schema.get("items") {
        walk(&format!("{path}[]"), items, false, visit);
    }
    if let Some(values) = schema.get("additionalProperties") {
        walk(&format!("{path}{{}}"), values, false, visit);
    }
}

/// One field in the notation of the tables.
fn kind(schema: &Value, required: bool) -> String {
    let mut kind = match schema["type"].as_str() {
        None => "int-or-string".to_owned(),
        Some("object") if schema.get("additionalProperties").is_some() => "map".to_owned(),
        Some(name) => name.to_owned(),
    };
    if let Some(format) = schema["format"].as_str() {
        kind = format!("{kind}/{format}");
    }
    if let Some(most) = schema["maxItems"].as_i64() {
        kind = format!("{kind}<={most}");
    }
    if required { kind + "!" } else { kind }
}

#[test]
fn schema_has_exactly_the_known_fields() {
    let mut found = BTreeMap::new();
    walk("", &schema(), false, &mut |path, schema, required| {
        found.insert(path.to_owned(), kind(schema, required));
    });
    assert_eq!(found, facts());
}

#[test]
fn schema_is_structural_and_says_what_fields_mean() {
    let known = [
        "additionalProperties",
        "description",
        "format",
        "items",
        "maxItems",
        "properties",
        "required",
        "type",
        "x-kubernetes-int-or-string",
    ];
    walk("", &schema(), false, &mut |path, schema, _| {
        for word in schema.as_object().unwrap().keys() {
            if (path, word.as_str()) == ("status", "default") {
                continue;
            }
            assert!(known.contains(&word.as_str()), "{path} has {word}");
        }
        let mixed = schema["x-kubernetes-int-or-string"] == json!(true);
        assert!(mixed != schema["type"].is_string(), "{path} has no type, or two");
        let described = schema["description"]
            .as_str()
            .is_some_and(|text| !text.is_empty());
        assert!(
            described || path.ends_with(['}', ']']),
            "{path} has no description"
        );
    });
}

/// kstatus takes an object without a status for done.
#[test]
fn r88_a_rollout_that_nobody_has_looked_at_has_no_generation() {
    let schema = schema();
    let status = &schema["properties"]["status"];
    let unseen: RolloutStatus = serde_json::from_value(status["default"].clone()).unwrap();
    assert_eq!(
        unseen,
        RolloutStatus {
            observed_generation: -1,
            ..RolloutStatus::default()
        }
    );
    // The API server takes no default that its own schema refuses.
    for name in status["required"].as_array().unwrap() {
        assert!(status["default"].get(name.as_str().unwrap()).is_some(), "{name}");
    }
}

#[test]
fn definition_names_the_kind_as_existing_tools_know_it() {
    let crd = serde_json::to_value(crd()).unwrap();
    assert_eq!(crd["metadata"]["name"], "rollouts.rollouts.kruise.io");
    assert_eq!(crd["spec"]["group"], crate::names::GROUP);
    assert_eq!(crd["spec"]["scope"], "Namespaced");
    assert_eq!(
        crd["spec"]["names"],
        json!({"kind": "Rollout", "listKind": "RolloutList", "plural": "rollouts", "singular": "rollout", "shortNames": ["ro"]})
    );
    let version = &crd["spec"]["versions"][0];
    assert_eq!(version["name"], crate::names::VERSION);
    assert_eq!(
        (&version["served"], &version["storage"]),
        (&json!(true), &json!(true))
    );
    assert_eq!(version["subresources"], json!({"status": {}}));
    let columns = version["additionalPrinterColumns"].as_array().unwrap();
    let columns: Vec<_> = columns
        .iter()
        .map(|column| {
            let text = |key: &str| column[key].as_str().unwrap();
            (
                text("name"),
                text("type"),
                text("jsonPath"),
                column["priority"].as_i64().unwrap_or(0),
            )
        })
        .collect();
    assert_eq!(
        columns,
        [
            ("STATUS", "string", ".status.phase", 0),
            ("CANARY_STEP", "integer", ".status.currentStepIndex", 0),
            ("CANARY_STATE", "string", ".status.currentStepState", 0),
            ("MESSAGE", "string", ".status.message", 0),
            ("WORKLOAD", "string", ".spec.workloadRef.name", 1),
            ("AGE", "date", ".metadata.creationTimestamp", 0),
        ]
    );
}

/// Reads as a Rollout and writes again.
fn through(manifest: &Value) -> Value {
    let rollout: Rollout = serde_json::from_value(manifest.clone()).unwrap();
    serde_json::to_value(rollout).unwrap()
}

fn manifest(spec: Value) -> Value {
    json!({"apiVersion": "rollouts.kruise.io/v1beta1", "kind": "Rollout", "metadata": {"name": "web"}, "spec": spec})
}

#[rstest]
#[case::in_batches(json!({"canary": {
    "steps": [
        {"replicas": 1, "pause": {}},
        {"replicas": "50%", "pause": {"duration": 300}},
        {"replicas": "100%", "pause": {"duration": 0}},
    ],
    "failureThreshold": "10%",
}}))]
#[case::with_everything(json!({"paused": true, "canary": {
    "steps": [{
        "replicas": "20%",
        "pause": {},
        "traffic": "5%",
        "matches": [{
            "path": {"type": "PathPrefix", "value": "/new"},
            "headers": [{"type": "Exact", "name": "user", "value": "tester"}],
            "queryParams": [{"name": "version", "value": "2"}],
        }],
        "requestHeaderModifier": {
            "set": [{"name": "a", "value": "1"}],
            "add": [{"name": "b", "value": "2"}],
            "remove": ["c"],
        },
    }],
    "trafficRoutings": [{
        "service": "web",
        "gracePeriodSeconds": 0,
        "ingress": {"classType": "nginx", "name": "web"},
        "gateway": {"httpRouteName": "web"},
        "customNetworkRefs": [{"apiVersion": "networking.istio.io/v1", "kind": "VirtualService", "name": "web"}],
    }],
    "failureThreshold": 2,
    "patchPodTemplateMetadata": {"annotations": {"a": "1"}, "labels": {"b": "2"}},
    "enableExtraWorkloadForCanary": true,
    "trafficRoutingRef": "web",
    "disableGenerateCanaryService": true,
}}))]
#[case::blue_green(json!({"blueGreen": {
    "steps": [{"replicas": "100%", "pause": {}, "traffic": "0%"}],
    "trafficRoutings": [{"service": "web", "ingress": {"name": "web"}}],
    "failureThreshold": 1,
    "trafficRoutingRef": "web",
    "disableGenerateCanaryService": true,
}}))]
#[case::malformed(json!({"canary": {"steps": [{"replicas": "half", "pause": {"duration": -1}}]}}))]
fn manifests_round_trip(#[case] strategy: Value) {
    let workload = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"});
    let manifest = manifest(json!({"workloadRef": workload, "strategy": strategy, "disabled": true}));
    assert_eq!(through(&manifest), manifest);
}

#[test]
fn status_of_the_existing_controller_round_trips() {
    let condition = json!({
        "type": "Progressing", "status": "True", "reason": "InRolling", "message": "moving",
        "lastUpdateTime": "2026-01-02T03:04:05Z", "lastTransitionTime": "2026-01-02T03:04:05Z",
    });
    let status = json!({
        "observedGeneration": 1, "phase": "Progressing", "message": "waiting", "conditions": [condition],
        "currentStepIndex": 1, "currentStepState": "StepPaused",
        "canaryStatus": {
            "observedWorkloadGeneration": 2, "observedRolloutID": "app-v2", "rolloutHash": "f0", "stableRevision": "app-v1",
            "podTemplateHash": "app-v2", "currentStepIndex": 1, "nextStepIndex": 2, "finalisingStep": "",
            "currentStepState": "StepPaused", "message": "done", "lastUpdateTime": "2026-01-02T03:04:05Z",
            "canaryRevision": "app-v2", "canaryReplicas": 1, "canaryReadyReplicas": 1,
        },
    });
    let read: RolloutStatus = serde_json::from_value(status.clone()).unwrap();
    // We write this time with fractions of a second, which every reader of timestamps takes.
    let mut written = status;
    written["canaryStatus"]["lastUpdateTime"] = json!("2026-01-02T03:04:05.000000Z");
    assert_eq!(serde_json::to_value(read).unwrap(), written);
}

/// The server refuses a status without the fields that the schema requires.
#[test]
fn required_status_fields_are_written_when_zero() {
    let status = RolloutStatus {
        canary_status: Some(CanaryStatus::default()),
        blue_green_status: Some(BlueGreenStatus::default()),
        ..RolloutStatus::default()
    };
    let release =
        json!({"podTemplateHash": "", "nextStepIndex": 0, "finalisingStep": "", "currentStepState": ""});
    let with = |fields: Value| {
        let mut all = release.as_object().unwrap().clone();
        all.extend(fields.as_object().unwrap().clone());
        Value::from(all)
    };
    assert_eq!(
        serde_json::to_value(status).unwrap(),
        json!({
            "currentStepIndex": 0,
            "currentStepState": "",
            "canaryStatus": with(json!({"canaryRevision": "", "canaryReplicas": 0, "canaryReadyReplicas": 0})),
            "blueGreenStatus": with(json!({"updatedRevision": "", "updatedReplicas": 0, "updatedReadyReplicas": 0})),
        })
    );
}

#[rstest]
#[case::nothing(json!({}))]
#[case::empty_objects(json!({"spec": {"workloadRef": {}, "strategy": {}}, "status": {"canaryStatus": {}}}))]
#[case::unknown_words(json!({"spec": {}, "status": {"phase": "Dreaming", "conditions": [{"type": "New", "status": "Maybe"}]}}))]
#[case::nulls(json!({"spec": {"strategy": {"canary": null, "blueGreen": null}}, "status": null}))]
fn damaged_objects_still_read(#[case] parts: Value) {
    let mut object = manifest(json!({}));
    object
        .as_object_mut()
        .unwrap()
        .extend(parts.as_object().unwrap().clone());
    serde_json::from_value::<Rollout>(object).unwrap();
}

#[rstest]
#[case(IntOrPercent::Int(3), Ok(Amount::Count(3)))]
#[case(IntOrPercent::Int(-3), Ok(Amount::Count(-3)))]
#[case("0%".into(), Ok(Amount::Percent(0)))]
#[case("50%".into(), Ok(Amount::Percent(50)))]
#[case("120%".into(), Ok(Amount::Percent(120)))]
#[case("50".into(), Err("50"))]
#[case("5 %".into(), Err("5 %"))]
#[case("-1".into(), Err("-1"))]
#[case("-1%".into(), Err("-1%"))]
#[case("+1%".into(), Err("+1%"))]
#[case("12.5%".into(), Err("12.5%"))]
#[case("%".into(), Err("%"))]
#[case("".into(), Err(""))]
#[case("5%%".into(), Err("5%%"))]
#[case("99999999999%".into(), Err("99999999999%"))]
fn amounts(#[case] written: IntOrPercent, #[case] meant: Result<Amount, &str>) {
    assert_eq!(
        written.amount(),
        meant.map_err(|text| MalformedAmount(text.to_owned()))
    );
}

#[rstest]
#[case("apps/v1", Some(("apps", "v1")))]
#[case("v1", Some(("", "v1")))]
#[case("example.io/v1alpha1", Some(("example.io", "v1alpha1")))]
#[case("", None)]
#[case("/v1", None)]
#[case("apps/", None)]
#[case("apps/v1/extra", None)]
#[case("apps /v1", None)]
#[case("Apps/v1", None)]
fn group_versions(#[case] api_version: &str, #[case] parts: Option<(&str, &str)>) {
    let workload = WorkloadRef {
        api_version: api_version.to_owned(),
        ..WorkloadRef::default()
    };
    assert_eq!(workload.group_version(), parts);
}

#[rstest]
#[case("apps/v1", false)]
#[case("apps.kruise.io/v1beta1", false)]
#[case("example.io/v1", true)]
#[case("v1", true)]
#[case("nonsense/", false)]
fn custom_workloads(#[case] api_version: &str, #[case] custom: bool) {
    let workload = WorkloadRef {
        api_version: api_version.to_owned(),
        ..WorkloadRef::default()
    };
    assert_eq!(workload.is_custom(), custom);
}
