use std::fs;
use std::path::PathBuf;

use super::*;

const FIRST: &str = "
contexts: [{name: a, context: {cluster: a, user: a, namespace: shop}}, {name: b, context: {cluster: b, user: a}}]
clusters: [{name: a, cluster: {server: 'https://a.example:6443', certificate-authority: /missing/ca.crt}}]
users: [{name: a, user: {token: one, as: root}}]
current-context: a
";

fn load(kubeconfig: &str, flags: &Connection) -> Result<Target, Error> {
    let kubeconfig = kubeconfig::applied(Kubeconfig::from_yaml(kubeconfig).unwrap(), flags)?;
    assembled(kubeconfig, &Environment::default(), Attendance::Usual).map_err(Error::Kubeconfig)
}

/// A folder of one test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("kubectl-kruise-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn flags_replace_single_values() {
    let flags = Connection {
        insecure_skip_tls_verify: true,
        token: Some("two".to_owned()),
        impersonate_group: vec!["ops".to_owned()],
        impersonate_user_extra: vec![
            ("team".to_owned(), "a".to_owned()),
            ("team".to_owned(), "b".to_owned()),
        ],
        tls_server_name: Some("api".to_owned()),
        ..Connection::default()
    };
    let config = load(FIRST, &flags).unwrap().config;
    assert_eq!(config.cluster_url, "https://a.example:6443/");
    assert_eq!(config.default_namespace, "shop");
    assert!(config.accept_invalid_certs && config.root_cert.is_none());
    assert_eq!(config.tls_server_name.as_deref(), Some("api"));
    let user = config.auth_info;
    assert_eq!(user.impersonate.as_deref(), Some("root"));
    assert_eq!(user.impersonate_groups, Some(vec!["ops".to_owned()]));
    assert_eq!(user.impersonate_user_extra.unwrap()["team"], ["a", "b"]);
}

#[test]
fn a_server_is_enough_without_any_kubeconfig() {
    let flags = Connection {
        server: Some("127.0.0.1:8001".to_owned()),
        ..Connection::default()
    };
    let config = load("{}", &flags).unwrap().config;
    assert_eq!(config.cluster_url, "http://127.0.0.1:8001/");
    assert_eq!(config.default_namespace, "default");
}

#[test]
fn a_context_that_is_not_there_is_named() {
    let flags = Connection {
        context: Some("prod".to_owned()),
        ..Connection::default()
    };
    let said = |kubeconfig: &str, flags: &Connection| load(kubeconfig, flags).err().unwrap().to_string();
    assert_eq!(said(FIRST, &flags), "the kubeconfig has no context \"prod\"");
    assert_eq!(
        said("{}", &Connection::default()),
        "the kubeconfig has no current-context"
    );
    let flags = Connection {
        context: Some("b".to_owned()),
        ..Connection::default()
    };
    assert_eq!(said(FIRST, &flags), "the kubeconfig has no cluster \"b\"");
}

#[test]
fn a_credential_on_the_command_line_counts_alone() {
    let kubeconfig = "
contexts: [{name: a, context: {cluster: a, user: a}}]
clusters: [{name: a, cluster: {server: 'https://a'}}]
users: [{name: a, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: ./helper}, tokenFile: /missing}}]
current-context: a
";
    assert!(matches!(
        load(kubeconfig, &Connection::default()).unwrap().source,
        Source::File(_)
    ));
    let flags = Connection {
        token: Some("t".to_owned()),
        ..Connection::default()
    };
    assert!(matches!(
        load(kubeconfig, &flags).unwrap().source,
        Source::Fixed(_)
    ));
}

#[test]
fn r78_kubeconfigs_that_kubectl_accepts() {
    let accepted = |kubeconfig: &str| load(kubeconfig, &Connection::default()).map(|target| target.config);
    let rest = "contexts: [{name: a, context: {cluster: a, user: a}}]\ncurrent-context: a\n";
    for (name, kubeconfig, url) in [
        (
            "a user without anything",
            "clusters: [{name: a, cluster: {server: 'https://a'}}]\nusers: [{name: a, user: null}]",
            "https://a/",
        ),
        (
            "no user at all",
            "clusters: [{name: a, cluster: {server: 'https://a'}}]\nusers: null",
            "https://a/",
        ),
        (
            "empty values",
            "clusters: [{name: a, cluster: {server: 'https://a', proxy-url: '', certificate-authority-data: '', tls-server-name: ''}}]\nusers: [{name: a, user: {tokenFile: '', client-certificate-data: ''}}]",
            "https://a/",
        ),
        (
            "unknown fields",
            "clusters: [{name: a, cluster: {server: 'https://a', odd: {a: 1}}}]\nusers: [{name: a, user: {odd: true}}]\npreferences: {}",
            "https://a/",
        ),
        (
            "an address",
            "clusters: [{name: a, cluster: {server: 'https://[fd00::1]:6443'}}]",
            "https://[fd00::1]:6443/",
        ),
        (
            "a path",
            "clusters: [{name: a, cluster: {server: 'https://rancher.example/k8s/clusters/c-1'}}]",
            "https://rancher.example/k8s/clusters/c-1",
        ),
        (
            "no scheme",
            "clusters: [{name: a, cluster: {server: 'a:6443', insecure-skip-tls-verify: true}}]",
            "https://a:6443/",
        ),
    ] {
        let config =
            accepted(&format!("{rest}{kubeconfig}")).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(config.cluster_url, url, "{name}");
        assert!(
            config.proxy_url.is_none() && config.tls_server_name.is_none(),
            "{name}"
        );
    }
}

