//! Identity of pod templates.
//!
//! The product decides on its own whether two templates are the same, and never by the operator's revision strings: an operator
//! may set `currentRevision` at once, count revisions up, or report none.

use std::fmt;
use std::str::FromStr;

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::names;

/// Identity of one pod template: a lenient and a strict fingerprint.
///
/// Written as `<lenient>-<strict>`, 16 and 8 hexadecimal digits; short enough for a mark and for the name of a record.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TemplateId {
    lenient: String,
    strict: String,
}

/// How close two templates are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Likeness {
    /// The same JSON to the last member.
    Exact,
    /// The same but for injected hash labels and for empty or null members. Whether an operator sees a new revision in such a
    /// difference is known only once it has observed it.
    Equivalent,
    /// Another template.
    Different,
}

impl TemplateId {
    /// The identity of `template`, the value of `spec.template`. An absent template is [`Value::Null`].
    #[must_use]
    pub fn of(template: &Value) -> Self {
        let mut strict = Sha256::new();
        feed(&mut strict, template);
        let mut lenient = Sha256::new();
        feed(&mut lenient, &normalised(template));
        Self {
            lenient: hex(&lenient.finalize(), 16),
            strict: hex(&strict.finalize(), 8),
        }
    }

    /// Compares two identities.
    #[must_use]
    pub fn likeness(&self, other: &Self) -> Likeness {
        match (self.lenient == other.lenient, self.strict == other.strict) {
            (true, true) => Likeness::Exact,
            (true, false) => Likeness::Equivalent,
            (false, _) => Likeness::Different,
        }
    }
}

impl fmt::Display for TemplateId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.lenient, self.strict)
    }
}

/// A text that is not a template identity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a template id: {0:?}")]
pub struct NotATemplateId(String);

impl FromStr for TemplateId {
    type Err = NotATemplateId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let hexadecimal = |part: &str, length: usize| {
            part.len() == length && part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        };
        match text.split_once('-') {
            Some((lenient, strict)) if hexadecimal(lenient, 16) && hexadecimal(strict, 8) => Ok(Self {
                lenient: lenient.to_owned(),
                strict: strict.to_owned(),
            }),
            _ => Err(NotATemplateId(text.to_owned())),
        }
    }
}

/// The template without what controllers inject (hash labels) and without members that are null or empty.
fn normalised(template: &Value) -> Value {
    let mut template = template.clone();
    if let Some(labels) = template
        .pointer_mut("/metadata/labels")
        .and_then(Value::as_object_mut)
    {
        labels.remove(names::POD_TEMPLATE_HASH);
        labels.remove(names::CONTROLLER_REVISION_HASH);
    }
    strip_empty(&mut template);
    template
}

/// Drops null and empty members of objects, innermost first. Elements of arrays stay, since their place means something.
fn strip_empty(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.values_mut().for_each(strip_empty);
            members.retain(|_, member| match member {
                Value::Null => false,
                Value::Object(inner) => !inner.is_empty(),
                Value::Array(inner) => !inner.is_empty(),
                _ => true,
            });
        }
        Value::Array(elements) => elements.iter_mut().for_each(strip_empty),
        _ => {}
    }
}

/// Feeds a canonical form: members in order of their names whatever the map keeps, each part with its length or kind.
fn feed(hash: &mut Sha256, value: &Value) {
    match value {
        Value::Object(members) => {
            let mut names: Vec<_> = members.keys().collect();
            names.sort_unstable();
            hash.update([b'{']);
            for name in names {
                hash.update((name.len() as u64).to_le_bytes());
                hash.update(name.as_bytes());
                feed(hash, &members[name]);
            }
            hash.update([b'}']);
        }
        Value::Array(elements) => {
            hash.update([b'[']);
            elements.iter().for_each(|element| feed(hash, element));
            hash.update([b']']);
        }
        scalar => {
            let text = scalar.to_string();
            hash.update([b'=']);
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text.as_bytes());
        }
    }
}

pub(crate) fn hex(bytes: &[u8], digits: usize) -> String {
    bytes
        .iter()
        .flat_map(|b| [b >> 4, b & 15])
        .take(digits)
        .filter_map(|n| char::from_digit(n.into(), 16))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn template(image: &str) -> Value {
        json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": image}]}})
    }

    #[test]
    fn injected_labels_and_empty_members_do_not_count() {
        let mut dressed = template("a:v1");
        dressed["metadata"]["creationTimestamp"] = Value::Null;
        dressed["metadata"]["labels"]["pod-template-hash"] = json!("x");
        dressed["metadata"]["annotations"] = json!({});
        dressed["spec"]["volumes"] = json!([]);
        dressed["spec"]["containers"][0]["securityContext"] = json!({"capabilities": {}});
        let (plain, dressed) = (TemplateId::of(&template("a:v1")), TemplateId::of(&dressed));
        assert_eq!(plain.likeness(&dressed), Likeness::Equivalent);
        assert_eq!(plain.likeness(&plain.clone()), Likeness::Exact);
    }

    #[test]
    fn every_field_counts_also_unknown_ones() {
        let plain = TemplateId::of(&template("a:v1"));
        let mut unknown = template("a:v1");
        unknown["spec"]["somethingOfTheirOwn"] = json!({"knob": false});
        assert_eq!(plain.likeness(&TemplateId::of(&unknown)), Likeness::Different);
        assert_eq!(
            plain.likeness(&TemplateId::of(&template("a:v2"))),
            Likeness::Different
        );
        assert_eq!(plain.likeness(&TemplateId::of(&Value::Null)), Likeness::Different);
    }

    #[test]
    fn the_order_of_members_does_not_count_and_that_of_elements_does() {
        let a: Value = serde_json::from_str(r#"{"spec":{"x":1,"y":2}}"#).unwrap();
        let b: Value = serde_json::from_str(r#"{"spec":{"y":2,"x":1}}"#).unwrap();
        assert_eq!(TemplateId::of(&a), TemplateId::of(&b));
        assert_ne!(
            TemplateId::of(&json!({"a": ["x", "y"]})),
            TemplateId::of(&json!({"a": ["y", "x"]}))
        );
        assert_ne!(
            TemplateId::of(&json!({"a": "1"})),
            TemplateId::of(&json!({"a": 1}))
        );
    }

    #[test]
    fn text_form_round_trips_and_junk_is_refused() {
        let id = TemplateId::of(&template("a:v1"));
        assert_eq!(id.to_string().parse(), Ok(id.clone()));
        assert_eq!(id.to_string().len(), 25);
        for junk in [
            "",
            "-",
            "abc",
            "0123456789abcdef-0123456G",
            "0123456789ABCDEF-01234567",
        ] {
            assert!(junk.parse::<TemplateId>().is_err(), "{junk}");
        }
    }
}
