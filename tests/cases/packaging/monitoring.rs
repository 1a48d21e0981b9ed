//! Alert rules, checked by Prometheus' own tool and against what a controller really counts.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use support::{Tool, installed};

use super::{answer, repository};

fn promtool(arguments: &[&str]) -> String {
    let mut promtool = Command::new(Tool::Promtool.program().unwrap());
    answer(
        promtool
            .args(arguments)
            .current_dir(repository("tests/cases/packaging")),
    )
}

#[test]
fn each_alert_fires_when_it_should_and_only_then() {
    promtool(&[
        "check",
        "rules",
        "--lint=all",
        "--lint-fatal",
        "../../../charts/kruise-rollout/alerts.yaml",
    ]);
    promtool(&["test", "rules", "alerts_test.yaml"]);
    let tests = fs::read_to_string(repository("tests/cases/packaging/alerts_test.yaml")).unwrap();
    let rules = fs::read_to_string(repository("charts/kruise-rollout/alerts.yaml")).unwrap();
    for alert in rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "))
    {
        assert!(tests.contains(alert), "{alert} has no test");
    }
}

/// A rule on a metric that nobody writes never fires.
#[tokio::test]
async fn alerts_are_about_metrics_that_there_are() {
    let metrics = installed().await.metrics().await.unwrap();
    promtool_takes(&metrics);
    let rules = fs::read_to_string(repository("charts/kruise-rollout/alerts.yaml")).unwrap();
    let named: BTreeSet<_> = rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("expr: "))
        .flat_map(|line| line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')))
        .filter(|word| word.starts_with("kruise_rollout_"))
        .collect();
    assert!(named.len() >= 5, "{named:?}");
    for name in named {
        let there = metrics.lines().any(|line| {
            let family = line.split(['{', ' ']).next().unwrap();
            family == name
        });
        assert!(there, "{name} is not in\n{metrics}");
    }
    let failed = "kruise_rollout_reconciles_total{outcome=\"failed\"}";
    assert!(rules.contains(failed) && metrics.contains(failed));
}

/// Names, units and help texts as Prometheus wants them.
fn promtool_takes(metrics: &str) {
    use std::io::Write as _;
    let mut check = Command::new(Tool::Promtool.program().unwrap())
        .args(["check", "metrics"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    check.stdin.take().unwrap().write_all(metrics.as_bytes()).unwrap();
    let checked = check.wait_with_output().unwrap();
    assert!(
        checked.status.success(),
        "{}{}",
        String::from_utf8_lossy(&checked.stdout),
        String::from_utf8_lossy(&checked.stderr)
    );
}
