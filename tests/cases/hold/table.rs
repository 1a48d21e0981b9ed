//! The rows: old state, writer, new state, and what is stored.

use kruise_rollout::names;
use serde_json::json;

use super::mid_release::{marks, partitions, sizes, step_1, stored, the_controller};
use super::state::{Shape, State, at};

/// Who writes: user and field manager. Only both together are the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Writer {
    /// The user is the controller's.
    pub user_is_controller: bool,
    /// The field manager.
    pub manager: &'static str,
}

impl Writer {
    /// Whether the hold leaves its writes alone.
    pub fn is_controller(self) -> bool {
        self.user_is_controller && self.manager == names::FIELD_MANAGER
    }
}

pub const PERSON: Writer = Writer {
    user_is_controller: false,
    manager: "developer",
};
pub const CONTROLLER: Writer = Writer {
    user_is_controller: true,
    manager: names::FIELD_MANAGER,
};
pub const OTHER_MANAGER: Writer = Writer {
    user_is_controller: true,
    manager: "kubectl-edit",
};
pub const IMPOSTOR: Writer = Writer {
    user_is_controller: false,
    manager: names::FIELD_MANAGER,
};

/// What the writer is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    Nothing,
    /// The new template is held.
    Held,
    /// The template is the stable one again.
    Back,
    /// The partition stays where it is.
    InProgress,
    /// The marks stay as they are.
    Kept,
}

/// One case.
pub struct Row {
    pub name: &'static str,
    pub old: State,
    pub writer: Writer,
    pub new: State,
    pub expected: State,
    pub told: Told,
}

impl Row {
    /// Whether it says anything of the shape.
    pub fn suits(&self, shape: Shape) -> bool {
        [&self.old, &self.new, &self.expected]
            .iter()
            .all(|state| state.suits(shape))
    }
}

/// A write that is stored as it was sent.
pub fn passes(name: &'static str, old: State, writer: Writer, new: State) -> Row {
    Row {
        name,
        old,
        writer,
        expected: new.clone(),
        new,
        told: Told::Nothing,
    }
}

/// A write by a person that is stored as something else.
pub fn becomes(name: &'static str, old: State, new: State, expected: State, told: Told) -> Row {
    Row {
        name,
        old,
        writer: PERSON,
        new,
        expected,
        told,
    }
}

/// A write with a new template; it is stored at the hold partition with this original partition.
pub fn held(name: &'static str, old: State, new: State, original: &str) -> Row {
    let expected = at_hold(new.clone(), original);
    becomes(name, old, new, expected, Told::Held)
}

/// The same with the stable template, in mid-release.
pub fn back(name: &'static str, old: State, new: State, original: &str) -> Row {
    Row {
        told: Told::Back,
        ..held(name, old, new, original)
    }
}

fn at_hold(state: State, original: &str) -> State {
    state
        .partition(names::HOLD_PARTITION)
        .held(&names::HOLD_PARTITION.to_string(), original)
}

/// Guarded and at rest, on v1.
pub fn at_rest() -> State {
    at("v1").partition(0).guarded()
}

/// The manifest in git, which has no marks.
pub fn manifest(version: &str) -> State {
    at(version).partition(0)
}

/// All cases that a kind of this shape can be in.
pub fn rows(shape: Shape) -> impl Iterator<Item = Row> {
    let all = [
        not_governed(),
        new_templates(),
        rest(),
        partitions(),
        marks(),
        sizes(),
        the_controller(),
    ];
    all.into_iter().flatten().filter(move |row| row.suits(shape))
}

fn not_governed() -> Vec<Row> {
    let copy = |version| {
        let copied = at(version).partition(4).held("4", "0");
        copied.mark(
            names::GUARDED_BY,
            "another-uid/table-rollout/0123456789abcdef-01234567",
        )
    };
    vec![
        passes("nobody governs it", at("v1"), PERSON, at("v2")),
        passes(
            "nobody governs it, with a partition",
            manifest("v1"),
            PERSON,
            manifest("v2"),
        ),
        passes(
            "marks that came along with a copy",
            copy("v1"),
            PERSON,
            copy("v2"),
        ),
        passes("a copy whose marks go", copy("v1"), PERSON, manifest("v1")),
    ]
}

