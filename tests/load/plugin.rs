//! The plugin: processor time, memory and requests of its commands, among many Rollouts.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use support::{ControlPlane, Identity, Installation, build_binaries};

use crate::fleet::{Fleet, NAMESPACE};
use crate::requests::Requests;
use crate::stage::control_plane;
use crate::stopwatch::{self, Run};
use crate::usage::{load_average, rounded};
use crate::{Arguments, heading};

/// Pods of the workload that is looked at alone.
const PODS: i64 = 5;
/// Runs of a command that is over soon. The median counts.
const RUNS: usize = 15;
/// Runs of a command about all Rollouts.
const FEW: usize = 3;
/// How long entries of the audit log may come after their answers.
const LATE: Duration = Duration::from_secs(1);

/// Measures what the arguments say. Nothing runs but the API server and what makes pods: a controller would write meanwhile.
pub(crate) async fn measure(arguments: &Arguments) -> anyhow::Result<Value> {
    let program = match &arguments.program {
        Some(program) => program.clone(),
        None => build_binaries()?.plugin.clone(),
    };
    let control_plane = control_plane().await?;
    Installation::apply(&control_plane).await?;
    let fleet = Fleet::new(&control_plane, arguments.kind, arguments.rollouts, 0).await?;
    let mut answer = heading(arguments);
    eprintln!("creating {} workloads, and their Rollouts", arguments.rollouts);
    fleet.create_sets().await?;
    fleet.create_rollouts(&json!({})).await?;
    fleet.tell(&fleet.names, &at_rest()).await?;
    let name = fleet.names[0].as_str();
    fleet.scale(name, PODS).await?;
    fleet.tell(&fleet.names[..1], &paused()).await?;

    answer["binary_bytes"] = json!(std::fs::metadata(&program)?.len());
    let plugin = Plugin {
        program,
        control_plane: &control_plane,
    };
    let of = |verb: &'static str| vec!["rollout", verb, name, "-n", NAMESPACE];
    let list = |more: &[&'static str]| [&["rollout", "list", "-A"], more].concat();
    for (what, runs, words) in [
        ("version", RUNS, vec!["version", "--client"]),
        ("completion_script", RUNS, vec!["completion", "bash"]),
        (
            "completion",
            RUNS,
            vec!["__complete", "rollout", "status", "-n", NAMESPACE, "app-0000"],
        ),
        ("status", RUNS, [of("status"), vec!["--watch=false"]].concat()),
        (
            "status_json",
            RUNS,
            [of("status"), vec!["--watch=false", "-o", "json"]].concat(),
        ),
        (
            "status_watch_10s",
            1,
            [of("status"), vec!["--timeout=10s"]].concat(),
        ),
        ("get", RUNS, of("get")),
        ("list", FEW, list(&[])),
        ("list_by_age", FEW, list(&["--sort-by=age"])),
        ("list_json", FEW, list(&["-o", "json"])),
        ("list_yaml", FEW, list(&["-o", "yaml"])),
        ("list_name", FEW, list(&["-o", "name"])),
    ] {
        answer[what] = plugin.measured(&words, runs).await?;
        eprintln!("{what} {}", answer[what]);
    }
    answer["load_average_after"] = load_average();
    Ok(answer)
}

/// The program, and whom it asks.
struct Plugin<'a> {
    program: PathBuf,
    control_plane: &'a ControlPlane,
}

impl Plugin<'_> {
    async fn measured(&self, words: &[&str], runs: usize) -> anyhow::Result<Value> {
        let audit = self.control_plane.audit();
        let kubeconfig = self.control_plane.kubeconfig(Identity::Viewer);
        let mark = audit.mark();
        let runs: Vec<Run> = (0..runs)
            .map(|_| stopwatch::time(&self.program, words, &kubeconfig))
            .collect::<Result<_, _>>()?;
        tokio::time::sleep(LATE).await;
        let requests = Requests::since(audit, mark, Identity::Viewer.user());
        let sorted = |of: fn(&Run) -> f64| {
            let mut values: Vec<f64> = runs.iter().map(of).collect();
            values.sort_by(f64::total_cmp);
            values
        };
        let median = |of| sorted(of).get(runs.len() / 2).map(|number| rounded(*number));
        let most = |of| sorted(of).last().map(|number| rounded(*number));
        Ok(json!({
            "code": runs[0].code,
            "cpu_ms": median(|run| run.cpu_ms),
            "wall_ms": median(|run| run.wall_ms),
            "peak_mib": most(|run| run.peak_mib),
            "bytes": runs[0].bytes,
            "requests": requests.count() / runs.len(),
        }))
    }
}

fn at_rest() -> Value {
    json!({
        "phase": "Healthy",
        "observedGeneration": 1,
        "message": "the workload is at rest",
        "conditions": [
            condition("Guarded", "True", "Guarded"),
            condition("Progressing", "False", "Completed"),
            condition("Succeeded", "True", "Succeeded"),
        ],
        "canaryStatus": canary(3, "Completed"),
    })
}

fn paused() -> Value {
    json!({
        "phase": "Progressing",
        "message": "step 1 of 3 waits for an approval",
        "conditions": [condition("Guarded", "True", "Guarded"), condition("Progressing", "True", "InRolling")],
        "canaryStatus": canary(1, "StepPaused"),
    })
}

fn canary(step: u32, state: &str) -> Value {
    json!({
        "currentStepIndex": step, "nextStepIndex": step + 1, "currentStepState": state,
        "canaryReplicas": 1, "canaryReadyReplicas": 1,
        "canaryRevision": "6d4cf56db6", "stableRevision": "5b6c7f8d9c", "observedWorkloadGeneration": 2,
        "podTemplateHash": "6d4cf56db6", "finalisingStep": "",
        "lastUpdateTime": "2026-01-02T03:04:05Z",
    })
}

fn condition(kind: &str, status: &str, reason: &str) -> Value {
    json!({
        "type": kind, "status": status, "reason": reason, "message": "what a person reads about it",
        "lastTransitionTime": "2026-01-02T03:04:05Z", "lastUpdateTime": "2026-01-02T03:04:05Z",
    })
}
