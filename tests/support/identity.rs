//! Who talks to the API server.

use std::path::Path;

use kruise_rollout::names;
use kube::config::Kubeconfig;

use crate::Error;

/// A person or program with its own token and rights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Identity {
    /// May do everything (`system:masters`), also repair the status of Rollouts ([`names::BREAK_GLASS_GROUP`]).
    Admin,
    /// Works with workloads, pods and Rollouts, but may not approve.
    Developer,
    /// Reads Rollouts, workloads and pods, and writes the status of Rollouts.
    Approver,
    /// Reads everything.
    Viewer,
    /// The ServiceAccount of the product's controller. Has only the rights that the product's manifests give.
    Controller,
    /// The same of a second controller, in the namespace `kruise-rollout-b`, which governs a part of the cluster.
    OtherController,
}

impl Identity {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Admin,
        Self::Developer,
        Self::Approver,
        Self::Viewer,
        Self::Controller,
        Self::OtherController,
    ];

    /// Lower-case name; also the name of the kubeconfig file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Developer => "developer",
            Self::Approver => "approver",
            Self::Viewer => "viewer",
            Self::Controller => "controller",
            Self::OtherController => "other-controller",
        }
    }

    /// The user name as the API server sees it.
    #[must_use]
    pub fn user(self) -> &'static str {
        match self {
            Self::Controller => "system:serviceaccount:kruise-rollout:kruise-rollout-controller",
            Self::OtherController => "system:serviceaccount:kruise-rollout-b:kruise-rollout-controller",
            other => other.name(),
        }
    }

    /// The groups as the API server sees them, without the ones it adds.
    #[must_use]
    pub fn groups(self) -> &'static [&'static str] {
        match self {
            Self::Admin => &["system:masters", names::BREAK_GLASS_GROUP],
            Self::Developer => &["developer"],
            Self::Approver => &["approver"],
            Self::Viewer => &["viewer"],
            Self::Controller => &[
                "system:serviceaccounts",
                "system:serviceaccounts:kruise-rollout",
                "system:authenticated",
            ],
            Self::OtherController => &[
                "system:serviceaccounts",
                "system:serviceaccounts:kruise-rollout-b",
                "system:authenticated",
            ],
        }
    }

    /// The same cluster as `admin` sees it, with this identity impersonated.
    pub(crate) fn impersonated(self, admin: &Kubeconfig) -> Kubeconfig {
        let mut kubeconfig = admin.clone();
        if self == Self::Admin {
            return kubeconfig;
        }
        for user in kubeconfig
            .auth_infos
            .iter_mut()
            .filter_map(|named| named.auth_info.as_mut())
        {
            user.impersonate = Some(self.user().to_owned());
            user.impersonate_groups = Some(self.groups().iter().map(|&group| group.to_owned()).collect());
        }
        kubeconfig
    }
}

/// Programs of the control plane that need to be told apart in the audit log: user names.
const SYSTEM_USERS: [&str; 3] = ["system:kube-controller-manager", "system:kube-scheduler", "kwok"];

/// A token of this control plane. It needs to be no secret: the server listens on loopback and lives as long as a test.
fn token(user: &str) -> String {
    format!("token-of-{}", user.replace(':', "-"))
}

/// The content of `--token-auth-file`.
pub(crate) fn token_file() -> String {
    let people = Identity::ALL.map(|identity| (identity.user(), identity.groups().join(",")));
    let programs = SYSTEM_USERS.map(|user| (user, "system:masters".to_owned()));
    let line = |(user, groups): &(&str, String)| format!("{},{user},{user},\"{groups}\"\n", token(user));
    people.iter().chain(&programs).map(line).collect()
}

/// A kubeconfig for `user` on the server at `url`.
pub(crate) fn kubeconfig(url: &str, ca_file: &Path, user: &str) -> Result<(String, Kubeconfig), Error> {
    let text = format!(
        "apiVersion: v1
kind: Config
clusters:
- name: local
  cluster:
    server: {url}
    certificate-authority: {ca_file:?}
users:
- name: {user:?}
  user:
    token: {token}
contexts:
- name: local
  context:
    cluster: local
    user: {user:?}
    namespace: default
current-context: local
",
        token = token(user),
    );
    let parsed = Kubeconfig::from_yaml(&text)?;
    Ok((text, parsed))
}
