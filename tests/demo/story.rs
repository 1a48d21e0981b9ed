//! What is told on standard output: numbered chapters, commands as they are run, what was seen and whether it was expected.

use std::io::{Stdout, Write as _};
use std::time::Duration;

use anstream::AutoStream;
use anstyle::{AnsiColor, Style};

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default().bold();
const COMMAND: Style = AnsiColor::Cyan.on_default();

/// The story so far. Escape codes are left out unless standard output is a terminal that wants them.
#[derive(Debug)]
pub(crate) struct Story {
    out: AutoStream<Stdout>,
    chapters: u32,
    differences: Vec<String>,
}

impl Story {
    /// An empty story.
    pub(crate) fn new() -> Self {
        Self {
            out: AutoStream::auto(std::io::stdout()),
            chapters: 0,
            differences: Vec::new(),
        }
    }

    /// A line. A reader that has left (a closed pipe) does not end the walk: what was started has to be ended in order.
    fn line(&mut self, text: &str) {
        let _ = writeln!(self.out, "{text}").and_then(|()| self.out.flush());
    }

    /// Begins a numbered chapter.
    pub(crate) fn chapter(&mut self, title: &str) {
        self.chapters += 1;
        let number = self.chapters;
        self.line(&format!("\n{BOLD}{number:>2}  {title}{BOLD:#}"));
    }

    /// A sentence or two of the story.
    pub(crate) fn tell(&mut self, text: &str) {
        for line in text.lines() {
            self.line(&format!("    {line}"));
        }
    }

    /// A command line, and who runs it.
    pub(crate) fn command(&mut self, who: &str, line: &str) {
        self.line(&format!("    {DIM}{who}{DIM:#}$ {COMMAND}{line}{COMMAND:#}"));
    }

    /// A part of the output of a command, or of a file.
    pub(crate) fn quote(&mut self, text: &str) {
        for line in text.lines() {
            self.line(format!("      {DIM}|{DIM:#} {line}").trim_end());
        }
    }

    /// Something that was expected, and when it was seen.
    pub(crate) fn seen(&mut self, what: &str, after: Option<(Duration, &str)>) {
        let when = after.map_or_else(String::new, |(time, since)| {
            format!("  {DIM}{:.3} s after {since}{DIM:#}", time.as_secs_f64())
        });
        self.line(&format!("    {GOOD}✓{GOOD:#} {what}{when}"));
    }

    /// Says whether something is as expected; a difference is remembered for the end.
    pub(crate) fn check<T: PartialEq + std::fmt::Debug>(&mut self, what: &str, found: &T, expected: &T) {
        if found == expected {
            self.seen(what, None);
        } else {
            self.differ(&format!("{what}: expected {expected:?}, found {found:?}"));
        }
    }

    /// Something that is not as expected.
    pub(crate) fn differ(&mut self, what: &str) {
        self.line(&format!("    {BAD}✗ {what}{BAD:#}"));
        self.differences.push(what.to_owned());
    }

    /// A line of a table; a time over its budget is said in colour only.
    pub(crate) fn row(&mut self, text: &str, within: Option<bool>) {
        let style = match within {
            None => BOLD,
            Some(true) => GOOD,
            Some(false) => AnsiColor::Yellow.on_default(),
        };
        self.line(&format!("    {style}{text}{style:#}"));
    }

    /// The last lines; whether everything was as expected.
    pub(crate) fn end(&mut self, took: Duration) -> bool {
        let differences = std::mem::take(&mut self.differences);
        let seconds = took.as_secs_f64();
        self.line("");
        if differences.is_empty() {
            self.line(&format!(
                "{GOOD}Everything was as expected{GOOD:#}, in {seconds:.1} s."
            ));
            return true;
        }
        self.line(&format!("{BAD}Not as expected{BAD:#}, in {seconds:.1} s:"));
        for difference in differences {
            self.line(&format!("  {BAD}✗{BAD:#} {difference}"));
        }
        false
    }
}
