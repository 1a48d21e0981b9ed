//! What can go wrong, how it is said, and the exit code of it.

use kruise_rollout::intent::Refusal;
use kube::core::Status;

use crate::ui::Ui;

/// A command that did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A word that the parser could not judge.
    #[error("{0}")]
    Usage(String),
    /// The kubeconfig cannot be used.
    #[error("{0}")]
    Kubeconfig(String),
    /// The API server answered with a failure.
    #[error("Error from server ({}): {}", reason(.0), .0.message)]
    Server(Box<Status>),
    /// The credentials are not accepted.
    #[error("you must be logged in to the server ({0})")]
    Unauthorized(String),
    /// There are no credentials to show.
    #[error("{0}")]
    Credentials(String),
    /// Rollouts are served, in versions that are not known here.
    #[error(
        "the server has Rollouts in {}, and this plugin knows {} and {}",
        .0.join(" and "),
        kruise_rollout::names::VERSION,
        kruise_rollout::api::v1alpha1::VERSION
    )]
    OtherVersions(Vec<String>),
    /// No answer from the API server.
    #[error("unable to connect to the server {server}: {cause}")]
    Unreachable {
        /// Its address.
        server: String,
        /// What went wrong.
        cause: String,
    },
    /// No such object.
    #[error("Error from server (NotFound): {resource} {name:?} not found in namespace {namespace}")]
    NotFound {
        /// Plural and group.
        resource: String,
        /// Name of the object.
        name: String,
        /// Namespace that was looked in.
        namespace: String,
        /// Names that are close to it.
        close: Vec<String>,
    },
    /// No Rollout names this workload.
    #[error("no Rollout in namespace {namespace} references {workload}")]
    NoRollout {
        /// Kind, group and name.
        workload: String,
        /// Namespace that was looked in.
        namespace: String,
        /// Workloads that may have been meant.
        close: Vec<String>,
    },
    /// `--fail-if-empty`, with where was looked.
    #[error("no rollouts found {0}")]
    NoneFound(String),
    /// A list that went out in part.
    #[error("the list is not complete, it ends after {printed}: {cause}")]
    Incomplete {
        /// Rollouts that were printed.
        printed: usize,
        /// Why there are no more.
        cause: Box<Error>,
    },
    /// The Rollout kind is not served.
    #[error(
        "the server has no Rollouts in version {}",
        kruise_rollout::names::API_VERSION
    )]
    NotInstalled,
    /// No such type, or one without a namespace.
    #[error("the server has no type of workloads {0:?}")]
    NoType(String),
    /// A workload that is not there, or whose pods nobody can tell.
    #[error("{0} has no pods that can be shown: it is not there, or cannot be read")]
    NoPods(String),
    /// No such revision.
    #[error("{subject} has no revision {revision:?}: there are {}", if .known.is_empty() { "none" } else { .known })]
    NoRevision {
        /// The Rollout.
        subject: String,
        /// What was asked for.
        revision: String,
        /// The numbers that there are.
        known: String,
    },
    /// A verb that the caller may not use.
    #[error("Error from server (Forbidden): {message}")]
    Forbidden {
        /// What the server said.
        message: String,
        /// The right that is missing: verb and resource.
        right: String,
        /// A Role that grants it.
        role: Option<String>,
    },
    /// Nothing is written, for this reason.
    #[error("{subject}: {refusal}")]
    Refused {
        /// The object.
        subject: String,
        /// Why.
        refusal: Refusal,
        /// The way on, a command.
        hint: Option<String>,
    },
    /// The object changed between reading and writing.
    #[error("{0}: it changed in the meantime: nothing was written")]
    Changed(String),
    /// An object that is not of the shape of its kind.
    #[error("{0}: {1}")]
    Unreadable(String, String),
    /// A manifest that is of no use.
    #[error("{place}: {problem}")]
    Manifest {
        /// The file, or the object.
        place: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The watched object is gone.
    #[error("{0} was deleted")]
    Deleted(String),
    /// `--timeout`.
    #[error("timed out waiting for {0}")]
    Timeout(String),
    /// A question that needs a person.
    #[error("{0}: not confirmed")]
    Unconfirmed(String),
    /// The person said no.
    #[error("not confirmed: nothing was written")]
    Declined,
    /// Ctrl-C at a prompt.
    #[error("interrupted")]
    Interrupted,
    /// Standard output or the system.
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

fn reason(status: &Status) -> &str {
    if status.reason.is_empty() {
        "Unknown"
    } else {
        &status.reason
    }
}

impl Error {
    /// A list that went out in part.
    pub(crate) fn cut(printed: usize, cause: Self) -> Self {
        Self::Incomplete {
            printed,
            cause: Box::new(cause),
        }
    }

    /// The exit code.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Timeout(_) => 4,
            Self::Interrupted => 130,
            // The reader of a pipe has seen enough.
            Self::Io(error) if error.kind() == std::io::ErrorKind::BrokenPipe => 0,
            _ => 1,
        }
    }

    /// What to do about it.
    fn hint(&self) -> Option<String> {
        match self {
            Self::Kubeconfig(_) => Some(
                "choose a kubeconfig with --kubeconfig or KUBECONFIG, and a context with --context"
                    .to_owned(),
            ),
            Self::OtherVersions(_) => Some("use a release of this plugin that fits the server".to_owned()),
            Self::Credentials(_) => Some(
                "see the user of this context in the kubeconfig, or choose another one with --user"
                    .to_owned(),
            ),
            Self::Unauthorized(_) => {
                Some("log in again, or choose another user with --user or --context".to_owned())
            }
            Self::Unreachable { .. } => {
                Some("is this the right cluster? Choose another one with --context".to_owned())
            }
            Self::NotFound { close, .. } | Self::NoRollout { close, .. } if !close.is_empty() => {
                Some(format!("did you mean {}?", close.join(" or ")))
            }
            Self::NotFound { .. } => Some("look in another namespace with -n".to_owned()),
            Self::NoRollout { .. } => {
                Some("create a Rollout for it, look in another namespace with -n, or name the Rollout itself: rollout/NAME".to_owned())
            }
            Self::NotInstalled => {
                Some("install kruise-rollout, or choose another cluster with --context".to_owned())
            }
            Self::NoType(_) => {
                Some("kubectl api-resources --namespaced=true lists the types; write TYPE.GROUP/NAME".to_owned())
            }
            Self::Forbidden {
                right,
                role: Some(role),
                ..
            } => Some(format!(
                "you need a role with the right to {right}, such as this one:\n{role}"
            )),
            Self::Forbidden { right, .. } => Some(format!("you need a role with the right to {right}")),
            Self::Refused { hint, .. } => hint.clone(),
            Self::Incomplete { cause, .. } => {
                cause.hint().or_else(|| Some("repeat the command".to_owned()))
            }
            Self::Changed(_) => Some("look at it again and repeat the command".to_owned()),
            Self::Unconfirmed(_) => Some("this is not a terminal to ask on: confirm with --yes".to_owned()),
            _ => None,
        }
    }

    /// Says it on stderr, with the way on.
    pub(crate) fn explain(&self, ui: &mut Ui) {
        match self {
            Self::Io(error) if error.kind() == std::io::ErrorKind::BrokenPipe => return,
            Self::Server(_) | Self::NotFound { .. } | Self::Forbidden { .. } => {
                ui.complain(&self.to_string());
            }
            _ => ui.fail(&self.to_string()),
        }
        if let Some(hint) = self.hint() {
            ui.hint(&hint);
        }
    }
}
