//! What a person asks for.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Not;

use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::status::RolloutStatus;
use crate::names;

/// How a workload is to be brought from one pod template to the next, in steps.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "rollouts.kruise.io",
    version = "v1beta1",
    kind = "Rollout",
    plural = "rollouts",
    singular = "rollout",
    shortname = "ro",
    namespaced,
    status = "RolloutStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Takes a workload from one pod template to the next in steps, with pauses for people and clocks between them.",
    printcolumn = r#"{"name":"STATUS","type":"string","jsonPath":".status.phase","description":"Phase of the Rollout"}"#,
    printcolumn = r#"{"name":"CANARY_STEP","type":"integer","jsonPath":".status.currentStepIndex","description":"Number of the current step, from 1"}"#,
    printcolumn = r#"{"name":"CANARY_STATE","type":"string","jsonPath":".status.currentStepState","description":"State of the current step"}"#,
    printcolumn = r#"{"name":"MESSAGE","type":"string","jsonPath":".status.message","description":"What the Rollout does or waits for"}"#,
    printcolumn = r#"{"name":"WORKLOAD","type":"string","jsonPath":".spec.workloadRef.name","description":"Name of the workload","priority":1}"#,
    printcolumn = r#"{"name":"AGE","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["workloadRef", "strategy"]))]
pub struct RolloutSpec {
    /// The workload that this Rollout governs; it lives in the same namespace.
    pub workload_ref: WorkloadRef,
    /// How an update is carried out.
    pub strategy: Strategy,
    /// A disabled Rollout lets go of its workload: updates roll out at the workload's own pace. Default: false.
    #[serde(skip_serializing_if = "Not::not")]
    pub disabled: bool,
}

/// Names the workload that a Rollout governs.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["apiVersion", "kind", "name"]))]
pub struct WorkloadRef {
    /// Group and version of the workload, for example `apps/v1`.
    pub api_version: String,
    /// Kind of the workload, for example `StatefulSet`.
    pub kind: String,
    /// Name of the workload.
    pub name: String,
}

impl WorkloadRef {
    /// Group and version, or `None` if `apiVersion` is not of the form `version` or `group/version`.
    /// The core group is the empty string.
    pub fn group_version(&self) -> Option<(&str, &str)> {
        match self.api_version.split_once('/') {
            Some((group, version)) => (is_name(group) && is_name(version)).then_some((group, version)),
            None => is_name(&self.api_version).then_some(("", &*self.api_version)),
        }
    }

    /// Whether this is a custom workload, of which only the label and the usual paths are known. One whose `apiVersion`
    /// cannot be read is not.
    pub fn is_custom(&self) -> bool {
        self.group_version()
            .is_some_and(|(group, _)| !names::NATIVE_GROUPS.contains(&group))
    }
}

/// Whether this can stand as a part of an `apiVersion`.
fn is_name(text: &str) -> bool {
    let allowed =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'-');
    !text.is_empty() && text.bytes().all(allowed)
}

/// Exactly one of `canary` and `blueGreen`, and a switch that stops either.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Strategy {
    /// While true, a release takes no further step. Default: false.
    #[serde(skip_serializing_if = "Not::not")]
    pub paused: bool,
    /// Release in batches, by steps. Admission requires it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary: Option<CanaryStrategy>,
    /// Release beside the present pods, then switch over. It is not carried out: a Rollout that has it is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blue_green: Option<BlueGreenStrategy>,
}

/// Release in batches.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CanaryStrategy {
    /// The steps of a release, in order. Admission requires one. Bounds: 1 to 50; their number cannot change in mid-release.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub steps: Vec<CanaryStep>,
    /// How requests reach the pods, for steps that move traffic. It is not carried out: a Rollout that has it is refused.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub traffic_routings: Vec<TrafficRouting>,
    /// How many of a step's updated pods may be unready without holding the release up: a number, or a percentage of the step's
    /// pods (rounded up); never all of them. Default: 0. Bounds: 0 or more, or `0%` to `100%`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_threshold: Option<IntOrPercent>,
    /// Seconds without progress after which the Rollout says what holds a step or a rollback up: in its message, as condition
    /// Stalled and as an event. Where pods are managed in order, those of an abandoned template that are not ready stand in the
    /// way for as long at most before they are replaced. 0: neither. Default: 600, and 30 for pods in the way. Bounds: 0 or more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress_deadline_seconds: Option<i32>,
    /// Labels and annotations for the pods of an extra canary workload. It has no effect on a release in batches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch_pod_template_metadata: Option<PodTemplateMetadata>,
    /// Run the new version in an extra workload instead of in batches of the present one. It is not carried out: a Rollout that has
    /// it is refused. Default: false.
    #[serde(skip_serializing_if = "Not::not")]
    pub enable_extra_workload_for_canary: bool,
    /// Name of a TrafficRouting object. It has no effect on a release in batches.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub traffic_routing_ref: String,
    /// Do not make a Service for the new pods. A release in batches makes none. Default: false.
    #[serde(skip_serializing_if = "Not::not")]
    pub disable_generate_canary_service: bool,
}

