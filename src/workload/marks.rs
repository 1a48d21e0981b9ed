//! The marks on a workload: the contract between admission and the controller, readable by everybody.

use serde_json::{Map, Value};

use super::Partition;
use super::template::TemplateId;
use crate::names;

/// Who governs a workload, from the annotation `guarded-by`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    /// UID of the workload that was marked. A mark with another UID came along with a copy and is void.
    pub uid: String,
    /// Name of the Rollout, in the workload's namespace.
    pub rollout: String,
    /// The template that is stable; `None` when this part of the mark cannot be read.
    pub stable: Option<TemplateId>,
}

impl Guard {
    /// The mark's text.
    #[must_use]
    pub fn text(uid: &str, rollout: &str, stable: &TemplateId) -> String {
        format!("{uid}/{rollout}/{stable}")
    }

    /// The mark's text in a release that another controller has begun: which template was stable is not known.
    #[must_use]
    pub fn text_of_left(uid: &str, rollout: &str) -> String {
        format!("{uid}/{rollout}/unknown")
    }

    fn read(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, '/');
        let (uid, rollout) = (parts.next()?, parts.next()?);
        if uid.is_empty() || rollout.is_empty() {
            return None;
        }
        let stable = parts.next().and_then(|id| id.parse().ok());
        Some(Self {
            uid: uid.to_owned(),
            rollout: rollout.to_owned(),
            stable,
        })
    }
}

/// What people last asked for where the hold is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Original {
    /// The manifest has no partition.
    Absent,
    /// The manifest has this partition.
    Partition(Partition),
    /// The manifest has these values in the fields of [`super::Means::Held`], by their dotted paths, and none in the others.
    Fields(Map<String, Value>),
}

impl Original {
    /// What an object asks for.
    #[must_use]
    pub fn of(partition: Option<Partition>) -> Self {
        partition.map_or(Self::Absent, Self::Partition)
    }

    /// Reads the annotation's value; `None` when it is neither [`names::NO_PARTITION`] nor a decimal integer from 0 nor a
    /// percentage nor a JSON object.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        if text == names::NO_PARTITION {
            Some(Self::Absent)
        } else {
            let count = read_count(text).map(Partition::Count);
            let partition = count.or_else(|| Partition::read_percent(text));
            let fields = || serde_json::from_str(text).ok().map(Self::Fields);
            partition.map(Self::Partition).or_else(fields)
        }
    }

    /// The annotation's value.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Absent => names::NO_PARTITION.to_owned(),
            Self::Partition(partition) => partition.to_string(),
            Self::Fields(fields) => Value::Object(fields.clone()).to_string(),
        }
    }

    /// The values of fields that people ask for; none where the mark was lost or is of another kind.
    #[must_use]
    pub fn fields(&self) -> Map<String, Value> {
        match self {
            Self::Fields(fields) => fields.clone(),
            Self::Absent | Self::Partition(_) => Map::new(),
        }
    }

    /// Whether this partition keeps pods back once it is restored.
    #[must_use]
    pub const fn keeps_back(&self) -> bool {
        match self {
            Self::Absent | Self::Fields(_) => false,
            Self::Partition(Partition::Count(count)) => *count > 0,
            Self::Partition(Partition::Percent(percent)) => *percent > 0,
        }
    }
}

/// The marks of a release in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The lowest partition that is allowed now. A grant that is missing or cannot be read grants nothing, that is
    /// [`names::HOLD_PARTITION`].
    pub granted: i64,
    /// The annotation as it stands, for tests in patches.
    pub granted_text: Option<String>,
    /// What to restore at the end.
    pub original: Original,
}

impl Hold {
    /// Whether this partition is the grant itself, and so a state of ours rather than what a person asks for.
    #[must_use]
    pub fn is_echoed_by(&self, partition: Option<Partition>) -> bool {
        let count = partition.and_then(Partition::count);
        self.granted_text.is_some() && self.granted_text == count.map(|count| count.to_string())
    }
}

/// All marks of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Present while a Rollout governs the workload, or when a copy brought the mark along.
    pub guard: Option<Guard>,
    /// Present during a release.
    pub hold: Option<Hold>,
    /// Name of the Rollout for which the existing controller has left a release in the middle. It knows
    /// [`names::IN_PROGRESSING`], and no other mark of ours.
    pub left_for: Option<String>,
}

