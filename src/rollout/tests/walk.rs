//! The main job: a release from the first pod to the last.

use super::world::{World, steps};
use crate::api::v1beta1::condition;
use crate::names;

#[test]
fn the_walk() {
    let mut world = World::guarded(5, Some(0), &steps());
    assert_eq!(world.at(), "Healthy 3/Completed");
    world.set_image("v2");
    assert_eq!(world.partition(), Some(names::HOLD_PARTITION));
    world.settle();
    assert_eq!(
        (world.at().as_str(), world.on("v2")),
        ("Progressing 1/StepPaused", vec![4])
    );
    assert!(
        world
            .status()
            .message
            .contains("kubectl kruise rollout approve rollout/my-app-rollout -n default")
    );
    world.approve();
    world.settle();
    assert_eq!(
        (world.at().as_str(), world.on("v2")),
        ("Progressing 2/StepPaused", vec![2, 3, 4])
    );
    world.pass(299);
    world.settle();
    assert_eq!(world.at(), "Progressing 2/StepPaused");
    world.pass(1);
    world.settle();
    world.assert_done("v2", Some(0));
    assert_eq!(world.partitions, [Some(32767), Some(4), Some(2), Some(0)]);
    let expected = [
        "Progressing 1/StepUpgrade",
        "Progressing 1/StepPaused",
        "Progressing 2/StepUpgrade",
        "Progressing 2/StepPaused",
        "Progressing 3/StepUpgrade",
        "Healthy 3/Completed",
    ];
    assert_eq!(world.states, expected);
    assert_eq!(
        world.says(condition::PROGRESSING),
        ("False".into(), "Completed".into())
    );
    assert_eq!(
        world.says(condition::SUCCEEDED),
        ("True".into(), "Success".into())
    );
    assert_eq!(world.says(condition::READY), ("True".into(), "Healthy".into()));
    assert_eq!(world.says(condition::GUARDED).0, "True");
    let before = world.object().clone();
    world.put(super::world::manifest(5, Some(0), "v2"));
    assert_eq!(world.object(), &before);
    // One for each state above, and one when the operator names the new revision.
    assert_eq!(world.status_writes, 7);
}
