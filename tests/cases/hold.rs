//! The table of the hold: what becomes of a write to a workload. One table binds the pure function, the API server with the webhook
//! in front of it, and the API server with the policies alone.

mod mid_release;
mod policies;
mod state;
mod table;

use k8s_openapi::api::rbac::v1::ClusterRole;
use kruise_rollout::admission::workload::{Outcome, Verdict, Write as Review, review};
use kruise_rollout::names;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use support::{ControlPlane, Identity, Installation, Options, TestNamespace, eventually};

use self::state::{ROLLOUT, SHAPES, Shape};
use self::table::{Row, Told, Writer, rows};
use crate::scene::SOON;
use crate::writes::{Answer, Write, send};

fn judged(shape: Shape, row: &Row, new: &Value, claimed_by: Option<&str>) -> (Value, Verdict) {
    let write = Review {
        old: &row.old.object(shape, "u"),
        new,
        by_controller: row.writer.is_controller(),
        claimed_by,
    };
    let verdict = review(shape.adapter(), write);
    let mut result = new.clone();
    json_patch::patch(&mut result, &verdict.patch).unwrap();
    (result, verdict)
}

fn told(warnings: &[String]) -> Told {
    let has = |text: &str| warnings.iter().any(|warning| warning.contains(text));
    match (warnings.len(), has(ROLLOUT)) {
        (0, _) => Told::Nothing,
        (1, true) if has("the new template is held") => Told::Held,
        (1, true) if has("rolls back") => Told::Back,
        (1, true) if has("a release is in progress") => Told::InProgress,
        (1, true) if has("are kept as they were") => Told::Kept,
        _ => panic!("{warnings:?}"),
    }
}

#[test]
fn the_function_keeps_the_table() {
    let of_shape = |shape| rows(shape).map(move |row| (shape, row));
    for (shape, row) in SHAPES.into_iter().flat_map(of_shape) {
        let name = format!("{}: {}", shape.kind, row.name);
        let (result, verdict) = judged(shape, &row, &row.new.object(shape, "u"), None);
        assert_eq!(result, row.expected.object(shape, "u"), "{name}");
        assert_eq!(told(verdict.warning.as_slice()), row.told, "{name}");
        assert_eq!(
            verdict.outcome == Outcome::Unchanged,
            row.told == Told::Nothing,
            "{name}"
        );
        // It may be asked again, after other webhooks.
        let (again, verdict) = judged(shape, &row, &result, None);
        assert_eq!(again, result, "{name}: not idempotent");
        assert_eq!(verdict.outcome, Outcome::Unchanged, "{name}");
    }
}

#[test]
fn a_workload_that_a_rollout_names_is_held_before_it_is_marked() {
    let of_shape = |shape| rows(shape).map(move |row| (shape, row));
    for (shape, row) in SHAPES.into_iter().flat_map(of_shape) {
        if row.old != row.old.clone().unmarked() {
            continue;
        }
        let new = row.new.object(shape, "u");
        let changed = row.old.object(shape, "u")["spec"]["template"] != new["spec"]["template"];
        let (result, verdict) = judged(shape, &row, &new, Some(ROLLOUT));
        if changed {
            assert_eq!(verdict.outcome, Outcome::Held, "{}", row.name);
            let partition = shape.partition(&result);
            assert_eq!(partition, &json!(names::HOLD_PARTITION), "{}", row.name);
        } else {
            assert_eq!(result, new, "{}", row.name);
        }
    }
}

/// The kind, the people, and the right to write as the controller does.
///
/// The controller itself may only read the kind, or it would put right what the rows put there. Who writes in its name here is
/// authorised by a group.
struct Stage<'a> {
    shape: Shape,
    namespace: TestNamespace<'a>,
    developer: Client,
    controller: Client,
    resource: ApiResource,
}

