//! Whether a kind, or a workload of it, meets every requirement of a release in steps: its fields, and what stands beside them.

use serde_json::Value;

use super::facts::{Looked, qualified};
use super::fitness::{Candidate, Fitness, Row, Verdict, fitness};
use super::{Remedy, commands};
use crate::intent::{Enabling, enable_kind};
use crate::names;
use crate::rollout::believes;
use crate::workload::{PodView, TypeLabel, View, adapter_for};

/// The verbs of [`names::KIND_VERBS`] in words.
const VERBS: &str = "get, list, watch, patch";

/// What stands beside the fields of a workload.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// Plural of the kind.
    pub plural: &'a str,
    /// ClusterRoles whose rules are added to the controller's.
    pub roles: &'a Looked<Vec<Value>>,
    /// Pods of the object.
    pub pods: &'a Looked<Vec<PodView>>,
}

/// Judges a kind, and an object of it, with what stands beside it. `None` for kinds that are not supported.
#[must_use]
pub fn requirements(
    candidate: &Candidate<'_>,
    surroundings: &Surroundings<'_>,
    subject: &str,
) -> Option<Fitness> {
    let adapter = adapter_for(candidate.kind)?;
    let mut fitness = fitness(candidate, subject)?;
    let rows = &mut fitness.rows;
    rows.extend(candidate.definition.map(scope));
    match candidate.object.map(|object| (object, adapter.view(object))) {
        None => {}
        Some((_, Err(error))) => rows.push(Row {
            live: Some(error.found.clone()),
            remedy: Some(Remedy::Advice(format!("correct {}", error.path))),
            ..row(
                &error.path,
                error.expected,
                Verdict::Unfit,
                Some(error.to_string()),
            )
        }),
        Some((object, Ok(view))) => {
            rows.push(label(candidate, surroundings, object, &view));
            rows.push(pods(surroundings.pods, &view));
        }
    }
    rows.push(rights(candidate, surroundings));
    fitness.fit = !fitness.rows.iter().any(|row| row.verdict == Verdict::Unfit);
    Some(fitness)
}

/// A row that no schema says anything of.
fn row(field: &str, required: &'static str, verdict: Verdict, why: Option<String>) -> Row {
    Row {
        field: field.to_owned(),
        required,
        schema: "-".to_owned(),
        live: None,
        verdict,
        why,
        remedy: None,
    }
}

/// A Rollout lives in the namespace of its workload.
fn scope(definition: &Value) -> Row {
    let scope = definition["spec"]["scope"].as_str().unwrap_or_default();
    let (verdict, why) = match scope {
        "Namespaced" => (Verdict::Fit, None),
        _ => (
            Verdict::Unfit,
            Some("a Rollout and its workload are in the same namespace".to_owned()),
        ),
    };
    Row {
        schema: scope.to_owned(),
        ..row("scope", "Namespaced", verdict, why)
    }
}

fn label(candidate: &Candidate<'_>, around: &Surroundings<'_>, object: &Value, view: &View) -> Row {
    let wanted = adapter_for(candidate.kind).map_or("", |adapter| adapter.type_label());
    let text = |member: &str| object["metadata"][member].as_str().unwrap_or_default();
    let command = |more: &str| {
        let resource = qualified(around.plural, &candidate.kind.group);
        let (name, namespace) = (text("name"), text("namespace"));
        Remedy::Command(format!(
            "kubectl kruise workload label {resource}/{name} -n {namespace}{more}"
        ))
    };
    let (live, verdict, why, remedy) = match &view.label {
        TypeLabel::Right => (wanted, Verdict::Fit, None, None),
        TypeLabel::Missing if !candidate.kind.is_custom() => {
            let why = "the controller sets it when a Rollout names the workload";
            ("absent", Verdict::Lacking, Some(why), None)
        }
        TypeLabel::Missing => {
            let why = "admission looks at labelled objects only: updates are not held, they roll at once";
            ("absent", Verdict::Unfit, Some(why), Some(command("")))
        }
        TypeLabel::Wrong(value) => {
            let why = "it says that the workload updates in another way: updates are not held";
            (
                value.as_str(),
                Verdict::Unfit,
                Some(why),
                Some(command(" --overwrite")),
            )
        }
    };
    Row {
        live: Some(live.to_owned()),
        remedy,
        ..row(
            &format!("label {}", names::WORKLOAD_TYPE),
            wanted,
            verdict,
            why.map(str::to_owned),
        )
    }
}

