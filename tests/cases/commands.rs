//! The commands that write, each as who may, against the controller and the example operator.

mod dry;
mod race;
mod reported;
mod undo;
mod verbs;

use kruise_rollout::names;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use support::{Entry, Identity, Mark, eventually};

use crate::plugin::{Said, kruise};
use crate::scene::{ROLLOUT, SOON, Scene};

/// The Rollout, as commands name it.
fn rollout() -> String {
    format!("rollout/{ROLLOUT}")
}

/// `kubectl kruise rollout VERB` of the scene's Rollout.
async fn run(scene: &Scene<'_>, who: Identity, verb: &str, more: &[&str]) -> Said {
    let target = rollout();
    kruise(scene, who, &[&["rollout", verb, &target], more].concat()).await
}

/// The same where it has to succeed.
async fn done(scene: &Scene<'_>, who: Identity, verb: &str, more: &[&str]) -> Said {
    let said = run(scene, who, verb, more).await;
    assert_eq!(said.code, 0, "{verb} {more:?}: {said:?}");
    said
}

/// The same where it has to be refused, in these words.
async fn refused(scene: &Scene<'_>, who: Identity, verb: &str, more: &[&str], words: &str) {
    let said = run(scene, who, verb, more).await;
    assert_eq!(said.code, 1, "{verb} {more:?}: {said:?}");
    assert!(said.talk.contains(words), "{verb} {more:?}: {said:?}");
}

/// The end of the audit log, with all that was asked for before it.
async fn settled(scene: &Scene<'_>) -> Mark {
    let audit = scene.namespace.control_plane().audit();
    let before = audit.mark();
    // The log is in order: what was asked for before this is there with it.
    let own = "the-end";
    let patch = json!({"metadata": {"annotations": {"example.io/looked": own}}});
    let params = PatchParams {
        field_manager: Some(own.to_owned()),
        ..PatchParams::default()
    };
    scene
        .rollouts(&scene.admin)
        .patch(ROLLOUT, &params, &Patch::Merge(patch))
        .await
        .unwrap();
    eventually(SOON, "the audit log has everything", async || {
        let seen = audit.since(before);
        let there = seen
            .iter()
            .any(|entry| entry.field_manager == own && entry.namespace == scene.namespace.name());
        there.then_some(()).ok_or("not yet")
    })
    .await;
    audit.mark()
}

/// The kind that a case enables by dry-runs, and that nobody enables in earnest. Its ClusterRole has no namespace.
const DRY_KIND: &str = "dryapps.example.io";

/// What people have asked the API server to change in the scene's namespace since then, or to pretend to.
fn asked(scene: &Scene<'_>, since: Mark) -> Vec<Entry> {
    let people = [Identity::Developer, Identity::Approver].map(Identity::user);
    let entries = scene.namespace.control_plane().audit().since(since);
    let ours = |entry: &Entry| {
        let changes = entry.is_write() || entry.dry_run;
        let plugin = entry.field_manager == names::PLUGIN_FIELD_MANAGER;
        changes
            && (entry.namespace == scene.namespace.name() || entry.name.ends_with(DRY_KIND))
            && (plugin || people.contains(&entry.user.as_str()))
    };
    entries.into_iter().filter(ours).collect()
}
