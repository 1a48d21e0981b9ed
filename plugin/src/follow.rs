//! Following releases to their ends: what `rollout status`, `rollout wait` and every `--watch` do.

mod course;
mod view;

use futures::FutureExt;
use futures::future::select_all;
use jiff::Timestamp;
use kruise_rollout::report::{RolloutReport, State, Verdict};
use kruise_rollout::workload::TemplateId;
use tokio::time::Instant;

use crate::cli::{Follow, Output, Until};
use crate::cluster::{Arrival, Cluster, Feeds, World};
use crate::error::Error;
use crate::render;
use crate::ui::{Listener, Ui};
use course::Course;
use view::View;

pub(crate) use course::{PAUSED, gravest};

/// Seconds without an answer that are worth a word; servers and proxies end connections all the time.
const NOTICEABLE: u64 = 1;

/// Follows these Rollouts, each in its namespace, until all have come so far or cannot any more. Returns the gravest exit code
/// (1, 3, 6, 4, 5, 0, in this order); errors of single Rollouts have been said then.
///
/// # Errors
/// There is no terminal for what was asked for, or nobody reads standard output.
pub(crate) async fn follow(
    targets: Vec<(Cluster, String)>,
    until: Until,
    how: &Follow,
    output: Option<Output>,
    ui: &mut Ui,
) -> Result<u8, Error> {
    let view = View::new(how, output, targets.len(), ui)?;
    // What is too far away to be written never comes.
    let deadline = Instant::now()
        .checked_add(how.timeout)
        .filter(|_| !how.timeout.is_zero());
    let mut tracks = Vec::new();
    let mut codes = Vec::new();
    for (cluster, name) in targets {
        let begun = Track::begin(&cluster, &name, until, how, view.wants_events());
        match within(deadline, begun, &name).await {
            Ok((track, notes)) => {
                notes.iter().for_each(|note| view.say(note, ui));
                tracks.push(track);
            }
            Err(error) => {
                error.explain(ui);
                codes.push(error.exit_code());
            }
        }
    }
    let mut watch = Watch {
        tracks,
        view,
        deadline,
        listener: Listener::new(),
    };
    if !watch.tracks.is_empty() {
        watch.run(ui).await?;
    }
    codes.extend(watch.tracks.iter().filter_map(|track| track.code));
    Ok(gravest(codes))
}

/// One release that is followed.
struct Track {
    world: World,
    feeds: Feeds,
    course: Course,
    /// The template that the workload had when the watch began.
    followed: Option<TemplateId>,
    /// The revision that was asked for.
    revision: Option<String>,
    /// As of the last look.
    report: RolloutReport,
    /// The exit code, at the end.
    code: Option<u8>,
    /// Why it ended without a verdict.
    error: Option<Error>,
    /// Its end has been shown.
    said: bool,
}

impl Track {
    async fn begin(
        cluster: &Cluster,
        name: &str,
        until: Until,
        how: &Follow,
        events: bool,
    ) -> Result<(Self, Vec<String>), Error> {
        let (world, workload, notes) = cluster.world(name).await?;
        let track = Self {
            feeds: Feeds::new(cluster, name, &world, workload, how.interval, events),
            course: Course::new(until, how),
            followed: None,
            revision: how.revision.clone(),
            report: world.report(None, now()),
            world,
            code: None,
            error: None,
            said: false,
        };
        Ok((track, notes))
    }

    /// Looks at what is known now.
    fn look(&mut self, at: Instant) {
        if self.code.is_some() {
            return;
        }
        // The template of a workload that comes later is followed from then on.
        if self.followed.is_none() {
            self.followed = self.world.template().cloned();
        }
        self.report = self.world.report(self.followed.as_ref(), now());
        if let Some(revision) = &self.revision {
            supersede(&mut self.report, revision);
        }
        self.code = self.course.over(&self.report, at);
    }

    fn fails(&mut self, error: Error) {
        self.code = Some(error.exit_code());
        self.error = Some(error);
    }

    /// For how many seconds the API server has not been heard.
    fn reconnecting(&self, at: Instant) -> Option<u64> {
        let (since, _) = self.feeds.broken()?;
        let seconds = at.saturating_duration_since(since).as_secs();
        (seconds >= NOTICEABLE && self.code.is_none()).then_some(seconds)
    }
}

