//! How long each reaction took, between watch events, and whether more ever ran than was granted.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::journal::{Event, Runner, What};

/// The events of each workload, in the order of their arrival.
pub(crate) struct ByName<'a>(BTreeMap<&'a str, Vec<&'a Event>>);

/// Durations of one reaction.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Times(Vec<Duration>);

impl Times {
    /// Number of reactions, and milliseconds: the median, the 99th percentile and the longest.
    pub(crate) fn told(mut self) -> Value {
        self.0.sort();
        let at = |share: f64| {
            let rank = (share * self.0.len() as f64).ceil() as usize;
            let time = self.0.get(rank.saturating_sub(1)).copied();
            time.map(|time| (time.as_secs_f64() * 10_000.0).round() / 10.0)
        };
        json!({"count": self.0.len(), "p50": at(0.5), "p99": at(0.99), "max": at(1.0)})
    }
}

impl<'a> ByName<'a> {
    /// Sorts events by the workload that they are about.
    pub(crate) fn of(events: &'a [Event]) -> Self {
        let mut by_name: BTreeMap<&str, Vec<&Event>> = BTreeMap::new();
        for event in events {
            by_name.entry(&event.name).or_default().push(event);
        }
        Self(by_name)
    }

    /// The first event of a workload since an instant that satisfies a condition.
    fn first(&self, name: &str, since: Instant, condition: impl Fn(&What) -> bool) -> Option<Instant> {
        let events = self.0.get(name)?;
        let mut since = events.iter().filter(|event| event.at >= since);
        since.find(|event| condition(&event.what)).map(|event| event.at)
    }

    /// From each request to the first event that satisfies the condition.
    fn times(&self, sent: &BTreeMap<String, Instant>, condition: impl Fn(&What) -> bool) -> Times {
        let time = |(name, &sent): (&String, &Instant)| Some(self.first(name, sent, &condition)? - sent);
        Times(sent.iter().filter_map(time).collect())
    }

    /// From the changed template to its being seen, held.
    pub(crate) fn patched_to_held(&self, sent: &BTreeMap<String, Instant>, image: &str) -> Times {
        self.times(sent, |what| is_held(what, image))
    }

    /// From the held template to the first lowered partition.
    pub(crate) fn held_to_first(&self, sent: &BTreeMap<String, Instant>, image: &str) -> Times {
        let time = |(name, &sent): (&String, &Instant)| {
            let held = self.first(name, sent, |what| is_held(what, image))?;
            Some(self.first(name, held, |what| is_lowered(what, image))? - held)
        };
        Times(sent.iter().filter_map(time).collect())
    }

    /// From the approval to the next partition below `below`.
    pub(crate) fn approved_to_lowered(&self, sent: &BTreeMap<String, Instant>, below: i64) -> Times {
        self.times(
            sent,
            |what| matches!(what, What::Set(set) if set.partition < below),
        )
    }

    /// From the reverted template to the opened workload.
    pub(crate) fn reverted_to_open(&self, sent: &BTreeMap<String, Instant>, image: &str) -> Times {
        self.times(
            sent,
            |what| matches!(what, What::Set(set) if set.image == image && set.partition == 0),
        )
    }

    /// From the readiness of the last pod that a step grants to the pause of the step, of all steps that pause.
    pub(crate) fn ready_to_paused(&self, since: Instant, image: &str) -> Times {
        let mut times = Vec::new();
        for events in self.0.values() {
            times.extend(pauses(
                events.iter().copied().filter(|event| event.at >= since),
                image,
            ));
        }
        Times(times)
    }
}

fn is_held(what: &What, image: &str) -> bool {
    matches!(what, What::Set(set) if set.image == image && set.partition >= set.replicas)
}

fn is_lowered(what: &What, image: &str) -> bool {
    matches!(what, What::Set(set) if set.image == image && set.partition < set.replicas)
}

fn pauses<'a>(events: impl Iterator<Item = &'a Event>, image: &str) -> Vec<Duration> {
    let (mut granted, mut last_pause, mut times) = (0, 0, Vec::new());
    let mut ready: BTreeMap<&str, Instant> = BTreeMap::new();
    for event in events {
        match &event.what {
            What::Set(set) if set.image == image => granted = set.replicas - set.partition.min(set.replicas),
            What::Pod(Runner {
                pod,
                image: Some(runs),
                ready: true,
            }) if runs == image => {
                ready.entry(pod).or_insert(event.at);
            }
            What::Rollout(course) if course.state == "StepPaused" && course.step > last_pause => {
                last_pause = course.step;
                let mut all: Vec<Instant> = ready.values().copied().collect();
                all.sort();
                let last = usize::try_from(granted)
                    .ok()
                    .and_then(|granted| all.get(granted.checked_sub(1)?));
                times.extend(last.map(|&last| event.at.saturating_duration_since(last)));
            }
            What::Set(_) | What::Pod(_) | What::Rollout(_) => {}
        }
    }
    times
}

/// How often more pods ran a template than the partition in force allowed, while it was the workload's template. Events of different
/// kinds are put into the order of their writes, whatever their order of arrival.
pub(crate) fn violations(events: &[Event], image: &str) -> usize {
    let mut events: Vec<&Event> = events.iter().collect();
    events.sort_by_key(|event| event.version);
    let mut workloads: BTreeMap<&str, Workload> = BTreeMap::new();
    let mut count = 0;
    for event in events {
        let workload = workloads.entry(&event.name).or_default();
        let before = workload.exceeds;
        workload.take(&event.what, image);
        count += usize::from(workload.exceeds && !before);
    }
    count
}

