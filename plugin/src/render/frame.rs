//! The drawn view of a release: never wider and never taller than the terminal.
//!
//! What matters most gets its rows first: the state, the next command, what is wrong, the present step. What is left goes to the
//! other steps, the pods and the events.

use dialoguer::console::measure_text_width;
use jiff::tz::TimeZone;
use kruise_rollout::report::{RolloutReport, Verdict};

use super::fit::{command, fit, pad};
use super::scene::{Scene, Shown, Size};
use super::steps::{bars, compact, dots, wanted};
use super::{
    Role, Theme, breach_text, icon, plain, pods, revisions_text, role, state_role, state_text, workload_text,
};
use crate::cluster::Happening;

/// Pods that are named before the steps are all shown.
const PODS_FIRST: usize = 3;

/// One release.
pub(crate) fn frame(scene: &Scene<'_>, shown: Shown, size: Size, theme: Theme) -> Vec<String> {
    let report = scene.report;
    let mut room = size.rows;
    let mut take = |wanted: usize| {
        let got = wanted.min(room);
        room -= got;
        got
    };
    let mut lines = Vec::new();
    let state_rows = take(1);
    let next = match &report.next {
        Some(next) if take(1) > 0 => {
            let more = if size.rows > 8 { 3 } else { 1 };
            let lines = command(next, size.columns, more, theme);
            take(lines.len() - 1);
            lines
        }
        _ => Vec::new(),
    };
    let warnings = warnings(report, theme);
    let warning_rows = take(warnings.len());
    let bar_rows = take(2.min(wanted(report)));
    let title_rows = take(1);
    let bad = pods::tree(scene, crate::cli::Pods::Bad, usize::MAX, size.columns, theme).len();
    let first_pods = match shown.pods {
        crate::cli::Pods::None => 0,
        _ => take(bad.min(PODS_FIRST)),
    };
    let bar_rows = bar_rows + take(wanted(report).saturating_sub(bar_rows));
    let event_rows = shown.events.min(scene.events.len()).min(room / 2);
    let pod_rows = first_pods + room - event_rows;

    lines.extend((title_rows > 0).then(|| title(report, theme)));
    lines.extend((state_rows > 0).then(|| state(scene, theme)));
    lines.extend(bars(report, bar_rows, size.columns, theme));
    lines.extend(warnings.into_iter().take(warning_rows));
    lines.extend(pods::tree(scene, shown.pods, pod_rows, size.columns, theme));
    let skipped = scene.events.len() - event_rows;
    lines.extend(
        scene
            .events
            .iter()
            .skip(skipped)
            .map(|event| happening(event, theme)),
    );
    lines.extend(next.iter().map(|line| theme.paint(Role::Waiting, line)));
    lines.iter().map(|line| fit(line, size.columns, theme)).collect()
}

/// Several releases under each other, one row each.
pub(crate) fn rows(scenes: &[Scene<'_>], size: Size, theme: Theme) -> Vec<String> {
    let name = scenes
        .iter()
        .map(|scene| scene.report.name.len())
        .max()
        .unwrap_or(0);
    let width = |scene: &Scene<'_>| measure_text_width(&state(scene, theme));
    let state_width = scenes.iter().map(width).max().unwrap_or(0);
    let row = |scene: &Scene<'_>| {
        let report = scene.report;
        let state = pad(&state(scene, theme), state_width);
        let problem = warnings(report, theme).into_iter().next();
        let line = format!(
            "{}  {state}  {}  {}",
            pad(&report.name, name),
            compact(report, size.columns, theme),
            problem.unwrap_or_default()
        );
        fit(&line, size.columns, theme)
    };
    let shown = if scenes.len() > size.rows {
        size.rows.saturating_sub(1)
    } else {
        scenes.len()
    };
    let mut lines: Vec<_> = scenes.iter().take(shown).map(row).collect();
    if shown < scenes.len() {
        let text = format!("{} {} more", dots(theme), scenes.len() - shown);
        lines.push(fit(&theme.paint(Role::Quiet, &text), size.columns, theme));
    }
    lines
}

fn title(report: &RolloutReport, theme: Theme) -> String {
    let revisions = revisions_text(report, theme)
        .map(|text| format!("  {text}"))
        .unwrap_or_default();
    format!(
        "{}  {}  {}{revisions}",
        theme.paint(Role::Strong, &report.name),
        report.namespace,
        workload_text(report)
    )
}

fn state(scene: &Scene<'_>, theme: Theme) -> String {
    let report = scene.report;
    let waiting = scene
        .waiting()
        .map(|time| format!(", for {time}"))
        .unwrap_or_default();
    let failing = if report.verdict == Verdict::Failing {
        ", failing"
    } else {
        ""
    };
    let text = format!("{} {}{waiting}{failing}", icon(report, theme), state_text(report));
    let mut line = theme.paint(state_role(report), &text);
    if let Some(seconds) = scene.reconnecting {
        let text = format!("  reconnecting {seconds}s");
        line.push_str(&theme.paint(Role::Bad, &text));
    }
    line
}

/// What is wrong with the release as a whole.
fn warnings(report: &RolloutReport, theme: Theme) -> Vec<String> {
    let breach = breach_text(report);
    let failing =
        report.verdict == Verdict::Failing && !report.problems.iter().any(|problem| problem.is_grave());
    let off = matches!(role(&report.state), Role::Bad) || report.verdict == Verdict::Disabled;
    let said = Some(plain(&report.message)).filter(|message| (failing || off) && !message.is_empty());
    breach
        .into_iter()
        .chain(said)
        .map(|text| theme.paint(Role::Bad, &text))
        .collect()
}

fn happening(event: &Happening, theme: Theme) -> String {
    let time = event.at.map_or_else(
        || "--:--:--".to_owned(),
        |at| at.to_zoned(TimeZone::UTC).time().strftime("%H:%M:%S").to_string(),
    );
    let times = if event.count > 1 {
        format!(" (x{})", event.count)
    } else {
        String::new()
    };
    let role = if event.warning { Role::Bad } else { Role::Quiet };
    let reason = theme.paint(role, &plain(&event.reason));
    format!(
        "{time}Z {reason}  {}: {}{times}",
        plain(&event.object),
        plain(&event.message)
    )
}
