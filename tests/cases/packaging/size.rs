//! A release whose programs are too large is none.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use support::process::scratch;

use super::{answer, repository, run};

/// A file of so many bytes, none of which takes room.
fn program(folder: &Path, name: &str, bytes: u64) -> String {
    let path = folder.join(name);
    File::create(&path).unwrap().set_len(bytes).unwrap();
    path.to_str().unwrap().to_owned()
}

fn check(programs: &[&str]) -> Command {
    let mut check = Command::new(repository("release/check-size"));
    check.args(programs);
    check
}

#[test]
fn a_program_that_is_too_large_fails_a_release() {
    let folder = scratch("size").unwrap();
    for (name, limit) in [
        ("kubectl-kruise", 12 * 1024 * 1024),
        ("kubectl-kruise.exe", 12 * 1024 * 1024),
        ("kruise-rollout-controller", 16_000_000),
    ] {
        let path = program(&folder, name, limit);
        assert_eq!(
            answer(&mut check(&[&path])),
            format!("{path} has {limit} of {limit} bytes\n")
        );
        program(&folder, name, limit + 1);
        let refused = run(&mut check(&[&path]));
        let told = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(1), "{told}");
        assert!(
            told.contains(&format!("{path} has {} bytes, 1 more", limit + 1)),
            "{told}"
        );
    }
    // One that is too large is not hidden by another one.
    let (large, small) = (
        folder.join("kubectl-kruise").display().to_string(),
        program(&folder, "kruise-rollout-controller", 1),
    );
    assert_eq!(run(&mut check(&[&large, &small])).status.code(), Some(1));
    for wrong in [vec![], vec!["/etc/hostname"]] {
        assert_eq!(run(&mut check(&wrong)).status.code(), Some(2), "{wrong:?}");
    }
    assert!(!run(&mut check(&["none/kubectl-kruise"])).status.success());
}

#[test]
fn every_program_of_a_release_is_checked() {
    let read = |path: &str| fs::read_to_string(repository(path)).unwrap();
    let release = read(".github/workflows/release.yaml");
    let built = release.matches("release/build ").count();
    assert_eq!((built, release.matches("release/check-size ").count()), (1, 1));
    let image = read("Dockerfile");
    assert!(
        image.contains("RUN release/check-size /kruise-rollout-controller\n"),
        "{image}"
    );
}
