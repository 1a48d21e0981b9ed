//! Every name that other programs see: API group, labels, annotations, condition types, reasons.
//!
//! Nothing outside this module and [`crate::api`] spells a name that contains `kruise.io`, so each fact has one place.

/// API group of the `Rollout` kind.
pub const GROUP: &str = "rollouts.kruise.io";
/// API version that is stored and served.
pub const VERSION: &str = "v1beta1";
/// Group and version as they stand in `apiVersion`.
pub const API_VERSION: &str = "rollouts.kruise.io/v1beta1";

/// Field manager of every write that the controller makes; one half of the controller's identity in admission.
pub const FIELD_MANAGER: &str = "kruise-rollout-controller";
/// Field manager of the dry-runs that ask whether the policies hold without the webhook.
pub const POLICY_PROBE: &str = "kruise-rollout-policy-probe";
/// Field manager of every write that the plugin makes.
pub const PLUGIN_FIELD_MANAGER: &str = "kubectl-kruise";
/// Name of the ServiceAccount, the Deployment and the other namespaced objects of the controller.
pub const CONTROLLER: &str = "kruise-rollout-controller";
/// Namespace that the controller is installed into unless told otherwise.
pub const DEFAULT_NAMESPACE: &str = "kruise-rollout";
/// Suffix of the names of our entries in the mutating webhook configuration, after plural and group.
pub const HOLD_WEBHOOK: &str = "hold.rollouts.kruise.io";
/// Name of our entry for Rollouts in the validating webhook configuration.
pub const REVIEW_WEBHOOK: &str = "review.rollouts.kruise.io";
/// Suffix of the names of our entries for workloads in the validating webhook configuration, after plural and group.
pub const CONFIRM_WEBHOOK: &str = "confirm.rollouts.kruise.io";
/// Name of the mutating and of the validating webhook configuration. The API server calls mutating webhooks in the order of these
/// names, and ours is to see what the others have made of a write.
pub const WEBHOOK_CONFIGURATION: &str = "zz-kruise-rollout";
/// Name of the ClusterRole that owns what the controller registers, so that removing the RBAC removes the registrations.
pub const CLUSTER_ROLE: &str = "kruise-rollout-controller";
/// Name of the policy of the status of Rollouts, and of its binding.
pub const STATUS_POLICY: &str = "kruise-rollout-status";
/// Group of people who may write the status of a Rollout as they like, to repair it.
pub const BREAK_GLASS_GROUP: &str = "rollouts.kruise.io:break-glass";
/// Name of the Service in front of the webhook, and of the Secret with its certificate.
pub const WEBHOOK_SERVICE: &str = "kruise-rollout-webhook";
/// Name of the Deployment of the existing Rollouts controller, which must not run beside ours.
pub const LEGACY_DEPLOYMENT: &str = "kruise-rollout-controller-manager";
/// Name of the mutating webhook configuration of the existing Rollouts controller.
pub const LEGACY_WEBHOOK_CONFIGURATION: &str = "kruise-rollout-mutating-webhook-configuration";
/// Name of the Lease of the existing Rollouts controller.
pub const LEGACY_LEASE: &str = "71ddec2c.kruise.io";
/// Flag without which the existing Rollouts controller refuses custom workloads.
pub const LEGACY_KINDS_FLAG: &str = "--filter-workload-type";
/// Name of the ClusterRole that lets people approve.
pub const APPROVER_ROLE: &str = "kruise-rollout-approver";
/// Finalizer of the existing Rollouts controller. We set none; a present one is removed, so that deletion never waits for a
/// controller that has gone.
pub const LEGACY_FINALIZER: &str = "rollouts.kruise.io/rollout";
/// Plural of the kind of which the existing controller makes an object for each release, with the Rollout's name.
pub const LEGACY_RELEASES: &str = "batchreleases";
/// Finalizer of such an object. Nobody else removes it, so that neither it nor its namespace would ever be gone.
pub const LEGACY_RELEASE_FINALIZER: &str = "rollouts.kruise.io/batch-release-finalizer";
/// Annotation of the existing controller on a workload whose partition it moves: a reference to the object of the release.
pub const LEGACY_CONTROL_INFO: &str = "batchrelease.rollouts.kruise.io/control-info";
/// Annotation of the existing controller on a Deployment in a release: what people asked for in `spec.strategy`.
pub const LEGACY_STRATEGY: &str = "rollouts.kruise.io/deployment-strategy";
/// The annotations that the existing controller has on a workload only during a release, beside [`IN_PROGRESSING`].
pub const LEGACY_MARKS: [&str; 6] = [
    LEGACY_CONTROL_INFO,
    LEGACY_STRATEGY,
    "rollouts.kruise.io/deployment-extra-status",
    "rollouts.kruise.io/daemonset-advanced-control",
    "rollouts.kruise.io/daemonset-original-update-strategy",
    "rollouts.kruise.io/daemonset-revision",
];

