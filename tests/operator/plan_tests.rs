//! The behaviour of the built-in StatefulSet, situation by situation, on a small simulated world.

use std::collections::HashSet;

use serde_json::json;

use super::*;
use crate::app::{Ordinals, Pace};
use crate::kind::{Kind, KindArgs};
use crate::revision::{Record, Revision, record, tests::revision};

pub(crate) fn kind() -> Kind {
    use clap::{Args, Command, FromArgMatches};
    let command = KindArgs::augment_args(Command::new("test"));
    KindArgs::from_arg_matches(&command.get_matches_from(["test"]))
        .unwrap()
        .into()
}

pub(crate) fn app(replicas: u32, partition: u32) -> App {
    App {
        name: "my-app".to_owned(),
        namespace: "default".to_owned(),
        uid: "u".to_owned(),
        generation: 1,
        replicas,
        partition,
        update: UpdateStrategy::RollingUpdate,
        management: PodManagementPolicy::OrderedReady,
        revision_history_limit: 10,
        current_revision: None,
        selector: String::new(),
        ordinals: Ordinals::default(),
        pace: Pace::default(),
    }
}

/// An app, its pods and its history; pods become ready as soon as somebody looks, except those in `stuck`.
struct World {
    app: App,
    template: u32,
    history: Vec<Revision>,
    pods: Vec<Pod>,
    stuck: HashSet<String>,
    uids: u32,
    /// Every action that was applied.
    log: Vec<PodAction>,
}

impl World {
    /// `replicas` pods, all ready on v1.
    fn on_v1(replicas: u32) -> World {
        let mut world = World {
            app: app(replicas, 0),
            template: 1,
            history: Vec::new(),
            pods: Vec::new(),
            stuck: HashSet::new(),
            uids: 0,
            log: Vec::new(),
        };
        world.settle();
        world.log.clear();
        world
    }

    fn revisions(&mut self) -> Revisions {
        let template = json!({"v": self.template});
        let update = match record(&self.app.name, &template, &self.history, &HashSet::new()) {
            Record::Latest { name } => name,
            Record::Renumber { name, number } => {
                self.history.iter_mut().find(|r| r.name == name).unwrap().number = number;
                name
            }
            Record::Create { name, number } => {
                self.history.push(revision(&name, number, template));
                name
            }
        };
        Revisions::of(&self.history, &update, self.app.current_revision.as_deref())
    }

    /// One reconcile; the status is written, the actions are returned.
    fn look(&mut self) -> (Vec<PodAction>, Status) {
        let revisions = self.revisions();
        let (actions, status) = plan(&self.app, &self.pods, &revisions);
        self.app.current_revision = Some(status.current_revision.clone());
        (actions, status)
    }

    fn apply(&mut self, action: &PodAction) {
        self.log.push(action.clone());
        match action {
            PodAction::Create { ordinal, revision } => {
                let name = pod::name(&self.app.name, *ordinal);
                assert!(self.pods.iter().all(|pod| pod.name != name), "{name} exists");
                self.uids += 1;
                self.pods.push(Pod {
                    name,
                    uid: self.uids.to_string(),
                    owner: Owner::App("u".to_owned()),
                    revision: Some(revision.clone()),
                    finished: false,
                    ready: false,
                    terminating: false,
                    gate_is_due: false,
                    node: None,
                });
            }
            PodAction::Add { .. } | PodAction::Renew { .. } | PodAction::Open { .. } => panic!("{action:?}"),
            PodAction::Delete { uid, .. } => self.pods.retain(|pod| pod.uid != *uid),
            PodAction::Adopt { uid, .. } => {
                let pod = self.pods.iter_mut().find(|pod| pod.uid == *uid).unwrap();
                pod.owner = Owner::App("u".to_owned());
            }
        }
    }

    /// Reconciles until nothing moves, and checks on the way that updates take one pod at a time.
    fn settle(&mut self) -> Status {
        for _ in 0..200 {
            let (actions, status) = self.look();
            let updates = actions
                .iter()
                .filter(|a| matches!(a, PodAction::Delete { why: Why::Update, .. }));
            assert!(updates.count() <= 1, "{actions:?}");
            for action in &actions {
                self.apply(action);
            }
            let mut moved = !actions.is_empty();
            for pod in self.pods.iter_mut().filter(|pod| !self.stuck.contains(&pod.name)) {
                moved |= !pod.ready;
                pod.ready = true;
            }
            if !moved {
                return status;
            }
        }
        panic!("does not settle: {:?}", self.log);
    }

