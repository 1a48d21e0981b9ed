use jiff::Timestamp;
use kruise_rollout::report::{Detail, RolloutReport};

use super::{Theme, look, parts, tree};

/// Everything about a Rollout, part by part.
pub(crate) fn detail(
    detail: &Detail,
    workload_created: Option<Timestamp>,
    wide: bool,
    theme: Theme,
    now: Timestamp,
) -> Vec<String> {
    let report: &RolloutReport = &detail.report;
    let mut parts = vec![look::head(report, theme)];
    if !report.steps.is_empty() {
        parts.push(look::steps(report, wide, theme));
    }
    parts.push(tree::tree(
        report,
        detail.pods.as_deref(),
        workload_created,
        theme,
        now,
    ));
    if let Some(revisions) = detail
        .revisions
        .as_deref()
        .filter(|revisions| !revisions.is_empty())
    {
        parts.push(titled(
            "Revisions:",
            parts::revisions(revisions.iter(), wide, true, now),
        ));
    }
    if !detail.conditions.is_empty() {
        parts.push(titled("Conditions:", parts::conditions(&detail.conditions, now)));
    }
    if let Some(events) = detail.events.as_deref().filter(|events| !events.is_empty()) {
        parts.push(titled("Events:", parts::events(events, wide, true, theme, now)));
    }
    parts.extend(look::next(report).map(|line| vec![line]));
    parts.join(&String::new())
}

fn titled(title: &str, lines: Vec<String>) -> Vec<String> {
    std::iter::once(title.to_owned())
        .chain(lines.into_iter().map(|line| format!("  {line}")))
        .collect()
}
