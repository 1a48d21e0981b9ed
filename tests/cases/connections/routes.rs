//! Proxies, names of servers, kubeconfig files, namespaces.

use serde_json::{Value, json};
use support::{Identity, Tunnel};

use super::{Site, bare, said, saw};
use crate::scene::ROLLOUT;

/// A name of the API server that is in its certificate, and that nobody here can resolve.
const NAME: &str = "kubernetes.default.svc";

async fn by_name(site: &Site, cluster: &mut Value) {
    let server = site.server().await;
    let port = server.rsplit(':').next().unwrap();
    cluster["server"] = json!(format!("https://{NAME}:{port}"));
}

#[tokio::test]
async fn r77_proxies_are_used_as_kubectl_uses_them() {
    let site = Site::new("proxies").await;
    let tunnel = Tunnel::start(site.scene.namespace.control_plane()).await.unwrap();
    let mut named = Value::Null;
    by_name(&site, &mut named).await;
    let target = named["server"]
        .as_str()
        .unwrap()
        .trim_start_matches("https://")
        .to_owned();
    let server = |name: &str, proxy: Option<String>| {
        site.kubeconfig(name, Identity::Viewer, |cluster, _| {
            cluster["server"] = named["server"].clone();
            if let Some(proxy) = proxy {
                cluster["proxy-url"] = json!(proxy);
            }
        })
    };
    let address = tunnel.address();
    let (http, socks) = (format!("http://{address}"), format!("socks5://{address}"));
    let secret = format!("http://me:p%40ss@{address}");
    let plain = server("plain", None);

    // From the environment.
    for (name, proxy, exempt, through) in [
        ("HTTPS_PROXY", http.as_str(), "", true),
        ("https_proxy", &http, "", true),
        ("HTTPS_PROXY", address, "other.example", true),
        ("HTTPS_PROXY", &secret, ",,", true),
        ("HTTPS_PROXY", &socks, "", true),
        ("HTTPS_PROXY", &http, ".svc", false),
        ("HTTPS_PROXY", &http, NAME, false),
        ("HTTPS_PROXY", &http, "*", false),
        ("HTTP_PROXY", &http, "", false),
    ] {
        tunnel.take_asked();
        let ours = said(site.look(&plain).env(name, proxy).env("NO_PROXY", exempt)).await;
        let asked = tunnel.take_asked();
        assert_eq!(saw(&ours), through, "{name}={proxy} NO_PROXY={exempt}: {ours:?}");
        assert_eq!(
            asked.iter().any(|asked| asked.contains(&target)),
            through,
            "{asked:?}"
        );
        let theirs = site
            .as_kubectl(&plain, &[(name, proxy), ("NO_PROXY", exempt)])
            .await;
        assert_eq!(saw(&theirs), through);
        if !through {
            assert!(
                ours.talk.contains("unable to connect to the server"),
                "{}",
                ours.talk
            );
        }
        if proxy == secret {
            assert!(asked[0].ends_with(" Basic bWU6cEBzcw=="), "{asked:?}");
        }
    }

    // From the kubeconfig: always, whatever the environment says.
    for proxy in [&http, &socks] {
        let kubeconfig = server("own", Some(proxy.clone()));
        let environment = [("HTTPS_PROXY", "http://127.0.0.1:1"), ("NO_PROXY", "*")];
        assert!(saw(&site.as_kubectl(&kubeconfig, &environment).await), "{proxy}");
    }

    // This machine is reached directly, also where the proxy is not there.
    let local = site.kubeconfig("local", Identity::Viewer, |_, _| {});
    let dead = [
        ("HTTPS_PROXY", "http://127.0.0.1:1"),
        ("HTTP_PROXY", "nonsense"),
        ("NO_PROXY", "["),
    ];
    assert!(saw(&site.as_kubectl(&local, &dead).await));

    // What is said on the way names the proxy, and no password.
    let told = said(site.look(&plain).arg("-vv").env("HTTPS_PROXY", &secret)).await;
    assert!(
        told.talk.contains(&format!("through the proxy {address}\n")),
        "{}",
        told.talk
    );
    assert!(
        told.talk.contains(&format!("GET https://{target}/apis/")),
        "{}",
        told.talk
    );
    assert!(
        told.talk.contains(" 200 in ") && !told.talk.contains("p%40ss"),
        "{}",
        told.talk
    );
    assert!(!told.talk.contains("token-of"), "{}", told.talk);
}

#[tokio::test]
async fn the_name_in_the_certificate_is_checked_unless_told_otherwise() {
    let site = Site::new("names").await;
    let kubeconfig = site.kubeconfig("plain", Identity::Viewer, |_, _| {});
    let with = |flags: &[&str]| {
        let mut command = site.look(&kubeconfig);
        command.args(flags);
        command
    };
    assert!(saw(&said(&mut with(&["--tls-server-name", NAME])).await));
    let other = said(&mut with(&["--tls-server-name", "other.example"])).await;
    assert!(
        other.code == 1 && other.talk.contains("other.example"),
        "{other:?}"
    );
    assert!(saw(&said(&mut with(&[
        "--tls-server-name",
        "other.example",
        "--insecure-skip-tls-verify"
    ]))
    .await));
    let named = site.kubeconfig("named", Identity::Viewer, |cluster, _| {
        cluster["tls-server-name"] = json!("other.example")
    });
    assert!(!saw(&site.as_kubectl(&named, &[]).await));
    // Without its authority the server is a stranger.
    let stranger = site.kubeconfig("stranger", Identity::Viewer, |cluster, _| {
        cluster.as_object_mut().unwrap().remove("certificate-authority");
    });
    let refused = site.as_kubectl(&stranger, &[]).await;
    assert!(
        refused.code == 1 && refused.talk.to_lowercase().contains("certificate"),
        "{refused:?}"
    );
}

