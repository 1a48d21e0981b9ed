//! What the controller may do.
//!
//! The ClusterRole of the controller has no rules of its own: it gathers those of every ClusterRole with a certain label. So a
//! custom kind is enabled by applying one more labelled ClusterRole, which needs no change of ours and goes with the operator
//! that brings the kind. A controller of a part of the cluster has that role in its namespaces alone, and beside it what is in no
//! namespace. Rights in the controller's namespace are a Role, so that it reads no other Secret of the cluster.

use kruise_rollout::admission::policy;
use kruise_rollout::area::Area;
use kruise_rollout::intent::enabling_role;
use kruise_rollout::names;
use serde_json::{Value, json};

use super::{APP, Document, Error, people, yaml};
use crate::args::Manifests;

/// API group of roles.
pub(super) const RBAC: &str = "rbac.authorization.k8s.io";

/// ServiceAccount, roles and bindings. Of several controllers in a cluster each has its own; they share the roles that enable kinds
/// and those for people.
pub(super) fn documents(args: &Manifests, area: &Area) -> Result<Vec<Document>, Error> {
    let namespace = args.namespace.as_str();
    let mut documents = vec![
        service_account(namespace).into(),
        gathering_role(area).into(),
        base_role(args.pods.replace_stuck_pods, area),
        registrations_role(area),
        Document {
            comment: Some(DAEMONSETS_HINT.to_owned()),
            notes: Vec::new(),
            object: daemonsets(),
        },
        Document {
            comment: Some(custom_kind_hint()?),
            notes: Vec::new(),
            object: workloads("statefulsets", "apps", &["statefulsets"]),
        },
        deployments().into(),
        workloads(
            "kruise",
            "apps.kruise.io",
            &["clonesets", "daemonsets", "statefulsets"],
        )
        .into(),
        Document {
            comment: Some(MIGRATION_HINT.to_owned()),
            notes: Vec::new(),
            object: migration(),
        },
        cluster_role_binding(area).into(),
        namespace_role(namespace),
        role_binding(namespace).into(),
        people::viewer().into(),
        people::editor().into(),
        people::approver().into(),
    ];
    let bindings = area
        .namespaces()
        .iter()
        .map(|governed| binding_in(governed, area));
    documents.extend(bindings.map(Document::from));
    Ok(documents)
}

/// A ClusterRole. Each label has the value `true`.
pub(super) fn cluster_role(name: &str, labels: &[&str], rules: Value) -> Value {
    let mut role = json!({
        "apiVersion": format!("{RBAC}/v1"),
        "kind": "ClusterRole",
        "metadata": { "name": name, "labels": { APP.0: APP.1 } },
        "rules": rules,
    });
    for label in labels {
        role["metadata"]["labels"][*label] = json!("true");
    }
    role
}

/// The ClusterRole that owns what the controller registers. It is written without `rules`: those belong to the cluster's
/// aggregation, and an empty list here would take all rights away for a moment whenever the manifests are applied again.
fn gathering_role(area: &Area) -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"),
        "kind": "ClusterRole",
        "metadata": { "name": area.name(names::CLUSTER_ROLE), "labels": labels(area) },
        "aggregationRule": { "clusterRoleSelectors": [{ "matchLabels": { names::AGGREGATE_TO_CONTROLLER: "true" } }] },
    })
}

/// Labels of what is the controller's own and in no namespace. Those of one of several controllers are told apart by its namespace.
fn labels(area: &Area) -> Value {
    let mut labels = json!({ APP.0: APP.1 });
    if !area.is_whole() {
        labels["app.kubernetes.io/instance"] = json!(area.own());
    }
    labels
}

/// One rule of the controller's roles.
struct Rule<'a> {
    groups: &'a [&'a str],
    resources: &'a [&'a str],
    /// Objects that it is bound to; all where there are none.
    names: Vec<String>,
    verbs: Vec<&'a str>,
    /// What in this program needs it, in a line for the manifests.
    why: &'a str,
}

impl<'a> Rule<'a> {
    fn new(group: &'a &'a str, resources: &'a [&'a str], verbs: &[&'a str], why: &'a str) -> Self {
        Self {
            groups: std::slice::from_ref(group),
            resources,
            names: Vec::new(),
            verbs: verbs.to_vec(),
            why,
        }
    }

    fn of(self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            names: names.into_iter().map(Into::into).collect(),
            ..self
        }
    }

    fn json(&self) -> Value {
        let mut rule = json!({ "apiGroups": self.groups, "resources": self.resources, "verbs": self.verbs });
        if !self.names.is_empty() {
            rule["resourceNames"] = json!(self.names);
        }
        rule
    }
}

