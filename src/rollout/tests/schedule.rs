//! What may happen in the simulated world, in any order.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::api::{Fault, Injection};
use super::replicas::Part;
use super::world::{World, clone_set, daemon_set, deployment, native_daemon_set, steps};

pub(super) const IMAGES: [&str; 3] = ["v1", "v2", "v3"];

/// Something that somebody does.
#[derive(Clone, Debug)]
pub(super) enum Op {
    Person(Person),
    Owner(Owner),
    Cluster(Cluster),
    Ours(Ours),
}

/// Writes to the workload.
#[derive(Clone, Debug)]
pub(super) enum Person {
    Image(usize),
    /// A change that the operator does not count.
    Dress(bool),
    Partition(Option<i64>),
    /// A percentage as the partition.
    Share(u32),
    Put(usize, Option<i64>),
    /// Server-side apply, forced or not.
    Apply(usize, Option<i64>, bool),
    /// `kubectl get -o yaml`, and what comes back of it later.
    Export,
    PutExport,
    Replicas(u32),
    Scale(u32),
    NoStrategy,
    OnDelete(bool),
    /// A Deployment is paused, or resumed.
    Halt(bool),
    StripMarks,
    ForgeGrant(&'static str),
    StripLabel(bool),
    DeletePod(u32),
    Delete,
    /// Created again, from the export or from the manifest, with this partition if any.
    Create(usize, bool, Option<i64>),
}

/// Writes to the Rollout.
#[derive(Clone, Debug)]
pub(super) enum Owner {
    Approve,
    Pause(bool),
    Disable(bool),
    Plan(Value),
    /// The step to go to next.
    Jump(i32),
    /// The way back is to take steps, or not.
    BackInBatches(bool),
    Delete,
    Create,
    /// Refers to another workload, or to this one again.
    Retarget(bool),
    LoseStatus,
    /// Somebody writes nonsense into the status.
    Damage(usize),
}

/// What operator, kubelet, API server and time do.
#[derive(Clone, Debug)]
pub(super) enum Cluster {
    Operate,
    /// The operator acts, and its report comes later.
    Sync,
    Report,
    /// The operator's watch stands still, or goes on.
    Freeze(bool),
    Kubelet,
    KubeletOf(u32),
    /// Pods that were asked to go stay, or go.
    Linger(bool),
    Fail(u32, bool),
    /// Pods of this image do not become ready, or do again.
    Broken(usize, bool),
    Pass(i64),
    /// Our webhook answers.
    Reachable(bool),
    /// Our webhook is registered.
    Webhook(bool),
    Inject(Injection),
    Fault(Fault),
}

/// What the controller does.
#[derive(Clone, Debug)]
pub(super) enum Ours {
    Control,
    /// The controller acts on what it saw so many moments ago, Rollout, workload and pods apart.
    ControlOld(usize, usize, usize),
    /// The controller dies after so many actions.
    Crash(usize),
    /// The controller looks until it wants nothing, and that is soon.
    Quiet,
    /// Everybody acts until nothing changes; then the controller is silent.
    Settle,
    CatchUp(usize, Part),
    Look(usize),
    Step(usize),
    Send(usize),
    Deliver,
    Die(usize),
}

fn images() -> impl Strategy<Value = usize> {
    0..IMAGES.len()
}

pub(super) fn partitions() -> impl Strategy<Value = Option<i64>> {
    prop_oneof![Just(None), (0..7_i64).prop_map(Some)]
}

/// What always happens.
pub(super) fn common() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => images().prop_map(Person::Image).prop_map(Op::Person),
        4 => writes().prop_map(Op::Person),
        3 => Just(Op::Owner(Owner::Approve)),
        1 => any::<bool>().prop_map(|on| Op::Owner(Owner::Pause(on))),
        8 => Just(Op::Cluster(Cluster::Operate)),
        8 => Just(Op::Cluster(Cluster::Kubelet)),
        3 => moods().prop_map(Op::Cluster),
        2 => prop_oneof![Just(1), Just(299), Just(400)].prop_map(|s| Op::Cluster(Cluster::Pass(s))),
        9 => Just(Op::Ours(Ours::Control)),
        2 => (0..4_usize).prop_map(|n| Op::Ours(Ours::Crash(n))),
        1 => Just(Op::Ours(Ours::Quiet)),
    ]
}

