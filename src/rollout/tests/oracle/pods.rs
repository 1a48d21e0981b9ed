//! What operators and we do to pods.

use crate::rollout::tests::cluster::Operator;
use crate::rollout::tests::world::{Pod, Seen, World, revision};
use crate::workload::UpdateOrder;

impl World {
    /// Called before the scale subresource is written.
    pub(in crate::rollout::tests) fn oracle_scales(&mut self, replicas: u32) {
        let view = self.view();
        if self.adapter.paths().revisions.is_some() {
            return self.oracle.unasked.extend(self.nodes..replicas);
        }
        // Whoever has raised the partition above the grant may lower it again.
        let granted = view.hold().map_or(view.partition_in_force(), |hold| hold.granted);
        let first = match self.adapter.paths().status.current_revision {
            Some(_) => u32::try_from(granted).unwrap().max(view.replicas),
            // Every new pod runs the new template.
            None => view.replicas,
        };
        self.oracle.exempt.extend(first..replicas);
        self.oracle.exempt.retain(|ordinal| *ordinal < replicas);
    }

    pub(in crate::rollout::tests) fn oracle_sees_a_pod(&mut self, ordinal: u32, operator: &Operator) {
        let Operator {
            update,
            current,
            exempt,
            ..
        } = operator;
        // Where pods are updated in any order, those that `/scale` adds need not be the ones that run the template for it.
        let in_order = matches!(operator.view.order, UpdateOrder::Ordinal(_));
        let exempted = |ordinal: &u32| in_order && exempt.contains(ordinal);
        let runs =
            |(ordinal, pod): &(&u32, &Pod)| pod.revision == *update && !pod.terminating && !exempted(ordinal);
        let new = self.pods[&ordinal].revision == *update;
        // A kind that keeps no new pod back makes all that are missing of the new template, and its updates are looked at instead. A
        // StatefulSet whose operator calls the update complete has nothing else to make pods of.
        if !operator.holds_new_pods || !new || update == current || exempted(&ordinal) {
            return;
        }
        let running = self.pods.range(..operator.view.replicas).filter(runs).count() as u32;
        let added = if in_order { 0 } else { exempt.len() as u32 };
        if let Some(limit) = operator.limit.filter(|limit| running > *limit + added) {
            let at = self.at();
            self.oracle
                .breaches
                .push(format!("{running} pods on {update}, allowed {limit}, at {at}"));
        }
    }

    /// An operator that holds no new pods back lets a pod go, and so many stay on others than the update revision.
    pub(in crate::rollout::tests) fn oracle_sees_an_update(&mut self, operator: &Operator, stay: usize) {
        if operator.holds_new_pods {
            return;
        }
        // New nodes are counted before anybody is told of them: the grant is one for those of before.
        let unseen = operator.wanted.saturating_sub(operator.view.replicas);
        let added = u32::try_from(operator.exempt.len()).unwrap().max(unseen);
        let follow = operator.wanted.saturating_sub(u32::try_from(stay).unwrap());
        if let Some(limit) = operator.limit.filter(|limit| follow > *limit + added) {
            let text = format!(
                "the operator updates {follow} pods, allowed {limit}, at {}",
                self.at()
            );
            self.oracle.breaches.push(text);
        }
    }

    /// Only a pod that is not ready, of a revision that neither the template has nor the stable one.
    pub(in crate::rollout::tests) fn oracle_sees_a_replacement(&mut self, ordinal: u32, seen: &Seen) {
        let pod = &self.pods[&ordinal];
        let update = seen
            .workload
            .as_ref()
            .map(|object| revision(&object["spec"]["template"]));
        // Who remembers no name of the stable revision, since the Rollout is a new one or its status was lost, takes the operator's
        // word for it. The pods may be of a template that a Rollout before has let go of, and none of them has ever been ready.
        let canary = seen
            .rollout
            .as_ref()
            .and_then(|rollout| rollout.status.as_ref()?.canary_status.as_ref());
        // A name without a template is the operator's, and only to be shown.
        let remembers = canary.is_some_and(|canary| !canary.stable_template_id.is_empty());
        let own = Some(pod.revision.clone());
        let stable = own == self.oracle.stable && (remembers || own == self.view().reported.current_revision);
        let wanted = own == update || stable;
        if pod.ready || wanted || !self.view().in_order {
            let text = format!("replaced {ordinal}: {pod:?}, at {}", self.at());
            self.oracle.breaches.push(text);
        }
    }
}
