//! One case for each trouble, and what all is well comes to.

pub(super) mod scene;

use rstest::rstest;
use serde_json::json;

use self::scene::*;
use super::*;
use crate::area::Area;
use crate::names;

fn remedy(finding: &Finding) -> String {
    match &finding.remedy {
        Some(Remedy::Command(text) | Remedy::Advice(text)) => text.clone(),
        None => String::new(),
    }
}

#[test]
fn what_is_in_order_passes_every_check() {
    let diagnosis = doctor(&Scene::healthy().facts);
    let wrong: Vec<_> = diagnosis
        .findings
        .iter()
        .filter(|f| !matches!(f.severity, Severity::Pass | Severity::Note))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let seen: Vec<_> = diagnosis.findings.iter().map(|finding| finding.check).collect();
    for check in Check::ALL {
        assert!(seen.contains(&check), "{check:?}");
    }
    assert_eq!(
        (diagnosis.failures, diagnosis.warnings, diagnosis.cause),
        (0, 0, None)
    );
}

/// Each case: what differs from a healthy cluster, the check that tells it, how it counts, words of it, words of the remedy.
#[rstest]
#[case::old_server(Scene::healthy().with(|f| f.server.version = "v1.28.4".into()), Check::Server, Severity::Failure, "v1.28.4", "upgrade")]
#[case::odd_server(Scene::healthy().with(|f| f.server.version = "banana".into()), Check::Server, Severity::Warning, "banana", "1.30")]
#[case::no_kind(Scene::healthy().with(|f| f.definition = Looked::Seen(None)), Check::Definition, Severity::Failure, "no Rollouts",
    "kruise-rollout-controller manifests | kubectl apply")]
#[case::not_served(Scene::healthy().with(|f| f.definition = Looked::Seen(Some(edited(rollouts_definition(), "/spec/versions/0/served", json!(false))))),
    Check::Definition, Severity::Failure, "not served", "manifests crds")]
#[case::no_status(Scene::healthy().with(|f| f.definition = Looked::Seen(Some(without(rollouts_definition(), "/spec/versions/0", "subresources")))),
    Check::Definition, Severity::Failure, "status subresource", "manifests crds")]
#[case::not_stored(Scene::healthy().with(|f| f.definition = Looked::Seen(Some(edited(rollouts_definition(), "/spec/versions/0/storage", json!(false))))),
    Check::Definition, Severity::Warning, "not stored", "manifests crds")]
#[case::scaled_down(Scene::healthy().with(|f| f.controller.deployments = Looked::Seen(vec![deployment(names::CONTROLLER, 0, 0)])),
    Check::Controller, Severity::Failure, "scaled to 0", "kubectl scale deployment/kruise-rollout-controller -n kruise-rollout --replicas=2")]
#[case::unavailable(Scene::healthy().with(|f| f.controller.deployments = Looked::Seen(vec![deployment(names::CONTROLLER, 2, 0)])),
    Check::Controller, Severity::Failure, "no replica", "kubectl rollout restart deployment/kruise-rollout-controller -n kruise-rollout")]
#[case::nobody_leads(Scene::healthy().with(|f| f.controller.leases = Looked::Seen(vec![lease(LONG_AGO)])),
    Check::Controller, Severity::Failure, "not running", "kubectl rollout restart")]
#[case::nobody_holds(Scene::healthy().with(|f| f.controller.leases = Looked::Seen(vec![edited(lease(NOW), "/spec/holderIdentity", json!(""))])),
    Check::Controller, Severity::Failure, "not running", "kubectl rollout restart")]
#[case::not_installed(Scene::healthy().with(|f| { f.controller.deployments = Looked::Seen(vec![]); f.controller.leases = Looked::Seen(vec![]); }),
    Check::Controller, Severity::Failure, "no controller is installed", "manifests | kubectl apply")]
#[case::two_controllers(Scene::healthy().with(|f| f.controller.deployments = Looked::Seen(vec![
        deployment(names::CONTROLLER, 2, 2), deployment(names::LEGACY_DEPLOYMENT, 1, 1)])),
    Check::Controller, Severity::Failure, "two controllers", "kubectl scale deployment/kruise-rollout-controller-manager -n kruise-rollout --replicas=0")]
#[case::no_right_to_the_kind(Scene::healthy().with(|f| f.registrations.roles = Looked::Seen(vec![])), Check::Kinds, Severity::Failure,
    "no right to mystatefulapps.example.io", "kubectl kruise workload enable mystatefulapps.example.io")]
