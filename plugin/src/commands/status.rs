use std::time::Duration;

use kruise_rollout::api::v1beta1::phase;
use kruise_rollout::report::{RolloutReport, State, Verdict};
use kruise_rollout::workload::TemplateId;
use tokio::time::Instant;

use super::now;
use crate::cli::{Output, Status};
use crate::cluster::{Cluster, Feeds, World};
use crate::error::Error;
use crate::format::{json, pretty, yaml};
use crate::ui::Ui;
use crate::ui::live::Live;
use crate::{render, target};

/// Exit code of `--exit-on-pause`.
const PAUSED: u8 = 5;

pub(super) async fn run(command: &Status, cluster: &Cluster, ui: &mut Ui) -> Result<u8, Error> {
    let name = target::rollout(&command.target)?;
    let started = Instant::now();
    let (world, workload, notes) = cluster.world(&name).await?;
    for note in notes {
        ui.say(&note);
    }
    if !command.watch {
        let report = world.report(None, now());
        for line in once(command, &report, ui)? {
            ui.answer(&line)?;
        }
        return Ok(code(command, &report));
    }
    let feeds = Feeds::new(cluster, &name, &world, workload);
    let deadline = (!command.timeout.is_zero()).then(|| started + command.timeout);
    let view = match command.output {
        Some(format @ (Output::Json | Output::Yaml | Output::Name)) => View::Machine { format, last: None },
        Some(Output::Wide) | None => ui.live().map_or(View::Lines { last: None }, View::Live),
    };
    let mut watch = Watch {
        followed: world.template().cloned(),
        world,
        feeds,
        view,
        failing_since: None,
    };
    watch.run(command, deadline, ui).await
}

/// One report in the format that was asked for.
fn once(command: &Status, report: &RolloutReport, ui: &Ui) -> Result<Vec<String>, Error> {
    Ok(match command.output {
        None => render::report(report, ui.theme()),
        Some(Output::Wide) => render::report_wide(report, ui.theme()),
        Some(Output::Json) => vec![pretty(report)?],
        Some(Output::Yaml) => vec![yaml(report)?],
        Some(Output::Name) => vec![render::subject(&report.name)],
    })
}

fn code(command: &Status, report: &RolloutReport) -> u8 {
    match report.verdict {
        Verdict::AwaitingApproval if command.exit_on_pause => PAUSED,
        _ => report.exit_code,
    }
}

/// How changes are shown.
enum View {
    /// Drawn.
    Live(Live),
    /// One line per change.
    Lines { last: Option<String> },
    /// One report per change.
    Machine {
        format: Output,
        last: Option<Box<RolloutReport>>,
    },
}

impl View {
    fn show(&mut self, report: &RolloutReport, ui: &mut Ui) -> Result<(), Error> {
        match self {
            Self::Live(live) => live.draw(render::frame(report, ui.theme()))?,
            Self::Lines { last } => {
                let line = render::change(report);
                if last.as_ref() != Some(&line) {
                    ui.answer(&render::stamped(now(), &line))?;
                    *last = Some(line);
                }
            }
            Self::Machine { format, last } => {
                let key = steady(report);
                if last.as_deref() != Some(&key) {
                    match format {
                        Output::Json => ui.answer(&json(report)?)?,
                        Output::Yaml => ui.answer(&format!("---\n{}", yaml(report)?))?,
                        Output::Name | Output::Wide => {}
                    }
                    *last = Some(Box::new(key));
                }
            }
        }
        Ok(())
    }

    /// Talk in between; a live view is not torn.
    fn say(&self, note: &str, ui: &mut Ui) {
        match self {
            Self::Live(live) => live.say(note),
            Self::Lines { .. } | Self::Machine { .. } => ui.say(note),
        }
    }

    fn end(&self, report: &RolloutReport, ui: &mut Ui) -> Result<(), Error> {
        match self {
            Self::Live(live) => {
                live.close();
                ui.answer(&render::verdict(report))
            }
            Self::Lines { .. } => ui.answer(&render::verdict(report)),
            Self::Machine {
                format: Output::Name, ..
            } => ui.answer(&render::subject(&report.name)),
            Self::Machine { .. } => Ok(()),
        }
    }

    fn counts_down(&self) -> bool {
        matches!(self, Self::Live(_))
    }
}

struct Watch {
    world: World,
    feeds: Feeds,
    /// The template that the workload had when the watch began.
    followed: Option<TemplateId>,
    view: View,
    failing_since: Option<Instant>,
}

impl Watch {
    async fn run(&mut self, command: &Status, deadline: Option<Instant>, ui: &mut Ui) -> Result<u8, Error> {
        loop {
            let report = self.world.report(self.followed.as_ref(), now());
            self.view.show(&report, ui)?;
            if self.is_over(command, &report) {
                self.view.end(&report, ui)?;
                return Ok(code(command, &report));
            }
            if self.followed.is_none() {
                self.followed = self.world.template().cloned();
            }
            let wake = [deadline, self.second(&report), self.patience(command)]
                .into_iter()
                .flatten()
                .min();
            tokio::select! {
                arrival = self.feeds.arrival() => {
                    for note in self.feeds.take_in(arrival, &mut self.world).await? {
                        self.view.say(&note, ui);
                    }
                }
                () = until(wake) => {}
            }
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Err(Error::Timeout(render::subject(&report.name)));
            }
        }
    }

    /// Whether there is nothing to wait for. A failure must last; it may be one that mends itself.
    fn is_over(&mut self, command: &Status, report: &RolloutReport) -> bool {
        if report.verdict == Verdict::Failing {
            let since = *self.failing_since.get_or_insert_with(Instant::now);
            return command
                .fail_fast
                .0
                .is_some_and(|grace| since + grace <= Instant::now());
        }
        self.failing_since = None;
        match report.verdict {
            Verdict::Complete | Verdict::RolledBack | Verdict::Superseded | Verdict::Disabled => {
                // A Rollout that its controller has not looked at yet is not at rest.
                report.state != State::Idle || report.phase == phase::HEALTHY
            }
            Verdict::AwaitingApproval => command.exit_on_pause,
            Verdict::InProgress | Verdict::Failing => false,
        }
    }

    /// When the countdown of a timed pause is to be drawn again.
    fn second(&self, report: &RolloutReport) -> Option<Instant> {
        let counting = self.view.counts_down() && report.state == State::TimedPause;
        counting.then(|| Instant::now() + Duration::from_secs(1))
    }

    /// When a failure has lasted too long.
    fn patience(&self, command: &Status) -> Option<Instant> {
        Some(self.failing_since? + command.fail_fast.0?)
    }
}

/// The report without what changes with the clock alone, lest every look be a change.
fn steady(report: &RolloutReport) -> RolloutReport {
    RolloutReport {
        pause: None,
        ..report.clone()
    }
}

async fn until(wake: Option<Instant>) {
    match wake {
        Some(wake) => tokio::time::sleep_until(wake).await,
        None => std::future::pending().await,
    }
}
