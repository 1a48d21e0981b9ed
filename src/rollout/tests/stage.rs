//! A world in which something happens.

use serde_json::{Value, json};

use super::api::Injection;
use super::replicas::Processes;
use super::schedule::{Cluster, IMAGES, Op, Ours, Owner, Person};
use super::world::{APP, World, rollout, steps, template};
use crate::api::v1beta1::step_state;
use crate::names;
use crate::workload::RevisionKind;

/// A world in which something happens.
pub(super) struct Stage {
    pub(super) world: World,
    processes: Processes,
    export: Option<Value>,
}

impl Stage {
    pub(super) fn new(world: World) -> Self {
        Self {
            processes: Processes::new(&world),
            export: None,
            world,
        }
    }

    pub(super) fn happen(&mut self, op: &Op) {
        match op {
            Op::Person(person) => self.person(person),
            Op::Owner(owner) => self.owner(owner),
            Op::Cluster(cluster) => self.cluster(cluster),
            Op::Ours(ours) => self.ours(ours),
        }
        self.processes.remember(&self.world);
    }

    fn person(&mut self, person: &Person) {
        let world = &mut self.world;
        let kind = world.adapter.paths().revisions;
        match *person {
            Person::Create(image, copy, partition) if world.workload.is_none() => {
                let mut object = world.manifest(3, partition, IMAGES[image]);
                if let Some(export) = self.export.as_ref().filter(|_| copy) {
                    object = export.clone();
                    if partition.is_some() {
                        json_patch::merge(&mut object, &world.wish(partition));
                    }
                }
                world.create(object);
            }
            _ if world.workload.is_none() => {}
            Person::Create(..) => {}
            Person::Image(image) => world.set_image(IMAGES[image]),
            Person::Dress(dress) => {
                // An empty map is none to the API server where it knows the kind; other empty members it keeps.
                let known = world.adapter.paths().revisions.is_some();
                let member = match (known, dress) {
                    (false, true) => json!({"metadata": {"annotations": {"dress": null}}}),
                    (false, false) => json!({"metadata": {"annotations": null}}),
                    (true, true) => json!({"spec": {"securityContext": {}}}),
                    (true, false) => json!({"spec": {"securityContext": null}}),
                };
                world.patch(&json!({"spec": {"template": member}}));
            }
            Person::Partition(partition) => world.set_partition(partition),
            Person::Share(percent) => world.set_share(percent),
            Person::Put(image, partition) => {
                let mut manifest = world.manifest(world.view().replicas, partition, "");
                manifest["spec"]["template"] = template(IMAGES[image]);
                world.put(manifest);
            }
            Person::Apply(image, partition, force) => world.apply(IMAGES[image], partition, force),
            Person::Export => self.export = world.workload.clone(),
            Person::PutExport => {
                if let Some(export) = self.export.clone() {
                    world.put(export);
                }
            }
            Person::Replicas(replicas) => world.set_replicas(replicas),
            Person::Scale(replicas) => world.scale(replicas),
            Person::NoStrategy => world.patch(&world.no_strategy()),
            Person::OnDelete(on) if kind == Some(RevisionKind::ReplicaSet) => {
                let strategy = if on {
                    world.wish(Some(6))
                } else {
                    world.no_strategy()
                };
                world.patch(&strategy);
            }
            Person::Halt(on) if kind == Some(RevisionKind::ReplicaSet) => {
                let paused = if on { json!(true) } else { json!(null) };
                world.patch(&json!({"spec": {"paused": paused}}));
            }
            Person::Halt(_) => {}
            Person::OnDelete(on) => {
                let kind = if on { json!("OnDelete") } else { json!(null) };
                world.patch(&json!({"spec": {"updateStrategy": {"type": kind}}}));
            }
            Person::StripMarks => {
                let marks = [&[names::GUARDED_BY], names::RELEASE_MARKS.as_slice()].concat();
                let none = marks.into_iter().map(|mark| (mark.to_owned(), Value::Null));
                world.strip(&Value::Object(none.collect()), &json!({}));
            }
            Person::ForgeGrant(grant) => world.strip(&json!({names::GRANTED_PARTITION: grant}), &json!({})),
            Person::StripLabel(wrong) => {
                let value = if wrong { json!("wrong") } else { json!(null) };
                world.strip(&json!({}), &json!({names::WORKLOAD_TYPE: value}));
            }
            Person::DeletePod(ordinal) => world.lose_pod(world.pod_at(ordinal)),
            Person::Delete => world.delete_workload(),
        }
    }

