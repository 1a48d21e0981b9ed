use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};
use kruise_rollout::report::{Document, EventReport, RolloutEvents, fold};

use super::print;
use crate::cli::{Events, Output};
use crate::cluster::{Cluster, Details, Timeline, Told};
use crate::error::Error;
use crate::follow::now;
use crate::format::{json, yaml};
use crate::ui::{Listener, Ui};
use crate::{render, target};

pub(super) async fn run(command: &Events, cluster: &Cluster, ui: &mut Ui) -> Result<u8, Error> {
    let name = cluster.rollout_of(&target::target(&command.target)?).await?;
    let details = cluster.details(&name).await?;
    print::hidden(details.hidden(), ui);
    let since = command
        .since
        .and_then(|since| SignedDuration::try_from(since).ok())
        .and_then(|since| now().checked_sub(since).ok());
    if command.watch {
        return watch(command, since, cluster, &details, ui).await;
    }
    let mut events = fold(cluster.events(&details).await?);
    events.retain(|event| is_within(event, since));
    let content = RolloutEvents {
        name: name.clone(),
        namespace: cluster.namespace().to_owned(),
        items: events,
    };
    let document = Document::new("RolloutEvents", content);
    let printed = print::document(command.output, &document, ui)?;
    let events = &document.content.items;
    if events.is_empty() {
        let (subject, namespace) = (render::subject(&name), cluster.namespace());
        ui.say(&format!("No events of {subject} in namespace {namespace}."));
    } else if command.output == Some(Output::Name) {
        let names = events.iter().flat_map(|event| &event.names);
        print::lines(names.map(|name| format!("event/{name}")).collect(), ui)?;
    } else if !printed {
        let wide = command.output == Some(Output::Wide);
        let lines = render::events(events, wide, !command.no_headers, ui.theme(), now());
        print::lines(lines, ui)?;
    }
    Ok(0)
}

fn is_within(event: &EventReport, since: Option<Timestamp>) -> bool {
    since.is_none_or(|since| event.last.is_some_and(|last| last >= since))
}

/// One line for each event: those that are there in order, then what comes.
async fn watch(
    command: &Events,
    since: Option<Timestamp>,
    cluster: &Cluster,
    details: &Details,
    ui: &mut Ui,
) -> Result<u8, Error> {
    let mut timeline = Timeline::new(cluster, details);
    let mut first = Some(Vec::new());
    // How often each Event object has told its words: one that is listed again is no news.
    let mut told: HashMap<String, u64> = HashMap::new();
    let listener = Listener::new();
    loop {
        let news = tokio::select! {
            news = timeline.next() => news?,
            () = listener.gone() => return Err(Error::Io(std::io::ErrorKind::BrokenPipe.into())),
        };
        match news {
            Told::Broken(note) => ui.say(&note),
            Told::Listed { again } => {
                if again {
                    ui.say("connected again");
                }
                for event in fold(first.take().unwrap_or_default()) {
                    line(command, &event, ui)?;
                }
            }
            Told::Event(event) if !is_within(&event, since) => {}
            Told::Event(event) => {
                let name = event.names.first().cloned().unwrap_or_default();
                if told.insert(name, event.count) == Some(event.count) {
                    continue;
                }
                match &mut first {
                    Some(first) => first.push(event),
                    None => line(command, &event, ui)?,
                }
            }
        }
    }
}

fn line(command: &Events, event: &EventReport, ui: &mut Ui) -> Result<(), Error> {
    let document = || Document::new("RolloutEvent", event);
    match command.output {
        Some(Output::Json) => ui.answer(&json(&document())?),
        Some(Output::Yaml) => ui.answer(&format!("---\n{}", yaml(&document())?)),
        Some(Output::Name) => {
            let names = event.names.iter().map(|name| format!("event/{name}"));
            print::lines(names.collect(), ui)
        }
        Some(Output::Wide) | None => ui.answer(&render::event(event, ui.theme(), now())),
    }
}
