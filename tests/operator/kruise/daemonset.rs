//! Advanced DaemonSet: one pod on each node. The partition is on how many nodes it stays on the revision before; a pod that is lost
//! comes back on the update revision, as that of a built-in DaemonSet does.

use serde_json::json;

use crate::app::{App, Report, UpdateStrategy};
use crate::plan::{PodAction, Why, delete, renew};
use crate::pod::{Pod, short};
use crate::revision::Revisions;

/// Decides the next writes and the status.
pub(crate) fn plan(
    app: &App,
    nodes: &[String],
    pods: &[Pod],
    revisions: &Revisions,
) -> (Vec<PodAction>, Report) {
    let places: Vec<Place<'_>> = nodes
        .iter()
        .map(|node| Place::of(node, pods, revisions))
        .collect();
    let wanted = |pod: &&Pod| pod.node.as_ref().is_some_and(|node| nodes.contains(node));
    let misplaced = pods.iter().filter(|pod| !pod.terminating && !wanted(pod));
    let mut actions: Vec<_> = misplaced.map(|pod| delete(pod, Why::Misplaced)).collect();
    for place in &places {
        place.tidy(app, revisions, &mut actions);
    }
    if app.update == UpdateStrategy::RollingUpdate && !app.pace.paused {
        update(app, &places, revisions, &mut actions);
    }
    let report = report(app, &places, pods, revisions);
    (actions, report)
}

/// A node and the pods on it.
struct Place<'p> {
    node: &'p str,
    old: Option<&'p Pod>,
    new: Option<&'p Pod>,
    /// Pods on their way out, or that have ended.
    leaving: Vec<&'p Pod>,
    /// Pods beside one of the same age.
    doubles: Vec<&'p Pod>,
}

impl<'p> Place<'p> {
    fn of(node: &'p str, pods: &'p [Pod], revisions: &Revisions) -> Self {
        let mut place = Place {
            node,
            old: None,
            new: None,
            leaving: Vec::new(),
            doubles: Vec::new(),
        };
        for pod in pods.iter().filter(|pod| pod.node.as_deref() == Some(node)) {
            let slot = if pod.runs(&revisions.update) {
                &mut place.new
            } else {
                &mut place.old
            };
            if pod.terminating || pod.finished {
                place.leaving.push(pod);
            } else if slot.is_some() {
                place.doubles.push(pod);
            } else {
                *slot = Some(pod);
            }
        }
        place
    }

    fn available(&self) -> bool {
        [self.old, self.new].into_iter().flatten().any(Pod::available)
    }

    /// Creates the pod that is missing, and deletes what has ended, is too much, or has been succeeded.
    fn tidy(&self, app: &App, revisions: &Revisions, actions: &mut Vec<PodAction>) {
        if self.old.is_none() && self.new.is_none() && self.leaving.is_empty() {
            actions.push(self.addition(revisions));
        }
        let ended = self.leaving.iter().filter(|pod| !pod.terminating);
        actions.extend(ended.map(|pod| delete(pod, Why::Finished)));
        actions.extend(self.doubles.iter().map(|pod| delete(pod, Why::Misplaced)));
        if let (Some(old), Some(new)) = (self.old, self.new)
            && (new.available() || app.pace.max_surge == 0)
        {
            actions.push(delete(old, Why::Update));
        }
    }

    fn addition(&self, revisions: &Revisions) -> PodAction {
        PodAction::Add {
            node: Some(self.node.to_owned()),
            revision: revisions.update.clone(),
        }
    }
}

