//! Pods that are slow to come, slow to go, or deleted by others.