/// A role of the controller, with what its rules are for.
fn explained(mut role: Value, rules: &[Rule<'_>]) -> Document {
    role["rules"] = rules.iter().map(Rule::json).collect();
    Document {
        comment: None,
        notes: rules.iter().map(|rule| rule.why.to_owned()).collect(),
        object: role,
    }
}

/// What the controller needs in the namespaces that it governs, whatever kinds it governs there. It deletes pods only where it is to
/// replace stuck ones. A case of the tests finds each right used in the API server's audit log.
fn base_role(replace_stuck_pods: bool, area: &Area) -> Document {
    let (pods, why_pods): (&[&str], &str) = if replace_stuck_pods {
        (
            &["list", "watch", "patch", "delete"],
            "Follows the pods of a release; labels them with its id and batch; replaces those that stand in the way of a rollback.",
        )
    } else {
        (
            &["list", "watch", "patch"],
            "Follows the pods of a release; labels them with its id and batch.",
        )
    };
    let rules = [
        Rule::new(
            &names::GROUP,
            &["rollouts"],
            &["get", "list", "watch", "patch"],
            "Follows Rollouts; reads one again before it lets go of a workload; removes the finalizer of another controller.",
        ),
        Rule::new(
            &names::GROUP,
            &["rollouts/status"],
            &["patch"],
            "Writes the status.",
        ),
        Rule::new(&"", &["pods"], pods, why_pods),
        Rule::new(
            &"apps",
            &["replicasets", "statefulsets"],
            &["get"],
            "Finds the workload of pods that belong to it through one owner in between.",
        ),
        Rule::new(
            &"apps",
            &["controllerrevisions"],
            &["list", "create", "patch", "delete"],
            "Records templates for undo: the last ten of each Rollout.",
        ),
    ];
    own_role("base", area, true, &rules)
}

/// What the controller needs in no namespace, or in any: to register, to know which kinds there are, to tell.
fn registrations_role(area: &Area) -> Document {
    const ADMISSION: &str = "admissionregistration.k8s.io";
    let webhooks = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"];
    let policies = [
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
    ];
    let rules = [
        Rule::new(
            &ADMISSION,
            &webhooks,
            &["list", "watch", "create"],
            "Registers its webhooks.",
        ),
        Rule::new(
            &ADMISSION,
            &webhooks,
            &["patch"],
            "Keeps its webhook configurations as they should be.",
        )
        .of([area.name(names::WEBHOOK_CONFIGURATION)]),
        Rule::new(
            &ADMISSION,
            &["mutatingwebhookconfigurations"],
            &["get"],
            "Finds the kinds that an earlier process registered.",
        )
        .of([area.name(names::WEBHOOK_CONFIGURATION)]),
        Rule::new(
            &ADMISSION,
            &policies,
            &["list", "watch", "create"],
            "Has the API server hold, and refuse what is no approval.",
        ),
        Rule::new(
            &ADMISSION,
            &policies,
            &["patch", "delete"],
            "Keeps its policies as they should be; removes those that nothing is held by any more.",
        )
        .of(policy::all_names(area)),
        Rule::new(
            &"apiextensions.k8s.io",
            &["customresourcedefinitions"],
            &["list", "watch"],
            "Notices that a kind has come, changed or gone. It reads the metadata alone.",
        ),
        Rule::new(
            &RBAC,
            &["clusterroles"],
            &["get"],
            "Makes what it registers belong to this role, so that it goes with it.",
        )
        .of([area.name(names::CLUSTER_ROLE)]),
        Rule::new(
            &"authentication.k8s.io",
            &["selfsubjectreviews"],
            &["create"],
            "Asks for its own user name, by which admission knows its writes.",
        ),
        Rule::new(
            &"events.k8s.io",
            &["events"],
            &["create"],
            "Tells what it does; of what is in no namespace, in the namespace default.",
        ),
    ];
    own_role("registrations", area, area.is_whole(), &rules)
}

/// A ClusterRole of this controller alone, which is `gathered` or bound by itself.
fn own_role(name: &str, area: &Area, gathered: bool, rules: &[Rule<'_>]) -> Document {
    let name = area.name(&format!("{}-{name}", names::CLUSTER_ROLE));
    let aggregate: &[&str] = if gathered {
        &[names::AGGREGATE_TO_CONTROLLER]
    } else {
        &[]
    };
    let mut role = cluster_role(&name, aggregate, json!([]));
    if let (Some(all), Value::Object(own)) = (role["metadata"]["labels"].as_object_mut(), labels(area)) {
        all.extend(own);
    }
    explained(role, rules)
}

/// Enables kinds of one group: those that are known by name, from the start. A kind that the cluster does not have costs nothing.
fn workloads(name: &str, group: &str, plurals: &[&str]) -> Value {
    cluster_role(
        &format!("{}-{name}", names::CLUSTER_ROLE),
        &[names::AGGREGATE_TO_CONTROLLER],
        json!([{ "apiGroups": [group], "resources": plurals, "verbs": names::KIND_VERBS }]),
    )
}

/// Enables Deployments, whose ReplicaSets are made and sized by the controller.
fn deployments() -> Value {
    let mut role = workloads("deployments", "apps", &["deployments"]);
    let sets = json!({
        "apiGroups": ["apps"], "resources": ["replicasets"], "verbs": ["get", "list", "watch", "create", "patch"],
    });
    if let Some(rules) = role["rules"].as_array_mut() {
        rules.push(sets);
    }
    role
}

const DAEMONSETS_HINT: &str = "DaemonSets have no partition, so their pods are replaced by the controller.\n\
     Where none is released by a Rollout, this ClusterRole may be left out.";

/// Enables DaemonSets. A pod's owner reference blocks the deletion of its owner, which some API servers allow only to those who may
/// finalize that one.
fn daemonsets() -> Value {
    cluster_role(
        &format!("{}-daemonsets", names::CLUSTER_ROLE),
        &[names::AGGREGATE_TO_CONTROLLER],
        json!([
            { "apiGroups": ["apps"], "resources": ["daemonsets"], "verbs": ["get", "list", "watch", "patch"] },
            { "apiGroups": ["apps"], "resources": ["daemonsets/finalizers"], "verbs": ["update"] },
            { "apiGroups": ["apps"], "resources": ["controllerrevisions"], "verbs": ["get", "list", "watch"] },
            { "apiGroups": [""], "resources": ["pods"], "verbs": ["create", "delete"] },
        ]),
    )
}

const MIGRATION_HINT: &str = "Takes away what the controller of OpenKruise Rollouts has left of a release that it had begun.\n\
     Where that one has never run, this ClusterRole may be left out.";

/// Lets the controller remove the objects by which the existing one carries out releases.
fn migration() -> Value {
    cluster_role(
        &format!("{}-{}", names::CLUSTER_ROLE, names::LEGACY_RELEASES),
        &[names::AGGREGATE_TO_CONTROLLER],
        json!([{ "apiGroups": [names::GROUP], "resources": [names::LEGACY_RELEASES], "verbs": ["get", "patch", "delete"] }]),
    )
}

/// Says how a custom kind is enabled, with an example.
fn custom_kind_hint() -> Result<String, Error> {
    let example = enabling_role("example.io", "mystatefulapps");
    Ok(format!(
        "Every ClusterRole with the label {} adds its rules to the controller's.\n\
         One more such ClusterRole enables a custom kind: `kubectl kruise workload enable TYPE` applies it, for example\n\n{}",
        names::AGGREGATE_TO_CONTROLLER,
        yaml(&example)?
    ))
}

fn service_account(namespace: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": { "name": names::CONTROLLER, "namespace": namespace, "labels": { APP.0: APP.1 } },
    })
}

