//! What is wrong, as lines.

use comfy_table::{ContentArrangement, Table, presets};
use kruise_rollout::diagnosis::fitness::{Fitness, Verdict};
use kruise_rollout::diagnosis::lint::Level;
use kruise_rollout::diagnosis::preview::Preview;
use kruise_rollout::diagnosis::{Diagnosis, Explanation, Finding, Remedy, Severity};

use super::plain;
use crate::commands::{Item, Located};
use crate::ui::style::{Role, Theme};

fn mark(severity: Severity, theme: Theme) -> String {
    let (unicode, ascii, role) = match severity {
        Severity::Pass => ("✔", "+", Role::Good),
        Severity::Note => ("•", "*", Role::Waiting),
        Severity::Warning => ("⚠", "!", Role::Busy),
        Severity::Failure => ("✖", "x", Role::Bad),
        Severity::Skipped => ("–", "-", Role::Quiet),
    };
    theme.paint(role, if theme.unicode { unicode } else { ascii })
}

fn details(finding: &Finding, indent: &str) -> Vec<String> {
    let mut lines: Vec<_> = finding
        .evidence
        .iter()
        .map(|evidence| format!("{indent}seen: {}", plain(evidence)))
        .collect();
    match &finding.remedy {
        Some(Remedy::Command(command)) => lines.push(format!("{indent}run:  {}", plain(command))),
        Some(Remedy::Advice(advice)) => lines.push(format!("{indent}do:   {}", plain(advice))),
        None => {}
    }
    lines
}

/// All findings, the nearest cause, and the sum.
pub(crate) fn diagnosis(diagnosis: &Diagnosis, theme: Theme) -> Vec<String> {
    let mut lines = Vec::new();
    for finding in &diagnosis.findings {
        let mark = mark(finding.severity, theme);
        let subject = finding
            .subject
            .as_ref()
            .map(|subject| format!(" [{}]", plain(subject)))
            .unwrap_or_default();
        let skipped = if finding.severity == Severity::Skipped {
            "skipped: "
        } else {
            ""
        };
        let message = plain(&finding.message);
        lines.push(format!(
            "{mark} {} {}{subject}: {skipped}{message}",
            finding.check.id(),
            finding.title
        ));
        if matches!(
            finding.severity,
            Severity::Failure | Severity::Warning | Severity::Note
        ) {
            lines.extend(details(finding, "      "));
        }
    }
    lines.push(String::new());
    if let Some(cause) = diagnosis.cause.and_then(|place| diagnosis.findings.get(place)) {
        lines.push(format!(
            "Most likely cause: {} {}",
            cause.check.id(),
            plain(&cause.message)
        ));
        lines.extend(details(cause, "  ").pop().filter(|_| cause.remedy.is_some()));
    }
    lines.push(format!(
        "{} failures, {} warnings",
        diagnosis.failures, diagnosis.warnings
    ));
    lines
}

/// The causes, numbered.
pub(crate) fn explanation(explanation: &Explanation, theme: Theme) -> Vec<String> {
    let mut lines = vec![format!(
        "{}: {}",
        plain(&explanation.subject),
        plain(&explanation.state)
    )];
    for (place, cause) in explanation.causes.iter().enumerate() {
        let mark = mark(cause.severity, theme);
        lines.push(format!("{}. {mark} {}", place + 1, plain(&cause.message)));
        lines.extend(details(cause, "     "));
    }
    for finding in &explanation.unseen {
        let mark = mark(finding.severity, theme);
        lines.push(format!(
            "   {mark} {} was not looked at: {}",
            finding.title,
            plain(&finding.message)
        ));
    }
    lines
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(header);
    table
}