    fn patch(&mut self, template: u32, partition: u32) -> Status {
        (self.template, self.app.partition) = (template, partition);
        self.app.generation += 1;
        self.settle()
    }

    fn lose(&mut self, ordinal: u32) -> Status {
        let name = pod::name(&self.app.name, ordinal);
        self.pods.retain(|pod| pod.name != name);
        self.settle()
    }

    /// The version that each ordinal runs.
    fn versions(&self) -> Vec<u32> {
        let mut pods: Vec<_> = self
            .pods
            .iter()
            .map(|pod| (pod.ordinal("my-app").unwrap(), pod))
            .collect();
        pods.sort_by_key(|(ordinal, _)| *ordinal);
        pods.iter()
            .map(|(_, pod)| self.version(pod.revision.as_deref().unwrap()))
            .collect()
    }

    fn version(&self, revision: &str) -> u32 {
        let found = self.history.iter().find(|r| r.name == revision).unwrap();
        u32::try_from(found.template["v"].as_u64().unwrap()).unwrap()
    }

    /// (currentRevision, updateRevision) as versions, and updatedReplicas.
    fn told(&self, status: &Status) -> (u32, u32, u32) {
        let version = |name: &str| self.version(name);
        (
            version(&status.current_revision),
            version(&status.update_revision),
            status.updated_replicas,
        )
    }

    fn deleted(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for action in &self.log {
            if let PodAction::Delete { name, .. } = action {
                names.push(name.as_str());
            }
        }
        names
    }
}

const PARKED: u32 = 32767;

#[test]
fn a_parked_partition_holds_everything_and_shows_the_update_revision_at_once() {
    let mut world = World::on_v1(5);
    let status = world.patch(2, PARKED);
    assert_eq!(world.told(&status), (1, 2, 0));
    assert_eq!(world.versions(), [1, 1, 1, 1, 1]);
    assert_eq!(
        (status.observed_generation, status.replicas, status.ready_replicas),
        (2, 5, 5)
    );
    assert_eq!(world.log, []);
}

#[test]
fn a_pod_deleted_under_the_hold_returns_on_the_current_revision() {
    let mut world = World::on_v1(5);
    world.patch(2, PARKED);
    world.lose(2);
    assert_eq!(world.versions(), [1, 1, 1, 1, 1]);
}

#[test]
fn pods_added_under_the_hold_are_on_the_current_revision() {
    let mut world = World::on_v1(5);
    world.patch(2, PARKED);
    world.app.replicas = 7;
    let status = world.settle();
    assert_eq!(world.versions(), [1; 7]);
    assert_eq!(world.told(&status), (1, 2, 0));
}

#[test]
fn a_partition_of_4_updates_one_pod_and_raising_it_does_not_revert() {
    let mut world = World::on_v1(5);
    world.patch(2, PARKED);
    let status = world.patch(2, 4);
    assert_eq!(world.versions(), [1, 1, 1, 1, 2]);
    assert_eq!(world.told(&status), (1, 2, 1));

    let status = world.patch(2, PARKED);
    assert_eq!(world.versions(), [1, 1, 1, 1, 2], "stays");
    assert_eq!(world.told(&status), (1, 2, 1));

    world.lose(4);
    assert_eq!(
        world.versions(),
        [1, 1, 1, 1, 1],
        "returns on current once it is lost"
    );
}

#[test]
fn the_update_is_not_contiguous_after_scaling_up_below_the_partition() {
    let mut world = World::on_v1(5);
    world.patch(2, 4);
    world.app.replicas = 8;
    world.patch(2, 10);
    assert_eq!(world.versions(), [1, 1, 1, 1, 2, 1, 1, 1]);
}

#[test]
fn going_back_under_the_hold_gives_the_same_revision_and_moves_nothing_until_the_partition_falls() {
    let mut world = World::on_v1(5);
    world.patch(2, 4);
    let status = world.patch(1, PARKED);
    assert_eq!(world.told(&status), (1, 1, 4));
    assert_eq!(status.current_revision, status.update_revision);
    assert_eq!(world.versions(), [1, 1, 1, 1, 2]);

    let status = world.patch(1, 0);
    assert_eq!(world.told(&status), (1, 1, 5));
    assert_eq!(world.versions(), [1; 5]);
}

