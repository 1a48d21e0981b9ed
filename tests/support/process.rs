//! Child processes that never outlive the process that started them.
//!
//! A destructor does not run after `SIGKILL`, `process::exit` or for a static, so children are not left to destructors: one
//! small shell per process (`reaper.sh`) holds the read end of a pipe whose write end only this process has, and ends every
//! child and removes every scratch folder when the pipe closes. A child registers itself before it runs its program, so
//! there is no instant at which it is unknown.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{self, PipeWriter, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const REAPER: &str = include_str!("reaper.sh");

/// The wrapper of every child: says its process group to the reaper on stdout, then becomes the program, with stdout going
/// where stderr goes.
const REGISTER_AND_RUN: &str = r#"echo "+ $$"; exec "$0" "$@" >&2"#;

static OWNER: LazyLock<io::Result<PipeWriter>> = LazyLock::new(start_reaper);

fn start_reaper() -> io::Result<PipeWriter> {
    let (commands, owner) = io::pipe()?;
    // Its own process group: Ctrl-C in a terminal must not end the reaper before its work is done.
    Command::new("sh")
        .args(["-c", REAPER, "reaper"])
        .stdin(commands)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .current_dir("/")
        .process_group(0)
        .spawn()?;
    Ok(owner)
}

fn reaper() -> io::Result<&'static PipeWriter> {
    OWNER
        .as_ref()
        .map_err(|error| io::Error::new(error.kind(), error.to_string()))
}

fn tell_reaper(verb: char, argument: impl AsRef<OsStr>) {
    // Lines shorter than PIPE_BUF are written whole, so threads and children may write at once.
    let line = format!("{verb} {}\n", argument.as_ref().display());
    if let Ok(mut owner) = reaper() {
        let _ = owner.write_all(line.as_bytes());
    }
}

/// A fresh folder of this process for logs, kubeconfigs and data, removed when the process has gone.
///
/// The folder lies under `target/tmp`. With `KRUISE_KEEP_SCRATCH=1` it stays, so that logs can be read afterwards.
///
/// # Errors
/// The folder cannot be created.
pub fn scratch(name: &str) -> io::Result<PathBuf> {
    static ROOT: LazyLock<PathBuf> = LazyLock::new(|| {
        let started = std::time::SystemTime::UNIX_EPOCH
            .elapsed()
            .unwrap_or_default()
            .as_millis();
        let root = crate::target_dir()
            .join("tmp")
            .join(format!("run-{started}-{}", std::process::id()));
        if !keep_scratch() {
            tell_reaper('d', &root);
        }
        root
    });
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let folder = ROOT.join(format!("{}-{name}", COUNT.fetch_add(1, Ordering::Relaxed)));
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

fn keep_scratch() -> bool {
    std::env::var_os("KRUISE_KEEP_SCRATCH").is_some_and(|value| value == "1")
}

/// Removes a folder made by [`scratch`] before the process ends.
pub(crate) fn remove_scratch(folder: &Path) {
    if !keep_scratch() {
        tell_reaper('r', folder);
    }
}

/// A running child with its output in a log file. Dropping it kills it and everything in its process group.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Mutex<Child>,
    pid: u32,
    log: PathBuf,
}

/// Starts `command` in the background; output goes to a new log file named after the program.
///
/// Program, arguments, environment and working folder of `command` are taken over, its stdio is not.
///
/// # Errors
/// The shell that runs the program cannot be started. A program that does not exist is seen as exit code 127.
pub fn spawn(command: &Command) -> io::Result<Process> {
    let name = Path::new(command.get_program())
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let log = scratch(&name)?.join("log");
    spawn_with_log(command, &name, &log)
}

/// [`spawn`] with a given name and log file; an existing log is continued.
pub(crate) fn spawn_with_log(command: &Command, name: &str, log: &Path) -> io::Result<Process> {
    let output = OpenOptions::new().create(true).append(true).open(log)?;
    let mut wrapped = Command::new("sh");
    wrapped
        .args(["-c", REGISTER_AND_RUN])
        .arg(command.get_program())
        .args(command.get_args())
        .stdin(Stdio::null())
        .stdout(reaper()?.try_clone()?)
        .stderr(output)
        .process_group(0);
    for (key, value) in command.get_envs() {
        match value {
            Some(value) => wrapped.env(key, value),
            None => wrapped.env_remove(key),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        wrapped.current_dir(folder);
    }
    let child = wrapped.spawn()?;
    let pid = child.id();
    Ok(Process {
        name: name.to_owned(),
        child: Mutex::new(child),
        pid,
        log: log.to_owned(),
    })
}

impl Process {
    fn child(&self) -> MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The process id; also the id of its process group.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The file that holds stdout and stderr.
    #[must_use]
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// The last `lines` lines of the log, indented.
    #[must_use]
    pub fn log_tail(&self, lines: usize) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let all: Vec<&str> = text.lines().collect();
        let tail = &all[all.len().saturating_sub(lines)..];
        tail.iter().map(|line| format!("    {line}\n")).collect()
    }

    /// The exit status, or `None` while it runs.
    ///
    /// # Errors
    /// The operating system refuses to say.
    pub fn try_wait(&self) -> io::Result<Option<ExitStatus>> {
        let status = self.child().try_wait()?;
        if status.is_some() {
            // Whatever it left behind in its process group goes too.
            tell_reaper('k', self.pid.to_string());
        }
        Ok(status)
    }

    /// Whether it has not ended.
    #[must_use]
    pub fn is_running(&self) -> bool {
        matches!(self.try_wait(), Ok(None))
    }

    /// Waits up to `deadline` for the end.
    ///
    /// # Errors
    /// It still runs at the deadline (`TimedOut`; the text has the end of the log).
    pub async fn wait(&self, deadline: Duration) -> io::Result<ExitStatus> {
        let started = Instant::now();
        loop {
            if let Some(status) = self.try_wait()? {
                return Ok(status);
            }
            if started.elapsed() > deadline {
                let text = format!(
                    "{} still runs after {deadline:?}:\n{}",
                    self.name,
                    self.log_tail(20)
                );
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Sends a signal by name (`TERM`, `STOP`, `CONT`, …) to the process itself, not to its children.
    ///
    /// # Errors
    /// The process has gone or the name is unknown.
    pub fn signal(&self, name: &str) -> io::Result<()> {
        if !self.is_running() {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                format!("{} has ended", self.name),
            ));
        }
        let status = Command::new("sh")
            .args(["-c", r#"kill -s "$0" "$1""#, name, &self.pid.to_string()])
            .stdin(Stdio::null())
            .status()?;
        if status.success() {
            Ok(())
        } else {
            Err(io::Error::other(format!("kill -s {name}: {status}")))
        }
    }

    /// Asks it to end (`SIGTERM`) and returns at once; see [`Process::wait`].
    ///
    /// # Errors
    /// See [`Process::signal`].
    pub fn terminate(&self) -> io::Result<()> {
        self.signal("TERM")
    }

    /// Kills it with everything in its process group (`SIGKILL`) and waits for its end.
    pub fn kill(&self) {
        tell_reaper('k', self.pid.to_string());
        let mut child = self.child();
        let _ = child.kill();
        let _ = child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.is_running() {
            self.kill();
        }
    }
}
