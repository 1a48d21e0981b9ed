//! The plugin for krew: archives, manifest, and an installation with krew itself.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use support::process::scratch;
use support::{Assets, Tool, build_binaries};

use super::{answer, repository, run};

/// The tag of the present version.
const TAG: &str = concat!("v", env!("CARGO_PKG_VERSION"));

fn pack(os: &str, arch: &str, program: &Path, folder: &Path) -> String {
    let mut pack = Command::new(repository("release/pack"));
    let path = answer(pack.args([os, arch]).arg(program).arg(folder));
    path.trim_end().to_owned()
}

fn manifest(folder: Option<&Path>) -> String {
    answer(
        Command::new(repository("release/krew-manifest"))
            .arg(TAG)
            .args(folder),
    )
}

fn platforms(manifest: &str) -> Vec<Value> {
    let manifest: Value = serde_saphyr::from_str(manifest).unwrap();
    manifest["spec"]["platforms"].as_array().unwrap().clone()
}

/// The name that krew wants a manifest's file to have.
fn validated(manifest: &str, folder: &Path) {
    let file = folder.join("kruise.yaml");
    fs::write(&file, manifest).unwrap();
    let mut check = Command::new(Tool::ValidateKrewManifest.program().unwrap());
    let checked = run(check.arg("-skip-install").arg("-manifest").arg(&file));
    assert!(
        checked.status.success(),
        "{}",
        String::from_utf8_lossy(&checked.stderr)
    );
}

#[test]
fn the_manifest_in_the_repository_is_that_of_the_template() {
    let stored = fs::read_to_string(repository("krew-manifest.yaml")).unwrap();
    assert_eq!(
        stored,
        manifest(None),
        "write it anew: release/krew-manifest {TAG} >krew-manifest.yaml"
    );
    validated(&stored, &scratch("krew-manifest").unwrap());
}

#[test]
fn r84_the_manifest_says_what_krew_and_its_users_need() {
    let text = manifest(None);
    let read: Value = serde_saphyr::from_str(&text).unwrap();
    assert_eq!(read["metadata"]["name"], "kruise");
    assert_eq!(read["spec"]["version"], TAG);
    let short = read["spec"]["shortDescription"].as_str().unwrap();
    assert!(short.len() < 50 && !short.contains('\n'), "{short}");
    let longest = text
        .lines()
        .filter(|line| !line.contains("uri:"))
        .map(str::len)
        .max();
    assert!(longest <= Some(80), "{longest:?} columns");
    let mut seen = BTreeSet::new();
    for platform in platforms(&text) {
        let labels = &platform["selector"]["matchLabels"];
        let (os, arch) = (labels["os"].as_str().unwrap(), labels["arch"].as_str().unwrap());
        let bin = if os == "windows" {
            "kubectl-kruise.exe"
        } else {
            "kubectl-kruise"
        };
        assert_eq!(platform["bin"], bin);
        let uri = platform["uri"].as_str().unwrap();
        let file = format!("/{TAG}/kubectl-kruise_{os}_{arch}.tar.gz");
        assert!(uri.starts_with("https://") && uri.ends_with(&file), "{uri}");
        let files: BTreeSet<_> = platform["files"]
            .as_array()
            .unwrap()
            .iter()
            .map(|file| (file["from"].as_str().unwrap(), file["to"].as_str().unwrap()))
            .collect();
        assert_eq!(files, BTreeSet::from([(bin, "."), ("LICENSE", ".")]));
        assert!(seen.insert(format!("{os}/{arch}")));
    }
    let all = ["darwin", "linux", "windows"];
    let all = all.map(|os| ["amd64", "arm64"].map(|arch| format!("{os}/{arch}")));
    assert_eq!(seen, all.into_iter().flatten().collect());
}

