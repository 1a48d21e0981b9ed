//! Every rule, accepted and refused, with what the writer reads.

use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::api::v1beta1::phase;

const OWN: &str = "kruise-rollout";

fn rollout(name: &str, spec: Value) -> Rollout {
    let metadata = json!({"name": name, "namespace": "shop"});
    serde_json::from_value(json!({"apiVersion": "rollouts.kruise.io/v1beta1", "kind": "Rollout", "metadata": metadata, "spec": spec}))
        .unwrap()
}

/// A Rollout of a StatefulSet with this strategy.
fn native(strategy: Value) -> Rollout {
    let workload = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"});
    rollout("web", json!({"workloadRef": workload, "strategy": strategy}))
}

/// A Rollout of a custom workload with this strategy.
fn custom(strategy: Value) -> Rollout {
    let workload = json!({"apiVersion": "example.io/v1", "kind": "MyStatefulApp", "name": "web"});
    rollout("web", json!({"workloadRef": workload, "strategy": strategy}))
}

fn steps(steps: Value) -> Rollout {
    native(json!({"canary": {"steps": steps}}))
}

fn good() -> Rollout {
    steps(
        json!([{"replicas": 1, "pause": {}}, {"replicas": "50%", "pause": {"duration": 300}}, {"replicas": "100%"}]),
    )
}

/// The stored Rollout, in this phase.
fn stored(mut rollout: Rollout, phase: &str) -> Rollout {
    rollout.status.get_or_insert_default().phase = phase.to_owned();
    rollout
}

fn refusals(new: &Rollout, old: Option<&Rollout>) -> Vec<String> {
    review(new, old, &[], OWN)
        .refusals
        .iter()
        .map(Refusal::to_string)
        .collect()
}

const ONLY_AMOUNT: &str = "this is neither a whole number nor a percentage. \
    Write a number of pods such as 1, or a percentage such as \"50%\".";
const SHARE: &str = "a step updates more than none and at most all of the pods. \
    Write a percentage from \"1%\" to \"100%\".";

#[rstest]
#[case::one(json!([{"replicas": "100%"}]))]
#[case::walk(json!([{"replicas": 1, "pause": {}}, {"replicas": "50%", "pause": {"duration": 300}}, {"replicas": "100%"}]))]
#[case::bounds(json!([{"replicas": "1%"}, {"replicas": "100%"}]))]
#[case::equal_numbers(json!([{"replicas": 2}, {"replicas": 2}, {"replicas": "100%"}]))]
#[case::equal_shares(json!([{"replicas": "20%"}, {"replicas": "20%"}, {"replicas": "100%"}]))]
#[case::number_after_share(json!([{"replicas": "50%"}, {"replicas": 1}, {"replicas": "100%"}]))]
#[case::share_after_number(json!([{"replicas": 40}, {"replicas": "5%"}, {"replicas": "100%"}]))]
#[case::no_pause(json!([{"replicas": 1, "pause": {"duration": 0}}, {"replicas": "100%"}]))]
fn steps_that_are_accepted(#[case] list: Value) {
    assert_eq!(review(&steps(list), None, &[], OWN), Review::default());
}

#[rstest]
#[case::none(json!([]), "steps is missing: a release needs a step. Write at least one, for example: replicas: 1, pause: {}.")]
#[case::no_replicas(json!([{"pause": {}}]), "steps[0].replicas is missing: every step says how many pods run the new \
    template at its end. Write a number of pods such as 1, or a percentage such as \"50%\".")]
