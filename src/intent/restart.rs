use json_patch::Patch;
use serde_json::{Value, json};

use super::Refusal;
use super::step::disabled;
use crate::api::v1beta1::Rollout;
use crate::lens::PatchBuilder;
use crate::names;
use crate::workload::Marks;

const ANNOTATIONS: [&str; 4] = ["spec", "template", "metadata", "annotations"];

/// Makes every pod of `workload`, as it was read, new: a change of the template that says nothing but `now`, and is released by the
/// steps of `rollout` as any other.
///
/// # Errors
/// A release is in progress, or nothing would hold the change; neither with `force`.
pub fn restart(rollout: &Rollout, workload: &Value, now: &str, force: bool) -> Result<Patch, Refusal> {
    let metadata = &workload["metadata"];
    if !workload.pointer("/spec/template").is_some_and(Value::is_object) {
        return Err(Refusal::NoTemplate);
    }
    if disabled(rollout).is_some() && !force {
        return Err(Refusal::NotHeld);
    }
    let annotations = metadata["annotations"].as_object();
    let releasing = annotations.is_some_and(|annotations| Marks::read(annotations).hold.is_some());
    if releasing && !force {
        return Err(Refusal::InRelease);
    }
    let mut known = json!({"spec": {"template": {}}});
    if let Some(metadata) = workload.pointer("/spec/template/metadata") {
        known["spec"]["template"]["metadata"] = metadata.clone();
    }
    let [spec, template, member, annotations] = ANNOTATIONS;
    Ok(PatchBuilder::new(known)
        .test(["metadata", "uid"], metadata["uid"].clone())
        .test(["metadata", "generation"], metadata["generation"].clone())
        .set(
            &[spec, template, member, annotations, names::RESTARTED_AT],
            json!(now),
        )
        .build())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const NOW: &str = "2026-01-02T03:04:05Z";

    fn workload(template: &Value) -> Value {
        json!({"metadata": {"uid": "w", "generation": 3}, "spec": {"template": template}})
    }

    fn ask(disabled: bool, workload: &Value, force: bool) -> Result<Value, Refusal> {
        let rollout =
            json!({"metadata": {}, "spec": {"workloadRef": {}, "strategy": {}, "disabled": disabled}});
        let patch = restart(&serde_json::from_value(rollout).unwrap(), workload, NOW, force)?;
        let mut after = workload.clone();
        json_patch::patch(&mut after, &patch).unwrap();
        Ok(after)
    }

    #[rstest]
    #[case::bare(json!({"spec": {"containers": []}}))]
    #[case::without_annotations(json!({"metadata": {"labels": {"app": "a"}}, "spec": {}}))]
    #[case::with_others(json!({"metadata": {"annotations": {"a/b": "c"}}, "spec": {}}))]
    #[case::restarted_before(json!({"metadata": {"annotations": {names::RESTARTED_AT: "before"}}, "spec": {}}))]
    fn one_annotation_is_written(#[case] template: Value) {
        let after = ask(false, &workload(&template), false).unwrap();
        let mut expected = template;
        expected["metadata"]["annotations"][names::RESTARTED_AT] = json!(NOW);
        assert_eq!(after["spec"]["template"], expected);
    }

    #[test]
    fn what_would_do_harm_needs_force() {
        let mut releasing = workload(&json!({"spec": {}}));
        releasing["metadata"]["annotations"] = json!({names::IN_PROGRESSING: "{}"});
        assert_eq!(ask(false, &releasing, false), Err(Refusal::InRelease));
        assert!(ask(false, &releasing, true).is_ok());
        let idle = workload(&json!({"spec": {}}));
        assert_eq!(ask(true, &idle, false), Err(Refusal::NotHeld));
        assert!(ask(true, &idle, true).is_ok());
        assert_eq!(ask(false, &json!({"spec": {}}), true), Err(Refusal::NoTemplate));
    }
}
