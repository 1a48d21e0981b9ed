//! The log: standard error, as text for people or JSON for collectors.
//!
//! The level comes from `KRUISE_ROLLOUT_LOG` in the syntax of `tracing` filters (`debug`, `info,kube=debug`); the default is
//! `info`. Colours only on a terminal and without `NO_COLOR`. An unreadable filter is an error rather than a silent default.

use std::error::Error;
use std::io::{self, IsTerminal as _};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{LevelFilter, ParseError};
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::args::LogFormat;

/// Environment variable with the filter.
pub(crate) const FILTER: &str = "KRUISE_ROLLOUT_LOG";

/// Filter without that variable. Failures of watches are told by those who watch.
const DEFAULT: &str = "info,kube_runtime::watcher=error";

/// Why the log could not be set up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SetupError {
    /// The filter cannot be read.
    #[error("{FILTER} is not a log filter")]
    Filter(#[source] ParseError),
    /// The process has a log already.
    #[error("the log is set up already")]
    Twice(#[source] tracing_subscriber::util::TryInitError),
}

/// Sets up the log of this process, once.
pub(crate) fn init(format: LogFormat) -> Result<(), SetupError> {
    let filter = filter(std::env::var(FILTER).ok().as_deref()).map_err(SetupError::Filter)?;
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
    .map_err(SetupError::Twice)
}

/// An error and its sources in one line, each said once. Of what the API server answers only the message is taken: the rest of it
/// repeats the message twice.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut parts = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(message) = api_message(error) {
            parts.push(message.to_owned());
            break;
        }
        next = error.source();
        let mut text = error.to_string();
        if let Some(at) = next.and_then(|source| text.find(&source.to_string())) {
            text.truncate(at);
        }
        parts.push(text.trim_end_matches([':', ' ']).to_owned());
    }
    parts.retain(|part| !part.is_empty());
    parts.join(": ")
}

/// What the API server said, if this is its answer.
fn api_message<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a str> {
    let boxed = error.downcast_ref::<Box<kube::Error>>().map(AsRef::as_ref);
    match error.downcast_ref::<kube::Error>().or(boxed)? {
        kube::Error::Api(status) if !status.message.is_empty() => Some(&status.message),
        _ => None,
    }
}

/// The filter that `text` describes; `info` for none and for an empty one.
fn filter(text: Option<&str>) -> Result<EnvFilter, ParseError> {
    let text = text.filter(|text| !text.trim().is_empty()).unwrap_or(DEFAULT);
    EnvFilter::builder()
        .with_default_directive(LevelFilter::INFO.into())
        .parse(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters() {
        let default = filter(None).unwrap().to_string();
        assert!(
            default.contains("info") && default.contains("kube_runtime::watcher=error"),
            "{default}"
        );
        assert_eq!(filter(Some(" ")).unwrap().to_string(), default);
        assert_eq!(
            filter(Some("warn,kube=debug")).unwrap().to_string(),
            "kube=debug,warn"
        );
        assert!(filter(Some("kube=loud")).is_err());
    }

    #[test]
    fn what_the_api_server_says_is_said_once() {
        let status = || {
            kube::core::Status::failure("pods is forbidden", "Forbidden")
                .with_code(403)
                .boxed()
        };
        let alone = kube::Error::Api(status());
        assert_eq!(chain(&alone), "pods is forbidden");
        let watch = kube::runtime::watcher::Error::InitialListFailed(kube::Error::Api(status()));
        assert_eq!(
            chain(&watch),
            "failed to perform initial object list: pods is forbidden"
        );
        let other = SetupError::Filter(filter(Some("kube=loud")).unwrap_err());
        assert!(
            chain(&other).starts_with("KRUISE_ROLLOUT_LOG is not a log filter: "),
            "{}",
            chain(&other)
        );
    }
}