#[case::text(json!([{"replicas": "half"}]), format!("steps[0].replicas is \"half\": {ONLY_AMOUNT}"))]
#[case::empty(json!([{"replicas": ""}]), format!("steps[0].replicas is \"\": {ONLY_AMOUNT}"))]
#[case::negative_text(json!([{"replicas": "-1"}]), format!("steps[0].replicas is \"-1\": {ONLY_AMOUNT}"))]
#[case::negative_share(json!([{"replicas": "-5%"}]), format!("steps[0].replicas is \"-5%\": {ONLY_AMOUNT}"))]
#[case::fraction(json!([{"replicas": "12.5%"}]), format!("steps[0].replicas is \"12.5%\": {ONLY_AMOUNT}"))]
#[case::zero_text(json!([{"replicas": "0"}]), format!("steps[0].replicas is \"0\": {ONLY_AMOUNT}"))]
#[case::number_in_quotes(json!([{"replicas": "50"}]), "steps[0].replicas is \"50\": this is neither a whole number nor a \
    percentage. Write 50 for a number of pods, or \"50%\" for a share of them.")]
#[case::space(json!([{"replicas": 1}, {"replicas": "5 %"}]), "steps[1].replicas is \"5 %\": this is neither a whole number \
    nor a percentage. Write 5 for a number of pods, or \"5%\" for a share of them.")]
#[case::zero(json!([{"replicas": 0}]), "steps[0].replicas is 0: a step updates at least one pod. Write 1 or more.")]
#[case::negative(json!([{"replicas": -2}]), "steps[0].replicas is -2: a step updates at least one pod. Write 1 or more.")]
#[case::zero_share(json!([{"replicas": "0%"}]), format!("steps[0].replicas is \"0%\": {SHARE}"))]
#[case::above_all(json!([{"replicas": 1}, {"replicas": "101%"}]), format!("steps[1].replicas is \"101%\": {SHARE}"))]
#[case::back(json!([{"replicas": 3}, {"replicas": 2}, {"replicas": "100%"}]), "steps[1].replicas is 2: steps go forward, and \
    the step before this one reaches 3. Write 3 or more.")]
#[case::share_back(json!([{"replicas": "100%"}, {"replicas": "50%"}]), "steps[1].replicas is \"50%\": steps go forward, and \
    the step before this one reaches \"100%\". Write \"100%\" or more.")]
#[case::pause(json!([{"replicas": "100%", "pause": {"duration": -1}}]), "steps[0].pause.duration is -1: a pause cannot be \
    negative. Write the seconds to wait, 0 to go on at once, or leave duration out to wait for approval.")]
fn steps_that_are_refused(#[case] list: Value, #[case] sentence: impl AsRef<str>) {
    let expected = format!("spec.strategy.canary.{}", sentence.as_ref());
    assert_eq!(refusals(&steps(list), None), [expected]);
}

#[test]
fn fifty_steps_are_accepted_and_one_more_is_not() {
    let many = |count: usize| steps(vec![json!({"replicas": "100%"}); count].into());
    assert_eq!(refusals(&many(50), None), [""; 0]);
    assert_eq!(
        refusals(&many(51), None),
        ["spec.strategy.canary.steps is 51 steps long: there can be at most 50. Merge some of them."]
    );
}

#[rstest]
#[case(json!([{"replicas": 1}, {"replicas": "50%"}]), &["spec.strategy.canary.steps[1].replicas is \"50%\", which leaves pods \
    behind: a last step of 100% with the same pause is added."])]
#[case(json!([{"replicas": 3}]), &["spec.strategy.canary.steps[0].replicas is 3: for more than 3 replicas, a last step of \
    100% with the same pause is added."])]
#[case(json!([{"replicas": 3}, {"replicas": "100%"}]), &[])]
fn plans_that_leave_pods_behind_are_accepted_with_a_warning(#[case] list: Value, #[case] warnings: &[&str]) {
    let review = review(&steps(list), None, &[], OWN);
    assert_eq!(review.refusals, []);
    assert_eq!(review.warnings, warnings);
}

#[rstest]
#[case("trafficRoutingRef", json!("web"))]
#[case("patchPodTemplateMetadata", json!({"labels": {"a": "b"}}))]
fn fields_without_effect_are_accepted_with_a_warning(#[case] name: &str, #[case] value: Value) {
    let review = review(
        &native(json!({"canary": {"steps": [{"replicas": "100%"}], name: value}})),
        None,
        &[],
        OWN,
    );
    assert_eq!(review.refusals, []);
    assert_eq!(
        review.warnings,
        [format!(
            "spec.strategy.canary.{name} has no effect on a release in batches."
        )]
    );
}

