//! What one run of a program costs, as the kernel tells its parent.
//!
//! The kernel counts for all children of a process together, and a child's peak of memory begins with that of its parent. So each run
//! has a small parent of its own: this program again, with [`WORD`] before the command.

use std::ffi::OsString;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::Context as _;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use serde::{Deserialize, Serialize};

/// The first argument of the process in between.
const WORD: &str = "__stopwatch";

/// One run.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Run {
    /// Exit code; absent where a signal ended it.
    pub(crate) code: Option<i32>,
    /// Bytes on its standard output.
    pub(crate) bytes: u64,
    /// Processor time, user and system together, in milliseconds.
    pub(crate) cpu_ms: f64,
    /// The most resident memory, in MiB.
    pub(crate) peak_mib: f64,
    /// How long it took, in milliseconds.
    pub(crate) wall_ms: f64,
}

/// Runs a command, whose answer is counted and not kept.
pub(crate) fn time(program: &Path, arguments: &[&str], kubeconfig: &Path) -> anyhow::Result<Run> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(WORD).arg(program).args(arguments);
    command.env("KUBECONFIG", kubeconfig).stdin(Stdio::null());
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).with_context(|| text.into_owned())
}

/// The process in between, if this is one.
pub(crate) fn in_between() -> Option<ExitCode> {
    let mut words = std::env::args_os().skip(1);
    (words.next()? == WORD).then(|| match run(words.collect()) {
        Ok(run) => {
            println!("{}", serde_json::json!(run));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    })
}

fn run(words: Vec<OsString>) -> anyhow::Result<Run> {
    let mut words = words.into_iter();
    let program = words.next().context("no program")?;
    let began = Instant::now();
    let mut child = Command::new(program).args(words).stdout(Stdio::piped()).spawn()?;
    let (mut answer, mut bytes, mut buffer) = (child.stdout.take(), 0, [0; 16 * 1024]);
    while let Some(count) = answer
        .as_mut()
        .map(|answer| answer.read(&mut buffer))
        .transpose()?
    {
        bytes += count as u64;
        if count == 0 {
            answer = None;
        }
    }
    let code = child.wait()?.code();
    let wall = began.elapsed();
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let cpu = usage.user_time() + usage.system_time();
    Ok(Run {
        code,
        bytes,
        cpu_ms: cpu.num_microseconds() as f64 / 1_000.0,
        peak_mib: usage.max_rss() as f64 / 1_024.0,
        wall_ms: wall.as_secs_f64() * 1_000.0,
    })
}
