//! Revisions of the template, recorded as ControllerRevisions that the app owns.

use std::collections::HashSet;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use kube::api::ObjectMeta;
use serde_json::{Value, json};

use crate::kind::{Kind, Owner, label_value};
use crate::observed::Observable;

/// Longest part of the app's name that goes into a revision's name: with the hash it is a pod label.
const NAME_PART: usize = 52;

/// A recorded template.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Revision {
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) owner: Owner,
    /// Position in the history; the highest is the update revision.
    pub(crate) number: i64,
    pub(crate) template: Arc<Value>,
    /// Marked as the current one, which is done when the status does not say it.
    pub(crate) current: bool,
}

impl Observable for Revision {
    type Object = ControllerRevision;

    fn view(kind: &Kind, owner: Owner, object: ControllerRevision) -> Option<Self> {
        let annotations = object.metadata.annotations.as_ref();
        let current = annotations.is_some_and(|all| all.contains_key(&kind.current_annotation));
        let mut data = object.data?.0;
        Some(Revision {
            name: object.metadata.name?,
            uid: object.metadata.uid?,
            owner,
            number: object.revision,
            template: Arc::new(data.pointer_mut("/spec/template")?.take()),
            current,
        })
    }
}

/// Names of the two revisions that pods may be on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Revisions {
    pub(crate) current: String,
    pub(crate) update: String,
}

impl Revisions {
    /// The current revision is the one that was last completed; an app without one starts with the update revision.
    pub(crate) fn of(history: &[Revision], update: &str, reported_current: Option<&str>) -> Revisions {
        let known = |name: &&str| history.iter().any(|revision| revision.name == *name);
        let marked = history
            .iter()
            .filter(|revision| revision.current)
            .max_by_key(|revision| revision.number);
        let current = reported_current
            .filter(known)
            .or(marked.map(|revision| revision.name.as_str()));
        Revisions {
            current: current.unwrap_or(update).to_owned(),
            update: update.to_owned(),
        }
    }
}

/// What makes a template the latest one of a history.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Record {
    /// It is.
    Latest { name: String },
    /// An earlier revision has this template: it gets the next number and keeps its name.
    Renumber { name: String, number: i64 },
    /// No revision has it.
    Create { name: String, number: i64 },
}

/// Decides how `template` is recorded. `taken` are names that belong to objects outside of the history.
pub(crate) fn record(app: &str, template: &Value, history: &[Revision], taken: &HashSet<String>) -> Record {
    let latest = history.iter().max_by_key(|revision| revision.number);
    let equal = history
        .iter()
        .filter(|revision| *revision.template == *template)
        .max_by_key(|revision| revision.number);
    let number = latest.map_or(1, |revision| revision.number + 1);
    match (equal, latest) {
        (Some(equal), Some(latest)) if equal.number == latest.number => Record::Latest {
            name: equal.name.clone(),
        },
        (Some(equal), _) => Record::Renumber {
            name: equal.name.clone(),
            number,
        },
        (None, _) => Record::Create {
            name: free_name(app, template, history, taken),
            number,
        },
    }
}

fn free_name(app: &str, template: &Value, history: &[Revision], taken: &HashSet<String>) -> String {
    let bytes = template.to_string().into_bytes();
    let prefix: String = app.chars().take(NAME_PART).collect();
    let mut collisions = 0;
    loop {
        let name = format!("{prefix}-{}", safe(fnv(&bytes, collisions)));
        if !taken.contains(&name) && history.iter().all(|revision| revision.name != name) {
            return name;
        }
        collisions += 1;
    }
}

