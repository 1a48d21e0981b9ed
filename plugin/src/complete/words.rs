//! What the words of a line want next, by the tree of commands.

use clap::{Arg, Command};

/// What only a kubeconfig or a server knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Nothing,
    File,
    Contexts,
    Clusters,
    Users,
    Namespaces,
    Rollouts,
    Workloads,
}

/// Where the cursor is.
#[derive(Debug)]
pub(super) struct Place {
    /// What has been typed of the candidate.
    pub(super) partial: String,
    /// What stands in front of each candidate in the same word: `--namespace=`.
    pub(super) prefix: String,
    /// Candidates that are known without asking, with their descriptions behind a tab.
    pub(super) statics: Vec<String>,
    pub(super) wanted: Wanted,
    /// The operands in front.
    pub(super) given: Vec<String>,
    /// Whether the operand may be repeated without end.
    pub(super) several: bool,
    /// The flags of every command among the words, complete.
    pub(super) flags: Vec<String>,
}

/// Reads all words but the last, and looks what the last one may become.
pub(super) fn place(root: &Command, words: &[String]) -> Place {
    let (partial, words) = match words.split_last() {
        Some((last, words)) => (last.clone(), words),
        None => (String::new(), words),
    };
    let mut place = Place {
        partial,
        prefix: String::new(),
        statics: Vec::new(),
        wanted: Wanted::Nothing,
        given: Vec::new(),
        several: false,
        flags: Vec::new(),
    };
    let mut command = root;
    let mut awaiting: Option<&Arg> = None;
    let mut operands_only = false;
    for word in words {
        if let Some(arg) = awaiting.take() {
            if arg.is_global_set() {
                place.flags.push(word.clone());
            }
        } else if operands_only || !word.starts_with('-') || word == "-" {
            match command.find_subcommand(word).filter(|_| !operands_only) {
                Some(next) => {
                    command = next;
                    place.given.clear();
                }
                None => place.given.push(word.clone()),
            }
        } else if word == "--" {
            operands_only = true;
        } else if let Some(arg) = flag(command, word) {
            if arg.is_global_set() {
                place.flags.push(word.clone());
            }
            let attached = word.contains('=') || (!word.starts_with("--") && word.len() > 2);
            awaiting = Some(arg).filter(|arg| takes_value(arg) && !attached);
        }
    }
    if let Some(arg) = awaiting {
        // Without its value it is no flag.
        if arg.is_global_set() {
            place.flags.pop();
        }
        offer_values(&mut place, arg);
    } else if !operands_only && place.partial.starts_with("--") && place.partial.contains('=') {
        if let Some(arg) = flag(command, &place.partial).filter(|arg| arg.get_action().takes_values()) {
            let value = place.partial.find('=').map_or(0, |at| at + 1);
            let rest = place.partial.split_off(value);
            place.prefix = std::mem::replace(&mut place.partial, rest);
            offer_values(&mut place, arg);
        }
    } else if !operands_only && place.partial.starts_with('-') {
        place.statics = command.get_arguments().filter_map(long).collect();
    } else {
        offer_operands(&mut place, command);
    }
    place
}

/// The flag that a word names, such as `--namespace`, `--namespace=shop`, `-n` or `-nshop`.
fn flag<'a>(command: &'a Command, word: &str) -> Option<&'a Arg> {
    let mut arguments = command.get_arguments();
    match word.strip_prefix("--") {
        Some(name) => {
            let name = name.split('=').next().unwrap_or_default();
            arguments.find(|arg| arg.get_long() == Some(name))
        }
        None => {
            let letter = word.chars().nth(1)?;
            arguments.find(|arg| arg.get_short() == Some(letter))
        }
    }
}

/// Whether the next word is its value.
fn takes_value(arg: &Arg) -> bool {
    arg.get_action().takes_values() && !arg.is_require_equals_set()
}

fn long(arg: &Arg) -> Option<String> {
    let name = arg.get_long().filter(|_| !arg.is_hide_set())?;
    Some(described(&format!("--{name}"), arg.get_help()))
}

fn described(name: &str, about: Option<&clap::builder::StyledStr>) -> String {
    match about.map(ToString::to_string) {
        Some(about) if !about.is_empty() => {
            format!("{name}\t{}", about.lines().next().unwrap_or_default())
        }
        _ => name.to_owned(),
    }
}