/// Label that makes a workload subject to admission, with the value that says how it updates. Users set it on custom workloads; on
/// kinds of the [`NATIVE_GROUPS`] the controller sets it where it is missing.
pub const WORKLOAD_TYPE: &str = "rollouts.kruise.io/workload-type";
/// Value of [`WORKLOAD_TYPE`] for everything that updates like a StatefulSet.
pub const TYPE_STATEFULSET: &str = "statefulset";
/// Value of [`WORKLOAD_TYPE`] for CloneSets of Kruise.
pub const TYPE_CLONESET: &str = "cloneset";
/// Value of [`WORKLOAD_TYPE`] for Advanced DaemonSets of Kruise.
pub const TYPE_DAEMONSET: &str = "daemonset";
/// Value of [`WORKLOAD_TYPE`] for Deployments.
pub const TYPE_DEPLOYMENT: &str = "deployment";
/// Groups whose kinds are known by name, so that [`WORKLOAD_TYPE`] is set for them. Those of all others are known by their shape.
pub const NATIVE_GROUPS: [&str; 2] = ["apps", "apps.kruise.io"];
/// Namespaces without admission and without Rollouts, beside the controller's own.
pub const EXCLUDED_NAMESPACES: [&str; 1] = ["kube-system"];

/// Mark: `<workload uid>/<rollout name>/<stable template id>` while a Rollout governs the workload.
pub const GUARDED_BY: &str = "rollouts.kruise.io/guarded-by";
/// Mark of a release in progress, `{"rolloutName":"…"}`, as existing tools know it.
pub const IN_PROGRESSING: &str = "rollouts.kruise.io/in-progressing";
/// Mark: the lowest partition that the current step allows, a decimal integer.
pub const GRANTED_PARTITION: &str = "rollouts.kruise.io/granted-partition";
/// Mark: what people last asked for where the hold is. The partition: a decimal integer, a percentage such as `20%`, or
/// [`NO_PARTITION`]. Of a kind that is held by other fields a JSON object of these, by their dotted paths, without those that are
/// not in the manifest.
pub const ORIGINAL_PARTITION: &str = "rollouts.kruise.io/original-partition";
/// Value of [`ORIGINAL_PARTITION`] for a workload whose manifest has no partition.
pub const NO_PARTITION: &str = "none";
/// The marks that exist only during a release.
pub const RELEASE_MARKS: [&str; 3] = [IN_PROGRESSING, GRANTED_PARTITION, ORIGINAL_PARTITION];
/// The partition that admission sets: larger than any number of pods, and the value that existing tools look for.
pub const HOLD_PARTITION: i64 = 32_767;

/// Annotation on a Rollout: with the value `true`, the way back to the stable template takes the steps too.
pub const ROLLBACK_IN_BATCH: &str = "rollouts.kruise.io/rollback-in-batch";

