//! Answers for programs.

use serde::Serialize;

use crate::error::Error;

/// JSON in one line.
pub(crate) fn json(value: &impl Serialize) -> Result<String, Error> {
    serde_json::to_string(value).map_err(|error| Error::Io(error.into()))
}

/// JSON for people, too.
pub(crate) fn pretty(value: &impl Serialize) -> Result<String, Error> {
    serde_json::to_string_pretty(value).map_err(|error| Error::Io(error.into()))
}

/// YAML without an end of line.
pub(crate) fn yaml(value: &impl Serialize) -> Result<String, Error> {
    serde_saphyr::to_string(value)
        .map(|text| text.trim_end().to_owned())
        .map_err(|error| Error::Io(std::io::Error::other(error)))
}