#[test]
fn r78_what_is_malformed_is_named_by_its_field() {
    let rest = "contexts: [{name: a, context: {cluster: a, user: a}}]\ncurrent-context: a\n";
    for (cluster, says) in [
        ("{certificate-authority-data: '%%'}", "certificate-authority-data"),
        (
            "{server: 'https://a', certificate-authority-data: aGVsbG8=}",
            "certificate-authority-data: it holds no certificate",
        ),
        (
            "{server: 'https://a', certificate-authority: /missing/ca.crt}",
            "certificate-authority: ",
        ),
        ("{server: 'https://a b'}", "server \"https://a b\""),
        ("{server: 'https://a', proxy-url: 'ftp://b'}", "proxy-url"),
        ("{}", "cluster \"a\": it has no server"),
    ] {
        let cluster = cluster.replace("{certificate", "{server: 'https://a', certificate");
        let said = load(
            &format!("{rest}clusters: [{{name: a, cluster: {cluster}}}]"),
            &Connection::default(),
        );
        let said = said.err().unwrap().to_string();
        assert!(said.contains(says) && said.contains("cluster \"a\""), "{said}");
    }
}

#[tokio::test]
async fn r78_a_malformed_client_certificate_is_no_anonymous_call() {
    let kubeconfig = "contexts: [{name: a, context: {cluster: a, user: a}}]\ncurrent-context: a\nclusters: [{name: a, cluster: {server: 'https://a', insecure-skip-tls-verify: true}}]\nusers: [{name: a, user: {USER}}]";
    for user in [
        "client-certificate-data: aGVsbG8=, client-key-data: aGVsbG8=",
        "client-certificate-data: '%%', client-key-data: aGVsbG8=",
        "client-certificate-data: aGVsbG8=",
        "client-certificate: /missing.crt, client-key: /missing.key",
    ] {
        let target = load(&kubeconfig.replace("USER", user), &Connection::default()).unwrap();
        let opened = Session::open(target.config, target.source, Trace::default()).await;
        let said = chain(&opened.err().unwrap());
        assert!(
            said.contains("client") || said.contains("identity"),
            "{user}: {said}"
        );
    }
}

#[test]
fn the_first_of_several_files_wins_and_missing_ones_do_not_matter() {
    let folder = Folder::new("several");
    let one = folder.write("one", FIRST.replace("current-context: a", "current-context: ''"));
    let two = folder.write(
        "sub/two",
        "
clusters: [{name: a, cluster: {server: 'https://other.example'}}, {name: b, cluster: {server: 'https://b.example', certificate-authority: ca.crt}}]
users: [{name: b, user: {tokenFile: b.token, exec: {command: ./bin/helper}}}]
current-context: b
",
    );
    let merged = kubeconfig::merged(&[one, two]).unwrap().unwrap();
    assert_eq!(merged.current_context.as_deref(), Some("b"));
    let cluster = |name: &str| {
        let entry = merged.clusters.iter().find(|c| c.name == name).unwrap();
        entry.cluster.clone().unwrap()
    };
    assert_eq!(cluster("a").server.as_deref(), Some("https://a.example:6443"));
    assert_eq!(cluster("b").server.as_deref(), Some("https://b.example"));
    // Relative paths are relative to their own file.
    let inside = |path: &str| folder.0.join("sub").join(path).display().to_string();
    assert_eq!(cluster("b").certificate_authority, Some(inside("ca.crt")));
    let user = merged.auth_infos.iter().find(|user| user.name == "b").unwrap();
    let user = user.auth_info.clone().unwrap();
    assert_eq!(user.token_file, Some(inside("b.token")));
    assert_eq!(user.exec.unwrap().command, Some(inside("./bin/helper")));
    assert!(kubeconfig::merged(&[]).unwrap().is_none());
    // One that was named has to be there.
    let flags = Connection {
        kubeconfig: Some(folder.0.join("missing")),
        ..Connection::default()
    };
    assert!(kubeconfig::load(&flags).is_err());
}

#[test]
fn r78_a_file_that_powershell_has_written() {
    let folder = Folder::new("utf16");
    for big in [false, true] {
        let units = format!("\u{feff}{FIRST}");
        let bytes: Vec<u8> = units
            .encode_utf16()
            .flat_map(|unit| {
                if big {
                    unit.to_be_bytes()
                } else {
                    unit.to_le_bytes()
                }
            })
            .collect();
        let path = folder.write("config", bytes);
        let read = kubeconfig::merged(&[path]).unwrap().unwrap();
        assert_eq!(read.current_context.as_deref(), Some("a"));
    }
}

#[test]
fn in_a_pod_its_service_account_counts() {
    let folder = Folder::new("pod");
    folder.write("token", "abc\n");
    folder.write("namespace", "shop\n");
    let missing = in_pod("10.0.0.1", "443", &folder.0, &Connection::default());
    assert!(missing.err().unwrap().starts_with("certificate-authority: "));
    let flags = Connection {
        insecure_skip_tls_verify: true,
        ..Connection::default()
    };
    let target = in_pod("fd00::1", "443", &folder.0, &flags).unwrap();
    assert_eq!(target.config.cluster_url, "https://[fd00::1]:443/");
    assert_eq!(target.config.default_namespace, "shop");
    assert!(matches!(target.source, Source::File(path) if path == folder.0.join("token")));
    let flags = Connection {
        token: Some("mine".to_owned()),
        ..flags
    };
    assert!(matches!(
        in_pod("h", "1", &folder.0, &flags).unwrap().source,
        Source::Fixed(_)
    ));
}