fn new_templates() -> Vec<Row> {
    let on_delete = json!({"type": "OnDelete"});
    let rolling = json!({"type": "RollingUpdate"});
    let at_0 = at_rest();
    vec![
        held(
            "kubectl set image",
            at_rest(),
            at("v2").partition(0).guarded(),
            "0",
        ),
        held("the next manifest, by PUT", at_rest(), manifest("v2"), "0"),
        held(
            "with another partition in the same write",
            at_rest(),
            at("v2").partition(2),
            "2",
        ),
        held(
            "with a percentage in the same write",
            at_rest(),
            at("v2").share("40%"),
            "40%",
        ),
        held(
            "of a workload with a percentage of its own",
            at("v1").share("20%").guarded(),
            at("v2").share("20%").guarded(),
            "20%",
        ),
        held(
            "with an echo of an earlier release of such a workload",
            at_rest(),
            at("v2").partition(4).held("4", "20%"),
            "20%",
        ),
        held(
            "pods of the template are annotated",
            at_rest(),
            at_rest().template_note(),
            "0",
        ),
        held(
            "with the label removed",
            at_rest(),
            at("v2").partition(0).guarded(),
            "0",
        ),
        becomes(
            "and the label goes in the same write",
            at_rest(),
            manifest("v2").unlabelled(),
            at_hold(at("v2"), "0"),
            Told::Held,
        ),
        becomes(
            "without a strategy",
            at("v1").guarded(),
            at("v2").guarded(),
            at_hold(at("v2"), "none")
                .strategy(json!({"rollingUpdate": {"partition": names::HOLD_PARTITION}})),
            Told::Held,
        ),
        held(
            "with a type alone",
            at("v1").guarded(),
            at("v2").guarded().strategy(rolling),
            "none",
        ),
        held(
            "with an update type that ignores partitions",
            at_0.clone(),
            at("v2").strategy(on_delete),
            "none",
        ),
        held(
            "with a forged release",
            at_0.clone(),
            at("v2").partition(0).held("3", "0"),
            "0",
        ),
        held(
            "with an echo of an earlier release",
            at_0.clone(),
            at("v2").partition(4).held("4", "2"),
            "2",
        ),
        becomes(
            "with a partition above the hold",
            at_rest(),
            at("v2").partition(40_000),
            at_hold(at("v2"), "40000").partition(40_000),
            Told::Held,
        ),
        held(
            "another version in mid-release",
            step_1(),
            at("v3").partition(4).held("4", "0"),
            "0",
        ),
        held(
            "another manifest in mid-release",
            step_1(),
            at("v3").partition(1),
            "1",
        ),
        back(
            "back to the stable version",
            step_1(),
            at("v1").partition(4).held("4", "0"),
            "0",
        ),
        back("back by the stable manifest", stored("2"), manifest("v1"), "0"),
        back(
            "back to the stable version of a workload with a percentage",
            stored("20%"),
            at("v1").partition(4).held("4", "20%"),
            "20%",
        ),
        back(
            "by the stable manifest without a strategy",
            step_1(),
            at("v1").strategy(json!({"type": "RollingUpdate"})),
            "none",
        ),
    ]
}

fn rest() -> Vec<Row> {
    let forged = at_rest().held("0", "0");
    let guard = names::GUARDED_BY;
    let other = "UID/another-rollout/0123456789abcdef-01234567";
    vec![
        passes(
            "at rest the partition is people's",
            at_rest(),
            PERSON,
            at("v1").partition(3).guarded(),
        ),
        passes(
            "the update type too",
            at_rest(),
            PERSON,
            at_rest().strategy(json!({"type": "OnDelete"})),
        ),
        passes("and the replicas", at_rest(), PERSON, at_rest().replicas(9)),
        passes("and the label", at_rest(), PERSON, at_rest().unlabelled()),
        becomes(
            "the guard mark stays",
            at_rest(),
            manifest("v1"),
            at_rest(),
            Told::Kept,
        ),
        becomes(
            "as it was",
            at_rest(),
            at_rest().mark(guard, other),
            at_rest(),
            Told::Kept,
        ),
        becomes(
            "nobody else begins a release",
            at_rest(),
            forged,
            at_rest(),
            Told::Kept,
        ),
        becomes(
            "an export of an earlier release asks for what people wanted then",
            at_rest(),
            at("v1").partition(4).held("4", "2"),
            at("v1").partition(2).guarded(),
            Told::Kept,
        ),
        becomes(
            "be it a percentage",
            at_rest(),
            at("v1").partition(4).held("4", "20%"),
            at("v1").share("20%").guarded(),
            Told::Kept,
        ),
        passes(
            "at rest it may be a percentage",
            at_rest(),
            PERSON,
            at("v1").share("20%").guarded(),
        ),
        becomes(
            "a hold of ours that another webhook has made needless",
            at("v1").guarded(),
            at_hold(at("v1"), "none")
                .strategy(json!({"rollingUpdate": {"partition": names::HOLD_PARTITION}})),
            at("v1").guarded(),
            Told::Kept,
        ),
    ]
}