#[rstest]
#[case(json!("0%"), None)]
#[case(json!("100%"), None)]
#[case(json!(0), None)]
#[case(json!(1000), None)]
#[case(json!(-1), Some("-1: this many unready pods cannot be"))]
#[case(json!("101%"), Some("\"101%\": this is more than all pods"))]
#[case(json!("few"), Some("\"few\": this is neither a whole number nor a percentage"))]
#[case(json!("5"), Some("\"5\": this is neither a whole number nor a percentage"))]
fn failure_thresholds(#[case] threshold: Value, #[case] problem: Option<&str>) {
    let new = native(json!({"canary": {"steps": [{"replicas": "100%"}], "failureThreshold": threshold}}));
    let remedy = "Write a number from 0 on, or a percentage from \"0%\" to \"100%\"";
    let expected =
        problem.map(|problem| format!("spec.strategy.canary.failureThreshold is {problem}. {remedy}."));
    assert_eq!(refusals(&new, None), Vec::from_iter(expected));
}

#[rstest]
#[case(json!(null), false)]
#[case(json!(0), false)]
#[case(json!(600), false)]
#[case(json!(-1), true)]
fn progress_deadlines(#[case] seconds: Value, #[case] refused: bool) {
    let canary = json!({"steps": [{"replicas": "100%"}], "progressDeadlineSeconds": seconds});
    let expected = "spec.strategy.canary.progressDeadlineSeconds is -1: a deadline cannot be negative. Write the seconds \
        after which a lack of progress is told, 0 for never, or leave it out for 600.";
    assert_eq!(
        refusals(&native(json!({"canary": canary})), None),
        Vec::from_iter(refused.then_some(expected))
    );
}

#[rstest]
#[case::neither(native(json!({"paused": true})), &["spec.strategy.canary is missing: a Rollout needs the steps of a release. \
    Write spec.strategy.canary.steps."])]
#[case::both(native(json!({"canary": {"steps": [{"replicas": "100%"}]}, "blueGreen": {}})), &["spec.strategy.blueGreen is set: \
    a release is in batches or blue-green, not both. Remove spec.strategy.blueGreen and keep spec.strategy.canary."])]
#[case::blue_green(native(json!({"blueGreen": {"steps": [{"replicas": "100%"}]}})), &["spec.strategy.blueGreen is set: \
    a blue-green release is not supported yet, releases are in batches. Write the steps as spec.strategy.canary.steps, for \
    a release in batches."])]
#[case::custom_blue_green(custom(json!({"blueGreen": {"steps": [{"replicas": "100%"}]}})), &["spec.strategy.blueGreen is \
    set: a blue-green release is not possible with a custom workload, which is released in batches. Write the steps as \
    spec.strategy.canary.steps, for a release in batches."])]
#[case::extra(native(json!({"canary": {"steps": [{"replicas": "100%"}], "enableExtraWorkloadForCanary": true}})),
    &["spec.strategy.canary.enableExtraWorkloadForCanary is true: an extra workload for the new version is not supported \
    yet, releases are in batches. Remove it; the workload's own pods are then updated in batches."])]
#[case::routing(native(json!({"canary": {"steps": [{"replicas": "100%"}], "trafficRoutings": [{"service": "web"}]}})),
    &["spec.strategy.canary.trafficRoutings is set: moving traffic is not supported yet, releases are in batches. Remove \
    it; a pod then gets requests as soon as it is ready."])]
#[case::custom_routing(custom(json!({"canary": {"steps": [{"replicas": "100%"}], "trafficRoutings": [{"service": "web"}]}})),
    &["spec.strategy.canary.trafficRoutings is set: moving traffic is not possible with a custom workload, which is \
    released in batches. Remove it; a pod then gets requests as soon as it is ready."])]
