//! Whether anybody still reads standard output.

#[cfg(target_os = "linux")]
use tokio::{io::Interest, net::unix::pipe::Sender};

/// The other end of standard output.
pub(crate) struct Listener {
    /// A file, for one, cannot be asked.
    #[cfg(target_os = "linux")]
    pipe: Option<Sender>,
}

impl Listener {
    pub(crate) fn new() -> Self {
        Self {
            #[cfg(target_os = "linux")]
            pipe: pipe(),
        }
    }

    /// Waits until a pipe has been closed at its other end. Elsewhere the next line notices.
    #[cfg(target_os = "linux")]
    pub(crate) async fn gone(&self) {
        let gone = match &self.pipe {
            Some(pipe) => pipe.ready(Interest::ERROR).await.is_ok(),
            None => false,
        };
        if !gone {
            std::future::pending().await
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) async fn gone(&self) {
        std::future::pending().await
    }
}

/// Unchecked: the checked way sets the pipe itself to non-blocking, also for everybody who shares it. Nothing is written here.
#[cfg(target_os = "linux")]
fn pipe() -> Option<Sender> {
    use std::os::fd::AsFd as _;
    let shared = std::io::stdout().as_fd().try_clone_to_owned().ok()?;
    Sender::from_owned_fd_unchecked(shared).ok()
}
