//! What can go wrong, how it is said, and the exit code of it.

use kruise_rollout::intent::Refusal;
use kruise_rollout::lens::FieldError;
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
    /// The Rollout kind is not served.
    #[error(
        "the server has no Rollouts in version {}",
        kruise_rollout::names::API_VERSION
    )]
    NotInstalled,
    /// No such type.
    #[error("the server doesn't have a resource type {0:?}")]
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
    /// A workload that cannot be read.
    #[error("{subject}: {error}")]
    Malformed {
        /// The workload.
        subject: String,
        /// The field.
        error: FieldError,
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
    /// Some of several objects failed; each has been said.
    #[error("")]
    Said(u8),
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
    /// The exit code.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Timeout(_) => 4,
            Self::Interrupted => 130,
            Self::Said(code) => *code,
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
            Self::Unauthorized(_) => {
                Some("log in again, or choose another user with --user or --context".to_owned())
            }
            Self::Unreachable { .. } => {
                Some("is this the right cluster? Choose another one with --context".to_owned())
            }
            Self::NotFound { close, .. } if !close.is_empty() => {
                Some(format!("did you mean {}?", close.join(" or ")))
            }
            Self::NotFound { .. } => Some("look in another namespace with -n".to_owned()),
            Self::NotInstalled => {
                Some("install kruise-rollout, or choose another cluster with --context".to_owned())
            }
            Self::NoType(_) => {
                Some("kubectl api-resources lists the types; write TYPE.GROUP/NAME".to_owned())
            }
            Self::Forbidden { right, .. } => Some(format!("you need a role with the right to {right}")),
            Self::Refused { hint, .. } => hint.clone(),
            Self::Changed(_) => Some("look at it again and repeat the command".to_owned()),
            Self::Unconfirmed(_) => Some("this is not a terminal to ask on: confirm with --yes".to_owned()),
            _ => None,
        }
    }

    /// Says it on stderr, with the way on.
    pub(crate) fn explain(&self, ui: &mut Ui) {
        match self {
            Self::Said(_) => return,
            Self::Io(error) if error.kind() == std::io::ErrorKind::BrokenPipe => return,
            Self::Server(_) | Self::NotFound { .. } | Self::Forbidden { .. } => ui.say(&self.to_string()),
            _ => ui.fail(&self.to_string()),
        }
        if let Some(hint) = self.hint() {
            ui.hint(&hint);
        }
    }
}
