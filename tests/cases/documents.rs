//! The documents: their links lead somewhere, and what they tell people to type works.

mod grammar;
mod page;
mod typed;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use support::installed;

use crate::scene::{Scene, walk_steps};
use crate::transcripts::{docs, shell};

/// All documents of the repository.
fn documents() -> Vec<PathBuf> {
    let root = docs().join("..");
    let in_folder = |folder: PathBuf| {
        let entries = fs::read_dir(folder).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "md"))
    };
    let mut documents: Vec<_> = [root, docs(), docs().join("adr")]
        .into_iter()
        .flat_map(in_folder)
        .collect();
    documents.sort();
    documents
}

/// The lines outside of blocks of code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut in_code = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        !in_code && !fence
    })
}

/// The anchor of a heading, as git hosts make it.
fn anchor(heading: &str) -> String {
    let letters = heading.to_lowercase();
    let kept = letters
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).filter(|line| line.starts_with('#'));
    headings
        .map(|line| anchor(line.trim_start_matches('#').trim()))
        .collect()
}

/// Targets of the links of a line; what is code is no link.
fn links(line: &str) -> Vec<&str> {
    let text = line.split('`').step_by(2);
    text.flat_map(|part| part.split("](").skip(1))
        .filter_map(|rest| rest.split(')').next())
        .collect()
}

/// What is wrong with a link of a document.
fn broken(document: &Path, link: &str) -> Option<String> {
    if link.contains("://") {
        return None;
    }
    let (file, fragment) = link.split_once('#').unwrap_or((link, ""));
    let target = match file {
        "" => document.to_owned(),
        file => document.parent().unwrap().join(file),
    };
    let missing = || format!("{}: {link} leads nowhere", document.display());
    if fragment.is_empty() {
        return (!target.exists()).then(missing);
    }
    match fs::read_to_string(&target) {
        Ok(text) if anchors(&text).contains(fragment) => None,
        _ => Some(missing()),
    }
}

#[test]
fn every_link_leads_somewhere() {
    let (mut seen, mut wrong) = (0, Vec::new());
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        for link in prose(&text).flat_map(links) {
            seen += 1;
            wrong.extend(broken(&document, link));
        }
    }
    assert!(seen > 100, "{seen} links were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_link_is_told_from_code_and_a_wrong_one_from_a_right_one() {
    assert_eq!(links("see [a](b.md), `[c](d)` and [`e`](f#g)"), ["b.md", "f#g"]);
    assert_eq!(
        anchor("kubectl kruise rollout `status`, now"),
        "kubectl-kruise-rollout-status-now"
    );
    let document = docs().join("operations.md");
    assert_eq!(broken(&document, "operations.md#certificates"), None);
    assert_eq!(broken(&document, "#certificates"), None);
    assert!(broken(&document, "#no-such-heading").is_some());
    assert!(broken(&document, "no-such.md").is_some());
}

#[test]
fn the_list_of_documents_has_each_of_them() {
    let list = fs::read_to_string(docs().join("README.md")).unwrap();
    let listed: BTreeSet<_> = prose(&list).flat_map(links).map(str::to_owned).collect();
    for document in documents() {
        let Ok(name) = document.strip_prefix(docs()) else {
            continue;
        };
        let name = name.to_str().unwrap();
        assert!(
            name == "README.md" || listed.contains(name),
            "docs/README.md does not list {name}"
        );
    }
}

/// The commands of a page, each once, in their order.
fn commands(page: &str) -> Vec<&str> {
    let mut commands = Vec::new();
    for line in prose(page) {
        let code = line.split('`').skip(1).step_by(2);
        for command in code.filter(|code| code.starts_with("kubectl ")) {
            if !commands.contains(&command) {
                commands.push(command);
            }
        }
    }
    commands
}

/// A verdict is an answer: what is wrong, who is waited for.
const ANSWERS: [i32; 4] = [0, 3, 5, 6];

#[tokio::test]
async fn the_commands_of_the_page_on_troubleshooting_work() {
    let page = fs::read_to_string(docs().join("troubleshooting.md")).unwrap();
    let scene = Scene::new(installed().await, "troubleshooting").await;
    scene.set(Some(0), &walk_steps()).await;
    scene.set_version("v2").await;
    scene.wait_state(1, "StepPaused").await;
    let commands = commands(&page);
    assert!(commands.len() > 30, "{commands:#?}");
    let mut wrong = Vec::new();
    for command in commands {
        let (code, said) = shell(&scene, command).await;
        if !ANSWERS.contains(&code) {
            wrong.push(format!("{command}: exit code {code}\n{said}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
