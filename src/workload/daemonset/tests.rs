//! What is moved of a DaemonSet, and where that leads together with its own controller.

use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::admission::workload::{Outcome, Write, review};
use crate::workload::native::{OnNode, daemons};
use crate::workload::{Freedom, Guard, PodView, TemplateId, with_revisions};

const NOW: &str = "2026-01-01T00:01:00Z";

fn object(change: &Value) -> Value {
    let stable = TemplateId::of(&json!({"v": 1}));
    let mut object = json!({
        "metadata": {"name": "agent", "uid": "d", "generation": 2, "annotations": {
            names::GUARDED_BY: Guard::text("d", "ro", &stable), names::IN_PROGRESSING: "{}", names::GRANTED_PARTITION: "9"}},
        "spec": {"template": {"v": 2}, "updateStrategy": {"type": "OnDelete", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}},
        "status": {"observedGeneration": 2, "desiredNumberScheduled": 10},
    });
    json_patch::merge(&mut object, change);
    object
}

fn revision(version: u32) -> Revision {
    let object = json!({"metadata": {"name": format!("agent-h{version}"), "labels": {"controller-revision-hash": format!("h{version}")}},
        "data": {"spec": {"template": {"$patch": "replace", "v": version}}}});
    Revision::read(RevisionKind::ControllerRevision, &object)
}

fn view(change: &Value, revisions: &[Revision]) -> View {
    let mut view = DAEMONSET.view(&object(change)).unwrap();
    view.reported = with_revisions(&view, revisions, None);
    view
}