impl<'a> Stage<'a> {
    async fn new(installation: &Installation<'a>, shape: Shape) -> Self {
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": format!("read-{}", shape.plural), "labels": {names::AGGREGATE_TO_CONTROLLER: "true"}},
            "rules": [{"apiGroups": [shape.group], "resources": [shape.plural], "verbs": ["get", "list", "watch"]}],
        });
        installation.kubectl_apply(&role.to_string()).await.unwrap();
        let stage = Self::on(installation, shape).await;
        stage.register().await;
        stage
    }

    async fn on(installation: &Installation<'a>, shape: Shape) -> Self {
        let Shape { group, kind, plural } = shape;
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {
                "group": group, "scope": "Namespaced",
                "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")},
                // Without a schema every state can be stored.
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
            },
        });
        installation.kubectl_apply(&definition.to_string()).await.unwrap();
        let control_plane = installation.control_plane();
        let mut config = control_plane.config(Identity::Admin).await.unwrap();
        config.auth_info.impersonate = Some(Identity::Controller.user().to_owned());
        config.auth_info.impersonate_groups = Some(vec!["system:masters".to_owned()]);
        let namespace = TestNamespace::create(control_plane, "hold").await.unwrap();
        Self {
            developer: namespace.client(Identity::Developer).await.unwrap(),
            controller: Client::try_from(config).unwrap(),
            namespace,
            resource: ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, "v1", kind), plural),
            shape,
        }
    }

    fn api(&self, client: &Client) -> Api<DynamicObject> {
        Api::namespaced_with(client.clone(), self.namespace.name(), &self.resource)
    }

    /// A Rollout refers to the kind, so that its updates are reviewed; waits until they are.
    async fn register(&self) {
        let rollout = json!({
            "apiVersion": names::API_VERSION, "kind": "Rollout", "metadata": {"name": "registers-the-kind"},
            "spec": {
                "workloadRef": {"apiVersion": format!("{}/v1", self.shape.group), "kind": self.shape.kind, "name": "nobody"},
                "strategy": {"canary": {"steps": [{"replicas": "100%"}]}},
            },
        });
        let rollouts = Api::<kruise_rollout::api::v1beta1::Rollout>::namespaced(
            self.developer.clone(),
            self.namespace.name(),
        );
        let rollout = serde_json::from_value(rollout).unwrap();
        rollouts.create(&PostParams::default(), &rollout).await.unwrap();
        self.until_held().await;
    }

    /// Waits until a new template is held.
    async fn until_held(&self) {
        let mut rows = rows(self.shape);
        let probe = rows.find(|row| row.told == Told::Held).unwrap();
        eventually(SOON, "the kind is served", async || {
            self.api(&self.controller)
                .list(&Default::default())
                .await
                .map(drop)
        })
        .await;
        let uid = self.create("probe", &probe.old).await;
        eventually(SOON, "a new template is held", async || {
            let answer = self
                .write("probe", &probe.new.object(self.shape, &uid), probe.writer, true)
                .await;
            if answer.warned() {
                Ok(())
            } else {
                Err(format!("{answer:?}"))
            }
        })
        .await;
    }

    /// Creates an object in this state; its UID.
    async fn create(&self, name: &str, state: &state::State) -> String {
        let mut object = state.object(self.shape, "");
        object["metadata"] = json!({"name": name});
        let object = serde_json::from_value(object).unwrap();
        let api = self.api(&self.controller);
        let created = api.create(&PostParams::default(), &object).await.unwrap();
        let uid = created.uid().unwrap();
        // The guard mark has the UID in it, and so comes second.
        let metadata = state.object(self.shape, &uid)["metadata"].clone();
        let params = PatchParams {
            field_manager: Some(names::FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let marks = Patch::Merge(json!({"metadata": metadata}));
        api.patch(name, &params, &marks).await.unwrap();
        uid
    }

    /// A PUT of a whole object over the present one.
    async fn write(&self, name: &str, object: &Value, writer: Writer, dry_run: bool) -> Answer {
        let client = if writer.user_is_controller {
            &self.controller
        } else {
            &self.developer
        };
        let api = self.api(client);
        let present = api.get(name).await.unwrap();
        let mut object = object.clone();
        object["metadata"]["name"] = json!(name);
        object["metadata"]["resourceVersion"] = json!(present.resource_version());
        let put = Write::Put {
            manager: writer.manager,
            dry_run,
            object: &object,
        };
        send(client, &api, name, put).await
    }
}

/// Writes each row, and compares what is stored; what is told is the caller's to judge.
async fn keeps_the_table(stage: &Stage<'_>, told: impl Fn(&Row, &[String])) {
    let shape = stage.shape;
    for (number, row) in rows(shape).enumerate() {
        let object = format!("row-{number}");
        let uid = stage.create(&object, &row.old).await;
        let answer = stage
            .write(&object, &row.new.object(shape, &uid), row.writer, false)
            .await;
        let name = format!("{}: {}", shape.kind, row.name);
        told(&row, &answer.warnings);
        let result = answer.object();
        let expected = row.expected.object(shape, &uid);
        assert_eq!(result["spec"], expected["spec"], "{name}");
        let members =
            |object: &Value, field: &str| object["metadata"].get(field).cloned().unwrap_or(json!({}));
        for field in ["labels", "annotations"] {
            assert_eq!(members(&result, field), members(&expected, field), "{name}");
        }
    }
}

/// Takes from the controller what it may do to the kinds of Kruise.
async fn withdraw_rights(control_plane: &ControlPlane) {
    let client = control_plane.client(Identity::Admin).await.unwrap();
    let roles: Api<ClusterRole> = Api::all(client);
    let of_kruise = format!("{}-kruise", names::CLUSTER_ROLE);
    roles.delete(&of_kruise, &Default::default()).await.unwrap();
    eventually(SOON, "the rights are withdrawn", async || {
        let role = serde_json::to_value(roles.get(names::CLUSTER_ROLE).await.unwrap()).unwrap();
        let rules = role["rules"].to_string();
        if rules.contains("clonesets") {
            Err(rules)
        } else {
            Ok(())
        }
    })
    .await;
}

#[tokio::test]
async fn the_webhook_keeps_the_table_alone() {
    let control_plane = ControlPlane::start(Options::default()).await.unwrap();
    let flags = ["--admission=webhook"];
    let installation = Installation::start_with(&control_plane, &flags).await.unwrap();
    withdraw_rights(&control_plane).await;
    for shape in SHAPES {
        let stage = Stage::new(&installation, shape).await;
        keeps_the_table(&stage, |row, warnings| {
            assert_eq!(told(warnings), row.told, "{}", row.name);
        })
        .await;
    }
}
