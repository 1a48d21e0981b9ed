//! How workloads of a kind are held: by a partition that their operator heeds, or by fields that keep it from moving any pod.

use serde_json::{Map, Value, json};

use super::marks::{Hold, Original};
use super::partition::Partition;
use crate::lens::{Field, FieldError, PatchBuilder, Scalar as _};
use crate::names;

/// What holds a kind back.
#[derive(Debug)]
pub enum Means {
    /// Its operator keeps back as many pods as this field says. The kind has to take a count of [`names::HOLD_PARTITION`] there.
    Partition(Field<Partition>),
    /// Its operator moves no pod while some fields are as they are held: what the mark grants is moved by us, by
    /// [`super::Adapter::drive`]. What people ask for in these fields is remembered by the mark of the original.
    Held(Held),
}

/// The fields that hold a kind, and what people may ask for in their place.
#[derive(Debug)]
pub struct Held {
    /// The fields, all below `spec`.
    pub fields: &'static [HeldField],
    /// The member names from the root of the strategy, which some of the fields are a part of.
    pub strategy: &'static [&'static str],
    /// Whether the API server takes such a strategy. While the fields are held it does not see it, and afterwards nobody is there any
    /// more whom it could tell.
    pub takes: fn(&Value) -> bool,
}

/// One field that holds.
#[derive(Debug)]
pub struct HeldField {
    /// The member names from the root.
    pub path: &'static [&'static str],
    /// How it is while it holds.
    pub fixed: Fixed,
}

/// What a held field is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fixed {
    /// This text.
    Text(&'static str),
    /// Set.
    True,
    /// Not there; otherwise it has members.
    Absent,
}

impl Fixed {
    /// The value; `None` where the field is not to be there.
    #[must_use]
    pub fn value(self) -> Option<Value> {
        match self {
            Self::Text(text) => Some(json!(text)),
            Self::True => Some(json!(true)),
            Self::Absent => None,
        }
    }
}

impl HeldField {
    /// The key of the field in the mark of the original.
    fn key(&self) -> String {
        self.path.join(".")
    }

    fn is_held(&self, object: &Value) -> bool {
        present(object, self.path) == self.fixed.value().as_ref()
    }

    /// Whether such a value has a place there at all; one of another type could not even be read by the API server.
    fn may_be(&self, value: &Value) -> bool {
        match self.fixed {
            Fixed::Text(_) => value.is_string(),
            Fixed::True => value.is_boolean(),
            Fixed::Absent => value.is_object(),
        }
    }

    fn write(&self, patch: PatchBuilder, value: Option<&Value>) -> PatchBuilder {
        match value {
            Some(value) => patch.set(self.path, value.clone()),
            // Admission may have made the parents; they go with it, up to `spec`.
            None => patch.prune(self.path, 1),
        }
    }
}

/// A field that was written and is not as it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct NotKept {
    /// Dotted path.
    pub path: String,
    /// What was written; `None`: it was removed.
    pub written: Option<Value>,
    /// What is there instead.
    pub found: Option<Value>,
}