fn pod(node: usize, revision: &str, ready: &str) -> PodView {
    PodView::read(&json!({
        "metadata": {"name": format!("agent-{node}"), "uid": format!("p{node}"), "resourceVersion": "7",
            "labels": {"controller-revision-hash": revision}},
        "spec": {"nodeName": format!("n{node}")},
        "status": {"conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
    }))
}

fn drive(change: &Value, revisions: &[Revision], pods: &[PodView]) -> Drive {
    DAEMONSET.drive(&Driven {
        view: &view(change, revisions),
        revisions,
        pods,
        now: NOW.parse().unwrap(),
    })
}

#[test]
fn a_pod_is_deleted_under_the_grant_that_was_seen() {
    let pods: Vec<_> = (0..10).map(|node| pod(node, "h1", "True")).collect();
    let drive = drive(&json!({}), &[revision(1), revision(2)], &pods);
    let premise = Premise {
        uid: "d".to_owned(),
        generation: 2,
        granted: Some("9".to_owned()),
    };
    let delete = Move::Delete {
        premise,
        pod: "agent-0".to_owned(),
        uid: "p0".to_owned(),
        resource_version: "7".to_owned(),
    };
    assert_eq!((drive.moves, drive.wake), (vec![delete], None));
}

#[test]
fn a_pod_that_nobody_asked_for_is_put_back() {
    let mut pods: Vec<_> = (0..10).map(|node| pod(node, "h1", "True")).collect();
    (pods[3], pods[4]) = (pod(3, "h2", "True"), pod(4, "h2", "False"));
    let put_back = |drive: Drive| match &drive.moves[..] {
        [Move::PutBack(back)] => format!(
            "{} {} {} {:?}",
            back.revision, back.node, back.uid, back.resource_version
        ),
        other => format!("{other:?}"),
    };
    let revisions = [revision(1), revision(2)];
    let told = put_back(drive(&json!({}), &revisions, &pods));
    assert_eq!(told, r#"agent-h1 n4 p4 Some("7")"#);
    pods[4].terminating = true;
    let told = put_back(drive(&json!({}), &revisions, &pods));
    assert_eq!(told, "agent-h1 n4 p4 None");
    // Without a record of the stable revision there is nothing to make.
    assert_eq!(drive(&json!({}), &revisions[1..], &pods).moves, []);
    // Nor while the new one has none: then nobody can tell who is of it.
    assert_eq!(drive(&json!({}), &revisions[..1], &pods).moves, []);
}

#[rstest]
#[case(json!(3), 3)]
#[case(json!("25%"), 3)]
#[case(json!("100%"), 9)]
#[case(json!(0), 1)]
#[case(json!(null), 1)]
#[case(json!("junk"), 1)]
fn as_many_as_people_allow(#[case] max_unavailable: Value, #[case] expected: usize) {
    let pods: Vec<_> = (0..10).map(|node| pod(node, "h1", "True")).collect();
    let change = json!({"metadata": {"annotations": {names::GRANTED_PARTITION: "1"}},
        "spec": {"updateStrategy": {"rollingUpdate": {"maxUnavailable": max_unavailable}}}});
    let drive = drive(&change, &[revision(1), revision(2)], &pods);
    assert_eq!(drive.moves.len(), expected);
}

#[test]
fn what_becomes_available_without_an_event_is_looked_at_again() {
    let pods: Vec<_> = (0..10).map(|node| pod(node, "h2", "True")).collect();
    let wake = |seconds: u32| {
        let change = json!({"spec": {"minReadySeconds": seconds}});
        drive(&change, &[revision(1), revision(2)], &pods).wake
    };
    assert_eq!(wake(60), None);
    assert_eq!(wake(90), Some("2026-01-01T00:01:30Z".parse().unwrap()));
}

#[test]
fn the_update_type_is_held_and_given_back_and_the_rest_is_peoples() {
    let at_rest = |version: u32| {
        let free = json!({names::IN_PROGRESSING: null, names::GRANTED_PARTITION: null});
        object(&json!({"metadata": {"namespace": "ns", "annotations": free},
            "spec": {"template": {"v": version}, "updateStrategy": {"type": "RollingUpdate"}}}))
    };
    let stored = |old: &Value, new: &Value| {
        let write = Write {
            old,
            new,
            by_controller: false,
            claimed_by: None,
        };
        let mut stored = new.clone();
        json_patch::patch(&mut stored, &review(&DAEMONSET, write).patch).unwrap();
        stored
    };
    let held = stored(&at_rest(1), &at_rest(2));
    let view = DAEMONSET.view(&held).unwrap();
    assert_eq!(held["spec"]["updateStrategy"]["type"], "OnDelete");
    assert_eq!(
        (view.partition_in_force(), view.other_strategy),
        (names::HOLD_PARTITION, None)
    );
    // Applied again, with other values.
    let mut applied = at_rest(2);
    applied["metadata"]["annotations"] = held["metadata"]["annotations"].clone();
    applied["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"] = json!("50%");
    let mut object = stored(&held, &applied);
    assert_eq!(object["spec"]["updateStrategy"]["type"], "OnDelete");
    let view = DAEMONSET.view(&object).unwrap();
    let release = DAEMONSET.release(&view, Freedom::Free).build();
    json_patch::patch(&mut object, &release).unwrap();
    assert_eq!(
        object["spec"]["updateStrategy"],
        applied["spec"]["updateStrategy"]
    );
    assert_eq!(object["metadata"]["annotations"], json!({}));
}

/// An empty member makes another revision, whose record may be seen later than the DaemonSet.
#[test]
fn the_record_of_the_stable_template_is_not_that_of_one_that_resembles_it() {
    let named = |template: Value, records: &[Revision]| {
        let reported = view(&json!({"spec": {"template": template}}), records).reported;
        (reported.current_revision, reported.update_revision)
    };
    let name = |version: u32| Some(format!("h{version}"));
    let resembling = || json!({"v": 1, "empty": {}});
    let mut second = revision(2);
    second.template = TemplateId::of(&resembling());
    assert_eq!(named(json!({"v": 1}), &[revision(1)]), (name(1), name(1)));
    assert_eq!(named(resembling(), &[revision(1)]), (name(1), None));
    assert_eq!(named(resembling(), &[revision(1), second]), (name(1), name(2)));
    // A record that differs from both in what is empty, as an older Kubernetes has made them, is of both.
    let mut old = revision(1);
    old.template = TemplateId::of(&json!({"v": 1, "creationTimestamp": null}));
    assert_eq!(named(resembling(), &[old]), (name(1), name(1)));
}

/// While it is held under `OnDelete` the API server looks at no `rollingUpdate`.
#[rstest]
#[case(json!({"maxSurge": 0, "maxUnavailable": 0}), false)]
#[case(json!({"maxSurge": 1, "maxUnavailable": 1}), false)]
#[case(json!({"maxSurge": 0, "maxUnavailable": "half"}), false)]
#[case(json!({"maxSurge": 0, "maxUnavailable": "50%"}), true)]
#[case(json!({"maxSurge": 1, "maxUnavailable": 0}), true)]
fn a_rolling_update_is_shown_to_the_api_server_if_it_refuses_it(#[case] rolling: Value, #[case] taken: bool) {
    let marks = json!({"metadata": {"annotations": {names::ORIGINAL_PARTITION:
        json!({"spec.updateStrategy.type": "RollingUpdate"}).to_string()}}});
    let old = object(&marks);
    let mut new = old.clone();
    new["spec"]["updateStrategy"]["rollingUpdate"] = rolling.clone();
    let write = Write {
        old: &old,
        new: &new,
        by_controller: false,
        claimed_by: None,
    };
    let verdict = review(&DAEMONSET, write);
    let mut stored = new.clone();
    json_patch::patch(&mut stored, &verdict.patch).unwrap();
    let shown = json!({"type": if taken { "OnDelete" } else { "RollingUpdate" }, "rollingUpdate": rolling});
    assert_eq!(stored["spec"]["updateStrategy"], shown);
    assert_eq!(verdict.outcome == Outcome::LeftToRefuse, !taken);
    // Where it is stored all the same, by an older version of ours, its default comes back.
    let view = DAEMONSET.view(&new).unwrap();
    json_patch::patch(&mut new, &DAEMONSET.release(&view, Freedom::Free).build()).unwrap();
    let kept = json!({"type": "RollingUpdate", "rollingUpdate": rolling});
    let expected = if taken { kept } else { Value::Null };
    assert_eq!(new["spec"]["updateStrategy"], expected);
}

/// What may happen, beside our moves.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// We look, and move.
    Look,
    /// The DaemonSet controller fills the nodes that have no pod, and takes away what is too much.
    Fill,
    /// What is not ready becomes ready.
    Ready,
    /// What leaves is gone.
    Gone,
    /// Somebody deletes the pod of this node.
    Lose(usize),
    /// A node comes.
    Node,
}

/// Nodes and their pods under a DaemonSet controller that makes every pod of the newest template.
struct Nodes {
    count: usize,
    pods: Vec<PodView>,
    made: u32,
}

impl Nodes {
    fn make(&mut self, node: usize, revision: &str) {
        self.made += 1;
        let mut made = pod(node, revision, "False");
        made.name = format!("agent-{node}-{}", self.made);
        made.created = made.since.and_then(|since| {
            since
                .checked_add(jiff::SignedDuration::from_secs(self.made.into()))
                .ok()
        });
        self.pods.push(made);
    }

    fn scene(&self, exposure: u32, max_unavailable: u32) -> Scene<'_> {
        Scene {
            desired: u32::try_from(self.count).unwrap(),
            misplaced: 0,
            exposure,
            open: false,
            update: "h2",
            stable: Some("h1"),
            max_unavailable,
            min_ready_seconds: 0,
            now: NOW.parse().unwrap(),
            pods: &self.pods,
        }
    }

    fn updated(&self) -> usize {
        self.pods.iter().filter(|pod| pod.runs("h2")).count()
    }

    fn vacant(&self) -> usize {
        let lives = |node: &usize| {
            let name = format!("n{node}");
            self.pods
                .iter()
                .any(|pod| !pod.terminating && pod.node.as_ref() == Some(&name))
        };
        (0..self.count).filter(|node| !lives(node)).count()
    }

    fn available(&self) -> usize {
        self.pods
            .iter()
            .filter(|pod| pod.ready && !pod.terminating)
            .count()
    }

    /// One look; whether there was anything to do. What we do never exposes more than is granted, and never takes more than is allowed.
    fn look(&mut self, exposure: u32, max_unavailable: u32) -> bool {
        let (exposed, available) = (self.updated() + self.vacant(), self.available());
        let scene = self.scene(exposure, max_unavailable);
        let turns: Vec<(bool, String, usize)> = turns(&scene)
            .into_iter()
            .map(|turn| {
                let (Turn::Replace(pod) | Turn::PutBack(pod) | Turn::Keep(pod)) = turn;
                let node = pod.node.as_ref().unwrap()[1..].parse().unwrap();
                (matches!(turn, Turn::Replace(_)), pod.name.clone(), node)
            })
            .collect();
        for (replaced, name, node) in &turns {
            let leaves = self.pods.iter_mut().find(|pod| pod.name == *name).unwrap();
            leaves.terminating = true;
            if !replaced {
                self.make(*node, "h1");
            }
        }
        let now = self.updated() + self.vacant();
        assert!(
            now <= exposed.max(exposure as usize),
            "{now} exposed, {exposed} before, {exposure} granted"
        );
        let allowed = self.count.saturating_sub(max_unavailable as usize);
        assert!(
            self.available() >= allowed.min(available),
            "{} available of {available}",
            self.available()
        );
        !turns.is_empty()
    }

    fn happen(&mut self, event: Event, exposure: u32, max_unavailable: u32) {
        match event {
            Event::Look => drop(self.look(exposure, max_unavailable)),
            Event::Fill => {
                let on_node = |pod: &PodView| OnNode {
                    node: pod.node.as_ref().unwrap()[1..].parse().unwrap(),
                    leaves: pod.terminating,
                    ended: pod.finished,
                };
                let pods: Vec<_> = self.pods.iter().map(on_node).collect();
                let (vacant, surplus) = daemons(self.count.try_into().unwrap(), &pods);
                surplus
                    .into_iter()
                    .for_each(|at| self.pods[at].terminating = true);
                vacant.into_iter().for_each(|node| self.make(node as usize, "h2"));
            }
            Event::Ready => self
                .pods
                .iter_mut()
                .filter(|pod| !pod.terminating)
                .for_each(|pod| pod.ready = true),
            Event::Gone => self.pods.retain(|pod| !pod.terminating),
            Event::Lose(node) => {
                let name = format!("n{}", node % self.count);
                let pods = self
                    .pods
                    .iter_mut()
                    .filter(|pod| pod.node.as_ref() == Some(&name));
                pods.for_each(|pod| pod.terminating = true);
            }
            Event::Node => self.count += 1,
        }
    }
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => Just(Event::Look),
        3 => Just(Event::Fill),
        2 => Just(Event::Ready),
        3 => Just(Event::Gone),
        1 => (0..9_usize).prop_map(Event::Lose),
        1 => Just(Event::Node),
    ]
}

proptest! {
    #[test]
    fn whatever_happens_it_comes_to_what_is_granted(
        exposure in 0..6_u32, max_unavailable in 1..4_u32, events in proptest::collection::vec(event(), 0..60)
    ) {
        let mut nodes = Nodes { count: 5, pods: Vec::new(), made: 0 };
        (0..5).for_each(|node| nodes.make(node, "h1"));
        nodes.happen(Event::Ready, exposure, max_unavailable);
        for event in events {
            nodes.happen(event, exposure, max_unavailable);
        }
        for _ in 0..40 {
            for event in [Event::Look, Event::Gone, Event::Fill, Event::Ready] {
                nodes.happen(event, exposure, max_unavailable);
            }
        }
        prop_assert_eq!(nodes.updated(), exposure as usize);
        prop_assert_eq!((nodes.vacant(), nodes.available()), (0, nodes.count));
        prop_assert!(!nodes.look(exposure, max_unavailable));
    }
}
