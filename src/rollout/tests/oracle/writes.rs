//! Writes of the workload, by people and by us.

use serde_json::Value;

use super::Reach;
use crate::plan::Plan;
use crate::rollout::tests::users::wants;
use crate::rollout::tests::world::{Seen, World, revision};
use crate::workload::{Hold, Original, TypeLabel, View};

impl World {
    /// Somebody has written the workload; `asked` is what a person asked for, before admission.
    pub(in crate::rollout::tests) fn oracle_sees_a_write(
        &mut self,
        old: &Value,
        asked: Option<&Value>,
        stored: &Value,
    ) {
        let read = |object: &Value| self.adapter.view(object).unwrap();
        let was = revision(&old["spec"]["template"]);
        let (old, stored) = (read(old), read(stored));
        if let Some(asked) = asked.map(read) {
            self.sees_what_is_asked(&old, &asked, &stored);
            if old.guard().is_none() && asked.guard().is_some() && asked.guard() == stored.guard() {
                self.oracle.marked_by_others = true;
            }
        }
        // The update type of a kind that is held by it is what people ask for when the release has ended.
        let by_partition = self.adapter.partition_path().is_some();
        let loose = |hold: &Hold| {
            stored.partition_in_force() < hold.granted || by_partition && stored.other_strategy.is_some()
        };
        if old.hold().is_some() && self.webhook && stored.hold().is_none_or(loose) {
            self.oracle
                .breaches
                .push("a write has loosened the hold".to_owned());
        }
        if old.template != stored.template {
            self.oracle.held = stored.hold().is_some();
            let unseen = self.oracle.unseen.take();
            if !self.oracle.held && stored.label != TypeLabel::Right {
                let marked = || old.stable().map(|stable| (was.clone(), stable.clone()));
                self.oracle.unseen = unseen.clone().or_else(marked);
            }
            if self.oracle.held {
                if old.hold().is_none() {
                    // What came without the label nobody has seen, if the mark is still the one of before.
                    let before = unseen.filter(|(_, marked)| stored.stable() == Some(marked));
                    self.oracle.stable = Some(before.map_or(was, |(before, _)| before));
                }
                self.sees_a_hold(&old, &stored);
            }
        }
    }

    /// A template is held from now on.
    fn sees_a_hold(&mut self, old: &View, stored: &View) {
        self.oracle.free = !self.is_wanted() || self.oracle.marked_by_others;
        self.oracle.direct = old.hold().is_none() || !self.by_steps();
        self.oracle.exempt.clear();
        if self.adapter.replicas_path().is_none() {
            // Nodes that nobody has told of yet.
            self.oracle.exempt.extend(stored.replicas..self.nodes);
        }
        self.oracle_sees_vacant_nodes();
        let begin = Reach {
            step: 1,
            ready: None,
            before: 0,
        };
        self.oracle
            .reach
            .entry(stored.template.to_string())
            .or_insert(begin);
    }

    /// A write of ours that marks the workload, or holds what came without the label: neither brings another template, and yet
    /// both say which one is stable.
    fn sees_marks_of_ours(&mut self, old: &View, new: &View) {
        self.oracle.marked_by_others &= old.guard() == new.guard();
        // In a release that others have begun the mark does not say.
        if old.guard().is_none() && new.stable().is_some() {
            self.oracle.stable = Some(revision(&self.object()["spec"]["template"]));
        } else if old.hold().is_none()
            && new.hold().is_some()
            && let Some((before, marked)) = self.oracle.unseen.take()
            && new.stable() == Some(&marked)
        {
            self.oracle.stable = Some(before);
            self.oracle.held = true;
            self.sees_a_hold(old, new);
        }
    }

    /// A write of ours that another webhook has changed the template of is somebody else's too.
    pub(in crate::rollout::tests) fn oracle_sees_a_step_of_ours(&mut self, old: &Value, stored: &Value) {
        if old["spec"]["template"] != stored["spec"]["template"] {
            self.oracle_sees_a_write(old, None, stored);
        }
    }

    pub(in crate::rollout::tests) fn sees_what_is_asked(&mut self, old: &View, asked: &View, stored: &View) {
        self.sees_fields_asked_for(old, asked, stored);
        let hold = asked.marks.hold.as_ref();
        let echo = hold.filter(|hold| hold.is_echoed_by(asked.partition));
        let original = match echo {
            // A state of ours: whoever writes it, in a release or at rest, asks for what its marks say.
            Some(hold) => Some(match hold.original {
                Original::Partition(partition) => Some(partition),
                Original::Absent | Original::Fields(_) => None,
            }),
            _ if self.oracle.asked.is_none()
                || stored.hold().is_none()
                || asked.partition != old.partition =>
            {
                Some(asked.partition)
            }
            _ => None,
        };
        if original.is_some() {
            self.oracle.asked = original;
        }
    }

    /// A write of ours. One that was decided before the plan changed follows the old plan, as if it had come first.
    pub(in crate::rollout::tests) fn oracle_sees_an_edit(&mut self, new: &Value, seen: &Seen) {
        let (old, new) = (self.view(), self.adapter.view(new).unwrap());
        self.sees_marks_of_ours(&old, &new);
        if !wants(seen.rollout.as_ref()) {
            // A person has ended governing, and wants it again: the workload is freed all the same, as if that were still to come.
            self.oracle.free = true;
        }
        let Some(mut limit) = self.limit() else { return };
        let plan = seen.rollout.as_ref().and_then(|rollout| {
            let strategy = rollout.spec.strategy.canary.as_ref()?;
            Plan::new(strategy, old.replicas).ok()
        });
        let reach = self.oracle.reach.get_mut(&old.template.to_string());
        if let (Some(plan), Some(reach)) = (plan, reach) {
            reach.before = reach.before.max(plan.step(reach.step).exposure);
            limit = limit.max(reach.before);
        }
        // Pods on nodes that it does not know of yet are not what it grants.
        let known = match (self.adapter.replicas_path(), &seen.workload) {
            (None, Some(seen)) => self.adapter.view(seen).unwrap().replicas.min(new.replicas),
            _ => new.replicas,
        };
        let granted = i64::from(known) - new.partition_in_force();
        if new.partition_in_force() < old.partition_in_force() && granted > i64::from(limit) {
            let text = format!("granted {granted} pods, allowed {limit}, at {}", self.at());
            self.oracle.breaches.push(text);
        }
        if old.hold().is_some() && new.hold().is_none() && limit < old.replicas {
            self.oracle.breaches.push(format!(
                "released when {limit} pods were allowed, at {}",
                self.at()
            ));
        }
    }
}
