use kruise_rollout::report::{
    Document, History as Revisions, RevisionDetail, RevisionReport, RolloutHistory, TemplateDiff,
};
use serde_json::Value;

use super::print;
use crate::cli::{History, Output};
use crate::cluster::Cluster;
use crate::error::Error;
use crate::follow::now;
use crate::format::yaml;
use crate::ui::Ui;
use crate::{render, target};

pub(super) async fn run(command: &History, cluster: &Cluster, ui: &mut Ui) -> Result<u8, Error> {
    let name = cluster.rollout_of(&target::target(&command.target)?).await?;
    // Pods do not matter here.
    let details = cluster.without_pods(&name).await?;
    print::hidden(details.hidden(), ui);
    let history = cluster.history(&details, now()).await?;
    match (&command.revision, &command.diff) {
        (Some(word), _) => one(command, find(&history, word, &name)?, ui)?,
        (None, Some((from, to))) => {
            let (from, to) = (find(&history, from, &name)?, find(&history, to, &name)?);
            differences(command, from, to, ui)?;
        }
        (None, None) => all(command, &name, cluster.namespace(), history, ui)?,
    }
    Ok(0)
}

type Revision = (RevisionReport, Value);

fn find<'a>(history: &'a Revisions, word: &str, name: &str) -> Result<&'a Revision, Error> {
    history.find(word).ok_or_else(|| Error::NoRevision {
        subject: render::subject(name),
        revision: word.to_owned(),
        known: history.numbers(),
    })
}

fn all(command: &History, name: &str, namespace: &str, history: Revisions, ui: &mut Ui) -> Result<(), Error> {
    let reports = history.revisions.into_iter().map(|(report, _)| report);
    let content = RolloutHistory {
        name: name.to_owned(),
        namespace: namespace.to_owned(),
        items: reports
            .take(command.limit.map_or(usize::MAX, std::num::NonZeroUsize::get))
            .collect(),
    };
    let document = Document::new("RolloutHistory", content);
    let printed = print::document(command.output, &document, ui)?;
    let revisions = &document.content.items;
    if revisions.is_empty() {
        let subject = render::subject(name);
        ui.say(&format!("No revisions of {subject} in namespace {namespace}."));
    } else if command.output == Some(Output::Name) {
        print::lines(revisions.iter().map(render::kept_by).collect(), ui)?;
    } else if !printed {
        let wide = command.output == Some(Output::Wide);
        let lines = render::revisions(revisions.iter(), wide, !command.no_headers, now());
        print::lines(lines, ui)?;
    }
    Ok(())
}

fn one(command: &History, (report, template): &Revision, ui: &mut Ui) -> Result<(), Error> {
    let content = RevisionDetail {
        revision: report.clone(),
        template: template.clone(),
    };
    if command.output == Some(Output::Name) {
        return ui.answer(&render::kept_by(report));
    }
    if print::document(command.output, &Document::new("RolloutRevision", content), ui)? {
        return Ok(());
    }
    let reports = std::iter::once(report);
    print::lines(render::revisions(reports, true, !command.no_headers, now()), ui)?;
    ui.answer("")?;
    print::lines(text(template)?, ui)
}

fn differences(command: &History, from: &Revision, to: &Revision, ui: &mut Ui) -> Result<(), Error> {
    let content = TemplateDiff {
        from: from.0.revision,
        to: to.0.revision,
        changes: json_patch::diff(&from.1, &to.1),
    };
    if print::document(command.output, &Document::new("RolloutDiff", content), ui)? {
        return Ok(());
    }
    let title = |revision: &Revision| format!("revision {}", revision.0.revision);
    let (before, after) = (text(&from.1)?.join("\n"), text(&to.1)?.join("\n"));
    let lines = render::diff(&before, &after, &title(from), &title(to));
    if lines.is_empty() {
        ui.say("The two templates are the same.");
    }
    print::lines(lines, ui)
}

/// A template as people read it.
fn text(template: &Value) -> Result<Vec<String>, Error> {
    Ok(yaml(template)?.lines().map(render::plain).collect())
}
