//! Whose turn it is: which pods of a DaemonSet are replaced now, and which are put back.
//!
//! Under `OnDelete` the DaemonSet controller replaces nothing, but whatever it makes is of the newest template: on a node without
//! a pod, be the node new or its pod lost. So two things are counted as exposed: the pods that run the update revision, and the nodes
//! without a living pod, which will come to run it. While fewer are exposed than granted, pods of other revisions are deleted. While
//! more are, the pods that nobody asked for are put back to the stable revision until their turn.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::workload::PodView;

/// A DaemonSet at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scene<'a> {
    /// Nodes that want a pod.
    pub(super) desired: u32,
    /// Nodes that want none and have one all the same, beside these: some taint lets a pod stay and none come.
    pub(super) misplaced: u32,
    /// Pods that may run the update revision.
    pub(super) exposure: u32,
    /// Nothing is kept back.
    pub(super) open: bool,
    /// Revision of the present template.
    pub(super) update: &'a str,
    /// Revision of the stable template; `None` where there is no record of it any more.
    pub(super) stable: Option<&'a str>,
    /// How many nodes may be without an available pod because of us.
    pub(super) max_unavailable: u32,
    /// How long a pod has to be ready before it is available.
    pub(super) min_ready_seconds: u32,
    /// The time.
    pub(super) now: Timestamp,
    /// All pods of the DaemonSet.
    pub(super) pods: &'a [PodView],
}

/// What is to be done with one pod or node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn<'a> {
    /// The pod is deleted, and the DaemonSet controller makes one of the update revision.
    Replace(&'a PodView),
    /// The pod is deleted, and one of the stable revision is made on its node meanwhile.
    PutBack(&'a PodView),
    /// One of the stable revision is made where this pod is on its way out.
    Keep(&'a PodView),
}

/// The pods of one node.
#[derive(Default)]
struct Node<'a> {
    living: Vec<&'a PodView>,
    leaving: Vec<&'a PodView>,
}

/// Whose turn it is now.
pub(super) fn turns<'a>(scene: &Scene<'a>) -> Vec<Turn<'a>> {
    let nodes = nodes(scene.pods);
    let living = count(nodes.values().filter(|node| !node.living.is_empty()));
    let vacant = scene.desired.saturating_sub(living);
    // Nobody says which pods are the misplaced ones. A node that lacks its pod must not be hidden by them.
    // Nor must one whose pod leaves, while the status has not seen that it wants another one.
    let known = scene.desired.saturating_add(scene.misplaced);
    let pods_at_most = known.max(count(nodes.values()));
    let vacant_at_most = pods_at_most - living;
    // Where there are more, the DaemonSet controller removes all but one.
    let settled: Vec<&PodView> = nodes
        .values()
        .filter_map(|node| match node.living[..] {
            [only] => Some(only),
            _ => None,
        })
        .collect();
    let available = count(settled.iter().filter(|pod| scene.is_available(pod)));
    let unavailable = pods_at_most.saturating_sub(available);
    let mut budget = scene.max_unavailable.saturating_sub(unavailable);
    let updated = count(scene.pods.iter().filter(|pod| pod.runs(scene.update)));
    let exposed = updated.saturating_add(vacant);

    if exposed <= scene.exposure {
        let exposed_at_most = updated.saturating_add(vacant_at_most);
        let wanted = if scene.open && pods_at_most == known {
            // The misplaced ones too, which nobody makes anew. Where more nodes have a pod than the status knows, it is late, and the
            // grant is one for the nodes of before.
            usize::MAX
        } else {
            scene.exposure.saturating_sub(exposed_at_most) as usize
        };
        let old = settled.into_iter().filter(|pod| !pod.runs(scene.update));
        let turns = scene.affordable(scene.by_turn(old.collect()), &mut budget);
        return turns.take(wanted).map(Turn::Replace).collect();
    }
    if scene.stable.is_none_or(|stable| stable == scene.update) {
        return Vec::new();
    }
    let beyond = (exposed - scene.exposure).min(vacant) as usize;
    let left = nodes.values().filter(|node| node.living.is_empty());
    // Where two leave, one of them was made instead of the other: whoever removes it does so again.
    let left = left.filter_map(|node| match node.leaving[..] {
        [only] => Some(only),
        _ => None,
    });
    let mut turns: Vec<_> = left.take(beyond).map(Turn::Keep).collect();

    let new = scene.pods.iter().filter(|pod| pod.runs(scene.update));
    let mut back = granted_last(new.collect());
    // None that was granted goes because another one cannot go yet.
    back.truncate(updated.saturating_sub(scene.exposure) as usize);
    back.retain(|pod| settled.iter().any(|other| other.name == pod.name));
    turns.extend(scene.affordable(back, &mut budget).map(Turn::PutBack));
    turns
}

