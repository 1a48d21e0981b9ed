//! How changes are shown while they happen: drawn, as lines, as reports.

use std::time::Duration;

use kruise_rollout::report::RolloutReport;
use serde::Serialize;
use tokio::time::Instant;

use super::Track;
use crate::cli::{Follow, Output, Watching};
use crate::error::Error;
use crate::format::{json, yaml};
use crate::render::{self, Scene, Shown};
use crate::ui::Ui;
use crate::ui::live::Live;

/// Frames are at least so far apart.
const FRAME: Duration = Duration::from_millis(200);
/// Clocks go on so often.
const CLOCK: Duration = Duration::from_secs(1);
/// A log that says nothing for so long looks dead.
const HEARTBEAT: Duration = Duration::from_secs(60);

/// What standard output gets.
pub(super) enum View {
    Live {
        live: Live,
        shown: Shown,
        drawn: Option<Instant>,
    },
    Lines {
        lines: Vec<Lines>,
        events: bool,
    },
    Reports {
        format: Output,
        last: Vec<Option<Box<RolloutReport>>>,
    },
}

/// The lines of one release.
#[derive(Clone, Debug, Default)]
pub(super) struct Lines {
    last: Option<(String, Instant)>,
}

impl Lines {
    /// The line, if it is a new one, or one that shows that somebody is still there.
    fn next(&mut self, line: String, at: Instant) -> Option<String> {
        let known = |(last, since): &(String, Instant)| *last == line && at < *since + HEARTBEAT;
        if self.last.as_ref().is_some_and(known) {
            return None;
        }
        self.last = Some((line.clone(), at));
        Some(line)
    }
}

/// The last report of a watch.
#[derive(Serialize)]
struct Final<'a> {
    #[serde(flatten)]
    report: &'a RolloutReport,
    r#final: bool,
    /// Why the watch ended without a verdict.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl View {
    /// # Errors
    /// A live view where there is no terminal for it.
    pub(super) fn new(follow: &Follow, output: Option<Output>, count: usize, ui: &Ui) -> Result<Self, Error> {
        let reports = |format| Self::Reports {
            format,
            last: vec![None; count],
        };
        let lines = || Self::Lines {
            lines: vec![Lines::default(); count],
            events: follow.events > 0,
        };
        let live = |live| Self::Live {
            live,
            shown: Shown {
                pods: follow.pods,
                events: follow.events,
            },
            drawn: None,
        };
        Ok(match (output, follow.view) {
            (Some(format @ (Output::Json | Output::Yaml | Output::Name)), _) => reports(format),
            (Some(Output::Wide) | None, Watching::Json) => reports(Output::Json),
            (Some(Output::Wide) | None, Watching::Lines) => lines(),
            (Some(Output::Wide) | None, Watching::Auto) => ui.live().map_or_else(lines, live),
            (Some(Output::Wide) | None, Watching::Live) => live(ui.live().ok_or_else(|| {
                Error::Usage("--view live needs a terminal on standard output; write --view lines".to_owned())
            })?),
        })
    }

    /// Whether events are shown.
    pub(super) fn wants_events(&self) -> bool {
        match self {
            Self::Live { shown, .. } => shown.events > 0,
            Self::Lines { events, .. } => *events,
            Self::Reports { .. } => false,
        }
    }

    /// Shows what is new. A frame waits for its turn unless it is the last one.
    pub(super) fn show(&mut self, tracks: &mut [Track], at: Instant, ui: &mut Ui) -> Result<(), Error> {
        match self {
            Self::Live { live, shown, drawn } => {
                let last = tracks.iter().all(|track| track.code.is_some());
                if last || drawn.is_none_or(|drawn| drawn + FRAME <= at) {
                    *drawn = Some(at);
                    draw(live, *shown, tracks, at, ui)?;
                }
            }
            Self::Lines { lines, events } => {
                let open = lines.iter_mut().zip(tracks).filter(|(_, track)| !track.said);
                for (lines, track) in open {
                    let now = super::now();
                    for event in track.world.new_events().iter().filter(|_| *events) {
                        let line = render::happening(&track.report.name, event);
                        ui.answer(&render::stamped(event.at.unwrap_or(now), &line))?;
                    }
                    if let Some(line) = lines.next(render::change(&track.report), at) {
                        ui.answer(&render::stamped(now, &line))?;
                    }
                }
            }
            Self::Reports { format, last } => {
                for (last, track) in last.iter_mut().zip(tracks.iter()) {
                    let key = steady(&track.report);
                    // The last one is printed as such.
                    if track.code.is_none() && last.as_deref() != Some(&key) {
                        print(*format, &track.report, ui)?;
                        *last = Some(Box::new(key));
                    }
                }
            }
        }
        Ok(())
    }

    /// Talk in between; a live view is not torn.
    pub(super) fn say(&self, note: &str, ui: &mut Ui) {
        match self {
            Self::Live { live, .. } => live.say(&render::plain(note)),
            Self::Lines { .. } | Self::Reports { .. } => ui.say(note),
        }
    }

    /// The end of one release: its verdict, or why there is none.
    pub(super) fn end(&self, track: &Track, ui: &mut Ui) -> Result<(), Error> {
        match self {
            Self::Live { .. } | Self::Lines { .. } => match &track.error {
                None => ui.answer(&render::verdict(&track.report))?,
                Some(error) => error.explain(ui),
            },
            Self::Reports { format, .. } => {
                let mut report = track.report.clone();
                report.exit_code = track.code.unwrap_or(report.exit_code);
                let last = Final {
                    report: &report,
                    r#final: true,
                    error: track.error.as_ref().map(ToString::to_string),
                };
                match format {
                    Output::Name => ui.answer(&render::subject(&report.name))?,
                    format => print(*format, &last, ui)?,
                }
                if let Some(error) = &track.error {
                    error.explain(ui);
                }
            }
        }
        Ok(())
    }

    /// Leaves the last frame where it is.
    pub(super) fn close(&self) {
        if let Self::Live { live, .. } = self {
            live.close();
        }
    }

    /// Whether each release is said to be over at once; a drawn view says it at its end.
    pub(super) fn says_at_once(&self) -> bool {
        !matches!(self, Self::Live { .. })
    }

    /// When there is something to show though nothing has changed.
    pub(super) fn wake(&self, at: Instant) -> Option<Instant> {
        match self {
            Self::Live { .. } => Some(at + CLOCK),
            Self::Lines { lines, .. } => {
                let beat = |lines: &Lines| lines.last.as_ref().map(|(_, since)| *since + HEARTBEAT);
                lines.iter().filter_map(beat).min()
            }
            Self::Reports { .. } => None,
        }
    }

    /// When the next frame may be drawn.
    pub(super) fn next_frame(&self) -> Option<Instant> {
        match self {
            Self::Live { drawn, .. } => Some((*drawn)? + FRAME),
            Self::Lines { .. } | Self::Reports { .. } => None,
        }
    }

    /// Waits until the terminal has another size.
    pub(super) async fn resized(&mut self) {
        match self {
            Self::Live { live, .. } => live.resized().await,
            Self::Lines { .. } | Self::Reports { .. } => std::future::pending().await,
        }
    }
}

