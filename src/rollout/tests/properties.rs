//! Any interleaving of everybody: nothing escapes, nothing sticks, nothing is said twice.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;

use super::world::{Seen, World, manifest, steps, template};
use crate::names;

const IMAGES: [&str; 3] = ["v1", "v2", "v3"];

/// Something that somebody does.
#[derive(Clone, Debug)]
enum Op {
    Image(usize),
    /// A change that the operator does not count.
    Dress(bool),
    Partition(Option<i64>),
    Put(usize, Option<i64>),
    Replicas(u32),
    Scale(u32),
    Approve,
    DeletePod(u32),
    Operate,
    Kubelet,
    Control,
    /// The controller acts on what it saw so many moments ago, Rollout, workload and pods apart.
    ControlOld(usize, usize, usize),
    /// The controller dies after so many actions.
    Crash(usize),
    Pass(i64),
    Pause(bool),
    /// Somebody writes the step to go to next.
    Jump(i32),
    /// Somebody edits the plan.
    Replan(serde_json::Value),
    /// Somebody wants the way back to take steps, or not.
    BackInBatches(bool),
    LoseStatus,
    Disable(bool),
    Webhook(bool),
    /// Pods of this image do not become ready, or do again.
    Broken(usize, bool),
    /// Everybody acts until nothing changes; then the controller is silent.
    Settle,
}

fn images() -> impl Strategy<Value = usize> {
    0..IMAGES.len()
}

fn partitions() -> impl Strategy<Value = Option<i64>> {
    prop_oneof![Just(None), (0..7_i64).prop_map(Some)]
}

/// What always happens.
fn common() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => images().prop_map(Op::Image),
        1 => any::<bool>().prop_map(Op::Dress),
        1 => partitions().prop_map(Op::Partition),
        1 => (images(), partitions()).prop_map(|(image, partition)| Op::Put(image, partition)),
        2 => Just(Op::Approve),
        2 => (0..8_u32).prop_map(Op::DeletePod),
        8 => Just(Op::Operate),
        8 => Just(Op::Kubelet),
        8 => Just(Op::Control),
        2 => (0..4_usize).prop_map(Op::Crash),
        2 => prop_oneof![Just(1), Just(299), Just(400)].prop_map(Op::Pass),
        1 => any::<bool>().prop_map(Op::Pause),
    ]
}

fn scaling() -> impl Strategy<Value = Op> {
    prop_oneof![
        12 => common(),
        1 => (0..8_u32).prop_map(Op::Replicas),
        1 => (0..8_u32).prop_map(Op::Scale),
        1 => (images(), any::<bool>()).prop_map(|(image, broken)| Op::Broken(image, broken)),
        1 => Just(Op::Settle),
    ]
}

/// People who change their minds about the steps.
fn steering() -> impl Strategy<Value = Op> {
    prop_oneof![
        10 => scaling(),
        2 => (-5..8_i32).prop_map(Op::Jump),
        1 => plans().prop_map(Op::Replan),
        1 => any::<bool>().prop_map(Op::BackInBatches),
    ]
}

/// A person who disables the Rollout in mid-release, and the controller that loses its status.
fn interrupted() -> impl Strategy<Value = Op> {
    prop_oneof![
        10 => scaling(),
        1 => any::<bool>().prop_map(Op::Disable),
    ]
}

fn forgetful() -> impl Strategy<Value = Op> {
    prop_oneof![
        10 => common(),
        1 => Just(Op::LoseStatus),
    ]
}

fn old_views() -> impl Strategy<Value = Op> {
    prop_oneof![5 => common(), 1 => (0..4_usize, 0..4_usize, 0..4_usize).prop_map(|(r, w, p)| Op::ControlOld(r, w, p))]
}

fn anything() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => steering(),
        3 => old_views(),
        1 => Just(Op::LoseStatus),
        1 => any::<bool>().prop_map(Op::Disable),
        1 => any::<bool>().prop_map(Op::Webhook),
    ]
}

fn plans() -> impl Strategy<Value = serde_json::Value> {
    let replicas = prop_oneof![
        (0..7_i64).prop_map(|n| json!(n)),
        (0..101).prop_map(|p| json!(format!("{p}%")))
    ];
    let pause = prop_oneof![
        Just(json!({})),
        Just(json!({"duration": 300})),
        Just(json!({"duration": 0}))
    ];
    let step = (replicas, pause).prop_map(|(replicas, pause)| json!({"replicas": replicas, "pause": pause}));
    prop_oneof![Just(steps()), vec(step, 1..5).prop_map(|steps| json!(steps)),]
}

fn worlds() -> impl Strategy<Value = World> {
    (1..7_u32, partitions(), plans(), any::<bool>()).prop_map(|(replicas, partition, plan, in_order)| {
        if in_order {
            World::in_order(replicas, partition, &plan)
        } else {
            World::guarded(replicas, partition, &plan)
        }
    })
}