/// Annotation on a recorded template (a ControllerRevision): the template's id.
pub const TEMPLATE_ID: &str = "rollouts.kruise.io/template-id";
/// Label of a recorded template: the UID of the Rollout that it is recorded for.
pub const RECORD_OF: &str = "rollouts.kruise.io/record-of";
/// Annotation that a dry-run adds to a template to see whether the change is held. It is never stored.
pub const GUARD_PROBE: &str = "rollouts.kruise.io/guard-probe";
/// Label of pods that carries the revision, set by StatefulSet-like operators.
pub const CONTROLLER_REVISION_HASH: &str = "controller-revision-hash";
/// Label of pods that carries the revision, set by ReplicaSet-like operators.
pub const POD_TEMPLATE_HASH: &str = "pod-template-hash";
/// Annotation by which the controller of Deployments knows a ReplicaSet that it has sized for so many replicas. It takes one with
/// another number for a sign that the Deployment is being scaled.
pub const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
/// Annotation of a DaemonSet and of its revisions: which template in a row it is.
pub const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";
/// Label of a DaemonSet's pods with the same number.
pub const POD_TEMPLATE_GENERATION: &str = "pod-template-generation";
/// Annotation of a pod by which people say what its deletion costs.
pub const POD_DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
/// Annotation that operators of Kruise put on a pod whose containers they replace in place.
pub const IN_PLACE_UPDATE_STATE: &str = "apps.kruise.io/inplace-update-state";
/// Label (or annotation) of a workload by which people name a release, and label of the pods of that release.
pub const ROLLOUT_ID: &str = "rollouts.kruise.io/rollout-id";
/// Label of the pods of a release: the number of the step that they came with, from 1.
pub const ROLLOUT_BATCH_ID: &str = "rollouts.kruise.io/rollout-batch-id";
/// Label of ClusterRoles whose rules are added to the controller's: how a custom kind is enabled.
pub const AGGREGATE_TO_CONTROLLER: &str = "rollouts.kruise.io/aggregate-to-controller";
/// What the controller has to be allowed to on a kind of workloads.
pub const KIND_VERBS: [&str; 4] = ["get", "list", "watch", "patch"];

/// Annotation on a pod template by which people restart all pods, as kubectl writes it.
pub const RESTARTED_AT: &str = "kubectl.kubernetes.io/restartedAt";
/// Annotation in which `kubectl apply` keeps what it was last given.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Annotation with the number of a ReplicaSet in the history of its Deployment.
pub const DEPLOYMENT_REVISION: &str = "deployment.kubernetes.io/revision";
/// Annotation on a Rollout: who approved last.
pub const APPROVED_BY: &str = "rollouts.kruise.io/approved-by";
/// Annotation on a Rollout: when somebody approved last.
pub const APPROVED_AT: &str = "rollouts.kruise.io/approved-at";
/// Annotation on a Rollout: the step that was approved last.
pub const APPROVED_STEP: &str = "rollouts.kruise.io/approved-step";
/// Annotation on a Rollout: why it was approved last.
pub const APPROVED_REASON: &str = "rollouts.kruise.io/approved-reason";

/// Whether a label of DNS: lower-case letters and digits, and hyphens between them; at most 63.
#[must_use]
pub fn is_label(text: &str) -> bool {
    is_part(text) && text.len() <= 63
}

/// Whether an object may be called so: parts as [`is_label`] has them, of any length, with dots between; at most 253 characters.
#[must_use]
pub fn is_object_name(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_part)
}

fn is_part(text: &str) -> bool {
    let inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends = [text.bytes().next(), text.bytes().next_back()];
    ends.into_iter().all(|end| end.is_some_and(inside))
        && text.bytes().all(|byte| inside(byte) || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_objects_and_namespaces() {
        for text in ["web", "0", "a-b", "my-app.v1", &"a".repeat(253)] {
            assert!(is_object_name(text), "{text}");
        }
        for text in [
            "",
            ".",
            "..",
            "a..b",
            "-a",
            "a-",
            "a.",
            ".a",
            "A",
            "a/b",
            "a_b",
            "a b",
            "é",
            &"a".repeat(254),
        ] {
            assert!(!is_object_name(text), "{text}");
        }
        assert!(is_label("my-shop") && is_label(&"a".repeat(63)));
        assert!(!is_label("my.shop") && !is_label(&"a".repeat(64)) && !is_label(""));
    }
}
