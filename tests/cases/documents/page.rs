//! The blocks of a document that people type or apply.

use std::fs;

use crate::transcripts::docs;

/// Languages of the blocks that are typed or applied. Their commands stand after a `$` where answers stand among them.
pub const SHELL: &str = "sh";
pub const CONSOLE: &str = "console";
pub const YAML: &str = "yaml";

/// Documents whose blocks are all run, by the cases in `typed`.
pub const TYPED: [&str; 7] = [
    "../README.md",
    "concepts.md",
    "gitops.md",
    "install.md",
    "migration.md",
    "operations.md",
    "security.md",
];

/// Documents that are transcripts: every block of a console is run, and its answers are compared.
pub const TRANSCRIPTS: [&str; 2] = ["custom-workloads.md", "walkthrough.md"];

/// What is not run: the document, the beginning of a command or of an object, and why. What of it is a command of ours has to be one
/// that our programs know.
pub const NOT_RUN: [(&str, &str, &str); 17] = [
    ("../README.md", "cargo demo", ".ci/run runs it"),
    (
        "../README.md",
        "cargo build --release",
        "the programs of the tests are run, which are built otherwise",
    ),
    ("../README.md", "export PATH=", "the same"),
    ("../README.md", "cargo test", "this is it"),
    (
        "cli-json.md",
        "kubectl kruise rollout list -A -o json | jq",
        "jq need not be there; the documents are held by the cases of the commands",
    ),
    (
        "cli-json.md",
        "kubectl kruise rollout pods my-app-rollout --batch 1 -o name | xargs",
        "containers are fake and have no log",
    ),
    (
        "development.md",
        "cargo ",
        "a control plane until Ctrl-C: cases have their own, started by the same code",
    ),
    ("development.md", "export ", "for that one"),
    (
        "development.md",
        "kruise-rollout-controller ",
        "what cases do at their start, by the same programs",
    ),
    ("development.md", "my-stateful-app-operator ", "the same"),
    ("development.md", "kubectl ", "the same"),
    ("faults.md", "cargo test ", "this is it"),
    (
        "gitops.md",
        "apiVersion: kustomize.toolkit.fluxcd.io/v1",
        "Flux is not there; what it looks at is waited for by the command below it",
    ),
    (
        "install.md",
        "docker buildx build",
        "there is no container engine; the steps of the Dockerfile are run one by one",
    ),
    (
        "install.md",
        "kubectl krew uninstall kruise",
        "packaging::krew runs it on a store of its own",
    ),
    (
        "install.md",
        "kubectl krew install ",
        "packaging::krew does it with a manifest and an archive that are not published",
    ),
    (
        "install.md",
        "kubectl krew index add ",
        "a git repository of the reader's",
    ),
];

/// A block of a document.
#[derive(Debug)]
pub struct Block {
    pub language: String,
    /// Its first line in the document.
    line: usize,
    /// Without the indentation of its fence.
    pub text: String,
}

impl Block {
    /// The commands, each on one line; the first lines of an object.
    pub fn commands(&self) -> Vec<String> {
        let joined = self.text.replace("\\\n", " ");
        let lines = joined.lines();
        let commands: Vec<_> = match self.language.as_str() {
            CONSOLE => lines.filter_map(|line| line.strip_prefix("$ ")).collect(),
            SHELL => lines.filter(|line| !line.starts_with('#')).collect(),
            _ => lines.filter(|line| line.starts_with("apiVersion")).collect(),
        };
        commands.into_iter().map(str::to_owned).collect()
    }
}

/// A document, and what of it has not been run yet.
pub struct Page {
    pub name: &'static str,
    pub blocks: Vec<Block>,
}

impl Page {
    /// A document of which every block has to be taken before [`Page::end`].
    pub fn open(name: &'static str) -> Self {
        assert!(TYPED.contains(&name), "list {name} in TYPED");
        Self::read(name)
    }

    pub fn read(name: &'static str) -> Self {
        let text = fs::read_to_string(docs().join(name)).unwrap();
        Self {
            name,
            blocks: blocks(&text),
        }
    }

    /// The first block with these words, which is not taken again.
    pub fn take(&mut self, words: &str) -> Block {
        let found = self.blocks.iter().position(|block| block.text.contains(words));
        let found = found.unwrap_or_else(|| panic!("{} has no block (any more) with: {words}", self.name));
        self.blocks.remove(found)
    }

    /// Why a command is not run.
    pub fn excuse(&self, command: &str) -> Option<&'static str> {
        let fits = |(page, begin, _): &&(&str, &str, &str)| *page == self.name && command.starts_with(begin);
        NOT_RUN.iter().find(fits).map(|(_, _, why)| *why)
    }

    /// # Panics
    /// A command has neither been run nor stands in [`NOT_RUN`].
    pub fn end(&self) {
        for block in &self.blocks {
            for command in block.commands() {
                assert!(
                    self.excuse(&command).is_some(),
                    "{}, line {}: no case runs it: {command}",
                    self.name,
                    block.line
                );
            }
        }
    }
}

fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = text.lines().zip(1..);
    while let Some((fence, line)) = lines.next() {
        let Some(language) = fence.trim_start().strip_prefix("```") else {
            continue;
        };
        let margin = fence.len() - fence.trim_start().len();
        let inside = lines.by_ref().map(|(line, _)| line);
        let inside = inside.take_while(|line| line.trim_start() != "```");
        let text = inside.flat_map(|line| [line.get(margin..).unwrap_or_default(), "\n"]);
        let text = text.collect();
        if [SHELL, CONSOLE, YAML].contains(&language) {
            blocks.push(Block {
                language: language.to_owned(),
                line: line + 1,
                text,
            });
        }
    }
    blocks
}

#[test]
fn blocks_and_their_commands_are_found() {
    let text = "a\n```sh\nx \\\n  y\n# no\nz\n```\n1. b\n\n   ```console\n   $ q\n   answer\n   ```\n```\n$ none\n```\n";
    let found = blocks(text);
    let commands: Vec<_> = found.iter().map(Block::commands).collect();
    assert_eq!(
        commands,
        [vec!["x    y".to_owned(), "z".to_owned()], vec!["q".to_owned()]]
    );
    assert_eq!(found.iter().map(|block| block.line).collect::<Vec<_>>(), [3, 11]);
}
