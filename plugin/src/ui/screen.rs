//! The part of the terminal that the live view draws on: frames over each other, the last one stays.
//!
//! The cursor is hidden while a frame is shown, and comes back whatever ends it: the end, an error, a signal, a panic, and Ctrl-Z
//! until the program goes on.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use dialoguer::console::measure_text_width;

use crate::render::Size;

const HIDE: &str = "\x1b[?25l";
const SHOW: &str = "\x1b[?25h";

/// A handle; clones draw on the same screen.
#[derive(Clone)]
pub(crate) struct Screen(Arc<Mutex<Inner>>);

struct Inner {
    out: Box<dyn Write + Send>,
    size: Box<dyn Fn() -> Size + Send>,
    lines: Vec<String>,
    /// The size that they were drawn for; `None` when nothing is shown.
    drawn: Option<Size>,
    closed: bool,
}

impl Screen {
    pub(crate) fn new(out: Box<dyn Write + Send>, size: impl Fn() -> Size + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Inner {
            out,
            size: Box::new(size),
            lines: Vec::new(),
            drawn: None,
            closed: false,
        })))
    }

    fn with<T>(&self, act: impl FnOnce(&mut Inner) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The room for a frame. The last column stays free: terminals differ in what happens behind it.
    pub(crate) fn size(&self) -> Size {
        self.with(|inner| inner.room())
    }

    /// Shows a frame in place of the one before, if it is another one.
    pub(crate) fn draw(&self, lines: Vec<String>) -> io::Result<()> {
        self.with(|inner| {
            if inner.closed || (inner.drawn == Some(inner.room()) && inner.lines == lines) {
                return Ok(());
            }
            let back = inner.back();
            inner.lines = lines;
            inner.show(&back)
        })
    }

    /// Says something above the frame.
    pub(crate) fn say(&self, line: &str) -> io::Result<()> {
        self.with(|inner| {
            if inner.closed {
                return Ok(());
            }
            let back = inner.back();
            inner.show(&format!("{back}{line}\n"))
        })
    }

    /// Leaves the frame where it is and goes below it. Nothing is drawn afterwards.
    pub(crate) fn close(&self) {
        self.with(|inner| {
            inner.leave();
            inner.closed = true;
        });
    }

    /// As [`Self::close`], from a panic: whoever panicked while drawing is not waited for.
    pub(super) fn close_in_panic(&self) {
        if let Ok(mut inner) = self.0.try_lock() {
            inner.leave();
            inner.closed = true;
        }
    }

    /// Leaves the terminal to others for a while.
    #[cfg(unix)]
    pub(super) fn pause(&self) {
        self.with(Inner::leave);
    }

    /// Draws again, below what others have written.
    #[cfg(unix)]
    pub(super) fn resume(&self) {
        self.with(|inner| {
            if !inner.closed && !inner.lines.is_empty() {
                let _ = inner.show("");
            }
        });
    }
}

impl Inner {
    fn room(&self) -> Size {
        let Size { columns, rows } = (self.size)();
        Size {
            columns: columns.saturating_sub(1).max(1),
            rows: rows.max(1),
        }
    }

    /// The way to the beginning of the frame, which is then gone. A terminal that has become narrower has folded its lines.
    fn back(&self) -> String {
        if self.drawn.is_none() {
            return HIDE.to_owned();
        }
        let Size { columns, rows } = (self.size)();
        let folded = |line: &String| measure_text_width(line).div_ceil(columns.max(1)).max(1);
        let height: usize = self.lines.iter().map(folded).sum();
        // What has left the screen at its top cannot be reached.
        let up = height.min(rows.max(1)).saturating_sub(1);
        let up = if up > 0 {
            format!("\x1b[{up}A")
        } else {
            String::new()
        };
        format!("{up}\r\x1b[J")
    }

    fn show(&mut self, before: &str) -> io::Result<()> {
        let hide = if self.drawn.is_none() && !before.starts_with(HIDE) {
            HIDE
        } else {
            ""
        };
        let text = format!("{hide}{before}{}", self.lines.join("\n"));
        self.drawn = Some(self.room());
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }

    fn leave(&mut self) {
        if self.drawn.take().is_some() {
            let end = if self.lines.is_empty() { "" } else { "\n" };
            let text = format!("{SHOW}{end}");
            let _ = self
                .out
                .write_all(text.as_bytes())
                .and_then(|()| self.out.flush());
        }
    }
}

#[cfg(test)]
mod tests;
