//! `rollout status`, and how a release is followed.

use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::Output;
use crate::duration::parse_duration;

#[derive(Args, Debug)]
pub(crate) struct Status {
    /// NAME, rollout/NAME or rollout NAME; or a workload, TYPE/NAME, for the Rollout that releases it
    #[arg(required = true, value_name = "TARGET")]
    pub(crate) targets: Vec<String>,
    /// Follow the release to its end
    #[arg(short, long, value_name = "BOOL", default_value = "true", num_args = 0..=1, require_equals = true,
        default_missing_value = "true", action = clap::ArgAction::Set)]
    pub(crate) watch: bool,
    /// Follow it until this: complete, paused, step=NUMBER, approved, rolled-back or any-change
    #[arg(long, value_name = "CONDITION", default_value = "complete")]
    pub(crate) until: Until,
    #[command(flatten)]
    pub(crate) follow: Follow,
    /// Print the report in this format; while following, one report for each change
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) output: Option<Output>,
}

/// How a release is followed.
#[derive(Args, Clone, Debug)]
pub(crate) struct Follow {
    /// End with exit code 5 when the release waits for approval, or is paused
    #[arg(long)]
    pub(crate) exit_on_pause: bool,
    /// How long to follow it, such as 30s or 10m; 0 follows to the end
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = parse_duration)]
    pub(crate) timeout: Duration,
    /// How long a failure must last to end with exit code 3; `off` never ends
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = parse_grace)]
    pub(crate) fail_fast: Grace,
    /// How it is shown: drawn, one line per change, or one JSON report per change
    #[arg(long, value_name = "VIEW", default_value = "auto")]
    pub(crate) view: Watching,
    /// Which pods the drawn view names
    #[arg(long, value_name = "WHICH", default_value = "batch")]
    pub(crate) pods: Pods,
    /// How many events to show; 0 shows none. Lines have the new ones only
    #[arg(long, value_name = "NUMBER", default_value_t = 5)]
    pub(crate) events: usize,
    /// How often to read what you may not watch
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_interval)]
    pub(crate) interval: Duration,
    /// Follow the release of this revision: its name, or how that begins or ends. Another one ends it with exit code 6
    #[arg(long, value_name = "NAME")]
    pub(crate) revision: Option<String>,
}

impl Default for Follow {
    fn default() -> Self {
        Self {
            exit_on_pause: false,
            timeout: Duration::ZERO,
            fail_fast: Grace(Some(Duration::from_secs(120))),
            view: Watching::Auto,
            pods: Pods::Batch,
            events: 5,
            interval: Duration::from_secs(10),
            revision: None,
        }
    }
}

/// How long a failure may last; `None` is for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grace(pub(crate) Option<Duration>);

fn parse_grace(text: &str) -> Result<Grace, String> {
    if text == "off" {
        Ok(Grace(None))
    } else {
        parse_duration(text).map(|time| Grace(Some(time)))
    }
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = parse_duration(text)?;
    if interval < Duration::from_secs(1) {
        return Err("the server is not asked more often than once a second: 1s or more".to_owned());
    }
    Ok(interval)
}

/// How a watch is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Watching {
    /// Drawn on a terminal, one line per change elsewhere.
    Auto,
    /// Drawn.
    Live,
    /// One line per change.
    Lines,
    /// One JSON report per change, each in one line.
    Json,
}

/// Which pods are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Pods {
    /// None.
    None,
    /// Those that are not ready.
    Bad,
    /// Those, and the present batch.
    Batch,
    /// All.
    All,
}

/// What a watch waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// Every pod runs the template.
    Complete,
    /// A pause of any kind, or the end.
    Paused,
    /// This step has begun, or a later one.
    Step(usize),
    /// The pause that waits for a person is over: the present one, or else the next one.
    Approved,
    /// Every pod is back on the stable template.
    RolledBack,
    /// Anything is different.
    AnyChange,
}

impl FromStr for Until {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?} is no condition: write complete, paused, step=NUMBER, approved, rolled-back or any-change"
            )
        };
        Ok(match text {
            "complete" => Self::Complete,
            "paused" => Self::Paused,
            "approved" => Self::Approved,
            "rolled-back" => Self::RolledBack,
            "any-change" => Self::AnyChange,
            _ => {
                let number = text.strip_prefix("step=").and_then(|number| number.parse().ok());
                Self::Step(number.filter(|number| *number > 0).ok_or_else(wrong)?)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        status: Status,
    }

    fn status(line: &str) -> Result<Status, clap::Error> {
        Line::try_parse_from(format!("status web {line}").split_whitespace()).map(|line| line.status)
    }

    #[test]
    fn conditions() {
        for (text, until) in [
            ("complete", Until::Complete),
            ("paused", Until::Paused),
            ("step=2", Until::Step(2)),
            ("approved", Until::Approved),
            ("rolled-back", Until::RolledBack),
            ("any-change", Until::AnyChange),
        ] {
            assert_eq!(text.parse(), Ok(until));
        }
        for text in ["", "done", "step", "step=", "step=0", "step=-1", "step=x"] {
            assert!(text.parse::<Until>().is_err(), "{text}");
        }
    }

    #[test]
    fn defaults_are_the_same_everywhere() {
        let follow = status("").unwrap().follow;
        assert_eq!(format!("{follow:?}"), format!("{:?}", Follow::default()));
    }

    #[test]
    fn values() {
        assert_eq!(status("--fail-fast off").unwrap().follow.fail_fast, Grace(None));
        assert_eq!(
            status("--timeout 5").unwrap().follow.timeout,
            Duration::from_secs(5)
        );
        assert_eq!(status("--events 0 --pods all").unwrap().follow.events, 0);
        for line in [
            "--interval 0",
            "--view page",
            "--pods some",
            "--until never",
            "--timeout soon",
        ] {
            assert!(status(line).is_err(), "{line}");
        }
    }
}
