use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use k8s_openapi::ByteString;
use kruise_rollout::admission::rollout::{WorkloadClaim, review as review_rollout};
use kruise_rollout::admission::workload::{Outcome, Verdict, Write, review as review_workload};
use kruise_rollout::api::v1beta1::Rollout;
use kruise_rollout::names;
use kruise_rollout::rollout::Workload;
use kruise_rollout::workload::{GroupKind, adapter_for};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::connect::reviewed;
use crate::context::Context;
use crate::world::{Place, target_of};

/// Path of the mutating webhook.
pub const MUTATE: &str = "/mutate";
/// Path of the validating webhook of Rollouts.
pub(crate) const VALIDATE: &str = "/validate";
/// Path of the validating webhook of workloads.
pub(crate) const CONFIRM: &str = "/confirm";
/// How long a review waits for the Rollouts of a process that has just started; less than the API server waits for an answer that it
/// can do without, which is a second.
const KNOWN_WITHIN: Duration = Duration::from_millis(800);

/// An AdmissionReview, as far as it is read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review {
    request: Request,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    uid: String,
    kind: Kind,
    #[serde(default)]
    name: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    user_info: User,
    #[serde(default)]
    options: Value,
    #[serde(default, deserialize_with = "reviewed")]
    object: Value,
    #[serde(default, deserialize_with = "reviewed")]
    old_object: Value,
}

#[derive(Deserialize)]
struct Kind {
    group: String,
    kind: String,
}

#[derive(Default, Deserialize)]
struct User {
    #[serde(default)]
    username: String,
}

/// The routes of the webhook.
pub(crate) fn router(context: Arc<Context>) -> Router {
    Router::new()
        .route(MUTATE, post(mutate))
        .route(VALIDATE, post(validate))
        .route(CONFIRM, post(confirm))
        .with_state(context)
}

async fn mutate(State(context): State<Arc<Context>>, body: Bytes) -> Response {
    answer(&context, &body, judge).await
}

async fn validate(State(context): State<Arc<Context>>, body: Bytes) -> Response {
    answer(&context, &body, examine).await
}

async fn confirm(State(context): State<Arc<Context>>, body: Bytes) -> Response {
    answer(&context, &body, check).await
}

/// What is answered beside the UID, and its name in metrics.
struct Answer {
    response: Value,
    result: &'static str,
}

impl Answer {
    /// Whether it follows from the objects alone, whatever Rollouts there are.
    fn stands_alone(&self) -> bool {
        matches!(self.result, "held" | "clamped")
    }
}

async fn answer(context: &Context, body: &[u8], verdict: fn(&Context, &Request) -> Answer) -> Response {
    let began = Instant::now();
    let review: Review = match serde_json::from_slice(body) {
        Ok(review) => review,
        Err(error) => {
            context.metrics.admitted("malformed", began.elapsed());
            return (
                StatusCode::BAD_REQUEST,
                format!("not an AdmissionReview: {error}\n"),
            )
                .into_response();
        }
    };
    let mut answer = verdict(context, &review.request);
    // "Nobody's" would be wrong as long as somebody may have claimed it.
    if !answer.stands_alone() && !context.world.knows_rollouts() {
        if timeout(KNOWN_WITHIN, context.world.until_rollouts_known())
            .await
            .is_err()
        {
            context.metrics.admitted("unready", began.elapsed());
            let text = "kruise-rollout has just started and does not know the Rollouts yet; try again\n";
            return (StatusCode::SERVICE_UNAVAILABLE, text).into_response();
        }
        answer = verdict(context, &review.request);
    }
    let Answer { mut response, result } = answer;
    response["uid"] = json!(review.request.uid);
    context.metrics.admitted(result, began.elapsed());
    Json(json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}))
        .into_response()
}

/// What the core says of a write to a workload; nothing of kinds that are not supported, nor of workloads that are another
/// controller's: a registration of before may still have us asked.
fn verdict(context: &Context, request: &Request) -> Option<Verdict> {
    if !context.area.covers(&request.namespace) {
        return None;
    }
    let kind = GroupKind {
        group: request.kind.group.clone(),
        kind: request.kind.kind.clone(),
    };
    let adapter = adapter_for(&kind)?;
    let by_controller = request.user_info.username == context.username
        && request.options["fieldManager"].as_str() == Some(names::FIELD_MANAGER);
    let place = Place {
        namespace: request.namespace.clone(),
        workload: Workload {
            kind,
            name: request.name.clone(),
        },
    };
    let claim = context.world.claim(&place);
    Some(review_workload(
        adapter,
        Write {
            old: &request.old_object,
            new: &request.object,
            by_controller,
            claimed_by: claim.as_deref(),
        },
    ))
}

