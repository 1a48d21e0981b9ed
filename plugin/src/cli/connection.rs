use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser as _};

use crate::duration::parse_duration;
use crate::ui::trace::Trace;

/// How to reach the API server; as kubectl has it.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Connection")]
pub(crate) struct Connection {
    /// Path to the kubeconfig file to use
    #[arg(long, global = true, value_name = "PATH", value_parser = OsStringValueParser::new().map(PathBuf::from))]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Name of the kubeconfig context to use
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Name of the kubeconfig cluster to use
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) cluster: Option<String>,
    /// Name of the kubeconfig user to use
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// Namespace of the request
    #[arg(short, long, global = true, value_name = "NAME", value_parser = namespace)]
    pub(crate) namespace: Option<String>,
    /// Address and port of the API server
    #[arg(short, long, global = true, value_name = "URL")]
    pub(crate) server: Option<String>,
    /// Bearer token for the API server
    #[arg(long, global = true, value_name = "TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// User to impersonate
    #[arg(long = "as", global = true, value_name = "USER")]
    pub(crate) impersonate: Option<String>,
    /// Group to impersonate; may be repeated
    #[arg(long = "as-group", global = true, value_name = "GROUP")]
    pub(crate) impersonate_group: Vec<String>,
    /// UID to impersonate
    #[arg(long = "as-uid", global = true, value_name = "UID")]
    pub(crate) impersonate_uid: Option<String>,
    /// Extra information about the impersonated user; may be repeated
    #[arg(long = "as-user-extra", global = true, value_name = "KEY=VALUE", value_parser = parse_pair)]
    pub(crate) impersonate_user_extra: Vec<(String, String)>,
    /// Path to a certificate of the authority that signed the server's certificate
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) certificate_authority: Option<String>,
    /// Path to a client certificate
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) client_certificate: Option<String>,
    /// Path to the key of the client certificate
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) client_key: Option<String>,
    /// Do not verify the server's certificate; this makes the connection insecure
    #[arg(long, global = true)]
    pub(crate) insecure_skip_tls_verify: bool,
    /// Name to expect in the server's certificate
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) tls_server_name: Option<String>,
    /// How long to wait for an answer to one request, such as 5s or 1m; 0 waits for ever
    #[arg(long, global = true, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    pub(crate) request_timeout: Duration,
    /// Say on stderr how the server is reached; twice: each request with its answer's code, never headers or tokens
    #[arg(short = 'v', global = true, action = clap::ArgAction::Count, help_heading = "Output")]
    pub(crate) verbose: u8,
    /// The same as a number: 1 or 2
    #[arg(long, global = true, value_name = "NUMBER", help_heading = "Output")]
    pub(crate) verbosity: Option<u8>,
}

impl Connection {
    /// `--namespace`, where it says anything.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.namespace
            .as_deref()
            .filter(|namespace| !namespace.is_empty())
    }

    /// Flags that are empty say nothing, as for kubectl: scripts write `--context "$CONTEXT"`.
    pub(crate) fn without_empty(mut self) -> Self {
        for flag in [
            &mut self.context,
            &mut self.cluster,
            &mut self.user,
            &mut self.namespace,
            &mut self.server,
            &mut self.token,
            &mut self.impersonate,
            &mut self.impersonate_uid,
            &mut self.certificate_authority,
            &mut self.client_certificate,
            &mut self.client_key,
            &mut self.tls_server_name,
        ] {
            flag.take_if(|text| text.is_empty());
        }
        self.kubeconfig.take_if(|path| path.as_os_str().is_empty());
        self
    }

    /// What is said on the way.
    pub(crate) fn trace(&self) -> Trace {
        Trace::new(self.verbosity.unwrap_or_default().max(self.verbose))
    }
}

/// As for kubectl, an empty one says nothing.
fn namespace(text: &str) -> Result<String, String> {
    if text.is_empty() {
        Ok(String::new())
    } else {
        crate::target::namespace(text)
    }
}

fn parse_pair(text: &str) -> Result<(String, String), String> {
    text.split_once('=')
        .filter(|(key, _)| !key.is_empty())
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .ok_or_else(|| format!("{text:?} is not KEY=VALUE"))
}
