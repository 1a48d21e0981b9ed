//! Moves of pods of kinds whose operator is kept from moving them: by us, and by the operator all the same.

use std::collections::BTreeSet;

use crate::lens::Scalar as _;
use crate::rollout::tests::cluster::Sync;
use crate::rollout::tests::control::version;
use crate::rollout::tests::wishes::bounds_of;
use crate::rollout::tests::world::{Pod, Seen, World, revision};
use crate::rollout::{Action, Decision};
use crate::workload::{Move, Partition, Revision, RevisionKind};

impl World {
    fn is_of_sets(&self) -> bool {
        self.adapter.paths().revisions == Some(RevisionKind::ReplicaSet)
    }

    fn is_of_nodes(&self) -> bool {
        self.adapter.paths().revisions == Some(RevisionKind::ControllerRevision)
    }

    /// The template is the stable one.
    fn is_back(&self) -> bool {
        self.oracle.stable.as_ref() == Some(&revision(&self.object()["spec"]["template"]))
    }

    fn breach(&mut self, what: &str) {
        let text = format!("{what}, at {}", self.at());
        self.oracle.breaches.push(text);
    }

    /// We make the ReplicaSet of the present template, or give another size to one that there is.
    pub(in crate::rollout::tests) fn oracle_sees_our_size(
        &mut self,
        seen: &Seen,
        place: Option<usize>,
        size: u32,
    ) {
        let (sets, view) = (self.sets(), self.view());
        let before = place.map_or(0, |place| sets[place].replicas);
        if size <= before {
            return;
        }
        let is_update = |set: &Revision| set.template == view.template;
        let grows = place.is_none_or(|place| is_update(&sets[place]));
        let exposed = sets
            .iter()
            .filter(|set| is_update(set))
            .map(|set| set.replicas)
            .sum::<u32>()
            + size
            - before;
        // On the way back nobody else gets a pod that is missing.
        let others: u32 = sets
            .iter()
            .filter(|set| !is_update(set))
            .map(|set| set.replicas)
            .sum();
        let back = self.is_back().then(|| view.replicas.saturating_sub(others));
        let limit = self.limit().map(|limit| limit.max(back.unwrap_or_default()));
        if let Some(limit) = limit.filter(|limit| grows && exposed > *limit) {
            self.breach(&format!(
                "we want {exposed} pods on the new template, allowed {limit}"
            ));
        }
        let was: u32 = sets.iter().map(|set| set.replicas).sum();
        let is = was + size - before;
        // What people have asked for since, nobody can know.
        let asked = self
            .adapter
            .view(seen.workload.as_ref().unwrap())
            .unwrap()
            .marks
            .hold;
        let before_that = asked.map_or((0, 0), |hold| bounds_of(&hold.original.fields(), view.replicas));
        let surge = self.bounds().0.max(before_that.0);
        // The first pod of a ReplicaSet may be one more.
        let companion = if before == 0 && size == 1 { was + 1 } else { 0 };
        let most = (view.replicas + surge).max(companion);
        if is > most {
            self.breach(&format!("we want {is} pods in all, at most {most}"));
        }
    }

    /// The controller of Deployments gives a ReplicaSet another size.
    pub(in crate::rollout::tests) fn oracle_sees_a_native_size(
        &mut self,
        sync: &Sync,
        set: &Revision,
        size: u32,
    ) {
        // Exempted: all pods go to the only ReplicaSet that has any, be it that of a step which exposes all of them; and where none has
        // any, to that of the present template.
        let alone = self
            .sets()
            .iter()
            .all(|other| other.uid == set.uid || other.replicas == 0);
        let grows = size > set.replicas && set.template == sync.view.template && !alone;
        if let Some(limit) = sync.limit.filter(|limit| grows && size > *limit) {
            self.breach(&format!(
                "the operator wants {size} pods on the new template, allowed {limit}"
            ));
        }
    }

    /// Nodes that run the revision, or will, because they have no pod; those aside where nobody asked for it.
    fn exposed(&self, update: &str) -> u32 {
        let uid = self.view().uid;
        let runs = |pod: &&Pod| pod.owner == uid && !pod.terminating && !pod.failed;
        let living: Vec<_> = self.pods.values().filter(runs).collect();
        let is_exposed = |node: &u32| {
            let mut on_node = living.iter().filter(|pod| pod.node == Some(*node)).peekable();
            on_node.peek().is_none() || on_node.any(|pod| pod.revision == update)
        };
        let asked = (0..self.nodes).filter(|node| !self.oracle.unasked.contains(node));
        u32::try_from(asked.filter(is_exposed).count()).unwrap()
    }

    /// We have deleted the pod of a node, for one of the new template.
    pub(in crate::rollout::tests) fn oracle_sees_our_deletion(&mut self, node: u32) {
        self.oracle.unasked.remove(&node);
        let exposed = self.exposed(&revision(&self.object()["spec"]["template"]));
        if let Some(limit) = self.limit().filter(|limit| exposed > *limit) {
            self.breach(&format!("we expose {exposed} nodes, allowed {limit}"));
        }
    }

    /// The controller of DaemonSets has deleted a pod for one of the template that it sees.
    pub(in crate::rollout::tests) fn oracle_sees_a_native_update(&mut self, sync: &Sync, number: u32) {
        let exposed = self.exposed(&revision(&sync.object["spec"]["template"]));
        if let Some(limit) = sync.limit.filter(|limit| exposed > *limit) {
            self.breach(&format!("the operator exposes {exposed} nodes, allowed {limit}"));
        }
        self.oracle.unasked.extend(self.pods[&number].node);
    }

