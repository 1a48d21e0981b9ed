//! What `manifests` prints, as an installation sees it.

use std::fs;
use std::process::Command;

use serde_json::Value;
use support::process::scratch;
use support::{Identity, build_binaries, installed};

use super::answer;

fn manifests(flags: &[&str]) -> String {
    let mut command = Command::new(&build_binaries().unwrap().controller);
    answer(command.arg("manifests").args(flags))
}

fn of_kind<'d>(documents: &'d [Value], kind: &'d str) -> impl Iterator<Item = &'d Value> {
    documents.iter().filter(move |document| document["kind"] == kind)
}

/// Accounts, subjects, roles and selectors of another namespace refer to what is there, and no right is wider than it has to be.
#[test]
fn r86_in_another_namespace_all_references_resolve() {
    let text = manifests(&["--namespace", "delivery-x"]);
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    let account = of_kind(&documents, "ServiceAccount").next().unwrap();
    let account = (&account["metadata"]["namespace"], &account["metadata"]["name"]);
    assert_eq!(account.0, "delivery-x");
    let mut bindings = 0;
    for (binding, role) in [("ClusterRoleBinding", "ClusterRole"), ("RoleBinding", "Role")] {
        for binding in of_kind(&documents, binding) {
            let subject = &binding["subjects"][0];
            assert_eq!((&subject["namespace"], &subject["name"]), account);
            let named = &binding["roleRef"]["name"];
            let place = &binding["metadata"]["namespace"];
            assert!(
                of_kind(&documents, role).any(|role| role["metadata"]["name"] == *named
                    && role["metadata"]["namespace"] == *place)
            );
            bindings += 1;
        }
    }
    assert_eq!(bindings, 2);
    let deployment = of_kind(&documents, "Deployment").next().unwrap();
    let template = &deployment["spec"]["template"];
    assert_eq!(template["spec"]["serviceAccountName"], *account.1);
    assert_eq!(
        template["spec"]["containers"][0]["args"][1],
        "--namespace=delivery-x"
    );
    let labels = &template["metadata"]["labels"];
    let service = of_kind(&documents, "Service").next().unwrap();
    assert_eq!(service["spec"]["selector"], *labels);
    for kind in ["PodDisruptionBudget", "NetworkPolicy"] {
        let found = of_kind(&documents, kind).next().unwrap();
        let selector = if kind == "NetworkPolicy" {
            "podSelector"
        } else {
            "selector"
        };
        assert_eq!(found["spec"][selector]["matchLabels"], *labels);
    }
    for rule in of_kind(&documents, "ClusterRole")
        .filter_map(|role| role["rules"].as_array())
        .flatten()
    {
        for resource in rule["resources"].as_array().unwrap() {
            assert!(
                !["secrets", "configmaps", "*"].contains(&resource.as_str().unwrap()),
                "{rule}"
            );
        }
    }
}

/// The API server stores what was printed, nothing less and nothing more: tools that compare see no difference for ever.
#[tokio::test]
async fn r87_what_is_applied_is_what_is_stored() {
    let installation = installed().await;
    let folder = scratch("diff").unwrap();
    let file = folder.join("all.yaml");
    fs::write(&file, manifests(&[])).unwrap();
    let kubectl = async |arguments: &[&str]| {
        let mut kubectl = installation.control_plane().kubectl(Identity::Admin);
        kubectl.args(arguments).output().await.unwrap()
    };
    let file = file.to_str().unwrap();
    let diff = kubectl(&["diff", "--server-side", "--force-conflicts", "-f", file]).await;
    let text = String::from_utf8_lossy(&diff.stdout);
    assert!(
        diff.status.success() && text.is_empty(),
        "{text}{}",
        String::from_utf8_lossy(&diff.stderr)
    );

    let crds = manifests(&["crds"]);
    let documents: Vec<Value> = serde_saphyr::from_multiple(&crds).unwrap();
    for crd in &documents {
        // Client-side apply keeps it in an annotation.
        assert!(crd.to_string().len() < 256 * 1024);
    }
    let explained = kubectl(&["explain", "rollout.spec.strategy.canary.steps"]).await;
    let text = String::from_utf8_lossy(&explained.stdout);
    for field in ["replicas", "pause"] {
        let line = text
            .lines()
            .position(|line| line.trim_start().starts_with(field))
            .unwrap();
        let next = text.lines().nth(line + 1).unwrap().trim();
        assert!(next.len() > 10 && !next.contains("no description"), "{text}");
    }
}
