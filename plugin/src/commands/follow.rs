//! Waiting for what a command has set in motion.

use std::time::Duration;

use kruise_rollout::report::{RolloutReport, State, Verdict};
use tokio::time::Instant;

use crate::cluster::{Cluster, Feeds};
use crate::error::Error;
use crate::follow::now;
use crate::render;
use crate::ui::Ui;

/// How long a failure may last before it counts.
const PATIENCE: Duration = Duration::from_secs(120);

/// How often what may not be watched is read.
const INTERVAL: Duration = Duration::from_secs(10);

/// When to give up; `None` is never.
pub(super) type Deadline = Option<Instant>;

/// The end of `--timeout`, of which 0 means never.
pub(super) fn deadline(timeout: Duration) -> Deadline {
    (!timeout.is_zero()).then(|| Instant::now() + timeout)
}

/// Follows a release until `until` says with which exit code to end, or until it can come to nothing else. Changes are told on
/// stderr. Returns the last report and the exit code.
pub(super) async fn follow(
    name: &str,
    cluster: &Cluster,
    deadline: Deadline,
    ui: &mut Ui,
    until: impl Fn(&RolloutReport) -> Option<u8>,
) -> Result<(RolloutReport, u8), Error> {
    let (mut world, workload, notes) = cluster.world(name).await?;
    for note in notes {
        ui.say(&note);
    }
    let mut feeds = Feeds::new(cluster, name, &world, workload, INTERVAL, false);
    let followed = world.template().cloned();
    let mut failing: Option<Instant> = None;
    let mut last = String::new();
    loop {
        let report = world.report(followed.as_ref(), now());
        let line = render::change(&report);
        if line != last {
            ui.say(&render::stamped(now(), &line));
            last = line;
        }
        if let Some(code) = until(&report) {
            return Ok((report, code));
        }
        failing = (report.verdict == Verdict::Failing).then(|| failing.unwrap_or_else(Instant::now));
        let patience = failing.map(|since| since + PATIENCE);
        if patience.is_some_and(|end| end <= Instant::now()) || over(&report) {
            let code = report.exit_code;
            return Ok((report, code));
        }
        let wake = [deadline, patience].into_iter().flatten().min();
        let arrival = match wake {
            None => Some(feeds.arrival().await),
            Some(wake) => tokio::time::timeout_at(wake, feeds.arrival()).await.ok(),
        };
        if let Some(arrival) = arrival {
            for note in feeds.take_in(arrival, &mut world).await? {
                ui.say(&note);
            }
        }
        if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            return Err(Error::Timeout(render::subject(name)));
        }
    }
}

/// Whether nothing else is to come.
fn over(report: &RolloutReport) -> bool {
    matches!(
        report.state,
        State::RolledBack | State::Superseded | State::Disabled | State::Complete
    )
}
