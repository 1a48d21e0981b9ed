//! lint and plan, which need no server.

use std::path::PathBuf;

use serde_json::Value;

use crate::world::run;

const ROLLOUT: &str = "apiVersion: rollouts.kruise.io/v1beta1
kind: Rollout
metadata:
  name: web
spec:
  workloadRef:
    apiVersion: example.io/v1
    kind: MyStatefulApp
    name: app
  strategy:
    canary:
      steps:
      - replicas: 1
        pause: {}
      - replicas: 50%
        pause: {duration: 300}
      - replicas: 100%
";
const APP: &str = "---
apiVersion: example.io/v1
kind: MyStatefulApp
metadata:
  name: app
spec:
  replicas: 5
  template: {metadata: {}, spec: {}}
";

/// A file of this test run.
fn file(name: &str, text: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.yaml"));
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn problems_are_told_with_their_places() {
    let wrong = ROLLOUT.replace("replicas: 1\n", "replica: 1\n");
    let path = file("places", &format!("{wrong}{APP}"));
    let path = path.to_str().unwrap();
    let outcome = run(&format!("rollout lint -f {path}"));
    assert_eq!(outcome.code, 3, "{}{}", outcome.out, outcome.err);
    let lines: Vec<_> = outcome.out.lines().collect();
    for (place, words) in [
        (
            "13:9",
            "error KR001 spec.strategy.canary.steps[0].replica is no field of a Rollout: did you mean replicas?",
        ),
        (
            "13:9",
            "error KR003 spec.strategy.canary.steps[0].replicas is missing",
        ),
        (
            "21:1",
            "warning KR009 the label rollouts.kruise.io/workload-type is missing",
        ),
    ] {
        let start = format!("{path}:{place}: {words}");
        assert!(
            lines.iter().any(|line| line.starts_with(&start)),
            "{start}\n{}",
            outcome.out
        );
    }
    let allowed = run(&format!("rollout lint -f {path} --allow KR001 --allow kr003"));
    assert_eq!(
        (allowed.code, allowed.out.lines().count()),
        (0, 1),
        "{}",
        allowed.out
    );
    let strict = run(&format!(
        "rollout lint -f {path} --allow KR001 --allow KR003 --strict"
    ));
    assert_eq!(strict.code, 3);
    let json: Value = serde_json::from_str(&run(&format!("rollout lint -f {path} -o json")).out).unwrap();
    assert_eq!(
        (&json["kind"], &json["errors"], &json["warnings"]),
        (&"LintReport".into(), &2.into(), &1.into())
    );
    assert_eq!(
        (&json["problems"][0]["rule"], &json["problems"][0]["line"]),
        (&"KR001".into(), &13.into())
    );
    let sarif: Value = serde_json::from_str(&run(&format!("rollout lint -f {path} -o sarif")).out).unwrap();
    let result = &sarif["runs"][0]["results"][0];
    assert_eq!(
        (&result["ruleId"], &result["level"]),
        (&"KR001".into(), &"error".into())
    );
    assert_eq!(
        result["locations"][0]["physicalLocation"]["region"]["startLine"],
        13
    );
}

#[test]
fn what_is_no_yaml_is_a_problem_and_what_cannot_be_read_an_error() {
    let path = file("broken", "kind: Rollout\nspec: [1\n");
    let outcome = run(&format!("rollout lint -f {}", path.display()));
    assert_eq!(outcome.code, 3, "{}{}", outcome.out, outcome.err);
    assert!(outcome.out.contains("error KR001"), "{}", outcome.out);
    let outcome = run("rollout lint -f /nonexistent/file.yaml");
    assert_eq!((outcome.code, outcome.out.as_str()), (1, ""));
    assert!(
        outcome.err.contains("/nonexistent/file.yaml: "),
        "{}",
        outcome.err
    );
    let outcome = run("rollout lint -f x --allow KR099");
    assert_eq!(outcome.code, 2);
    assert!(outcome.err.contains("KR001, KR002"), "{}", outcome.err);
}

#[test]
fn a_plan_is_shown_without_a_cluster() {
    let path = file("plan", &format!("{ROLLOUT}{APP}"));
    let outcome = run(&format!("rollout plan -f {}", path.display()));
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    let lines: Vec<Vec<&str>> = outcome
        .out
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(lines[0], ["web:", "5", "pods"]);
    assert_eq!(
        lines[1],
        ["STEP", "REPLICAS", "TARGET", "NEW", "PARTITION", "PODS", "PAUSE"]
    );
    assert_eq!(lines[2], ["1", "1", "1", "1", "4", "4", "approval"]);
    assert_eq!(lines[3], ["2", "50%", "3", "2", "2", "3,2", "300s"]);
    assert_eq!(lines[4], ["3", "100%", "5", "2", "0", "1,0", "none"]);
    assert!(
        outcome.out.contains("1 approvals, 300 s of pauses"),
        "{}",
        outcome.out
    );
    let alone = file("alone", ROLLOUT);
    let outcome = run(&format!("rollout plan -f {}", alone.display()));
    assert_eq!(outcome.code, 2);
    assert!(
        outcome.err.contains("MyStatefulApp app") && outcome.err.contains("--replicas"),
        "{}",
        outcome.err
    );
    let outcome = run(&format!(
        "rollout plan -f {} --replicas 10 -o yaml",
        alone.display()
    ));
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    assert!(outcome.out.contains("pausesSeconds: 300"), "{}", outcome.out);
    let none = file("none", APP);
    let outcome = run(&format!("rollout plan -f {}", none.display()));
    assert_eq!(outcome.code, 1);
    assert!(outcome.err.contains("no Rollout"), "{}", outcome.err);
}