/// Pods that are found and tell their revision are counted one by one; else the operator's count has to do.
fn pods(pods: &Looked<Vec<PodView>>, view: &View) -> Row {
    const FIELD: &str = "pods";
    const REQUIRED: &str = "owner, revision label";
    let Some(pods) = pods.seen() else {
        return row(FIELD, REQUIRED, Verdict::Unknown, pods.why_not());
    };
    let labelled = pods.iter().filter(|pod| pod.revision.is_some()).count();
    let live = Some(format!("{} owned, {labelled} labelled", pods.len()));
    let found = !pods.is_empty();
    let (verdict, why) = match believes(view, pods) {
        // That no revision is named is told of the field itself.
        _ if found && labelled > 0 => (Verdict::Fit, None),
        None => (Verdict::Unknown, Some("there are no pods to look at".to_owned())),
        Some(why) if view.reported.updated_replicas.is_some() => (
            Verdict::Lacking,
            Some(format!(
                "{why}: status.updatedReplicas is believed, and no batch is labelled"
            )),
        ),
        Some(why) => (
            Verdict::Unfit,
            Some(format!(
                "{why}, nor reports status.updatedReplicas: nobody knows when a step is done"
            )),
        ),
    };
    Row {
        live,
        ..row(FIELD, REQUIRED, verdict, why)
    }
}

