//! Guarding a workload, proven step by step.
//!
//! The stable template is recorded; a dry-run sets the hold partition, which must come back as sent, else no mark is set, so that
//! nobody's update can fail because of us; the mark is set; a dry-run changes the template under our own identity, which must come
//! back held. What the server answered instead is the message of the condition.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use json_patch::Patch as JsonPatch;
use kruise_rollout::lens::PatchBuilder;
use kruise_rollout::names;
use kruise_rollout::rollout::{Proof, Workload, is_left, why};
use kruise_rollout::workload::{Adapter, Guard, NotKept, View, adapter_for};
use kube::ResourceExt as _;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::{Error, is_verdict, record};
use crate::context::{Context, dry_run_params, patch_params};
use crate::triggers::put_answer;
use crate::world::{Key, Place, Snapshot};

/// How long a fresh registration may take to be written; a worker waits so long.
const REGISTERED_WITHIN: Duration = Duration::from_millis(500);
/// How long it may then take to become active on the API server.
const ACTIVE_WITHIN: Duration = Duration::from_secs(1);
/// Pause between the first two looks whether it is; it doubles from one to the next.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// When a workload that could not be guarded is tried again although nothing changed.
const RETRY: SignedDuration = SignedDuration::from_secs(15);

/// Why a workload cannot be guarded.
struct Refusal {
    reason: &'static str,
    message: String,
}

impl Refusal {
    fn new(reason: &'static str, message: String) -> Self {
        Self { reason, message }
    }
}

/// What stopped the procedure: the workload's nature, or the way to it.
enum Stop {
    Refused(Refusal),
    Failed(Error),
}

