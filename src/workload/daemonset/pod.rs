//! A pod of a DaemonSet as its own controller would make it, but of a revision of our choice.

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::names;
use crate::workload::template::hex;

/// Whose pod it is, and where it runs.
#[derive(Clone, Copy, Debug)]
pub struct Spot<'a> {
    /// Name of the DaemonSet.
    pub daemonset: &'a str,
    /// UID of the DaemonSet.
    pub uid: &'a str,
    /// Node that it is bound to.
    pub node: &'a str,
    /// UID of the pod whose place it takes, which makes the name: two pods for one place are one.
    pub instead_of: &'a str,
}

/// The pod that `revision`, a ControllerRevision of the DaemonSet, describes. `None` where it describes none.
#[must_use]
pub fn of_revision(revision: &Value, spot: &Spot<'_>) -> Option<Value> {
    let template = revision.pointer("/data/spec/template")?;
    let hash = revision["metadata"]["labels"][names::CONTROLLER_REVISION_HASH].as_str()?;
    let mut labels = members(&template["metadata"]["labels"]);
    labels.insert(names::CONTROLLER_REVISION_HASH.to_owned(), hash.into());
    // The number of the template when the revision was made; a pod with the present one would count as updated.
    let generation = &revision["metadata"]["annotations"][names::TEMPLATE_GENERATION];
    if generation.is_string() {
        labels.insert(names::POD_TEMPLATE_GENERATION.to_owned(), generation.clone());
    }
    let mut metadata = members(&template["metadata"]);
    metadata.insert("name".to_owned(), name(spot).into());
    metadata.insert("generateName".to_owned(), format!("{}-", spot.daemonset).into());
    metadata.insert("labels".to_owned(), labels.into());
    metadata.insert(
        "ownerReferences".to_owned(),
        json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": spot.daemonset, "uid": spot.uid,
            "controller": true, "blockOwnerDeletion": true}]),
    );
    let mut spec = template["spec"].as_object()?.clone();
    bind(&mut spec, spot.node);
    tolerate(&mut spec);
    Some(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}))
}

/// The DaemonSet's name, as far as a name has room for it, and a digest.
fn name(spot: &Spot<'_>) -> String {
    let digest = hex(&Sha256::digest(spot.instead_of), 10);
    let start: String = spot.daemonset.chars().take(50).collect();
    format!("{}-{digest}", start.trim_end_matches(['-', '.']))
}

fn members(object: &Value) -> Map<String, Value> {
    object.as_object().cloned().unwrap_or_default()
}

/// The required terms of the template's node affinity give way to the name of the node; the rest of the affinity stays.
fn bind(spec: &mut Map<String, Value>, node: &str) {
    let mut affinity = members(spec.get("affinity").unwrap_or(&Value::Null));
    let mut of_node = members(affinity.get("nodeAffinity").unwrap_or(&Value::Null));
    of_node.insert(
        "requiredDuringSchedulingIgnoredDuringExecution".to_owned(),
        json!({"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]}),
    );
    affinity.insert("nodeAffinity".to_owned(), of_node.into());
    spec.insert("affinity".to_owned(), affinity.into());
}

/// What every pod of a DaemonSet tolerates, whatever the template says.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];
/// What it tolerates beside these in the network of its node.
const TOLERATED_BY_THE_HOST: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

fn tolerate(spec: &mut Map<String, Value>) {
    let on_host = spec.get("hostNetwork") == Some(&Value::Bool(true));
    let mut tolerations = spec
        .get("tolerations")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    for (key, effect) in TOLERATED
        .into_iter()
        .chain(on_host.then_some(TOLERATED_BY_THE_HOST))
    {
        let toleration = json!({"key": key, "operator": "Exists", "effect": effect});
        let names_it =
            |own: &&mut Value| own["key"] == key && own["effect"] == effect && own["operator"] == "Exists";
        // The template may tolerate it for some seconds only.
        match tolerations.iter_mut().find(names_it) {
            Some(own) => *own = toleration,
            None => tolerations.push(toleration),
        }
    }
    spec.insert("tolerations".to_owned(), tolerations.into());
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPOT: Spot<'_> = Spot {
        daemonset: "agent",
        uid: "d",
        node: "n1",
        instead_of: "p",
    };

    fn revision(spec: Value) -> Value {
        json!({
            "metadata": {"name": "agent-5c4c", "labels": {"app": "agent", "controller-revision-hash": "5c4c"},
                "annotations": {"deprecated.daemonset.template.generation": "1"}},
            "data": {"spec": {"template": {"$patch": "replace", "spec": spec,
                "metadata": {"labels": {"app": "agent"}, "annotations": {"a": "b"}}}}},
        })
    }

    #[test]
    fn it_is_as_the_daemonset_controller_makes_it() {
        let pod = of_revision(&revision(json!({"containers": [{"name": "c"}]})), &SPOT).unwrap();
        let tolerated = |key: &str, effect: &str| json!({"key": format!("node.kubernetes.io/{key}"), "operator": "Exists", "effect": effect});
        let expected = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "agent-148de9c5a7", "generateName": "agent-", "annotations": {"a": "b"},
                "labels": {"app": "agent", "controller-revision-hash": "5c4c", "pod-template-generation": "1"},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "d",
                    "controller": true, "blockOwnerDeletion": true}],
            },
            "spec": {
                "containers": [{"name": "c"}],
                "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms":
                    [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}}},
                "tolerations": [tolerated("not-ready", "NoExecute"), tolerated("unreachable", "NoExecute"),
                    tolerated("disk-pressure", "NoSchedule"), tolerated("memory-pressure", "NoSchedule"),
                    tolerated("pid-pressure", "NoSchedule"), tolerated("unschedulable", "NoSchedule")],
            },
        });
        assert_eq!(pod, expected);
    }

    #[test]
    fn what_the_template_asks_for_beside_it_stays() {
        let spec = json!({
            "hostNetwork": true,
            "affinity": {"podAffinity": {"a": 1}, "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}],
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": []}]}}},
            "tolerations": [{"operator": "Exists", "key": "mine"}, {"key": "node.kubernetes.io/not-ready", "operator": "Exists",
                "effect": "NoExecute", "tolerationSeconds": 5}],
        });
        let pod = of_revision(&revision(spec), &SPOT).unwrap();
        let affinity = &pod["spec"]["affinity"];
        assert_eq!(affinity["podAffinity"], json!({"a": 1}));
        let of_node = &affinity["nodeAffinity"];
        assert_eq!(
            of_node["preferredDuringSchedulingIgnoredDuringExecution"],
            json!([{"weight": 1}])
        );
        let terms = &of_node["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
        assert_eq!(terms.as_array().unwrap().len(), 1);
        assert_eq!(terms[0]["matchFields"][0]["values"], json!(["n1"]));
        let tolerations = pod["spec"]["tolerations"].as_array().unwrap();
        assert_eq!(tolerations.len(), 8);
        assert_eq!(tolerations[0]["key"], "mine");
        assert_eq!(tolerations[1]["tolerationSeconds"], Value::Null);
        assert_eq!(tolerations[7]["key"], "node.kubernetes.io/network-unavailable");
    }

    #[test]
    fn a_record_of_something_else_makes_no_pod() {
        for broken in [
            "/data/spec/template",
            "/data/spec/template/spec",
            "/metadata/labels",
        ] {
            let mut revision = revision(json!({}));
            *revision.pointer_mut(broken).unwrap() = Value::Null;
            assert_eq!(of_revision(&revision, &SPOT), None, "{broken}");
        }
    }
}
