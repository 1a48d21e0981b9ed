//! The terminal. Nothing else reads or writes it: stdout is the answer, stderr the talk.

mod listener;
pub(crate) mod live;
mod prompt;
mod screen;
pub(crate) mod style;
pub(crate) mod trace;

use std::io::{IsTerminal, Write};

use anstream::{AutoStream, ColorChoice};
use dialoguer::console::Term;

use crate::cli::Color;
use crate::error::Error;
use crate::render::{Size, plain};
pub(crate) use listener::Listener;
use live::Live;
use prompt::{Ask, Terminal};
use screen::Screen;
use style::{Role, Theme};

/// Standard output, standard error, and a person who may be there.
pub(crate) struct Ui {
    answer: AutoStream<std::io::Stdout>,
    talk: AutoStream<std::io::Stderr>,
    theme: Theme,
    talk_theme: Theme,
    live: bool,
    quiet: bool,
    ask: Option<Box<dyn Ask>>,
}

impl Ui {
    /// Looks once at what is a terminal and at the environment; everything else is told.
    pub(crate) fn detect(color: Color, quiet: bool) -> Self {
        let (stdin, stdout, stderr) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let forced =
            std::env::var_os("CLICOLOR_FORCE").is_some_and(|value| !value.is_empty() && value != "0");
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let coloured = |terminal: bool| match color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => forced || (terminal && !dumb && !set("NO_COLOR")),
        };
        let unicode = style::is_unicode(
            ["LC_ALL", "LC_CTYPE", "LANG"]
                .into_iter()
                .filter_map(std::env::var_os),
        );
        let theme = |terminal: bool| Theme {
            color: coloured(terminal),
            unicode,
        };
        let choice = |color: bool| {
            if color {
                ColorChoice::AlwaysAnsi
            } else {
                ColorChoice::Never
            }
        };
        let (answer, talk) = (theme(stdout.is_terminal()), theme(stderr.is_terminal()));
        let interactive = stdin.is_terminal() && stderr.is_terminal();
        Self {
            quiet,
            live: stdout.is_terminal() && !dumb,
            ask: interactive.then(|| Box::new(Terminal) as Box<dyn Ask>),
            answer: AutoStream::new(stdout, choice(answer.color)),
            talk: AutoStream::new(stderr, choice(talk.color)),
            theme: answer,
            talk_theme: talk,
        }
    }

    /// Draws with ASCII characters only, where that is asked for.
    pub(crate) fn ascii(mut self, asked: bool) -> Self {
        self.theme.unicode &= !asked;
        self.talk_theme.unicode &= !asked;
        self
    }

    /// How answers look.
    pub(crate) fn theme(&self) -> Theme {
        self.theme
    }

    /// A line of the answer.
    pub(crate) fn answer(&mut self, line: &str) -> Result<(), Error> {
        writeln!(self.answer, "{line}")?;
        Ok(self.answer.flush()?)
    }

    /// Lines of talk, which may be left out.
    pub(crate) fn say(&mut self, text: &str) {
        if !self.quiet {
            self.talk("", text);
        }
    }

    /// An error in its own words.
    pub(crate) fn complain(&mut self, text: &str) {
        self.talk("", text);
    }

    /// What servers say in it is made harmless. Whoever has closed stderr does not want it.
    fn talk(&mut self, word: &str, text: &str) {
        let harmless: Vec<_> = text.split('\n').map(plain).collect();
        let _ = writeln!(self.talk, "{word}{}", harmless.join("\n"));
    }

    /// A part of the answer that is no line yet.
    pub(crate) fn part(&mut self, text: &str) -> Result<(), Error> {
        Ok(write!(self.answer, "{text}")?)
    }

    /// An error.
    pub(crate) fn fail(&mut self, message: &str) {
        let word = self.talk_theme.paint(Role::Bad, "error:");
        self.talk(&format!("{word} "), message);
    }

    /// The way on.
    pub(crate) fn hint(&mut self, hint: &str) {
        let word = self.talk_theme.paint(Role::Waiting, "hint:");
        if !self.quiet {
            self.talk(&format!("{word} "), hint);
        }
    }

    /// The live view, where standard output is a terminal that can be drawn on.
    pub(crate) fn live(&self) -> Option<Live> {
        let size = || {
            let (rows, columns) = Term::stdout().size();
            Size {
                columns: columns.into(),
                rows: rows.into(),
            }
        };
        self.live
            .then(|| Live::new(Screen::new(Box::new(std::io::stdout()), size)))
    }

    /// Asks a yes-no question. `None` when nobody is there to ask.
    fn confirm(&mut self, question: &str) -> Result<Option<bool>, Error> {
        match &mut self.ask {
            None => Ok(None),
            Some(ask) => ask.confirm(question).map(Some),
        }
    }

    /// Goes on only if a person says yes. `deed` is what is not done where nobody is there to ask.
    pub(crate) fn ask(&mut self, question: &str, deed: &str) -> Result<(), Error> {
        match self.confirm(question)? {
            Some(true) => Ok(()),
            Some(false) => Err(Error::Declined),
            None => Err(Error::Unconfirmed(deed.to_owned())),
        }
    }

    /// At the end.
    pub(crate) fn close(&mut self) {
        let _ = self.answer.flush();
        let _ = self.talk.flush();
    }
}