fn writes() -> impl Strategy<Value = Person> {
    prop_oneof![
        any::<bool>().prop_map(Person::Dress),
        partitions().prop_map(Person::Partition),
        (0..101_u32).prop_map(Person::Share),
        (images(), partitions()).prop_map(|(image, partition)| Person::Put(image, partition)),
        (0..8_u32).prop_map(Person::DeletePod),
    ]
}

/// Operators and pods that are late, slow or broken.
fn moods() -> impl Strategy<Value = Cluster> {
    prop_oneof![
        2 => Just(Cluster::Sync),
        1 => Just(Cluster::Report),
        1 => any::<bool>().prop_map(Cluster::Freeze),
        3 => (0..8_u32).prop_map(Cluster::KubeletOf),
        1 => any::<bool>().prop_map(Cluster::Linger),
        1 => (0..8_u32, any::<bool>()).prop_map(|(at, for_good)| Cluster::Fail(at, for_good)),
        1 => (images(), any::<bool>()).prop_map(|(image, broken)| Cluster::Broken(image, broken)),
    ]
}

pub(super) fn scaling() -> impl Strategy<Value = Op> {
    prop_oneof![
        12 => common(),
        1 => (0..8_u32).prop_map(Person::Replicas).prop_map(Op::Person),
        1 => (0..8_u32).prop_map(Person::Scale).prop_map(Op::Person),
        1 => Just(Op::Ours(Ours::Settle)),
    ]
}

/// Sync tools, scripts, and people who touch what is ours.
pub(super) fn tools() -> impl Strategy<Value = Op> {
    let tool = prop_oneof![
        3 => (images(), partitions(), any::<bool>()).prop_map(|(i, p, force)| Person::Apply(i, p, force)),
        2 => Just(Person::Export),
        2 => Just(Person::PutExport),
        1 => Just(Person::NoStrategy),
        1 => any::<bool>().prop_map(Person::OnDelete),
        1 => any::<bool>().prop_map(Person::Halt),
        1 => Just(Person::StripMarks),
        1 => prop_oneof![Just("0"), Just(""), Just("nine")].prop_map(Person::ForgeGrant),
        1 => any::<bool>().prop_map(Person::StripLabel),
    ];
    prop_oneof![3 => scaling(), 1 => tool.prop_map(Op::Person)]
}

/// A person who disables the Rollout in mid-release.
pub(super) fn interrupted() -> impl Strategy<Value = Op> {
    prop_oneof![10 => scaling(), 1 => any::<bool>().prop_map(|on| Op::Owner(Owner::Disable(on)))]
}

/// A controller that loses its status.
pub(super) fn forgetful() -> impl Strategy<Value = Op> {
    prop_oneof![10 => common(), 1 => Just(Op::Owner(Owner::LoseStatus))]
}

/// People who change their minds about the steps.
pub(super) fn steering() -> impl Strategy<Value = Op> {
    prop_oneof![
        10 => scaling(),
        2 => (-5..8_i32).prop_map(|to| Op::Owner(Owner::Jump(to))),
        1 => plans().prop_map(|plan| Op::Owner(Owner::Plan(plan))),
        1 => any::<bool>().prop_map(|by_steps| Op::Owner(Owner::BackInBatches(by_steps))),
    ]
}

