use kruise_rollout::diagnosis::Looked;
use kruise_rollout::diagnosis::lint::{Level, Online, Problem, Rule, lint, online, rollouts, workload_among};
use kruise_rollout::report::REPORT_VERSION;
use serde::Serialize;
use serde_json::{Value, json};

use crate::cli::{Connection, Format, Lint, LintFormat};
use crate::connect::connect;
use crate::error::Error;
use crate::manifests::{self, Document, Unreadable};
use crate::render;
use crate::ui::Ui;

/// There are errors.
const WRONG: u8 = 3;

/// A problem and its place.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Located {
    pub(crate) file: String,
    pub(crate) line: u64,
    pub(crate) column: u64,
    pub(crate) rule: Rule,
    pub(crate) level: Level,
    pub(crate) message: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report<'a> {
    api_version: &'static str,
    kind: &'static str,
    errors: usize,
    warnings: usize,
    problems: &'a [Located],
}

pub(super) async fn run(command: &Lint, connection: &Connection, ui: &mut Ui) -> Result<u8, Error> {
    let (documents, unreadable) = read(command).await?;
    let namespace = connection.namespace().unwrap_or("default");
    let values: Vec<Value> = documents.iter().map(|document| document.value.clone()).collect();
    let mut problems = lint(&values, command.replicas, namespace);
    if command.online {
        problems.extend(ask(connection, &values, ui).await?);
    }
    let mut located: Vec<_> = unreadable.into_iter().map(broken).collect();
    located.extend(problems.into_iter().map(|problem| locate(problem, &documents)));
    located.retain(|problem| !command.allow.contains(&problem.rule));
    located.sort_by(|one, other| {
        (&one.file, one.line, one.column, one.rule).cmp(&(&other.file, other.line, other.column, other.rule))
    });
    let count = |level| located.iter().filter(|problem| problem.level == level).count();
    let (errors, warnings) = (count(Level::Error), count(Level::Warning));
    let report = Report {
        api_version: REPORT_VERSION,
        kind: "LintReport",
        errors,
        warnings,
        problems: &located,
    };
    match command.output {
        Some(LintFormat::Json) => super::doctor::answer(ui, Format::Json, &report)?,
        Some(LintFormat::Yaml) => super::doctor::answer(ui, Format::Yaml, &report)?,
        Some(LintFormat::Sarif) => ui.answer(&sarif(&located).to_string())?,
        None => {
            for problem in &located {
                ui.answer(&render::problem(problem, ui.theme()))?;
            }
            ui.say(&format!(
                "{errors} errors, {warnings} warnings in {} documents",
                documents.len()
            ));
        }
    }
    let wrong = errors > 0 || (command.strict && warnings > 0);
    Ok(if wrong { WRONG } else { 0 })
}

async fn read(command: &Lint) -> Result<(Vec<Document>, Vec<Unreadable>), Error> {
    let (mut documents, mut unreadable) = (Vec::new(), Vec::new());
    for path in &command.filename {
        let (file, text) = manifests::read(path).await?;
        match manifests::parse(&file, &text) {
            Ok(read) => documents.extend(read),
            Err(error) => unreadable.push(error),
        }
    }
    Ok((documents, unreadable))
}

fn broken(error: Unreadable) -> Located {
    Located {
        file: error.file,
        line: error.place.line,
        column: error.place.column,
        rule: Rule::Schema,
        level: Level::Error,
        message: error.problem,
    }
}

fn locate(problem: Problem, documents: &[Document]) -> Located {
    let document = &documents[problem.document];
    let place = document.place(&problem.path);
    Located {
        file: document.file.clone(),
        line: place.line,
        column: place.column,
        rule: problem.rule,
        level: problem.level,
        message: problem.message,
    }
}

/// Asks the cluster about each Rollout. What may not be asked is said.
async fn ask(connection: &Connection, values: &[Value], ui: &mut Ui) -> Result<Vec<Problem>, Error> {
    let cluster = connect(connection).await?;
    let mut problems = Vec::new();
    let mut missing: Vec<String> = Vec::new();
    for (document, rollout) in rollouts(values, cluster.namespace()) {
        let namespace = rollout.metadata.namespace.clone().unwrap_or_default();
        let cluster = cluster.in_namespace(&namespace);
        let (resource, workload) = cluster.referred(&rollout.spec.workload_ref).await?;
        let definition = match &resource {
            Some(resource) => cluster.definition(resource).await?,
            None => Looked::Not,
        };
        let facts = Online {
            document,
            others: cluster.all_rollouts(false).await?,
            kind_served: Looked::Seen(resource.is_some()),
            comes_along: workload_among(values, &rollout, &namespace).is_some(),
            refused: cluster.try_rollout(&values[document], &rollout).await?,
            workload: workload.map(|found| found.map(|workload| workload.object)),
            definition,
            rollout,
        };
        let whys = [
            facts.others.why_not(),
            facts.workload.why_not(),
            facts.definition.why_not().filter(|_| resource.is_some()),
            facts.refused.why_not(),
        ];
        missing.extend(whys.into_iter().flatten());
        problems.extend(online(&facts));
    }
    missing.sort();
    missing.dedup();
    for why in missing {
        ui.say(&format!("not all of {} is checked: {why}", Rule::Cluster.id()));
    }
    Ok(problems)
}

/// SARIF 2.1.0.
fn sarif(problems: &[Located]) -> Value {
    let rules: Vec<_> = Rule::ALL
        .into_iter()
        .map(|rule| json!({"id": rule.id(), "shortDescription": {"text": rule.title()}}))
        .collect();
    let results: Vec<_> = problems
        .iter()
        .map(|problem| {
            json!({
                "ruleId": problem.rule.id(),
                "level": match problem.level { Level::Error => "error", Level::Warning => "warning" },
                "message": {"text": problem.message},
                "locations": [{"physicalLocation": {
                    "artifactLocation": {"uri": problem.file},
                    "region": {"startLine": problem.line, "startColumn": problem.column},
                }}],
            })
        })
        .collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {"name": "kubectl-kruise", "version": env!("CARGO_PKG_VERSION"), "rules": rules}},
            "results": results,
        }],
    })
}
