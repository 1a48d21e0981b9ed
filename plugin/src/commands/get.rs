use kruise_rollout::report::{Detail, Document, History, fold};

use super::print;
use crate::cli::{Get, Output};
use crate::cluster::Cluster;
use crate::error::Error;
use crate::follow::now;
use crate::ui::Ui;
use crate::{render, target};

pub(super) async fn run(command: &Get, cluster: &Cluster, ui: &mut Ui) -> Result<u8, Error> {
    if command.status.watch {
        return super::status::run(&command.status, cluster, ui).await;
    }
    let name = cluster
        .rollout_of(&target::target(&command.status.targets)?)
        .await?;
    let format = command.status.output;
    if format == Some(Output::Name) {
        cluster.rollout(&name).await?;
        ui.answer(&render::subject(&name))?;
        return Ok(0);
    }
    let mut details = cluster.details(&name).await?;
    let now = now();
    let history = cluster.history(&details, now).await;
    let events = cluster.events(&details).await;
    let history = details.unless_forbidden("history", history)?;
    let events = details.unless_forbidden("events", events)?;
    print::hidden(details.hidden(), ui);
    let revisions = |history: History| {
        let reports = history.revisions.into_iter().map(|(report, _)| report);
        reports.take(command.limit).collect()
    };
    let latest = |events| {
        let mut events = fold(events);
        events.drain(..events.len().saturating_sub(command.status.follow.events));
        events
    };
    let status = details.world.rollout().status.clone().unwrap_or_default();
    let detail = Detail {
        report: details.world.report(None, now),
        conditions: status.conditions,
        revisions: history.map(revisions),
        pods: details.pods(now),
        events: events.map(latest),
    };
    let detail = Document::new("RolloutDetail", detail);
    if !print::document(format, &detail, ui)? {
        let created = details.world.view().and_then(|view| view.created);
        let wide = format == Some(Output::Wide);
        let text = render::detail(&detail.content, created, wide, ui.theme(), now);
        print::lines(text, ui)?;
    }
    Ok(0)
}
