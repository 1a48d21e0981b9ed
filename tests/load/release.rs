//! Releases of all workloads at once: one that goes by itself, and one that waits for people, half of whom approve and half revert.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::{ControlPlane, Identity, Mark};

use crate::fleet::{Fleet, image, resource};
use crate::journal::{Journal, Seen};
use crate::reactions::{ByName, violations};
use crate::requests::Requests;
use crate::stage::{Stage, control_plane};
use crate::usage::{Usage, load_average, rounded};
use crate::{Arguments, heading};

/// How long anything may take before the run is given up.
const DEADLINE: Duration = Duration::from_secs(900);

/// One run.
struct Run<'a> {
    arguments: &'a Arguments,
    control_plane: &'a ControlPlane,
    stage: Stage<'a>,
    fleet: Fleet,
    journal: Journal,
    /// The last version of all workloads.
    start: Start,
}

/// Where the counting begins.
struct Start {
    mark: Mark,
    usage: Option<Usage>,
    control_plane: BTreeMap<&'static str, f64>,
}

/// Measures what the arguments say.
pub(crate) async fn measure(arguments: &Arguments) -> anyhow::Result<Value> {
    let control_plane = control_plane().await?;
    let mut run = Run::prepare(arguments, &control_plane).await?;
    let measured = run.measure().await;
    measured.map_err(|error| error.context(format!("controller:\n{}", run.stage.log())))
}

impl<'a> Run<'a> {
    /// All workloads in version 1, ready, and governed.
    async fn prepare(arguments: &'a Arguments, control_plane: &'a ControlPlane) -> anyhow::Result<Self> {
        let stage = Stage::set(control_plane, arguments).await?;
        let fleet = Fleet::new(
            control_plane,
            arguments.kind,
            arguments.rollouts,
            arguments.replicas,
        )
        .await?;
        let client = control_plane.client(Identity::Admin).await?;
        let journal = Journal::open(&client, &resource(arguments.kind), !arguments.bare);
        let run = Self {
            arguments,
            control_plane,
            stage,
            fleet,
            journal,
            start: Start {
                mark: control_plane.audit().beginning(),
                usage: None,
                control_plane: BTreeMap::new(),
            },
        };
        eprintln!(
            "creating {} workloads of {} pods",
            arguments.rollouts, arguments.replicas
        );
        run.fleet.create_sets().await?;
        run.until_settled("v1").await?;
        if !arguments.bare {
            eprintln!("creating their Rollouts");
            run.fleet.create_rollouts(&run.pause()).await?;
            let phase = |seen: &Seen| {
                run.missing(
                    seen.courses
                        .values()
                        .filter(|course| course.phase == "Healthy")
                        .count(),
                )
            };
            run.journal
                .until(DEADLINE, "all Rollouts are healthy", phase)
                .await?;
        }
        Ok(run)
    }

    async fn measure(&mut self) -> anyhow::Result<Value> {
        let mut answer = heading(self.arguments);
        answer["replicas"] = json!(self.arguments.replicas);
        answer["pause_seconds"] = json!(self.arguments.pause);
        self.begin().await?;
        let sent = self.by_itself(&mut answer).await?;
        if !self.arguments.bare {
            self.by_people(&mut answer, &sent).await?;
        }
        answer["watch_gaps"] = json!(self.journal.seen().gaps);
        answer["load_average_after"] = load_average();
        Ok(answer)
    }

    fn pause(&self) -> Value {
        json!({"duration": self.arguments.pause})
    }

    fn missing(&self, there: usize) -> usize {
        self.fleet.names.len().saturating_sub(there)
    }

    /// Waits until all workloads run the version, ready, and are let go of.
    async fn until_settled(&self, version: &str) -> anyhow::Result<Instant> {
        let image = image(version);
        let left = |seen: &Seen| {
            let settled = seen.sets.values().filter(|set| set.settled && set.image == image);
            self.missing(settled.count())
        };
        let what = format!("all pods run {version}");
        self.journal.until(DEADLINE, &what, left).await
    }

    /// Waits until no Rollout has anything to do.
    async fn until_healthy(&self) -> anyhow::Result<Instant> {
        let left = |seen: &Seen| {
            let ended = seen
                .courses
                .values()
                .filter(|course| course.phase == "Healthy" && course.state == "Completed");
            self.missing(ended.count())
        };
        self.journal
            .until(DEADLINE, "all releases have ended", left)
            .await
    }

