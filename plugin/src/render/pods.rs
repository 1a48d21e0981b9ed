//! The pods of a release by batch: those that are not ready first and one by one, the others folded.

use std::collections::BTreeMap;

use dialoguer::console::measure_text_width;
use kruise_rollout::report::{RolloutReport, State};
use kruise_rollout::workload::PodView;

use super::fit::pad;
use super::scene::{Scene, age};
use super::steps::dots;
use super::{Role, Theme, plain};
use crate::cli::Pods;

/// Where a pod belongs; the newest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    /// A batch of the release, from 1; later ones stand above.
    Batch(std::cmp::Reverse<usize>),
    /// It has the new template, and nobody knows since which batch.
    Updated,
    /// It has another template.
    Other,
}

#[derive(Default)]
struct Members<'a> {
    bad: Vec<&'a PodView>,
    healthy: Vec<&'a PodView>,
}

/// The tree in at most so many rows.
pub(super) fn tree(scene: &Scene<'_>, which: Pods, rows: usize, columns: usize, theme: Theme) -> Vec<String> {
    let Some(pods) = scene.pods.filter(|_| which != Pods::None && rows > 0) else {
        return Vec::new();
    };
    let groups = grouped(scene.report, pods);
    let mut lines = unhealthy(scene, &groups, rows, theme);
    if which == Pods::Bad {
        return lines;
    }
    for (group, members) in &groups {
        if members.healthy.is_empty() || lines.len() >= rows {
            continue;
        }
        let named = match which {
            Pods::All => true,
            _ => *group == current(scene.report),
        };
        lines.push(healthy(*group, members, named, columns, scene.report, theme));
    }
    lines
}

/// Pods that are not ready, one a row, each with its reason.
fn unhealthy(
    scene: &Scene<'_>,
    groups: &BTreeMap<Group, Members<'_>>,
    rows: usize,
    theme: Theme,
) -> Vec<String> {
    let bad: Vec<(Group, &PodView)> = groups
        .iter()
        .flat_map(|(group, members)| members.bad.iter().map(|pod| (*group, *pod)))
        .collect();
    let shown = if bad.len() > rows {
        rows.saturating_sub(1)
    } else {
        bad.len()
    };
    let name = bad
        .iter()
        .take(shown)
        .map(|(_, pod)| pod.name.len())
        .max()
        .unwrap_or(0);
    let mut last = None;
    let mut lines = Vec::new();
    for (group, pod) in bad.iter().take(shown) {
        let label = if last == Some(*group) {
            pad("", LABEL)
        } else {
            label(*group, scene.report)
        };
        last = Some(*group);
        let since = pod.steadily_since().and_then(|since| age(since, scene.now));
        let since = since.map(|age| format!("  {age}")).unwrap_or_default();
        let mark = if theme.unicode { "✖" } else { "x" };
        let role = if pod.terminating { Role::Quiet } else { Role::Bad };
        let text = format!("{mark} {}  {}{since}", pad(&plain(&pod.name), name), why(pod));
        lines.push(format!("{label}{}", theme.paint(role, &text)));
    }
    let hidden = bad.len() - shown;
    if hidden > 0 {
        let text = format!("{} {hidden} more not ready", dots(theme));
        lines.push(format!("{}{}", pad("", LABEL), theme.paint(Role::Bad, &text)));
    }
    lines
}

fn why(pod: &PodView) -> String {
    if pod.terminating {
        return "Terminating".to_owned();
    }
    let said = pod.trouble.as_ref().map(|trouble| trouble.why.as_str());
    plain(said.or(pod.reason.as_deref()).unwrap_or("not ready"))
}

/// As many names as there is room for, and how many more.
fn healthy(
    group: Group,
    members: &Members<'_>,
    named: bool,
    columns: usize,
    report: &RolloutReport,
    theme: Theme,
) -> String {
    let mark = if theme.unicode { "✔" } else { "+" };
    let mut line = format!("{}{}", label(group, report), theme.paint(Role::Good, mark));
    let mut rest = members.healthy.len();
    for pod in members.healthy.iter().filter(|_| named) {
        let name = plain(&pod.name);
        // Room for the number of those that are left out.
        let tail = if rest > 1 { " +9999 healthy".len() } else { 0 };
        if measure_text_width(&line) + 1 + measure_text_width(&name) + tail > columns {
            break;
        }
        line.push_str(&format!(" {name}"));
        rest -= 1;
    }
    if rest > 0 {
        line.push_str(&theme.paint(Role::Quiet, &format!(" +{rest} healthy")));
    }
    line
}

/// Columns of a label.
const LABEL: usize = 10;

fn label(group: Group, report: &RolloutReport) -> String {
    let text = match group {
        Group::Batch(std::cmp::Reverse(number)) => format!("batch {number}"),
        Group::Updated if report.rolled_back || !report.state.is_releasing() => "pods".to_owned(),
        Group::Updated => "updated".to_owned(),
        Group::Other if report.rolled_back => "leaving".to_owned(),
        Group::Other => "stable".to_owned(),
    };
    pad(&text, LABEL)
}

/// The batch of the present step.
fn current(report: &RolloutReport) -> Group {
    if report.state.is_releasing() && report.step > 0 {
        Group::Batch(std::cmp::Reverse(report.step))
    } else {
        Group::Updated
    }
}

fn grouped<'a>(report: &RolloutReport, pods: &'a [PodView]) -> BTreeMap<Group, Members<'a>> {
    let mut groups: BTreeMap<Group, Members<'a>> = BTreeMap::new();
    for pod in pods {
        let members = groups.entry(group(report, pod)).or_default();
        if pod.ready && !pod.terminating {
            members.healthy.push(pod);
        } else {
            members.bad.push(pod);
        }
    }
    for members in groups.values_mut() {
        // Those that break stand above those that leave.
        members
            .bad
            .sort_by(|one, other| (one.terminating, &one.name).cmp(&(other.terminating, &other.name)));
    }
    groups
}

/// The batch of a pod: as its label says, else as its number and the partitions of the steps say.
fn group(report: &RolloutReport, pod: &PodView) -> Group {
    let update = report.revisions.update.as_deref();
    let updated = update.is_some_and(|update| pod.revision.is_some() && named(pod, update));
    if !updated {
        return Group::Other;
    }
    if matches!(report.state, State::RollingBack | State::RolledBack) || !report.state.is_releasing() {
        return Group::Updated;
    }
    let labelled = pod.batch_id.as_deref().and_then(|batch| batch.parse().ok());
    let numbered = || {
        let ordinal = pod.ordinal()?;
        let below = |partition: Option<i64>| partition.is_some_and(|partition| partition <= ordinal);
        report
            .steps
            .iter()
            .find(|step| below(step.partition))
            .map(|step| step.number)
    };
    match labelled
        .filter(|number| (1..=report.total()).contains(number))
        .or_else(numbered)
    {
        Some(number) => Group::Batch(std::cmp::Reverse(number)),
        None => Group::Updated,
    }
}

/// Whether the pod's label names the revision; it may be on its way out all the same.
fn named(pod: &PodView, revision: &str) -> bool {
    let own = pod.revision.as_deref().unwrap_or_default();
    kruise_rollout::workload::pod::names_revision(own, revision)
}
