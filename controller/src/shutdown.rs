//! How this process ends: in two phases, and never by half.
//!
//! ```text
//! running ──signal, or a task ends──▶ draining ──pause──▶ stopping ──all tasks ended, or the grace is over──▶ exit
//!    any phase ──second signal──▶ exit at once
//! ```
//! In *draining* the process is no longer ready, finishes what it decides and starts nothing new, but still answers admission: the
//! API server keeps calling until the endpoint has gone everywhere. In *stopping* servers finish open requests and close. Every
//! task is named and watched by the [`Supervisor`]: one that ends early, fails or panics begins the shutdown of all with exit
//! code 1, because a controller that has lost a part is worse than one that restarts.

use std::error::Error;
use std::future::Future;
use std::io;
use std::time::Duration;

use tokio::signal::unix::{Signal as Source, SignalKind, signal};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::telemetry::chain;

/// How long endpoints may take to forget a pod that is no longer ready.
pub(crate) const ENDPOINT_PAUSE: Duration = Duration::from_secs(5);
/// How long tasks may take to end, counted from the stop.
pub(crate) const GRACE: Duration = Duration::from_secs(15);

/// The signals that end this process.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Source,
    terminate: Source,
}

impl Signals {
    /// Listens from now on; until then the signals end the process as ever.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }
}

/// Where ends are asked for. The process listens to [`Signals`], tests to a channel.
pub(crate) trait Ends: Send {
    /// Waits for the next request; the number is the exit code of one that is not waited for (128 + signal).
    fn next(&mut self) -> impl Future<Output = u8> + Send;
}

impl Ends for Signals {
    async fn next(&mut self) -> u8 {
        tokio::select! {
            Some(()) = self.interrupt.recv() => 130,
            Some(()) = self.terminate.recv() => 143,
            else => std::future::pending().await,
        }
    }
}

/// What a task leaves: its result, or how it broke off.
type Joined = Result<(Id, Result<(), String>), JoinError>;

/// How a named task ended.
#[derive(Debug)]
struct Ended {
    name: &'static str,
    error: Option<String>,
}

/// Owns every task of the process.
#[derive(Debug)]
pub(crate) struct Supervisor {
    drain: CancellationToken,
    stop: CancellationToken,
    pause: Duration,
    grace: Duration,
    tasks: JoinSet<Result<(), String>>,
    names: Vec<(Id, &'static str)>,
}

impl Supervisor {
    /// No tasks yet. `pause` lies between the drain and the stop, `grace` between the stop and the end.
    pub(crate) fn new(pause: Duration, grace: Duration) -> Self {
        Self {
            drain: CancellationToken::new(),
            stop: CancellationToken::new(),
            pause,
            grace,
            tasks: JoinSet::new(),
            names: Vec::new(),
        }
    }

    /// Cancelled when the process begins to end: start nothing new, report not ready.
    pub(crate) fn drain(&self) -> CancellationToken {
        self.drain.clone()
    }

    /// Cancelled a pause later: close.
    pub(crate) fn stop(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Starts a task that ends only after the drain; an earlier end is a failure of the process.
    pub(crate) fn spawn<E: Error + 'static>(
        &mut self,
        name: &'static str,
        task: impl Future<Output = Result<(), E>> + Send + 'static,
    ) {
        let handle = self
            .tasks
            .spawn(async move { task.await.map_err(|error| chain(&error)) });
        self.names.push((handle.id(), name));
    }

    /// Waits for a signal or for a task that ends early, ends all tasks, and returns the exit code of the process: 0 after a
    /// signal, 1 if a task failed or did not end in time, 128 + signal if a second signal came.
    pub(crate) async fn run(mut self, mut ends: impl Ends) -> u8 {
        let mut code = self.running(&mut ends).await;
        self.drain.cancel();
        let stop_at = Instant::now() + self.pause;
        let end_at = stop_at + self.grace;
        loop {
            tokio::select! {
                biased;
                signal = ends.next() => {
                    tracing::warn!("Second signal: leaving at once.");
                    return signal;
                }
                ended = self.tasks.join_next_with_id() => match self.ended(ended) {
                    None => return code,
                    Some(Ended { name, error: Some(error) }) => {
                        tracing::error!(task = name, %error, "Task failed during shutdown.");
                        code = 1;
                    }
                    Some(Ended { name, error: None }) => tracing::debug!(task = name, "Task ended."),
                },
                () = sleep_until(stop_at), if !self.stop.is_cancelled() => self.stop.cancel(),
                () = sleep_until(end_at) => {
                    let late: Vec<_> = self.names.iter().map(|(_, name)| *name).collect();
                    tracing::error!(tasks = ?late, "Tasks did not end in time.");
                    return 1;
                }
            }
        }
    }

