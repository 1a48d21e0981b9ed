//! The live view: one bar per step, with lines above and below.

use std::io;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::screen::Screen;
use super::style::Theme;
use crate::render::{Bar, Frame};

/// Draws frames over each other. The last one stays.
pub(crate) struct Live {
    screen: Screen,
    multi: MultiProgress,
    theme: Theme,
    head: Vec<ProgressBar>,
    bars: Vec<ProgressBar>,
    foot: Vec<ProgressBar>,
    last: Frame,
}

impl Live {
    pub(crate) fn new(screen: Screen, theme: Theme) -> Self {
        let multi = MultiProgress::with_draw_target(ProgressDrawTarget::term_like(Box::new(screen.clone())));
        Self {
            screen,
            multi,
            theme,
            head: Vec::new(),
            bars: Vec::new(),
            foot: Vec::new(),
            last: Frame::default(),
        }
    }

    /// Draws, if anything is different.
    pub(crate) fn draw(&mut self, frame: Frame) -> io::Result<()> {
        if frame == self.last {
            return Ok(());
        }
        resize(&self.multi, &mut self.head, frame.head.len(), 0);
        resize(&self.multi, &mut self.bars, frame.bars.len(), self.head.len());
        resize(
            &self.multi,
            &mut self.foot,
            frame.foot.len(),
            self.head.len() + self.bars.len(),
        );
        for (line, text) in self
            .head
            .iter()
            .zip(&frame.head)
            .chain(self.foot.iter().zip(&frame.foot))
        {
            line.set_style(template("{msg}"));
            line.set_message(text.clone());
        }
        for (line, bar) in self.bars.iter().zip(&frame.bars) {
            line.set_style(style(bar, self.theme));
            line.set_prefix(bar.label.clone());
            line.set_length(bar.of.into());
            line.set_position(bar.done.into());
            line.set_message(bar.text.clone());
        }
        if let Some(line) = self.head.first() {
            line.force_draw();
        }
        self.last = frame;
        self.screen.show(None)
    }

    /// Says something above the view.
    pub(crate) fn say(&self, line: &str) {
        let _ = self.screen.show(Some(line));
    }

    /// Leaves the last frame where it is.
    pub(crate) fn close(&self) {
        self.screen.close();
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.close();
    }
}

fn resize(multi: &MultiProgress, lines: &mut Vec<ProgressBar>, wanted: usize, offset: usize) {
    while lines.len() > wanted {
        if let Some(line) = lines.pop() {
            multi.remove(&line);
        }
    }
    while lines.len() < wanted {
        lines.push(multi.insert(offset + lines.len(), ProgressBar::new(0)));
    }
}

fn template(text: &str) -> ProgressStyle {
    ProgressStyle::with_template(text).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// The colour stands in the template, since the bar itself knows only the names of colours and its own idea of when to use them.
fn style(bar: &Bar, theme: Theme) -> ProgressStyle {
    const WIDTH: usize = 24;
    let text = format!(
        "{{prefix}} {} {{msg}}",
        theme.paint(bar.role, &format!("{{bar:{WIDTH}}}"))
    );
    template(&text).progress_chars(if theme.unicode {
        "█▉▊▋▌▍▎▏░"
    } else {
        "#>-"
    })
}

#[cfg(test)]
mod tests;
