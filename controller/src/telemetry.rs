//! The log: standard error, as text for people or JSON for collectors.
//!
//! The level comes from `KRUISE_ROLLOUT_LOG` in the syntax of `tracing` filters (`debug`, `info,kube=debug`); the default is
//! `info`. Colours only on a terminal and without `NO_COLOR`. An unreadable filter is an error rather than a silent default.

use std::io::{self, IsTerminal as _};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{LevelFilter, ParseError};
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::args::LogFormat;

/// Environment variable with the filter.
pub(crate) const FILTER: &str = "KRUISE_ROLLOUT_LOG";

/// Why the log could not be set up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The filter cannot be read.
    #[error("{FILTER} is not a log filter")]
    Filter(#[source] ParseError),
    /// The process has a log already.
    #[error("the log is set up already")]
    Twice(#[source] tracing_subscriber::util::TryInitError),
}

/// Sets up the log of this process, once.
pub(crate) fn init(format: LogFormat) -> Result<(), Error> {
    let filter = filter(std::env::var(FILTER).ok().as_deref()).map_err(Error::Filter)?;
    let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let ansi = io::stderr().is_terminal() && !no_colour;
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(ansi);
    match format {
        LogFormat::Text => log.finish().try_init(),
        LogFormat::Json => log
            .json()
            .flatten_event(true)
            .with_current_span(true)
            .finish()
            .try_init(),
    }
    .map_err(Error::Twice)
}

/// An error and its sources in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

/// The filter that `text` describes; `info` for none and for an empty one.
fn filter(text: Option<&str>) -> Result<EnvFilter, ParseError> {
    EnvFilter::builder()
        .with_default_directive(LevelFilter::INFO.into())
        .parse(text.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters() {
        assert_eq!(filter(None).unwrap().to_string(), "info");
        assert_eq!(filter(Some("")).unwrap().to_string(), "info");
        assert_eq!(
            filter(Some("warn,kube=debug")).unwrap().to_string(),
            "kube=debug,warn"
        );
        assert!(filter(Some("kube=loud")).is_err());
    }
}
