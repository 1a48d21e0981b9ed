//! Who may write the status of a Rollout: a policy that lets people approve and nothing else, and the roles of people.
//!
//! No controller runs on the control plane of these cases. Its part is played by its identity.

mod policy;
mod roles;
mod table;

use kruise_rollout::admission::approval;
use kruise_rollout::api::v1beta1::Rollout;
use kruise_rollout::area::Area;
use kruise_rollout::names;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use support::{ControlPlane, Identity, Installation, Options, TestNamespace, eventually};
use tokio::sync::OnceCell;

use crate::scene::SOON;

/// Definition and roles, and nothing that runs.
async fn own() -> &'static Installation<'static> {
    static CONTROL_PLANE: OnceCell<ControlPlane> = OnceCell::const_new();
    static INSTALLATION: OnceCell<Installation<'static>> = OnceCell::const_new();
    let start = async || {
        let control_plane = CONTROL_PLANE
            .get_or_try_init(|| ControlPlane::start(Options::default()))
            .await?;
        Installation::apply(control_plane).await
    };
    match INSTALLATION.get_or_try_init(start).await {
        Ok(installation) => installation,
        Err(error) => panic!("not installed: {error}"),
    }
}

/// A namespace in which the policy is in force.
struct Stage {
    namespace: TestNamespace<'static>,
    controller: Api<DynamicObject>,
    admin: Api<DynamicObject>,
    /// Like `admin`, but no member of the break-glass group.
    bound_admin: Api<DynamicObject>,
    approver: Api<DynamicObject>,
}

impl Stage {
    async fn new(prefix: &str, may_jump: bool) -> Self {
        let installation = own().await;
        let namespace = TestNamespace::create(installation.control_plane(), prefix)
            .await
            .unwrap();
        let api = async |identity| {
            let client = namespace.client(identity).await.unwrap();
            rollouts(client, &namespace)
        };
        let stage = Self {
            controller: api(Identity::Controller).await,
            admin: api(Identity::Admin).await,
            bound_admin: impersonated(&namespace, "admin", &["system:masters"]).await,
            approver: api(Identity::Approver).await,
            namespace,
        };
        stage.enforce(installation, may_jump).await;
        stage
    }

    /// Applies the policy to this namespace alone, and waits until it is in force.
    async fn enforce(&self, installation: &Installation<'_>, may_jump: bool) {
        let name = self.namespace.name();
        let mut binding = approval::binding(&Area::whole(names::DEFAULT_NAMESPACE));
        binding["policyName"] = json!(name);
        binding["matchResources"] =
            json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}});
        let policy = approval::policy(
            Identity::Controller.user(),
            &Area::whole(names::DEFAULT_NAMESPACE),
            may_jump,
        );
        for (kind, spec) in [
            ("ValidatingAdmissionPolicy", policy),
            ("ValidatingAdmissionPolicyBinding", binding),
        ] {
            let object = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
                "metadata": {"name": name}, "spec": spec});
            installation.kubectl_apply(&object.to_string()).await.unwrap();
        }
        let probe = self.rollout("probe", &table::paused()).await;
        let damage = Patch::Merge(json!({"status": {"phase": "Healthy"}}));
        eventually(SOON, "the policy is in force", async || {
            let answer = self
                .bound_admin
                .patch_status(&probe, &PatchParams::default().dry_run(), &damage)
                .await;
            match answer {
                Err(kube::Error::Api(status)) if status.code == 403 => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    }

    /// A Rollout with this status, or none where it is null; its name.
    async fn rollout(&self, name: &str, status: &Value) -> String {
        let object = serde_json::from_value(manifest(name)).unwrap();
        // Definition and rights of the controller are there a moment after they were applied.
        eventually(SOON, "a Rollout is created", async || {
            self.admin.create(&PostParams::default(), &object).await
        })
        .await;
        if !status.is_null() {
            let patch = Patch::Merge(json!({"status": status}));
            eventually(SOON, "the controller writes its status", async || {
                self.controller
                    .patch_status(name, &PatchParams::default(), &patch)
                    .await
            })
            .await;
        }
        name.to_owned()
    }

    async fn stored(&self, name: &str) -> Value {
        serde_json::to_value(self.admin.get(name).await.unwrap()).unwrap()
    }
}

fn rollouts(client: Client, namespace: &TestNamespace<'_>) -> Api<DynamicObject> {
    Api::namespaced_with(client, namespace.name(), &ApiResource::erase::<Rollout>(&()))
}

/// Rollouts as a user of these groups sees them.
async fn impersonated(namespace: &TestNamespace<'_>, user: &str, groups: &[&str]) -> Api<DynamicObject> {
    let mut config = namespace.control_plane().config(Identity::Admin).await.unwrap();
    config.auth_info.impersonate = Some(user.to_owned());
    config.auth_info.impersonate_groups = Some(groups.iter().map(|&group| group.to_owned()).collect());
    rollouts(Client::try_from(config).unwrap(), namespace)
}

fn manifest(name: &str) -> Value {
    json!({
        "apiVersion": names::API_VERSION, "kind": "Rollout", "metadata": {"name": name},
        "spec": {
            "workloadRef": {"apiVersion": "example.io/v1", "kind": "MyStatefulApp", "name": name},
            "strategy": {"canary": {"steps": [
                {"replicas": 1, "pause": {}}, {"replicas": "50%", "pause": {}}, {"replicas": "100%"}]}},
        },
    })
}
