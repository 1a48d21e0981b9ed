//! The rows of a list of Rollouts.

use std::cmp::Reverse;
use std::collections::HashMap;

use jiff::Timestamp;
use kruise_rollout::report::{Document, REPORT_VERSION, RolloutReport};
use serde_json::json;

use crate::cli::{ListRollouts, Output, SortBy};
use crate::cluster::{Cluster, World};
use crate::error::Error;
use crate::follow::now;
use crate::format::{json, pretty, yaml};
use crate::render::table::Table;
use crate::render::{self, Columns};
use crate::ui::Ui;

/// Lines of a table that are written together.
const AT_ONCE: usize = 200;
/// Between the cells of a row that is held; what is printed has no such character.
const BETWEEN: &str = "\0";

/// A row that waits for the others.
struct Held {
    key: Key,
    row: Row,
}

enum Row {
    /// One of a table.
    Cells(Box<str>),
    /// An item of a document that is sorted.
    Report(Box<RolloutReport>),
}

/// What rows are sorted by; those of the same key stay in the order of the server.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Unsorted,
    Name(String, String),
    Age(Reverse<Option<Timestamp>>),
    State(String),
}

impl Key {
    fn of(field: Option<SortBy>, report: &RolloutReport) -> Self {
        match field {
            None => Self::Unsorted,
            Some(SortBy::Name) => Self::Name(report.namespace.clone(), report.name.clone()),
            Some(SortBy::Age) => Self::Age(Reverse(report.created)),
            Some(SortBy::State) => Self::State(report.state.word().to_owned()),
        }
    }
}

/// The rows of a list, held as far as they have to be: JSON and YAML go out one by one, unless they are to be sorted. Of a table, whose
/// columns fit all rows, cells are held and no reports.
pub(super) struct Rows<'a> {
    command: &'a ListRollouts,
    columns: Columns,
    table: Table,
    held: Vec<Held>,
    /// Rows that have gone out.
    out: usize,
    /// What was shown last of each, without what changes with the clock; kept only while watching.
    shown: HashMap<(String, String), RolloutReport>,
}

impl<'a> Rows<'a> {
    pub(super) fn new(command: &'a ListRollouts) -> Self {
        let columns = Columns {
            namespace: command.all_namespaces,
            wide: command.output == Some(Output::Wide),
        };
        Self {
            command,
            columns,
            table: Table::new(&columns.header()),
            held: Vec::new(),
            out: 0,
            shown: HashMap::new(),
        }
    }

    fn is_wanted(&self, report: &RolloutReport) -> bool {
        let states = &self.command.state;
        states.is_empty()
            || states
                .iter()
                .any(|state| state.eq_ignore_ascii_case(report.state.word()))
            || (matches!(report.state, kruise_rollout::report::State::Unknown(_))
                && states.iter().any(|state| state.eq_ignore_ascii_case("Unknown")))
    }

    pub(super) fn add(&mut self, world: &World, ui: &mut Ui) -> Result<(), Error> {
        let report = world.report(None, now());
        if self.command.watch {
            let key = (report.namespace.clone(), report.name.clone());
            self.shown.insert(key, steady(&report));
        }
        if !self.is_wanted(&report) {
            return Ok(());
        }
        if self.command.sort_by.is_none() && self.is_streamed() {
            return self.item(&report, ui);
        }
        let key = Key::of(self.command.sort_by, &report);
        let row = if self.is_streamed() {
            Row::Report(Box::new(report))
        } else {
            let cells = self.columns.row(&report, now());
            self.table.fit(&cells);
            Row::Cells(cells.join(BETWEEN).into())
        };
        self.held.push(Held { key, row });
        Ok(())
    }

    /// How many have gone out.
    pub(super) fn printed(&self) -> usize {
        self.out
    }

    /// Whether an item needs nothing of the others.
    fn is_streamed(&self) -> bool {
        matches!(
            self.command.output,
            Some(Output::Json | Output::Yaml | Output::Name)
        )
    }

