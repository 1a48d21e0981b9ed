//! Documents for programs.

use kruise_rollout::report::Hidden;
use serde::Serialize;

use crate::cli::Output;
use crate::error::Error;
use crate::format::{pretty, yaml};
use crate::ui::Ui;

/// Prints a document in the format that was asked for. `false` where that is text for people, or names.
pub(super) fn document(
    format: Option<Output>,
    document: &impl Serialize,
    ui: &mut Ui,
) -> Result<bool, Error> {
    match format {
        Some(Output::Json) => ui.answer(&pretty(document)?)?,
        Some(Output::Yaml) => ui.answer(&yaml(document)?)?,
        Some(Output::Name | Output::Wide) | None => return Ok(false),
    }
    Ok(true)
}

pub(super) fn lines(lines: Vec<String>, ui: &mut Ui) -> Result<(), Error> {
    lines.iter().try_for_each(|line| ui.answer(line))
}

/// Says what is not shown.
pub(super) fn hidden(hidden: &[Hidden], ui: &mut Ui) {
    for part in hidden {
        ui.say(&part.to_string());
    }
}