#[case::traffic(steps(json!([{"replicas": 1, "traffic": "5%"}, {"replicas": "100%", "matches": [{}], "requestHeaderModifier": {}}])),
    &["spec.strategy.canary.steps[0].traffic is \"5%\": moving traffic is not supported yet, releases are in batches. \
    Remove it; a pod then gets requests as soon as it is ready.",
    "spec.strategy.canary.steps[1].matches is set: moving traffic is not supported yet, releases are in batches. \
    Remove it; a pod then gets requests as soon as it is ready.",
    "spec.strategy.canary.steps[1].requestHeaderModifier is set: moving traffic is not supported yet, releases are in \
    batches. Remove it; a pod then gets requests as soon as it is ready."])]
#[case::preserved(native(json!({"canary": {"steps": [{"replicas": "100%"}], "enableExtraWorkloadForCanary": false,
    "trafficRoutings": [], "disableGenerateCanaryService": true}})), &[])]
fn strategies(#[case] new: Rollout, #[case] expected: &[&str]) {
    assert_eq!(refusals(&new, None), expected);
}

#[rstest]
#[case("apps/v1", "StatefulSet", "web", &[])]
#[case("v1", "ReplicationController", "web", &[])]
#[case("", "StatefulSet", "web", &["spec.workloadRef.apiVersion is missing: this is no group and version. Copy apiVersion \
    from the workload's manifest, for example apps/v1."])]
#[case("apps/", "StatefulSet", "web", &["spec.workloadRef.apiVersion is \"apps/\": this is no group and version. Copy \
    apiVersion from the workload's manifest, for example apps/v1."])]
#[case("apps/v1/x", "", "", &["spec.workloadRef.apiVersion is \"apps/v1/x\": this is no group and version. Copy apiVersion \
    from the workload's manifest, for example apps/v1.",
    "spec.workloadRef.kind is missing: a Rollout governs one workload of its namespace. Write the kind of that workload.",
    "spec.workloadRef.name is missing: a Rollout governs one workload of its namespace. Write the name of that workload."])]
fn workload_refs(#[case] version: &str, #[case] kind: &str, #[case] name: &str, #[case] expected: &[&str]) {
    let mut new = good();
    new.spec.workload_ref = WorkloadRef {
        api_version: version.to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
    };
    assert_eq!(refusals(&new, None), expected);
}

#[rstest]
#[case::elsewhere("shop-2", OWN, &[])]
#[case::system("kube-system", OWN, &["metadata.namespace is \"kube-system\": updates in this namespace are never held, so no \
    step could be kept. Move the workload and its Rollout to another namespace."])]
#[case::own(OWN, OWN, &["metadata.namespace is \"kruise-rollout\": updates in this namespace are never held, so no step could \
    be kept. Move the workload and its Rollout to another namespace."])]
#[case::installed_elsewhere(OWN, "release", &[])]
fn namespaces(#[case] namespace: &str, #[case] own: &str, #[case] expected: &[&str]) {
    let mut new = good();
    new.metadata.namespace = Some(namespace.to_owned());
    let found = review(&new, None, &[], own).refusals;
    assert_eq!(found.iter().map(Refusal::to_string).collect::<Vec<_>>(), expected);
}

fn claim(rollout: &str, namespace: &str, group: &str, kind: &str, workload: &str) -> WorkloadClaim {
    WorkloadClaim {
        rollout: rollout.to_owned(),
        namespace: namespace.to_owned(),
        group: group.to_owned(),
        kind: kind.to_owned(),
        workload: workload.to_owned(),
    }
}