/// Release beside the present pods.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BlueGreenStrategy {
    /// The steps of a release, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub steps: Vec<CanaryStep>,
    /// How requests reach the pods.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub traffic_routings: Vec<TrafficRouting>,
    /// How many of a step's updated pods may be unready without holding the release up: a number, or a percentage of the step's
    /// pods (rounded up); never all of them. Default: 0. Bounds: 0 or more, or `0%` to `100%`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_threshold: Option<IntOrPercent>,
    /// Name of a TrafficRouting object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub traffic_routing_ref: String,
    /// Do not make a Service for the new pods.
    #[serde(skip_serializing_if = "Not::not")]
    pub disable_generate_canary_service: bool,
}

/// One step: how far to go, then how long to wait.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CanaryStep {
    /// How many pods run the new template at the end of this step, all steps together: a number, or a percentage of
    /// the workload's replicas (rounded up). Admission requires it. Bounds: 1 or more, or `1%` to `100%`; not less than the step before where both are
    /// numbers or both are percentages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<IntOrPercent>,
    /// What to wait for at the end of this step. Default: approval.
    pub pause: Pause,
    /// Share of the requests that the new pods get, as a percentage. It is not carried out: a Rollout that has it is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traffic: Option<String>,
    /// Which requests the new pods get; any of the entries. It is not carried out: a Rollout that has it is refused.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub matches: Vec<HttpRouteMatch>,
    /// Changes to the headers of requests to the new pods. It is not carried out: a Rollout that has it is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_header_modifier: Option<RequestHeaderModifier>,
}

/// The end of a step.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Pause {
    /// Seconds to wait once the step's pods are ready, 0 for not at all. Default: until somebody approves. Bounds: 0 or more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<i32>,
}

/// Conditions on a request; all of them must hold.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpRouteMatch {
    /// Condition on the request's path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathMatch>,
    /// Conditions on the request's headers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub headers: Vec<ValueMatch>,
    /// Conditions on the request's query parameters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub query_params: Vec<ValueMatch>,
}

/// Condition on a path.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PathMatch {
    /// `Exact`, `PathPrefix` or `RegularExpression`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// The path to compare with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

/// Condition on a header or a query parameter.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name", "value"]))]
pub struct ValueMatch {
    /// `Exact` or `RegularExpression`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// Name of the header or parameter.
    pub name: String,
    /// Value to compare with.
    pub value: String,
}

/// Changes to request headers.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RequestHeaderModifier {
    /// Headers to set, over what the request has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub set: Vec<HeaderValue>,
    /// Headers to add, beside what the request has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub add: Vec<HeaderValue>,
    /// Names of headers to remove.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub remove: Vec<String>,
}

/// A header and its value.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name", "value"]))]
pub struct HeaderValue {
    /// Name of the header.
    pub name: String,
    /// Value of the header.
    pub value: String,
}

/// Labels and annotations to put on pods.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodTemplateMetadata {
    /// Annotations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// How requests reach the pods.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["service"]))]
pub struct TrafficRouting {
    /// Service in front of the workload.
    pub service: String,
    /// Seconds that the provider needs to act on a change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<i32>,
    /// Route through an Ingress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ingress: Option<IngressRef>,
    /// Route through Gateway API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway: Option<GatewayRoute>,
    /// Route through objects of other networks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub custom_network_refs: Vec<CustomNetworkRef>,
}

/// An Ingress.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name"]))]
pub struct IngressRef {
    /// Class of the Ingress, for example `nginx`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub class_type: String,
    /// Name of the Ingress.
    pub name: String,
}

/// A route of Gateway API.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewayRoute {
    /// Name of the HTTPRoute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_route_name: Option<String>,
}

/// An object of another network.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["apiVersion", "kind", "name"]))]
pub struct CustomNetworkRef {
    /// Group and version of the object.
    pub api_version: String,
    /// Kind of the object.
    pub kind: String,
    /// Name of the object.
    pub name: String,
}

/// A number or a percentage as it was written; [`IntOrPercent::amount`] says what it means.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(untagged)]
pub enum IntOrPercent {
    /// A number, as written; it may be negative.
    Int(i64),
    /// A text, as written; it may be no percentage at all.
    String(String),
}

/// What an [`IntOrPercent`] means.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Amount {
    /// A number, possibly negative or too large for the workload.
    Count(i64),
    /// A percentage, never negative, possibly above 100.
    Percent(u32),
}

/// An [`IntOrPercent`] that is neither a number nor a percentage; the text as it was written.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0:?} is neither an integer nor a percentage such as \"50%\"")]
pub struct MalformedAmount(pub String);

impl IntOrPercent {
    /// What was meant. A text must be decimal digits and a percent sign, nothing else; `"50"` is malformed, because it
    /// could mean either.
    pub fn amount(&self) -> Result<Amount, MalformedAmount> {
        match self {
            Self::Int(count) => Ok(Amount::Count(*count)),
            Self::String(text) => text
                .strip_suffix('%')
                .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
                .and_then(|digits| digits.parse().ok())
                .map(Amount::Percent)
                .ok_or_else(|| MalformedAmount(text.clone())),
        }
    }
}

impl From<i64> for IntOrPercent {
    fn from(count: i64) -> Self {
        Self::Int(count)
    }
}

impl From<&str> for IntOrPercent {
    fn from(text: &str) -> Self {
        Self::String(text.to_owned())
    }
}

/// As it was written, without quotes.
impl fmt::Display for IntOrPercent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(count) => count.fmt(f),
            Self::String(text) => text.fmt(f),
        }
    }
}

impl JsonSchema for IntOrPercent {
    fn schema_name() -> Cow<'static, str> {
        "IntOrPercent".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "x-kubernetes-int-or-string": true })
    }
}
