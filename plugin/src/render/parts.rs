//! Pods, events, conditions and revisions, a row each.

use jiff::Timestamp;
use kruise_rollout::api::v1beta1::Condition;
use kruise_rollout::report::{EventReport, PodReport, PodRole, RevisionReport, RevisionState, Source};

use super::table::Table;
use super::{NONE, Theme, age, plain, stamped};

fn or_none(text: Option<&str>) -> String {
    match text {
        None | Some("") => NONE.to_owned(),
        Some(text) => plain(text),
    }
}

fn role(role: PodRole) -> &'static str {
    match role {
        PodRole::Stable => "stable",
        PodRole::Update => "update",
        PodRole::Other => "other",
    }
}

/// The table of pods.
pub(crate) fn pods(pods: &[PodReport], wide: bool, headers: bool, now: Timestamp) -> Vec<String> {
    let mut header = vec![
        "NAME", "REVISION", "ROLE", "BATCH", "READY", "STATE", "RESTARTS", "AGE",
    ];
    if wide {
        header.extend(["NODE", "DETAIL"]);
    }
    let row = |pod: &PodReport| {
        let mut row = vec![
            pod.name.clone(),
            or_none(pod.revision.as_deref()),
            role(pod.role).to_owned(),
            pod.batch
                .map_or_else(|| NONE.to_owned(), |batch| batch.to_string()),
            format!("{}/{}", pod.ready_containers, pod.containers),
            plain(&pod.state),
            pod.restarts.to_string(),
            age(pod.created, now),
        ];
        if wide {
            row.extend([or_none(pod.node.as_deref()), or_none(pod.detail.as_deref())]);
        }
        row
    };
    let rows: Vec<_> = pods.iter().map(row).collect();
    Table::lines(&header, &rows, headers)
}

/// The words of an event, with how often they were told.
fn told(event: &EventReport, theme: Theme) -> String {
    let message = plain(event.message.trim());
    match (event.count, theme.unicode) {
        (..=1, _) => message,
        (count, true) => format!("{message} ×{count}"),
        (count, false) => format!("{message} x{count}"),
    }
}

/// The table of events.
pub(crate) fn events(
    events: &[EventReport],
    wide: bool,
    headers: bool,
    theme: Theme,
    now: Timestamp,
) -> Vec<String> {
    let mut header = vec!["AGE", "TYPE", "REASON", "OBJECT"];
    if wide {
        header.extend(["FIRST-SEEN", "COUNT"]);
    }
    header.push("MESSAGE");
    let row = |event: &EventReport| {
        let mut row = vec![
            age(event.last, now),
            or_none(Some(&event.kind)),
            or_none(Some(&event.reason)),
            plain(&event.object),
        ];
        if wide {
            row.extend([age(event.first, now), event.count.to_string()]);
        }
        row.push(told(event, theme));
        row
    };
    let rows: Vec<_> = events.iter().map(row).collect();
    Table::lines(&header, &rows, headers)
}

/// An event as it comes, in one line.
pub(crate) fn event(event: &EventReport, theme: Theme, now: Timestamp) -> String {
    let line = format!(
        "{} {} {} {}",
        or_none(Some(&event.kind)),
        or_none(Some(&event.reason)),
        plain(&event.object),
        told(event, theme)
    );
    stamped(event.last.unwrap_or(now), &line)
}

/// The table of conditions.
pub(crate) fn conditions(conditions: &[Condition], now: Timestamp) -> Vec<String> {
    let row = |condition: &Condition| {
        let since = condition.last_transition_time.as_ref().map(|time| time.0);
        vec![
            plain(&condition.type_),
            plain(&condition.status),
            or_none(Some(&condition.reason)),
            age(since, now),
            plain(&condition.message),
        ]
    };
    let rows: Vec<_> = conditions.iter().map(row).collect();
    Table::lines(&["TYPE", "STATUS", "REASON", "AGE", "MESSAGE"], &rows, true)
}

/// What a revision is to the workload.
pub(super) fn state(state: Option<RevisionState>) -> &'static str {
    match state {
        Some(RevisionState::Stable) => "stable",
        Some(RevisionState::Update) => "update",
        None => NONE,
    }
}

/// The table of revisions.
pub(crate) fn revisions<'a>(
    revisions: impl Iterator<Item = &'a RevisionReport>,
    wide: bool,
    headers: bool,
    now: Timestamp,
) -> Vec<String> {
    let mut header = vec!["REVISION", "HASH", "AGE", "STATE", "CHANGE-CAUSE", "IMAGES"];
    if wide {
        header.extend(["KEPT-BY", "NAME"]);
    }
    let row = |revision: &RevisionReport| {
        let mut row = vec![
            revision.revision.to_string(),
            or_none(revision.hash.as_deref()),
            age(revision.created, now),
            state(revision.state).to_owned(),
            or_none(revision.change_cause.as_deref()),
            or_none(Some(&revision.images.join(","))),
        ];
        if wide {
            row.extend([source(revision.source).to_owned(), plain(&revision.name)]);
        }
        row
    };
    let rows: Vec<_> = revisions.map(row).collect();
    Table::lines(&header, &rows, headers)
}

fn source(source: Source) -> &'static str {
    match source {
        Source::Rollout => "Rollout",
        Source::ControllerRevision | Source::ReplicaSet => "workload",
    }
}

/// The object that keeps a revision, as kubectl names it.
pub(crate) fn kept_by(revision: &RevisionReport) -> String {
    let kind = match revision.source {
        Source::Rollout | Source::ControllerRevision => "controllerrevision",
        Source::ReplicaSet => "replicaset",
    };
    format!("{kind}.apps/{}", plain(&revision.name))
}