    /// The first phase; returns the exit code that its end asks for.
    async fn running(&mut self, ends: &mut impl Ends) -> u8 {
        tokio::select! {
            _ = ends.next() => {
                tracing::info!("Signal: draining.");
                0
            }
            ended = self.tasks.join_next_with_id() => {
                match self.ended(ended) {
                    Some(Ended { name, error: Some(error) }) => tracing::error!(task = name, %error, "Task failed: shutting down."),
                    Some(Ended { name, error: None }) => tracing::error!(task = name, "Task ended early: shutting down."),
                    None => tracing::error!("No task to run."),
                }
                1
            }
        }
    }

    /// Which task ended and how; `None` if there is no task left.
    fn ended(&mut self, ended: Option<Joined>) -> Option<Ended> {
        let (id, error) = match ended? {
            Ok((id, result)) => (id, result.err()),
            Err(error) => (error.id(), Some(panic_message(error))),
        };
        let at = self.names.iter().position(|(known, _)| *known == id);
        let name = at.map_or("unnamed", |at| self.names.swap_remove(at).1);
        Some(Ended { name, error })
    }
}

/// What a task said when it panicked.
fn panic_message(error: JoinError) -> String {
    let panic = match error.try_into_panic() {
        Ok(panic) => panic,
        Err(error) => return error.to_string(),
    };
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("panic: {}", text.as_deref().unwrap_or("without a message"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;
    use tokio::sync::mpsc;

    /// Long against the time that a step takes, short against a test.
    const PAUSE: Duration = Duration::from_millis(100);

    impl Ends for mpsc::UnboundedReceiver<u8> {
        async fn next(&mut self) -> u8 {
            match self.recv().await {
                Some(code) => code,
                None => std::future::pending().await,
            }
        }
    }

    fn supervisor() -> (Supervisor, mpsc::UnboundedSender<u8>, mpsc::UnboundedReceiver<u8>) {
        let (send, receive) = mpsc::unbounded_channel();
        (Supervisor::new(PAUSE, PAUSE * 2), send, receive)
    }

    async fn until(token: CancellationToken) -> Result<(), Infallible> {
        token.cancelled().await;
        Ok(())
    }

    #[tokio::test]
    async fn a_signal_drains_then_stops() {
        let (mut supervisor, send, receive) = supervisor();
        let start = Instant::now();
        let (drain, stop) = (supervisor.drain(), supervisor.stop());
        supervisor.spawn("drains", async move {
            drain.cancelled().await;
            assert!(start.elapsed() < PAUSE);
            Ok::<_, Infallible>(())
        });
        supervisor.spawn("stops", async move {
            stop.cancelled().await;
            assert!(start.elapsed() >= PAUSE);
            Ok::<_, Infallible>(())
        });
        send.send(143).unwrap();
        assert_eq!(supervisor.run(receive).await, 0);
        assert!(start.elapsed() >= PAUSE);
    }

    #[tokio::test]
    async fn without_tasks_left_nothing_is_waited_for() {
        let (mut supervisor, send, receive) = supervisor();
        let start = Instant::now();
        supervisor.spawn("drains", until(supervisor.drain()));
        send.send(143).unwrap();
        assert_eq!(supervisor.run(receive).await, 0);
        assert!(start.elapsed() < PAUSE);
    }

    #[tokio::test]
    async fn an_early_end_a_failure_and_a_panic_end_all() {
        for how in ["ends", "fails", "panics"] {
            let (mut supervisor, _send, receive) = supervisor();
            supervisor.spawn("stops", until(supervisor.stop()));
            supervisor.spawn(how, async move {
                match how {
                    "ends" => Ok(()),
                    "fails" => Err(io::Error::other("no")),
                    _ => panic!("on purpose"),
                }
            });
            assert_eq!(supervisor.run(receive).await, 1, "{how}");
        }
    }

    #[tokio::test]
    async fn a_failure_during_the_drain_is_told() {
        let (mut supervisor, send, receive) = supervisor();
        let stop = supervisor.stop();
        supervisor.spawn("fails", async move {
            stop.cancelled().await;
            Err(io::Error::other("no"))
        });
        send.send(130).unwrap();
        assert_eq!(supervisor.run(receive).await, 1);
    }

    #[tokio::test]
    async fn a_second_signal_leaves_at_once() {
        let (mut supervisor, send, receive) = supervisor();
        let start = Instant::now();
        supervisor.spawn("hangs", std::future::pending::<Result<(), Infallible>>());
        send.send(143).unwrap();
        send.send(130).unwrap();
        assert_eq!(supervisor.run(receive).await, 130);
        assert!(start.elapsed() < PAUSE);
    }

    #[tokio::test]
    async fn a_task_that_hangs_is_given_up() {
        let (mut supervisor, send, receive) = supervisor();
        let start = Instant::now();
        supervisor.spawn("hangs", std::future::pending::<Result<(), Infallible>>());
        send.send(143).unwrap();
        assert_eq!(supervisor.run(receive).await, 1);
        assert!(start.elapsed() >= PAUSE * 3);
    }
}