    fn owner(&mut self, owner: &Owner) {
        let world = &mut self.world;
        match owner {
            Owner::Approve => world.approve(),
            Owner::Pause(paused) => world.edit_rollout(|rollout| rollout.spec.strategy.paused = *paused),
            Owner::Disable(disabled) => world.edit_rollout(|rollout| rollout.spec.disabled = *disabled),
            Owner::Plan(plan) => world.replan(plan),
            Owner::Jump(to) => world.jump(*to),
            Owner::BackInBatches(by_steps) => world.back_in_batches(*by_steps),
            Owner::Delete => world.delete_rollout(),
            Owner::Create => world.create_rollout(rollout(&steps())),
            Owner::Retarget(away) => {
                let name = if *away { "another" } else { APP };
                world.edit_rollout(|rollout| name.clone_into(&mut rollout.spec.workload_ref.name));
            }
            Owner::LoseStatus => world.lose_status(),
            Owner::Damage(how) => damage(world, *how),
        }
    }

    fn cluster(&mut self, cluster: &Cluster) {
        let world = &mut self.world;
        match *cluster {
            Cluster::Operate => world.operate(),
            Cluster::Sync => world.sync(),
            Cluster::Report => world.report(),
            Cluster::Freeze(true) => world.freeze(),
            Cluster::Freeze(false) => world.frozen = None,
            Cluster::Kubelet => world.kubelet(),
            Cluster::KubeletOf(ordinal) => world.kubelet_of(world.pod_at(ordinal)),
            Cluster::Linger(lingering) => world.lingering = lingering,
            Cluster::Fail(ordinal, for_good) => world.fail_pod(world.pod_at(ordinal), for_good),
            Cluster::Broken(image, true) => {
                world.oracle.steady = false;
                world.broken.insert(IMAGES[image].to_owned());
            }
            Cluster::Broken(image, false) => drop(world.broken.remove(IMAGES[image])),
            Cluster::Pass(seconds) => world.pass(seconds),
            Cluster::Reachable(reachable) => world.unreachable = !reachable,
            Cluster::Webhook(up) => world.webhook = up,
            Cluster::Inject(injection) => world.injection = injection,
            Cluster::Fault(fault) => world.faults.push_back(fault),
        }
    }

    fn ours(&mut self, ours: &Ours) {
        let (world, processes) = (&mut self.world, &mut self.processes);
        match *ours {
            Ours::Control => world.control(),
            Ours::ControlOld(rollout, workload, pods) => {
                world.control_on(&processes.seen_before(rollout, workload, pods), usize::MAX);
            }
            Ours::Crash(survives) => world.control_on(&world.seen(), survives),
            Ours::Quiet => world.quiet(),
            Ours::Settle => world.settle(),
            Ours::CatchUp(who, part) => processes.catch_up(who, part),
            Ours::Look(who) => processes.look(world, who),
            Ours::Step(who) => processes.step(world, who),
            Ours::Send(who) => processes.send(who),
            Ours::Deliver => processes.deliver(world),
            Ours::Die(who) => processes.die(who),
        }
    }

    /// Failures and writes stop; who is to have a workload and a Rollout has them.
    pub(super) fn calm(&mut self) {
        let world = &mut self.world;
        (world.webhook, world.unreachable, world.injection) = (true, false, Injection::None);
        (world.frozen, world.lingering) = (None, false);
        world.faults.clear();
        world.broken.clear();
        if world.workload.is_none() {
            world.create(world.manifest(3, None, "v1"));
        }
        world.create_rollout(rollout(&steps()));
        world.edit_rollout(|rollout| {
            rollout.spec.disabled = false;
            rollout.spec.strategy.paused = false;
            APP.clone_into(&mut rollout.spec.workload_ref.name);
        });
        world.mend();
        world.pass(60);
    }
}

/// Status fields that nobody should write.
fn damage(world: &mut World, how: usize) {
    let Some(status) = world.rollout.as_mut().and_then(|rollout| rollout.status.as_mut()) else {
        return;
    };
    let canary = status.canary_status.get_or_insert_with(Default::default);
    match how {
        0 => canary.current_step_index = -7,
        1 => canary.current_step_index = 99,
        2 => canary.next_step_index = 99,
        3 => step_state::COMPLETED.clone_into(&mut canary.current_step_state),
        4 => status.phase.clear(),
        5 => canary.last_update_time = None,
        _ => status.conditions.clear(),
    }
    world.oracle.damaged = true;
    world.oracle_forgets_what_was_told();
    world.touch_rollout(false);
}