/// 32-bit FNV-1a.
pub(crate) fn fnv(bytes: &[u8], salt: u32) -> u32 {
    let salted = bytes
        .iter()
        .copied()
        .chain(salt.to_le_bytes().into_iter().filter(|_| salt > 0));
    salted.fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

/// A number in letters and digits that form no words and are not mistaken for each other.
fn safe(hash: u32) -> String {
    const LETTERS: &[u8; 10] = b"bcdf2456xz";
    hash.to_string()
        .bytes()
        .map(|digit| char::from(LETTERS[usize::from(digit - b'0')]))
        .collect()
}

/// Revisions beyond the history limit that no pod and neither pointer needs, oldest first.
pub(crate) fn expendable<'h>(
    history: &'h [Revision],
    revisions: &Revisions,
    on_pods: &HashSet<&str>,
    limit: usize,
) -> Vec<&'h Revision> {
    let needed = |name: &str| name == revisions.current || name == revisions.update || on_pods.contains(name);
    let mut spare: Vec<_> = history
        .iter()
        .filter(|revision| !needed(&revision.name))
        .collect();
    spare.sort_by_key(|revision| revision.number);
    spare.truncate(spare.len().saturating_sub(limit));
    spare
}

/// The object that records a template.
pub(crate) fn manifest(
    kind: &Kind,
    app: &crate::app::App,
    name: String,
    number: i64,
    template: &Value,
) -> ControllerRevision {
    ControllerRevision {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: Some(app.namespace.clone()),
            labels: Some([(kind.name_label.clone(), label_value(&app.name))].into()),
            owner_references: Some(vec![kind.controller_reference(&app.name, &app.uid)]),
            ..ObjectMeta::default()
        },
        data: Some(RawExtension(json!({"spec": {"template": template}}))),
        revision: number,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn revision(name: &str, number: i64, template: Value) -> Revision {
        Revision {
            name: name.to_owned(),
            uid: format!("uid-{name}"),
            owner: Owner::App("u".to_owned()),
            number,
            template: Arc::new(template),
            current: false,
        }
    }

    #[test]
    fn a_template_keeps_its_name_through_the_history() {
        let none = HashSet::new();
        let Record::Create { name: v1, number: 1 } = record("my-app", &json!({"v": 1}), &[], &none) else {
            unreachable!()
        };
        let mut history = vec![revision(&v1, 1, json!({"v": 1}))];
        assert_eq!(
            record("my-app", &json!({"v": 1}), &history, &none),
            Record::Latest { name: v1.clone() }
        );

        let Record::Create { name: v2, number: 2 } = record("my-app", &json!({"v": 2}), &history, &none)
        else {
            unreachable!()
        };
        history.push(revision(&v2, 2, json!({"v": 2})));
        let back = record("my-app", &json!({"v": 1}), &history, &none);
        assert_eq!(back, Record::Renumber { name: v1, number: 3 });
    }

    #[test]
    fn a_name_in_use_is_not_taken_twice() {
        let create = |taken: &HashSet<String>| match record("my-app", &json!({"v": 1}), &[], taken) {
            Record::Create { name, .. } => name,
            other => unreachable!("{other:?}"),
        };
        let first = create(&HashSet::new());
        assert_ne!(create(&[first.clone()].into()), first);
    }

    #[test]
    fn names_fit_a_label() {
        let Record::Create { name, .. } = record(&"a".repeat(200), &json!({}), &[], &HashSet::new()) else {
            unreachable!()
        };
        assert!(name.len() <= 63, "{name}");
    }

    #[test]
    fn the_current_revision_is_the_reported_one_then_the_marked_one_then_the_update() {
        let mut history = vec![revision("v1", 1, json!(1)), revision("v2", 2, json!(2))];
        let current =
            |history: &[Revision], reported: Option<&str>| Revisions::of(history, "v2", reported).current;
        assert_eq!(current(&history, None), "v2");
        assert_eq!(current(&history, Some("v1")), "v1");
        assert_eq!(current(&history, Some("gone")), "v2");
        history[0].current = true;
        assert_eq!(current(&history, None), "v1");
    }

    #[test]
    fn history_beyond_the_limit_goes_oldest_first() {
        let history: Vec<_> = (1..=6).map(|n| revision(&format!("v{n}"), n, json!(n))).collect();
        let revisions = Revisions {
            current: "v1".to_owned(),
            update: "v6".to_owned(),
        };
        let names = |limit| -> Vec<_> {
            let on_pods = HashSet::from(["v2"]);
            expendable(&history, &revisions, &on_pods, limit)
                .iter()
                .map(|r| r.name.clone())
                .collect()
        };
        assert_eq!(names(10), Vec::<String>::new());
        assert_eq!(names(1), ["v3", "v4"]);
    }
}
