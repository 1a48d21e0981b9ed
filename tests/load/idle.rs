//! Rollouts at rest: what they cost when nothing happens.

use std::time::Duration;

use serde_json::{Value, json};
use support::Identity;

use crate::fleet::{Fleet, resource};
use crate::journal::{Journal, Seen};
use crate::requests::Requests;
use crate::stage::{Stage, control_plane};
use crate::usage::{load_average, rounded};
use crate::{Arguments, heading};

/// How long anything may take before the run is given up.
const DEADLINE: Duration = Duration::from_secs(1_800);
/// What has ended is forgotten by then.
const SETTLE: Duration = Duration::from_secs(10);

/// Measures what the arguments say. The workloads have no pods: those at rest are not looked at.
pub(crate) async fn measure(arguments: &Arguments) -> anyhow::Result<Value> {
    let control_plane = control_plane().await?;
    let stage = Stage::set(&control_plane, arguments).await?;
    let fleet = Fleet::new(&control_plane, arguments.kind, arguments.rollouts, 0).await?;
    let journal = Journal::open(
        &control_plane.client(Identity::Admin).await?,
        &resource(arguments.kind),
        true,
    );
    let mut answer = heading(arguments);
    let resident = || json!(stage.usage().map(|usage| rounded(usage.resident)));
    answer["rss_empty_mib"] = resident();

    eprintln!(
        "creating {} workloads without pods, and their Rollouts",
        arguments.rollouts
    );
    fleet.create_sets().await?;
    fleet.create_rollouts(&json!({})).await?;
    let missing = |seen: &Seen| {
        let healthy = seen.courses.values().filter(|course| course.phase == "Healthy");
        fleet.names.len().saturating_sub(healthy.count())
    };
    let known = journal.until(DEADLINE, "all Rollouts are healthy", missing).await;
    known.map_err(|error| error.context(format!("controller:\n{}", stage.log())))?;
    tokio::time::sleep(SETTLE).await;
    answer["rss_rollouts_mib"] = resident();
    if arguments.pods > 0 {
        eprintln!("creating {} pods that belong to nobody", arguments.pods);
        fleet.create_pods(arguments.pods).await?;
        tokio::time::sleep(SETTLE).await;
        answer["pods"] = json!(arguments.pods);
        answer["rss_pods_mib"] = resident();
    }

    eprintln!("resting for {} s", arguments.seconds);
    let (mark, before) = (control_plane.audit().mark(), stage.usage());
    tokio::time::sleep(Duration::from_secs(arguments.seconds.into())).await;
    let seconds = f64::from(arguments.seconds);
    let requests = Requests::since(control_plane.audit(), mark, stage.user());
    answer["seconds"] = json!(arguments.seconds);
    answer["requests_per_minute"] = requests.per_minute(seconds);
    if let (Some(before), Some(after)) = (before, stage.usage()) {
        answer["cpu_seconds_per_minute"] = json!(rounded((after.cpu - before.cpu) * 60.0 / seconds));
        answer["rss_final_anonymous_mib"] = json!(rounded(after.anonymous));
        answer["rss_final_mib"] = json!(rounded(after.resident));
        answer["rss_peak_mib"] = json!(rounded(after.peak));
    }
    answer["load_average_after"] = load_average();
    Ok(answer)
}
