//! The way to the sizes that are granted, with the controllers of ReplicaSets and of Deployments at work.

use proptest::prelude::*;
use rstest::rstest;

use super::*;
use crate::workload::native::{self, Turnover};

/// A ReplicaSet's pods, available or not.
#[derive(Clone, Copy, Debug)]
struct Pods {
    wanted: u32,
    ready: u32,
    unready: u32,
    /// Its pods never become available.
    broken: bool,
}

impl Pods {
    fn of(wanted: u32, ready: u32, broken: bool) -> Self {
        Self {
            wanted,
            ready: if broken { 0 } else { ready },
            unready: if broken { ready } else { 0 },
            broken,
        }
    }

    /// Its controller makes and deletes pods, those first that are not ready.
    fn sync(&mut self) {
        let turnover = Turnover::of(self.wanted, self.ready, self.unready);
        self.unready = self.unready + turnover.made - turnover.unready;
        self.ready -= turnover.ready;
    }

    fn start(&mut self) {
        if !self.broken {
            self.ready += std::mem::take(&mut self.unready);
        }
    }
}

/// A paused Deployment: ReplicaSets of the stable, of the present and of an earlier template.
#[derive(Clone, Debug)]
struct World {
    replicas: u32,
    exposed: u32,
    bounds: Bounds,
    /// The last one is of the present template.
    sets: Vec<Pods>,
    /// The one of the present template has been made.
    made: bool,
    back: bool,
}

const STABLE: usize = 0;
const EARLIER: usize = 1;
const UPDATE: usize = 2;

impl World {
    fn sizes(&self) -> Sizes {
        let sets = self.sets.iter().take(if self.made { 3 } else { 2 });
        let set = |pods: &Pods| Set {
            wanted: pods.wanted,
            there: pods.wanted.max(pods.ready + pods.unready),
            available: pods.ready.min(pods.wanted),
            created: None,
        };
        Sizes {
            replicas: self.replicas,
            exposed: self.exposed,
            bounds: self.bounds,
            sets: sets.map(set).collect(),
            update: self.made.then_some(UPDATE),
            stable: (!self.back).then_some(STABLE),
            back: self.back,
        }
    }

    fn there(&self) -> u32 {
        self.sets.iter().map(|set| set.ready + set.unready).sum()
    }

    fn wanted(&self) -> u32 {
        self.sets.iter().map(|set| set.wanted).sum()
    }

    fn available(&self) -> u32 {
        self.sets.iter().map(|set| set.ready).sum()
    }

    /// The controller of Deployments, which is paused.
    fn native(&mut self) {
        let update = self.made.then_some(UPDATE);
        if let Some(heir) = native::heir(&self.wants(), update, Some(STABLE)) {
            self.sets[heir].wanted = self.replicas;
        }
    }

    /// One write of ours, and the bounds that it keeps.
    fn write(&mut self, (place, size): Next, room: bool) {
        let place = place.unwrap_or(UPDATE);
        self.made |= place == UPDATE;
        let all = self.wanted();
        let set = &mut self.sets[place];
        let (grows, before) = (size > set.wanted, set.wanted);
        set.wanted = size;
        if grows {
            let most = self.replicas + self.bounds.surge;
            let most = if room { most } else { most.max(all) + 1 };
            assert!(self.wanted() <= most, "{self:?}");
            assert!(place != UPDATE || self.back || size <= self.exposed, "{self:?}");
        } else {
            assert!(size < before || before == 0, "{self:?}");
            let least = self.replicas.saturating_sub(self.bounds.unavailable);
            let before = self.available();
            let mut later = self.clone();
            later.sets.iter_mut().for_each(Pods::sync);
            assert!(later.available() >= least.min(before), "{self:?}");
        }
    }

    /// Until nothing is left to do.
    fn settle(&mut self) {
        for _ in 0..200 {
            let next = self.sizes().next();
            let there = self.sizes().sets.iter().map(|set| set.there).sum::<u32>();
            let room = there < self.replicas + self.bounds.surge;
            for one in &next {
                self.write(*one, room);
            }
            self.native();
            self.sets.iter_mut().for_each(Pods::sync);
            self.native();
            self.sets.iter_mut().for_each(Pods::start);
            if next.is_empty() && self.sizes().next().is_empty() {
                return;
            }
        }
        panic!("it never ends: {self:?}");
    }

    fn wants(&self) -> Vec<u32> {
        self.sets.iter().map(|set| set.wanted).collect()
    }
}

fn world(replicas: u32, exposed: u32, surge: u32, unavailable: u32) -> World {
    World {
        replicas,
        exposed,
        bounds: Bounds { surge, unavailable },
        sets: vec![
            Pods::of(replicas, replicas, false),
            Pods::of(0, 0, false),
            Pods::of(0, 0, false),
        ],
        made: false,
        back: false,
    }
}

