//! The bars.

use kruise_rollout::report::{PauseReport, RolloutReport, State, StepProgress, StepReport};

use super::fit::{bar, pad};
use super::{Role, Theme, count, plain, short, state_role};

/// Steps that are drawn at most; a longer plan shows those around the present one.
pub(super) const STEPS: usize = 10;

/// Columns of a bar on a terminal of this width; none where there is no room for one.
pub(super) fn bar_width(columns: usize) -> usize {
    match columns {
        0..60 => 0,
        60..100 => 20,
        100..160 => 30,
        _ => 60,
    }
}

/// One row of a bar with what stands around it.
struct Row {
    label: String,
    ready: u32,
    done: u32,
    of: u32,
    text: String,
    role: Role,
}

impl Row {
    fn draw(&self, label: usize, columns: usize, theme: Theme) -> String {
        let label = pad(&self.label, label);
        match bar_width(columns) {
            0 => format!("{label}  {}", self.text),
            width => {
                let bar = bar(self.ready, self.done, self.of, width, self.role, theme);
                format!("{label}  {bar}  {}", self.text)
            }
        }
    }
}

/// The bars in at most so many rows: the steps around the present one, its pause, and the total. The total comes last to be
/// left out but for the present step.
pub(super) fn bars(report: &RolloutReport, rows: usize, columns: usize, theme: Theme) -> Vec<String> {
    if rows == 0 || report.workload.found == Some(false) {
        return Vec::new();
    }
    let total = total(report);
    if matches!(report.state, State::RollingBack | State::RolledBack) || report.steps.is_empty() {
        return vec![total.draw(total.label.len(), columns, theme)];
    }
    let current = report
        .steps
        .iter()
        .position(|step| step.progress == StepProgress::Current);
    let pause = pause(report).filter(|_| rows > 2);
    let with_total = rows > 1;
    let room = rows - usize::from(with_total) - usize::from(pause.is_some());
    let (first, shown, hidden) = window(report.steps.len(), current.unwrap_or(0), room);
    let amount = report
        .steps
        .iter()
        .map(|step| step.replicas.len())
        .max()
        .unwrap_or(0);
    let label = (5 + amount).max("total".len());
    let mut lines = Vec::new();
    for (index, step) in report.steps.iter().enumerate().skip(first).take(shown) {
        lines.push(row(step, report, theme).draw(label, columns, theme));
        if let Some(pause) = pause.as_ref().filter(|_| current == Some(index)) {
            lines.push(pause.draw(label, columns, theme));
        }
    }
    if hidden > 0 && room > 1 {
        let noun = if hidden == 1 { "step" } else { "steps" };
        lines.push(theme.paint(Role::Quiet, &format!("{} {hidden} more {noun}", dots(theme))));
    }
    if with_total {
        lines.push(total.draw(label, columns, theme));
    }
    lines
}

/// Rows that all bars would take.
pub(super) fn wanted(report: &RolloutReport) -> usize {
    if matches!(report.state, State::RollingBack | State::RolledBack) {
        return 1;
    }
    let steps = report.steps.len();
    let more = usize::from(steps > STEPS);
    steps.min(STEPS) + more + usize::from(pause(report).is_some()) + 1
}

pub(super) fn dots(theme: Theme) -> &'static str {
    if theme.unicode { "…" } else { "..." }
}

/// The first step that is shown, how many are, and how many are not.
fn window(steps: usize, current: usize, room: usize) -> (usize, usize, usize) {
    let all = steps.min(STEPS);
    // What is left out is said, where there is a row for it.
    let shown = if steps <= room && steps <= STEPS {
        all
    } else {
        all.min(room.saturating_sub(1)).max(1)
    };
    let first = current.saturating_sub(shown / 2).min(steps - shown);
    (first, shown, steps - shown)
}

