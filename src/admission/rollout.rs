//! Review of a `Rollout` before it is stored.
