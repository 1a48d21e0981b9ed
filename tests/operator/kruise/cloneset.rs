//! CloneSet: pods without ordinals. The partition is how many of them stay on the revision before.

use serde_json::json;

use crate::app::{App, Report};
use crate::kind::Owner;
use crate::plan::{PodAction, Why, delete, renew};
use crate::pod::Pod;
use crate::revision::Revisions;

/// Decides the next writes and the status.
pub(crate) fn plan(app: &App, pods: &[Pod], revisions: &Revisions) -> (Vec<PodAction>, Report) {
    let pods = Pods::of(pods, revisions);
    let mut actions = pods.adoptions.clone();
    actions.extend(pods.finished.iter().map(|pod| delete(pod, Why::Finished)));
    let replicas = app.replicas as usize;
    let partition = app.partition.min(app.replicas) as usize;
    let to_update = if app.pace.paused {
        0
    } else {
        pods.old.len().saturating_sub(partition)
    };
    let wanted = replicas + to_update.min(app.pace.max_surge as usize);
    let present = pods.old.len() + pods.new.len();
    if present < wanted {
        // What the partition keeps comes back as it was.
        let kept = partition.saturating_sub(pods.old.len()).min(wanted - present);
        for place in 0..wanted - present {
            let revision = if place < kept {
                &revisions.current
            } else {
                &revisions.update
            };
            actions.push(PodAction::Add {
                node: None,
                revision: revision.clone(),
            });
        }
    } else if present > wanted {
        let beyond = pods.old.len().saturating_sub(partition);
        let leave = pods.old.iter().take(beyond);
        let leave = leave.chain(&pods.new).chain(pods.old.iter().skip(beyond));
        let leave = leave.take(present - wanted);
        actions.extend(leave.map(|pod| delete(pod, Why::ScaleDown)));
    } else {
        let ready = pods.all().filter(|pod| pod.ready).count();
        let mut spare = (ready + app.pace.max_unavailable as usize).saturating_sub(replicas);
        for pod in pods.old.iter().take(to_update) {
            if pod.ready {
                if spare == 0 {
                    break;
                }
                spare -= 1;
            }
            actions.push(renew(app, pod, revisions));
        }
    }
    let report = report(app, &pods, revisions, replicas - partition);
    (actions, report)
}

/// The pods that are meant to stay, those that are not ready first, and the others.
struct Pods<'p> {
    old: Vec<&'p Pod>,
    new: Vec<&'p Pod>,
    finished: Vec<&'p Pod>,
    adoptions: Vec<PodAction>,
}

impl<'p> Pods<'p> {
    fn of(pods: &'p [Pod], revisions: &Revisions) -> Self {
        let mut living: Vec<&Pod> = pods.iter().filter(|pod| !pod.terminating).collect();
        living.sort_by_key(|pod| (pod.ready, pod.name.clone()));
        let adoptions = living.iter().filter(|pod| pod.owner == Owner::Nobody);
        let adoptions = adoptions
            .map(|pod| PodAction::Adopt {
                name: pod.name.clone(),
                uid: pod.uid.clone(),
            })
            .collect();
        let (finished, active): (Vec<_>, Vec<_>) = living.into_iter().partition(|pod| pod.finished);
        let (new, old) = active.into_iter().partition(|pod| pod.runs(&revisions.update));
        Pods {
            old,
            new,
            finished,
            adoptions,
        }
    }

    fn all(&self) -> impl Iterator<Item = &&'p Pod> {
        self.old.iter().chain(&self.new)
    }
}