    /// Nodes without a pod: whatever comes there is of the newest template, and nobody asked for it.
    pub(super) fn oracle_sees_vacant_nodes(&mut self) {
        if self.is_of_nodes() {
            let living: BTreeSet<u32> = self.living_nodes(None);
            self.oracle.unasked = (0..self.nodes).filter(|node| !living.contains(node)).collect();
        }
    }

    /// Nodes with a living pod of the present workload, of other revisions than this one.
    fn living_nodes(&self, but: Option<&str>) -> BTreeSet<u32> {
        let uid = self.view().uid;
        let runs =
            |pod: &&Pod| pod.owner == uid && !pod.terminating && !pod.failed && but != Some(&pod.revision);
        self.pods
            .values()
            .filter(runs)
            .filter_map(|pod| pod.node)
            .collect()
    }

    /// A node with a pod of another template is as all others again, and one that has gone is none. A Deployment that nothing has
    /// befallen since all its pods were ready keeps as many as it has to.
    pub(super) fn oracle_sees_the_pods(&mut self) {
        if self.workload.is_none() {
            return;
        }
        if self.is_of_nodes() {
            let others = self.living_nodes(Some(&revision(&self.object()["spec"]["template"])));
            let nodes = self.nodes;
            self.oracle
                .unasked
                .retain(|node| !others.contains(node) && *node < nodes);
        }
        if self.is_of_sets() && self.oracle.steady && !self.oracle.free && self.view().hold().is_some() {
            let (available, least) = self.available_and_least();
            if available < least {
                self.breach(&format!("{available} pods are available, at least {least}"));
            }
        }
    }

    /// Somebody deletes a pod, or it fails.
    pub(in crate::rollout::tests) fn oracle_sees_a_misfortune(&mut self, number: u32) {
        self.oracle.steady = false;
        if let Some(node) = self.pods.get(&number).and_then(|pod| pod.node) {
            self.oracle.unasked.insert(node);
        }
    }

    fn available_and_least(&self) -> (usize, usize) {
        let available = self
            .pods
            .values()
            .filter(|pod| pod.ready && !pod.terminating && !pod.failed);
        let least = self.view().replicas.saturating_sub(self.bounds().1);
        (available.count(), least as usize)
    }

    /// Everybody has come to rest.
    pub(in crate::rollout::tests) fn oracle_sees_rest(&mut self) {
        if self.workload.is_none() {
            return;
        }
        if self.is_of_sets() {
            let (available, least) = self.available_and_least();
            self.oracle.steady = self.broken.is_empty() && available >= least;
        }
        let whole = self.broken.is_empty() && !self.lingering && self.pods.values().all(|pod| pod.ready);
        let recorded = self
            .view()
            .stable()
            .is_some_and(|stable| self.record_of(stable).is_some());
        // What is on the way back already stays.
        let governed = !self.is_back() && self.is_wanted() && self.view().hold().is_some() && self.watching;
        if self.is_of_nodes() && whole && recorded && governed {
            let update = revision(&self.object()["spec"]["template"]);
            let updated = self.pods.values().filter(|pod| pod.revision == update).count();
            if let Some(limit) = self.limit().filter(|limit| updated > *limit as usize) {
                self.breach(&format!(
                    "{updated} pods run the new template at rest, allowed {limit}"
                ));
            }
        }
    }

    /// What is decided leaves as many nodes with a pod that is ready as people want, as far as was seen.
    pub(super) fn oracle_sees_deletions(&mut self, decision: &Decision, seen: &Seen) {
        let Some(object) = seen.workload.as_ref().filter(|_| self.is_of_nodes()) else {
            return;
        };
        let view = self.adapter.view(object).unwrap();
        let living = |pod: &&Pod| pod.owner == view.uid && !pod.terminating && !pod.failed;
        let nodes: BTreeSet<_> = seen.pods.values().filter(living).map(|pod| pod.node).collect();
        let ready: BTreeSet<_> = seen
            .pods
            .values()
            .filter(living)
            .filter(|pod| pod.ready)
            .map(|pod| pod.node)
            .collect();
        let deleted = decision.actions.iter().filter_map(|action| match action {
            Action::Move(_, Move::Delete { uid, .. }) => Some(uid),
            Action::Move(_, Move::PutBack(back)) => back.resource_version.as_ref().map(|_| &back.uid),
            _ => None,
        });
        let gone = deleted.filter(|uid| {
            seen.pods
                .values()
                .any(|pod| pod.uid == **uid && version(pod) == "true-false-false")
        });
        let gone = gone.count();
        let written = &object["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"];
        let wanted = (view.replicas as usize).max(nodes.len());
        let most = match Partition::read(written) {
            Some(Partition::Count(count)) => usize::try_from(count).unwrap(),
            Some(Partition::Percent(percent)) => (percent as usize * view.replicas as usize).div_ceil(100),
            None => 1,
        };
        if gone > 0 && ready.len() < gone + wanted.saturating_sub(most.max(1)) {
            self.breach(&format!(
                "we delete {gone} of {} ready pods, {most} nodes may have none",
                ready.len()
            ));
        }
    }
}
