//! Completion as kubectl asks for it: candidates, one a line, then a line with a directive. It says nothing on stderr, and it ends in
//! time whatever the server does.

mod words;

use std::io::Write;
use std::time::Duration;

use clap::{CommandFactory, Parser};

use crate::cli::{Cli, Connection};
use crate::cluster::Cluster;
use crate::connect::{Attendance, connect_with, known};
use crate::target::is_rollout;
use words::{Place, Wanted, place};

/// How long the server is asked. kubectl's users wait a second at most for all of it.
const PATIENCE: Duration = Duration::from_millis(700);
/// Directive: what was offered is all, no files.
const NO_FILES: u8 = 4;
/// Directive: files may stand here.
const FILES: u8 = 0;

/// Completes the last of the words, which may be empty. What cannot be found out in time is left out.
pub(crate) fn run(words: &[String]) -> std::io::Result<()> {
    let mut command = Cli::command();
    command.build();
    let place = place(&command, words);
    let mut found = place.statics.clone();
    let directive = if place.wanted == Wanted::File {
        FILES
    } else {
        NO_FILES
    };
    if !matches!(place.wanted, Wanted::Nothing | Wanted::File)
        && let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build()
    {
        let asked = runtime.block_on(async { tokio::time::timeout(PATIENCE, dynamic(&place)).await });
        // Names of hosts are looked up on threads that nobody waits for.
        runtime.shutdown_background();
        found.extend(asked.ok().flatten().unwrap_or_default());
    }
    found.retain(|candidate| candidate.starts_with(&place.partial));
    let mut answer = String::new();
    for candidate in found {
        answer.push_str(&place.prefix);
        answer.push_str(&candidate);
        answer.push('\n');
    }
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{answer}:{directive}")?;
    stdout.flush()
}

async fn dynamic(place: &Place) -> Option<Vec<String>> {
    let line = std::iter::once("kubectl-kruise").chain(place.flags.iter().map(String::as_str));
    let flags = Cli::try_parse_from(line).ok()?.global.connection;
    match place.wanted {
        Wanted::Nothing | Wanted::File => None,
        Wanted::Contexts => Some(
            known(&flags)?
                .contexts
                .into_iter()
                .map(|entry| entry.name)
                .collect(),
        ),
        Wanted::Clusters => Some(
            known(&flags)?
                .clusters
                .into_iter()
                .map(|entry| entry.name)
                .collect(),
        ),
        Wanted::Users => Some(
            known(&flags)?
                .auth_infos
                .into_iter()
                .map(|entry| entry.name)
                .collect(),
        ),
        Wanted::Namespaces => cluster(&flags).await?.namespaces().await.ok(),
        Wanted::Rollouts => rollouts(place, &cluster(&flags).await?).await,
        Wanted::Workloads => workloads(place, &cluster(&flags).await?).await,
    }
}

async fn cluster(flags: &Connection) -> Option<Cluster> {
    connect_with(flags, Attendance::Silent).await.ok()
}

/// Names of Rollouts, as `TYPE/NAME` where that was begun, and none a second time.
async fn rollouts(place: &Place, cluster: &Cluster) -> Option<Vec<String>> {
    let typed = place.partial.split_once('/').map(|(kind, _)| kind);
    if typed.is_some_and(|kind| !is_rollout(kind)) {
        return None;
    }
    let (first, several) = (place.given.first(), place.several);
    let separate = typed.is_none() && first.is_some_and(|word| is_rollout(word));
    if first.is_some() && !several && !(separate && place.given.len() == 1) {
        return None;
    }
    let given = |name: &String| {
        place
            .given
            .iter()
            .any(|word| word.rsplit('/').next() == Some(name.as_str()))
    };
    let names = cluster.rollout_names().await.ok()?;
    Some(
        names
            .into_iter()
            .filter(|name| !given(name))
            .map(|name| match typed {
                Some(kind) => format!("{kind}/{name}"),
                None => name,
            })
            .collect(),
    )
}

/// `TYPE/NAME` of what Rollouts name, and of the objects of a type that was begun.
async fn workloads(place: &Place, cluster: &Cluster) -> Option<Vec<String>> {
    let list = async |kind: &str| {
        let (resource, group) = match kind.split_once('.') {
            Some((resource, group)) => (resource, Some(group)),
            None => (kind, None),
        };
        let resource = cluster.resource(resource, group).await.ok()?;
        cluster.names(&resource).await.ok()
    };
    match (place.given.as_slice(), place.partial.split_once('/')) {
        ([], Some((kind, _))) => {
            let names = if is_rollout(kind) {
                cluster.rollout_names().await.ok()?
            } else {
                list(kind).await?
            };
            Some(names.into_iter().map(|name| format!("{kind}/{name}")).collect())
        }
        ([], None) => {
            let mut found = cluster.referenced().await.ok()?;
            found.sort();
            found.dedup();
            Some(found)
        }
        ([kind], None) if is_rollout(kind) => cluster.rollout_names().await.ok(),
        ([kind], None) => list(kind).await,
        _ => None,
    }
}