impl Marks {
    /// Reads the marks from `metadata.annotations`.
    #[must_use]
    pub fn read(annotations: &Map<String, Value>) -> Self {
        let text = |name: &str| annotations.get(name).and_then(Value::as_str);
        let hold = annotations.contains_key(names::IN_PROGRESSING).then(|| Hold {
            granted: text(names::GRANTED_PARTITION)
                .and_then(read_count)
                .unwrap_or(names::HOLD_PARTITION),
            granted_text: text(names::GRANTED_PARTITION).map(str::to_owned),
            original: text(names::ORIGINAL_PARTITION)
                .and_then(Original::read)
                .unwrap_or(Original::Absent),
        });
        let ours = [
            names::GUARDED_BY,
            names::GRANTED_PARTITION,
            names::ORIGINAL_PARTITION,
        ];
        let named = |mark: &str, member: &str| -> Option<String> {
            let mark: Value = serde_json::from_str(text(mark)?).ok()?;
            mark[member].as_str().map(str::to_owned)
        };
        let left = || {
            named(names::IN_PROGRESSING, "rolloutName").or_else(|| named(names::LEGACY_CONTROL_INFO, "name"))
        };
        let marked = ours.iter().any(|mark| annotations.contains_key(*mark));
        Self {
            guard: text(names::GUARDED_BY).and_then(Guard::read),
            hold,
            left_for: if marked { None } else { left() },
        }
    }

    /// The guard, unless the mark is void for the object with this UID.
    #[must_use]
    pub fn guard_of(&self, uid: &str) -> Option<&Guard> {
        self.guard.as_ref().filter(|guard| guard.uid == uid)
    }
}

/// A decimal count of at most ten digits, the form that the policies accept too.
#[must_use]
pub fn read_count(text: &str) -> Option<i64> {
    let decimal = (1..=10).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    decimal.then(|| text.parse().ok()).flatten()
}

/// The value of the annotation `in-progressing`, which existing tools read.
#[must_use]
pub fn in_progressing(rollout: &str) -> String {
    serde_json::json!({ "rolloutName": rollout }).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn marks(annotations: Value) -> Marks {
        Marks::read(annotations.as_object().unwrap())
    }

    #[test]
    fn a_grant_that_cannot_be_read_grants_nothing() {
        for grant in [
            json!("abc"),
            json!(""),
            json!("-1"),
            json!("1e3"),
            json!("12345678901"),
            json!(4),
            Value::Null,
        ] {
            let hold = marks(json!({names::IN_PROGRESSING: "{}", names::GRANTED_PARTITION: grant}))
                .hold
                .unwrap();
            assert_eq!(hold.granted, names::HOLD_PARTITION, "{grant}");
        }
        let hold = marks(json!({names::IN_PROGRESSING: "{}", names::GRANTED_PARTITION: "4"}))
            .hold
            .unwrap();
        assert_eq!(hold.granted, 4);
    }

    #[test]
    fn what_people_asked_for_is_read_as_it_was_written() {
        for (text, original) in [
            ("none", Some(Original::Absent)),
            ("0", Some(Original::Partition(Partition::Count(0)))),
            ("20%", Some(Original::Partition(Partition::Percent(20)))),
            ("020%", None),
            ("", None),
            ("junk", None),
        ] {
            assert_eq!(Original::read(text), original, "{text}");
            assert!(original.is_none_or(|original| original.text() == text));
        }
        let keeps_back = |text| Original::read(text).unwrap().keeps_back();
        assert!(keeps_back("1") && keeps_back("1%"));
        assert!(!keeps_back("none") && !keeps_back("0") && !keeps_back("0%"));
    }

    #[test]
    fn a_mark_of_another_object_is_void() {
        let stable = TemplateId::of(&json!({"a": 1}));
        let marks = marks(json!({names::GUARDED_BY: Guard::text("u1", "ro", &stable)}));
        assert_eq!(marks.guard_of("u1").unwrap().stable, Some(stable));
        assert_eq!(marks.guard_of("u2"), None);
    }

    #[test]
    fn what_the_existing_controller_leaves_names_its_rollout() {
        let left = |annotations| marks(annotations).left_for;
        let owner = json!({"kind": "BatchRelease", "name": "ro", "uid": "b"}).to_string();
        let by_webhook = json!({names::IN_PROGRESSING: in_progressing("ro")});
        let in_release =
            json!({names::IN_PROGRESSING: in_progressing("ro"), names::LEGACY_CONTROL_INFO: owner});
        let at_the_end = json!({names::LEGACY_CONTROL_INFO: owner});
        for annotations in [by_webhook, in_release, at_the_end] {
            assert_eq!(left(annotations.clone()).as_deref(), Some("ro"), "{annotations}");
        }
        for ours in [
            names::GUARDED_BY,
            names::GRANTED_PARTITION,
            names::ORIGINAL_PARTITION,
        ] {
            assert_eq!(
                left(json!({names::IN_PROGRESSING: in_progressing("ro"), ours: "x"})),
                None,
                "{ours}"
            );
        }
        for unreadable in ["", "{}", "true", r#"{"rolloutName":1}"#] {
            assert_eq!(
                left(json!({names::IN_PROGRESSING: unreadable})),
                None,
                "{unreadable}"
            );
        }
    }

    #[test]
    fn a_mark_of_another_version_still_names_its_rollout() {
        let guard = marks(json!({names::GUARDED_BY: "u1/ro/v9:whatever/else"}))
            .guard
            .unwrap();
        assert_eq!((guard.rollout.as_str(), guard.stable), ("ro", None));
        assert_eq!(marks(json!({names::GUARDED_BY: "u1"})).guard, None);
    }
}