fn offer_values(place: &mut Place, arg: &Arg) {
    place.statics = arg
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| described(value.get_name(), value.get_help()))
        .collect();
    place.wanted = match (arg.get_id().as_str(), value_name(arg)) {
        ("namespace", _) => Wanted::Namespaces,
        ("context", _) => Wanted::Contexts,
        ("cluster", _) => Wanted::Clusters,
        ("user", _) => Wanted::Users,
        (_, "PATH" | "FILE" | "DIR") => Wanted::File,
        _ => Wanted::Nothing,
    };
}

fn offer_operands(place: &mut Place, command: &Command) {
    if place.given.is_empty() {
        place.statics = command
            .get_subcommands()
            .filter(|next| !next.is_hide_set())
            .map(|next| described(next.get_name(), next.get_about()))
            .collect();
    }
    let Some(operand) = command.get_positionals().last() else {
        return;
    };
    let most = operand.get_num_args().map_or(1, |range| range.max_values());
    place.several = operand.get_action().takes_values() && most > 2;
    match value_name(operand) {
        "ROLLOUT" | "TARGET" => place.wanted = Wanted::Rollouts,
        "WORKLOAD" => place.wanted = Wanted::Workloads,
        _ if place.given.is_empty() => {
            let subcommands = std::mem::take(&mut place.statics);
            offer_values(place, operand);
            place.statics.extend(subcommands);
        }
        _ => {}
    }
}

fn value_name(arg: &Arg) -> &str {
    arg.get_value_names()
        .and_then(|names| names.first())
        .map_or("", |name| name.as_str())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    fn at(line: &str) -> Place {
        let mut command = Cli::command();
        command.build();
        let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
        place(&command, &words)
    }

    fn names(place: &Place) -> Vec<&str> {
        place
            .statics
            .iter()
            .map(|candidate| candidate.split('\t').next().unwrap_or_default())
            .filter(|candidate| candidate.starts_with(&place.partial))
            .collect()
    }

    #[test]
    fn commands_and_flags_come_from_the_tree() {
        assert_eq!(names(&at("roll")), ["rollout"]);
        assert!(names(&at("rollout ")).contains(&"approve"));
        assert!(names(&at("ro ")).contains(&"approve"));
        assert!(names(&at("-n shop rollout --context c ")).contains(&"approve"));
        assert_eq!(names(&at("rollout status web --exit-on")), ["--exit-on-pause"]);
        assert!(
            names(&at("completion "))
                .iter()
                .filter(|name| ["bash", "install"].contains(name))
                .count()
                == 2
        );
        assert_eq!(names(&at("rollout approve -- --")), [""; 0]);
        assert!(
            at("")
                .statics
                .iter()
                .all(|candidate| !candidate.contains("__") && candidate.contains('\t'))
        );
    }

    #[test]
    fn values_are_known_by_their_flag() {
        assert_eq!(names(&at("--color a")), ["auto", "always"]);
        assert_eq!(names(&at("rollout approve --dry-run=c")), ["client"]);
        for (line, wanted) in [
            ("rollout status -n ", Wanted::Namespaces),
            ("rollout status --namespace sh", Wanted::Namespaces),
            ("rollout status --namespace=sh", Wanted::Namespaces),
            ("--context ", Wanted::Contexts),
            ("--user ", Wanted::Users),
            ("--cluster ", Wanted::Clusters),
            ("--kubeconfig ", Wanted::File),
            ("--token ", Wanted::Nothing),
            ("rollout approve --dry-run ", Wanted::Rollouts),
            ("rollout approve ", Wanted::Rollouts),
            ("rollout approve rollout/", Wanted::Rollouts),
            ("workload label ", Wanted::Workloads),
            ("version ", Wanted::Nothing),
            ("nonsense ", Wanted::Nothing),
        ] {
            assert_eq!(at(line).wanted, wanted, "{line}");
        }
        let equals = at("rollout status --namespace=sh");
        assert_eq!(
            (equals.prefix.as_str(), equals.partial.as_str()),
            ("--namespace=", "sh")
        );
    }

    #[test]
    fn what_stands_in_front_is_kept() {
        let place = at("-n shop rollout approve one --context=c two th");
        assert_eq!(place.given, ["one", "two"]);
        assert_eq!(place.flags, ["-n", "shop", "--context=c"]);
        assert!(place.several);
        assert_eq!(at("--context c rollout approve -n sh").flags, ["--context", "c"]);
        assert!(!at("rollout undo ").several);
    }
}