/// Another revision than the one that was asked for is another release.
fn supersede(report: &mut RolloutReport, revision: &str) {
    let going_back = matches!(report.state, State::RollingBack | State::RolledBack);
    let other = |update: &String| !update.starts_with(revision) && !update.ends_with(revision);
    if !going_back && report.revisions.update.as_ref().is_some_and(other) {
        report.state = State::Superseded;
        report.verdict = Verdict::Superseded;
        report.exit_code = report.verdict.exit_code();
        // What takes the other release further is not asked for.
        report.next = None;
    }
}

struct Watch {
    tracks: Vec<Track>,
    view: View,
    deadline: Option<Instant>,
    listener: Listener,
}

impl Watch {
    async fn run(&mut self, ui: &mut Ui) -> Result<(), Error> {
        loop {
            let at = Instant::now();
            self.tracks.iter_mut().for_each(|track| track.look(at));
            if self.deadline.is_some_and(|deadline| deadline <= at) {
                for track in self.tracks.iter_mut().filter(|track| track.code.is_none()) {
                    track.fails(Error::Timeout(render::subject(&track.report.name)));
                }
            }
            self.view.show(&mut self.tracks, at, ui)?;
            let over = self.tracks.iter().all(|track| track.code.is_some());
            if over {
                self.view.close();
            }
            if over || self.view.says_at_once() {
                let ended = |track: &&mut Track| track.code.is_some() && !track.said;
                for track in self.tracks.iter_mut().filter(ended) {
                    self.view.end(track, ui)?;
                    track.said = true;
                }
            }
            if over {
                return Ok(());
            }
            self.wait(at, ui).await?;
        }
    }

    /// Waits until there is something to look at or to show.
    async fn wait(&mut self, at: Instant, ui: &mut Ui) -> Result<(), Error> {
        let patience = self.tracks.iter().filter_map(|track| track.course.patience());
        let wake = [self.deadline, self.view.wake(at)]
            .into_iter()
            .flatten()
            .chain(patience.filter(|until| *until > at))
            .min();
        tokio::select! {
            (index, arrival) = arrival(&mut self.tracks) => self.take_in(index, arrival, ui).await,
            () = self.view.resized() => {}
            () = until(wake) => {}
            () = self.listener.gone() => return Err(Error::Io(std::io::ErrorKind::BrokenPipe.into())),
        }
        // Whatever comes before the next frame is drawn with it.
        if let Some(frame) = self.view.next_frame() {
            tokio::time::sleep_until(self.deadline.map_or(frame, |deadline| deadline.min(frame))).await;
        }
        Ok(())
    }

    async fn take_in(&mut self, index: usize, arrival: Arrival, ui: &mut Ui) {
        let track = &mut self.tracks[index];
        let name = track.report.name.clone();
        let taken = track.feeds.take_in(arrival, &mut track.world);
        match within(self.deadline, taken, &name).await {
            Ok(notes) => notes.iter().for_each(|note| self.view.say(note, ui)),
            Err(error) => track.fails(error),
        }
    }
}

/// The next change of any release that is still followed, and which one it is.
async fn arrival(tracks: &mut [Track]) -> (usize, Arrival) {
    let open = tracks
        .iter_mut()
        .enumerate()
        .filter(|(_, track)| track.code.is_none());
    let arrivals: Vec<_> = open
        .map(|(index, track)| {
            track
                .feeds
                .arrival()
                .map(move |arrival| (index, arrival))
                .boxed_local()
        })
        .collect();
    if arrivals.is_empty() {
        return std::future::pending().await;
    }
    select_all(arrivals).await.0
}

/// The outcome, if it comes in time.
async fn within<T>(
    deadline: Option<Instant>,
    work: impl Future<Output = Result<T, Error>>,
    name: &str,
) -> Result<T, Error> {
    match deadline {
        None => work.await,
        Some(deadline) => tokio::time::timeout_at(deadline, work)
            .await
            .unwrap_or_else(|_| Err(Error::Timeout(render::subject(name)))),
    }
}

async fn until(wake: Option<Instant>) {
    match wake {
        Some(wake) => tokio::time::sleep_until(wake).await,
        None => std::future::pending().await,
    }
}

/// The time. Everything below is told it.
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}
