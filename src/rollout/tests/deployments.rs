//! The controllers of Deployments and of ReplicaSets in the simulated world.

use std::cmp::Reverse;

use serde_json::{Value, json};

use super::cluster::Sync;
use super::wishes::rolling_bounds;
use super::world::{APP, Pod, World, revision};
use crate::names;
use crate::workload::native::{Turnover, heir};
use crate::workload::{Revision, RevisionKind, TemplateId};

impl World {
    /// The ReplicaSets as they are read.
    pub(super) fn sets(&self) -> Vec<Revision> {
        let read = |set| Revision::read(RevisionKind::ReplicaSet, set);
        self.revisions.iter().map(read).collect()
    }

    /// Which ReplicaSet is of this template: of several the oldest.
    pub(super) fn set_of(&self, template: &TemplateId) -> Option<usize> {
        let sets = self.sets();
        let of_it = (0..sets.len()).filter(|place| sets[*place].template == *template);
        of_it.min_by_key(|place| (sets[*place].created, sets[*place].name.clone()))
    }

    /// Both controllers at once; the report of the former is still on its way.
    pub(super) fn sync_deployment(&mut self, sync: &Sync) {
        self.move_sets(sync);
        for place in 0..self.revisions.len() {
            self.sync_set(place);
        }
        if self.habits.forgets_revisions {
            self.drop_idle_sets(sync);
        }
        let sets = self.sets();
        let update = self.set_of(&sync.view.template);
        let all: u32 = sets.iter().map(|set| set.existing).sum();
        let ready = self.pods.values().filter(|pod| pod.ready && !pod.terminating);
        self.report_later(
            sync,
            json!({"replicas": all, "readyReplicas": ready.count(),
                "updatedReplicas": update.map_or(0, |update| sets[update].existing)}),
        );
    }

    /// What the controller of Deployments does to ReplicaSets.
    fn move_sets(&mut self, sync: &Sync) {
        let (replicas, spec) = (sync.view.replicas, &sync.object["spec"]);
        let rolling = spec["strategy"]["type"] == "RollingUpdate";
        let desired = Some(replicas.to_string());
        let is_scaled = |set: &Revision| set.replicas > 0 && set.desired.is_some() && set.desired != desired;
        if spec["paused"] == true || self.sets().iter().any(is_scaled) {
            self.scale_sets(sync, rolling);
        } else if rolling {
            self.roll_sets(sync);
        } else {
            self.recreate_sets(sync);
        }
    }

    fn scale_sets(&mut self, sync: &Sync, rolling: bool) {
        let (sets, update) = (self.sets(), self.set_of(&sync.view.template));
        let replicas = sync.view.replicas;
        let wanted: Vec<_> = sets.iter().map(|set| set.replicas).collect();
        let newest = (0..sets.len()).max_by_key(|place| (sets[*place].created, Reverse(&sets[*place].name)));
        if let Some(heir) = heir(&wanted, update, newest) {
            return self.size_set(sync, heir, replicas);
        }
        let active = (0..sets.len()).filter(|place| wanted[*place] > 0);
        let saturated = update.filter(|update| {
            let set = &sets[*update];
            let told = set.desired == Some(replicas.to_string());
            told && set.replicas == replicas && set.available == replicas
        });
        if saturated.is_some() {
            let others: Vec<_> = active.filter(|place| Some(*place) != update).collect();
            others.into_iter().for_each(|place| self.size_set(sync, place, 0));
        } else if rolling {
            // In proportion, but the largest takes what the rounding leaves; here it takes all.
            let (surge, _) = rolling_bounds(&sync.object["spec"]["strategy"]["rollingUpdate"], replicas);
            let all: u32 = wanted.iter().sum();
            let room = if replicas > 0 { replicas + surge } else { 0 };
            let largest = active.clone().max_by_key(|place| wanted[*place]);
            for place in active {
                let size = if Some(place) == largest {
                    (wanted[place] + room).saturating_sub(all)
                } else {
                    wanted[place]
                };
                self.size_set(sync, place, size);
                self.revisions[place]["metadata"]["annotations"][names::DESIRED_REPLICAS] =
                    json!(replicas.to_string());
            }
        }
    }

    /// The ReplicaSet of the present template grows as far as there is room, then the others shrink.
    fn roll_sets(&mut self, sync: &Sync) {
        let replicas = sync.view.replicas;
        let (surge, unavailable) =
            rolling_bounds(&sync.object["spec"]["strategy"]["rollingUpdate"], replicas);
        let all = |world: &Self| world.sets().iter().map(|set| set.replicas).sum::<u32>();
        let update = self.set_of(&sync.view.template);
        let has = update.map_or(0, |update| self.sets()[update].replicas);
        let room = (replicas + surge).saturating_sub(all(self));
        let size = if has > replicas {
            replicas
        } else {
            has + room.min(replicas - has)
        };
        let update = update.unwrap_or_else(|| self.make_set(sync));
        if size != has {
            return self.size_set(sync, update, size);
        }
        let sets = self.sets();
        let least = replicas.saturating_sub(unavailable);
        let starting = sets[update].replicas - sets[update].available.min(sets[update].replicas);
        let mut fewer = all(self).saturating_sub(least + starting);
        for (place, set) in sets.iter().enumerate().filter(|(place, _)| *place != update) {
            let idle = (set.replicas - set.available.min(set.replicas)).min(fewer);
            if idle > 0 {
                self.size_set(sync, place, set.replicas - idle);
                fewer -= idle;
            }
        }
        let sets = self.sets();
        let mut spare = sets
            .iter()
            .map(|set| set.available)
            .sum::<u32>()
            .saturating_sub(least);
        for (place, set) in sets.iter().enumerate().filter(|(place, _)| *place != update) {
            let gone = set.replicas.min(spare);
            if gone > 0 {
                self.size_set(sync, place, set.replicas - gone);
                spare -= gone;
            }
        }
    }

