//! Tokens in files, of OpenID Connect and of the command line; impersonation.

use std::process::Stdio;

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::{Api, PostParams};
use serde_json::json;
use support::proxy::{Fault, Interruption};
use support::{Identity, Proxy};

use super::{Site, said, saw};
use crate::scene::ROLLOUT;

#[tokio::test]
async fn a_token_file_is_read_again_when_the_server_does_not_accept_its_token_any_more() {
    let site = Site::new("token-file").await;
    let control_plane = site.scene.namespace.control_plane();
    let proxy = Proxy::start(control_plane).await.unwrap();
    let token = site.write("token", "token-of-viewer\n");
    let kubeconfig = proxy.kubeconfig_with_token_file(&token).unwrap();
    let namespace = site.scene.namespace.name().to_owned();
    let watch = ["rollout", "status", ROLLOUT, "-n", &namespace, "--timeout=60s"];
    let mut watch = site.plugin(&kubeconfig, &watch);
    let opened = proxy.rule(|request| {
        // Counts only: nothing is done with it.
        (request.is_watch() && request.is_of("rollouts")).then_some(Fault::Hold(support::proxy::Side::Before))
    });
    let child = watch
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    opened.reached(1).await;
    opened.release();

    // The token is replaced, the old one is not accepted any more, and the watch breaks.
    site.write("token", "token-of-developer");
    let expired = proxy.fault(Fault::Answer(401), |request| request.token == "token-of-viewer");
    proxy.interrupt(Interruption::Cut, |request| request.is_watch());
    expired.reached(1).await;
    let renewed = proxy.rule(|request| {
        (request.token == "token-of-developer" && request.is_watch())
            .then_some(Fault::Hold(support::proxy::Side::Before))
    });
    renewed.reached(1).await;
    renewed.release();
    site.scene.delete_rollout().await;
    let output = child.wait_with_output().await.unwrap();
    let talk = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.code() == Some(1) && talk.contains("was deleted"),
        "{talk}"
    );

    for (text, says) in [("", "it is empty"), ("two\nlines", "it holds no token")] {
        site.write("token", text);
        let refused = said(&mut site.look(&kubeconfig)).await;
        assert!(refused.code == 1 && refused.talk.contains(says), "{refused:?}");
    }
    std::fs::remove_file(&token).unwrap();
    let missing = said(&mut site.look(&kubeconfig)).await;
    assert!(
        missing.code == 1 && missing.talk.contains(&token.display().to_string()),
        "{missing:?}"
    );
}

/// The token of a ServiceAccount that may do everything in the namespace: a JWT with an expiry, as providers of OpenID Connect issue.
async fn issued(site: &Site) -> String {
    let (client, namespace) = (site.scene.admin.clone(), site.scene.namespace.name());
    let params = PostParams::default();
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let account: ServiceAccount = serde_json::from_value(json!({"metadata": {"name": "person"}})).unwrap();
    accounts.create(&params, &account).await.unwrap();
    let binding: RoleBinding = serde_json::from_value(json!({"metadata": {"name": "person"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "person", "namespace": namespace}]}))
    .unwrap();
    Api::namespaced(client, namespace)
        .create(&params, &binding)
        .await
        .unwrap();
    let request = TokenRequest {
        spec: TokenRequestSpec {
            audiences: vec!["https://kubernetes.default.svc".to_owned()],
            ..TokenRequestSpec::default()
        },
        ..TokenRequest::default()
    };
    let answer = accounts
        .create_token_request("person", &params, &request)
        .await
        .unwrap();
    answer.status.unwrap().token
}

#[tokio::test]
async fn an_id_token_of_openid_connect_is_shown_until_it_expires() {
    let site = Site::new("oidc").await;
    let token = issued(&site).await;
    let provider = |token: &str| {
        json!({"auth-provider": {"name": "oidc", "config": {"id-token": token,
        "client-id": "kubernetes", "idp-issuer-url": "https://127.0.0.1:1"}}})
    };
    let valid = site.kubeconfig("valid", Identity::Viewer, |_, user| *user = provider(&token));
    assert!(saw(&site.as_kubectl(&valid, &[]).await));
    // {"exp":1}
    let over = site.kubeconfig("over", Identity::Viewer, |_, user| {
        *user = provider("e30.eyJleHAiOjF9.x")
    });
    let refused = site.as_kubectl(&over, &[]).await;
    assert!(
        refused.code == 1 && refused.talk.contains("ID token expired"),
        "{refused:?}"
    );
}

#[tokio::test]
async fn somebody_else_is_impersonated() {
    let site = Site::new("as").await;
    let admin = site.kubeconfig("admin", Identity::Admin, |_, _| {});
    let look = |flags: &[&str]| {
        let mut command = site.look(&admin);
        command.args(flags);
        command
    };
    let nobody = said(&mut look(&["--as", "nobody"])).await;
    assert!(
        nobody.code == 1 && nobody.talk.contains("\"nobody\""),
        "{nobody:?}"
    );
    assert!(saw(&said(&mut look(&[
        "--as",
        "viewer",
        "--as-group",
        "others",
        "--as-group",
        "viewer"
    ]))
    .await));
    let all = [
        "--as",
        "viewer",
        "--as-group=viewer",
        "--as-uid",
        "7",
        "--as-user-extra",
        "reason=audit",
    ];
    assert!(saw(&said(&mut look(&all)).await));
    // The server refuses these without a name, as the flags reach it.
    let unnamed = said(&mut look(&["--as-user-extra", "reason=audit"])).await;
    assert!(unnamed.code == 1 && !saw(&unnamed), "{unnamed:?}");
    let written = site.kubeconfig("as", Identity::Admin, |_, user| user["as"] = json!("nobody"));
    assert!(!saw(&site.as_kubectl(&written, &[]).await));
}

#[tokio::test]
async fn a_token_of_the_command_line_counts_alone() {
    let site = Site::new("token").await;
    let kubeconfig = site.kubeconfig("broken", Identity::Viewer, |_, user| {
        *user = json!({"tokenFile": "/missing"})
    });
    assert!(!saw(&said(&mut site.look(&kubeconfig)).await));
    assert!(saw(&said(
        site.look(&kubeconfig).args(["--token", "token-of-viewer"])
    )
    .await));
    let wrong = said(site.look(&kubeconfig).args(["--token", "wrong"])).await;
    assert!(
        wrong.code == 1 && wrong.talk.contains("you must be logged in to the server"),
        "{wrong:?}"
    );
    let refused = said(site.look(&kubeconfig).args(["--token", "two\nlines"])).await;
    assert!(refused.code == 1 && !refused.talk.contains("two"), "{refused:?}");
}
