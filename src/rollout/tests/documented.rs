//! docs/troubleshooting.md has every word that people may see, with what to do about it.

use std::fs;
use std::path::Path;

const PAGE: &str = include_str!("../../../docs/troubleshooting.md");

/// The texts of a source file's constants.
fn words(source: &str) -> Vec<&str> {
    let constants = source
        .lines()
        .map(str::trim)
        .filter(|line| line.starts_with("pub const "));
    constants
        .filter_map(|line| line.split_once(": &str = \"")?.1.strip_suffix("\";"))
        .collect()
}

/// The module of this name in a source file.
fn module<'a>(source: &'a str, name: &str) -> &'a str {
    let (_, rest) = source.split_once(&format!("pub mod {name} {{\n")).unwrap();
    rest.split_once("\n}\n").unwrap().0
}

#[test]
fn every_word_stands_in_the_page() {
    let conditions = include_str!("../../api/v1beta1/condition.rs");
    let status = include_str!("../../api/v1beta1/status.rs");
    let sources = [
        include_str!("../why.rs"),
        module(conditions, "reason"),
        module(status, "phase"),
        module(status, "step_state"),
    ];
    for source in sources {
        let words = words(source);
        assert!(words.len() > 4, "{words:?}");
        for word in words {
            assert!(
                PAGE.contains(&format!("`{word}`")),
                "docs/troubleshooting.md has no `{word}`"
            );
        }
    }
}

/// A word that is spelt where it is used would not be looked for in the page.
#[test]
fn no_word_is_spelt_elsewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut read = 0;
    for folder in ["src/rollout", "controller/src/reconcile"] {
        for entry in fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            let program = text.split("#[cfg(test)]").next().unwrap();
            read += 1;
            for spelt in [
                "reason: \"",
                "tell(true, \"",
                "tell(false, \"",
                "Refusal::new(\n            \"",
            ] {
                assert!(
                    !program.contains(spelt),
                    "{} spells a reason: {spelt}",
                    path.display()
                );
            }
        }
    }
    assert!(read > 20, "{read} files were read");
}
