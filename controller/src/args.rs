//! The command line: `run`, `manifests` and `uninstall`.
//!
//! Every flag has an environment variable, so that a Deployment may set either; the flag wins. Values are checked while they are
//! parsed, so that nothing past this module meets a namespace that is no DNS label or a webhook URL without a host.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use axum::http::Uri;
use clap::builder::NonEmptyStringValueParser;
use clap::{ArgAction, Args as Group, Parser, Subcommand, ValueEnum};
use kruise_rollout::area::Area;
use kruise_rollout::names;

use crate::certs::Lifetimes;

/// Progressive delivery for workloads that update by partition: the controller and its admission webhook.
#[derive(Debug, Parser)]
#[command(name = names::CONTROLLER, version, arg_required_else_help = true)]
pub(crate) struct Args {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The three things that this binary does.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the controller and its admission webhook until a signal ends them.
    Run(Run),
    /// Print everything to install as YAML, ready for `kubectl apply -f -`.
    Manifests(Manifests),
    /// Release every workload that is held and remove what the controller registered.
    Uninstall(Uninstall),
}

/// Flags of `run`.
#[derive(Clone, Debug, Group)]
pub(crate) struct Run {
    /// How to reach the cluster.
    #[command(flatten)]
    pub(crate) connect: Connect,
    /// Which part of the cluster is governed.
    #[command(flatten)]
    pub(crate) part: Part,
    /// Address that the admission webhook listens on (TLS).
    #[arg(
        long,
        env = "KRUISE_ROLLOUT_WEBHOOK_BIND",
        value_name = "ADDRESS",
        default_value = "0.0.0.0:9443"
    )]
    pub(crate) webhook_bind: SocketAddr,
    /// URL that the API server calls instead of the Service, for a controller outside the cluster.
    #[arg(long, env = "KRUISE_ROLLOUT_WEBHOOK_URL", value_name = "URL")]
    pub(crate) webhook_url: Option<WebhookUrl>,
    /// Directory with tls.crt, tls.key and ca.crt of the webhook, such as a mounted Secret of cert-manager; without it the
    /// controller makes its own certificates.
    #[arg(long, env = "KRUISE_ROLLOUT_TLS_DIR", value_name = "DIR")]
    pub(crate) tls_dir: Option<PathBuf>,
    /// Life of the controller's own certificates in seconds; their authority lives four times as long. For tests.
    #[arg(
        long,
        env = "KRUISE_ROLLOUT_CERTIFICATE_LIFE",
        value_name = "SECONDS",
        default_value_t = Lifetimes::LEAF.as_secs(),
        value_parser = clap::value_parser!(u64).range(3..=Lifetimes::LEAF.as_secs()),
        hide = true
    )]
    pub(crate) certificate_life: u64,
    /// Address that /metrics, /healthz and /readyz listen on (plain HTTP).
    #[arg(
        long,
        env = "KRUISE_ROLLOUT_ADMIN_BIND",
        value_name = "ADDRESS",
        default_value = "0.0.0.0:8080"
    )]
    pub(crate) admin_bind: SocketAddr,
    /// Take a lease before writing, so that of several replicas only one moves rollouts.
    #[arg(
        long,
        env = "KRUISE_ROLLOUT_LEADER_ELECT",
        value_name = "true|false",
        default_value = "true",
        action = ArgAction::Set,
        num_args = 0..=1,
        require_equals = false,
        default_missing_value = "true"
    )]
    pub(crate) leader_elect: bool,
    /// How the hold is kept.
    #[command(flatten)]
    pub(crate) hold: HoldSwitches,
    /// What may be done to pods.
    #[command(flatten)]
    pub(crate) pods: PodSwitches,
    /// What people may do.
    #[command(flatten)]
    pub(crate) people: PeopleSwitches,
    /// Rollouts that are worked on at the same time.
    #[arg(long, env = "KRUISE_ROLLOUT_WORKERS", value_name = "N", default_value = "4",
          value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) workers: u16,
    /// Format of the log on standard error.
    #[arg(
        long,
        env = "KRUISE_ROLLOUT_LOG_FORMAT",
        value_name = "FORMAT",
        default_value = "text"
    )]
    pub(crate) log_format: LogFormat,
}