/// Brings as many nodes to the update revision as the partition leaves, those whose pod is not ready first.
fn update(app: &App, places: &[Place<'_>], revisions: &Revisions, actions: &mut Vec<PodAction>) {
    let mut old: Vec<(&Place<'_>, &Pod)> = places
        .iter()
        .filter(|place| place.new.is_none())
        .filter_map(|place| Some((place, place.old?)))
        .collect();
    old.sort_by_key(|(place, pod)| (pod.ready, place.node));
    let left = old.len().saturating_sub(app.partition as usize);
    if app.pace.max_surge > 0 {
        let both = places
            .iter()
            .filter(|place| place.old.is_some() && place.new.is_some());
        let room = (app.pace.max_surge as usize).saturating_sub(both.count());
        let additions = old.into_iter().take(left.min(room));
        actions.extend(additions.map(|(place, _)| place.addition(revisions)));
        return;
    }
    let unavailable = places.iter().filter(|place| !place.available()).count();
    let mut room = (app.pace.max_unavailable as usize).saturating_sub(unavailable);
    for (_, pod) in old.into_iter().take(left) {
        if pod.ready {
            if room == 0 {
                return;
            }
            room -= 1;
        }
        actions.push(renew(app, pod, revisions));
    }
}

fn report(app: &App, places: &[Place<'_>], pods: &[Pod], revisions: &Revisions) -> Report {
    let nodes = |holds: &dyn Fn(&Place<'_>) -> bool| places.iter().filter(|place| holds(place)).count();
    let available = nodes(&|place| place.available());
    let on_wanted = |pod: &&Pod| places.iter().any(|place| pod.node.as_deref() == Some(place.node));
    let report = json!({
        "observedGeneration": app.generation,
        "desiredNumberScheduled": places.len(),
        "currentNumberScheduled": nodes(&|place| place.old.is_some() || place.new.is_some() || !place.leaving.is_empty()),
        "numberMisscheduled": pods.iter().filter(|pod| !on_wanted(pod)).count(),
        "updatedNumberScheduled": nodes(&|place| place.new.is_some()),
        "numberReady": available,
        "numberAvailable": available,
        "numberUnavailable": places.len() - available,
        "updateRevision": short(&revisions.update),
    });
    report.as_object().cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::Pace;
    use crate::kind::Owner;
    use crate::plan::tests::app;

    struct World {
        app: App,
        nodes: Vec<String>,
        revisions: Revisions,
        pods: Vec<Pod>,
        made: usize,
        /// The most nodes that were without a ready pod, and the most pods that were too many.
        extremes: (usize, usize),
    }

    impl World {
        fn on_v1(nodes: u32, pace: Pace) -> World {
            let mut world = World {
                app: app(nodes, 0),
                nodes: (0..nodes).map(|node| format!("node-{node}")).collect(),
                revisions: Revisions {
                    current: "my-app-v1".to_owned(),
                    update: "my-app-v1".to_owned(),
                },
                pods: Vec::new(),
                made: 0,
                extremes: (0, 0),
            };
            world.app.pace = pace;
            world.settle();
            world.extremes = (0, 0);
            world
        }

        fn settle(&mut self) -> Report {
            for _ in 0..100 {
                let (actions, report) = plan(&self.app, &self.nodes, &self.pods, &self.revisions);
                let mut moved = !actions.is_empty();
                for action in actions {
                    self.apply(action);
                }
                let ready = self.pods.iter().filter(|pod| pod.ready).count();
                let missing = self.nodes.len().saturating_sub(ready).max(self.extremes.0);
                let many = self.pods.len().saturating_sub(self.nodes.len());
                self.extremes = (missing, many.max(self.extremes.1));
                for pod in &mut self.pods {
                    moved |= !pod.ready;
                    pod.ready = true;
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
                    let name = format!("my-app-{}", self.made);
                    self.pods.push(Pod {
                        uid: name.clone(),
                        name,
                        owner: Owner::App("u".to_owned()),
                        // The label has the hash alone.
                        revision: Some(short(&revision).to_owned()),
                        finished: false,
                        ready: false,
                        terminating: false,
                        gate_is_due: false,
                        node,
                    });
                }
                PodAction::Delete { uid, .. } => self.pods.retain(|pod| pod.uid != uid),
                other => panic!("{other:?}"),
            }
        }

        fn patch(&mut self, update: &str, partition: u32) -> Report {
            update.clone_into(&mut self.revisions.update);
            self.app.partition = partition;
            self.settle()
        }

        fn on(&self, revision: &str) -> usize {
            self.pods.iter().filter(|pod| pod.runs(revision)).count()
        }
    }

    #[test]
    fn as_many_nodes_are_updated_as_the_partition_leaves() {
        let mut world = World::on_v1(5, Pace::default());
        let report = world.patch("my-app-v2", 32767);
        assert_eq!(world.on("my-app-v2"), 0);
        let counted = |report: &Report| {
            ["desiredNumberScheduled", "updatedNumberScheduled", "numberReady"]
                .map(|field| report[field].clone())
        };
        assert_eq!(counted(&report), [5, 0, 5].map(|n| json!(n)));
        let report = world.patch("my-app-v2", 2);
        assert_eq!((world.on("my-app-v1"), world.on("my-app-v2")), (2, 3));
        assert_eq!(counted(&report), [5, 3, 5].map(|n| json!(n)));
        assert_eq!(report["updateRevision"], "v2");
        world.patch("my-app-v2", 0);
        assert_eq!((world.on("my-app-v2"), world.extremes), (5, (1, 0)));
    }

    #[test]
    fn a_surge_puts_the_new_pod_beside_the_old_one() {
        let pace = Pace {
            max_surge: 2,
            ..Pace::default()
        };
        let mut world = World::on_v1(5, pace);
        world.patch("my-app-v2", 2);
        assert_eq!((world.on("my-app-v1"), world.on("my-app-v2")), (2, 3));
        assert_eq!(world.extremes, (0, 2));
    }

    #[test]
    fn a_paused_set_follows_the_nodes_and_is_not_updated() {
        let mut world = World::on_v1(2, Pace::default());
        world.app.pace.paused = true;
        world.patch("my-app-v2", 0);
        assert_eq!(world.on("my-app-v1"), 2);
        world.nodes = vec!["node-1".to_owned(), "node-2".to_owned()];
        world.settle();
        let on: Vec<_> = world.pods.iter().filter_map(|pod| pod.node.as_deref()).collect();
        assert_eq!(on, ["node-1", "node-2"]);
        assert_eq!((world.on("my-app-v1"), world.on("my-app-v2")), (1, 1));
    }
}
