//! How many pods the ReplicaSets of a Deployment are to have next.

use jiff::Timestamp;

/// A ReplicaSet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Set {
    /// Pods that there should be.
    pub(super) wanted: u32,
    /// Pods that there are, or are about to be: never less than `wanted`.
    pub(super) there: u32,
    /// Of those that there should be, the available ones: never more than `wanted`.
    pub(super) available: u32,
    /// When it was made.
    pub(super) created: Option<Timestamp>,
}

/// What is allowed on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    /// Pods more than replicas.
    pub(super) surge: u32,
    /// Available pods less than replicas.
    pub(super) unavailable: u32,
}

/// A Deployment on its way to the sizes that are granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sizes {
    /// Pods that it is to have.
    pub(super) replicas: u32,
    /// How many of them are to be of the present template.
    pub(super) exposed: u32,
    /// What is allowed on the way.
    pub(super) bounds: Bounds,
    /// All its ReplicaSets.
    pub(super) sets: Vec<Set>,
    /// Which is that of the present template.
    pub(super) update: Option<usize>,
    /// Which is that of the stable one, unless that is the present one.
    pub(super) stable: Option<usize>,
    /// The present template is the stable one.
    pub(super) back: bool,
}

/// A ReplicaSet, `None` for that of the present template, which has yet to be made, and its next size.
pub(super) type Next = (Option<usize>, u32);

impl Sizes {
    /// The next sizes, in the order in which they are to be written: growing before shrinking. Nothing where all is done, or has to
    /// wait for pods.
    pub(super) fn next(&self) -> Vec<Next> {
        let targets = self.targets();
        let mut ups = self.ups(&targets);
        let downs = self.downs(&targets);
        if ups.is_empty() {
            ups.extend(self.companion(&targets, &downs));
        }
        ups.into_iter().chain(downs).collect()
    }

    /// Who keeps back what is not exposed: the ReplicaSet of the stable template or, should that have gone, the largest of the
    /// others. On the way back nobody gets more pods than it has.
    fn keeper(&self) -> Option<usize> {
        let others = self.others().filter(|place| self.sets[*place].wanted > 0);
        let largest = others.max_by_key(|place| (self.sets[*place].wanted, self.sets[*place].created));
        self.stable.or(largest).filter(|_| !self.back)
    }

    fn others(&self) -> impl Iterator<Item = usize> {
        (0..self.sets.len()).filter(|place| Some(*place) != self.update)
    }

    /// The size of each ReplicaSet in the end, and of the one that has yet to be made. Pods of the present template that are more
    /// than the step has, after a jump back say, are only taken away where the Deployment is to have fewer.
    fn targets(&self) -> Targets {
        let kept = self.replicas.saturating_sub(self.exposed);
        let mut of = vec![0; self.sets.len()];
        let wanted = |place: usize| self.sets[place].wanted;
        let update = match self.keeper() {
            Some(keeper) => {
                let most = self.replicas - wanted(keeper).min(kept);
                let update = self.update.map_or(0, wanted).min(most).max(self.exposed);
                of[keeper] = self.replicas - update;
                update
            }
            None if self.back => {
                let left = self.keep_largest(&mut of, kept);
                self.replicas - left
            }
            // Nobody is left that could have the others; the Deployment's controller gives all to this one.
            None => self.update.map_or(0, wanted).max(self.exposed),
        };
        if let Some(place) = self.update {
            of[place] = update;
        }
        Targets { of, update }
    }

    /// Leaves `kept` pods to the largest of the others; how many that come to.
    fn keep_largest(&self, of: &mut [u32], kept: u32) -> u32 {
        let mut others: Vec<_> = self.others().collect();
        others.sort_by_key(|place| std::cmp::Reverse((self.sets[*place].wanted, self.sets[*place].created)));
        let mut left = kept;
        for place in others {
            of[place] = self.sets[place].wanted.min(left);
            left -= of[place];
        }
        kept - left
    }

    /// What may grow now. What keeps back comes first, since it brings back what is missing.
    fn ups(&self, targets: &Targets) -> Vec<Next> {
        let there: u32 = self.sets.iter().map(|set| set.there).sum();
        let mut room = (self.replicas + self.bounds.surge).saturating_sub(there);
        let keeper = self.keeper().map(|place| (Some(place), targets.of[place]));
        let mut ups = Vec::new();
        for (place, target) in keeper.into_iter().chain([(self.update, targets.update)]) {
            let wanted = place.map_or(0, |place| self.sets[place].wanted);
            let more = target.saturating_sub(wanted).min(room);
            if more > 0 {
                ups.push((place, wanted + more));
                room -= more;
            }
        }
        ups
    }

    /// What may shrink now: pods that are not available at once, others as long as enough are left.
    fn downs(&self, targets: &Targets) -> Vec<Next> {
        let available: u32 = self.sets.iter().map(|set| set.available).sum();
        let least = self.replicas.saturating_sub(self.bounds.unavailable);
        let mut spare = available.saturating_sub(least);
        let keeper = self.keeper();
        let first = self.others().filter(|place| Some(*place) != keeper);
        let mut downs = Vec::new();
        for place in first.chain(keeper).chain(self.update) {
            let set = self.sets[place];
            let surplus = set.wanted.saturating_sub(targets.of[place]);
            let idle = set.wanted - set.available;
            let fewer = surplus.min(idle.saturating_add(spare));
            if fewer > 0 {
                spare -= fewer.saturating_sub(idle);
                downs.push((Some(place), set.wanted - fewer));
            }
        }
        downs
    }

    /// What has to be there before these shrink. The Deployment's controller gives all pods to the only ReplicaSet that has any: so
    /// another one has to have one before, although there is no room for it, and for a moment there is a pod too many. Where none
    /// has any it gives all of them to that of the present template, which only has to be there.
    fn companion(&self, targets: &Targets, downs: &[Next]) -> Option<Next> {
        let wanted = |place: usize| {
            let shrunk = downs.iter().find(|(shrunk, _)| *shrunk == Some(place));
            shrunk.map_or(self.sets[place].wanted, |(_, to)| *to)
        };
        let active: Vec<_> = (0..self.sets.len()).filter(|place| wanted(*place) > 0).collect();
        let heir = match active[..] {
            [] => self.update,
            [only] => Some(only),
            _ => return None,
        };
        let gets_all = heir.is_some_and(|heir| targets.of[heir] == self.replicas);
        if downs.is_empty() || gets_all {
            return None;
        }
        let keeper = self.keeper().map(|keeper| (Some(keeper), targets.of[keeper]));
        let mut ends = [(self.update, targets.update)].into_iter().chain(keeper);
        let (idle, target) =
            ends.find(|(place, target)| *target > 0 && (place.is_none() || *place != heir))?;
        let inherits = active.is_empty() && idle.is_none() && target == self.replicas;
        Some((idle, u32::from(!inherits)))
    }
}

struct Targets {
    /// Of each ReplicaSet.
    of: Vec<u32>,
    /// Of that of the present template, be it there or not.
    update: u32,
}

#[cfg(test)]
mod tests;