/// How to reach the cluster, and where our own objects live in it.
#[derive(Clone, Debug, Group)]
pub(crate) struct Connect {
    /// Kubeconfig file; without it KUBECONFIG, ~/.kube/config or the pod's service account.
    #[arg(long, env = "KRUISE_ROLLOUT_KUBECONFIG", value_name = "PATH")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Namespace of the controller's own objects.
    #[arg(long, env = "KRUISE_ROLLOUT_NAMESPACE", default_value = names::DEFAULT_NAMESPACE, value_parser = namespace)]
    pub(crate) namespace: String,
}

/// Which part of the cluster is governed.
#[derive(Clone, Debug, Group)]
pub(crate) struct Part {
    /// Govern these namespaces only, separated by commas; without it, the whole cluster. Several controllers share a cluster if each is
    /// in a namespace of its own and governs other namespaces.
    #[arg(
        long,
        env = "KRUISE_ROLLOUT_WATCH_NAMESPACES",
        value_name = "NAMESPACE,…",
        value_delimiter = ',',
        value_parser = namespace
    )]
    pub(crate) watch_namespaces: Vec<String>,
}

impl Part {
    /// What the controller in the namespace `own` governs.
    ///
    /// # Errors
    /// The sentence for a person who has named a namespace in which nothing is governed.
    pub(crate) fn area(&self, own: &str) -> Result<Area, String> {
        Area::of(own, self.watch_namespaces.iter().cloned()).map_err(|name| {
            format!("--watch-namespaces: nothing is governed in the namespace {name}; leave it out")
        })
    }
}

/// What may be done to pods.
#[derive(Clone, Copy, Debug, Group)]
pub(crate) struct PodSwitches {
    /// Delete pods that stand in the way of a release: not ready, of a template that is neither the stable nor the wanted one, in a
    /// workload whose pods are managed in order. Otherwise the Rollout names them.
    #[arg(
        long,
        env = "KRUISE_ROLLOUT_REPLACE_STUCK_PODS",
        value_name = "true|false",
        default_value = "true",
        action = ArgAction::Set,
        num_args = 0..=1,
        require_equals = false,
        default_missing_value = "true"
    )]
    pub(crate) replace_stuck_pods: bool,
}

/// How the hold is kept.
#[derive(Clone, Copy, Debug, Group)]
pub(crate) struct HoldSwitches {
    /// Who holds: `auto`, the API server itself where it has mutating admission policies (1.36 and later), so that neither an outage
    /// of the webhook blocks an update nor one escapes; or `webhook`, the webhook alone.
    #[arg(
        long,
        env = "KRUISE_ROLLOUT_ADMISSION",
        value_name = "MODE",
        default_value = "auto"
    )]
    pub(crate) admission: Admission,
    /// Leave a workload held, as it is, when its Rollout is deleted in mid-release, instead of letting the rest of the release go. It
    /// goes on when a Rollout of that name is created again.
    #[arg(
        long,
        env = "KRUISE_ROLLOUT_KEEP_HELD_ON_DELETION",
        value_name = "true|false",
        default_value = "false",
        action = ArgAction::Set,
        num_args = 0..=1,
        require_equals = false,
        default_missing_value = "true"
    )]
    pub(crate) keep_held_on_deletion: bool,
}

/// Who holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Admission {
    /// The API server, by policies, where it can; else the webhook.
    Auto,
    /// The webhook alone.
    Webhook,
}

/// What people may do.
#[derive(Clone, Copy, Debug, Group)]
pub(crate) struct PeopleSwitches {
    /// Let those who may approve also jump to any step, by status.canaryStatus.nextStepIndex.
    #[arg(
        long,
        env = "KRUISE_ROLLOUT_APPROVERS_MAY_JUMP",
        value_name = "true|false",
        default_value = "false",
        action = ArgAction::Set,
        num_args = 0..=1,
        require_equals = false,
        default_missing_value = "true"
    )]
    pub(crate) approvers_may_jump: bool,
}