#[case::no_right_as_it_says(Scene::healthy().rollout(stalled("WorkloadUnreadable", "forbidden"))
        .with(|f| f.registrations.roles = Looked::Forbidden("list clusterroles".into())),
    Check::Kinds, Severity::Failure, "no right", "kubectl kruise workload enable mystatefulapps.example.io")]
#[case::not_registered(Scene::healthy().with(|f| f.registrations.webhooks = Looked::Seen(vec![])), Check::Registration, Severity::Failure,
    "no mutating webhook configuration", "kubectl rollout restart")]
#[case::kind_not_registered(Scene::healthy().with(|f| f.registrations.webhooks = Looked::Seen(vec![edited(configuration(), "/webhooks/0/rules/0/resources/0", json!("others"))])),
    Check::Registration, Severity::Failure, "no webhook entry", "kubectl delete mutatingwebhookconfiguration zz-kruise-rollout")]
#[case::no_trust(Scene::healthy().with(|f| f.registrations.webhooks = Looked::Seen(vec![without(configuration(), "/webhooks/0/clientConfig", "caBundle")])),
    Check::Registration, Severity::Failure, "no caBundle", "kubectl delete")]
#[case::other_selector(Scene::healthy().with(|f| f.registrations.webhooks = Looked::Seen(vec![edited(configuration(), "/webhooks/0/objectSelector", json!({}))])),
    Check::Registration, Severity::Failure, "does not select", "kubectl delete")]
#[case::may_fail_without_policies(Scene::healthy().with(|f| f.registrations.webhooks = Looked::Seen(vec![edited(configuration(), "/webhooks/0/failurePolicy", json!("Ignore"))])),
    Check::Registration, Severity::Failure, "policy kruise-rollout-hold-statefulset", "kubectl delete")]
#[case::another_is_registered(Scene::healthy().with(|f| f.registrations.webhooks = Looked::Seen(vec![configuration(),
        json!({"metadata": {"name": names::LEGACY_WEBHOOK_CONFIGURATION}})])),
    Check::Registration, Severity::Failure, "is registered too", "kubectl delete mutatingwebhookconfiguration kruise-rollout-mutating-webhook-configuration")]
#[case::another_governs_the_same(Scene::healthy().with(|f| f.registrations.webhooks = Looked::Seen(vec![
        selecting("zz-kruise-rollout", &Area::whole("kruise-rollout")),
        selecting("zz-kruise-rollout-b", &Area::of("b", ["shop".to_owned()]).unwrap())])),
    Check::Registration, Severity::Failure, "another controller governs the namespace shop too", "other --watch-namespaces")]
#[case::no_endpoint(Scene::healthy().with(|f| f.registrations.endpoints = Looked::Seen(vec![])), Check::Registration, Severity::Failure,
    "no ready endpoint", "kubectl rollout restart")]
#[case::refused(Scene::healthy().subject(|s| s.probe = Looked::Seen(Answer::Refused("failed calling webhook \"x\"".into()))),
    Check::Admission, Severity::Failure, "is refused", "start the controller")]
#[case::not_held(Scene::healthy().subject(|s| s.probe = Looked::Seen(Answer::NotHeld)), Check::Admission, Severity::Failure, "roll at once", "kubectl delete")]
#[case::no_label(Scene::healthy().app(without(app(), "/metadata", "labels")), Check::Label, Severity::Failure, "no label",
    "kubectl kruise workload label mystatefulapps.example.io/app -n shop")]
#[case::wrong_label(Scene::healthy().app(edited(app(), "/metadata/labels", json!({label(): "StatefulSet"}))), Check::Label, Severity::Failure,
    "not statefulset", "--overwrite")]
#[case::pruned(Scene::healthy().subject(|s| s.definition = Looked::Seen(Some(without(definition(),
        "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/updateStrategy/properties/rollingUpdate/properties", "partition")))),
    Check::Fitness, Severity::Failure, "the schema lacks it", "kubectl patch crd mystatefulapps.example.io --type=json")]
#[case::enumerated(Scene::healthy().subject(|s| s.definition = Looked::Seen(Some(bounded(json!({"enum": [0, 1, 2]}))))),
    Check::Fitness, Severity::Failure, "certain values only", r#"rollingUpdate/properties/partition/enum"}]'"#)]