impl From<kube::Error> for Stop {
    fn from(error: kube::Error) -> Self {
        Self::Failed(error.into())
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// Guards the target of a Rollout, or finds out why it cannot be. The result is remembered and looked at next.
pub(super) async fn guard(context: &Context, key: &Key, snapshot: &Snapshot) -> Result<(), Error> {
    let Some(Ok(seen)) = &snapshot.seen else {
        return Ok(());
    };
    let Some(workload) = &snapshot.workload else {
        return Ok(());
    };
    let settles = context.world.settles_in(&workload.kind);
    if !settles.is_zero() {
        return Err(Error::Later(settles));
    }
    let proof = match prove(context, key, snapshot, workload).await {
        Ok(()) => Proof::Proven,
        Err(Stop::Failed(error)) => return Err(error),
        Err(Stop::Refused(Refusal { reason, message })) => Proof::Refused {
            reason,
            message,
            retry: Timestamp::now() + RETRY,
        },
    };
    context.metrics.acted("guard");
    context.world.prove(key, &seen.uid, proof);
    context.queue.push(key.clone());
    Ok(())
}

async fn prove(context: &Context, key: &Key, snapshot: &Snapshot, workload: &Workload) -> Result<(), Stop> {
    let Some(rollout) = &snapshot.rollout else {
        return Ok(());
    };
    let place = Place {
        namespace: key.namespace.clone(),
        workload: workload.clone(),
    };
    let api = context.api(&place).ok_or(Error::NoKind)?;
    let adapter = adapter_for(&workload.kind).ok_or(Error::NoKind)?;
    registered(context, workload).await?;
    let object = api.get(&workload.name).await?;
    let subject = Subject::read(adapter, &object)?;
    if subject.view.hold().is_some() {
        // A release has begun meanwhile: the hold has proven itself.
        put_answer(context, &place, object);
        return Ok(());
    }
    if !subject.template.is_object() {
        return Err(Stop::Refused(Refusal::new(
            why::NO_TEMPLATE,
            format!(
                "{workload} has no spec.template: there is nothing to roll out. Set it, or refer to another workload"
            ),
        )));
    }
    can_be_held(&api, &subject, workload).await?;
    let marked = match subject.view.guard() {
        Some(guard) if guard.rollout == key.name => object,
        _ if is_left(rollout, &subject.view) => {
            // Which template was stable is not known, so there is none to record.
            let patch: Patch<()> = Patch::Json(adapter.take_over(&subject.view, &key.name).build());
            let taken = api.patch(&workload.name, &patch_params(), &patch).await?;
            tracing::info!(rollout = %key, %workload, "Takes over a release that another controller has begun.");
            taken
        }
        _ => {
            record::record(context, rollout, &subject.template).await?;
            mark(&api, &subject, key, &object).await?
        }
    };
    let subject = Subject::read(adapter, &marked)?;
    put_answer(context, &place, marked);
    if let Err(stop) = is_held(context, &api, &subject, workload).await {
        if matches!(stop, Stop::Refused(_)) {
            let unmarked = unmark(&api, &subject, workload).await?;
            put_answer(context, &place, unmarked);
        }
        return Err(stop);
    }
    Ok(())
}

/// The workload as it was read.
struct Subject {
    adapter: &'static dyn Adapter,
    view: View,
    template: Value,
}

impl Subject {
    fn read(adapter: &'static dyn Adapter, object: &DynamicObject) -> Result<Self, Error> {
        let value = serde_json::to_value(object)?;
        // A field that cannot be read is said by the next decision, which sees the same object.
        let view = adapter.view(&value).map_err(serde::de::Error::custom);
        let view = view.map_err(Error::Json)?;
        Ok(Self {
            adapter,
            view,
            template: value["spec"]["template"].clone(),
        })
    }

    /// A patch that holds only against the same generation of the same object.
    fn patch(&self) -> PatchBuilder {
        PatchBuilder::new(self.view.skeleton.value())
            .test(["metadata", "uid"], json!(self.view.uid))
            .test(["metadata", "generation"], json!(self.view.generation))
    }

    /// Asks for everything beside a probe: a workload that is held already would look held without anybody's doing.
    fn opened(&self) -> JsonPatch {
        let open = PatchBuilder::new(self.view.skeleton.value());
        self.adapter.paths().means.put(open, 0).build()
    }
}

/// Waits until the kind is registered.
async fn registered(context: &Context, workload: &Workload) -> Result<(), Stop> {
    let mut kinds = context.registered.subscribe();
    let registered = kinds.wait_for(|kinds| kinds.contains(&workload.kind));
    match timeout(REGISTERED_WITHIN, registered).await {
        Ok(_) => Ok(()),
        Err(_) => Err(Stop::Refused(Refusal::new(
            why::NOT_REGISTERED,
            format!(
                "{} cannot be guarded: the controller could not register it with the API server. Look at the \
                 controller's log for why the MutatingWebhookConfiguration {} cannot be written",
                workload.kind,
                context.area.name(names::WEBHOOK_CONFIGURATION)
            ),
        ))),
    }
}

/// Dry-run: the hold partition must come back as sent.
async fn can_be_held(api: &Api<DynamicObject>, subject: &Subject, workload: &Workload) -> Result<(), Stop> {
    let means = &subject.adapter.paths().means;
    let patch = means.put(subject.patch(), names::HOLD_PARTITION).build();
    match send(api, workload, &dry_run_params(), patch).await {
        Ok(answer) => match means.not_kept(&answer, names::HOLD_PARTITION) {
            None => Ok(()),
            Some(not_kept) => Err(Stop::Refused(Refusal::new(
                why::PARTITION_NOT_KEPT,
                not_as_sent(subject.adapter, &not_kept, workload),
            ))),
        },
        Err(kube::Error::Api(status)) if is_verdict(&status) => Err(Stop::Refused(Refusal::new(
            why::PARTITION_REFUSED,
            format!(
                "{workload} cannot be held: the API server refuses {}: {}. The schema of {} must allow it",
                hold_as_sent(subject.adapter),
                status.message,
                workload.kind
            ),
        ))),
        Err(error) => Err(error.into()),
    }
}

/// The hold in words, as the dry-run sends it.
fn hold_as_sent(adapter: &dyn Adapter) -> String {
    let paths: Vec<_> = adapter
        .paths()
        .means
        .paths()
        .iter()
        .map(|path| path.join("."))
        .collect();
    match adapter.partition_path() {
        Some(_) => format!("{} as {}", names::HOLD_PARTITION, paths.join(", ")),
        None => format!("a change of {}", paths.join(", ")),
    }
}

fn not_as_sent(adapter: &dyn Adapter, not_kept: &NotKept, workload: &Workload) -> String {
    let NotKept { path, written, found } = not_kept;
    let written = written
        .as_ref()
        .map_or_else(|| "removed".to_owned(), |value| format!("set to {value}"));
    let found = found
        .as_ref()
        .map_or_else(|| "not at all".to_owned(), |value| format!("as {value}"));
    let remedy = match adapter.partition_path() {
        Some(_) => format!(
            "The schema of {} must have this field as an integer, and no other webhook may change it",
            workload.kind
        ),
        None => "No other webhook may change it".to_owned(),
    };
    format!("{workload} cannot be held: {path} was {written} in a dry-run and came back {found}. {remedy}")
}

/// Sets the guard mark, against the very object that was read.
async fn mark(
    api: &Api<DynamicObject>,
    subject: &Subject,
    key: &Key,
    object: &DynamicObject,
) -> Result<DynamicObject, Stop> {
    let text = Guard::text(&subject.view.uid, &key.name, &subject.view.template);
    let patch = json!({"metadata": {
        "uid": subject.view.uid,
        "resourceVersion": subject.view.resource_version,
        "annotations": {names::GUARDED_BY: text},
    }});
    Ok(api
        .patch(&object.name_any(), &patch_params(), &Patch::Merge(patch))
        .await?)
}

/// Takes the guard mark away, and those that came with it where a release was taken over: the next attempt finds it as it was left.
async fn unmark(
    api: &Api<DynamicObject>,
    subject: &Subject,
    workload: &Workload,
) -> Result<DynamicObject, Stop> {
    let path = |mark: &'static str| ["metadata", "annotations", mark];
    let text = subject.view.skeleton.value()["metadata"]["annotations"][names::GUARDED_BY].clone();
    let patch = subject.patch().test(path(names::GUARDED_BY), text);
    let marks = [
        names::GUARDED_BY,
        names::GRANTED_PARTITION,
        names::ORIGINAL_PARTITION,
    ];
    let patch = marks
        .into_iter()
        .fold(patch, |patch, mark| patch.remove(&path(mark)));
    let patch: Patch<()> = Patch::Json(patch.build());
    Ok(api.patch(&workload.name, &patch_params(), &patch).await?)
}

/// Dry-run under our own identity: a changed template must come back held. A registration takes some milliseconds to become
/// active, so an answer that is not held is believed only after a while.
async fn is_held(
    context: &Context,
    api: &Api<DynamicObject>,
    subject: &Subject,
    workload: &Workload,
) -> Result<(), Stop> {
    let configuration = context.area.name(names::WEBHOOK_CONFIGURATION);
    let deadline = Instant::now() + ACTIVE_WITHIN;
    // Where a release was taken over, the workload is held already.
    let held_already = subject.view.hold().is_some();
    let opened = |mut probe: JsonPatch| {
        if held_already {
            probe.0.extend(subject.opened().0);
        }
        probe
    };
    let mut probe = opened(probe_annotation(subject));
    let mut pause = LOOK_AGAIN;
    loop {
        let refusal = match send(api, workload, &dry_run_params(), probe.clone()).await {
            Ok(answer) if held(subject, &answer) => return Ok(()),
            Ok(answer) if answer["spec"]["template"] == subject.template => {
                // The schema drops annotations of the template; an image it must have.
                match probe_image(subject).map(opened) {
                    Some(by_image) if by_image != probe => {
                        probe = by_image;
                        continue;
                    }
                    _ => Refusal::new(
                        why::TEMPLATE_NOT_KEPT,
                        format!(
                            "{workload} cannot be guarded: a change of spec.template in a dry-run was dropped by the server"
                        ),
                    ),
                }
            }
            Ok(_) => Refusal::new(
                why::TEMPLATE_NOT_HELD,
                format!(
                    "{workload} is not guarded: a template change came back from a dry-run without being held. Is another \
                     webhook changing the partition, or is the MutatingWebhookConfiguration {configuration} overwritten?"
                ),
            ),
            Err(kube::Error::Api(status)) if status.code == 500 || is_verdict(&status) => Refusal::new(
                why::PROBE_REFUSED,
                format!(
                    "{workload} is not guarded: the API server answers a template change: {}",
                    status.message
                ),
            ),
            Err(error) => return Err(error.into()),
        };
        if Instant::now() >= deadline {
            return Err(Stop::Refused(refusal));
        }
        sleep(pause).await;
        pause *= 2;
    }
}

/// Whether a template change that the webhook is not asked about comes back held from a dry-run. It asks for partition 0 as well: a
/// workload that is held already would look held without anybody's doing.
pub(crate) async fn is_held_by_policies(context: &Context, place: &Place) -> Result<bool, Error> {
    let api = context.api(place).ok_or(Error::NoKind)?;
    let adapter = adapter_for(&place.workload.kind).ok_or(Error::NoKind)?;
    let subject = Subject::read(adapter, &api.get(&place.workload.name).await?)?;
    let params = PatchParams {
        field_manager: Some(names::POLICY_PROBE.to_owned()),
        ..dry_run_params()
    };
    for probe in [Some(probe_annotation(&subject)), probe_image(&subject)] {
        let Some(mut probe) = probe else { break };
        probe.0.extend(subject.opened().0);
        match send(&api, &place.workload, &params, probe).await {
            // The schema drops annotations of the template; an image it must have.
            Ok(answer) if answer["spec"]["template"] == subject.template => {}
            Ok(answer) => return Ok(held(&subject, &answer)),
            Err(kube::Error::Api(status)) if status.code == 500 || is_verdict(&status) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(false)
}

fn held(subject: &Subject, answer: &Value) -> bool {
    let view = subject.adapter.view(answer);
    answer["spec"]["template"] != subject.template
        // A partition that is higher already stays where it is.
        && view.is_ok_and(|view| view.partition_in_force() >= names::HOLD_PARTITION)
        && answer["metadata"]["annotations"]
            .get(names::IN_PROGRESSING)
            .is_some()
}

fn probe_annotation(subject: &Subject) -> JsonPatch {
    let skeleton = json!({"spec": {"template": {"metadata": subject.template["metadata"]}}});
    let probe = PatchBuilder::new(skeleton)
        .test(["metadata", "uid"], json!(subject.view.uid))
        .test(["metadata", "generation"], json!(subject.view.generation));
    probe
        .set(
            &["spec", "template", "metadata", "annotations", names::GUARD_PROBE],
            json!("dry-run"),
        )
        .build()
}

fn probe_image(subject: &Subject) -> Option<JsonPatch> {
    let image = subject.template["spec"]["containers"][0]["image"].as_str()?;
    let path = ["spec", "template", "spec", "containers", "0", "image"];
    let mut patch = subject.patch().build();
    patch.0.push(json_patch::PatchOperation::Replace(
        json_patch::ReplaceOperation {
            path: kruise_rollout::lens::pointer(path),
            value: json!(format!("{image}-guard-probe")),
        },
    ));
    Some(patch)
}

async fn send(
    api: &Api<DynamicObject>,
    workload: &Workload,
    params: &PatchParams,
    patch: JsonPatch,
) -> kube::Result<Value> {
    let patch: Patch<()> = Patch::Json(patch);
    let object = api.patch(&workload.name, params, &patch).await?;
    Ok(serde_json::to_value(object).unwrap_or_default())
}
