//! The CustomResourceDefinition: what the derive makes of the types, put right where serde and the API server differ.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;

use super::Rollout;

/// The definition of the `Rollout` kind, as it is installed. Use this, not [`CustomResourceExt::crd`]: serde's way of
/// reading leniently shows up there as server-side defaults and nullable fields.
pub fn crd() -> CustomResourceDefinition {
    let mut crd = Rollout::crd();
    crd.spec.names.list_kind = Some("RolloutList".to_owned());
    let schemas = crd
        .spec
        .versions
        .iter_mut()
        .filter_map(|version| version.schema.as_mut());
    for schema in schemas.filter_map(|validation| validation.open_api_v3_schema.as_mut()) {
        strip(schema);
    }
    crd
}

/// Takes out, all the way down, `default` (the server would write values into objects that nobody asked for), `nullable`
/// (the server would store a null that it otherwise drops) and `title` (the name of the Rust type).
fn strip(schema: &mut JSONSchemaProps) {
    schema.title = None;
    schema.default = None;
    schema.nullable = None;
    for property in schema
        .properties
        .iter_mut()
        .flat_map(|properties| properties.values_mut())
    {
        strip(property);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        strip(items);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        strip(values);
    }
}