#[tokio::test]
async fn several_kubeconfigs_are_one() {
    let site = Site::new("merged").await;
    let whole = site.kubeconfig("whole", Identity::Viewer, |_, _| {});
    let parts: Value = serde_json::from_str(&std::fs::read_to_string(&whole).unwrap()).unwrap();
    // The authority by a path that is relative to its file.
    let mut clusters = parts["clusters"].clone();
    let authority = clusters[0]["cluster"]["certificate-authority"]
        .as_str()
        .unwrap()
        .to_owned();
    std::fs::create_dir_all(site.folder.join("sub")).unwrap();
    std::fs::copy(authority, site.folder.join("sub/ca.crt")).unwrap();
    clusters[0]["cluster"]["certificate-authority"] = json!("ca.crt");
    let first = site.write("first", &json!({"contexts": parts["contexts"], "current-context": parts["current-context"], "clusters": null}).to_string());
    let second = site.write(
        "sub/second",
        &json!({"clusters": clusters, "current-context": "other"}).to_string(),
    );
    let third = site.write("third", &json!({"users": parts["users"], "clusters": [{"name": "local", "cluster": {"server": "https://127.0.0.1:1"}}]}).to_string());
    let list = std::env::join_paths([site.folder.join("missing"), first, "".into(), second, third]).unwrap();
    assert!(saw(&site.as_kubectl(std::path::Path::new(&list), &[]).await));
    let missing = site.folder.join("missing");
    let none = said(&mut site.look(&missing)).await;
    assert!(
        none.code == 1 && none.talk.contains("no kubeconfig was found"),
        "{none:?}"
    );
    let named = said(
        site.look(&whole)
            .args(["--kubeconfig", &missing.display().to_string()]),
    )
    .await;
    assert!(named.code == 1 && named.talk.contains("missing"), "{named:?}");
}

#[tokio::test]
async fn r67_the_flag_goes_before_the_context_and_the_context_before_default() {
    let site = Site::new("namespaces").await;
    let here = site.scene.namespace.name();
    let ours = site.kubeconfig("here", Identity::Admin, |_, _| {});
    let nowhere = site.scene.namespace.control_plane().kubeconfig(Identity::Admin);
    assert!(saw(&said(&mut site.look(&ours)).await));
    assert!(saw(&said(site.look(&nowhere).args(["-n", here])).await));
    for (kubeconfig, flags, place) in [
        (&nowhere, &[][..], "default"),
        (&ours, &["-n", "elsewhere"], "elsewhere"),
    ] {
        for verb in ["status", "approve", "undo"] {
            let missing = said(site.plugin(kubeconfig, &["rollout", verb, ROLLOUT]).args(flags)).await;
            let says = format!("{ROLLOUT:?} not found in namespace {place}");
            assert!(missing.code == 1 && missing.talk.contains(&says), "{missing:?}");
        }
    }
    // In front of a slash stands a type, and there is none of that name.
    let both = said(&mut site.plugin(&ours, &["rollout", "status", &format!("{ROLLOUT}/{here}")])).await;
    assert!(
        both.code == 1 && both.talk.contains("write TYPE.GROUP/NAME"),
        "{both:?}"
    );
}

#[tokio::test]
async fn a_short_request_timeout_cuts_no_watch() {
    let site = Site::new("timeouts").await;
    let kubeconfig = site.kubeconfig("viewer", Identity::Viewer, |_, _| {});
    // Nothing happens for longer than one request may take.
    let watched = [
        "rollout",
        "status",
        ROLLOUT,
        "--timeout=3s",
        "--request-timeout=1s",
        "-vv",
    ];
    let watched = said(&mut site.plugin(&kubeconfig, &watched)).await;
    assert_eq!(watched.code, 4, "{watched:?}");
    let opened = watched.talk.matches("rollouts?&watch=true").count()
        + watched.talk.matches("rollouts?watch=true").count();
    assert_eq!(opened, 1, "{}", watched.talk);

    // One request, against a server that says nothing.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("http://{}", silent.local_addr().unwrap());
    let program = &support::build_binaries().unwrap().plugin;
    let arguments = [
        "rollout",
        "status",
        ROLLOUT,
        "--server",
        &server,
        "--request-timeout=200ms",
    ];
    let unanswered = said(&mut bare(program, &kubeconfig, &arguments)).await;
    assert!(
        unanswered.code == 1
            && unanswered
                .talk
                .contains("no answer within 0.2 s (--request-timeout)"),
        "{unanswered:?}"
    );
}