impl Means {
    /// The members of `spec` that the hold is made of.
    #[must_use]
    pub fn members(&self) -> Vec<&'static str> {
        let mut members: Vec<_> = self
            .paths()
            .into_iter()
            .filter_map(|path| path.get(1).copied())
            .collect();
        members.dedup();
        members
    }

    /// The fields that the hold is made of.
    #[must_use]
    pub fn paths(&self) -> Vec<&'static [&'static str]> {
        match self {
            Self::Partition(field) => vec![field.path()],
            Self::Held(held) => held.fields.iter().map(|field| field.path).collect(),
        }
    }

    /// The partition in force under these marks, malformed ones as an error. Held fields that are not as they are held keep nothing
    /// back.
    pub(super) fn in_force(
        &self,
        object: &Value,
        hold: Option<&Hold>,
    ) -> Result<Option<Partition>, FieldError> {
        match self {
            Self::Partition(field) => field.get(object),
            Self::Held(_) => Ok(hold
                .filter(|_| self.stands(object))
                .map(|hold| Partition::Count(hold.granted))),
        }
    }

    /// The same for admission, where a partition that is neither an integer nor a percentage counts as none: the schema, not we,
    /// refuses it.
    pub(crate) fn seen(&self, object: &Value, hold: Option<&Hold>) -> Option<Partition> {
        match self {
            Self::Partition(field) => present(object, field.path()).and_then(Partition::read),
            Self::Held(_) => self.in_force(object, hold).ok().flatten(),
        }
    }

    /// Whether the fields are as they are held. A partition always stands.
    fn stands(&self, object: &Value) -> bool {
        match self {
            Self::Partition(_) => true,
            Self::Held(held) => held.fields.iter().all(|field| field.is_held(object)),
        }
    }

    /// Puts the hold in force, with this partition.
    #[must_use]
    pub fn put(&self, patch: PatchBuilder, partition: i64) -> PatchBuilder {
        match self {
            Self::Partition(field) => patch.set(field.path(), json!(partition)),
            Self::Held(held) => held.fields.iter().fold(patch, |patch, field| {
                field.write(patch, field.fixed.value().as_ref())
            }),
        }
    }

    /// The first field of an answer that is not as [`Self::put`] has written it.
    #[must_use]
    pub fn not_kept(&self, answer: &Value, partition: i64) -> Option<NotKept> {
        let written = match self {
            Self::Partition(field) => vec![(field.path(), Some(json!(partition)))],
            Self::Held(held) => held
                .fields
                .iter()
                .map(|field| (field.path, field.fixed.value()))
                .collect(),
        };
        let mut differing = written
            .into_iter()
            .filter(|(path, value)| present(answer, path) != value.as_ref());
        differing.next().map(|(path, written)| NotKept {
            path: path.join("."),
            written,
            found: present(answer, path).cloned(),
        })
    }

    /// What an object that is not held asks for.
    #[must_use]
    pub fn original(&self, object: &Value) -> Original {
        match self {
            Self::Partition(_) => Original::of(self.seen(object, None)),
            Self::Held(held) => Original::Fields(
                held.fields
                    .iter()
                    .filter_map(|field| Some((field.key(), present(object, field.path)?.clone())))
                    .collect(),
            ),
        }
    }

    /// What to restore where the existing controller has left a release in the middle, by its annotations in `object`.
    pub(super) fn left(&self, object: &Value) -> Original {
        let Self::Held(held) = self else {
            return Original::Partition(Partition::Count(0));
        };
        let strategy = object["metadata"]["annotations"][names::LEGACY_STRATEGY].as_str();
        let strategy: Value = strategy
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default();
        let asked = |field: &HeldField| match field.fixed {
            Fixed::Text(_) => Some(json!("RollingUpdate")),
            Fixed::Absent => Some(strategy["rollingUpdate"].clone()).filter(Value::is_object),
            Fixed::True => None,
        };
        Original::Fields(
            held.fields
                .iter()
                .filter_map(|field| Some((field.key(), asked(field)?)))
                .collect(),
        )
    }

    /// What people ask for after a write to a held object, when this was it before. A field that the write leaves alone, or leaves
    /// as it is held, is no wish; but an object that has neither our marks nor what we have set was written as a whole by somebody who
    /// does not know of these, and asks for all that it has.
    #[must_use]
    pub(crate) fn asked_since(&self, before: &Original, old: &Value, new: &Value) -> Original {
        let Self::Held(held) = self else {
            let (was, is) = (self.seen(old, None), self.seen(new, None));
            return if was == is {
                before.clone()
            } else {
                Original::of(is)
            };
        };
        let marked = present(new, &["metadata", "annotations", names::IN_PROGRESSING]).is_some();
        let unset = |field: &HeldField| field.fixed == Fixed::True && !field.is_held(new);
        if !marked && held.fields.iter().any(unset) {
            return self.original(new);
        }
        let mut asked = before.fields();
        for field in held.fields {
            let wish = present(new, field.path);
            if wish != present(old, field.path) && !field.is_held(new) {
                match wish {
                    Some(wish) => asked.insert(field.key(), wish.clone()),
                    None => asked.remove(&field.key()),
                };
            }
        }
        Original::Fields(asked)
    }

    /// Puts back what people ask for. In the place of a strategy that the API server would refuse comes its default one.
    #[must_use]
    pub fn restore(&self, patch: PatchBuilder, original: &Original) -> PatchBuilder {
        let patch = self.ask(patch, original);
        match self {
            Self::Held(held) if self.refused_in(patch.object()).is_some() => patch.remove(held.strategy),
            _ => patch,
        }
    }

    /// The strategy that the API server would refuse, if people ask for such a one.
    #[must_use]
    pub fn refused(&self, object: &Value, original: &Original) -> Option<Value> {
        let asked = self.ask(PatchBuilder::new(object.clone()), original);
        self.refused_in(asked.object()).cloned()
    }

    fn refused_in<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        match self {
            Self::Partition(_) => None,
            Self::Held(held) => present(object, held.strategy).filter(|strategy| !(held.takes)(strategy)),
        }
    }

    /// Where people have their strategy; `None` where it stays as they have it.
    #[must_use]
    pub fn strategy(&self) -> Option<&'static [&'static str]> {
        match self {
            Self::Partition(_) => None,
            Self::Held(held) => Some(held.strategy),
        }
    }

    /// Puts in what people ask for, be it as it may.
    fn ask(&self, patch: PatchBuilder, original: &Original) -> PatchBuilder {
        match (self, original) {
            (Self::Partition(field), Original::Partition(partition)) => {
                patch.set(field.path(), partition.value())
            }
            (Self::Partition(field), _) => patch.prune(field.path(), 1),
            (Self::Held(held), original) => {
                let asked = original.fields();
                let wish = |field: &HeldField| asked.get(&field.key()).filter(|wish| field.may_be(wish));
                held.fields
                    .iter()
                    .fold(patch, |patch, field| field.write(patch, wish(field)))
            }
        }
    }

    /// The object as people ask for it: with what they have written in the held fields.
    #[must_use]
    pub fn as_asked(&self, object: &Value, hold: Option<&Hold>) -> Value {
        match (self, hold) {
            (Self::Held(_), Some(hold)) => self
                .restore(PatchBuilder::new(object.clone()), &hold.original)
                .object()
                .clone(),
            _ => object.clone(),
        }
    }

    /// Whether our field manager owns a part of the hold: an apply by somebody else that changes it would conflict.
    pub(super) fn is_ours(&self, object: &Value) -> bool {
        let entries = object["metadata"]["managedFields"]
            .as_array()
            .into_iter()
            .flatten();
        let ours: Vec<_> = entries
            .filter(|entry| entry["manager"] == names::FIELD_MANAGER)
            .collect();
        self.paths().into_iter().any(|path| {
            let field = format!("/fieldsV1/f:{}", path.join("/f:"));
            ours.iter().any(|entry| entry.pointer(&field).is_some())
        })
    }
}

/// The member at a path; null counts as none.
pub(super) fn present<'a>(object: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter()
        .try_fold(object, |at, name| at.get(*name))
        .filter(|value| !value.is_null())
}

/// The members of `spec` with these names, as far as they are there.
pub(crate) fn parts(object: &Value, members: &[&str]) -> Map<String, Value> {
    let spec = &object["spec"];
    members
        .iter()
        .filter_map(|member| Some(((*member).to_owned(), spec.get(*member)?.clone())))
        .collect()
}
