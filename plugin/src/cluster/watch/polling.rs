//! What may be read and not watched is read now and then.

use tokio::time::{Instant, MissedTickBehavior};

use super::{Event, Feeds, Part, World};
use crate::error::Error;

/// Looks in a row that may be refused; the right was there when the watch began.
const DOUBTS: u32 = 3;

impl Feeds {
    /// From now on this part is read now and then.
    pub(super) fn poll(&mut self, part: Part, what: &str, notes: &mut Vec<String>) {
        if self.polled.contains(&part) {
            return;
        }
        notes.push(format!(
            "{what} may not be watched: read every {} s instead",
            self.interval.as_secs_f32()
        ));
        self.polled.push(part);
        let interval = self.interval;
        self.poll.get_or_insert_with(|| {
            let mut ticks = tokio::time::interval_at(Instant::now() + interval, interval);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            ticks
        });
    }

    /// Reads what may not be watched.
    pub(super) async fn look(&mut self, world: &mut World, notes: &mut Vec<String>) -> Result<(), Error> {
        for part in self.polled.clone() {
            let outcome = match part {
                Part::Rollout => self.look_at_rollout(world).await,
                Part::Workload => self.look_at_workload(world).await,
                Part::Pods => self.look_at_pods(world).await,
                Part::EventsOfRollout | Part::EventsOfWorkload => Ok(()),
            };
            match outcome {
                Ok(()) => {
                    if part == Part::Rollout {
                        self.refusals = 0;
                    }
                    notes.extend(self.link.mends(part));
                }
                Err(error @ Error::Unreachable { .. }) => {
                    notes.extend(self.link.breaks(part, &error.to_string(), 2));
                }
                // A server that starts does not know everything at once.
                Err(Error::Server(_) | Error::NotInstalled) => {}
                Err(Error::Forbidden { .. }) if part == Part::Rollout && self.refusals < DOUBTS => {
                    self.refusals += 1;
                }
                Err(error) if part == Part::Rollout => return Err(error),
                Err(Error::Forbidden { right, .. }) => {
                    self.polled.retain(|known| *known != part);
                    notes.push(format!("not everything is shown any more: you may not {right}"));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn look_at_rollout(&mut self, world: &mut World) -> Result<(), Error> {
        match self.cluster.rollout(&self.name).await {
            Ok(rollout) => self.take_rollout(Event::Apply(rollout), world).await,
            Err(Error::NotFound { .. }) => Err(self.deleted()),
            Err(error) => Err(error),
        }
    }

    async fn look_at_workload(&mut self, world: &mut World) -> Result<(), Error> {
        let Some(target) = &self.target else { return Ok(()) };
        let found = self.cluster.workload(&target.resource, &target.name).await?;
        self.note_workload(found.map(|found| found.object), world);
        Ok(())
    }

    async fn look_at_pods(&mut self, world: &mut World) -> Result<(), Error> {
        if let (Some(target), Some(owners)) = (&self.target, &self.owners) {
            world.pods = Some(self.cluster.pods(&owners.uid, target).await?);
        }
        Ok(())
    }
}