/// Processes of the controller that know nothing of each other, and an API server that fails.
pub(super) fn processes() -> impl Strategy<Value = Op> {
    let parts = [Part::Rollout, Part::Workload, Part::Revisions, Part::Pods];
    let parts = proptest::sample::select(parts.to_vec());
    let process = prop_oneof![
        6 => (0..2_usize, parts).prop_map(|(who, part)| Ours::CatchUp(who, part)),
        4 => (0..2_usize).prop_map(Ours::Look),
        8 => (0..2_usize).prop_map(Ours::Step),
        1 => (0..2_usize).prop_map(Ours::Send),
        1 => Just(Ours::Deliver),
        1 => (0..2_usize).prop_map(Ours::Die),
        1 => (0..4_usize, 0..4_usize, 0..4_usize).prop_map(|(r, w, p)| Ours::ControlOld(r, w, p)),
    ];
    let faults = prop_oneof![
        Just(Fault::Conflict),
        Just(Fault::Refused),
        Just(Fault::Broken),
        Just(Fault::Lost)
    ];
    prop_oneof![
        6 => scaling(),
        5 => process.prop_map(Op::Ours),
        1 => faults.prop_map(|fault| Op::Cluster(Cluster::Fault(fault))),
        1 => any::<bool>().prop_map(|on| Op::Cluster(Cluster::Reachable(on))),
    ]
}

/// Workload and Rollout go and come again.
pub(super) fn reborn() -> impl Strategy<Value = Op> {
    prop_oneof![
        16 => processes(),
        1 => Just(Op::Person(Person::Export)),
        1 => Just(Op::Person(Person::Delete)),
        2 => (images(), any::<bool>(), partitions())
            .prop_map(|(image, copy, partition)| Op::Person(Person::Create(image, copy, partition))),
        1 => Just(Op::Owner(Owner::Delete)),
        2 => Just(Op::Owner(Owner::Create)),
        1 => any::<bool>().prop_map(|away| Op::Owner(Owner::Retarget(away))),
    ]
}

/// Another webhook that changes templates.
pub(super) fn injected() -> impl Strategy<Value = Op> {
    let injections = prop_oneof![
        Just(Injection::None),
        Just(Injection::Constant),
        Just(Injection::Counter)
    ];
    // A template that changes with every write of ours lets nothing settle.
    let settles = |op: &Op| !matches!(op, Op::Ours(Ours::Settle | Ours::Quiet));
    prop_oneof![
        10 => tools().prop_filter("settles", settles),
        1 => injections.prop_map(|injection| Op::Cluster(Cluster::Inject(injection))),
    ]
}

/// All that keeps the promises.
pub(super) fn everything() -> impl Strategy<Value = Op> {
    prop_oneof![
        2 => tools(),
        2 => processes(),
        2 => reborn(),
        1 => interrupted(),
        1 => forgetful(),
        1 => steering(),
    ]
}

/// What breaks the first promise too.
pub(super) fn anything() -> impl Strategy<Value = Op> {
    prop_oneof![
        9 => everything(),
        1 => any::<bool>().prop_map(|on| Op::Cluster(Cluster::Webhook(on))),
        1 => (0..7_usize).prop_map(|how| Op::Owner(Owner::Damage(how))),
    ]
}

pub(super) fn plans() -> impl Strategy<Value = Value> {
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

pub(super) fn worlds() -> impl Strategy<Value = World> {
    let habits = (
        0..6_usize,
        proptest::bool::weighted(0.1),
        proptest::bool::weighted(0.1),
    );
    (1..7_u32, partitions(), plans(), habits).prop_map(|(replicas, partition, plan, habits)| {
        let (kind, current_at_once, forgets_revisions) = habits;
        let mut world = match kind {
            0 => World::in_order(replicas, partition, &plan),
            1 => World::guarded(replicas, partition, &plan),
            2 => World::of(clone_set(), replicas, partition).under(&plan),
            3 => World::of(daemon_set(), replicas, partition).under(&plan),
            4 => World::of(native_daemon_set(), replicas, partition).under(&plan),
            _ => World::of(deployment(), replicas, partition).under(&plan),
        };
        world.habits.current_at_once = current_at_once;
        world.habits.forgets_revisions = forgets_revisions;
        world
    })
}
