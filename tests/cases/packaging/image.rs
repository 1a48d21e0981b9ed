//! The image: what its Dockerfile runs can be run, and starts as it is.

use std::fs;

use super::repository;

/// The instructions, each on one line.
fn instructions() -> Vec<String> {
    let text = fs::read_to_string(repository("Dockerfile")).unwrap();
    let joined = text.replace("\\\n", " ");
    let lines = joined.lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect()
}

/// The version of Rust stands in one place for people and in one for the image; both are the same.
#[test]
fn it_is_built_by_the_pinned_toolchain() {
    let toolchain = fs::read_to_string(repository("rust-toolchain.toml")).unwrap();
    let version = toolchain.split('"').nth(1).unwrap();
    let from = instructions()
        .into_iter()
        .find(|line| line.starts_with("FROM"))
        .unwrap();
    assert!(
        from.contains(&format!("rust:{version}-")),
        "{from} is not of {version}"
    );
}

/// Nothing but the program and the licence is in it, and it runs as a user that owns nothing.
#[test]
fn it_holds_one_program_and_runs_without_rights() {
    let all = instructions();
    let last = all.iter().rposition(|line| line.starts_with("FROM")).unwrap();
    let stage: Vec<_> = all[last..].iter().map(String::as_str).collect();
    assert_eq!(
        stage,
        [
            "FROM scratch",
            "COPY LICENSE /LICENSE",
            "COPY --from=build /kruise-rollout-controller /kruise-rollout-controller",
            "USER 65532:65532",
            "ENTRYPOINT [\"/kruise-rollout-controller\"]",
            "CMD [\"run\"]",
        ]
    );
}
