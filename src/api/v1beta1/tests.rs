//! The wire: schema against the facts, and manifests that must come back as they went in.