/// What is bound in the whole cluster: everything that is gathered, or for a part what is in no namespace.
fn cluster_role_binding(area: &Area) -> Value {
    let role = if area.is_whole() {
        names::CLUSTER_ROLE.to_owned()
    } else {
        format!("{}-registrations", names::CLUSTER_ROLE)
    };
    let name = area.name(&role);
    json!({
        "apiVersion": format!("{RBAC}/v1"),
        "kind": "ClusterRoleBinding",
        "metadata": { "name": name, "labels": labels(area) },
        "roleRef": { "apiGroup": RBAC, "kind": "ClusterRole", "name": name },
        "subjects": [subject(area.own())],
    })
}

/// What is gathered, in one of the namespaces of a part, and nowhere else.
fn binding_in(governed: &str, area: &Area) -> Value {
    let name = area.name(names::CLUSTER_ROLE);
    json!({
        "apiVersion": format!("{RBAC}/v1"),
        "kind": "RoleBinding",
        "metadata": { "name": name, "namespace": governed, "labels": labels(area) },
        "roleRef": { "apiGroup": RBAC, "kind": "ClusterRole", "name": name },
        "subjects": [subject(area.own())],
    })
}

fn role_binding(namespace: &str) -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"),
        "kind": "RoleBinding",
        "metadata": { "name": names::CONTROLLER, "namespace": namespace, "labels": { APP.0: APP.1 } },
        "roleRef": { "apiGroup": RBAC, "kind": "Role", "name": names::CONTROLLER },
        "subjects": [subject(namespace)],
    })
}

fn subject(namespace: &str) -> Value {
    json!({ "kind": "ServiceAccount", "name": names::CONTROLLER, "namespace": namespace })
}

/// Rights in the controller's own namespace: its certificate and its lease. A create cannot be bound to a name.
fn namespace_role(namespace: &str) -> Document {
    const COORDINATION: &str = "coordination.k8s.io";
    let rules = [
        Rule::new(
            &"",
            &["secrets"],
            &["create"],
            "Makes the Secret of its certificate.",
        ),
        Rule::new(
            &"",
            &["secrets"],
            &["get", "list", "watch", "patch"],
            "Shares the certificate with its other replicas, and renews it.",
        )
        .of([names::WEBHOOK_SERVICE]),
        Rule::new(&COORDINATION, &["leases"], &["create"], "Makes the lease."),
        Rule::new(
            &COORDINATION,
            &["leases"],
            &["get", "list", "watch", "patch"],
            "Takes and keeps the lease; reads it again when another replica was faster.",
        )
        .of([names::CONTROLLER]),
    ];
    let role = json!({
        "apiVersion": format!("{RBAC}/v1"),
        "kind": "Role",
        "metadata": { "name": names::CONTROLLER, "namespace": namespace, "labels": { APP.0: APP.1 } },
    });
    explained(role, &rules)
}
