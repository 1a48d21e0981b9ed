//! Asking a person on a terminal.

use std::io::{IsTerminal as _, Write as _};

/// The person who was asked does not approve.
#[derive(Debug, thiserror::Error)]
#[error("not approved")]
pub(crate) struct Refused;

/// Whether somebody can be asked.
pub(crate) fn can_ask() -> bool {
    std::io::stdin().is_terminal()
}

/// Asks for an approval and waits for an answer, or until somebody approves elsewhere; whether the answer is yes.
///
/// # Errors
/// The answer is no ([`Refused`]), or there is none.
pub(crate) async fn ask(elsewhere: impl Future) -> anyhow::Result<bool> {
    let _ = write!(std::io::stderr(), "    Approve step 1? [Y/n] ");
    let answer = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        std::io::stdin()
            .read_line(&mut line)
            .map(|bytes| (bytes > 0).then_some(line))
    });
    let answer = tokio::select! {
        answer = answer => answer??,
        _ = elsewhere => {
            let _ = writeln!(std::io::stderr());
            return Ok(false);
        }
    };
    match answer.as_deref().map(str::trim) {
        Some("" | "y" | "Y" | "yes") => Ok(true),
        Some(_) | None => Err(Refused.into()),
    }
}
