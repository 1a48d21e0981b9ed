//! What is typed and is not there: verbs of other plugins, with where their work is done.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Verbs of kubectl that OpenKruise's plugin repeats, and this one does not.
const KUBECTL: [&str; 14] = [
    "api-resources",
    "api-versions",
    "apply",
    "config",
    "create",
    "diff",
    "exec",
    "expose",
    "kustomize",
    "patch",
    "plugin",
    "replace",
    "scale",
    "wait",
];
/// Verbs that only OpenKruise's plugin has.
const OPENKRUISE: [&str; 3] = ["autoscale", "migrate", "scaledown"];

/// Where to turn with a verb that other plugins of this name have; `None` for any other error.
pub(crate) fn pointer(error: &clap::Error) -> Option<String> {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return None;
    }
    let Some(ContextValue::String(verb)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    let verb = verb.as_str();
    let way = match verb {
        "set" => "use kubectl set, or kubectl patch for custom workloads".to_owned(),
        "restart" | "pause" | "resume" | "history" => format!("use kubectl kruise rollout {verb}"),
        verb if KUBECTL.contains(&verb) => format!("use kubectl {verb}"),
        verb if OPENKRUISE.contains(&verb) => {
            format!("use {verb} of OpenKruise's own plugin, https://github.com/openkruise/kruise-tools")
        }
        _ => return None,
    };
    Some(format!("kubectl kruise has no {verb}: {way}"))
}
