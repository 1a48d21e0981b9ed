//! The rows of writes while a release is under way.

use kruise_rollout::names;
use serde_json::json;

use super::state::{State, at};
use super::table::{
    CONTROLLER, IMPOSTOR, OTHER_MANAGER, PERSON, Row, Told, Writer, at_rest, becomes, held, manifest, passes,
};

/// A write during step 1 of a release of v2; it is stored at partition 4 with this original partition.
fn clamped(name: &'static str, new: State, original: &str) -> Row {
    becomes(name, step_1(), new, stored(original), Told::InProgress)
}

/// One pod of v2 is allowed.
pub fn step_1() -> State {
    stored("0")
}

/// The same with this original partition.
pub fn stored(original: &str) -> State {
    at("v2").partition(4).held("4", original)
}

/// Writes of partition and strategy.
pub fn partitions() -> Vec<Row> {
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
            at("v2").share("half").held("4", "0"),
            "none",
        ),
        clamped(
            "a percentage is what comes back later",
            at("v2").share("50%").held("4", "0"),
            "50%",
        ),
        clamped(
            "one of all holds no more than is granted",
            at("v2").share("100%").held("4", "0"),
            "100%",
        ),
        clamped("one of none releases nothing", at("v2").share("0%"), "0%"),
        clamped(
            "a percentage that we would not give back as it is",
            at("v2").share("020%").held("4", "0"),
            "none",
        ),
        clamped(
            "a percentage with a grant in its own image",
            at("v2").share("4%").held("4%", "0"),
            "4%",
        ),
        becomes(
            "the manifest of a workload with a percentage of its own",
            stored("20%"),
            at("v2").share("20%"),
            stored("20%"),
            Told::InProgress,
        ),
        becomes(
            "a percentage that came past admission",
            at("v2").share("20%").held("4", "0"),
            at("v2").share("20%").held("4", "0").tier().unmarked(),
            stored("0").tier(),
            Told::InProgress,
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

/// Writes of marks and label.
pub fn marks() -> Vec<Row> {
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
        becomes(
            "nor is a percentage that we do not write",
            stored("020%"),
            step_1().unlabelled().mark(names::ORIGINAL_PARTITION, "020%"),
            stored("none"),
            Told::InProgress,
        ),
    ]
}

/// Writes of replicas.
pub fn sizes() -> Vec<Row> {
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

/// Writes of the controller, and of those who pass for it.
pub fn the_controller() -> Vec<Row> {
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
        passes(
            "and hands back a percentage",
            stored("20%"),
            CONTROLLER,
            at("v2").share("20%").guarded(),
        ),
        by(
            CONTROLLER,
            held(
                "but brings no template",
                at_rest(),
                at("v2").partition(0).guarded(),
                "0",
            ),
        ),
        passes(
            "it lets go although another webhook changes the template",
            step_1(),
            CONTROLLER,
            at("v3").partition(0),
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