#[test]
fn r83_archives_are_the_same_each_time_and_fit_their_checksums() {
    let folder = scratch("krew-archives").unwrap();
    let program = folder.join("program");
    fs::write(&program, "#!/bin/sh\n").unwrap();
    let (one, other) = (folder.join("one"), folder.join("other"));
    for (os, arch, bin) in [
        ("linux", "arm64", "kubectl-kruise"),
        ("windows", "amd64", "kubectl-kruise.exe"),
    ] {
        let archive = pack(os, arch, &program, &one);
        // A program that was built at another time is the same program.
        let touched = fs::File::options().write(true).open(&program).unwrap();
        touched.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(
            fs::read(&archive).unwrap(),
            fs::read(pack(os, arch, &program, &other)).unwrap()
        );
        // Flat, and nothing but regular files: krew takes no links.
        let listing =
            answer(Command::new("tar").args(["--list", "--verbose", "--numeric-owner", "--file", &archive]));
        let entries: Vec<_> = listing
            .lines()
            .map(|line| {
                let mut words = line.split_whitespace();
                (words.next().unwrap(), words.next_back().unwrap())
            })
            .collect();
        assert_eq!(entries, [("-rw-r--r--", "LICENSE"), ("-rwxr-xr-x", bin)]);
    }
    // What has no archive is left out rather than broken.
    let written = manifest(Some(&one));
    validated(&written, &folder);
    let mut checked = 0;
    for platform in platforms(&written) {
        let name = platform["uri"].as_str().unwrap().rsplit('/').next().unwrap();
        let sum = answer(Command::new("sha256sum").arg(one.join(name)));
        assert_eq!(
            sum.split_whitespace().next(),
            platform["sha256"].as_str(),
            "{name}"
        );
        checked += 1;
    }
    assert_eq!(checked, 2);
    let nothing = run(Command::new(repository("release/krew-manifest"))
        .arg(TAG)
        .arg(folder.join("none")));
    assert_eq!(nothing.status.code(), Some(1));
    for wrong in [vec!["0.1.0"], vec!["v1"], vec![]] {
        let refused = run(Command::new(repository("release/krew-manifest")).args(&wrong));
        assert!(!refused.status.success(), "{wrong:?}");
    }
}

#[test]
fn r84_krew_installs_it_and_kubectl_finds_it() {
    let folder = scratch("krew-install").unwrap();
    let assets = Assets::locate().unwrap();
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => panic!("no archive for {other}"),
    };
    let archive = pack("linux", arch, &build_binaries().unwrap().plugin, &folder);
    let file = folder.join("kruise.yaml");
    fs::write(&file, manifest(Some(&folder))).unwrap();
    let (bin, root) = (folder.join("bin"), folder.join("krew"));
    fs::create_dir_all(&bin).unwrap();
    std::os::unix::fs::symlink(Tool::Krew.program().unwrap(), bin.join("kubectl-krew")).unwrap();
    let kubectl = |arguments: &[&str]| {
        let path = format!("{}:{}:/usr/bin:/bin", root.join("bin").display(), bin.display());
        let mut kubectl = Command::new(assets.program("kubectl"));
        kubectl
            .args(arguments)
            .env("PATH", path)
            .env("HOME", &folder)
            .env("KREW_ROOT", &root)
            .env("KUBECONFIG", folder.join("none"));
        kubectl
    };
    let file = file.to_str().unwrap();
    answer(&mut kubectl(&[
        "krew",
        "install",
        "--manifest",
        file,
        "--archive",
        &archive,
    ]));
    let version = answer(&mut kubectl(&["kruise", "version", "--client"]));
    assert!(version.contains(env!("CARGO_PKG_VERSION")), "{version}");
    let installed = root.join("store/kruise").join(TAG);
    let mut names: Vec<_> = fs::read_dir(&installed)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["LICENSE", "kubectl-kruise"]);
    // An index without a plugin: krew uninstalls nothing without one.
    answer(
        Command::new("git")
            .args(["init", "--quiet"])
            .arg(root.join("index/default")),
    );
    answer(&mut kubectl(&["krew", "uninstall", "kruise"]));
    assert!(
        !run(&mut kubectl(&["kruise", "version", "--client"]))
            .status
            .success()
    );
}
