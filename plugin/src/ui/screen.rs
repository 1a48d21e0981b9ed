//! The part of the terminal that the live view draws on.
//!
//! indicatif lays the bars out and draws at every single change of a bar. This keeps what it draws, and shows it when a frame is
//! whole: one write per change, without half-drawn frames in between.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use dialoguer::console::measure_text_width;
use indicatif::TermLike;

/// Columns and rows of a terminal.
pub(crate) type Size = fn() -> (u16, u16);

/// A handle; clones draw on the same screen.
#[derive(Clone)]
pub(crate) struct Screen(Arc<Mutex<Inner>>);

struct Inner {
    out: Box<dyn Write + Send>,
    size: Size,
    /// The lines of the last drawing.
    lines: Vec<String>,
    /// The last drawing has been ended, so that the next write begins another one.
    ended: bool,
    /// The next write fills a line up to the terminal's width.
    filler: bool,
    /// Terminal rows that the shown frame takes.
    rows: usize,
    closed: bool,
}

impl Screen {
    pub(crate) fn new(out: Box<dyn Write + Send>, size: Size) -> Self {
        Self(Arc::new(Mutex::new(Inner {
            out,
            size,
            lines: Vec::new(),
            ended: true,
            filler: false,
            rows: 0,
            closed: false,
        })))
    }

    fn with<T>(&self, act: impl FnOnce(&mut Inner) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Shows what has been drawn, in place of what was shown before, below `above` if there is something to be said first.
    pub(crate) fn show(&self, above: Option<&str>) -> io::Result<()> {
        self.with(|inner| inner.show(above))
    }

    /// Leaves the last frame where it is and goes below it.
    pub(crate) fn close(&self) {
        self.with(|inner| {
            if !inner.closed && inner.rows > 0 {
                let _ = inner.out.write_all(b"\n").and_then(|()| inner.out.flush());
            }
            inner.closed = true;
        });
    }
}

impl Inner {
    fn show(&mut self, above: Option<&str>) -> io::Result<()> {
        if self.closed {
            return Ok(());
        }
        let mut text = String::new();
        if self.rows > 1 {
            text.push_str(&format!("\x1b[{}A", self.rows - 1));
        }
        // To the first column, and nothing below.
        text.push_str("\r\x1b[J");
        if let Some(line) = above {
            text.push_str(line);
            text.push('\n');
        }
        text.push_str(&self.lines.join("\n"));
        let width = usize::from((self.size)().0.max(1));
        self.rows = self
            .lines
            .iter()
            .map(|line| measure_text_width(line).div_ceil(width).max(1))
            .sum();
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }

    fn begin(&mut self) {
        if std::mem::take(&mut self.ended) {
            self.lines.clear();
            self.filler = false;
        }
    }
}

impl std::fmt::Debug for Screen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Screen")
    }
}

impl TermLike for Screen {
    fn width(&self) -> u16 {
        self.with(|inner| (inner.size)().0)
    }

    fn height(&self) -> u16 {
        self.with(|inner| (inner.size)().1)
    }

    fn move_cursor_up(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_down(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_right(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_left(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn write_line(&self, line: &str) -> io::Result<()> {
        self.with(|inner| {
            inner.begin();
            inner.lines.push(line.to_owned());
        });
        Ok(())
    }

    /// Lines and what fills them up come in turns.
    fn write_str(&self, text: &str) -> io::Result<()> {
        self.with(|inner| {
            inner.begin();
            if !inner.filler {
                inner.lines.push(text.trim_end().to_owned());
            }
            inner.filler = !inner.filler;
        });
        Ok(())
    }

    fn clear_line(&self) -> io::Result<()> {
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        self.with(|inner| {
            // A drawing without a line is one, too.
            inner.begin();
            inner.ended = true;
        });
        Ok(())
    }
}
