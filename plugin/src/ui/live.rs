//! The live view of a terminal: its screen, and what happens to it from outside.

use std::io;

use super::screen::Screen;
use crate::render::Size;

/// Draws frames over each other until it is dropped.
pub(crate) struct Live {
    screen: Screen,
    #[cfg(unix)]
    stops: tokio::task::JoinHandle<()>,
    #[cfg(unix)]
    resizes: Option<tokio::signal::unix::Signal>,
}

impl Live {
    pub(super) fn new(screen: Screen) -> Self {
        let hook = std::panic::take_hook();
        let panicking = screen.clone();
        std::panic::set_hook(Box::new(move |panic| {
            panicking.close_in_panic();
            hook(panic);
        }));
        Self {
            #[cfg(unix)]
            stops: tokio::spawn(stops(screen.clone())),
            #[cfg(unix)]
            resizes: tokio::signal::unix::signal(tokio::signal::unix::SignalKind::window_change()).ok(),
            screen,
        }
    }

    /// The room that there is.
    pub(crate) fn size(&self) -> Size {
        self.screen.size()
    }

    /// Draws, if anything is different.
    pub(crate) fn draw(&self, lines: Vec<String>) -> io::Result<()> {
        self.screen.draw(lines)
    }

    /// Says something above the view.
    pub(crate) fn say(&self, line: &str) {
        let _ = self.screen.say(line);
    }

    /// Leaves the last frame where it is.
    pub(crate) fn close(&self) {
        self.screen.close();
    }

    /// Waits until the terminal has another size.
    #[cfg(unix)]
    pub(crate) async fn resized(&mut self) {
        let resized = match &mut self.resizes {
            Some(resizes) => resizes.recv().await,
            None => None,
        };
        if resized.is_none() {
            std::future::pending().await
        }
    }

    /// Never: elsewhere the next frame is drawn for the new size.
    #[cfg(not(unix))]
    pub(crate) async fn resized(&mut self) {
        std::future::pending().await
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        #[cfg(unix)]
        self.stops.abort();
        self.screen.close();
    }
}

/// Ctrl-Z: gives the terminal back, stops, and draws again when the program goes on.
#[cfg(unix)]
async fn stops(screen: Screen) {
    use rustix::process::{Signal, getpid, kill_process};
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut stops) = signal(SignalKind::from_raw(Signal::TSTP.as_raw())) else {
        // Without a handler the signal stops the process by itself.
        return;
    };
    while stops.recv().await.is_some() {
        screen.pause();
        let _ = kill_process(getpid(), Signal::STOP);
        screen.resume();
    }
}
