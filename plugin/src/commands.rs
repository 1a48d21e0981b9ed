//! One file per command: read, ask, act, say.

mod approve;
mod check;
mod completion;
mod doctor;
mod each;
mod enable;
mod events;
mod explain;
mod follow;
mod get;
mod history;
mod jump;
mod label;
mod lint;
mod list;
mod pause;
mod plain;
mod plan;
mod pods;
mod print;
mod promote;
mod reason;
mod restart;
mod rollouts;
mod status;
mod undo;
mod version;
mod written;

pub(crate) use lint::Located;
pub(crate) use list::Item;

use clap::CommandFactory;
use kruise_rollout::intent::Refusal;

use crate::cli::{Cli, Command, Connection, RolloutCommand, WorkloadCommand};
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
        }) => of_rollout(command, connection, ui).await,
        Some(Command::Shortcut(shortcut)) => of_rollout(shortcut.into(), connection, ui).await,
        Some(Command::Workload {
            command: Some(command),
        }) => match command {
            WorkloadCommand::Label(command) => label::run(&command, &connect(connection).await?, ui).await,
            WorkloadCommand::Enable(command) => enable::run(&command, &connect(connection).await?, ui).await,
            WorkloadCommand::Check(command) => check::run(&command, &connect(connection).await?, ui).await,
            WorkloadCommand::List(command) => list::run(&command, &connect(connection).await?, ui).await,
        },
        Some(Command::Doctor(command)) => doctor::run(&command, &connect(connection).await?, ui).await,
        Some(Command::Version(command)) => version::run(&command, connection, ui).await,
        Some(Command::Completion(command)) => completion::run(&command, ui),
        Some(Command::Rollout { command: None }) => help(ui, Some("rollout")),
        Some(Command::Workload { command: None }) => help(ui, Some("workload")),
        None => help(ui, None),
    }
}

/// Commands about Rollouts.
async fn of_rollout(command: RolloutCommand, connection: &Connection, ui: &mut Ui) -> Result<u8, Error> {
    match command {
        RolloutCommand::Approve(command) => approve::run(&command, &connect(connection).await?, ui).await,
        RolloutCommand::Promote(command) => promote::run(&command, &connect(connection).await?, ui).await,
        RolloutCommand::Pause(command) => pause::pause(&command, &connect(connection).await?, ui).await,
        RolloutCommand::Resume(command) => pause::resume(&command, &connect(connection).await?, ui).await,
        RolloutCommand::Jump(command) => jump::jump(&command, &connect(connection).await?, ui).await,
        RolloutCommand::Retry(command) => jump::retry(&command, &connect(connection).await?, ui).await,
        RolloutCommand::Restart(command) => restart::run(&command, &connect(connection).await?, ui).await,
        RolloutCommand::Enable(command) => pause::enable(&command, &connect(connection).await?, ui).await,
        RolloutCommand::Disable(command) => pause::disable(&command, &connect(connection).await?, ui).await,
        RolloutCommand::Undo(command) => undo::undo(&command, &connect(connection).await?, ui).await,
        RolloutCommand::Abort(command) => undo::abort(&command, &connect(connection).await?, ui).await,
        RolloutCommand::Status(command) => status::run(&command, &connect(connection).await?, ui).await,
        RolloutCommand::Wait(command) => status::wait(&command, &connect(connection).await?, ui).await,
        RolloutCommand::Get(command) => get::run(&command, &connect(connection).await?, ui).await,
        RolloutCommand::List(command) => rollouts::run(&command, &connect(connection).await?, ui).await,
        RolloutCommand::Pods(command) => pods::run(&command, &connect(connection).await?, ui).await,
        RolloutCommand::Events(command) => events::run(&command, &connect(connection).await?, ui).await,
        RolloutCommand::History(command) => history::run(&command, &connect(connection).await?, ui).await,
        RolloutCommand::Explain(command) => explain::run(&command, &connect(connection).await?, ui).await,
        RolloutCommand::Plan(command) => plan::run(&command, connection, ui).await,
        RolloutCommand::Lint(command) => lint::run(&command, connection, ui).await,
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

/// Writes that lost a race are tried so often in all.
const ATTEMPTS: usize = 3;

fn refused(name: &str, namespace: &str, refusal: Refusal) -> Error {
    let command = |verb: &str| format!("kubectl kruise rollout {verb} rollout/{name} -n {namespace}");
    let hint = match &refusal {
        Refusal::NoRelease
        | Refusal::RollingBack
        | Refusal::OtherStep { .. }
        | Refusal::OtherRevision { .. }
        | Refusal::MovedOn => Some(format!("{} --watch=false", command("status"))),
        Refusal::StillUpdating { .. } => Some(command("status")),
        Refusal::SpecPaused => Some(command("resume")),
        Refusal::AwaitingApproval(step) => Some(format!("{} --step {step}", command("approve"))),
        Refusal::SameStep(_) => Some(command("retry")),
        Refusal::NotHeld => Some(command("enable")),
        Refusal::InRelease => Some(command("undo")),
        Refusal::MayNotJump => Some(format!(
            "{}, or start the controller with --approvers-may-jump",
            command("approve")
        )),
        Refusal::NoRecords(_) | Refusal::NoOther(_) | Refusal::StableNotRecorded { .. } => {
            Some("give the template yourself: --from-file FILE, a manifest of the workload".to_owned())
        }
        _ => None,
    };
    Error::Refused {
        subject: render::subject(name),
        refusal,
        hint,
    }
}
