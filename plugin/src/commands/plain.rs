//! The status of a workload that no Rollout releases.

use kruise_rollout::report::{Document, PlainStatus};
use tokio::time::Instant;

use super::print;
use crate::cli::{Output, Status};
use crate::cluster::{Cluster, Workload, WorkloadFeed};
use crate::error::Error;
use crate::format::json;
use crate::ui::Ui;

/// Shows it, and follows it until its update is complete. The exit code is 0 also where it is shown before that.
pub(super) async fn run(
    command: &Status,
    workload: &Workload,
    cluster: &Cluster,
    ui: &mut Ui,
) -> Result<u8, Error> {
    let mut last = shown(workload, cluster)?;
    say(command, &last, ui)?;
    if !command.watch {
        return Ok(0);
    }
    let deadline = (!command.follow.timeout.is_zero()).then(|| Instant::now() + command.follow.timeout);
    let mut feed = WorkloadFeed::new(cluster, workload);
    while !last.complete {
        let next = match deadline {
            None => feed.next().await?,
            Some(deadline) => tokio::time::timeout_at(deadline, feed.next())
                .await
                .unwrap_or_else(|_| Err(Error::Timeout(last.name.clone())))?,
        };
        let now = shown(&next, cluster)?;
        if now != last {
            say(command, &now, ui)?;
        }
        last = now;
    }
    Ok(0)
}

fn shown(workload: &Workload, cluster: &Cluster) -> Result<PlainStatus, Error> {
    let name = workload.subject();
    match workload.view() {
        Some(Ok(view)) => Ok(PlainStatus::new(name, cluster.namespace().to_owned(), &view)),
        Some(Err(error)) => Err(Error::Unreadable(name, error.to_string())),
        None => Err(Error::Unreadable(
            name,
            "workloads of this kind are not known".to_owned(),
        )),
    }
}

fn say(command: &Status, status: &PlainStatus, ui: &mut Ui) -> Result<(), Error> {
    let document = Document::new("WorkloadStatus", status.clone());
    match command.output {
        Some(Output::Json) if command.watch => ui.answer(&json(&document)?),
        Some(Output::Name) => ui.answer(&status.name),
        format => {
            if !print::document(format, &document, ui)? {
                ui.answer(&format!("{}: {}", status.name, status.message))?;
            }
            Ok(())
        }
    }
}
