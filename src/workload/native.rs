//! Models of Kubernetes' own controllers, for tests: what they do by themselves, as far as we have to reckon with it.

/// Which of its ReplicaSets the controller of a paused Deployment gives all pods to: the only one that has any or, where none has,
/// that of the present template, and without one the newest. `None` where several have pods.
pub(crate) fn heir(wanted: &[u32], update: Option<usize>, newest: Option<usize>) -> Option<usize> {
    let mut active = (0..wanted.len()).filter(|place| wanted[*place] > 0);
    match (active.next(), active.next()) {
        (None, _) => update.or(newest),
        (only, None) => only,
        _ => None,
    }
}

/// What the controller of ReplicaSets does about one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turnover {
    /// Pods that it makes.
    pub(crate) made: u32,
    /// Pods that it deletes, those first that are not ready.
    pub(crate) unready: u32,
    /// Ready pods that it deletes beside these.
    pub(crate) ready: u32,
}

impl Turnover {
    /// Of a ReplicaSet that wants so many pods and has these.
    pub(crate) fn of(wanted: u32, ready: u32, unready: u32) -> Self {
        let more = (ready + unready).saturating_sub(wanted);
        Self {
            made: wanted.saturating_sub(ready + unready),
            unready: more.min(unready),
            ready: more - more.min(unready),
        }
    }
}

/// A pod of a DaemonSet on a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OnNode {
    /// Number of the node.
    pub(crate) node: u32,
    /// It has been asked to leave.
    pub(crate) leaves: bool,
    /// It has ended.
    pub(crate) ended: bool,
}

/// What the controller of DaemonSets does, whatever the update type is: on which of so many nodes it makes a pod, since there is not
/// even one on its way out, and which of these pods, oldest first, it deletes.
pub(crate) fn daemons(nodes: u32, pods: &[OnNode]) -> (Vec<u32>, Vec<usize>) {
    let empty = |node: &u32| pods.iter().all(|pod| pod.node != *node);
    let vacant = (0..nodes).filter(empty).collect();
    let runs = |pod: &OnNode| !pod.leaves && !pod.ended;
    let is_first = |at: usize| {
        let mut before = pods[..at].iter();
        !before.any(|other| other.node == pods[at].node && runs(other))
    };
    let stays = |at: usize| pods[at].node < nodes && !pods[at].ended && is_first(at);
    let surplus = (0..pods.len()).filter(|at| !pods[*at].leaves && !stays(*at));
    (vacant, surplus.collect())
}
