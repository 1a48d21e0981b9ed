//! Fields against the schema of the Rollout kind.

use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::{Problem, Rule};
use crate::api::v1beta1::crd;
use crate::names;

/// The schema of `v1beta1`, as JSON.
static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let definition = serde_json::to_value(crd()).unwrap_or_default();
    let versions = definition["spec"]["versions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let ours = versions
        .into_iter()
        .find(|version| version["name"] == names::VERSION);
    ours.map_or(Value::Null, |version| {
        version["schema"]["openAPIV3Schema"].clone()
    })
});

/// What is no object of Kubernetes at all, or is meant to be a Rollout and does not say so.
pub(super) fn object(document: usize, object: &Value) -> Option<Problem> {
    let (kind, version) = (object["kind"].as_str(), object["apiVersion"].as_str());
    let error = |path, text| Some(Problem::error(document, path, Rule::Schema, text));
    match (kind, version) {
        (Some("Rollout"), None) => error(
            "kind",
            format!("apiVersion is missing: write {}", names::API_VERSION),
        ),
        (Some(kind), Some(version))
            if super::is_ours(version) && kind != "Rollout" && is_close("Rollout", kind) =>
        {
            let text = format!("{kind} is no kind of {}: did you mean Rollout?", names::GROUP);
            error("kind", text)
        }
        (Some(_), Some(_)) => None,
        _ => {
            let text =
                "this is no object of Kubernetes, which has apiVersion and kind: nothing of it is checked";
            Some(Problem::warning(document, "", Rule::Schema, text))
        }
    }
}

/// A version that is not the one that is served.
pub(super) fn version(document: usize, object: &Value) -> Option<Problem> {
    let version = object["apiVersion"].as_str()?;
    if version == names::API_VERSION {
        return None;
    }
    let wanted = names::API_VERSION;
    if version.ends_with("/v1alpha1") {
        let text = format!(
            "v1alpha1 is deprecated and is not served here: write {wanted}, where steps are spec.strategy.canary.steps and workloadRef stands in spec"
        );
        return Some(Problem::warning(document, "apiVersion", Rule::Version, text));
    }
    let text = format!("{version} is no version of Rollouts: write {wanted}");
    Some(Problem::error(document, "apiVersion", Rule::Schema, text))
}

/// Members that the schema does not have, and values that it does not allow.
pub(super) fn fields(document: usize, object: &Value) -> Vec<Problem> {
    let mut walk = Walk {
        document,
        problems: Vec::new(),
    };
    let mut root = object.clone();
    if let Some(members) = root.as_object_mut() {
        // The server's own; what people write there is not stored.
        for name in ["apiVersion", "kind", "metadata", "status"] {
            members.remove(name);
        }
    }
    if object["metadata"]["name"].as_str().is_none_or(str::is_empty)
        && object["metadata"]["generateName"]
            .as_str()
            .is_none_or(str::is_empty)
    {
        walk.error("metadata", "a Rollout needs metadata.name".to_owned());
    }
    if let Some(name) = object["metadata"]["name"].as_str()
        && !name.is_empty()
        && !names::is_object_name(name)
    {
        walk.error(
            "metadata.name",
            format!("metadata.name is {name:?}: write lower-case letters and digits, with '-' and '.' between them"),
        );
    }
    walk.value("", &root, &SCHEMA);
    walk.problems
}

struct Walk {
    document: usize,
    problems: Vec<Problem>,
}

impl Walk {
    fn error(&mut self, path: &str, message: String) {
        self.problems
            .push(Problem::error(self.document, path, Rule::Schema, message));
    }

    fn value(&mut self, path: &str, value: &Value, schema: &Value) {
        if value.is_null() {
            return;
        }
        if schema["x-kubernetes-int-or-string"] == true {
            if !(value.is_i64() || value.is_u64() || value.is_string()) {
                self.error(
                    path,
                    format!("{path} is {}: write a number or a percentage", short(value)),
                );
            }
            return;
        }
        match (schema["type"].as_str(), value) {
            (Some("object"), Value::Object(members)) => self.members(path, members, schema),
            (Some("array"), Value::Array(items)) => {
                for (place, item) in items.iter().enumerate() {
                    self.value(&format!("{path}[{place}]"), item, &schema["items"]);
                }
            }
            (Some("integer"), value) if value.is_i64() || value.is_u64() => {}
            (Some("number"), Value::Number(_)) | (Some("boolean"), Value::Bool(_)) => {}
            (Some("string"), Value::String(text)) => self.word(path, text, schema),
            (None, _) => {}
            (Some(wanted), other) => {
                let wanted = match wanted {
                    "array" => "a list",
                    "boolean" => "true or false",
                    "integer" => "a whole number",
                    "object" => "a map",
                    other => other,
                };
                self.error(path, format!("{path} is {}: write {wanted}", short(other)));
            }
        }
    }

    fn word(&mut self, path: &str, text: &str, schema: &Value) {
        let Some(allowed) = schema["enum"].as_array() else {
            return;
        };
        if !allowed.iter().any(|value| value == text) {
            let words: Vec<_> = allowed.iter().map(ToString::to_string).collect();
            self.error(
                path,
                format!("{path} is {text:?}: write one of {}", words.join(", ")),
            );
        }
    }

    fn members(&mut self, path: &str, members: &Map<String, Value>, schema: &Value) {
        let at = |name: &str| {
            if path.is_empty() {
                name.to_owned()
            } else {
                format!("{path}.{name}")
            }
        };
        let known = schema["properties"].as_object();
        let open = schema["x-kubernetes-preserve-unknown-fields"] == true;
        for (name, value) in members {
            match known.and_then(|known| known.get(name)) {
                Some(of_member) => self.value(&at(name), value, of_member),
                None if schema["additionalProperties"].is_object() => {
                    self.value(&at(name), value, &schema["additionalProperties"]);
                }
                None if open || (known.is_none() && schema["additionalProperties"] != false) => {}
                None => {
                    let close = known
                        .into_iter()
                        .flatten()
                        .map(|(known, _)| known)
                        .find(|known| is_close(known, name));
                    let hint = close.map_or_else(
                        || "remove it".to_owned(),
                        |close| format!("did you mean {close}?"),
                    );
                    self.error(
                        &at(name),
                        format!("{} is no field of a Rollout: {hint}", at(name)),
                    );
                }
            }
        }
        // A missing part of the spec is told by what reviews it, in better words.
        let required = schema["required"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str);
        let told = [
            "workloadRef",
            "strategy",
            "apiVersion",
            "kind",
            "name",
            "replicas",
        ];
        for name in required.filter(|name| !members.contains_key(*name) && !told.contains(name)) {
            self.error(path, format!("{} is missing: write it", at(name)));
        }
    }
}

/// Whether one is the other with one letter more, less or changed, or in other case.
fn is_close(known: &str, typed: &str) -> bool {
    let (known, typed) = (known.to_lowercase(), typed.to_lowercase());
    if known == typed {
        return true;
    }
    let common = |one: &mut dyn Iterator<Item = (char, char)>| one.take_while(|(a, b)| a == b).count();
    let front = common(&mut known.chars().zip(typed.chars()));
    let back = common(&mut known.chars().rev().zip(typed.chars().rev()));
    let (long, short) = (
        known.chars().count().max(typed.chars().count()),
        known.chars().count().min(typed.chars().count()),
    );
    // Two letters that changed places count too.
    long - short <= 1 && front + back + 2 >= long && long > 2
}

fn short(value: &Value) -> String {
    match value {
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a map".to_owned(),
        other => other.to_string(),
    }
}