fn lines(table: &mut Table) -> Vec<String> {
    for column in table.column_iter_mut() {
        column.set_padding((0, 3));
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect()
}

/// The table of fields, and what mends them.
pub(crate) fn fitness(fitness: &Fitness, theme: Theme) -> Vec<String> {
    let mut fields = table(&["FIELD", "REQUIRED", "SCHEMA", "LIVE", "VERDICT"]);
    for row in &fitness.rows {
        let (word, role) = match row.verdict {
            Verdict::Fit => ("fit", Role::Good),
            Verdict::Unfit => ("unfit", Role::Bad),
            Verdict::Lacking => ("lacking", Role::Quiet),
            Verdict::Unknown => ("unknown", Role::Quiet),
        };
        let live = row.live.as_deref().map_or_else(|| "-".to_owned(), plain);
        fields.add_row([
            &row.field,
            row.required,
            &plain(&row.schema),
            &live,
            &theme.paint(role, word),
        ]);
    }
    let mut text = lines(&mut fields);
    text.push(String::new());
    for row in &fitness.rows {
        let Some(why) = &row.why else { continue };
        text.push(format!("{}: {}", row.field, plain(why)));
        match &row.remedy {
            Some(Remedy::Command(command)) => text.push(format!("  run:  {}", plain(command))),
            Some(Remedy::Advice(advice)) => text.push(format!("  do:   {}", plain(advice))),
            None => {}
        }
    }
    let verdict = if fitness.fit {
        "can be released in steps"
    } else {
        "cannot be released in steps"
    };
    text.push(format!("{} {verdict}", plain(&fitness.subject)));
    text
}

/// The labelled workloads.
pub(crate) fn workloads(items: &[Item], everywhere: bool) -> Vec<String> {
    let mut header = vec![
        "WORKLOAD",
        "LABEL",
        "ROLLOUT",
        "REPLICAS",
        "PARTITION",
        "RELEASING",
    ];
    if everywhere {
        header.insert(0, "NAMESPACE");
    }
    let mut rows = table(&header);
    for item in items {
        let shown = |text: Option<String>| text.map_or_else(|| "-".to_owned(), |text| plain(&text));
        let mut cells = vec![
            plain(&format!("{}/{}", item.resource, item.name)),
            plain(&item.label),
            shown(item.rollout.clone()),
            shown(item.replicas.map(|replicas| replicas.to_string())),
            shown(item.partition.clone()),
            if item.releasing { "yes" } else { "no" }.to_owned(),
        ];
        if everywhere {
            cells.insert(0, plain(&item.namespace));
        }
        rows.add_row(cells);
    }
    lines(&mut rows)
}

/// The steps, and what is worth knowing.
pub(crate) fn preview(preview: &Preview) -> Vec<String> {
    let mut rows = table(&["STEP", "REPLICAS", "TARGET", "NEW", "PARTITION", "PODS", "PAUSE"]);
    for step in &preview.steps {
        rows.add_row([
            step.number.to_string(),
            plain(&step.replicas),
            step.target.to_string(),
            step.new.to_string(),
            step.partition.to_string(),
            step.ordinals
                .as_deref()
                .map_or_else(|| "any".to_owned(), ordinals),
            step.pause.clone(),
        ]);
    }
    let mut text = vec![format!("{}: {} pods", plain(&preview.name), preview.replicas)];
    text.extend(lines(&mut rows));
    text.push(String::new());
    text.extend(preview.notes.iter().map(|note| format!("note: {}", plain(note))));
    text.push(format!(
        "{} approvals, {} s of pauses at least",
        preview.approvals, preview.pauses_seconds
    ));
    text
}

/// Ordinals, those in a row as a range.
fn ordinals(ordinals: &[i64]) -> String {
    const SINGLE: usize = 3;
    let mut parts: Vec<(i64, i64)> = Vec::new();
    for ordinal in ordinals {
        match parts.last_mut() {
            Some((_, last)) if *last == ordinal + 1 => *last = *ordinal,
            _ => parts.push((*ordinal, *ordinal)),
        }
    }
    if ordinals.is_empty() {
        return "-".to_owned();
    }
    let few = ordinals.len() <= SINGLE;
    let text = |(first, last): &(i64, i64)| {
        if first == last {
            first.to_string()
        } else {
            format!("{first}-{last}")
        }
    };
    if few {
        return ordinals
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(",");
    }
    parts.iter().map(text).collect::<Vec<_>>().join(",")
}

/// `file:line:column: level KR001 message`.
pub(crate) fn problem(problem: &Located, theme: Theme) -> String {
    let (word, role) = match problem.level {
        Level::Error => ("error", Role::Bad),
        Level::Warning => ("warning", Role::Busy),
    };
    format!(
        "{}:{}:{}: {} {} {}",
        plain(&problem.file),
        problem.line,
        problem.column,
        theme.paint(role, word),
        problem.rule.id(),
        plain(&problem.message)
    )
}
