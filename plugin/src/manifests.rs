//! Manifests from files, with the place of every member.

use std::fmt;
use std::path::Path;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::{Location, Spanned};

use crate::error::Error;

/// A place in a file, both numbers from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) line: u64,
    pub(crate) column: u64,
}

impl Place {
    fn of(location: Location) -> Self {
        Self {
            line: location.line().max(1),
            column: location.column().max(1),
        }
    }
}

/// A document of a file, or an item of a List in it.
#[derive(Debug)]
pub(crate) struct Document {
    /// The file, as it was named.
    pub(crate) file: String,
    /// The object.
    pub(crate) value: Value,
    root: Spanned<Node>,
}

impl Document {
    /// Where the member at this path stands; the nearest parent that there is, for one that is missing.
    pub(crate) fn place(&self, path: &[String]) -> Place {
        let (mut at, mut place) = (&self.root, Place::of(self.root.referenced));
        for segment in path {
            match &at.value {
                Node::Map(members) => {
                    let Some((name, value)) = members.iter().find(|(name, _)| name.value == *segment) else {
                        break;
                    };
                    (at, place) = (value, Place::of(name.referenced));
                }
                Node::List(items) => {
                    let Some(item) = segment.parse::<usize>().ok().and_then(|index| items.get(index)) else {
                        break;
                    };
                    (at, place) = (item, Place::of(item.referenced));
                }
                Node::Leaf(_) => break,
            }
        }
        place
    }
}

/// A file that is no YAML.
#[derive(Debug)]
pub(crate) struct Unreadable {
    pub(crate) file: String,
    pub(crate) place: Place,
    pub(crate) problem: String,
}

/// Documents of a file. Charts of whole platforms have some thousands.
const DOCUMENTS: usize = 100_000;
/// Values of all documents of a file, aliases written out.
const NODES: usize = 1_000_000;

/// Reads a file, `-` for standard input. On another thread: whoever writes into a pipe may never do so, and signals are heard here.
///
/// # Errors
/// It cannot be read.
pub(crate) async fn read(path: &Path) -> Result<(String, String), Error> {
    let is_stdin = path == Path::new("-");
    let name = if is_stdin {
        "stdin".to_owned()
    } else {
        path.display().to_string()
    };
    let path = path.to_owned();
    let reading = tokio::task::spawn_blocking(move || {
        if is_stdin {
            std::io::read_to_string(std::io::stdin())
        } else {
            std::fs::read_to_string(path)
        }
    });
    let read = reading.await.unwrap_or_else(|error| Err(error.into()));
    match read {
        Ok(text) => Ok((name, text)),
        Err(error) => Err(Error::Manifest {
            place: name,
            problem: match error.kind() {
                std::io::ErrorKind::InvalidData => "it is no text in UTF-8".to_owned(),
                _ => error.to_string(),
            },
        }),
    }
}

/// The documents of a text; those of a List one by one.
///
/// # Errors
/// It is no YAML, or no JSON.
pub(crate) fn parse(file: &str, text: &str) -> Result<Vec<Document>, Unreadable> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_documents: DOCUMENTS,
            max_nodes: NODES,
            max_events: 4 * NODES,
        },
    };
    let roots: Vec<Spanned<Node>> =
        serde_saphyr::from_multiple_with_options(text, options).map_err(|error| Unreadable {
            file: file.to_owned(),
            place: error.location().map_or(Place { line: 1, column: 1 }, Place::of),
            problem: problem(error.without_snippet()),
        })?;
    let mut documents = Vec::new();
    for root in roots {
        flatten(file, root, &mut documents);
    }
    Ok(documents)
}

/// One line without the place, in words for those who wrote the file: the library's own are for programmers.
fn problem(error: &serde_saphyr::Error) -> String {
    use serde_saphyr::Error as Yaml;
    match error {
        Yaml::DuplicateMappingKey { key: Some(key), .. } => {
            format!("{key} is written twice: remove one of the two")
        }
        Yaml::Budget { .. } => format!(
            "the file is too large or too deep: split it; a file may have {DOCUMENTS} documents and {NODES} values"
        ),
        Yaml::NullIntoString { .. } => "a key is empty: write a name in front of the colon".to_owned(),
        other => {
            let text = other.render_with_formatter(&serde_saphyr::UserMessageFormatter);
            let line = text.lines().next().unwrap_or_default();
            let place = other
                .location()
                .map(|at| format!(" at line {}, column {}", at.line(), at.column()));
            place
                .and_then(|place| line.strip_suffix(&place))
                .unwrap_or(line)
                .to_owned()
        }
    }
}

impl Unreadable {
    /// As an error of a command that cannot do without the file.
    pub(crate) fn into_error(self) -> Error {
        let Self { file, place, problem } = self;
        Error::Manifest {
            place: format!("{file}:{}:{}", place.line, place.column),
            problem,
        }
    }
}

