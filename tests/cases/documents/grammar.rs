//! Commands of ours that no case runs: our programs know them all the same.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use support::build_binaries;
use support::process::scratch;

use super::page::{CONSOLE, NOT_RUN, Page, SHELL, TRANSCRIPTS, TYPED, YAML};
use super::{documents, prose};
use crate::packaging::run;
use crate::transcripts::docs;

const PLUGIN: &str = "kubectl kruise ";
const CONTROLLER: &str = "kruise-rollout-controller ";

/// The words of the first command of a line, in which nothing but quotes and what ends it means anything.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (part, text) in line.split(['\'', '"']).enumerate() {
        if part % 2 == 1 {
            words.push(text.to_owned());
            continue;
        }
        let command = text.split(['|', ';', '&', '#']).next().unwrap_or_default();
        words.extend(command.split_whitespace().map(str::to_owned));
        if command.len() < text.len() {
            break;
        }
    }
    words
}

/// What the program of a command says against its grammar. There is no cluster, so a command that is understood fails later, or does
/// what it does in a folder of its own. A `mention` may leave its target out.
fn refused(command: &str, mention: bool) -> Option<String> {
    let product = build_binaries().unwrap();
    let (program, arguments) = match command.strip_prefix(PLUGIN) {
        Some(rest) => (&product.plugin, words(rest)),
        None => (&product.controller, words(command.strip_prefix(CONTROLLER)?)),
    };
    let home = scratch("grammar").unwrap();
    let nowhere = home.join("none");
    let mut child = Command::new(program);
    child.args(arguments).current_dir(&home).env("HOME", &home);
    child
        .env("KUBECONFIG", &nowhere)
        .env("KRUISE_ROLLOUT_KUBECONFIG", &nowhere);
    let output = run(&mut child);
    let said = String::from_utf8_lossy(&output.stderr);
    let lacks = ["required arguments were not provided", "a value is required"];
    let lacks = lacks.iter().any(|lack| said.contains(lack));
    let wrong = output.status.code() == Some(2) && !(mention && lacks);
    wrong.then(|| format!("{command}: {said}"))
}

/// The commands of ours in the prose of all documents, each once.
fn mentioned() -> BTreeSet<String> {
    let mut commands = BTreeSet::new();
    for document in documents() {
        let text = fs::read_to_string(document).unwrap();
        for line in prose(&text) {
            let code = line.split('`').skip(1).step_by(2);
            let ours = code.filter(|code| code.starts_with(PLUGIN) || code.starts_with(CONTROLLER));
            // What stands for any words is no command.
            commands.extend(ours.filter(|code| !code.contains(['…', '<'])).map(str::to_owned));
        }
    }
    commands
}

#[test]
fn the_commands_in_the_prose_are_known() {
    let mentioned = mentioned();
    assert!(mentioned.len() > 40, "{mentioned:#?}");
    let wrong: Vec<_> = mentioned
        .iter()
        .filter_map(|command| refused(command, true))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_is_not_known_is_refused() {
    for command in [
        "kubectl kruise rollout statuses my-app",
        "kubectl kruise rollout status my-app --nonsense",
        "kruise-rollout-controller manifests --nonsense",
    ] {
        assert!(refused(command, true).is_some(), "{command}");
    }
    assert!(refused("kubectl kruise rollout pause", false).is_some());
    assert_eq!(words("a 'b c'  d=\"e\" | f"), ["a", "b c", "d=", "e"]);
}

/// The documents by the names that the lists have them under.
fn name(document: &Path) -> String {
    match document.strip_prefix(docs()) {
        Ok(name) => name.to_str().unwrap().to_owned(),
        Err(_) => format!("../{}", document.file_name().unwrap().to_str().unwrap()),
    }
}

#[test]
fn each_command_is_run_or_known() {
    let mut unused: BTreeSet<_> = NOT_RUN.iter().map(|(page, begin, _)| (*page, *begin)).collect();
    let mut wrong = Vec::new();
    for document in documents() {
        let name: &'static str = name(&document).leak();
        let page = Page::read(name);
        let (typed, transcript) = (TYPED.contains(&name), TRANSCRIPTS.contains(&name));
        for block in &page.blocks {
            // Objects in other documents are examples of what something else prints.
            if block.language == YAML && !typed || transcript && block.language == CONSOLE {
                continue;
            }
            for command in block.commands() {
                unused.retain(|(page, begin)| *page != name || !command.starts_with(begin));
                match page.excuse(&command) {
                    Some(_) => wrong.extend(refused(&command, false)),
                    None if typed => {}
                    None => wrong.push(format!("{name}: no case runs it: {command}")),
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(unused.is_empty(), "excused, and not there: {unused:?}");
    assert_eq!(Page::read("operations.md").blocks[1].language, SHELL);
}