fn happen(world: &mut World, past: &mut Vec<Seen>, op: &Op) {
    match *op {
        Op::Image(image) => world.set_image(IMAGES[image]),
        Op::Dress(dress) => {
            let annotations = if dress {
                json!({"dress": null})
            } else {
                json!(null)
            };
            world.patch(&json!({"spec": {"template": {"metadata": {"annotations": annotations}}}}));
        }
        Op::Partition(partition) => world.set_partition(partition),
        Op::Put(image, partition) => {
            let mut manifest = manifest(world.view().replicas, partition, "");
            manifest["spec"]["template"] = template(IMAGES[image]);
            world.put(manifest);
        }
        Op::Replicas(replicas) => world.set_replicas(replicas),
        Op::Scale(replicas) => world.scale(replicas),
        Op::Approve => world.approve(),
        Op::DeletePod(ordinal) => world.delete_pod(ordinal),
        Op::Operate => world.operate(),
        Op::Kubelet => world.kubelet(),
        Op::Control => world.control(),
        Op::ControlOld(rollout, workload, pods) => {
            let at = |lag: usize| past[past.len().saturating_sub(lag + 1)].clone();
            let seen = Seen {
                rollout: at(rollout).rollout,
                workload: at(workload).workload,
                pods: at(pods).pods,
            };
            world.control_on(&seen, usize::MAX);
        }
        Op::Crash(survives) => world.control_on(&world.seen(), survives),
        Op::Pass(seconds) => world.pass(seconds),
        Op::Pause(paused) => world.edit_rollout(|rollout| rollout.spec.strategy.paused = paused),
        Op::Jump(to) => world.jump(to),
        Op::Replan(ref steps) => world.replan(steps),
        Op::BackInBatches(by_steps) => world.back_in_batches(by_steps),
        Op::LoseStatus => world.lose_status(),
        Op::Disable(disabled) => world.edit_rollout(|rollout| rollout.spec.disabled = disabled),
        Op::Webhook(up) => world.webhook = up,
        Op::Broken(image, true) => drop(world.broken.insert(IMAGES[image].to_owned())),
        Op::Broken(image, false) => drop(world.broken.remove(IMAGES[image])),
        Op::Settle => world.settle(),
    }
    past.push(world.seen());
}

/// Everything happens; returns what was ever against the contract.
fn run(world: &mut World, ops: &[Op]) -> Result<(), TestCaseError> {
    let mut past = vec![world.seen()];
    for (number, op) in ops.iter().enumerate() {
        happen(world, &mut past, op);
        prop_assert!(
            world.oracle.breaches.is_empty(),
            "{number}: {op:?}: {:?}",
            world.oracle.breaches
        );
    }
    Ok(())
}

/// Failures and writes stop, people approve, time passes.
fn calm(world: &mut World) {
    world.webhook = true;
    world.broken.clear();
    world.edit_rollout(|rollout| {
        rollout.spec.disabled = false;
        rollout.spec.strategy.paused = false;
    });
    world.pass(60);
    world.finish();
}

/// The end that every release must have: marks gone, the partition that people asked for, every pod on the template.
fn done(world: &World) -> Result<(), TestCaseError> {
    prop_assert_eq!(world.marks(), [names::GUARDED_BY]);
    prop_assert_eq!(Some(world.partition()), world.oracle.asked);
    let image = &world.object()["spec"]["template"]["spec"]["containers"][0]["image"];
    let on = world.on(image.as_str().unwrap());
    prop_assert_eq!(on.len(), world.view().replicas as usize, "{:?}", world.pods);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn nothing_escapes_and_nothing_sticks(mut world in worlds(), ops in vec(scaling(), 0..60)) {
        run(&mut world, &ops)?;
        calm(&mut world);
        done(&world)?;
    }

    #[test]
    fn steered_to_any_step_and_by_any_plan_nothing_escapes(mut world in worlds(), ops in vec(steering(), 0..60)) {
        run(&mut world, &ops)?;
        calm(&mut world);
        done(&world)?;
    }

    #[test]
    fn old_views_do_no_harm(mut world in worlds(), ops in vec(old_views(), 0..60)) {
        run(&mut world, &ops)?;
        calm(&mut world);
        done(&world)?;
    }

    #[test]
    fn a_lost_status_lets_nothing_escape(mut world in worlds(), ops in vec(forgetful(), 0..60)) {
        run(&mut world, &ops)?;
        calm(&mut world);
        done(&world)?;
    }

    #[test]
    fn disabled_releases_the_rest_and_enabled_holds_again(mut world in worlds(), ops in vec(interrupted(), 0..60)) {
        run(&mut world, &ops)?;
        calm(&mut world);
        prop_assert_eq!(world.marks(), [names::GUARDED_BY]);
        prop_assert_eq!(Some(world.partition()), world.oracle.asked);
        world.set_image("v4");
        calm(&mut world);
        done(&world)?;
    }

    #[test]
    fn whatever_happens_it_ends(mut world in worlds(), ops in vec(anything(), 0..60)) {
        // What escapes while admission is down is another matter.
        let mut past = vec![world.seen()];
        for op in &ops {
            happen(&mut world, &mut past, op);
            world.oracle.breaches.clear();
            world.oracle.free = true;
        }
        calm(&mut world);
        prop_assert_eq!(world.marks(), [names::GUARDED_BY]);
    }

    #[test]
    fn broken_pods_of_an_abandoned_template_do_not_stick(
        mut world in worlds(), ops in vec(scaling(), 0..30), back in any::<bool>()
    ) {
        run(&mut world, &ops)?;
        calm(&mut world);
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
    fn a_deleted_rollout_frees_its_workload(mut world in worlds(), ops in vec(scaling(), 0..40)) {
        run(&mut world, &ops)?;
        world.broken.clear();
        world.delete_rollout();
        world.restart();
        world.settle();
        prop_assert_eq!(world.marks(), Vec::<String>::new());
        prop_assert_eq!(Some(world.partition()), world.oracle.asked);
    }
}
