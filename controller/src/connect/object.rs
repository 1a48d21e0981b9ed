//! Objects as watches and reviews take them in: read in one pass, without the bookkeeping of other field managers, which is often the
//! larger part.

use std::borrow::Cow;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kruise_rollout::names;
use kube::Resource;
use kube::api::ApiResource;
use kube::core::DynamicResourceScope;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// An object of whatever kind.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    /// Name, namespace and resourceVersion: what a watch needs of it.
    metadata: ObjectMeta,
    /// All of it, without the managed fields of others.
    content: Value,
}

impl Object {
    /// Its content.
    pub(crate) fn content(&self) -> &Value {
        &self.content
    }
}

impl Resource for Object {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.as_str().into()
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        resource.group.as_str().into()
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        resource.version.as_str().into()
    }

    fn api_version(resource: &ApiResource) -> Cow<'_, str> {
        resource.api_version.as_str().into()
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        resource.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let content = deserializer.deserialize_map(Whole(Managed::Ours))?;
        let text = |member: &str| content["metadata"][member].as_str().map(str::to_owned);
        let metadata = ObjectMeta {
            name: text("name"),
            namespace: text("namespace"),
            resource_version: text("resourceVersion"),
            ..ObjectMeta::default()
        };
        Ok(Self { metadata, content })
    }
}

/// An object in a review, or null where there is none. What admission says never depends on managed fields, so none are kept.
pub(crate) fn reviewed<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
    deserializer.deserialize_any(Whole(Managed::Nobodys))
}

/// Which entries of the managed fields are kept.
#[derive(Clone, Copy, PartialEq)]
enum Managed {
    Ours,
    Nobodys,
}

/// Reads the whole object.
struct Whole(Managed);

impl<'de> Visitor<'de> for Whole {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut content = Map::new();
        while let Some(member) = map.next_key::<String>()? {
            let value = match member.as_str() {
                "metadata" => map.next_value_seed(Metadata(self.0))?,
                _ => map.next_value()?,
            };
            content.insert(member, value);
        }
        Ok(content.into())
    }
}

/// Reads the metadata.
struct Metadata(Managed);

impl<'de> DeserializeSeed<'de> for Metadata {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Metadata {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("metadata")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(member) = map.next_key::<String>()? {
            let value = match member.as_str() {
                "managedFields" if self.0 == Managed::Nobodys => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
                "managedFields" => map.next_value::<Managers>()?.0.into(),
                _ => map.next_value()?,
            };
            members.insert(member, value);
        }
        Ok(members.into())
    }
}

/// Our own entries of the managed fields.
struct Managers(Vec<Value>);

impl<'de> Deserialize<'de> for Managers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Managers;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("managed fields")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Managers, A::Error> {
                let mut ours = Vec::new();
                while let Some(Manager(entry)) = entries.next_element()? {
                    ours.extend(entry);
                }
                Ok(Managers(ours))
            }
        }
        deserializer.deserialize_seq(Entries)
    }
}

/// An entry of the managed fields; `None` if it is another manager's. Of those that name the manager first, as built-in kinds do, the
/// fields are not even read.
struct Manager(Option<Value>);

impl<'de> Deserialize<'de> for Manager {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entry;
        impl<'de> Visitor<'de> for Entry {
            type Value = Manager;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an entry of the managed fields")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Manager, A::Error> {
                let mut entry = Map::new();
                let mut theirs = false;
                while let Some(member) = map.next_key::<String>()? {
                    if theirs {
                        map.next_value::<IgnoredAny>()?;
                        continue;
                    }
                    let value: Value = map.next_value()?;
                    theirs = member == "manager" && value != names::FIELD_MANAGER;
                    entry.insert(member, value);
                }
                let ours = entry
                    .get("manager")
                    .is_some_and(|name| name == names::FIELD_MANAGER);
                Ok(Manager(ours.then(|| entry.into())))
            }
        }
        deserializer.deserialize_map(Entry)
    }
}

#[cfg(test)]
mod tests {
    use kube::ResourceExt as _;
    use serde_json::json;

    use super::*;

    /// In the order in which built-in kinds are written, and in that of custom ones.
    const ENTRIES: &str = r#"[
        {"manager":"kubectl","operation":"Update","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:replicas":{}}}},
        {"fieldsV1":{"f:spec":{"f:a":{}}},"manager":"operator","operation":"Update"},
        {"fieldsV1":{"f:spec":{"f:b":{}}},"manager":"kruise-rollout-controller","operation":"Update"},
        {"manager":"kruise-rollout-controller","operation":"Update","fieldsV1":{"f:spec":{"f:c":{}}}}]"#;

    #[test]
    fn all_but_the_managed_fields_of_others_is_kept() {
        let text = format!(
            r#"{{"apiVersion":"v1","kind":"A","spec":{{"a":[1,null]}},"metadata":{{"name":"a","namespace":"ns",
                "resourceVersion":"7","managedFields":{ENTRIES},"labels":{{"b":"c"}}}}}}"#
        );
        let object: Object = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (
                object.name_any(),
                object.namespace().as_deref(),
                object.resource_version().as_deref()
            ),
            ("a".to_owned(), Some("ns"), Some("7"))
        );
        let ours = |field: &str| json!({"manager": names::FIELD_MANAGER, "operation": "Update", "fieldsV1": {"f:spec": {(field): {}}}});
        assert_eq!(
            *object.content(),
            json!({"apiVersion": "v1", "kind": "A", "spec": {"a": [1, null]}, "metadata": {"name": "a", "namespace": "ns",
                "resourceVersion": "7", "labels": {"b": "c"}, "managedFields": [ours("f:b"), ours("f:c")]}})
        );
    }

    #[test]
    fn a_review_keeps_no_managed_fields_and_may_have_no_object() {
        let read = |text: &str| reviewed(&mut serde_json::Deserializer::from_str(text));
        let text = format!(r#"{{"metadata":{{"name":"a","managedFields":{ENTRIES}}},"spec":{{"a":1}}}}"#);
        assert_eq!(
            read(&text).unwrap(),
            json!({"metadata": {"name": "a"}, "spec": {"a": 1}})
        );
        assert_eq!(read("null").unwrap(), Value::Null);
        assert!(read("7").is_err());
    }
}