#[rstest]
#[case::same(claim("other", "shop", "apps", "StatefulSet", "web"), true)]
#[case::itself(claim("web", "shop", "apps", "StatefulSet", "web"), false)]
#[case::other_namespace(claim("other", "bank", "apps", "StatefulSet", "web"), false)]
#[case::other_group(claim("other", "shop", "apps.kruise.io", "StatefulSet", "web"), false)]
#[case::other_kind(claim("other", "shop", "apps", "Deployment", "web"), false)]
#[case::other_name(claim("other", "shop", "apps", "StatefulSet", "db"), false)]
fn a_workload_has_one_rollout(#[case] other: WorkloadClaim, #[case] conflicts: bool) {
    let mut new = good();
    // The version does not matter.
    new.spec.workload_ref.api_version = "apps/v1beta2".to_owned();
    let unrelated = claim("db", "shop", "apps", "StatefulSet", "db-0");
    let expected = "spec.workloadRef is apps/v1beta2 StatefulSet web: Rollout \"other\" governs this workload already. \
        Change or delete Rollout \"other\", or name another workload.";
    let found = review(&new, None, &[unrelated, other], OWN).to_string();
    assert_eq!(found, if conflicts { expected } else { "" });
}

#[test]
fn a_claim_is_read_from_a_rollout() {
    assert_eq!(
        WorkloadClaim::of(&good()),
        Some(claim("web", "shop", "apps", "StatefulSet", "web"))
    );
    let mut unreadable = good();
    unreadable.spec.workload_ref.api_version = "apps/".to_owned();
    assert_eq!(WorkloadClaim::of(&unreadable), None);
}

type Edit = fn(&mut Rollout);

fn edit_canary(rollout: &mut Rollout) -> &mut CanaryStrategy {
    rollout.spec.strategy.canary.as_mut().unwrap()
}

const IN_RELEASE: &str = "cannot change while a release is in progress. Let the release end, undo it with `kubectl kruise \
    rollout undo rollout/web -n shop`, or set spec.disabled to true first.";

#[rstest]
#[case::workload(|new: &mut Rollout| new.spec.workload_ref.name = "db".to_owned(), "spec.workloadRef is apps/v1 StatefulSet db: the workload")]
#[case::version(|new: &mut Rollout| new.spec.workload_ref.api_version = "apps/v2".to_owned(),
    "spec.workloadRef is apps/v2 StatefulSet web: the workload")]
#[case::fewer_steps(|new: &mut Rollout| drop(edit_canary(new).steps.remove(0)),
    "spec.strategy.canary.steps is 2 steps long: the number of steps, 3,")]
#[case::more_steps(|new: &mut Rollout| { let steps = &mut edit_canary(new).steps; steps.push(steps[2].clone()) },
    "spec.strategy.canary.steps is 4 steps long: the number of steps, 3,")]
#[case::routing(|new: &mut Rollout| edit_canary(new).traffic_routings.push(Default::default()),
    "spec.strategy.canary.trafficRoutings is changed: the traffic routing")]
#[case::style(|new: &mut Rollout| edit_canary(new).enable_extra_workload_for_canary = true,
    "spec.strategy is an extra workload: batches, the style of the release,")]
#[case::blue_green(|new: &mut Rollout| { new.spec.strategy.canary = None; new.spec.strategy.blue_green = Some(Default::default()) },
    "spec.strategy is blue-green: batches, the style of the release,")]
fn a_release_keeps_its_workload_style_and_number_of_steps(#[case] edit: Edit, #[case] refused: &str) {
    let mut new = good();
    edit(&mut new);
    let with_phase = |phase: &str| refusals(&new, Some(&stored(good(), phase)));
    let expected = format!("{refused} {IN_RELEASE}");
    assert!(
        with_phase(phase::PROGRESSING).contains(&expected),
        "{:#?}",
        with_phase(phase::PROGRESSING)
    );
    let deleted = "cannot change while the Rollout is being deleted. Wait until the Rollout has gone and create a new one.";
    assert!(with_phase(phase::TERMINATING).contains(&format!("{refused} {deleted}")));
    for free in [
        phase::INITIAL,
        phase::HEALTHY,
        phase::DISABLED,
        phase::DISABLING,
        "",
    ] {
        assert!(
            !with_phase(free).iter().any(|text| text.contains("cannot change")),
            "{free}"
        );
    }
}

