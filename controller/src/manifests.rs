//! The subcommand `manifests`: everything to install, as one YAML stream made from code.
//!
//! The order is the one in which `kubectl apply -f -` works on an empty cluster. The webhook configurations are not among the
//! documents: the controller registers them itself, owned by its ClusterRole, so that no sync tool resets their rules and removing
//! the RBAC removes them. Documents are plain JSON values; tests read each of them back as the typed object of its kind.

mod deployment;
mod people;
mod rbac;

use std::io::{self, Write as _};
use std::process::ExitCode;

use kruise_rollout::api::v1beta1;
use serde_json::{Value, json};

use crate::args::{Manifests, Only};
use crate::telemetry::chain;

/// Label of everything that is installed, and of the pods.
const APP: (&str, &str) = ("app.kubernetes.io/name", "kruise-rollout");

/// Why the manifests could not be written.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("{0}")]
    Area(String),
    #[error("definition is not JSON")]
    Json(#[from] serde_json::Error),
    #[error("manifest is not YAML")]
    Yaml(#[from] serde_saphyr::ser::Error),
    #[error("standard output")]
    Output(#[from] io::Error),
}

/// One document of the stream.
struct Document {
    /// Lines before it, without the comment sign.
    comment: Option<String>,
    /// A line before each rule of a role, in their order.
    notes: Vec<String>,
    object: Value,
}

impl From<Value> for Document {
    fn from(object: Value) -> Self {
        Self {
            comment: None,
            notes: Vec::new(),
            object,
        }
    }
}

/// Prints what the flags ask for on standard output.
pub(crate) fn print(args: &Manifests) -> ExitCode {
    let written = documents(args).and_then(|documents| {
        let text = stream(&documents)?;
        let mut out = io::stdout().lock();
        Ok(out.write_all(text.as_bytes()).and_then(|()| out.flush())?)
    });
    match written {
        Ok(()) => ExitCode::SUCCESS,
        // A pager that was left has seen enough.
        Err(Error::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            #[allow(clippy::print_stderr, reason = "there is no log in this subcommand")]
            {
                eprintln!("error: {}", chain(&error));
            }
            ExitCode::FAILURE
        }
    }
}

/// The documents in the order of their installation.
fn documents(args: &Manifests) -> Result<Vec<Document>, Error> {
    let crds = crds()?.into_iter().map(Document::from);
    if let Some(Only::Crds) = args.only {
        return Ok(crds.collect());
    }
    let mut documents = vec![namespace(&args.namespace).into()];
    documents.extend(crds);
    let area = args.part.area(&args.namespace).map_err(Error::Area)?;
    documents.extend(rbac::documents(args, &area)?);
    documents.extend(deployment::objects(args).map(Document::from));
    Ok(documents)
}

/// The CustomResourceDefinitions.
fn crds() -> Result<Vec<Value>, Error> {
    Ok(vec![serde_json::to_value(v1beta1::crd())?])
}

/// The namespace, in which the strictest pod security holds.
fn namespace(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": name,
            "labels": { APP.0: APP.1, "pod-security.kubernetes.io/enforce": "restricted" },
        },
    })
}

/// One YAML stream.
fn stream(documents: &[Document]) -> Result<String, Error> {
    let mut text = String::new();
    for Document {
        comment,
        notes,
        object,
    } in documents
    {
        text.push_str("---\n");
        if let Some(comment) = comment {
            text.push_str(&commented(comment));
        }
        text.push_str(&noted(&yaml(object)?, notes));
    }
    Ok(text)
}

/// The YAML of a role with a note before each of its rules. A rule begins with its groups, at the margin.
fn noted(yaml: &str, notes: &[String]) -> String {
    let mut notes = notes.iter();
    let mut text = String::new();
    for line in yaml.split_inclusive('\n') {
        if line.starts_with("- apiGroups:")
            && let Some(note) = notes.next()
        {
            text.push_str(&commented(note));
        }
        text.push_str(line);
    }
    text
}

/// A value as one YAML document with a line end. Strings that a reader of YAML 1.1 takes for something else come out quoted.
fn yaml(value: &Value) -> Result<String, Error> {
    let mut text = serde_saphyr::to_string(value)?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

/// The lines of a text as YAML comments.
fn commented(text: &str) -> String {
    text.lines()
        .map(|line| format!("# {line}").trim_end().to_owned() + "\n")
        .collect()
}

#[cfg(test)]
mod tests;
