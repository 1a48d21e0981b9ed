//! What a command is about: `NAME`, `TYPE/NAME`, `TYPE NAME`. A type other than Rollout stands for the Rollout that names the object.

use kruise_rollout::names;

use crate::error::Error;

/// Whether a word names the Rollout type, as typed in front of a slash or a name.
pub(crate) fn is_rollout(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    let (resource, group) = word.split_once('.').unwrap_or((&word, names::GROUP));
    let group = group
        .strip_prefix(&format!("{}.", names::VERSION))
        .unwrap_or(group);
    ["rollout", "rollouts", "ro"].contains(&resource) && group == names::GROUP
}

fn name(text: &str) -> Result<String, Error> {
    object_name(text).map_err(Error::Usage)
}

/// The name of an object. Another word never becomes a part of a path.
///
/// # Errors
/// What should have been written.
pub(crate) fn object_name(text: &str) -> Result<String, String> {
    if names::is_object_name(text) {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "{text:?} is not a name: names are lower-case letters and digits, with '-' and '.' between them"
        ))
    }
}

/// The name of a namespace.
///
/// # Errors
/// What should have been written.
pub(crate) fn namespace(text: &str) -> Result<String, String> {
    if names::is_label(text) {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "{text:?} is not a namespace: those are at most 63 lower-case letters and digits, with '-' between them"
        ))
    }
}

/// What a command is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A Rollout, by its name.
    Rollout(String),
    /// An object of another type: what a Rollout releases.
    Object(Object),
}

/// An object of a type: resource, kind, singular or short name, with its group where one is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Object {
    /// The type as it was typed.
    pub(crate) resource: String,
    /// Version and group, or group, behind the first dot.
    pub(crate) group: Option<String>,
    /// Name.
    pub(crate) name: String,
}

impl Object {
    /// The type with its group, as it was typed.
    pub(crate) fn kind(&self) -> String {
        let Self { resource, group, .. } = self;
        group
            .as_ref()
            .map_or_else(|| resource.clone(), |group| format!("{resource}.{group}"))
    }
}

/// Types that people write in front of several names: these words are no names of Rollouts. Others need a slash.
const TYPES: [&str; 13] = [
    "deployment",
    "deployments",
    "deploy",
    "statefulset",
    "statefulsets",
    "sts",
    "asts",
    "daemonset",
    "daemonsets",
    "ds",
    "ads",
    "cloneset",
    "clonesets",
];

/// A name of a type. A bare name is one of a Rollout.
fn named(kind: &str, text: &str) -> Result<Target, Error> {
    let name = name(text)?;
    if is_rollout(kind) {
        return Ok(Target::Rollout(name));
    }
    let (resource, group) = match kind.split_once('.') {
        Some((resource, group)) => (resource, Some(group.to_owned())),
        None => (kind, None),
    };
    let fits = names::is_object_name(&resource.to_ascii_lowercase());
    if !fits
        || group
            .as_deref()
            .is_some_and(|group| !names::is_object_name(group))
    {
        return Err(Error::Usage(format!("{kind:?} is not a type: write TYPE/NAME")));
    }
    Ok(Target::Object(Object {
        resource: resource.to_owned(),
        group,
        name,
    }))
}

/// What the words of a command name, each once: `NAME…`, `TYPE/NAME…` or `TYPE NAME…`.
///
/// # Errors
/// Words that are no names, or both ways of writing in one call.
pub(crate) fn targets(words: &[String]) -> Result<Vec<Target>, Error> {
    let is_type = |word: &String| is_rollout(word) || TYPES.contains(&word.to_ascii_lowercase().as_str());
    let (kind, words) = match words {
        [first, rest @ ..] if is_type(first) && !rest.is_empty() => (Some(first), rest),
        words => (None, words),
    };
    let mut targets = Vec::with_capacity(words.len());
    for word in words {
        let target = match (kind, word.split_once('/')) {
            (Some(kind), Some(_)) => {
                return Err(Error::Usage(format!(
                    "write either {kind} NAME or {kind}/NAME, not both: {word}"
                )));
            }
            (Some(kind), None) => named(kind, word)?,
            (None, Some((kind, text))) => named(kind, text)?,
            (None, None) => Target::Rollout(name(word)?),
        };
        if !targets.contains(&target) {
            targets.push(target);
        }
    }
    Ok(targets)
}