fn report(app: &App, pods: &Pods<'_>, revisions: &Revisions, expected: usize) -> Report {
    let (replicas, updated) = (pods.all().count(), pods.new.len());
    let ready = pods.all().filter(|pod| pod.ready).count();
    let updated_ready = pods.new.iter().filter(|pod| pod.ready).count();
    let complete = [replicas, updated] == [app.replicas as usize; 2];
    let current = if complete {
        &revisions.update
    } else {
        &revisions.current
    };
    let report = json!({
        "observedGeneration": app.generation,
        "replicas": replicas,
        "readyReplicas": ready,
        "availableReplicas": ready,
        "updatedReplicas": updated,
        "updatedReadyReplicas": updated_ready,
        "updatedAvailableReplicas": updated_ready,
        "expectedUpdatedReplicas": expected,
        "currentRevision": current,
        "updateRevision": revisions.update,
        "labelSelector": app.selector,
    });
    report.as_object().cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::Pace;
    use crate::plan::tests::app;

    /// A set on `v1`, or between `v1` and `v2`. Pods become ready when somebody looks again, except those on `v3`.
    struct World {
        app: App,
        update: &'static str,
        pods: Vec<Pod>,
        made: usize,
        /// The most pods that were missing, and the most that were too many, at any time.
        extremes: (usize, usize),
    }

    impl World {
        fn on_v1(replicas: u32, pace: Pace) -> World {
            let mut world = World {
                app: app(replicas, 0),
                update: "my-app-v1",
                pods: Vec::new(),
                made: 0,
                extremes: (0, 0),
            };
            world.app.pace = pace;
            world.app.current_revision = Some("my-app-v1".to_owned());
            world.settle();
            world.extremes = (0, 0);
            world
        }

        fn settle(&mut self) -> Report {
            for _ in 0..100 {
                let revisions = Revisions {
                    current: self.app.current_revision.clone().unwrap(),
                    update: self.update.to_owned(),
                };
                let (actions, report) = plan(&self.app, &self.pods, &revisions);
                self.app.current_revision = report["currentRevision"].as_str().map(str::to_owned);
                let mut moved = !actions.is_empty();
                for action in actions {
                    self.apply(action);
                }
                let ready = self.pods.iter().filter(|pod| pod.ready).count();
                let replicas = self.app.replicas as usize;
                let missing = replicas.saturating_sub(ready).max(self.extremes.0);
                self.extremes = (
                    missing,
                    self.pods.len().saturating_sub(replicas).max(self.extremes.1),
                );
                for pod in &mut self.pods {
                    let ready = !pod.runs("my-app-v3");
                    moved |= pod.ready != ready;
                    pod.ready = ready;
                }
                if !moved {
                    return report;
                }
            }
            panic!("does not settle: {:?}", self.pods);
        }

        fn apply(&mut self, action: PodAction) {
            match action {
                PodAction::Add { node, revision } => {
                    self.made += 1;
                    let name = format!("my-app-{:03}", self.made);
                    self.pods.push(Pod {
                        uid: name.clone(),
                        name,
                        owner: Owner::App("u".to_owned()),
                        revision: Some(revision),
                        finished: false,
                        ready: false,
                        terminating: false,
                        gate_is_due: false,
                        node,
                    });
                }
                PodAction::Delete { uid, .. } => self.pods.retain(|pod| pod.uid != uid),
                PodAction::Renew { uid, revision, .. } => {
                    let pod = self.pods.iter_mut().find(|pod| pod.uid == uid).unwrap();
                    (pod.revision, pod.ready) = (Some(revision), false);
                }
                other => panic!("{other:?}"),
            }
        }

        fn patch(&mut self, update: &'static str, partition: u32) -> Report {
            (self.update, self.app.partition) = (update, partition);
            self.settle()
        }

        fn on(&self, revision: &str) -> usize {
            self.pods.iter().filter(|pod| pod.runs(revision)).count()
        }

        fn scale(&mut self, replicas: u32) {
            self.app.replicas = replicas;
            self.settle();
        }
    }

    #[test]
    fn as_many_are_updated_as_the_partition_leaves() {
        let mut world = World::on_v1(5, Pace::default());
        let report = world.patch("my-app-v2", 5);
        assert_eq!(
            (world.on("my-app-v2"), &report["expectedUpdatedReplicas"]),
            (0, &json!(0))
        );
        let report = world.patch("my-app-v2", 4);
        assert_eq!(world.on("my-app-v2"), 1);
        assert_eq!(
            [
                "replicas",
                "updatedReplicas",
                "updatedReadyReplicas",
                "expectedUpdatedReplicas"
            ]
            .map(|f| &report[f]),
            [&json!(5), &json!(1), &json!(1), &json!(1)]
        );
        assert_eq!(
            (&report["currentRevision"], &report["updateRevision"]),
            (&json!("my-app-v1"), &json!("my-app-v2"))
        );
        // Raised again: nothing comes back.
        world.patch("my-app-v2", 5);
        assert_eq!(world.on("my-app-v2"), 1);
        let report = world.patch("my-app-v2", 0);
        assert_eq!(
            (world.on("my-app-v2"), &report["currentRevision"]),
            (5, &json!("my-app-v2"))
        );
        assert_eq!(world.extremes, (1, 0));
    }

    #[test]
    fn a_surge_adds_before_it_takes_away_and_never_updates_more() {
        let pace = Pace {
            max_surge: 2,
            max_unavailable: 0,
            ..Pace::default()
        };
        let mut world = World::on_v1(5, pace);
        world.patch("my-app-v2", 3);
        assert_eq!((world.on("my-app-v1"), world.on("my-app-v2")), (3, 2));
        assert_eq!(world.extremes, (0, 2));
    }

    #[test]
    fn pods_that_are_updated_in_place_stay() {
        let pace = Pace {
            in_place: true,
            ..Pace::default()
        };
        let mut world = World::on_v1(5, pace);
        let report = world.patch("my-app-v2", 2);
        assert_eq!((world.on("my-app-v1"), world.on("my-app-v2")), (2, 3));
        assert_eq!(report["updatedReadyReplicas"], 3);
        world.patch("my-app-v1", 0);
        assert_eq!((world.on("my-app-v1"), world.extremes), (5, (1, 0)));
        assert_eq!(world.made, 5);
    }

    #[test]
    fn a_paused_set_is_scaled_and_not_updated() {
        let mut world = World::on_v1(3, Pace::default());
        world.app.pace.paused = true;
        world.patch("my-app-v2", 1);
        assert_eq!(world.on("my-app-v1"), 3);
        world.app.pace.paused = false;
        world.settle();
        assert_eq!(world.on("my-app-v2"), 2);
    }

    #[test]
    fn scaling_and_losses_keep_what_the_partition_keeps() {
        let mut world = World::on_v1(5, Pace::default());
        world.patch("my-app-v2", 4);
        let lost = world.pods.iter().position(|pod| pod.runs("my-app-v1")).unwrap();
        world.pods.remove(lost);
        world.settle();
        assert_eq!((world.on("my-app-v1"), world.on("my-app-v2")), (4, 1));
        world.app.partition = 9;
        world.scale(10);
        assert_eq!((world.on("my-app-v1"), world.on("my-app-v2")), (9, 1));
        world.app.partition = 4;
        world.scale(5);
        assert_eq!((world.on("my-app-v1"), world.on("my-app-v2")), (4, 1));
    }

    #[test]
    fn pods_that_never_become_ready_hold_the_others_up_and_leave_first() {
        let mut world = World::on_v1(5, Pace::default());
        world.patch("my-app-v3", 0);
        assert_eq!((world.on("my-app-v1"), world.on("my-app-v3")), (4, 1));
        world.patch("my-app-v2", 0);
        assert_eq!((world.on("my-app-v2"), world.extremes), (5, (1, 0)));
    }
}