impl<'a> Scene<'a> {
    fn is_available(&self, pod: &PodView) -> bool {
        pod.ready && pod.fresh_until(self.min_ready_seconds, self.now).is_none()
    }

    /// Those whose deletion leaves no more nodes without an available pod than there may be: of pods that are not available any.
    fn affordable<'p>(
        &self,
        pods: Vec<&'a PodView>,
        budget: &'p mut u32,
    ) -> impl Iterator<Item = &'a PodView> + use<'a, 'p> {
        let scene = *self;
        pods.into_iter().filter(move |pod| {
            if !scene.is_available(pod) {
                return true;
            }
            let affordable = *budget > 0;
            *budget = budget.saturating_sub(1);
            affordable
        })
    }

    /// Pods of a revision in between first, so that the stable ones are replaced once; of these who is missed least.
    fn by_turn(&self, mut pods: Vec<&'a PodView>) -> Vec<&'a PodView> {
        pods.sort_by_key(|pod| {
            let is_stable = self.stable.is_some_and(|stable| pod.runs(stable));
            let scheduled = pod.trouble.as_ref().is_none_or(|trouble| trouble.node.is_some());
            let missed = (scheduled, self.is_available(pod), pod.deletion_cost);
            (is_stable, missed, Reverse(pod.created), &pod.name)
        });
        pods
    }
}

/// Pods that were granted come last: those that carry the label of a batch, and of the others those that came first.
fn granted_last(mut pods: Vec<&PodView>) -> Vec<&PodView> {
    pods.sort_by_key(|pod| {
        let labelled = pod.batch_id.is_some();
        (labelled, Reverse(pod.created), pod.ready, &pod.name)
    });
    pods
}

/// The pods by node. Pods that have ended are left to the DaemonSet controller, which replaces them.
fn nodes(pods: &[PodView]) -> BTreeMap<&str, Node<'_>> {
    let mut nodes: BTreeMap<&str, Node<'_>> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| !pod.finished) {
        if let Some(name) = &pod.node {
            let node = nodes.entry(name).or_default();
            if pod.terminating {
                node.leaving.push(pod);
            } else {
                node.living.push(pod);
            }
        }
    }
    nodes
}

