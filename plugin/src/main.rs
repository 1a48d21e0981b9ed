//! `kubectl kruise`: shows, approves and undoes progressive releases.
//!
//! The way of a call: [`cli`] parses, [`connect`] finds the API server, [`commands`] read, ask, act and say. Reading commands
//! build one report (`kruise_rollout::report`), [`render`] turns it into lines, and [`ui`] alone touches the terminal.

mod cli;
mod cluster;
mod commands;
mod complete;
mod connect;
mod duration;
mod error;
mod follow;
mod format;
mod manifests;
mod render;
mod target;
mod ui;

use std::io::Write;
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory, FromArgMatches};

use cli::Cli;
use error::Error;
use tokio::time::timeout;
use ui::Ui;

/// That of musl is made for small size, and takes longer.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

/// As what kubectl calls this program for completions.
const COMPLETE: &str = "__complete";
/// Prints the reference of all commands, which is kept in `docs/`.
const REFERENCE: &str = "__docs";

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    let first = words.next().unwrap_or_default();
    // Whoever has closed stdout does not want either.
    if first == COMPLETE {
        let words: Vec<_> = words.map(|word| word.to_string_lossy().into_owned()).collect();
        let _ = complete::run(&words);
        return ExitCode::SUCCESS;
    }
    if first == REFERENCE {
        let _ = write!(std::io::stdout(), "{}", cli::reference::markdown(Cli::command()));
        return ExitCode::SUCCESS;
    }
    let mut command = Cli::command();
    let parsed = command
        .try_get_matches_from_mut(std::env::args_os())
        .and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match parsed {
        Ok(cli) => cli,
        // Help goes to stdout with 0, usage errors to stderr with 2; a closed pipe is nobody's fault.
        Err(error) => {
            if let Some(pointer) = cli::verbs::pointer(&error) {
                let error = Error::Usage(pointer);
                error.explain(&mut Ui::detect(cli::Color::Auto, false));
                return ExitCode::from(error.exit_code());
            }
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let mut ui = Ui::detect(cli.global.color(), cli.global.quiet).ascii(cli.global.ascii);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let outcome = match runtime {
        Ok(runtime) => {
            let outcome = runtime.block_on(interruptible(commands::run(cli, &mut ui)));
            // A name that is still being looked up is not waited for.
            runtime.shutdown_background();
            outcome
        }
        Err(error) => Err(Error::Io(error)),
    };
    ui.close();
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            error.explain(&mut ui);
            ExitCode::from(error.exit_code())
        }
    }
}

/// Ends on SIGINT and SIGTERM with the shell's exit codes, so that the live view is closed in order. As long as the work has not had
/// to wait, signals end the process by themselves: nobody would hear them.
async fn interruptible(work: impl Future<Output = Result<u8, Error>>) -> Result<u8, Error> {
    let mut signal = pin!(signalled());
    tokio::select! {
        biased;
        outcome = work => match outcome {
            // A question ends with any signal, and does not know with which.
            Err(Error::Interrupted) => match timeout(SIGNAL, signal).await {
                Ok(code) => Ok(code),
                Err(_) => Err(Error::Interrupted),
            },
            outcome => outcome,
        },
        code = &mut signal => Ok(code),
    }
}

/// In this time a signal that has come is known.
const SIGNAL: Duration = Duration::from_millis(20);

#[cfg(unix)]
async fn signalled() -> u8 {
    use tokio::signal::unix::{SignalKind, signal};
    const INTERRUPTED: u8 = 130;
    const TERMINATED: u8 = 143;
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        // Without handlers the signals end the process by themselves.
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => INTERRUPTED,
        _ = terminate.recv() => TERMINATED,
    }
}

#[cfg(not(unix))]
async fn signalled() -> u8 {
    match tokio::signal::ctrl_c().await {
        Ok(()) => 130,
        Err(_) => std::future::pending().await,
    }
}
