use clap::Args;

use super::Status;

/// Everything that `status` takes, since `-w` is it.
#[derive(Args, Debug)]
#[command(mut_arg("watch", |arg| arg.default_value("false")))]
pub(crate) struct Get {
    #[command(flatten)]
    pub(crate) status: Status,
    /// How many revisions to show, the newest first
    #[arg(long, value_name = "NUMBER", default_value = "10")]
    pub(crate) limit: usize,
    /// All pods are shown, so this changes nothing
    #[arg(long, hide = true)]
    all: bool,
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::cli::{Cli, Command, RolloutCommand};

    #[test]
    fn it_watches_only_when_asked() {
        let watches = |line: &str| match Cli::try_parse_from(line.split(' ')).unwrap().command {
            Some(
                Command::Shortcut(crate::cli::shortcut::Shortcut::Get(get))
                | Command::Rollout {
                    command: Some(RolloutCommand::Get(get)),
                },
            ) => get.status.watch,
            other => panic!("{other:?}"),
        };
        for line in [
            "k rollout get web",
            "k rollout describe web",
            "k rollout tree rollout/web",
            "k describe rollout web --all --no-color",
            "k get rollout web",
        ] {
            assert!(!watches(line), "{line}");
            assert!(watches(&format!("{line} -w")), "{line}");
        }
    }
}
