//! Any interleaving of everybody: nothing escapes, nothing sticks, nothing is said twice.
//!
//! Each property runs as many schedules as `PROPTEST_CASES` says, which proptest puts above what is written here. If it says nothing
//! they are 64, and the same ones each time: what a change did is told by a run before and after it. Chance looks for more in long runs, see docs/development.md.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::json;

use super::schedule::{
    Op, anything, everything, forgetful, injected, interrupted, processes, reborn, scaling, steering, tools,
    worlds,
};
use super::stage::Stage;
use super::world::{World, revision};
use crate::api::v1beta1::condition;
use crate::names;

/// The same after a further release, where an earlier change may have come while nothing was held.
fn ends_again(mut stage: Stage) -> Result<(), TestCaseError> {
    stage.calm();
    stage.world.finish();
    prop_assert_eq!(stage.world.marks(), [names::GUARDED_BY]);
    prop_assert!(
        stage.world.has_what_was_asked_for(),
        "{:?} {:?}",
        stage.world,
        stage.world.oracle
    );
    stage.world.set_image("v4");
    ends(stage)
}

/// Everything happens, and nothing is ever against the contract.
fn run(world: World, ops: &[Op]) -> Result<Stage, TestCaseError> {
    let mut stage = Stage::new(world);
    for (number, op) in ops.iter().enumerate() {
        stage.happen(op);
        let breaches = &stage.world.oracle.breaches;
        prop_assert!(breaches.is_empty(), "{number}: {op:?}: {breaches:?}");
    }
    Ok(stage)
}

/// The end that every release must have: marks gone, the partition that people asked for, every pod on the template, and nothing
/// that says otherwise.
fn ends(mut stage: Stage) -> Result<(), TestCaseError> {
    stage.calm();
    stage.world.finish();
    done(&stage.world)
}

fn done(world: &World) -> Result<(), TestCaseError> {
    prop_assert_eq!(world.marks(), [names::GUARDED_BY]);
    prop_assert!(world.has_what_was_asked_for(), "{:?} {:?}", world, world.oracle);
    let update = revision(&world.object()["spec"]["template"]);
    let on = world.pods.values().filter(|pod| pod.revision == update).count();
    prop_assert_eq!(on, world.view().replicas as usize, "{:?}", world.pods);
    prop_assert_eq!(world.says(condition::READY).0, "True");
    prop_assert!(world.condition(condition::STALLED).is_none());
    prop_assert!(
        !world.view().partition_is_ours,
        "an apply without force would conflict"
    );
    Ok(())
}

/// What proptest takes if nobody says anything.
const USUAL_CASES: u32 = 256;

fn config() -> ProptestConfig {
    let config = ProptestConfig::default();
    let long = config.cases != USUAL_CASES;
    ProptestConfig {
        cases: config.cases / 4,
        rng_seed: if long { config.rng_seed } else { RngSeed::Fixed(1) },
        ..config
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn nothing_escapes_and_nothing_sticks(world in worlds(), ops in vec(scaling(), 0..60)) {
        ends(run(world, &ops)?)?;
    }

    #[test]
    fn tools_release_nothing(world in worlds(), ops in vec(tools(), 0..60)) {
        ends_again(run(world, &ops)?)?;
    }

    #[test]
    fn processes_that_know_nothing_of_each_other_do_no_harm(world in worlds(), ops in vec(processes(), 0..100)) {
        ends(run(world, &ops)?)?;
    }

    #[test]
    fn a_lost_status_lets_nothing_escape(world in worlds(), ops in vec(forgetful(), 0..60)) {
        ends(run(world, &ops)?)?;
    }

    #[test]
    fn steered_to_any_step_and_by_any_plan_nothing_escapes(world in worlds(), ops in vec(steering(), 0..60)) {
        ends(run(world, &ops)?)?;
    }

    #[test]
    fn disabled_releases_the_rest_and_enabled_holds_again(world in worlds(), ops in vec(interrupted(), 0..60)) {
        ends_again(run(world, &ops)?)?;
    }

    #[test]
    fn workload_and_rollout_may_go_and_come_again(world in worlds(), ops in vec(reborn(), 0..80)) {
        ends_again(run(world, &ops)?)?;
    }

    #[test]
    fn templates_that_another_webhook_changes_are_held(world in worlds(), ops in vec(injected(), 0..60)) {
        ends_again(run(world, &ops)?)?;
    }

    #[test]
    fn all_of_it_together(world in worlds(), ops in vec(everything(), 0..120)) {
        ends_again(run(world, &ops)?)?;
    }

    #[test]
    fn whatever_happens_it_ends(world in worlds(), ops in vec(anything(), 0..100)) {
        // What escapes while admission is down is another matter.
        let mut stage = Stage::new(world);
        for op in &ops {
            stage.happen(op);
            stage.world.oracle.breaches.clear();
            stage.world.oracle.free = true;
        }
        stage.calm();
        // Without admission nobody has noted what people asked for meanwhile.
        stage.world.settle();
        stage.world.mend();
        stage.world.finish();
        stage.world.set_partition(Some(7));
        stage.world.set_partition(Some(1));
        ends_again(stage)?;
    }

    #[test]
    fn broken_pods_of_an_abandoned_template_do_not_stick(
        world in worlds(), ops in vec(processes(), 0..40), back in any::<bool>()
    ) {
        let mut stage = run(world, &ops)?;
        stage.calm();
        stage.world.finish();
        let mut world = stage.world;
        let stable = world.object()["spec"]["template"].clone();
        world.broken.insert("v5".to_owned());
        world.set_image("v5");
        world.settle();
        if back {
            world.patch(&json!({"spec": {"template": stable}}));
        } else {
            world.set_image("v6");
        }
        world.finish();
        done(&world)?;
    }

    #[test]
    fn a_deleted_rollout_frees_its_workload(world in worlds(), ops in vec(processes(), 0..60)) {
        let mut stage = run(world, &ops)?;
        stage.calm();
        let mut world = stage.world;
        world.delete_rollout();
        world.restart();
        world.settle();
        prop_assert_eq!(world.marks(), Vec::<String>::new());
        prop_assert!(world.has_what_was_asked_for(), "{:?} {:?}", world, world.oracle);
        prop_assert!(!world.view().partition_is_ours, "an apply without force would conflict");
    }
}
