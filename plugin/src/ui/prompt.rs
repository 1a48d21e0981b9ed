//! Questions.

use dialoguer::console::{Key, Term};

use crate::error::Error;

/// Somebody who can answer.
pub(super) trait Ask {
    /// Asks a yes-no question; no answer is no.
    fn confirm(&mut self, question: &str) -> Result<bool, Error>;
}

/// A person at the terminal, asked on stderr. One key is the answer; nothing is drawn, so that any terminal will do and nothing is left
/// to be put right, whatever ends the question.
pub(super) struct Terminal;

impl Ask for Terminal {
    fn confirm(&mut self, question: &str) -> Result<bool, Error> {
        let term = Term::stderr();
        term.write_str(&format!("{question} [y/N] "))?;
        let answer = loop {
            // As it is: otherwise any signal would be answered with SIGINT.
            match term.read_key_raw() {
                Ok(Key::Char('y' | 'Y')) => break Ok(true),
                Ok(Key::Char('n' | 'N' | END) | Key::Enter | Key::Escape) => break Ok(false),
                Ok(Key::CtrlC) => break Err(Error::Interrupted),
                Ok(_) => {}
                Err(error) => break Err(Error::Io(error)),
            }
        };
        term.write_line(match answer {
            Ok(true) => "yes",
            Ok(false) => "no",
            Err(_) => "",
        })?;
        answer
    }
}

/// Ctrl-D: the end of what is typed.
const END: char = '\u{4}';