#[case::never_open(Scene::healthy().subject(|s| s.definition = Looked::Seen(Some(bounded(json!({"minimum": 1}))))),
    Check::Fitness, Severity::Failure, "1 at least", r#"rollingUpdate/properties/partition/minimum"}]'"#)]
#[case::cannot_be_held(Scene::healthy().rollout(not_guarded("PartitionPruned", "it came back without the partition")),
    Check::Fitness, Severity::Failure, "came back without", "workload check")]
#[case::malformed(Scene::healthy().app(edited(app(), "/spec/replicas", json!("five"))), Check::Fitness, Severity::Failure, "spec.replicas", "correct")]
#[case::no_observed_generation(Scene::healthy().app(without(app(), "/status", "observedGeneration")), Check::Operator, Severity::Failure,
    "status.observedGeneration", "have the operator report")]
#[case::no_update_revision(Scene::healthy().app(without(without(app(), "/status", "updatedReplicas"), "/status", "updateRevision")),
    Check::Operator, Severity::Failure, "status.updateRevision", "have the operator report")]
#[case::no_updated_replicas(Scene::healthy().app(without(without(app(), "/status", "updateRevision"), "/status", "updatedReplicas")),
    Check::Operator, Severity::Failure, "status.updatedReplicas", "have the operator report")]
#[case::operator_gone(Scene::healthy().app(edited(app(), "/metadata/generation", json!(4))), Check::Operator, Severity::Failure, "is not running", "start the operator")]
#[case::operator_never_there(Scene::healthy().app(without(app(), "", "status")), Check::Operator, Severity::Failure, "has reported no status", "start the operator")]
#[case::missing(Scene::healthy().subject(|s| s.workload = Looked::Seen(None)), Check::Reference, Severity::Failure,
    "there is no mystatefulapps.example.io/app", "kubectl get mystatefulapps.example.io -n shop")]
#[case::no_such_kind(Scene::healthy().subject(|s| { s.plural = Looked::Seen(None); s.workload = Looked::Seen(None) }), Check::Reference, Severity::Failure,
    "no kind MyStatefulApp", "install its CRD")]
#[case::two_rollouts(Scene { facts: two_rollouts(Scene::healthy().facts) }, Check::Reference, Severity::Failure, "two Rollouts",
    "kubectl delete rollouts.rollouts.kruise.io late -n shop")]
#[case::crash(Scene::healthy().rollout(at(1, "StepUpgrade", NOW)).app(releasing(4)).subject(|s| s.pods = Looked::Seen(vec![crashing()])),
    Check::Progress, Severity::Failure, "exit code 1", "kubectl kruise rollout undo rollout/web -n shop --yes")]
#[case::no_room(Scene::healthy().rollout(at(1, "StepUpgrade", NOW)).app(releasing(4)).subject(|s| s.pods = Looked::Seen(vec![unschedulable()])),
    Check::Progress, Severity::Failure, "no node", "kubectl describe pod app-4")]
#[case::overdue(Scene::healthy().rollout(at(2, "StepPaused", "2026-01-05T11:50:00Z")).app(releasing(2)), Check::Progress, Severity::Failure,
    "is over since 300 s", "kubectl rollout restart")]
#[case::approved_and_forgotten(Scene::healthy().rollout(at(1, "StepReady", LONG_AGO)).app(releasing(4)), Check::Progress, Severity::Failure,
    "has been Approved for 120 s", "kubectl rollout restart")]
#[case::not_looked_at(Scene::healthy().rollout(edited(rollout(), "/metadata/generation", json!(2))), Check::Progress, Severity::Failure,
    "has not looked at", "kubectl rollout restart")]
#[case::deadline(Scene::healthy().rollout(stalled("ProgressDeadlineExceeded", "no progress since noon")).app(releasing(4)),
    Check::Progress, Severity::Failure, "no progress", "undo")]
#[case::no_plan(Scene::healthy().rollout(stalled("InvalidPlan", "steps[0]")), Check::Progress, Severity::Failure, "steps[0]", "rollout lint -f -")]
#[case::finalizer(Scene::healthy().rollout({ let mut r = rollout(); r["metadata"]["deletionTimestamp"] = json!(NOW); r["metadata"]["finalizers"] = json!(["x/y"]); r }),
    Check::Progress, Severity::Warning, "waits for x/y", "finalizers")]
#[case::on_delete(Scene::healthy().app(edited(app(), "/spec/updateStrategy/type", json!("OnDelete"))), Check::Settings, Severity::Failure, "OnDelete",
    r#"kubectl patch mystatefulapps.example.io app -n shop --type=merge -p '{"spec":{"updateStrategy":{"type":"RollingUpdate"}}}'"#)]