#[test]
fn a_third_version_held_leaves_the_second_where_it_is_but_brings_lost_pods_back_on_the_first() {
    let mut world = World::on_v1(5);
    world.patch(2, 2);
    let status = world.patch(3, PARKED);
    assert_eq!(world.told(&status), (1, 3, 0));
    assert_eq!(world.versions(), [1, 1, 2, 2, 2]);
    world.lose(3);
    assert_eq!(world.versions(), [1, 1, 2, 1, 2]);
}

#[test]
fn an_update_takes_the_highest_first_and_completes() {
    let mut world = World::on_v1(5);
    let status = world.patch(2, 0);
    assert_eq!(
        world.deleted(),
        ["my-app-4", "my-app-3", "my-app-2", "my-app-1", "my-app-0"]
    );
    assert_eq!(world.told(&status), (2, 2, 5));
}

#[test]
fn a_complete_update_stays_complete_when_the_partition_is_put_back() {
    let mut world = World::on_v1(5);
    world.patch(4, 0);
    let status = world.patch(4, 3);
    assert_eq!(world.told(&status), (4, 4, 5));

    let status = world.patch(5, 3);
    assert_eq!(world.versions(), [4, 4, 4, 5, 5]);
    assert_eq!(world.told(&status), (4, 5, 2));
}

#[test]
fn an_update_with_one_pod_not_ready_is_not_complete() {
    let mut world = World::on_v1(5);
    world.stuck.insert("my-app-0".to_owned());
    let status = world.patch(2, 0);
    assert_eq!((world.told(&status), status.ready_replicas), ((1, 2, 5), 4));

    world.patch(2, 2);
    world.stuck.clear();
    world.lose(0);
    assert_eq!(
        world.versions(),
        [1, 2, 2, 2, 2],
        "so it returns on the old current revision"
    );
}

#[test]
fn a_new_app_over_orphans_adopts_them_and_counts_none() {
    let mut world = World::on_v1(5);
    for pod in &mut world.pods {
        pod.owner = Owner::Nobody;
    }
    world.app.current_revision = None;
    let status = world.patch(3, PARKED);
    assert_eq!(world.told(&status), (3, 3, 0));
    assert_eq!(status.replicas, 5);
    assert_eq!(world.versions(), [1; 5]);
    assert!(
        world
            .pods
            .iter()
            .all(|pod| pod.owner == Owner::App("u".to_owned()))
    );
    assert_eq!(world.deleted(), [""; 0]);
}

#[test]
fn an_update_waits_for_the_pod_above_under_either_policy() {
    for management in [PodManagementPolicy::OrderedReady, PodManagementPolicy::Parallel] {
        let mut world = World::on_v1(5);
        world.app.management = management;
        world.stuck.insert("my-app-4".to_owned());
        let status = world.patch(2, 0);
        assert_eq!(world.versions(), [1, 1, 1, 1, 2]);
        assert_eq!(world.told(&status), (1, 2, 1));
        world.stuck.clear();
        assert_eq!(world.settle().updated_replicas, 5);
    }
}

#[test]
fn a_broken_update_is_replaced_at_once_only_in_parallel() {
    let mut world = World::on_v1(3);
    world.stuck.insert("my-app-2".to_owned());
    world.patch(2, 0);
    world.patch(1, 0);
    assert_eq!(world.versions(), [1, 1, 2], "in order, it is waited for");
    world.app.management = PodManagementPolicy::Parallel;
    world.settle();
    assert_eq!(world.versions(), [1, 1, 1]);
}

#[test]
fn pods_are_created_in_order_or_at_once() {
    let mut world = World::on_v1(0);
    world.app.replicas = 3;
    let created = |world: &mut World| {
        let (actions, _) = world.look();
        actions
            .iter()
            .map(|action| target(&world.app, action))
            .collect::<Vec<_>>()
    };
    assert_eq!(created(&mut world), ["my-app-0"]);
    world.app.management = PodManagementPolicy::Parallel;
    assert_eq!(created(&mut world), ["my-app-0", "my-app-1", "my-app-2"]);
}

