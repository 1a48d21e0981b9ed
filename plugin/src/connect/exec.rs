//! Programs that hand out credentials (`exec` of a user in the kubeconfig).

use std::process::Stdio;

use jiff::Timestamp;
use kube::config::{Cluster, ExecAuthCluster, ExecConfig, ExecInteractiveMode};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::process::Command;

use super::chain;
use super::session::Credential;

/// How a program is told whom it serves.
const INFO: &str = "KUBERNETES_EXEC_INFO";

/// A program that hands out credentials.
#[derive(Clone, Debug)]
pub(super) struct Plugin {
    exec: ExecConfig,
    /// The cluster, for programs that ask for it.
    cluster: Option<Value>,
    /// Whether a person is there to answer it.
    attended: bool,
    /// Whether nobody is to see what it says.
    silent: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    kind: String,
    api_version: String,
    status: Option<Status>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
    expiration_timestamp: Option<String>,
}

impl Plugin {
    /// # Errors
    /// The program needs the cluster's certificates, and they cannot be read.
    pub(super) fn new(
        exec: ExecConfig,
        cluster: &Cluster,
        attended: bool,
        silent: bool,
    ) -> Result<Self, String> {
        let cluster = if exec.provide_cluster_info {
            let info = ExecAuthCluster::try_from(cluster).map_err(|error| chain(&error))?;
            Some(serde_json::to_value(info).map_err(|error| error.to_string())?)
        } else {
            None
        };
        Ok(Self {
            exec,
            cluster,
            attended,
            silent,
        })
    }

    /// Runs it. What it says on stderr is seen by the caller.
    ///
    /// # Errors
    /// It cannot be run, fails, or answers something else.
    pub(super) async fn run(&self) -> Result<Credential, String> {
        let name = self.exec.command.as_deref().unwrap_or_default();
        let interactive = match self.exec.interactive_mode {
            Some(ExecInteractiveMode::Never) => false,
            Some(ExecInteractiveMode::Always) if !self.attended => {
                return Err(format!(
                    "the credential plugin {name} needs a terminal, and standard input is none"
                ));
            }
            _ => self.attended,
        };
        let failed = |error| self.not_run(name, &error);
        let child = self.command(name, interactive).spawn().map_err(failed)?;
        let output = child.wait_with_output().await.map_err(failed)?;
        if !output.status.success() {
            return Err(format!("the credential plugin {name} failed: {}", output.status));
        }
        self.read(name, &output.stdout)
    }

    fn command(&self, name: &str, interactive: bool) -> Command {
        let mut spec = json!({ "interactive": interactive });
        if let Some(cluster) = &self.cluster {
            spec["cluster"] = cluster.clone();
        }
        let info = json!({"kind": "ExecCredential", "apiVersion": self.exec.api_version, "spec": spec});
        let mut command = Command::new(name);
        command
            .args(self.exec.args.iter().flatten())
            .env(INFO, info.to_string())
            .stdout(Stdio::piped())
            .stdin(if interactive {
                Stdio::inherit()
            } else {
                Stdio::null()
            })
            .stderr(if self.silent {
                Stdio::null()
            } else {
                Stdio::inherit()
            })
            .kill_on_drop(true);
        for variable in self.exec.env.iter().flatten() {
            if let (Some(name), Some(value)) = (variable.get("name"), variable.get("value")) {
                command.env(name, value);
            }
        }
        command
    }

    fn not_run(&self, name: &str, error: &std::io::Error) -> String {
        let hint = self.exec.install_hint.as_deref().unwrap_or_default().trim();
        let hint = if hint.is_empty() {
            String::new()
        } else {
            format!("\n{hint}")
        };
        format!("the credential plugin {name:?} cannot be run: {error}{hint}")
    }

    fn read(&self, name: &str, text: &[u8]) -> Result<Credential, String> {
        let wrong = |what: &str| format!("the credential plugin {name} answered {what}");
        // JSON is YAML, and some print the latter.
        let answer: Answer =
            serde_saphyr::from_slice(text).map_err(|_| wrong("something that is no ExecCredential"))?;
        let expected = self.exec.api_version.as_deref().unwrap_or_default();
        if answer.kind != "ExecCredential" || answer.api_version != expected {
            return Err(wrong(&format!(
                "{} of {:?}; the kubeconfig says ExecCredential of {expected:?}",
                answer.kind, answer.api_version
            )));
        }
        let status = answer.status.ok_or_else(|| wrong("without a status"))?;
        let identity = match (status.client_certificate_data, status.client_key_data) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => {
                return Err(wrong(
                    "a certificate without its key, or a key without its certificate",
                ));
            }
        };
        if status.token.is_none() && identity.is_none() {
            return Err(wrong("neither a token nor a certificate"));
        }
        let until = status
            .expiration_timestamp
            .map(|text| text.parse::<Timestamp>())
            .transpose()
            .map_err(|error| wrong(&format!("a malformed expirationTimestamp: {error}")))?;
        Credential::new(status.token.as_deref(), identity, until)
            .ok_or_else(|| wrong("a token that cannot be sent"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plugin() -> Plugin {
        let exec = ExecConfig {
            command: Some("helper".to_owned()),
            api_version: Some("client.authentication.k8s.io/v1".to_owned()),
            ..ExecConfig::default()
        };
        Plugin::new(exec, &Cluster::default(), false, false).unwrap()
    }

    #[test]
    fn r76_what_a_credential_plugin_may_answer() {
        let head = "kind: ExecCredential\napiVersion: client.authentication.k8s.io/v1\nstatus:\n  ";
        let read = |text: &str| plugin().read("helper", text.as_bytes());
        let yaml = read(&format!(
            "{head}token: abc\n  expirationTimestamp: 2026-01-01T00:00:00Z\n"
        ))
        .unwrap();
        assert_eq!(yaml.until, Some("2026-01-01T00:00:00Z".parse().unwrap()));
        let json = r#"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"clientCertificateData":"c","clientKeyData":"k","token":"t"}}"#;
        let both = read(json).unwrap();
        assert_eq!(both.identity, Some(("c".to_owned(), "k".to_owned())));
        assert!(both.bearer.is_some());
        for (text, says) in [
            (String::new(), "no ExecCredential"),
            ("hello".to_owned(), "no ExecCredential"),
            (
                json.replace("/v1", "/v1beta1"),
                "client.authentication.k8s.io/v1beta1",
            ),
            (
                format!("{head}clientKeyData: k\n"),
                "a key without its certificate",
            ),
            (
                format!("{head}expirationTimestamp: 2026-01-01T00:00:00Z\n"),
                "neither a token",
            ),
            (
                format!("{head}token: abc\n  expirationTimestamp: soon\n"),
                "expirationTimestamp",
            ),
        ] {
            let said = read(&text).unwrap_err();
            assert!(said.contains(says) && !said.contains("abc"), "{said}");
        }
    }

    #[tokio::test]
    async fn r76_a_credential_plugin_that_is_missing_is_named_with_its_hint() {
        let mut plugin = plugin();
        plugin.exec.command = Some("/nonexistent/helper".to_owned());
        plugin.exec.install_hint = Some("brew install helper".to_owned());
        let said = plugin.run().await.unwrap_err();
        assert!(
            said.contains("\"/nonexistent/helper\" cannot be run") && said.ends_with("\nbrew install helper"),
            "{said}"
        );
        plugin.exec.interactive_mode = Some(ExecInteractiveMode::Always);
        assert!(plugin.run().await.unwrap_err().contains("needs a terminal"));
    }
}