fn row(step: &StepReport, report: &RolloutReport, theme: Theme) -> Row {
    let (mark, role) = match (step.progress, theme.unicode) {
        (StepProgress::Done, true) => ("✔", Role::Good),
        (StepProgress::Done, false) => ("+", Role::Good),
        (StepProgress::Current, true) => ("▸", state_role(report)),
        (StepProgress::Current, false) => (">", state_role(report)),
        (StepProgress::Ahead, _) => (" ", Role::Quiet),
    };
    let ready = step.ready.filter(|_| step.progress == StepProgress::Current);
    let ready = ready.map(|ready| format!(", {ready} ready")).unwrap_or_default();
    let pause = match (step.progress, step.pause.as_str()) {
        (StepProgress::Done, _) | (_, "none") => String::new(),
        (_, "approval") => "  then approval".to_owned(),
        (_, pause) => format!("  then {pause}"),
    };
    let reached = match (step.updated, step.progress) {
        (None, StepProgress::Ahead) if step.target == Some(1) => "1 pod".to_owned(),
        (None, StepProgress::Ahead) => format!("{} pods", count(step.target)),
        (updated, _) => format!("{}/{}", count(updated), count(step.target)),
    };
    Row {
        label: format!("{:>2} {mark} {}", step.number, plain(&step.replicas)),
        ready: step.ready.unwrap_or(0),
        done: step.updated.unwrap_or(0),
        of: step.target.unwrap_or(0),
        text: format!("{reached}{ready}{pause}"),
        role,
    }
}

/// The clock of a timed pause.
fn pause(report: &RolloutReport) -> Option<Row> {
    let Some(PauseReport::Time {
        seconds,
        remaining_seconds: left,
    }) = report.pause
    else {
        return None;
    };
    (report.state == State::TimedPause).then(|| Row {
        label: "   pause".to_owned(),
        ready: seconds.saturating_sub(left),
        done: seconds.saturating_sub(left),
        of: seconds.max(1),
        text: format!("{} of {} left", short(left), short(seconds)),
        role: Role::Waiting,
    })
}

/// All pods of the workload.
fn total(report: &RolloutReport) -> Row {
    let workload = &report.workload;
    let (updated, ready, replicas) = (workload.updated, workload.ready, workload.replicas);
    let (label, moved) = match report.state {
        State::RollingBack => ("restoring", "on the stable template"),
        State::RolledBack => ("restored", "on the stable template"),
        _ => ("total", "updated"),
    };
    let unavailable = replicas
        .zip(ready)
        .map(|(replicas, ready)| replicas.saturating_sub(ready))
        .filter(|unavailable| *unavailable > 0)
        .map(|unavailable| format!(", {unavailable} unavailable"))
        .unwrap_or_default();
    Row {
        label: label.to_owned(),
        ready: workload.updated_ready.or(updated).unwrap_or(0),
        done: updated.unwrap_or(0),
        of: replicas.unwrap_or(0),
        text: format!(
            "{}/{} {moved}, {} ready{unavailable}",
            count(updated),
            count(replicas),
            count(ready)
        ),
        role: state_role(report),
    }
}

/// Everything in one row, for several releases under each other.
pub(super) fn compact(report: &RolloutReport, columns: usize, theme: Theme) -> String {
    let workload = &report.workload;
    let counts = format!("{}/{}", count(workload.updated), count(workload.replicas));
    if bar_width(columns) == 0 {
        return counts;
    }
    let row = total(report);
    let bar = bar(row.ready, row.done, row.of, 20, row.role, theme);
    format!("{bar} {counts}")
}

#[cfg(test)]
mod tests {
    use super::window;

    #[test]
    fn a_window_is_around_the_present_step_and_leaves_a_row_for_what_is_not_in_it() {
        assert_eq!(window(3, 0, 9), (0, 3, 0));
        assert_eq!(window(3, 2, 3), (0, 3, 0));
        assert_eq!(window(3, 2, 2), (2, 1, 2));
        assert_eq!(window(3, 1, 1), (1, 1, 2));
        assert_eq!(window(50, 29, 20), (24, 10, 40));
        assert_eq!(window(50, 49, 20), (40, 10, 40));
        assert_eq!(window(50, 49, 5), (46, 4, 46));
    }
}