fn count<T>(items: impl Iterator<Item = T>) -> u32 {
    items.count().try_into().unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::names;

    /// Pods, as `node:revision` with these signs: `!` not ready, `?` not scheduled, `-` on its way out, `x` ended, `$` costly to
    /// delete, `+` made later than the others, `#` of a batch.
    fn pods(text: &str) -> Vec<PodView> {
        let pods = text.split_whitespace().enumerate();
        pods.map(|(index, pod)| {
            let (node, rest) = pod.split_once(':').unwrap();
            let revision = rest.trim_end_matches(['!', '?', '-', 'x', '$', '+', '#']);
            let has = |sign| rest.contains(sign);
            let ready = !(has('!') || has('?') || has('x'));
            let mut pod = json!({
                "metadata": {"name": format!("{node}-{index}"), "labels": {"controller-revision-hash": revision},
                    "creationTimestamp": if has('+') { "2026-01-01T00:00:09Z" } else { "2026-01-01T00:00:00Z" },
                    "annotations": {"controller.kubernetes.io/pod-deletion-cost": if has('$') { "5" } else { "junk" }}},
                "spec": {"nodeName": node},
                "status": {"phase": if has('x') { "Failed" } else { "Running" }, "conditions": [{"type": "Ready",
                    "status": if ready { "True" } else { "False" }, "lastTransitionTime": "2026-01-01T00:00:10Z"}]},
            });
            if has('?') {
                pod["spec"] = json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                    {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]}}}});
            }
            if has('#') {
                pod["metadata"]["labels"][names::ROLLOUT_BATCH_ID] = Value::from("1");
            }
            if has('-') {
                pod["metadata"]["deletionTimestamp"] = Value::from("2026-01-01T00:00:40Z");
            }
            PodView::read(&pod)
        })
        .collect()
    }

    fn scene(pods: &[PodView]) -> Scene<'_> {
        Scene {
            desired: 5,
            misplaced: 0,
            exposure: 1,
            open: false,
            update: "v2",
            stable: Some("v1"),
            max_unavailable: 1,
            min_ready_seconds: 0,
            now: "2026-01-01T00:01:00Z".parse().unwrap(),
            pods,
        }
    }

    fn told(scene: &Scene<'_>) -> String {
        let node = |pod: &PodView| pod.node.clone().unwrap();
        let told = turns(scene).into_iter().map(|turn| match turn {
            Turn::Replace(pod) => format!("replace {}", node(pod)),
            Turn::PutBack(pod) => format!("back {}", node(pod)),
            Turn::Keep(pod) => format!("keep {}", node(pod)),
        });
        told.collect::<Vec<_>>().join(", ")
    }

    #[rstest]
    #[case::held("a:v1 b:v1 c:v1 d:v1 e:v1", 0, "")]
    #[case::the_first("a:v1 b:v1 c:v1 d:v1 e:v1", 1, "replace a")]
    #[case::it_leaves("a:v1- b:v1 c:v1 d:v1 e:v1", 1, "")]
    #[case::it_is_gone("b:v1 c:v1 d:v1 e:v1", 1, "")]
    #[case::it_comes("a:v2! b:v1 c:v1 d:v1 e:v1", 1, "")]
    #[case::it_is_there("a:v2 b:v1 c:v1 d:v1 e:v1", 1, "")]
    #[case::the_next("a:v2 b:v1 c:v1 d:v1 e:v1", 3, "replace b")]
    #[case::one_at_a_time("a:v2 b:v1- c:v1 d:v1 e:v1", 3, "")]
    #[case::nor_while_the_new_one_fails("a:v2! b:v1 c:v1 d:v1 e:v1", 3, "")]
    #[case::what_fails_already_is_replaced("a:v2! b:v1 c:v1! d:v1! e:v1", 3, "replace c, replace d")]
    #[case::no_more_of_it_than_granted("a:v1! b:v1! c:v1! d:v1 e:v1", 1, "replace a")]
    #[case::not_scheduled_first("a:v1! b:v1? c:v1 d:v1 e:v1", 1, "replace b")]
    #[case::the_cheap_first("a:v1$ b:v1 c:v1$ d:v1 e:v1", 1, "replace b")]
    #[case::the_youngest_first("a:v1 b:v1 c:v1+ d:v1 e:v1+", 1, "replace c")]
    #[case::cost_counts_more("a:v1 b:v1 c:v1+$ d:v1 e:v1", 1, "replace a")]
    #[case::in_between_first("a:v1+ b:v1 c:v0$ d:v1 e:v1", 1, "replace c")]
    #[case::an_unready_one_instead("a:v1! b:v1 c:v0 d:v1 e:v1", 1, "replace a")]
    #[case::two_on_a_node("a:v1 a:v1 b:v1 c:v1 d:v1 e:v1", 1, "")]
    #[case::ended_is_as_good_as_gone("a:v1x b:v1 c:v1 d:v1 e:v1", 1, "")]
    fn forward(#[case] text: &str, #[case] exposure: u32, #[case] expected: &str) {
        let pods = pods(text);
        let scene = Scene {
            exposure,
            ..scene(&pods)
        };
        assert_eq!(told(&scene), expected);
    }

    #[rstest]
    #[case::a_new_node("a:v2 b:v1 c:v1 d:v1 e:v2!+", 1, "back e")]
    #[case::unscheduled("a:v2 b:v1 c:v1 d:v1 e:v2?+", 1, "back e")]
    #[case::ready_already("a:v2 b:v1 c:v1 d:v1 e:v2+", 1, "back e")]
    #[case::two_of_them("a:v2 b:v1 c:v1 d:v2+ e:v2+", 1, "back d")]
    #[case::two_that_are_not_ready("a:v2 b:v1 c:v1 d:v2!+ e:v2!+", 1, "back d, back e")]
    #[case::of_one_age("a:v2! b:v1 c:v1 d:v1 e:v2", 1, "back a")]
    #[case::granted("a:v2# b:v1 c:v1 d:v1 e:v2", 1, "back e")]
    #[case::granted_and_failing("a:v2!# b:v1 c:v1 d:v1 e:v2", 1, "")]
    #[case::before_the_first_grant("a:v2 b:v1 c:v1 d:v1 e:v1", 0, "back a")]
    #[case::taken_away_by_somebody("a:v2 b:v1- c:v1 d:v1 e:v1", 1, "keep b")]
    #[case::taken_away_twice("a:v2 b:v1- b:v1- c:v1 d:v1 e:v1", 1, "")]
    #[case::both("a:v2 b:v1- c:v1 d:v1 e:v2!+", 1, "keep b, back e")]
    #[case::one_of_two_was_granted("a:v1- b:v1- c:v1 d:v1 e:v1", 1, "keep a")]
    #[case::kept_already("a:v2 b:v1- b:v1?+ c:v1 d:v1 e:v1", 1, "")]
    #[case::gone_before_we_saw("a:v2 c:v1 d:v1 e:v1", 1, "")]
    #[case::lost_the_race("a:v2 b:v2!+ b:v1?+ c:v1 d:v1 e:v1", 1, "")]
    #[case::lost_the_race_and_another_fails("a:v2!# b:v2!+ b:v1?+ c:v1 d:v1 e:v1", 1, "")]
    #[case::a_node_that_wants_none("a:v2 b:v1 c:v1 d:v1 e:v1 f:v1-", 1, "")]
    #[case::while_another_fails("a:v2 b:v1! c:v1 d:v1 e:v2+", 1, "")]
    fn back(#[case] text: &str, #[case] exposure: u32, #[case] expected: &str) {
        let pods = pods(text);
        let scene = Scene {
            exposure,
            ..scene(&pods)
        };
        assert_eq!(told(&scene), expected);
    }

    #[test]
    fn nothing_is_put_back_to_a_revision_that_is_not_known_or_wanted() {
        let pods = pods("a:v2 b:v1- c:v1 d:v1 e:v2!+");
        for stable in [None, Some("v2")] {
            assert_eq!(
                told(&Scene {
                    stable,
                    ..scene(&pods)
                }),
                "",
                "{stable:?}"
            );
        }
    }

    #[test]
    fn as_many_at_once_as_people_allow() {
        let pods = pods("a:v1 b:v1 c:v1 d:v1- e:v1");
        let told_at = |max_unavailable, exposure| {
            told(&Scene {
                max_unavailable,
                exposure,
                ..scene(&pods)
            })
        };
        assert_eq!(told_at(1, 5), "");
        assert_eq!(told_at(2, 5), "replace a");
        assert_eq!(told_at(3, 5), "replace a, replace b");
        assert_eq!(told_at(5, 5), "replace a, replace b, replace c, replace e");
        assert_eq!(told_at(5, 2), "replace a");
    }

    #[test]
    fn ready_is_not_available_yet() {
        let pods = pods("a:v2 b:v1 c:v1 d:v1 e:v1");
        let seconds = |min_ready_seconds| {
            told(&Scene {
                min_ready_seconds,
                exposure: 3,
                ..scene(&pods)
            })
        };
        assert_eq!(seconds(50), "replace b");
        // None is available: all may be replaced.
        assert_eq!(seconds(51), "replace b, replace c");
    }

    #[rstest]
    #[case::it_leaves("a:v1- b:v1 c:v1 d:v1 e:v1", 1, false, "")]
    #[case::it_is_gone("b:v1 c:v1 d:v1 e:v1", 1, false, "")]
    #[case::it_is_there("a:v2 b:v1 c:v1 d:v1 e:v1", 1, false, "")]
    #[case::the_next("a:v2 b:v1 c:v1 d:v1 e:v1", 2, false, "replace b")]
    #[case::one_at_a_time("a:v2 b:v1- c:v1 d:v1 e:v1", 3, true, "")]
    #[case::in_the_end("a:v2 b:v2 c:v2 d:v1 e:v1", 3, true, "replace d")]
    #[case::left_alone_before("a:v2 b:v2 c:v2 d:v1 e:v1", 3, false, "")]
    #[case::taken_away_by_somebody("a:v2 b:v2 c:v2 d:v1- e:v1", 3, false, "")]
    fn of_five_pods_two_are_misplaced(
        #[case] text: &str,
        #[case] exposure: u32,
        #[case] open: bool,
        #[case] expected: &str,
    ) {
        let pods = pods(text);
        let scene = Scene {
            desired: 3,
            misplaced: 2,
            exposure,
            open,
            ..scene(&pods)
        };
        assert_eq!(told(&scene), expected);
    }

    #[rstest]
    #[case::all_of_them("a:v2 b:v1!", 1, 1, "replace b")]
    #[case::none_of_them("a:v2 b:v1!", 1, 0, "")]
    #[case::nor_is_one_that_leaves("a:v1 b:v1-", 1, 0, "")]
    #[case::as_many_as_granted("a:v1! b:v1! c:v1!", 2, 0, "replace a, replace b")]
    fn pods_that_the_status_has_not_seen_are_not_taken_for_misplaced(
        #[case] text: &str,
        #[case] desired: u32,
        #[case] misplaced: u32,
        #[case] expected: &str,
    ) {
        let pods = pods(text);
        let scene = Scene {
            desired,
            misplaced,
            exposure: desired,
            open: true,
            ..scene(&pods)
        };
        assert_eq!(told(&scene), expected);
    }

    #[test]
    fn more_nodes_want_a_pod_than_have_one() {
        let pods = pods("a:v1 b:v1 c:v1 d:v1 e:v1");
        assert_eq!(
            told(&Scene {
                desired: 6,
                ..scene(&pods)
            }),
            ""
        );
        assert_eq!(
            told(&Scene {
                desired: 4,
                ..scene(&pods)
            }),
            "replace a"
        );
    }
}