#[derive(Default)]
struct Workload {
    allowed: Option<i64>,
    running: BTreeMap<String, bool>,
    exceeds: bool,
}

impl Workload {
    fn take(&mut self, what: &What, image: &str) {
        match what {
            What::Set(set) => {
                let allowed = set.replicas - set.partition.min(set.replicas);
                self.allowed = (set.image == image).then_some(allowed);
            }
            What::Pod(runner) => {
                let runs = runner.image.as_deref() == Some(image);
                self.running.insert(runner.pod.clone(), runs);
            }
            What::Rollout(_) => return,
        }
        let running = self.running.values().filter(|&&runs| runs).count();
        self.exceeds = self.allowed.is_some_and(|allowed| running as i64 > allowed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::{Course, Set};

    /// Events of one workload, a millisecond apart.
    fn events(all: impl IntoIterator<Item = What>) -> Vec<Event> {
        let start = Instant::now();
        let event = |(number, what)| Event {
            at: start + Duration::from_millis(number),
            version: number,
            name: "app".to_owned(),
            what,
        };
        (0..).zip(all).map(event).collect()
    }

    fn set(image: &str, partition: i64) -> What {
        What::Set(Set {
            image: image.to_owned(),
            replicas: 5,
            partition,
            settled: false,
        })
    }

    fn pod(ordinal: u32, image: &str, ready: bool) -> What {
        What::Pod(Runner {
            pod: format!("app-{ordinal}"),
            image: Some(image.to_owned()),
            ready,
        })
    }

    fn gone(ordinal: u32) -> What {
        What::Pod(Runner {
            pod: format!("app-{ordinal}"),
            image: None,
            ready: false,
        })
    }

    fn paused(step: i64) -> What {
        What::Rollout(Course {
            phase: "Progressing".to_owned(),
            step,
            state: "StepPaused".to_owned(),
        })
    }

    fn milliseconds(all: &[u64]) -> Times {
        Times(all.iter().map(|&time| Duration::from_millis(time)).collect())
    }

    #[test]
    fn reactions_of_a_release() {
        let events = events([
            set("v1", 0),
            set("v2", 32_767),
            set("v2", 4),
            gone(4),
            pod(4, "v2", false),
            pod(4, "v2", true),
            paused(1),
            paused(1),
            set("v2", 2),
            pod(3, "v2", true),
            pod(2, "v2", true),
            pod(3, "v2", true),
            paused(2),
        ]);
        let by_name = ByName::of(&events);
        let sent = BTreeMap::from([("app".to_owned(), events[0].at)]);
        assert_eq!(by_name.patched_to_held(&sent, "v2"), milliseconds(&[1]));
        assert_eq!(by_name.held_to_first(&sent, "v2"), milliseconds(&[1]));
        assert_eq!(by_name.ready_to_paused(events[0].at, "v2"), milliseconds(&[1, 2]));
        let approved = BTreeMap::from([("app".to_owned(), events[7].at)]);
        assert_eq!(by_name.approved_to_lowered(&approved, 4), milliseconds(&[1]));
        assert_eq!(violations(&events, "v2"), 0);
    }

    #[test]
    fn a_revert_is_done_when_the_workload_is_open() {
        let events = events([set("v2", 4), set("v1", 32_767), set("v1", 0)]);
        let sent = BTreeMap::from([("app".to_owned(), events[1].at)]);
        let by_name = ByName::of(&events);
        assert_eq!(by_name.reverted_to_open(&sent, "v1"), milliseconds(&[1]));
        let unknown = BTreeMap::from([("other".to_owned(), events[1].at)]);
        assert_eq!(by_name.reverted_to_open(&unknown, "v1"), milliseconds(&[]));
    }

    #[test]
    fn a_breach_is_counted_once_until_it_is_over() {
        let before = [
            set("v2", 4),
            pod(4, "v2", true),
            pod(3, "v2", false),
            pod(3, "v2", true),
        ];
        assert_eq!(violations(&events(before.clone()), "v2"), 1);
        let again = before.into_iter().chain([gone(3), pod(2, "v2", false)]);
        assert_eq!(violations(&events(again), "v2"), 2);
        // The order of the writes counts.
        let mut late = events([set("v2", 4), pod(4, "v2", true), pod(3, "v2", true), set("v2", 2)]);
        late[3].version = 1;
        assert_eq!(violations(&late, "v2"), 0);
        // What was there before a revert is nobody's breach.
        assert_eq!(
            violations(
                &events([set("v2", 2), pod(4, "v2", true), set("v1", 32_767)]),
                "v2"
            ),
            0
        );
    }

    #[test]
    fn percentiles() {
        let told = milliseconds(&(1..=200).collect::<Vec<_>>()).told();
        assert_eq!(
            told,
            json!({"count": 200, "p50": 100.0, "p99": 198.0, "max": 200.0})
        );
        assert_eq!(
            Times::default().told(),
            json!({"count": 0, "p50": null, "p99": null, "max": null})
        );
    }
}