#[test]
fn pods_are_removed_from_the_top_in_order_or_at_once() {
    let mut world = World::on_v1(5);
    world.app.replicas = 2;
    let (actions, _) = world.look();
    assert_eq!(actions.len(), 1);
    assert_eq!(target(&world.app, &actions[0]), "my-app-4");
    world.app.management = PodManagementPolicy::Parallel;
    assert_eq!(world.look().0.len(), 3);
    world.settle();
    assert_eq!(world.versions().len(), 2);
}

#[test]
fn a_scale_down_in_order_blocks_on_an_unavailable_pod_that_is_not_the_first() {
    let mut world = World::on_v1(5);
    world.app.replicas = 2;
    for pod in &mut world.pods {
        pod.ready = !["my-app-2", "my-app-4"].contains(&pod.name.as_str());
    }
    assert_eq!(world.look().0, []);
    world
        .pods
        .iter_mut()
        .find(|pod| pod.name == "my-app-2")
        .unwrap()
        .ready = true;
    assert_eq!(world.look().0.len(), 1);
}

#[test]
fn a_terminating_pod_is_waited_for() {
    for management in [PodManagementPolicy::OrderedReady, PodManagementPolicy::Parallel] {
        let mut world = World::on_v1(3);
        (world.app.management, world.template) = (management, 2);
        let (actions, _) = world.look();
        assert_eq!(actions.len(), 1);
        world.pods[2].terminating = true;
        assert_eq!(
            world.look().0,
            [],
            "{management:?}: nothing is done twice or past it"
        );
    }
}

#[test]
fn a_finished_pod_is_replaced_once() {
    for management in [PodManagementPolicy::OrderedReady, PodManagementPolicy::Parallel] {
        let mut world = World::on_v1(3);
        (world.app.management, world.template) = (management, 2);
        (world.pods[2].finished, world.pods[2].ready) = (true, false);
        let (actions, _) = world.look();
        assert!(
            matches!(&actions[..], [PodAction::Delete { name, why: Why::Finished, .. }] if name == "my-app-2"),
            "{management:?}: {actions:?}"
        );
        world.pods[2].terminating = true;
        assert_eq!(world.look().0, []);
    }
}

#[test]
fn on_delete_updates_what_others_delete_and_never_completes() {
    let mut world = World::on_v1(3);
    world.app.update = UpdateStrategy::OnDelete;
    world.patch(2, 0);
    assert_eq!(world.versions(), [1, 1, 1]);
    world.lose(1);
    assert_eq!(world.versions(), [1, 2, 1]);
    world.lose(0);
    let status = world.lose(2);
    assert_eq!(world.told(&status), (1, 2, 3));
}

#[test]
fn no_replicas_are_complete_at_once() {
    let mut world = World::on_v1(0);
    let status = world.patch(2, PARKED);
    assert_eq!(world.told(&status), (2, 2, 0));
}

#[test]
fn places_count_where_ordinals_have_gaps() {
    let mut world = World::on_v1(0);
    world.app.ordinals = Ordinals {
        start: 10,
        reserved: [11].into(),
    };
    world.app.replicas = 3;
    world.settle();
    let names: Vec<_> = world.pods.iter().map(|pod| pod.name.as_str()).collect();
    assert_eq!(names, ["my-app-10", "my-app-12", "my-app-13"]);
    world.patch(2, 1);
    assert_eq!(world.versions(), [1, 2, 2]);
    world.lose(10);
    assert_eq!(world.versions(), [1, 2, 2]);
}

#[test]
fn a_paused_app_is_not_updated() {
    let mut world = World::on_v1(3);
    world.app.pace.paused = true;
    world.patch(2, 1);
    assert_eq!(world.versions(), [1, 1, 1]);
    world.app.pace.paused = false;
    world.settle();
    assert_eq!(world.versions(), [1, 2, 2]);
}

#[test]
fn several_pods_are_updated_at_a_time_where_they_do_not_wait_for_each_other() {
    for (management, at_once) in [
        (PodManagementPolicy::OrderedReady, 1),
        (PodManagementPolicy::Parallel, 2),
    ] {
        let mut world = World::on_v1(5);
        (world.app.management, world.app.pace.max_unavailable) = (management, 2);
        world.template = 2;
        world.app.partition = 1;
        let (actions, _) = world.look();
        assert_eq!(actions.len(), at_once, "{actions:?}");
    }
}