/// A release that another controller has begun goes on once this has gone.
#[rstest]
#[case::routing(|old: &mut Rollout| edit_canary(old).traffic_routings.push(Default::default()))]
#[case::style(|old: &mut Rollout| edit_canary(old).enable_extra_workload_for_canary = true)]
fn what_is_not_carried_out_may_go_during_a_release(#[case] edit: Edit) {
    let mut old = good();
    edit(&mut old);
    assert_eq!(
        refusals(&good(), Some(&stored(old, phase::PROGRESSING))),
        Vec::<String>::new()
    );
}

#[rstest]
#[case::replicas(|new: &mut Rollout| edit_canary(new).steps[0].replicas = Some(2.into()))]
#[case::pause(|new: &mut Rollout| edit_canary(new).steps[0].pause.duration = Some(5))]
#[case::threshold(|new: &mut Rollout| edit_canary(new).failure_threshold = Some("10%".into()))]
#[case::deadline(|new: &mut Rollout| edit_canary(new).progress_deadline_seconds = Some(60))]
#[case::paused(|new: &mut Rollout| new.spec.strategy.paused = true)]
#[case::disabled(|new: &mut Rollout| new.spec.disabled = true)]
#[case::service(|new: &mut Rollout| edit_canary(new).disable_generate_canary_service = true)]
fn everything_else_may_change_during_a_release(#[case] edit: Edit) {
    let mut new = good();
    edit(&mut new);
    assert_eq!(refusals(&new, Some(&stored(good(), phase::PROGRESSING))), [""; 0]);
}

/// As an older controller, or a time without the webhook, may have left it.
fn invalid() -> Rollout {
    let mut rollout = native(json!({"blueGreen": {}, "canary": {"steps": [{"replicas": "half"}]}}));
    rollout.metadata.namespace = Some("kube-system".to_owned());
    rollout
}

#[rstest]
#[case::labels(|new: &mut Rollout| new.labels_mut().extend([("a".to_owned(), "b".to_owned())]), true)]
#[case::annotations(|new: &mut Rollout| new.annotations_mut().extend([("a".to_owned(), "b".to_owned())]), true)]
#[case::finalizers(|new: &mut Rollout| new.finalizers_mut().push("example.io/a".to_owned()), true)]
#[case::status(|new: &mut Rollout| new.status = Some(Default::default()), true)]
#[case::disabled(|new: &mut Rollout| new.spec.disabled = true, true)]
#[case::paused(|new: &mut Rollout| new.spec.strategy.paused = true, true)]
#[case::pause(|new: &mut Rollout| edit_canary(new).steps[0].pause.duration = Some(1), false)]
#[case::disabled_and_more(|new: &mut Rollout| { new.spec.disabled = true; new.spec.workload_ref.name.push('2') }, false)]
fn a_stored_rollout_is_no_trap(#[case] edit: Edit, #[case] accepted: bool) {
    let claims = [claim("other", "kube-system", "apps", "StatefulSet", "web")];
    let mut new = invalid();
    edit(&mut new);
    let found = review(&new, Some(&stored(invalid(), phase::PROGRESSING)), &claims, OWN);
    assert_eq!(found.refusals.is_empty(), accepted, "{found}");
}

#[test]
fn enabling_is_reviewed() {
    let mut old = invalid();
    old.spec.disabled = true;
    assert!(!refusals(&invalid(), Some(&old)).is_empty());
}

#[test]
fn every_problem_is_told_on_a_line_of_its_own() {
    let new = steps(json!([{"replicas": 0, "pause": {"duration": -1}}]));
    let text = review(&new, None, &[], OWN).to_string();
    let fields: Vec<_> = text.lines().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(
        fields,
        [
            "spec.strategy.canary.steps[0].replicas",
            "spec.strategy.canary.steps[0].pause.duration"
        ]
    );
}
