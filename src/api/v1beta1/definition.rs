//! The CustomResourceDefinition: what the derive makes of the types, put right where serde and the API server differ.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSON, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;
use serde_json::json;

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
        if let Some(status) = schema.properties.as_mut().and_then(|all| all.get_mut("status")) {
            status.default = Some(unseen());
        }
    }
    crd
}

/// The status of a Rollout that nobody has looked at yet. Tools that judge by kstatus take an object without a status for done;
/// no generation is -1, so they wait.
fn unseen() -> JSON {
    JSON(json!({"observedGeneration": -1, "currentStepIndex": 0, "currentStepState": ""}))
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