#[rstest]
fn every_step_is_reached_within_the_bounds(
    #[values((1, 0), (0, 1), (2, 1), (0, 5), (5, 0))] (surge, unavailable): (u32, u32),
    #[values(1, 5)] replicas: u32,
) {
    let mut world = world(replicas, 0, surge, unavailable);
    for exposed in 0..=replicas {
        world.exposed = exposed;
        world.settle();
        assert_eq!(world.wants(), [replicas - exposed, 0, exposed]);
        assert_eq!((world.there(), world.available()), (replicas, replicas));
    }
}

#[test]
fn the_first_write_exposes_no_more_than_the_step_and_no_more_than_there_is_room() {
    assert_eq!(world(5, 3, 1, 0).sizes().next(), [(None, 1)]);
    assert_eq!(world(5, 3, 2, 1).sizes().next(), [(None, 2), (Some(STABLE), 4)]);
    // No room: a pod too many for a moment, and its place is made free at once.
    assert_eq!(world(5, 3, 0, 1).sizes().next(), [(None, 1), (Some(STABLE), 4)]);
    assert_eq!(world(1, 1, 0, 1).sizes().next(), [(None, 0), (Some(STABLE), 0)]);
    assert_eq!(world(5, 0, 2, 1).sizes().next(), []);
}

#[test]
fn broken_pods_stop_it_and_go_first() {
    let mut world = world(5, 1, 1, 0);
    world.sets[UPDATE].broken = true;
    world.settle();
    assert_eq!((world.wants(), world.available()), (vec![5, 0, 1], 5));
    // Back: the broken one goes at once.
    world.sets.swap(STABLE, UPDATE);
    (world.back, world.exposed) = (true, 5);
    assert_eq!(world.sizes().next(), [(Some(STABLE), 0)]);
    world.settle();
    assert_eq!((world.wants(), world.there()), (vec![0, 0, 5], 5));
}

#[test]
fn another_version_takes_the_place_of_the_one_before() {
    let mut world = world(5, 1, 1, 0);
    world.sets[STABLE] = Pods::of(2, 2, false);
    world.sets[EARLIER] = Pods::of(3, 3, false);
    world.settle();
    assert_eq!(world.wants(), [4, 0, 1]);
}

#[test]
fn updated_pods_are_taken_away_only_where_there_are_to_be_fewer_pods() {
    let mut world = world(5, 1, 1, 0);
    (world.sets[STABLE], world.sets[UPDATE]) = (Pods::of(2, 2, false), Pods::of(3, 3, false));
    world.made = true;
    assert_eq!(world.sizes().next(), []);
    // From ten pods, five of them updated, to five.
    (world.sets[STABLE], world.sets[UPDATE]) = (Pods::of(5, 5, false), Pods::of(5, 5, false));
    world.exposed = 3;
    world.settle();
    assert_eq!(world.wants(), [2, 0, 3]);
}

#[test]
fn where_the_stable_set_has_gone_nobody_is_sent_away() {
    let mut world = world(5, 1, 1, 0);
    (world.sets[STABLE], world.made) = (Pods::of(0, 0, false), true);
    world.sets[UPDATE] = Pods::of(5, 5, false);
    let mut sizes = world.sizes();
    sizes.stable = None;
    assert_eq!(sizes.next(), []);
}

fn set() -> impl Strategy<Value = Pods> {
    (0..6_u32, 0..6_u32, any::<bool>())
        .prop_map(|(wanted, ready, broken)| Pods::of(wanted, ready.min(wanted), broken))
}

proptest! {
    #[test]
    fn from_everywhere_it_ends_at_what_is_granted(
        replicas in 0..7_u32, exposed in 0..7_u32, surge in 0..4_u32, unavailable in 0..4_u32,
        stable in set(), earlier in set(), update in set(), back in any::<bool>(),
    ) {
        let mut world = World {
            replicas,
            exposed: if back { replicas } else { exposed.min(replicas) },
            bounds: Bounds { surge, unavailable: if surge == 0 { unavailable.max(1) } else { unavailable } },
            sets: vec![Pods { broken: false, ..stable }, earlier, update],
            made: true,
            back,
        };
        world.sets[STABLE].start();
        world.settle();
        let wants = world.wants();
        if !world.sets[UPDATE].broken {
            prop_assert_eq!(&wants, &[replicas - wants[UPDATE], 0, wants[UPDATE]]);
            prop_assert!(wants[UPDATE] >= world.exposed);
            // No more of the present template than before, unless nobody else was there.
            let alone = stable.wanted == 0 && earlier.wanted == 0;
            prop_assert!(alone || wants[UPDATE] <= update.wanted.max(world.exposed), "{:?}", wants);
        }
        // Once more on a world that is done.
        prop_assert_eq!(world.sizes().next(), []);
    }
}