fn flatten(file: &str, root: Spanned<Node>, documents: &mut Vec<Document>) {
    let value = root.value.json();
    if value["kind"].as_str().is_some_and(|kind| kind.ends_with("List")) && value["items"].is_array() {
        if let Node::Map(members) = root.value {
            for (name, member) in members {
                if let ("items", Node::List(items)) = (name.value.as_str(), member.value) {
                    items.into_iter().for_each(|item| flatten(file, item, documents));
                }
            }
        }
        return;
    }
    documents.push(Document {
        file: file.to_owned(),
        value,
        root,
    });
}

/// YAML as JSON has it.
#[derive(Debug)]
enum Node {
    Leaf(Value),
    List(Vec<Spanned<Node>>),
    Map(Vec<(Spanned<String>, Spanned<Node>)>),
}

impl Node {
    fn json(&self) -> Value {
        match self {
            Self::Leaf(value) => value.clone(),
            Self::List(items) => items.iter().map(|item| item.value.json()).collect(),
            Self::Map(members) => {
                let members = members
                    .iter()
                    .map(|(name, value)| (name.value.clone(), value.value.json()));
                Value::Object(members.collect::<Map<_, _>>())
            }
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Nodes)
    }
}

struct Nodes;

impl<'de> Visitor<'de> for Nodes {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Leaf(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Leaf(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Leaf(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Leaf(
            Number::from_f64(value).map_or(Value::Null, Value::Number),
        ))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Leaf(value.into()))
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Leaf(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Leaf(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        Node::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Node, A::Error> {
        let mut map = Vec::new();
        while let Some(member) = members.next_entry()? {
            map.push(member);
        }
        Ok(Node::Map(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# first
kind: Rollout
spec:
  steps:
    - replicas: 1
      pause: {}
    - replicas: \"50%\"
---
kind: List
items:
- kind: App
  metadata:
    labels: {a/b.c: d}
";

    fn place(document: &Document, path: &[&str]) -> (u64, u64) {
        let path: Vec<String> = path.iter().map(|segment| (*segment).to_owned()).collect();
        let place = document.place(&path);
        (place.line, place.column)
    }

    #[test]
    fn every_member_has_its_place_and_a_missing_one_that_of_its_parent() {
        let documents = parse("f", TEXT).unwrap();
        assert_eq!(documents.len(), 2);
        let first = &documents[0];
        assert_eq!(first.value["spec"]["steps"][1]["replicas"], "50%");
        assert_eq!(place(first, &["kind"]), (2, 1));
        assert_eq!(place(first, &["spec", "steps", "0", "replicas"]), (5, 7));
        assert_eq!(place(first, &["spec", "steps", "1", "replicas"]), (7, 7));
        assert_eq!(place(first, &["spec", "steps", "1", "pause"]).0, 7);
        assert_eq!(place(first, &["spec", "strategy", "canary"]), (3, 1));
        let item = &documents[1];
        assert_eq!(item.value["kind"], "App");
        assert_eq!(place(item, &["metadata", "labels", "a/b.c"]), (13, 14));
    }

    #[test]
    fn json_is_read_too() {
        let documents = parse("f", "{\"kind\": \"Rollout\",\n \"spec\": {\"disabled\": true}}").unwrap();
        assert_eq!(documents[0].value["spec"]["disabled"], true);
        assert_eq!(place(&documents[0], &["spec", "disabled"]), (2, 11));
    }

    #[test]
    fn what_is_no_yaml_is_told_with_its_place() {
        let error = parse("f", "kind: Rollout\nspec: [1\n").unwrap_err();
        assert!(error.place.line >= 2, "{error:?}");
        assert!(
            !error.problem.is_empty() && !error.problem.contains('\n'),
            "{error:?}"
        );
    }

    #[test]
    fn what_is_wrong_is_told_to_those_who_write_files() {
        for (text, line, words) in [
            ("a: 1\na: 2\n", 2, "a is written twice"),
            ("null: b\n", 1, "a key is empty"),
            ("a: 1e400\n", 1, "1e400"),
            (&format!("a: {}{}", "[".repeat(5000), "]".repeat(5000)), 1, ""),
        ] {
            let error = parse("f", text).unwrap_err();
            assert_eq!(error.place.line, line, "{error:?}");
            assert!(error.problem.contains(words), "{error:?}");
            for word in ["Option", "budget", "Policy", " column "] {
                assert!(!error.problem.contains(word), "{error:?}");
            }
        }
    }

    #[test]
    fn a_file_may_have_thousands_of_documents_and_no_bombs() {
        let many = "kind: App\n---\n".repeat(3_000);
        assert_eq!(parse("f", &many).unwrap().len(), 3_000);
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..9 {
            let inner = format!("*a{}, ", level - 1).repeat(10);
            bomb.push_str(&format!(
                "a{level}: &a{level} [{}]\n",
                inner.trim_end_matches(", ")
            ));
        }
        let error = parse("f", &bomb).unwrap_err();
        assert!(error.problem.contains("too large"), "{error:?}");
    }
}