fn rights(candidate: &Candidate<'_>, around: &Surroundings<'_>) -> Row {
    const FIELD: &str = "controller's rights";
    let unknown = |why: String| row(FIELD, VERBS, Verdict::Unknown, Some(why));
    let roles = match around.roles {
        Looked::Seen(roles) if roles.is_empty() => {
            return unknown("no ClusterRole of the controller is installed".to_owned());
        }
        Looked::Seen(roles) => roles,
        other => return unknown(other.why_not().unwrap_or_default()),
    };
    let (live, verdict, why, remedy) = match enable_kind(candidate.kind, around.plural, roles) {
        Ok(Enabling::Unchanged { by }) => (by.unwrap_or_default(), Verdict::Fit, None, None),
        _ => (
            "none".to_owned(),
            Verdict::Unfit,
            Some("no ClusterRole gives the controller these rights".to_owned()),
            Some(Remedy::Command(commands::enable_kind(
                around.plural,
                &candidate.kind.group,
            ))),
        ),
    };
    Row {
        live: Some(live),
        remedy,
        ..row(FIELD, VERBS, verdict, why)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::super::tests::scene;
    use super::*;
    use crate::intent::enabling_role;
    use crate::workload::GroupKind;

    fn of(
        field: &str,
        object: Option<&Value>,
        roles: &Looked<Vec<Value>>,
        pods: &Looked<Vec<PodView>>,
    ) -> Row {
        let kind = GroupKind {
            group: "example.io".to_owned(),
            kind: "MyStatefulApp".to_owned(),
        };
        let mut definition = scene::definition();
        definition["spec"]["scope"] = json!("Namespaced");
        let candidate = Candidate {
            kind: &kind,
            version: "v1",
            definition: Some(&definition),
            object,
            probe: None,
        };
        let surroundings = Surroundings {
            plural: "mystatefulapps",
            roles,
            pods,
        };
        let fitness = requirements(&candidate, &surroundings, "it").unwrap();
        let unfit = fitness.rows.iter().any(|row| row.verdict == Verdict::Unfit);
        assert_eq!(fitness.fit, !unfit);
        let mut rows = fitness.rows.into_iter();
        rows.find(|row| row.field.starts_with(field)).unwrap()
    }

    fn pod(revision: Option<&str>) -> PodView {
        let mut pod = json!({"metadata": {"name": "app-0", "labels": {}}});
        if let Some(revision) = revision {
            pod["metadata"]["labels"][names::CONTROLLER_REVISION_HASH] = json!(revision);
        }
        PodView::read(&pod)
    }

    #[test]
    fn the_verbs_are_those_of_the_role() {
        assert_eq!(VERBS, names::KIND_VERBS.join(", "));
    }

    #[rstest]
    #[case::fit(json!("statefulset"), Verdict::Fit, None)]
    #[case::missing(Value::Null, Verdict::Unfit, Some(""))]
    #[case::wrong(json!("cloneset"), Verdict::Unfit, Some(" --overwrite"))]
    fn labels(#[case] value: Value, #[case] verdict: Verdict, #[case] more: Option<&str>) {
        let mut app = scene::app();
        app["metadata"]["labels"][names::WORKLOAD_TYPE] = value;
        let row = of("label", Some(&app), &Looked::Not, &Looked::Not);
        let command =
            |more| format!("kubectl kruise workload label mystatefulapps.example.io/app -n shop{more}");
        assert_eq!(row.verdict, verdict);
        assert_eq!(row.remedy, more.map(|more| Remedy::Command(command(more))));
    }

    #[rstest]
    #[case::counted(vec![pod(Some("app-1")), pod(None)], true, Verdict::Fit)]
    #[case::unlabelled(vec![pod(None)], true, Verdict::Lacking)]
    #[case::none_owned(vec![], true, Verdict::Lacking)]
    #[case::nor_counted(vec![pod(None)], false, Verdict::Unfit)]
    fn pods_tell_their_revision(#[case] pods: Vec<PodView>, #[case] counts: bool, #[case] verdict: Verdict) {
        let mut app = scene::app();
        if !counts {
            app["status"]["updatedReplicas"] = Value::Null;
        }
        assert_eq!(
            of("pods", Some(&app), &Looked::Not, &Looked::Seen(pods)).verdict,
            verdict
        );
    }

    #[rstest]
    #[case("updateRevision", "updatedReplicas")]
    #[case("updatedReplicas", "updateRevision")]
    fn a_count_or_a_revision_will_do(#[case] missing: &str, #[case] other: &str) {
        let mut app = scene::app();
        let verdict = |app: &Value| {
            of(
                &format!("status.{missing}"),
                Some(app),
                &Looked::Not,
                &Looked::Not,
            )
            .verdict
        };
        assert_eq!(verdict(&app), Verdict::Fit);
        app["status"][missing] = Value::Null;
        assert_eq!(verdict(&app), Verdict::Lacking);
        app["status"][other] = Value::Null;
        assert_eq!(verdict(&app), Verdict::Unfit);
    }

    #[test]
    fn no_pods_and_pods_that_may_not_be_seen_are_unknown() {
        let mut app = scene::app();
        app["spec"]["replicas"] = json!(0);
        let verdict = |pods| of("pods", Some(&app), &Looked::Not, &pods).verdict;
        assert_eq!(verdict(Looked::Seen(vec![])), Verdict::Unknown);
        assert_eq!(
            verdict(Looked::Forbidden("list pods".to_owned())),
            Verdict::Unknown
        );
    }

    #[rstest]
    #[case::given(Looked::Seen(vec![enabling_role("example.io", "mystatefulapps")]), Verdict::Fit)]
    #[case::of_another_kind(Looked::Seen(vec![enabling_role("example.io", "others")]), Verdict::Unfit)]
    #[case::not_installed(Looked::Seen(vec![]), Verdict::Unknown)]
    #[case::not_seen(Looked::Forbidden("list clusterroles".to_owned()), Verdict::Unknown)]
    fn rights_of_the_controller(#[case] roles: Looked<Vec<Value>>, #[case] verdict: Verdict) {
        let row = of("controller", None, &roles, &Looked::Not);
        assert_eq!(row.verdict, verdict);
        assert_eq!(row.remedy.is_some(), verdict == Verdict::Unfit);
    }

    #[test]
    fn what_is_no_number_is_told_with_its_path() {
        let mut app = scene::app();
        app["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = json!({});
        let row = of(
            "spec.updateStrategy.rollingUpdate.partition",
            Some(&app),
            &Looked::Not,
            &Looked::Not,
        );
        assert_eq!(row.field, "spec.updateStrategy.rollingUpdate.partition");
    }
}
