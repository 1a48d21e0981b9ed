//! From the Rollout to its workload, to the revisions, to the batches, to the pods.

use jiff::Timestamp;
use kruise_rollout::report::{PodReport, RolloutReport};
use kruise_rollout::workload::pod::names_revision;

use super::table::Table;
use super::{NONE, Theme, age, count, icon, plain};

/// What a branch has in front.
struct Art {
    fork: &'static str,
    last: &'static str,
    bar: &'static str,
}

const UNICODE: Art = Art {
    fork: "├─ ",
    last: "└─ ",
    bar: "│  ",
};
const ASCII: Art = Art {
    fork: "|- ",
    last: "`- ",
    bar: "|  ",
};

/// One node: its cells behind the name, and what is below it.
struct Node {
    name: String,
    cells: [String; 3],
    below: Vec<Node>,
}

impl Node {
    fn new(name: String, state: String, age: String, info: String) -> Self {
        Self {
            name,
            cells: [state, age, info],
            below: Vec::new(),
        }
    }

    fn rows(self, art: &Art, own: &str, indent: &str, rows: &mut Vec<Vec<String>>) {
        let mut row = vec![format!("{own}{}", self.name)];
        row.extend(self.cells);
        rows.push(row);
        let last = self.below.len().saturating_sub(1);
        for (place, node) in self.below.into_iter().enumerate() {
            let (branch, next) = if place == last {
                (art.last, "   ")
            } else {
                (art.fork, art.bar)
            };
            node.rows(
                art,
                &format!("{indent}{branch}"),
                &format!("{indent}{next}"),
                rows,
            );
        }
    }
}

/// The tree. `pods` is `None` where they could not be read; `age` is that of the workload.
pub(crate) fn tree(
    report: &RolloutReport,
    pods: Option<&[PodReport]>,
    workload_created: Option<Timestamp>,
    theme: Theme,
    now: Timestamp,
) -> Vec<String> {
    let workload = &report.workload;
    let mut below = Node::new(
        format!("{}/{}", plain(&workload.kind), plain(&workload.name)),
        match workload.found {
            Some(false) => "missing".to_owned(),
            None => "not shown".to_owned(),
            Some(true) => format!("{}/{} updated", count(workload.updated), count(workload.replicas)),
        },
        age(workload_created, now),
        workload
            .partition
            .map(|partition| format!("partition {partition}"))
            .unwrap_or_default(),
    );
    below.below = pods
        .map(|pods| revisions(report, pods, theme, now))
        .unwrap_or_default();
    let mut root = Node::new(
        format!("Rollout/{}", report.name),
        format!("{} {}", icon(report, theme), plain(report.state.word())),
        age(report.created, now),
        String::new(),
    );
    root.below.push(below);
    let mut rows = Vec::new();
    let art = if theme.unicode { &UNICODE } else { &ASCII };
    root.rows(art, "", "", &mut rows);
    Table::lines(&["NAME", "STATE", "AGE", "INFO"], &rows, true)
}

/// One node for each revision that pods run: the update first, then the stable one.
fn revisions(report: &RolloutReport, pods: &[PodReport], theme: Theme, now: Timestamp) -> Vec<Node> {
    let mut names: Vec<Option<&str>> = Vec::new();
    for pod in pods {
        let revision = pod.revision.as_deref();
        if !names.contains(&revision) {
            names.push(revision);
        }
    }
    let is = |name: &Option<&str>, revision: &Option<String>| {
        let named = name.zip(revision.as_deref());
        named.is_some_and(|(name, revision)| names_revision(name, revision))
    };
    let (stable, update) = (&report.revisions.stable, &report.revisions.update);
    names.sort_by_key(|name| (!is(name, update), !is(name, stable), *name));
    let node = |name: Option<&str>| {
        let own: Vec<_> = pods
            .iter()
            .filter(|pod| pod.revision.as_deref() == name)
            .collect();
        let ready = own.iter().filter(|pod| pod.ready).count();
        let word = match (is(&name, update), is(&name, stable)) {
            (true, true) => "stable, update",
            (true, false) => "update",
            (false, true) => "stable",
            (false, false) => "other",
        };
        let pods = if own.len() == 1 { "pod" } else { "pods" };
        let mut node = Node::new(
            format!("revision {}", plain(name.unwrap_or(NONE))),
            word.to_owned(),
            String::new(),
            format!("{} {pods}, {ready} ready", own.len()),
        );
        node.below = batches(&own, theme, now);
        node
    };
    names.into_iter().map(node).collect()
}

/// Pods by the batch that they came with; those without one stand for themselves.
fn batches(pods: &[&PodReport], theme: Theme, now: Timestamp) -> Vec<Node> {
    let mut numbers: Vec<_> = pods.iter().filter_map(|pod| pod.batch).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let of = |batch: Option<usize>| pods.iter().filter(move |pod| pod.batch == batch);
    let mut nodes: Vec<_> = numbers
        .into_iter()
        .map(|number| {
            let mut node = Node::new(
                format!("batch {number}"),
                String::new(),
                String::new(),
                String::new(),
            );
            node.below = of(Some(number)).map(|pod| leaf(pod, theme, now)).collect();
            node
        })
        .collect();
    nodes.extend(of(None).map(|pod| leaf(pod, theme, now)));
    nodes
}

fn leaf(pod: &PodReport, theme: Theme, now: Timestamp) -> Node {
    let mark = match (pod.ready, theme.unicode) {
        (true, true) => "✔",
        (false, true) => "✖",
        (true, false) => "+",
        (false, false) => "x",
    };
    let mut info = format!("{}/{}", pod.ready_containers, pod.containers);
    match pod.restarts {
        0 => {}
        1 => info.push_str(", 1 restart"),
        many => info.push_str(&format!(", {many} restarts")),
    }
    if let Some(detail) = &pod.detail {
        info.push_str(&format!(", {}", plain(detail)));
    }
    Node::new(
        pod.name.clone(),
        format!("{mark} {}", plain(&pod.state)),
        age(pod.created, now),
        info,
    )
}
