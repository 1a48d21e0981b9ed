//! docs/troubleshooting.md has every word that people may see, with what to do about it.

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
