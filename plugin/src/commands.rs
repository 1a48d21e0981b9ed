//! One file per command: read, ask, act, say.

mod approve;
mod events;
mod get;
mod history;
mod label;
mod pods;
mod print;
mod rollouts;
mod status;
mod undo;
mod version;

use clap::CommandFactory;
use jiff::Timestamp;
use kruise_rollout::intent::Refusal;

use crate::cli::{Cli, Command, DryRun, RolloutCommand, WorkloadCommand};
use crate::connect::connect;
use crate::error::Error;
use crate::render;
use crate::ui::Ui;

/// Carries out a command. Returns its exit code.
///
/// # Errors
/// Why it could not be carried out.
pub(crate) async fn run(cli: Cli, ui: &mut Ui) -> Result<u8, Error> {
    let connection = &cli.global.connection;
    match cli.command {
        Some(Command::Rollout {
            command: Some(command),
        }) => match command {
            RolloutCommand::Approve(command) => approve::run(&command, &connect(connection).await?, ui).await,
            RolloutCommand::Status(command) => status::run(&command, &connect(connection).await?, ui).await,
            RolloutCommand::Get(command) => get::run(&command, &connect(connection).await?, ui).await,
            RolloutCommand::List(command) => rollouts::run(&command, &connect(connection).await?, ui).await,
            RolloutCommand::Pods(command) => pods::run(&command, &connect(connection).await?, ui).await,
            RolloutCommand::Events(command) => events::run(&command, &connect(connection).await?, ui).await,
            RolloutCommand::History(command) => history::run(&command, &connect(connection).await?, ui).await,
            RolloutCommand::Undo(command) => undo::run(&command, &connect(connection).await?, ui).await,
        },
        Some(Command::Get(command)) => get::run(&command, &connect(connection).await?, ui).await,
        Some(Command::List(command)) => rollouts::run(&command, &connect(connection).await?, ui).await,
        Some(Command::Workload {
            command: Some(WorkloadCommand::Label(command)),
        }) => label::run(&command, &connect(connection).await?, ui).await,
        Some(Command::Version(command)) => version::run(&command, connection, ui).await,
        Some(Command::Completion { shell }) => completion(ui, shell),
        Some(Command::Rollout { command: None }) => help(ui, Some("rollout")),
        Some(Command::Workload { command: None }) => help(ui, Some("workload")),
        None => help(ui, None),
    }
}

/// A group of commands without a command shows what there is.
fn help(ui: &mut Ui, group: Option<&str>) -> Result<u8, Error> {
    let mut command = Cli::command();
    command.build();
    let text = match group.and_then(|name| command.find_subcommand_mut(name)) {
        Some(group) => group.render_help(),
        None => Cli::command().render_help(),
    };
    ui.answer(text.to_string().trim_end())?;
    Ok(0)
}

/// The script is for the program's own name; kubectl completes its plugins in another way.
fn completion(ui: &mut Ui, shell: clap_complete::Shell) -> Result<u8, Error> {
    let mut command = Cli::command();
    let name = command.get_name().to_owned();
    command = command.bin_name(&name);
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut script);
    ui.answer(String::from_utf8_lossy(&script).trim_end())?;
    Ok(0)
}

/// The time. Everything below is told it.
fn now() -> Timestamp {
    Timestamp::now()
}

/// How an answer ends when nothing was stored.
fn dry(run: DryRun) -> &'static str {
    match run {
        DryRun::None => "",
        DryRun::Client => " (dry run)",
        DryRun::Server => " (server dry run)",
    }
}

/// Writes that lost a race are tried so often in all.
const ATTEMPTS: usize = 3;

fn refused(name: &str, namespace: &str, refusal: Refusal) -> Error {
    let follow = || format!("kubectl kruise rollout status rollout/{name} -n {namespace}");
    let hint = match &refusal {
        Refusal::NoRelease | Refusal::RollingBack | Refusal::OtherStep { .. } => {
            Some(format!("{} --watch=false", follow()))
        }
        Refusal::StillUpdating { .. } => Some(follow()),
        Refusal::SpecPaused => Some(format!(
            "kubectl patch rollouts.{} {name} -n {namespace} --type=merge -p '{}'",
            kruise_rollout::names::GROUP,
            r#"{"spec":{"strategy":{"paused":false}}}"#
        )),
        _ => None,
    };
    Error::Refused {
        subject: render::subject(name),
        refusal,
        hint,
    }
}