/// Flags of `manifests`.
#[derive(Debug, Group)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Manifests {
    /// Print some of them only.
    #[command(subcommand)]
    pub(crate) only: Option<Only>,
    /// Namespace to install into.
    #[arg(long, env = "KRUISE_ROLLOUT_NAMESPACE", default_value = names::DEFAULT_NAMESPACE, value_parser = namespace)]
    pub(crate) namespace: String,
    /// Image of the controller.
    #[arg(long, env = "KRUISE_ROLLOUT_IMAGE", default_value = DEFAULT_IMAGE, value_parser = NonEmptyStringValueParser::new())]
    pub(crate) image: String,
    /// Which part of the cluster the controller governs: the Deployment and the names of roles follow.
    #[command(flatten)]
    pub(crate) part: Part,
    /// How the controller keeps the hold: the Deployment follows.
    #[command(flatten)]
    pub(crate) hold: HoldSwitches,
    /// What the controller may do to pods: the Deployment and the rights follow.
    #[command(flatten)]
    pub(crate) pods: PodSwitches,
    /// What people may do: the Deployment follows.
    #[command(flatten)]
    pub(crate) people: PeopleSwitches,
}

/// Image without a registry, at the version of this binary.
const DEFAULT_IMAGE: &str = concat!("kruise-rollout-controller:", env!("CARGO_PKG_VERSION"));

/// Some of the manifests.
#[derive(Debug, Subcommand)]
pub(crate) enum Only {
    /// Print the CustomResourceDefinitions only.
    Crds,
}

/// Flags of `uninstall`.
#[derive(Debug, Group)]
pub(crate) struct Uninstall {
    /// How to reach the cluster.
    #[command(flatten)]
    pub(crate) connect: Connect,
    /// Which part of the cluster was governed.
    #[command(flatten)]
    pub(crate) part: Part,
    /// Name the workloads that would be released, and change nothing.
    #[arg(long, env = "KRUISE_ROLLOUT_DRY_RUN")]
    pub(crate) dry_run: bool,
}

/// Format of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// One line a record, for people.
    Text,
    /// One JSON object a line, for collectors.
    Json,
}

/// An `https` URL with a host, under which the API server reaches the webhook. It has no path: each webhook adds its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WebhookUrl {
    base: String,
    host: String,
}

impl WebhookUrl {
    /// The URL without a slash at its end.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// The host: a DNS name or an IP address, the latter without brackets.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }
}

impl FromStr for WebhookUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let uri: Uri = text.parse().map_err(|error| format!("not a URL: {error}"))?;
        if uri.scheme_str() != Some("https") {
            return Err("the API server calls webhooks by https only".to_owned());
        }
        if uri.query().is_some() || !matches!(uri.path(), "" | "/") {
            return Err("the URL must have no path and no query: each webhook adds its own".to_owned());
        }
        let authority = uri.authority().ok_or("the URL names no host")?;
        if authority.as_str().contains('@') {
            return Err("the URL must not contain a user".to_owned());
        }
        let host = authority
            .host()
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        if host.is_empty() {
            return Err("the URL names no host".to_owned());
        }
        Ok(Self {
            base: format!("https://{authority}"),
            host,
        })
    }
}

