//! Questions.

use std::io;

use dialoguer::console::Term;
use dialoguer::theme::{ColorfulTheme, SimpleTheme, Theme};

use crate::error::Error;

/// Somebody who can answer.
pub(super) trait Ask {
    /// Asks a yes-no question; no answer is no.
    fn confirm(&mut self, question: &str) -> Result<bool, Error>;
}

/// A person at the terminal, asked on stderr.
pub(super) struct Terminal {
    pub(super) color: bool,
}

impl Ask for Terminal {
    fn confirm(&mut self, question: &str) -> Result<bool, Error> {
        let theme: Box<dyn Theme> = if self.color {
            Box::new(ColorfulTheme::default())
        } else {
            Box::new(SimpleTheme)
        };
        let answer = dialoguer::Confirm::with_theme(&*theme)
            .with_prompt(question)
            .default(false)
            .interact_on_opt(&Term::stderr());
        if answer.is_err() {
            // The question hides the cursor, and after Ctrl-C nobody else brings it back.
            let _ = Term::stderr().show_cursor();
        }
        match answer {
            Ok(answer) => Ok(answer.unwrap_or(false)),
            Err(dialoguer::Error::IO(error)) if error.kind() == io::ErrorKind::Interrupted => {
                Err(Error::Interrupted)
            }
            Err(dialoguer::Error::IO(error)) => Err(Error::Io(error)),
        }
    }
}
