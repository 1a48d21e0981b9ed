//! The custom resource, one module per version.

pub mod v1alpha1;
pub mod v1beta1;