/// Checks a namespace name: a DNS label of at most 63 characters.
fn namespace(text: &str) -> Result<String, String> {
    if names::is_label(text) {
        Ok(text.to_owned())
    } else {
        Err("a namespace consists of at most 63 lower case letters, digits and inner hyphens".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    fn run(flags: &[&str]) -> Result<Run, clap::Error> {
        let line = [names::CONTROLLER, "run"].iter().chain(flags);
        match Args::try_parse_from(line)?.command {
            Command::Run(run) => Ok(run),
            other => panic!("parsed as {other:?}"),
        }
    }

    #[test]
    fn the_command_is_well_formed() {
        Args::command().debug_assert();
    }

    #[test]
    fn defaults_are_those_of_the_documentation() {
        let run = run(&[]).unwrap();
        assert_eq!(run.connect.namespace, "kruise-rollout");
        assert_eq!(run.webhook_bind.to_string(), "0.0.0.0:9443");
        assert_eq!(run.admin_bind.to_string(), "0.0.0.0:8080");
        assert!(run.leader_elect);
        assert!(run.pods.replace_stuck_pods);
        assert!(!run.people.approvers_may_jump && !run.hold.keep_held_on_deletion);
        assert_eq!(run.workers, 4);
        assert_eq!(run.log_format, LogFormat::Text);
        assert_eq!(run.webhook_url, None);
        assert_eq!(run.tls_dir, None);
    }

    #[test]
    fn namespaces_are_governed_where_anything_may_be() {
        let area = |flags: &[&str]| {
            let run = run(flags).map_err(|error| error.to_string())?;
            run.part.area(&run.connect.namespace)
        };
        assert!(area(&[]).unwrap().is_whole());
        let part = area(&["--watch-namespaces=shop,bar"]).unwrap();
        assert!(part.covers("shop") && part.covers("bar") && !part.covers("other"));
        for (flag, named) in [
            ("--watch-namespaces=shop,kruise-rollout", "kruise-rollout"),
            ("--watch-namespaces=kube-system", "kube-system"),
            ("--watch-namespaces=Shop", "Shop"),
            ("--watch-namespaces=", "--watch-namespaces"),
        ] {
            let refusal = area(&[flag]).unwrap_err();
            assert!(refusal.contains(named), "{flag}: {refusal}");
        }
    }

    #[test]
    fn switches_take_a_value_or_none() {
        assert!(
            !run(&["--replace-stuck-pods=false"])
                .unwrap()
                .pods
                .replace_stuck_pods
        );
        assert!(run(&["--replace-stuck-pods"]).unwrap().pods.replace_stuck_pods);
        assert!(run(&["--approvers-may-jump"]).unwrap().people.approvers_may_jump);
        assert!(
            !run(&["--approvers-may-jump", "false"])
                .unwrap()
                .people
                .approvers_may_jump
        );
        assert!(!run(&["--leader-elect", "false"]).unwrap().leader_elect);
        assert!(!run(&["--leader-elect=false"]).unwrap().leader_elect);
        assert!(run(&["--leader-elect"]).unwrap().leader_elect);
    }

    #[test]
    fn every_flag_has_an_environment_variable() {
        for command in Args::command().get_subcommands() {
            for flag in command
                .get_arguments()
                .filter(|flag| !matches!(flag.get_id().as_str(), "help" | "version"))
            {
                let env = flag.get_env().map(|env| env.to_string_lossy().into_owned());
                assert!(
                    env.is_some_and(|env| env.starts_with("KRUISE_ROLLOUT_")),
                    "{}",
                    flag.get_id()
                );
            }
        }
    }

    #[test]
    fn webhook_urls() {
        let url: WebhookUrl = "https://127.0.0.1:9443/".parse().unwrap();
        assert_eq!((url.base(), url.host()), ("https://127.0.0.1:9443", "127.0.0.1"));
        let url: WebhookUrl = "https://[::1]:9443".parse().unwrap();
        assert_eq!((url.base(), url.host()), ("https://[::1]:9443", "::1"));
        for bad in [
            "http://x",
            "https://x/mutate",
            "https://x?y",
            "x",
            "",
            "https://u@x",
            "https://",
        ] {
            assert!(bad.parse::<WebhookUrl>().is_err(), "{bad}");
        }
    }

    #[test]
    fn namespaces() {
        for good in ["a", "kruise-rollout", "0a"] {
            assert!(namespace(good).is_ok(), "{good}");
        }
        for bad in ["", "-a", "a-", "A", "a.b", "a/b", &"a".repeat(64)] {
            assert!(namespace(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn manifests_and_their_parts() {
        let parse = |line: &[&str]| match Args::try_parse_from(line)?.command {
            Command::Manifests(manifests) => Ok::<_, clap::Error>(manifests),
            other => panic!("parsed as {other:?}"),
        };
        let all = parse(&["x", "manifests", "--namespace", "ops", "--image", "r/i:1"]).unwrap();
        assert!(all.only.is_none());
        assert_eq!((all.namespace.as_str(), all.image.as_str()), ("ops", "r/i:1"));
        assert!(matches!(
            parse(&["x", "manifests", "crds"]).unwrap().only,
            Some(Only::Crds)
        ));
        assert!(parse(&["x", "manifests", "--image", ""]).is_err());
    }
}
