//! Colours, in one place.

use std::ffi::OsString;

use anstyle::{AnsiColor, Style};

/// What a text stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Done.
    Good,
    /// Wrong.
    Bad,
    /// Waits for a person or the clock.
    Waiting,
    /// Goes back.
    Back,
    /// Goes on.
    Busy,
    /// Does not matter much.
    Quiet,
    /// A name.
    Strong,
}

impl Role {
    /// Its style.
    pub(crate) const fn style(self) -> Style {
        match self {
            Self::Good => AnsiColor::Green.on_default(),
            Self::Bad => AnsiColor::Red.on_default(),
            Self::Waiting => AnsiColor::Cyan.on_default(),
            Self::Back => AnsiColor::Magenta.on_default(),
            Self::Busy => AnsiColor::Yellow.on_default(),
            Self::Quiet => Style::new().dimmed(),
            Self::Strong => Style::new().bold(),
        }
    }
}

/// What the terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Theme {
    /// Colours.
    pub(crate) color: bool,
    /// Characters beyond ASCII.
    pub(crate) unicode: bool,
}

impl Theme {
    /// The text in the colour of its role, if colours are shown.
    pub(crate) fn paint(self, role: Role, text: &str) -> String {
        if !self.color {
            return text.to_owned();
        }
        let style = role.style();
        format!("{style}{text}{style:#}")
    }
}

/// Whether the locale, the first of these variables that is set, is one of UTF-8. No locale at all is taken for UTF-8, as
/// containers have none.
pub(super) fn is_unicode(locale: impl Iterator<Item = OsString>) -> bool {
    let first = locale
        .map(|value| value.to_string_lossy().to_lowercase())
        .find(|value| !value.is_empty());
    first.is_none_or(|value| value.contains("utf-8") || value.contains("utf8"))
}