/// The mutating verdict on a workload.
fn judge(context: &Context, request: &Request) -> Answer {
    let mut response = json!({"allowed": true});
    let Some(verdict) = verdict(context, request) else {
        return Answer {
            response,
            result: "unchanged",
        };
    };
    if !verdict.patch.0.is_empty() {
        let patch = serde_json::to_vec(&verdict.patch).unwrap_or_default();
        response["patchType"] = json!("JSONPatch");
        response["patch"] = json!(ByteString(patch));
    }
    if let Some(warning) = verdict.warning {
        response["warnings"] = json!([warning]);
    }
    let result = match verdict.outcome {
        Outcome::Unchanged => "unchanged",
        Outcome::Held => "held",
        Outcome::Clamped => "clamped",
        Outcome::LeftToRefuse => "refused",
    };
    Answer { response, result }
}

/// The validating verdict on a workload, as it is going to be stored: it must be what the mutating one makes of it.
fn check(context: &Context, request: &Request) -> Answer {
    let why = match verdict(context, request) {
        Some(verdict) if verdict.outcome == Outcome::LeftToRefuse => {
            "its update strategy is none that kruise-rollout knows, so that it cannot be given back at the end of a release. Write \
             another one, or write it while no release is in progress"
                .to_owned()
        }
        Some(verdict) if !verdict.patch.0.is_empty() => format!(
            "another mutating webhook has changed the template or the hold after it had been looked at, so that pods would be updated \
             without a step of their Rollout. Take the workload out of that webhook's rules, or have it called before {}",
            context.area.name(names::WEBHOOK_CONFIGURATION)
        ),
        _ => {
            return Answer {
                response: json!({"allowed": true}),
                result: "accepted",
            };
        }
    };
    let message = format!("{} {}: {why}", request.kind.kind, request.name);
    Answer {
        response: json!({"allowed": false, "status": {"code": 403, "reason": "Forbidden", "message": message}}),
        result: "refused",
    }
}

