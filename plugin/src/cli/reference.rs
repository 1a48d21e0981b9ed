//! The reference of all commands as Markdown, from the tree that parses them.

use std::fmt::Write;

use clap::{Arg, Command};

/// What the file says of itself.
const HEAD: &str = "# kubectl kruise

All commands and flags. This file is made from the program: `UPDATE_DOCS=1 cargo test -p kubectl-kruise --test commands reference`
writes it anew, and without the variable the test fails where it is stale.
";

/// The reference of a tree of commands. Hidden commands and flags are left out.
pub(crate) fn markdown(mut root: Command) -> String {
    root.build();
    let mut text = HEAD.to_owned();
    section(&mut text, &root, "kubectl kruise");
    let _ = write!(text, "\n## Flags of every command\n");
    let mut headings: Vec<&str> = Vec::new();
    for heading in root.get_arguments().filter_map(Arg::get_help_heading) {
        if !headings.contains(&heading) {
            headings.push(heading);
        }
    }
    for heading in headings {
        let flags = root
            .get_arguments()
            .filter(|arg| arg.get_help_heading() == Some(heading));
        table(&mut text, heading, flags);
    }
    if let Some(codes) = root.get_after_help() {
        let codes = codes.to_string();
        let codes = codes.trim_start_matches("Exit codes:").trim_matches('\n');
        let _ = write!(text, "\n## Exit codes\n\n```\n{codes}\n```\n");
    }
    text
}

fn section(text: &mut String, command: &Command, name: &str) {
    let about = command.get_long_about().or_else(|| command.get_about());
    if let Some(about) = about {
        let _ = write!(text, "\n{about}\n");
    }
    let aliases: Vec<_> = command
        .get_visible_aliases()
        .map(|alias| format!("`{alias}`"))
        .collect();
    if !aliases.is_empty() {
        let _ = write!(text, "\nAlso: {}\n", aliases.join(", "));
    }
    if command.get_subcommands().next().is_none() || command.get_positionals().next().is_some() {
        let usage = command.clone().render_usage().to_string();
        let _ = write!(text, "\n```\n{}\n```\n", usage.trim_start_matches("Usage: "));
    }
    table(text, "operand", command.get_positionals());
    let flags = command
        .get_arguments()
        .filter(|arg| !arg.is_positional() && !arg.is_global_set());
    table(text, "flag", flags);
    for next in command.get_subcommands().filter(|next| !next.is_hide_set()) {
        if next.get_name() == "help" {
            continue;
        }
        let name = format!("{name} {}", next.get_name());
        let _ = write!(text, "\n## {name}\n");
        section(text, next, &name);
    }
}

fn table<'a>(text: &mut String, heading: &str, rows: impl Iterator<Item = &'a Arg>) {
    let mut rows = rows
        .filter(|arg| arg.get_id() != "help" && !arg.is_hide_set())
        .peekable();
    if rows.peek().is_none() {
        return;
    }
    let _ = write!(text, "\n| {heading} | meaning |\n|---|---|\n");
    for arg in rows {
        let _ = writeln!(text, "| {} | {} |", spelt(arg), cell(&meaning(arg)));
    }
}

/// How it is written: `-o`, `--output FORMAT`.
fn spelt(arg: &Arg) -> String {
    let names = arg.get_value_names().unwrap_or_default();
    let values = if arg.get_action().takes_values() {
        names
            .iter()
            .map(|name| name.to_string())
            .collect::<Vec<_>>()
            .join(" ")
    } else {
        String::new()
    };
    let Some(long) = arg.get_long() else {
        return match arg.get_short() {
            Some(short) => format!("`-{short}`"),
            None if values.is_empty() => format!("`{}`", arg.get_id().as_str().to_uppercase()),
            None => format!("`{values}`"),
        };
    };
    let optional = arg.get_num_args().is_some_and(|range| range.min_values() == 0);
    let long = match (values.as_str(), optional) {
        ("", _) => format!("`--{long}`"),
        (values, true) => format!("`--{long}[={values}]`"),
        (values, false) => format!("`--{long} {values}`"),
    };
    match arg.get_short() {
        Some(short) => format!("`-{short}`, {long}"),
        None => long,
    }
}

fn meaning(arg: &Arg) -> String {
    let mut text = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let values: Vec<_> = arg
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    if !values.is_empty() && arg.get_action().takes_values() {
        let _ = write!(text, " ({})", values.join(", "));
    }
    let defaults: Vec<_> = arg
        .get_default_values()
        .iter()
        .map(|value| value.to_string_lossy())
        .collect();
    if !defaults.is_empty() && arg.get_action().takes_values() {
        let _ = write!(text, ". Default: `{}`", defaults.join(" "));
    }
    text
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
