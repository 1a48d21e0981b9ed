use serde_json::Value;

use crate::names;

/// Who else keeps the pod template of `workload` and would write it again, so that an undo lasts only until then: whoever applies
/// manifests. Server-side apply by `ours` does not count. For a sentence.
#[must_use]
pub fn keeper(workload: &Value, ours: &str) -> Option<String> {
    let metadata = &workload["metadata"];
    if metadata["annotations"].get(names::LAST_APPLIED).is_some() {
        return Some("kubectl apply".to_owned());
    }
    let managers = metadata["managedFields"].as_array()?;
    let applies = |entry: &&Value| {
        entry["operation"] == "Apply"
            && entry["manager"] != ours
            && entry.pointer("/fieldsV1/f:spec/f:template").is_some()
    };
    let manager = managers.iter().find(applies)?["manager"].as_str()?;
    Some(format!("{manager} (server-side apply)"))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::nobody(json!({}), None)]
    #[case::client_side(json!({"annotations": {names::LAST_APPLIED: "{}"}}), Some("kubectl apply"))]
    #[case::server_side(
        json!({"managedFields": [{"manager": "argo", "operation": "Apply", "fieldsV1": {"f:spec": {"f:template": {}}}}]}),
        Some("argo (server-side apply)")
    )]
    #[case::of_something_else(
        json!({"managedFields": [{"manager": "argo", "operation": "Apply", "fieldsV1": {"f:spec": {"f:replicas": {}}}}]}),
        None
    )]
    #[case::by_updates(
        json!({"managedFields": [{"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:spec": {"f:template": {}}}}]}),
        None
    )]
    #[case::ours(
        json!({"managedFields": [{"manager": "us", "operation": "Apply", "fieldsV1": {"f:spec": {"f:template": {}}}}]}),
        None
    )]
    fn who_keeps_the_template(#[case] metadata: Value, #[case] expected: Option<&str>) {
        assert_eq!(keeper(&json!({"metadata": metadata}), "us").as_deref(), expected);
    }
}
