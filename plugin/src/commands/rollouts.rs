use std::collections::HashMap;

use kruise_rollout::report::{Document, REPORT_VERSION, RolloutReport};
use serde_json::json;

use super::print;
use crate::cli::{ListRollouts, Output, SortBy};
use crate::cluster::{Cluster, Kinds, Roll, RollChange, World};
use crate::error::Error;
use crate::follow::now;
use crate::format::{json, pretty, yaml};
use crate::render::table::Table;
use crate::render::{self, Columns};
use crate::ui::{Listener, Ui};

pub(super) async fn run(command: &ListRollouts, cluster: &Cluster, ui: &mut Ui) -> Result<u8, Error> {
    let cluster = if command.all_namespaces {
        cluster.everywhere()
    } else {
        cluster.clone()
    };
    let selector = command.selector.as_deref();
    let mut rows = Rows::new(command);
    let (mut kinds, mut said, mut worlds) = (Kinds::default(), 0, Vec::new());
    let mut from = None;
    loop {
        let page = cluster.page(selector, from.as_deref(), &mut kinds).await?;
        print::hidden(&kinds.hidden[said..], ui);
        said = kinds.hidden.len();
        for world in page.worlds {
            rows.add(&world, ui)?;
            if command.watch {
                worlds.push(world);
            }
        }
        match page.next {
            Some(next) => from = Some(next),
            None => break,
        }
    }
    rows.finish(&cluster, ui)?;
    if command.watch {
        follow(rows, Roll::new(&cluster, selector, kinds, worlds), ui).await?;
    }
    Ok(0)
}

/// Prints each row again when it changes, until it is interrupted.
async fn follow(mut rows: Rows<'_>, mut roll: Roll, ui: &mut Ui) -> Result<(), Error> {
    let listener = Listener::new();
    loop {
        let change = tokio::select! {
            change = roll.next() => change?,
            () = listener.gone() => return Err(Error::Io(std::io::ErrorKind::BrokenPipe.into())),
        };
        match change {
            RollChange::Note(note) => ui.say(&note),
            RollChange::Changed(keys) => {
                for key in keys {
                    match roll.world(&key) {
                        Some(world) => rows.show_again(&world.report(None, now()), ui)?,
                        None => rows.show_gone(&key, ui)?,
                    }
                }
            }
        }
    }
}

/// The rows of a list, held as far as they have to be: JSON and YAML go out one by one, unless they are to be sorted.
struct Rows<'a> {
    command: &'a ListRollouts,
    columns: Columns,
    table: Table,
    held: Vec<RolloutReport>,
    /// Rows that have gone out.
    out: usize,
    /// What was shown last of each, without what changes with the clock; kept only while watching.
    shown: HashMap<(String, String), RolloutReport>,
}

impl<'a> Rows<'a> {
    fn new(command: &'a ListRollouts) -> Self {
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

    fn add(&mut self, world: &World, ui: &mut Ui) -> Result<(), Error> {
        let report = world.report(None, now());
        if self.command.watch {
            let key = (report.namespace.clone(), report.name.clone());
            self.shown.insert(key, steady(&report));
        }
        if !self.is_wanted(&report) {
            return Ok(());
        }
        if self.command.sort_by.is_none() && self.is_streamed() {
            self.item(&report, ui)
        } else {
            self.held.push(report);
            Ok(())
        }
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
    fn finish(&mut self, cluster: &Cluster, ui: &mut Ui) -> Result<(), Error> {
        let mut held = std::mem::take(&mut self.held);
        match self.command.sort_by {
            None => {}
            Some(SortBy::Name) => held.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name))),
            Some(SortBy::Age) => held.sort_by_key(|report| std::cmp::Reverse(report.created)),
            Some(SortBy::State) => held.sort_by(|a, b| a.state.word().cmp(b.state.word())),
        }
        if !self.is_streamed() {
            let now = now();
            for report in &held {
                self.table.fit(&self.columns.row(report, now));
            }
            if !self.command.no_headers && (self.command.watch || !held.is_empty()) {
                ui.answer(&self.table.head())?;
            }
        }
        for report in &held {
            self.item(report, ui)?;
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
    fn show_again(&mut self, report: &RolloutReport, ui: &mut Ui) -> Result<(), Error> {
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
    fn show_gone(&mut self, (namespace, name): &(String, String), ui: &mut Ui) -> Result<(), Error> {
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
