//! The table of states, against the documentation and against what happens.

use std::collections::BTreeSet;

use super::rollback::{POINTS, Point, released_to};
use super::world::{World, manifest, rollout, steps};
use crate::api::v1beta1::RolloutStatus;
use crate::rollout::states::{TRANSITIONS, explains, place, table};

impl World {
    /// A status that was written over another one: a way that the table has to name.
    pub(super) fn oracle_sees_a_move(&mut self, was: &RolloutStatus, is: &RolloutStatus) {
        let (from, to) = (place(was), place(is));
        if self.oracle.damaged || from == to && was.current_step_index == is.current_step_index {
            return;
        }
        let named = TRANSITIONS.iter().any(|row| explains(row, from, to));
        let at = |status: &RolloutStatus| super::world::brief(status);
        // A workload at rest tells how many steps its plan has.
        assert!(
            named || from == to && from == "Healthy",
            "no row: {} to {}",
            at(was),
            at(is)
        );
        self.oracle.moves.insert((from.to_owned(), to.to_owned()));
    }
}

#[test]
fn the_documentation_has_the_table() {
    let documentation = include_str!("../../../docs/concepts.md");
    assert!(
        documentation.contains(&table()),
        "docs/concepts.md needs this table:\n{}",
        table()
    );
}

#[test]
fn every_row_happens() {
    let mut worlds = Vec::new();
    let mut new = World::new(5, Some(0));
    (new.workload, new.pods) = (None, Default::default());
    new.rollout = Some(rollout(&steps()));
    new.settle();
    worlds.push(new.clone());
    new.create(manifest(5, Some(0), "v1"));
    new.settle();
    worlds.push(new);
    for point in POINTS {
        for change in 0..6 {
            let mut world = released_to(point, Some(2));
            match change {
                0 => world.set_image("v1"),
                1 => {
                    world.lose_status();
                    world.settle();
                }
                2 => {
                    world.edit_rollout(|rollout| {
                        rollout.metadata.finalizers = Some(vec!["example.io/keep".to_owned()])
                    });
                    world.delete_rollout();
                }
                3 => {
                    world.edit_rollout(|rollout| rollout.spec.disabled = true);
                    world.settle();
                    world.edit_rollout(|rollout| rollout.spec.disabled = false);
                }
                4 => world.jump(1),
                _ => {
                    let larger = serde_json::json!([{"replicas": 2, "pause": {"duration": 0}}, {"replicas": 4, "pause": {}},
                        {"replicas": 4, "pause": {}}, {"replicas": "100%"}]);
                    world.replan(&larger);
                }
            }
            world.settle();
            if change != 2 {
                world.finish();
            }
            worlds.push(world);
        }
    }
    let mut seen = released_to(Point::Held, Some(0));
    seen.operate();
    seen.set_image("v1");
    seen.settle();
    worlds.push(seen);

    let moves: BTreeSet<_> = worlds.iter().flat_map(|world| &world.oracle.moves).collect();
    let never: Vec<_> = TRANSITIONS
        .iter()
        // Written by a person.
        .filter(|row| row.to != "StepReady")
        .filter(|row| !moves.iter().any(|(from, to)| explains(row, from, to)))
        .collect();
    assert!(never.is_empty(), "{never:#?}\n{moves:#?}");
}
