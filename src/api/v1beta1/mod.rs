//! `Rollout` in version `rollouts.kruise.io/v1beta1`, field for field as existing manifests, tools and stored objects have it.
//!
//! Reading never fails because of a word we do not know: phases, step states, reasons and condition types are strings with
//! constants beside them ([`phase`], [`step_state`], [`finalising_step`], [`condition`]). Every field has a default on
//! reading, so one damaged object cannot stop a watch; which fields must be there is said in the schema alone.

pub mod condition;
mod definition;
mod spec;
mod status;

pub use condition::Condition;
pub use definition::crd;
pub use spec::{
    Amount, BlueGreenStrategy, CanaryStep, CanaryStrategy, CustomNetworkRef, GatewayRoute, HeaderValue,
    HttpRouteMatch, IngressRef, IntOrPercent, MalformedAmount, PathMatch, Pause, PodTemplateMetadata,
    RequestHeaderModifier, Rollout, RolloutSpec, Strategy, TrafficRouting, ValueMatch, WorkloadRef,
};
pub use status::{BlueGreenStatus, CanaryStatus, RolloutStatus, finalising_step, phase, step_state};

#[cfg(test)]
mod tests;