/// The one thing that a command is about. Two words are `TYPE NAME`.
///
/// # Errors
/// As [`targets`], or more than one.
pub(crate) fn target(words: &[String]) -> Result<Target, Error> {
    if let [kind, text] = words
        && !kind.contains('/')
        && !text.contains('/')
    {
        return named(kind, text);
    }
    let mut targets = targets(words)?;
    match (targets.pop(), targets.pop()) {
        (Some(target), None) => Ok(target),
        _ => Err(Error::Usage(
            "one at a time: rollout/NAME, or TYPE/NAME of its workload".to_owned(),
        )),
    }
}

/// The workload that a command is about, where a bare name would say too little; or the Rollout whose workload is meant.
///
/// # Errors
/// As [`target`], or no type.
pub(crate) fn workload(words: &[String]) -> Result<Target, Error> {
    match words {
        [word] if !word.contains('/') => Err(Error::Usage(format!(
            "{word}: which type? Write TYPE/NAME, or rollout/NAME for its workload"
        ))),
        words => target(words),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    fn rollout(name: &str) -> Target {
        Target::Rollout(name.to_owned())
    }

    fn object(resource: &str, group: Option<&str>, name: &str) -> Target {
        Target::Object(Object {
            resource: resource.to_owned(),
            group: group.map(str::to_owned),
            name: name.to_owned(),
        })
    }

    #[rstest]
    #[case("web", &[rollout("web")])]
    #[case("rollout/web", &[rollout("web")])]
    #[case("rollouts/web", &[rollout("web")])]
    #[case("ro/web", &[rollout("web")])]
    #[case("rollout web", &[rollout("web")])]
    #[case("rollouts.rollouts.kruise.io/web", &[rollout("web")])]
    #[case("rollout.v1beta1.rollouts.kruise.io web", &[rollout("web")])]
    #[case::each_once("web rollout/shop web", &[rollout("web"), rollout("shop")])]
    #[case("rollout a b", &[rollout("a"), rollout("b")])]
    #[case::a_rollout_may_be_called_rollout("rollout", &[rollout("rollout")])]
    #[case::a_workload("deploy/web", &[object("deploy", None, "web")])]
    #[case::with_its_group("mystatefulapps.example.io/web", &[object("mystatefulapps", Some("example.io"), "web")])]
    #[case::as_kind("MyStatefulApp/web", &[object("MyStatefulApp", None, "web")])]
    #[case::types_that_everybody_knows("sts a b", &[object("sts", None, "a"), object("sts", None, "b")])]
    #[case::all_sorts("web cloneset/web", &[rollout("web"), object("cloneset", None, "web")])]
    #[case::of_another_project("rollouts.argoproj.io/web", &[object("rollouts", Some("argoproj.io"), "web")])]
    fn many(#[case] line: &str, #[case] expected: &[Target]) {
        assert_eq!(targets(&words(line)).unwrap(), expected, "{line}");
    }

    #[rstest]
    #[case("rollout/")]
    #[case("rollout/a/b")]
    #[case("Web")]
    #[case("rollout rollout/web")]
    #[case("sts sts/web")]
    #[case("/web")]
    #[case(".io/web")]
    #[case("de ploy/")]
    #[case("..")]
    #[case("rollout/..")]
    #[case("-web")]
    #[case("a..b/web")]
    #[case("apps.example.io./web")]
    fn what_names_nothing_is_a_usage_error(#[case] line: &str) {
        assert_eq!(targets(&words(line)).unwrap_err().exit_code(), 2, "{line}");
    }

    #[rstest]
    #[case("web", rollout("web"))]
    #[case("rollout web", rollout("web"))]
    #[case("sts/web", object("sts", None, "web"))]
    #[case::two_words_are_type_and_name("MyStatefulApp web", object("MyStatefulApp", None, "web"))]
    fn one(#[case] line: &str, #[case] expected: Target) {
        assert_eq!(target(&words(line)).unwrap(), expected);
    }

    #[rstest]
    #[case("a b c")]
    #[case("rollout/a rollout/b")]
    #[case("sts/a b")]
    fn not_several(#[case] line: &str) {
        assert_eq!(target(&words(line)).unwrap_err().exit_code(), 2);
    }

    #[test]
    fn a_workload_needs_its_type() {
        assert_eq!(workload(&words("sts/web")).unwrap(), object("sts", None, "web"));
        assert_eq!(workload(&words("rollout/web")).unwrap(), rollout("web"));
        for line in ["web", "sts/", "sts/a b"] {
            assert!(workload(&words(line)).is_err(), "{line}");
        }
    }
}
