//! Programs that hand out credentials.

use std::process::Stdio;

use serde_json::json;
use support::{Identity, eventually};

use super::{Site, exec, said, saw};
use crate::scene::{ROLLOUT, SOON};

const HEAD: &str = r#""kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1""#;

fn answer(status: &str) -> String {
    format!("cat <<'END'\n{{{HEAD},\"status\":{{{status}}}}}\nEND")
}

#[tokio::test]
async fn r76_credential_plugins_answer_in_all_forms() {
    let site = Site::new("exec").await;
    let (certificate, key) = site.scene.namespace.control_plane().client_certificate().unwrap();
    let pair = format!(
        "\"clientCertificateData\":{},\"clientKeyData\":{}",
        json!(certificate),
        json!(key)
    );
    let token = r#""token":"token-of-viewer""#;
    let yaml = "cat <<'END'\nkind: ExecCredential\napiVersion: client.authentication.k8s.io/v1\nstatus:\n  token: token-of-viewer\nEND";
    let past = r#""expirationTimestamp":"2020-01-01T00:00:00Z""#;
    for (name, body, works, says) in [
        ("token", answer(token), true, ""),
        ("certificate", answer(&pair), true, ""),
        ("both", answer(&format!("{token},{pair}")), true, ""),
        ("yaml", yaml.to_owned(), true, ""),
        ("expired", answer(&format!("{token},{past}")), true, ""),
        ("expired certificate", answer(&format!("{pair},{past}")), true, ""),
        (
            "talkative",
            format!("echo 'log in at https://idp' >&2\n{}", answer(token)),
            true,
            "log in at https://idp",
        ),
        (
            "failing",
            "echo 'your session is over' >&2\nexit 3".to_owned(),
            false,
            "your session is over",
        ),
        ("mute", "true".to_owned(), false, "no ExecCredential"),
        (
            "stranger",
            answer(r#""token":"nobody-knows-me""#),
            false,
            "you must be logged in to the server",
        ),
        (
            "half",
            answer(r#""clientKeyData":"x""#),
            false,
            "a key without its certificate",
        ),
    ] {
        let script = site.script(&name.replace(' ', "-"), &body);
        let kubeconfig = site.kubeconfig("exec", Identity::Viewer, |_, user| *user = exec(&script));
        let ours = site.as_kubectl(&kubeconfig, &[]).await;
        assert_eq!(saw(&ours), works, "{name}: {ours:?}");
        assert!(ours.talk.contains(says), "{name}: {ours:?}");
        assert!(!ours.talk.contains("token-of"), "{name}: {ours:?}");
        if !works {
            assert!(
                ours.code == 1 && !ours.talk.contains("anonymous"),
                "{name}: {ours:?}"
            );
        }
    }
}

#[tokio::test]
async fn r76_a_credential_plugin_is_told_what_it_needs() {
    let site = Site::new("exec-info").await;
    let told = site.folder.join("told");
    let body = format!(
        "printf '%s|%s|%s' \"$KUBERNETES_EXEC_INFO\" \"$MORE\" \"$1\" > {}\n{}",
        told.display(),
        answer(r#""token":"token-of-viewer""#)
    );
    let script = site.script("helper", &body);
    let server = site.server().await;
    for (mode, informed) in [("Never", true), ("IfAvailable", false)] {
        let kubeconfig = site.kubeconfig("exec", Identity::Viewer, |_, user| {
            *user = exec(&script);
            // Relative to the kubeconfig, wherever the program is called.
            user["exec"]["command"] = json!("./helper");
            user["exec"]["args"] = json!(["first"]);
            user["exec"]["env"] = json!([{"name": "MORE", "value": "yes"}]);
            user["exec"]["interactiveMode"] = json!(mode);
            user["exec"]["provideClusterInfo"] = json!(informed);
        });
        assert!(saw(&said(site.look(&kubeconfig).current_dir("/")).await));
        let text = std::fs::read_to_string(&told).unwrap();
        let mut parts = text.split('|');
        let info: serde_json::Value = serde_json::from_str(parts.next().unwrap()).unwrap();
        assert_eq!((parts.next(), parts.next()), (Some("yes"), Some("first")));
        assert_eq!(info["spec"]["interactive"], false, "nobody is at a terminal");
        let cluster = &info["spec"]["cluster"];
        assert_eq!(cluster.is_object(), informed, "{info:#}");
        if informed {
            assert_eq!(cluster["server"], json!(server));
            assert!(cluster["certificate-authority-data"].as_str().unwrap().len() > 100);
        }
    }
    let kubeconfig = site.kubeconfig("exec", Identity::Viewer, |_, user| {
        *user = exec(&script);
        user["exec"]["interactiveMode"] = json!("Always");
    });
    let unattended = site.as_kubectl(&kubeconfig, &[]).await;
    assert!(
        unattended.code == 1 && unattended.talk.contains("needs a terminal"),
        "{unattended:?}"
    );
}

#[tokio::test]
async fn r76_credentials_are_renewed_while_a_release_is_followed() {
    let site = Site::new("exec-renew").await;
    let calls = site.folder.join("calls");
    let body = format!(
        "echo call >> {}\n{}",
        calls.display(),
        answer(r#""token":"token-of-viewer","expirationTimestamp":"2020-01-01T00:00:00Z""#)
    );
    let script = site.script("helper", &body);
    let kubeconfig = site.kubeconfig("exec", Identity::Viewer, |_, user| *user = exec(&script));
    let mut watch = site.plugin(&kubeconfig, &["rollout", "status", ROLLOUT, "--timeout=10m"]);
    let child = watch
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // One for each request: the look, then the watches.
    eventually(SOON, "the program is asked again", async || {
        let calls = std::fs::read_to_string(&calls)
            .unwrap_or_default()
            .lines()
            .count();
        if calls >= 3 {
            Ok(())
        } else {
            Err(calls.to_string())
        }
    })
    .await;
    site.scene.delete_rollout().await;
    let output = child.wait_with_output().await.unwrap();
    let talk = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.code() == Some(1) && talk.contains("was deleted"),
        "{talk}"
    );
}