    /// One item of a document, or one document of many while watching.
    fn item(&mut self, report: &RolloutReport, ui: &mut Ui) -> Result<(), Error> {
        let first = self.out == 0;
        self.out += 1;
        match self.command.output {
            Some(Output::Json) if self.command.watch => ui.answer(&json(report)?),
            Some(Output::Json) => {
                if first {
                    ui.answer(&format!(
                        "{{\n  \"apiVersion\": \"{REPORT_VERSION}\",\n  \"kind\": \"{LIST}\",\n  \"items\": ["
                    ))?;
                }
                // The line end behind an item comes with the next one, which alone knows that a comma is due.
                let text = pretty(report)?.replace('\n', "\n    ");
                ui.part(&format!("{}    {text}", if first { "" } else { ",\n" }))
            }
            Some(Output::Yaml) if self.command.watch => ui.answer(&format!("---\n{}", yaml(report)?)),
            Some(Output::Yaml) => {
                if first {
                    ui.answer(&format!("apiVersion: {REPORT_VERSION}\nkind: {LIST}\nitems:"))?;
                }
                ui.answer(&format!("- {}", yaml(report)?.replace('\n', "\n  ")))
            }
            Some(Output::Name) => ui.answer(&render::subject(&report.name)),
            Some(Output::Wide) | None => {
                let line = self.table.line(&self.columns.row(report, now()));
                ui.answer(&line)
            }
        }
    }

    /// What was held back, and the end of a document.
    pub(super) fn finish(&mut self, cluster: &Cluster, ui: &mut Ui) -> Result<(), Error> {
        let mut held = std::mem::take(&mut self.held);
        held.sort_by(|one, other| one.key.cmp(&other.key));
        let headers = !self.command.no_headers && (self.command.watch || !held.is_empty());
        if !self.is_streamed() && headers {
            ui.answer(&self.table.head())?;
        }
        let mut lines = Vec::new();
        for Held { row, .. } in held {
            match row {
                Row::Report(report) => self.item(&report, ui)?,
                Row::Cells(cells) => {
                    self.out += 1;
                    let cells: Vec<_> = cells.split(BETWEEN).collect();
                    lines.push(self.table.line(&cells));
                }
            }
            if lines.len() >= AT_ONCE {
                ui.answer(&lines.join("\n"))?;
                lines.clear();
            }
        }
        if !lines.is_empty() {
            ui.answer(&lines.join("\n"))?;
        }
        let empty = self.out == 0;
        match self.command.output {
            _ if self.command.watch => {}
            Some(Output::Json) if empty => ui.answer(&pretty(&Document::new(LIST, json!({"items": []})))?)?,
            Some(Output::Json) => ui.answer("\n  ]\n}")?,
            Some(Output::Yaml) if empty => {
                ui.answer(&format!("apiVersion: {REPORT_VERSION}\nkind: {LIST}\nitems: []"))?;
            }
            _ => {}
        }
        if empty && !self.command.watch {
            ui.say(&match cluster.namespace() {
                "" => "No Rollouts found.".to_owned(),
                namespace => format!("No Rollouts found in namespace {namespace}."),
            });
        }
        Ok(())
    }

    /// A row that may have changed.
    pub(super) fn show_again(&mut self, report: &RolloutReport, ui: &mut Ui) -> Result<(), Error> {
        let key = (report.namespace.clone(), report.name.clone());
        let steady = steady(report);
        let before = self.shown.insert(key, steady.clone());
        let was_wanted = before.as_ref().is_some_and(|before| self.is_wanted(before));
        // One that leaves the wanted states is shown once more, so that its last row does not mislead.
        if before.as_ref() == Some(&steady) || !(self.is_wanted(report) || was_wanted) {
            return Ok(());
        }
        let now = now();
        let same_row = before.as_ref().is_some_and(|before| {
            !self.is_streamed() && self.columns.row(before, now) == self.columns.row(report, now)
        });
        if same_row {
            return Ok(());
        }
        self.item(report, ui)
    }

    /// A row that is gone.
    pub(super) fn show_gone(
        &mut self,
        (namespace, name): &(String, String),
        ui: &mut Ui,
    ) -> Result<(), Error> {
        let key = (namespace.clone(), name.clone());
        let Some(before) = self.shown.remove(&key) else {
            return Ok(());
        };
        if !self.is_wanted(&before) {
            return Ok(());
        }
        let document = Document::new("RolloutDeleted", json!({"name": name, "namespace": namespace}));
        match self.command.output {
            Some(Output::Json) => ui.answer(&json(&document)?),
            Some(Output::Yaml) => ui.answer(&format!("---\n{}", yaml(&document)?)),
            Some(Output::Name) => Ok(()),
            Some(Output::Wide) | None => {
                let line = self.table.line(&self.columns.gone(namespace, name));
                ui.answer(&line)
            }
        }
    }
}

/// The report without what changes with the clock alone, lest every look be a change.
fn steady(report: &RolloutReport) -> RolloutReport {
    RolloutReport {
        pause: None,
        ..report.clone()
    }
}

/// Kind of the document with many reports.
const LIST: &str = "RolloutReportList";