#[case::operator_paused(Scene::healthy().app(edited(app(), "/spec/updateStrategy/rollingUpdate", json!({"partition": 0, "paused": true}))),
    Check::Settings, Severity::Failure, "paused", r#""paused":false"#)]
#[case::no_replicas(Scene::healthy().app(edited(app(), "/spec/replicas", json!(0))), Check::Settings, Severity::Warning, "0 replicas",
    "kubectl scale mystatefulapps.example.io/app -n shop --replicas=1")]
#[case::leftover(Scene::healthy().with(|f| f.labelled = Looked::Seen(vec![labelled("old", leftover())])), Check::Leftovers, Severity::Failure,
    "no Rollout is in force", "kubectl patch mystatefulapps.example.io old -n shop --type=merge")]
#[case::guarded_leftover(Scene::healthy().with(|f| f.labelled = Looked::Seen(vec![labelled("old", releasing(4))])), Check::Leftovers, Severity::Failure,
    "no Rollout is in force", "uninstall")]
#[case::kept(Scene::healthy().with(|f| { f.labelled = Looked::Seen(vec![labelled("old", releasing(4))]);
        f.subjects.clear(); f.rollouts = Looked::Seen(vec![]); }), Check::Leftovers, Severity::Failure,
    "no Rollout is in force", "rollout/web has gone: create web again to go on, with spec.disabled: true to let")]
#[case::kept_for_another(Scene::healthy().rollout(stalled("Conflict", "create web again")).app(releasing(4)),
    Check::Reference, Severity::Failure, "create web again", "see the message")]
#[case::of_another_controller(Scene::healthy().rollout(stalled("ReleaseOfAnotherController", "none is taken over")).app(releasing(4)),
    Check::Progress, Severity::Failure, "none is taken over", "kubectl kruise rollout disable rollout/web -n shop")]
#[case::governed_elsewhere(Scene::healthy().with(of_a_part), Check::Registration, Severity::Failure, "does not govern namespace shop",
    "--controller-namespace")]
#[case::parked(Scene::healthy().with(|f| f.labelled = Looked::Seen(vec![labelled("old",
        edited(app(), "/spec/updateStrategy/rollingUpdate/partition", json!(32767)))])), Check::Leftovers, Severity::Failure, "the partition that holds", "uninstall")]
#[case::may_not_approve(Scene::healthy().with(|f| f.rights[1].allowed = false), Check::Rights, Severity::Warning,
    "may not patch rollouts.rollouts.kruise.io/status", "kubectl create rolebinding kruise-rollout-approver-ann -n shop --clusterrole=kruise-rollout-approver --user=ann")]
#[case::may_not_get(Scene::healthy().with(|f| f.rights[0].allowed = false), Check::Rights, Severity::Warning, "may not get",
    "kubectl create role get-rollouts-ann -n shop --verb=get --resource=rollouts.rollouts.kruise.io && ")]
#[case::other_plugin(Scene::healthy().with(|f| f.programs.krew = Some("/krew".into())), Check::Program, Severity::Warning, "krew", "kubectl krew uninstall kruise")]
#[case::shadowed(Scene::healthy().with(|f| f.programs.found.insert(0, "/bin/kubectl-kruise".into())), Check::Program, Severity::Warning, "another", "/bin/kubectl-kruise")]
#[case::not_in_path(Scene::healthy().with(|f| f.programs.found.clear()), Check::Program, Severity::Warning, "no folder of PATH", "put")]
fn each_trouble_is_found_by_its_check(
    #[case] scene: Scene,
    #[case] check: Check,
    #[case] severity: Severity,
    #[case] words: &str,
    #[case] mends: &str,
) {
    let diagnosis = doctor(&scene.facts);
    let found = diagnosis
        .findings
        .iter()
        .find(|f| f.check == check && f.severity == severity && f.message.contains(words));
    let found = found.unwrap_or_else(|| panic!("{:#?}", diagnosis.findings));
    assert!(remedy(found).contains(mends), "{found:#?}");
}

