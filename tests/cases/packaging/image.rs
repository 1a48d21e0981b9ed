//! The image: what its Dockerfile runs is run, without a container engine, and its program serves.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;

use kruise_rollout::names;
use support::process::scratch;
use support::{Installation, build_binaries, forget_package, target_dir};

use super::{answer, repository, run};
use crate::ground::{Ground, called, finish};
use crate::scene::{Scene, partition, walk_steps};

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

/// The program that the Dockerfile's own commands build on this machine, for its architecture. They are quick where nothing has changed.
///
/// The profile is that of a release but for optimisation: what it costs proves nothing here.
static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| {
    const BUILT: &str = "/kruise-rollout-controller";
    let all = instructions();
    let step = all.iter().find_map(|line| line.strip_prefix("RUN case "));
    let step = format!(
        "case {}",
        step.expect("a step of the Dockerfile builds for each architecture")
    );
    let program = scratch("image").unwrap().join("kruise-rollout-controller");
    let copied = format!(" {BUILT}");
    assert!(step.ends_with(&copied), "{step}");
    let step = format!("{} {}", step.trim_end_matches(&copied), program.display());
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => panic!("no image for {other}"),
    };
    let mut shell = Command::new("nice");
    shell.args(["sh", "-ec", &step]).current_dir(repository(""));
    shell.env("TARGETARCH", architecture);
    shell.env("CARGO_TARGET_DIR", target_dir().join("image"));
    shell.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0");
    shell.env("CARGO_PROFILE_RELEASE_LTO", "off");
    shell.env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
    forget_package(&mut shell);
    let output = run(&mut shell);
    assert!(
        output.status.success(),
        "if it is the target that is missing, install it: rustup target add {}-unknown-linux-musl\n{step}\n{}",
        std::env::consts::ARCH,
        String::from_utf8_lossy(&output.stderr)
    );
    program
});

/// A number of an ELF file for 64 bits, little end first.
fn number(file: &[u8], at: usize, bytes: usize) -> usize {
    let digits = file[at..at + bytes].iter().rev();
    digits.fold(0, |number, digit| number << 8 | usize::from(*digit))
}

/// Types of the segments of an ELF file.
fn segments(file: &[u8]) -> Vec<usize> {
    assert_eq!(&file[..6], b"\x7fELF\x02\x01");
    let (table, size, count) = (number(file, 32, 8), number(file, 54, 2), number(file, 56, 2));
    (0..count)
        .map(|index| number(file, table + index * size, 4))
        .collect()
}

/// An image that is empty has no loader.
#[test]
fn its_program_needs_nothing_beside_it() {
    const LOADED: usize = 1;
    const INTERPRETED: usize = 3;
    let is_static = |program: &PathBuf| {
        let segments = segments(&fs::read(program).unwrap());
        assert!(segments.contains(&LOADED), "{segments:?}");
        !segments.contains(&INTERPRETED)
    };
    assert!(is_static(&PROGRAM));
    let usual = &build_binaries().unwrap().controller;
    assert!(!is_static(usual), "the check tells them apart");

    let bare = |arguments: &[&str]| {
        answer(
            Command::new(&*PROGRAM)
                .args(arguments)
                .env_clear()
                .current_dir("/"),
        )
    };
    assert!(bare(&["--version"]).contains(env!("CARGO_PKG_VERSION")));
    assert!(bare(&["run", "--help"]).contains("--watch-namespaces"));
    assert_eq!(bare(&["manifests"]), answer(Command::new(usual).arg("manifests")));
}

#[tokio::test]
async fn its_program_carries_out_a_release() {
    let program = tokio::task::spawn_blocking(|| PROGRAM.clone()).await.unwrap();
    let ground = Ground::take().await;
    let mut installation = Installation::new(ground.control_plane()).unwrap();
    installation.set_program(program);
    installation.start_controller().await.unwrap();
    called(&installation).await;
    let scene = Scene::new(&installation, "image").await;
    scene.set(Some(0), &walk_steps()).await;
    let changed = scene.set_version("v2").await;
    assert_eq!(partition(&changed), names::HOLD_PARTITION);
    scene.wait_state(1, "StepPaused").await;
    finish(&scene, "v2").await;
}