    /// Counts from now on: whatever led here has reached the audit log.
    async fn begin(&mut self) -> anyhow::Result<()> {
        self.journal.quiet(DEADLINE).await?;
        self.start = Start {
            mark: self.control_plane.audit().mark(),
            usage: self.stage.usage(),
            control_plane: self.control_plane_cpu(),
        };
        Ok(())
    }

    /// Processor time that each program of the control plane has used so far, in seconds.
    fn control_plane_cpu(&self) -> BTreeMap<&'static str, f64> {
        let groups = self.control_plane.groups().into_iter();
        groups
            .map(|(program, group)| (program, Usage::of_group(group).cpu))
            .collect()
    }

    /// Version 2, with timed pauses.
    async fn by_itself(&self, answer: &mut Value) -> anyhow::Result<BTreeMap<String, Instant>> {
        eprintln!("releasing v2");
        let began = Instant::now();
        let sent = self.fleet.set_version(&self.fleet.names, "v2").await?;
        let mut ended = self.until_settled("v2").await?;
        if !self.arguments.bare {
            ended = self.until_healthy().await?.max(ended);
        }
        answer["wall_seconds"] = json!(rounded((ended - began).as_secs_f64()));
        self.journal.quiet(DEADLINE).await?;
        let used = self.control_plane_cpu().into_iter().map(|(program, after)| {
            let before = self.start.control_plane.get(program).copied();
            (program, rounded(after - before.unwrap_or_default()))
        });
        answer["control_plane_cpu_seconds"] = json!(used.collect::<BTreeMap<_, _>>());
        if let (Some(before), Some(after)) = (self.start.usage, self.stage.usage()) {
            answer["cpu_seconds"] = json!(rounded(after.cpu - before.cpu));
            answer["rss_peak_mib"] = json!(rounded(after.peak));
            answer["rss_final_mib"] = json!(rounded(after.resident));
            let requests = Requests::since(self.control_plane.audit(), self.start.mark, self.stage.user());
            answer["writes_per_release"] = requests.writes_per_release(self.arguments.rollouts);
            answer["writes_refused"] = requests.refused();
        }
        Ok(sent)
    }

    /// Version 3, where the first step waits for people: one half approve, the other half want version 2 back.
    async fn by_people(&self, answer: &mut Value, v2: &BTreeMap<String, Instant>) -> anyhow::Result<()> {
        eprintln!("releasing v3, of which one half is approved and the other reverted");
        self.fleet.wait_for_people(&self.pause()).await?;
        self.journal.quiet(DEADLINE).await?;
        let began = Instant::now();
        let v3 = self.fleet.set_version(&self.fleet.names, "v3").await?;
        let paused = |seen: &Seen| {
            let paused = seen
                .courses
                .values()
                .filter(|course| course.state == "StepPaused" && course.step == 1);
            self.missing(paused.count())
        };
        self.journal
            .until(DEADLINE, "all wait for approval", paused)
            .await?;
        let (these, those) = self.fleet.names.split_at(self.fleet.names.len().div_ceil(2));
        let approved = self.fleet.approve(these).await?;
        let reverted = self.fleet.set_version(those, "v2").await?;
        self.until_healthy().await?;
        self.journal.quiet(DEADLINE).await?;

        let seen = self.journal.seen();
        let by_name = ByName::of(&seen.events);
        let (i2, i3) = (image("v2"), image("v3"));
        let first = v2.values().min().copied().unwrap_or(began);
        let before: Vec<_> = seen
            .events
            .iter()
            .filter(|event| event.at < began)
            .cloned()
            .collect();
        answer["reactions_ms"] = json!({
            "patched_to_held": by_name.patched_to_held(v2, &i2).told(),
            "held_to_first_partition": by_name.held_to_first(v2, &i2).told(),
            "ready_to_paused": by_name.ready_to_paused(first, &i2).told(),
            "waiting_patched_to_held": by_name.patched_to_held(&v3, &i3).told(),
            "waiting_held_to_first_partition": by_name.held_to_first(&v3, &i3).told(),
            "waiting_ready_to_paused": by_name.ready_to_paused(began, &i3).told(),
            "approved_to_partition": by_name.approved_to_lowered(&approved, self.fleet.replicas - 1).told(),
            "reverted_to_open": by_name.reverted_to_open(&reverted, &i2).told(),
        });
        answer["gate_violations"] = json!(violations(&before, &i2) + violations(&seen.events, &i3));
        Ok(())
    }
}