/// What waits for a person, or for the clock, is no fault.
#[rstest]
#[case::approval(Scene::healthy().rollout(at(1, "StepPaused", LONG_AGO)).app(releasing(4)), "waits for approval", "kubectl kruise rollout approve rollout/web -n shop")]
#[case::timer(Scene::healthy().rollout(at(2, "StepPaused", LONG_AGO)).app(releasing(2)), "goes on by itself in 180 s", "approve")]
#[case::paused(Scene::healthy().rollout(edited(at(1, "StepUpgrade", NOW), "/spec/strategy/canary", rollout()["spec"]["strategy"]["canary"].clone()))
    .app(releasing(4)).subject(|s| s.rollout.spec.strategy.paused = true), "spec.strategy.paused", "kubectl kruise rollout resume rollout/web -n shop")]
#[case::disabled(Scene::healthy().rollout({ let mut r = edited(rollout(), "/status/phase", json!("Disabled")); r["spec"]["disabled"] = json!(true); r }),
    "spec.disabled", "kubectl kruise rollout enable rollout/web -n shop")]
#[case::at_rest(Scene::healthy(), "nothing is being released", "")]
fn what_a_release_waits_for_is_a_note(#[case] scene: Scene, #[case] words: &str, #[case] mends: &str) {
    let diagnosis = doctor(&scene.facts);
    assert_eq!(diagnosis.failures, 0, "{:#?}", diagnosis.findings);
    let explanation = explain(&scene.facts).unwrap();
    let first = &explanation.causes[0];
    assert_eq!(first.severity, Severity::Note, "{first:#?}");
    assert!(
        first.message.contains(words) && remedy(first).contains(mends),
        "{first:#?}"
    );
}

#[test]
fn nothing_is_restarted_or_deleted_for_a_namespace_that_another_controller_governs() {
    let scene = Scene::healthy()
        .rollout(at(1, "StepReady", LONG_AGO))
        .app(releasing(4))
        .subject(|subject| subject.probe = Looked::Seen(Answer::NotHeld))
        .with(of_a_part);
    let diagnosis = doctor(&scene.facts);
    let cause = &diagnosis.findings[diagnosis.cause.unwrap()];
    assert_eq!(cause.check, Check::Registration, "{:#?}", diagnosis.findings);
    let commands = diagnosis
        .findings
        .iter()
        .filter(|finding| matches!(finding.remedy, Some(Remedy::Command(_))));
    assert_eq!(commands.collect::<Vec<_>>(), Vec::<&Finding>::new());
}

#[test]
fn what_may_not_be_looked_at_is_skipped_with_the_right_that_is_missing() {
    let scene = Scene::healthy().with(|facts| {
        facts.definition = Looked::Forbidden("get customresourcedefinitions".to_owned());
        facts.controller.deployments = Looked::Forbidden("list deployments.apps".to_owned());
        facts.controller.leases = Looked::Forbidden("list leases.coordination.k8s.io".to_owned());
        facts.registrations = Registrations {
            webhooks: Looked::Forbidden("get mutatingwebhookconfigurations".to_owned()),
            roles: Looked::Forbidden("list clusterroles".to_owned()),
            ..Registrations::default()
        };
        facts.labelled = Looked::Forbidden("list mystatefulapps.example.io".to_owned());
        facts.subjects[0].definition = Looked::Forbidden("get customresourcedefinitions".to_owned());
        facts.subjects[0].probe = Looked::Forbidden("patch mystatefulapps.example.io".to_owned());
    });
    let diagnosis = doctor(&scene.facts);
    assert_eq!(
        (diagnosis.failures, diagnosis.warnings),
        (0, 0),
        "{:#?}",
        diagnosis.findings
    );
    for (check, right) in [
        (Check::Definition, "get customresourcedefinitions"),
        (Check::Controller, "list deployments.apps"),
        (Check::Kinds, "list clusterroles"),
        (Check::Registration, "get mutatingwebhookconfigurations"),
        (Check::Admission, "patch mystatefulapps"),
        (Check::Fitness, "get customresourcedefinitions"),
        (Check::Leftovers, "list mystatefulapps"),
    ] {
        let found = diagnosis
            .findings
            .iter()
            .find(|finding| finding.check == check)
            .unwrap();
        assert_eq!(found.severity, Severity::Skipped, "{found:#?}");
        assert!(
            found.message.contains(&format!("you may not {right}")),
            "{found:#?}"
        );
    }
    let unseen = explain(&scene.facts).unwrap().unseen;
    assert!(
        unseen.iter().any(|finding| finding.check == Check::Fitness),
        "{unseen:#?}"
    );
}