fn draw(live: &Live, shown: Shown, tracks: &[Track], at: Instant, ui: &Ui) -> Result<(), Error> {
    let now = super::now();
    let events: Vec<_> = tracks
        .iter()
        .map(|track| track.world.last_events(shown.events))
        .collect();
    let scenes: Vec<_> = tracks
        .iter()
        .zip(&events)
        .map(|(track, events)| Scene {
            report: &track.report,
            pods: track.world.pods(),
            events,
            since: track.world.since(),
            reconnecting: track.reconnecting(at),
            now,
        })
        .collect();
    let lines = match scenes.as_slice() {
        [one] => render::frame(one, shown, live.size(), ui.theme()),
        many => render::rows(many, live.size(), ui.theme()),
    };
    Ok(live.draw(lines)?)
}

fn print(format: Output, value: &impl Serialize, ui: &mut Ui) -> Result<(), Error> {
    match format {
        Output::Json => ui.answer(&json(value)?),
        Output::Yaml => ui.answer(&format!("---\n{}", yaml(value)?)),
        Output::Name | Output::Wide => Ok(()),
    }
}

/// The report without what changes with the clock alone, lest every look be a change.
fn steady(report: &RolloutReport) -> RolloutReport {
    RolloutReport {
        pause: None,
        ..report.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_said_when_it_is_new_and_once_a_minute() {
        let mut lines = Lines::default();
        let begin = Instant::now();
        let mut said = |line: &str, second: u64| {
            lines
                .next(line.to_owned(), begin + Duration::from_secs(second))
                .is_some()
        };
        assert!(said("a", 0));
        assert!(!said("a", 59));
        assert!(said("b", 59));
        assert!(!said("b", 118));
        assert!(said("b", 119));
        assert!(!said("b", 120));
        assert!(said("b", 179));
        assert!(said("a", 180));
    }
}
