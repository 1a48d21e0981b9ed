//! Identity of a release, as people and platforms know it: a label value.

use serde_json::Value;

use crate::names;

/// Longest value that the API server takes for a label.
const LONGEST: usize = 63;

/// The name that people gave the release: the workload's label [`names::ROLLOUT_ID`], else the annotation of that name, if pods can
/// carry it as a label.
#[must_use]
pub fn given(workload: &Value) -> Option<String> {
    let read = |place: &str| workload["metadata"][place].get(names::ROLLOUT_ID)?.as_str();
    ["labels", "annotations"]
        .into_iter()
        .find_map(|place| read(place).filter(|id| is_label_value(id)))
        .map(str::to_owned)
}

/// What an operator's revision gives for an identity: itself, or its part after the last dash where the whole is no label value.
#[must_use]
pub fn of_revision(revision: &str) -> Option<&str> {
    let part = revision.rsplit_once('-').map(|(_, part)| part);
    [Some(revision), part]
        .into_iter()
        .flatten()
        .find(|text| is_label_value(text))
}

/// Whether a text is a label value and not empty: letters, digits, `-`, `_` and `.`, a letter or digit at both ends.
fn is_label_value(text: &str) -> bool {
    let ends = [text.bytes().next(), text.bytes().next_back()];
    text.len() <= LONGEST
        && ends
            .into_iter()
            .all(|end| end.is_some_and(|byte| byte.is_ascii_alphanumeric()))
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_label_comes_before_the_annotation() {
        let workload = |label: Value, annotation: Value| {
            given(
                &json!({"metadata": {"labels": {names::ROLLOUT_ID: label}, "annotations": {names::ROLLOUT_ID: annotation}}}),
            )
        };
        assert_eq!(workload(json!("7"), json!("8")).as_deref(), Some("7"));
        assert_eq!(workload(json!(""), json!("8")).as_deref(), Some("8"));
        assert_eq!(workload(Value::Null, json!("build 8")), None);
        assert_eq!(given(&json!({"metadata": {}})), None);
    }

    #[test]
    fn a_revision_is_cut_to_a_label_value() {
        let long = format!("{}-7f9c", "a".repeat(63));
        for (revision, id) in [
            ("web-7f9c", Some("web-7f9c")),
            ("7f9c", Some("7f9c")),
            (long.as_str(), Some("7f9c")),
            ("sha256:ab-7f9c", Some("7f9c")),
            ("sha256:ab", None),
            ("web-", None),
            ("", None),
        ] {
            assert_eq!(of_revision(revision), id, "{revision}");
        }
        assert_eq!(of_revision(&"a".repeat(64)), None);
    }
}