#[test]
fn the_nearest_cause_comes_first_and_what_it_would_wait_for_otherwise_last() {
    // The operator is gone since the controller granted a pod; nothing else is wrong.
    let mut app = releasing(4);
    app["metadata"]["generation"] = json!(5);
    let scene = Scene::healthy().rollout(at(1, "StepUpgrade", NOW)).app(app);
    let explanation = explain(&scene.facts).unwrap();
    assert_eq!(explanation.causes.len(), 1, "{:#?}", explanation.causes);
    assert!(explanation.causes[0].message.contains("is not running"));
    // The controller is down too: that comes first.
    let scene = scene.with(|facts| facts.controller.leases = Looked::Seen(vec![lease(LONG_AGO)]));
    let explanation = explain(&scene.facts).unwrap();
    assert_eq!(
        explanation.causes[0].check,
        Check::Controller,
        "{:#?}",
        explanation.causes
    );
    let diagnosis = doctor(&scene.facts);
    assert_eq!(
        diagnosis.findings[diagnosis.cause.unwrap()].check,
        Check::Controller
    );
    assert!(explanation.causes.len() <= 5);
}

#[rstest]
#[case(&["--leader-elect"], Some(r#""path":"/spec/template/spec/containers/0/args/-","value":"--filter-workload-type=false""#))]
#[case(&["--filter-workload-type=true"], Some(r#""op":"replace","path":"/spec/template/spec/containers/0/args/0""#))]
#[case(&["--filter-workload-type=false"], None)]
fn the_existing_controller_takes_custom_kinds_only_when_told(
    #[case] args: &[&str],
    #[case] mends: Option<&str>,
) {
    let scene = Scene::healthy().with(|facts| {
        let mut manager = deployment(names::LEGACY_DEPLOYMENT, 1, 1);
        manager["spec"]["template"]["spec"]["containers"][0]["args"] = json!(args);
        facts.controller.deployments = Looked::Seen(vec![manager]);
        facts.controller.leases = Looked::Seen(vec![]);
        let webhook = json!({"name": "munifiedworload.kb.io", "clientConfig": {"caBundle": "QQ=="}});
        facts.registrations.webhooks = Looked::Seen(vec![
            json!({"metadata": {"name": names::LEGACY_WEBHOOK_CONFIGURATION}, "webhooks": [webhook]}),
        ]);
    });
    let diagnosis = doctor(&scene.facts);
    let kinds = diagnosis
        .findings
        .iter()
        .find(|finding| finding.check == Check::Kinds)
        .unwrap();
    match mends {
        Some(text) => assert!(remedy(kinds).contains(text), "{kinds:#?}"),
        None => assert_eq!(kinds.severity, Severity::Pass, "{kinds:#?}"),
    }
    assert_eq!(
        diagnosis.failures,
        usize::from(mends.is_some()),
        "{:#?}",
        diagnosis.findings
    );
}

#[test]
fn the_keys_of_the_answer_are_stable() {
    let scene = Scene::healthy().app(without(app(), "/metadata", "labels"));
    let json = serde_json::to_value(doctor(&scene.facts)).unwrap();
    let label = json["findings"]
        .as_array()
        .unwrap()
        .iter()
        .find(|finding| finding["check"] == "D07")
        .unwrap();
    assert_eq!(label["severity"], "failure");
    assert_eq!(label["subject"], "rollout/web");
    assert!(label["command"].is_string(), "{label:#}");
    assert_eq!(json["kind"], "Diagnosis");
    assert_eq!(json["apiVersion"], "kruise.cli/v1");
}

#[test]
fn a_kind_that_is_not_served_has_no_workload() {
    let facts = Scene::healthy()
        .subject(|subject| {
            subject.plural = Looked::Seen(None);
            subject.workload = Looked::Not;
        })
        .facts;
    assert_eq!(explain(&facts).unwrap().state, "WorkloadMissing");
}

#[test]
fn rollouts_that_may_not_be_listed_are_no_sign_of_health() {
    let facts = Scene::healthy()
        .with(|facts| {
            facts.subjects.clear();
            facts.rollouts = Looked::Forbidden("list rollouts".to_owned());
        })
        .facts;
    let diagnosis = doctor(&facts);
    for check in [Check::Kinds, Check::Admission, Check::Progress] {
        let found = diagnosis
            .findings
            .iter()
            .find(|finding| finding.check == check)
            .unwrap();
        assert_eq!(found.severity, Severity::Skipped, "{found:#?}");
        assert!(found.message.contains("you may not list rollouts"), "{found:#?}");
    }
}
