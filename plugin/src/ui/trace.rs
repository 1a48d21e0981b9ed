//! What `-v` shows, on stderr: how the server is reached, and from the second one on each request. Never a header, never a token.

use std::io::Write;

/// Traces, as many as were asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Trace {
    level: u8,
}

impl Trace {
    /// `level`: 0 nothing, 1 how the server is reached, 2 each request.
    pub(crate) fn new(level: u8) -> Self {
        Self { level }
    }

    /// Whether each request is shown.
    pub(crate) fn requests(self) -> bool {
        self.level >= 2
    }

    /// Something that happens rarely.
    pub(crate) fn note(self, line: &str) {
        if self.level >= 1 {
            self.say(line);
        }
    }

    /// A line of its own. Whoever has closed stderr does not want it.
    pub(crate) fn say(self, line: &str) {
        let _ = writeln!(std::io::stderr(), "kubectl-kruise: {line}");
    }
}