    /// First all old pods go, then the new ones come.
    fn recreate_sets(&mut self, sync: &Sync) {
        let update = self.set_of(&sync.view.template);
        let others = |place: &usize| Some(*place) != update;
        let active: Vec<_> = (0..self.revisions.len())
            .filter(others)
            .filter(|place| self.sets()[*place].replicas > 0)
            .collect();
        if !active.is_empty() {
            return active.into_iter().for_each(|place| self.size_set(sync, place, 0));
        }
        let uid = update.map(|update| self.sets()[update].uid.clone());
        if self.pods.values().all(|pod| pod.set == uid || pod.failed) {
            let update = update.unwrap_or_else(|| self.make_set(sync));
            self.size_set(sync, update, sync.view.replicas);
        }
    }

    fn make_set(&mut self, sync: &Sync) -> usize {
        let template = &sync.object["spec"]["template"];
        let hash = revision(template);
        let mut labelled = template.clone();
        labelled["metadata"]["labels"][names::POD_TEMPLATE_HASH] = json!(hash);
        self.put_set(json!({
            "metadata": {"name": format!("{APP}-{hash}"), "labels": labelled["metadata"]["labels"]},
            "spec": {"replicas": 0, "template": labelled},
        }));
        self.revisions.len() - 1
    }

    /// Stores a new ReplicaSet.
    pub(super) fn put_set(&mut self, mut set: Value) {
        set["metadata"]["uid"] = json!(format!("s{}", self.tick()));
        set["metadata"]["resourceVersion"] = json!(self.tick());
        set["metadata"]["creationTimestamp"] = json!(self.now.to_string());
        self.revisions.push(set);
    }

    /// The controller of Deployments gives a ReplicaSet another size.
    fn size_set(&mut self, sync: &Sync, place: usize, size: u32) {
        let before = self.sets();
        if before[place].replicas == size {
            return;
        }
        let version = self.tick();
        let set = &mut self.revisions[place];
        set["spec"]["replicas"] = json!(size);
        set["metadata"]["annotations"][names::DESIRED_REPLICAS] = json!(sync.view.replicas.to_string());
        set["metadata"]["resourceVersion"] = json!(version);
        self.oracle_sees_a_native_size(sync, &before[place], size);
    }

    /// The controller of ReplicaSets: makes and deletes pods, and reports what it saw before that.
    fn sync_set(&mut self, place: usize) {
        let set = self.sets().swap_remove(place);
        for pod in self
            .pods
            .values_mut()
            .filter(|pod| pod.set.as_ref() == Some(&set.uid) && pod.failed)
        {
            pod.terminating = true;
        }
        let of_it = |pod: &Pod| pod.set.as_ref() == Some(&set.uid) && !pod.terminating;
        let of = |world: &Self, ready: bool| {
            let pods = world
                .pods
                .iter()
                .filter(|(_, pod)| of_it(pod) && pod.ready == ready);
            pods.map(|(number, _)| *number).rev().collect::<Vec<_>>()
        };
        let (ready, unready) = (of(self, true), of(self, false));
        let count = |pods: &[u32]| u32::try_from(pods.len()).unwrap();
        let status = json!({"replicas": count(&ready) + count(&unready), "availableReplicas": count(&ready)});
        if self.revisions[place]["status"] != status {
            let version = self.tick();
            self.revisions[place]["status"] = status;
            self.revisions[place]["metadata"]["resourceVersion"] = json!(version);
        }
        let turnover = Turnover::of(set.replicas, count(&ready), count(&unready));
        let gone = unready.iter().take(turnover.unready as usize);
        for number in gone.chain(ready.iter().take(turnover.ready as usize)) {
            self.pods.get_mut(number).unwrap().terminating = true;
        }
        for _ in 0..turnover.made {
            let template = self.revisions[place]["spec"]["template"].clone();
            let pod = Pod {
                set: Some(set.uid.clone()),
                label: Some(set.revision.clone()),
                ..self.new_pod(&template)
            };
            self.add_pod(pod);
        }
    }

    /// A history of no length.
    fn drop_idle_sets(&mut self, sync: &Sync) {
        let update = self
            .set_of(&sync.view.template)
            .map(|place| self.sets()[place].uid.clone());
        let idle = |set: &Value| {
            let set = Revision::read(RevisionKind::ReplicaSet, set);
            Some(&set.uid) != update.as_ref() && set.replicas == 0 && set.existing == 0
        };
        let before = self.revisions.len();
        self.revisions.retain(|set| !idle(set));
        if self.revisions.len() != before {
            self.tick();
        }
    }
}
