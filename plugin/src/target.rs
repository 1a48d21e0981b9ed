//! What a command is about: `NAME`, `TYPE/NAME`, `TYPE NAME`.

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

fn is_name(text: &str) -> bool {
    let allowed =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
    !text.is_empty() && text.len() <= 253 && text.bytes().all(allowed)
}

fn name(text: &str) -> Result<String, Error> {
    if is_name(text) {
        Ok(text.to_owned())
    } else {
        Err(Error::Usage(format!(
            "{text:?} is not a name: names are lower-case letters, digits, '-' and '.'"
        )))
    }
}

/// Names of Rollouts from the words of a command, each once.
///
/// # Errors
/// Another type, no name, or both ways of writing in one call.
pub(crate) fn rollouts(words: &[String]) -> Result<Vec<String>, Error> {
    let words = match words {
        [first, rest @ ..] if is_rollout(first) && !rest.is_empty() => {
            if let Some(word) = rest.iter().find(|word| word.contains('/')) {
                return Err(Error::Usage(format!(
                    "write either {first} NAME or {first}/NAME, not both: {word}"
                )));
            }
            rest
        }
        words => words,
    };
    let mut names = Vec::with_capacity(words.len());
    for word in words {
        let text = match word.split_once('/') {
            Some((kind, text)) if is_rollout(kind) => text,
            Some((kind, _)) => {
                return Err(Error::Usage(format!(
                    "{word}: {kind} is not a Rollout; write rollout/NAME"
                )));
            }
            None => word,
        };
        let name = name(text)?;
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok(names)
}

/// The name of the one Rollout that a command is about.
///
/// # Errors
/// As [`rollouts`], or more than one.
pub(crate) fn rollout(words: &[String]) -> Result<String, Error> {
    let mut names = rollouts(words)?;
    match (names.pop(), names.pop()) {
        (Some(name), None) => Ok(name),
        _ => Err(Error::Usage("one Rollout at a time: rollout/NAME".to_owned())),
    }
}

/// A workload, or the Rollout that names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Workload {
    /// The workload of a Rollout.
    OfRollout(String),
    /// An object of a type: resource, kind, singular or short name, with its group where one is given.
    Object {
        /// The type as it was typed.
        resource: String,
        /// Version and group, or group, behind the first dot.
        group: Option<String>,
        /// Name.
        name: String,
    },
}

/// The workload that a command is about.
///
/// # Errors
/// No type, or no name.
pub(crate) fn workload(words: &[String]) -> Result<Workload, Error> {
    let (kind, text) = match words {
        [kind, text] if !kind.contains('/') && !text.contains('/') => (kind.as_str(), text.as_str()),
        [word] => word.split_once('/').ok_or_else(|| {
            Error::Usage(format!(
                "{word}: which type? Write TYPE/NAME, or rollout/NAME for its workload"
            ))
        })?,
        _ => {
            return Err(Error::Usage(
                "one workload at a time: TYPE/NAME or rollout/NAME".to_owned(),
            ));
        }
    };
    let name = name(text)?;
    if is_rollout(kind) {
        return Ok(Workload::OfRollout(name));
    }
    let (resource, group) = match kind.split_once('.') {
        Some((resource, group)) => (resource, Some(group.to_owned())),
        None => (kind, None),
    };
    if !is_name(&resource.to_ascii_lowercase()) || group.as_deref().is_some_and(|group| !is_name(group)) {
        return Err(Error::Usage(format!("{kind:?} is not a type")));
    }
    Ok(Workload::Object {
        resource: resource.to_owned(),
        group,
        name,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn the_ways_to_name_a_rollout() {
        for line in [
            "web",
            "rollout/web",
            "rollouts/web",
            "ro/web",
            "rollout web",
            "rollouts.rollouts.kruise.io/web",
            "rollout.v1beta1.rollouts.kruise.io web",
        ] {
            assert_eq!(rollout(&words(line)).unwrap(), "web", "{line}");
        }
        assert_eq!(rollouts(&words("web rollout/shop web")).unwrap(), ["web", "shop"]);
        assert_eq!(rollouts(&words("rollout a b")).unwrap(), ["a", "b"]);
        // A Rollout may be called "rollout".
        assert_eq!(rollout(&words("rollout")).unwrap(), "rollout");
        for line in [
            "deployment/web",
            "rollout/",
            "rollout/a/b",
            "Web",
            "rollout rollout/web",
            "rollouts.argoproj.io/web",
        ] {
            assert_eq!(rollouts(&words(line)).unwrap_err().exit_code(), 2, "{line}");
        }
        assert!(rollout(&words("a b")).is_err());
    }

    #[test]
    fn the_ways_to_name_a_workload() {
        let object = |resource: &str, group: Option<&str>| Workload::Object {
            resource: resource.to_owned(),
            group: group.map(str::to_owned),
            name: "my-app".to_owned(),
        };
        assert_eq!(workload(&words("sts/my-app")).unwrap(), object("sts", None));
        assert_eq!(
            workload(&words("MyStatefulApp my-app")).unwrap(),
            object("MyStatefulApp", None)
        );
        assert_eq!(
            workload(&words("mystatefulapps.example.io/my-app")).unwrap(),
            object("mystatefulapps", Some("example.io"))
        );
        assert_eq!(
            workload(&words("rollout/my-app")).unwrap(),
            Workload::OfRollout("my-app".to_owned())
        );
        for line in ["my-app", "sts/", "/my-app", ".io/my-app", "sts/a b"] {
            assert!(workload(&words(line)).is_err(), "{line}");
        }
    }
}