/// The validating verdict on a Rollout.
fn examine(context: &Context, request: &Request) -> Answer {
    let refuse = |message: String| {
        let status = json!({"code": 422, "reason": "Invalid", "message": message});
        Answer {
            response: json!({"allowed": false, "status": status}),
            result: "refused",
        }
    };
    let new: Rollout = match serde_json::from_value(request.object.clone()) {
        Ok(rollout) => rollout,
        Err(error) => return refuse(format!("the Rollout cannot be read: {error}")),
    };
    let old: Option<Rollout> = serde_json::from_value(request.old_object.clone()).ok();
    let place = Place {
        namespace: request.namespace.clone(),
        workload: target_of(&new),
    };
    let rollouts = context.world.rollouts_of(&place);
    let others: Vec<_> = rollouts
        .iter()
        .filter_map(|rollout| WorkloadClaim::of(rollout))
        .collect();
    let review = review_rollout(&new, old.as_ref(), &others, context.area.own());
    if !review.refusals.is_empty() {
        return refuse(review.to_string());
    }
    let mut response = json!({"allowed": true});
    if !review.warnings.is_empty() {
        response["warnings"] = json!(review.warnings);
    }
    Answer {
        response,
        result: "accepted",
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use kruise_rollout::area::Area;
    use kruise_rollout::workload::{Guard, TemplateId};

    use super::*;
    use crate::webhook::alone;

    /// The most allocations in the review of a small object.
    const MOST_ALLOCATIONS: u64 = 400;

    /// A template change of an app with these annotations.
    fn review(annotations: &Value) -> Vec<u8> {
        let app = |image: &str| {
            json!({"metadata": {"name": "my-app", "uid": "u", "annotations": annotations},
                "spec": {"template": {"spec": {"containers": [{"image": image}]}}}})
        };
        let request = json!({"uid": "r", "kind": {"group": "example.io", "version": "v1", "kind": "MyStatefulApp"},
            "name": "my-app", "namespace": "shop", "object": app("v2"), "oldObject": app("v1")});
        json!({"request": request}).to_string().into_bytes()
    }

    async fn body(response: Response) -> Value {
        let bytes = axum::body::to_bytes(response.into_body(), 10_000).await.unwrap();
        serde_json::from_slice(&bytes).unwrap()
    }

    /// How often memory is allocated for the review of a held change, where so many Rollouts guard workloads.
    async fn allocations(rollouts: u32) -> u64 {
        let context = alone::context().unwrap();
        for number in 0..rollouts {
            let rollout = json!({
                "metadata": {"name": format!("ro-{number}"), "namespace": "shop"},
                "spec": {"strategy": {}, "workloadRef": {"apiVersion": "example.io/v1", "kind": "MyStatefulApp",
                    "name": if number == 0 { "my-app".to_owned() } else { format!("app-{number}") }}},
                "status": {"conditions": [{"type": "Guarded", "status": "True"}]},
            });
            context
                .world
                .put_rollout(serde_json::from_value(rollout).unwrap());
        }
        context.world.rollouts_known();
        let text = Guard::text("u", "ro-0", &TemplateId::of(&json!({})));
        let body = review(&json!({names::GUARDED_BY: text}));
        let review = || answer(&context, &body, judge).now_or_never().unwrap();
        // What is made once, such as a series of the metrics, is no part of it.
        review();
        allocation_counter::measure(|| drop(review())).count_total
    }

    #[tokio::test]
    async fn a_review_costs_the_same_among_few_and_many_rollouts() {
        let (few, many) = (allocations(10).await, allocations(1_000).await);
        assert_eq!(few, many);
        assert!(few <= MOST_ALLOCATIONS, "{few}");
    }

    /// A strategy that the API server takes, and we would not give back.
    #[tokio::test]
    async fn what_is_left_to_the_api_server_is_not_stored() {
        let context = alone::context().unwrap();
        context.world.rollouts_known();
        let text = Guard::text("u", "ro", &TemplateId::of(&json!({})));
        let web = |kind: &str, image: &str| {
            json!({"metadata": {"name": "web", "uid": "u", "annotations": {names::GUARDED_BY: text}},
                "spec": {"strategy": {"type": kind}, "template": {"spec": {"containers": [{"image": image}]}}}})
        };
        let request = json!({"uid": "r", "kind": {"group": "apps", "version": "v1", "kind": "Deployment"},
            "name": "web", "namespace": "shop", "object": web("Sideways", "v2"), "oldObject": web("Recreate", "v1")});
        let review = json!({"request": request}).to_string().into_bytes();
        let shown = body(answer(&context, &review, judge).await).await;
        assert_eq!(shown["response"]["allowed"], true);
        assert!(shown["response"]["patch"].is_null(), "{shown}");
        let stored = body(answer(&context, &review, check).await).await;
        assert_eq!(stored["response"]["allowed"], false);
        let message = stored["response"]["status"]["message"].as_str().unwrap();
        assert!(
            message.starts_with("Deployment web: its update strategy is none that kruise-rollout knows"),
            "{message}"
        );
    }

    #[tokio::test]
    async fn what_another_controller_governs_is_not_held() {
        let mut context = alone::context().unwrap();
        context.world.rollouts_known();
        let text = Guard::text("u", "ro", &TemplateId::of(&json!({})));
        let request = review(&json!({names::GUARDED_BY: text}));
        for (governed, holds) in [("shop", true), ("other", false)] {
            context.area = Area::of("ops", [governed.to_owned()]).unwrap();
            let held = body(answer(&context, &request, judge).await).await;
            assert_eq!(held["response"]["allowed"], true);
            assert_eq!(held["response"]["patch"].is_string(), holds, "{governed}");
            let confirmed = body(answer(&context, &request, check).await).await;
            assert_eq!(confirmed["response"]["allowed"], !holds, "{governed}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn r62_nobodys_is_not_said_before_the_rollouts_are_known() {
        let context = alone::context().unwrap();
        let unmarked = review(&json!({}));
        let early = answer(&context, &unmarked, judge).await;
        assert_eq!(early.status(), StatusCode::SERVICE_UNAVAILABLE);

        // A mark says enough.
        let text = Guard::text("u", "ro", &TemplateId::of(&json!({})));
        let marked = answer(&context, &review(&json!({names::GUARDED_BY: text})), judge).await;
        assert!(body(marked).await["response"]["patch"].is_string());

        let (waited, ()) = tokio::join!(answer(&context, &unmarked, judge), async {
            tokio::task::yield_now().await;
            context.world.rollouts_known();
        });
        let waited = body(waited).await;
        assert_eq!(waited["response"]["allowed"], true);
        assert!(waited["response"]["patch"].is_null());
    }
}
