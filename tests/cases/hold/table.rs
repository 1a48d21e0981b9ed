//! The rows: old state, writer, new state, and what is stored.

use kruise_rollout::names;
use serde_json::json;

use super::state::{State, at};

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

const PERSON: Writer = Writer {
    user_is_controller: false,
    manager: "developer",
};
const CONTROLLER: Writer = Writer {
    user_is_controller: true,
    manager: names::FIELD_MANAGER,
};
const OTHER_MANAGER: Writer = Writer {
    user_is_controller: true,
    manager: "kubectl-edit",
};
const IMPOSTOR: Writer = Writer {
    user_is_controller: false,
    manager: names::FIELD_MANAGER,
};

/// What the writer is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    Nothing,
    /// The new template is held.
    Held,
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

/// A write that is stored as it was sent.
fn passes(name: &'static str, old: State, writer: Writer, new: State) -> Row {
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
fn becomes(name: &'static str, old: State, new: State, expected: State, told: Told) -> Row {
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
fn held(name: &'static str, old: State, new: State, original: &str) -> Row {
    let expected = at_hold(new.clone(), original);
    becomes(name, old, new, expected, Told::Held)
}

fn at_hold(state: State, original: &str) -> State {
    state
        .partition(names::HOLD_PARTITION)
        .held(&names::HOLD_PARTITION.to_string(), original)
}

/// A write during step 1 of a release of v2; it is stored at partition 4 with this original partition.
fn clamped(name: &'static str, new: State, original: &str) -> Row {
    becomes(name, step_1(), new, stored(original), Told::InProgress)
}

/// Guarded and at rest, on v1.
fn at_rest() -> State {
    at("v1").partition(0).guarded()
}

/// One pod of v2 is allowed.
fn step_1() -> State {
    stored("0")
}

fn stored(original: &str) -> State {
    at("v2").partition(4).held("4", original)
}

/// The manifest in git, which has no marks.
fn manifest(version: &str) -> State {
    at(version).partition(0)
}

/// All cases.
pub fn rows() -> Vec<Row> {
    [
        not_governed(),
        new_templates(),
        rest(),
        partitions(),
        marks(),
        sizes(),
        the_controller(),
    ]
    .into_iter()
    .flatten()
    .collect()
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
        held(
            "back to the stable version",
            step_1(),
            at("v1").partition(4).held("4", "0"),
            "0",
        ),
        held("back by the stable manifest", stored("2"), manifest("v1"), "0"),
        held(
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
            "an export of an earlier release",
            at_rest(),
            at("v1").partition(4).held("4", "0"),
            at("v1").partition(4).guarded(),
            Told::Kept,
        ),
    ]
}

fn partitions() -> Vec<Row> {
    let with = |strategy| step_1().strategy(strategy);
    let untyped = json!({"rollingUpdate": {"partition": 4}});
    vec![
        clamped(
            "partition 0 in mid-release",
            at("v2").partition(0).held("4", "0"),
            "0",
        ),
        clamped(
            "a lower partition is what comes back later",
            at("v2").partition(3).held("4", "0"),
            "3",
        ),
        clamped("the manifest once more", manifest("v2"), "0"),
        clamped(
            "a partition that is none",
            with(json!({"type": "RollingUpdate", "rollingUpdate": {"partition": "50%"}})),
            "none",
        ),
        clamped(
            "the partition is removed",
            with(json!({"type": "RollingUpdate", "rollingUpdate": {}})),
            "none",
        ),
        clamped(
            "the rolling update is removed",
            with(json!({"type": "RollingUpdate"})),
            "none",
        ),
        clamped(
            "an update type that ignores partitions",
            with(json!({"type": "OnDelete", "rollingUpdate": {"partition": 4}})),
            "0",
        ),
        clamped("and nothing else", with(json!({"type": "OnDelete"})), "none"),
        becomes(
            "the strategy is removed",
            step_1(),
            at("v2").held("4", "0"),
            stored("none").strategy(untyped.clone()),
            Told::InProgress,
        ),
        becomes(
            "the strategy is null",
            step_1(),
            with(json!(null)),
            stored("none").strategy(untyped),
            Told::InProgress,
        ),
        becomes(
            "a higher partition is let through and remembered",
            step_1(),
            at("v2").partition(5).held("4", "0"),
            at("v2").partition(5).held("4", "5"),
            Told::InProgress,
        ),
        becomes(
            "the manifest of a workload with a partition of its own",
            stored("2"),
            at("v2").partition(2),
            stored("2"),
            Told::InProgress,
        ),
        becomes(
            "open, and raised",
            at("v2").partition(0).held("0", "2"),
            at("v2").partition(3).held("0", "2"),
            at("v2").partition(3).held("0", "3"),
            Told::InProgress,
        ),
        passes("a label of others", step_1(), PERSON, step_1().tier()),
        passes("nothing at all", step_1(), PERSON, step_1()),
    ]
}

fn marks() -> Vec<Row> {
    let state = || at("v2").partition(0);
    let junk = at("v2").partition(4).held("abc", "0");
    let hold = || at("v2").partition(names::HOLD_PARTITION);
    vec![
        clamped("all marks are removed", at("v2").partition(4), "0"),
        clamped(
            "the release mark is removed",
            step_1().without(names::IN_PROGRESSING),
            "0",
        ),
        clamped(
            "the guard mark is removed",
            step_1().without(names::GUARDED_BY),
            "0",
        ),
        clamped(
            "the grant is removed",
            step_1().without(names::GRANTED_PARTITION),
            "0",
        ),
        clamped(
            "the original partition is removed",
            step_1().without(names::ORIGINAL_PARTITION),
            "0",
        ),
        clamped("the label is removed", step_1().unlabelled(), "0"),
        clamped("label, marks and partition", manifest("v2").unlabelled(), "0"),
        clamped("a forged grant", state().held("0", "0"), "0"),
        clamped(
            "a forged grant alone",
            step_1().mark(names::GRANTED_PARTITION, "0"),
            "0",
        ),
        clamped(
            "an export from before the first grant",
            hold().held("32767", "0"),
            "0",
        ),
        becomes(
            "a grant that cannot be read grants nothing",
            junk.clone(),
            state().held("abc", "0"),
            hold().held("32767", "0"),
            Told::InProgress,
        ),
        becomes(
            "nor does one that is missing",
            step_1().without(names::GRANTED_PARTITION),
            manifest("v2"),
            hold().held("32767", "0"),
            Told::InProgress,
        ),
        becomes(
            "an original partition that cannot be read is none",
            stored("junk"),
            at("v2").partition(4).held("4", "junk").replicas(4),
            stored("none").replicas(4),
            Told::InProgress,
        ),
    ]
}

fn sizes() -> Vec<Row> {
    let at_8 = || at("v2").partition(8).held("8", "0").replicas(8);
    vec![
        becomes(
            "more replicas are not granted",
            step_1(),
            step_1().replicas(8),
            at_8(),
            Told::InProgress,
        ),
        becomes(
            "nor with the manifest",
            step_1(),
            manifest("v2").replicas(8),
            at_8(),
            Told::InProgress,
        ),
        becomes(
            "fewer replicas free no grant",
            step_1(),
            manifest("v2").replicas(3),
            step_1().replicas(3),
            Told::InProgress,
        ),
        becomes(
            "more replicas below the grant",
            step_1().replicas(2),
            manifest("v2").replicas(4),
            step_1().replicas(4),
            Told::InProgress,
        ),
    ]
}

fn the_controller() -> Vec<Row> {
    let by = |writer: Writer, row: Row| Row { writer, ..row };
    let at_2 = at("v2").partition(2).held("2", "0");
    let lower = || at("v2").partition(0).held("0", "0");
    vec![
        passes("the controller grants more", step_1(), CONTROLLER, at_2),
        passes(
            "and releases",
            step_1(),
            CONTROLLER,
            at("v2").partition(0).guarded(),
        ),
        passes("and lets go", step_1(), CONTROLLER, manifest("v2")),
        by(
            CONTROLLER,
            held(
                "but brings no template",
                at_rest(),
                at("v2").partition(0).guarded(),
                "0",
            ),
        ),
        by(
            OTHER_MANAGER,
            clamped("its user with another field manager", lower(), "0"),
        ),
        by(
            IMPOSTOR,
            clamped("another user with its field manager", lower(), "0"),
        ),
    ]
}
