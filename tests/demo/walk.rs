//! The walk: what a user does, what is seen, and what is expected.

use std::collections::BTreeSet;
use std::time::Instant;

use kruise_rollout::names;
use serde_json::{Value, json};
use support::Identity;

use crate::approval;
use crate::latency::{Latencies, Reaction};
use crate::stage::Stage;
use crate::story::Story;
use crate::timeline::{
    Seen, Timeline, condition, is_at, is_ready, last_ready, name, partition, partitions, pod_image, present,
    since, template_image,
};

/// The seconds that step 2 pauses, as `my-app-rollout.yaml` says.
const PAUSE: f64 = 5.0;

/// Images of the three versions.
pub(crate) type Images = [String; 3];

/// The walk on a stage.
pub(crate) struct Walk<'a> {
    pub(crate) story: &'a mut Story,
    pub(crate) stage: &'a Stage<'a>,
    pub(crate) timeline: &'a Timeline,
    pub(crate) images: &'a Images,
    /// Approve without asking.
    pub(crate) approve: bool,
    pub(crate) latencies: Latencies,
}

impl Walk<'_> {
    /// Goes from the first manifest to the table of latencies.
    ///
    /// # Errors
    /// A command fails, or something does not happen at all, so that nothing after it can be expected.
    pub(crate) async fn go(mut self) -> anyhow::Result<()> {
        self.workload().await?;
        self.rollout().await?;
        let released = Instant::now();
        self.release(released, "v2").await?;
        self.reapply_in_mid_release().await?;
        let approved = self.approval(released).await?;
        self.completion(released, approved).await?;
        self.reapply_at_the_end().await?;
        self.rollback().await?;
        self.label().await?;
        self.story.chapter("Latencies");
        self.latencies.tell(self.story);
        Ok(())
    }

    fn image(&self, version: &str) -> &str {
        let index = ["v1", "v2", "v3"].iter().position(|known| *known == version);
        &self.images[index.unwrap_or_default()]
    }

    async fn run(&mut self, who: Identity, line: &str) -> anyhow::Result<String> {
        self.stage.run(self.story, who, line).await
    }

    fn write_app(&self, version: &str) -> anyhow::Result<()> {
        let text = include_str!("my-app.yaml").replace("my-registry/my-app:v1", self.image(version));
        self.stage.write("my-app.yaml", &text)
    }

    async fn workload(&mut self) -> anyhow::Result<()> {
        let namespace = &self.stage.namespace;
        self.story.chapter("A custom workload: 5 pods of v1");
        self.write_app("v1")?;
        let apply = format!("kubectl apply -n {namespace} -f my-app.yaml");
        let start = Instant::now();
        self.run(Identity::Developer, "cat my-app.yaml").await?;
        self.run(Identity::Developer, &apply).await?;
        self.pods_ready(start, "v1", 5).await?;
        self.story
            .seen("5 pods of v1 are ready", Some((start.elapsed(), "the manifest")));
        Ok(())
    }

    async fn rollout(&mut self) -> anyhow::Result<()> {
        let namespace = &self.stage.namespace;
        self.story.chapter("A Rollout for it");
        self.stage
            .write("my-app-rollout.yaml", include_str!("my-app-rollout.yaml"))?;
        let apply = format!("kubectl apply -n {namespace} -f my-app-rollout.yaml");
        self.run(Identity::Developer, "cat my-app-rollout.yaml").await?;
        let start = Instant::now();
        self.run(Identity::Developer, &apply).await?;
        let healthy = self.phase(start, "Healthy").await?;
        self.story.seen(
            "phase Healthy",
            Some((healthy.at.duration_since(start), "the command")),
        );
        self.guarded(&healthy.object);
        Ok(())
    }

    /// Changes the template and follows it to the pause of step 1.
    async fn release(&mut self, start: Instant, version: &str) -> anyhow::Result<()> {
        let image = self.image(version).to_owned();
        let Timeline { apps, rollouts, .. } = self.timeline;
        self.story
            .chapter(&format!("A release: the template says {version}"));
        self.patch_image(&image).await?;
        let held = apps
            .wait(start, "the new template", |app| template_image(app) == image)
            .await?;
        let hold = Some(names::HOLD_PARTITION);
        self.story.check(
            "held in the same request: partition 32767",
            &partition(&held.object),
            &hold,
        );
        let mark = &held.object["metadata"]["annotations"][names::IN_PROGRESSING];
        self.story.check(
            "marked: a release is in progress",
            mark,
            &json!(r#"{"rolloutName":"my-app-rollout"}"#),
        );
        let lowered = apps
            .wait(held.at, "a lower partition", |app| partition(app) != hold)
            .await?;
        self.story.check(
            "step 1 of 3 begins: partition 4",
            &partition(&lowered.object),
            &Some(4),
        );
        self.took(Reaction::Start, &format!("{version} step 1"), held.at, lowered.at);
        let paused = rollouts
            .wait(held.at, "StepPaused at step 1", |rollout| {
                is_at(rollout, 1, "StepPaused")
            })
            .await?;
        self.batch(start, version, 1, 1, &paused).await?;
        self.status().await
    }

    async fn patch_image(&mut self, image: &str) -> anyhow::Result<()> {
        let patch =
            json!({"spec": {"template": {"spec": {"containers": [{"name": "app", "image": image}]}}}});
        let line = format!(
            "kubectl patch mystatefulapp my-app -n {} --type=merge \\\n        -p '{patch}'",
            self.stage.namespace
        );
        self.run(Identity::Developer, &line).await.map(drop)
    }

    async fn status(&mut self) -> anyhow::Result<()> {
        let line = format!(
            "kubectl kruise rollout status rollout/my-app-rollout -n {} --watch=false",
            self.stage.namespace
        );
        self.run(Identity::Developer, &line).await.map(drop)
    }

    /// What is seen when a step pauses: so many pods, not one more, and the pause right after the last one.
    async fn batch(
        &mut self,
        start: Instant,
        version: &str,
        step: u32,
        pods: usize,
        paused: &Seen,
    ) -> anyhow::Result<()> {
        let ready = self.pods_ready(start, version, pods).await?;
        let what = format!(
            "{pods} {} on {version}, not one more",
            if pods == 1 { "pod" } else { "pods" }
        );
        let ever = self.pods_ever(start, None, self.image(version));
        self.story.check(&what, &ever.len(), &pods);
        self.story.seen(
            &format!("step {step}: StepPaused"),
            Some((since(ready, paused.at), "its last pod")),
        );
        self.took(
            Reaction::Pause,
            &format!("{version} step {step}"),
            ready,
            paused.at,
        );
        Ok(())
    }

    /// Waits until so many pods run a version, ready; when the last of them became ready.
    async fn pods_ready(&self, start: Instant, version: &str, count: usize) -> anyhow::Result<Instant> {
        let (pods, image) = (&self.timeline.pods, self.image(version));
        let what = format!("{count} ready pods of {version}");
        pods.until(&what, || last_ready(&pods.since(start), image, count))
            .await
    }

    /// The names of the pods that were seen with an image until now, or until an instant.
    fn pods_ever(&self, start: Instant, end: Option<Instant>, image: &str) -> BTreeSet<String> {
        let seen = self.timeline.pods.since(start);
        let in_time = seen.iter().filter(|seen| end.is_none_or(|end| seen.at < end));
        let with_image = in_time.filter(|seen| pod_image(&seen.object) == image);
        with_image.map(|seen| name(&seen.object)).collect()
    }

    fn took(&mut self, reaction: Reaction, place: &str, from: Instant, to: Instant) {
        self.latencies.add(reaction, place, since(from, to));
    }

    /// What sync tools do all day: nothing may be released by it.
    async fn reapply_in_mid_release(&mut self) -> anyhow::Result<()> {
        self.story
            .chapter("The same manifest again, in mid-release: my-app.yaml has v2 and partition 0");
        self.write_app("v2")?;
        let line = format!("kubectl apply -n {} -f my-app.yaml", self.stage.namespace);
        self.run(Identity::Developer, &line).await?;
        let app = self.stage.app().await?;
        self.story
            .check("nothing is released: partition 4", &partition(&app), &Some(4));
        Ok(())
    }

    /// Approves step 1, after asking; when the approval was seen.
    async fn approval(&mut self, released: Instant) -> anyhow::Result<Seen> {
        self.story.chapter("The approval");
        let approved = |rollout: &Value| {
            is_at(rollout, 1, "StepReady") || rollout["status"]["canaryStatus"]["currentStepIndex"] == 2
        };
        let Timeline { apps, rollouts, .. } = self.timeline;
        let line = format!(
            "kubectl kruise rollout approve rollout/my-app-rollout -n {}",
            self.stage.namespace
        );
        let by_others = rollouts.find(released, approved);
        if self.approve || approval::ask(by_others).await? {
            self.run(Identity::Approver, &line).await?;
        } else {
            self.story.tell("Approved from elsewhere.");
        }
        let seen = rollouts.wait(released, "the approval", approved).await?;
        let lowered = apps
            .wait(released, "partition 2", |app| partition(app) == Some(2))
            .await?;
        self.story.seen(
            "step 2 of 3 begins: partition 2",
            Some((since(seen.at, lowered.at), "the approval")),
        );
        self.took(Reaction::Approval, "v2 step 1", seen.at, lowered.at);
        Ok(seen)
    }

    /// The timed pause, the last step and the end.
    async fn completion(&mut self, released: Instant, approved: Seen) -> anyhow::Result<()> {
        self.story.chapter("The timed pause, and the end");
        let line = format!(
            "kubectl kruise rollout status rollout/my-app-rollout -n {} --watch --timeout=60s",
            self.stage.namespace
        );
        self.run(Identity::Developer, &line).await?;
        let Timeline { apps, rollouts, .. } = self.timeline;
        let paused = rollouts
            .wait(approved.at, "StepPaused at step 2", |rollout| {
                is_at(rollout, 2, "StepPaused")
            })
            .await?;
        let opened = apps
            .wait(approved.at, "partition 0", |app| partition(app) == Some(0))
            .await?;
        let pods = self.pods_ever(released, Some(opened.at), self.image("v2"));
        let ready = self.pods_ready(released, "v2", 3).await?;
        self.story.check("3 pods on v2, not one more", &pods.len(), &3);
        self.took(Reaction::Pause, "v2 step 2", ready, paused.at);
        self.story.seen(
            "step 2: StepPaused",
            Some((since(ready, paused.at), "its last pod")),
        );
        let pause = since(paused.at, opened.at);
        self.story.seen(
            &format!("step 3 of 3 begins by itself after the pause of {PAUSE} s: partition 0"),
            Some((pause, "StepPaused")),
        );
        let healthy = self.phase(paused.at, "Healthy").await?;
        self.pods_ready(released, "v2", 5).await?;
        self.story.seen("phase Healthy, 5 pods on v2", None);
        self.succeeded(&healthy.object, "True", None);
        let partitions = partitions(&apps.since(released));
        self.story.check(
            "partitions seen: 32767, 4, 2, 0",
            &partitions,
            &vec![names::HOLD_PARTITION, 4, 2, 0],
        );
        self.handed_back(released).await
    }

    /// The workload is the user's again.
    async fn handed_back(&mut self, start: Instant) -> anyhow::Result<()> {
        let apps = &self.timeline.apps;
        let marks = |app: &Value| {
            let annotations = &app["metadata"]["annotations"];
            names::RELEASE_MARKS
                .iter()
                .filter(|mark| !annotations[**mark].is_null())
                .count()
        };
        let back = apps
            .until("the workload without release marks", || {
                let last = apps.since(start).pop()?;
                (marks(&last.object) == 0).then_some(last)
            })
            .await?;
        let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}});
        self.story.check(
            "handed back: the marks of the release are gone, the update strategy is the one of the manifest",
            &back.object["spec"]["updateStrategy"],
            &strategy,
        );
        Ok(())
    }

    async fn reapply_at_the_end(&mut self) -> anyhow::Result<()> {
        self.story.chapter("The same manifest again, after the release");
        self.timeline.apps.quiet().await?;
        let before = self.stage.app().await?;
        let line = format!("kubectl apply -n {} -f my-app.yaml", self.stage.namespace);
        self.run(Identity::Developer, &line).await?;
        let after = self.stage.app().await?;
        self.story.check(
            "nothing changes: same resourceVersion",
            &after["metadata"]["resourceVersion"],
            &before["metadata"]["resourceVersion"],
        );
        Ok(())
    }

    async fn rollback(&mut self) -> anyhow::Result<()> {
        let start = Instant::now();
        self.release(start, "v3").await?;
        let image = self.image("v2").to_owned();
        let Timeline { apps, pods, .. } = self.timeline;
        self.story
            .chapter("A rollback at step 1: the template says v2 again");
        let reverted = Instant::now();
        self.patch_image(&image).await?;
        let held = apps
            .wait(reverted, "the old template", |app| template_image(app) == image)
            .await?;
        let opened = apps
            .wait(held.at, "partition 0", |app| partition(app) == Some(0))
            .await?;
        self.story.seen(
            "opened to the stable revision, without steps: partition 0",
            Some((since(held.at, opened.at), "the patch")),
        );
        self.took(Reaction::Revert, "v3 step 1", held.at, opened.at);
        let healthy = self.phase(held.at, "Healthy").await?;
        self.story
            .seen("phase Healthy", Some((since(held.at, healthy.at), "the patch")));
        self.story.check(
            "step state Completed",
            &healthy.object["status"]["canaryStatus"]["currentStepState"],
            &json!("Completed"),
        );
        self.succeeded(&healthy.object, "False", Some("RolledBack"));
        pods.until("5 ready pods of v2 and no other", || {
            let now = present(&pods.since(start));
            // Pods that nothing happened to since the start of this release are not in it: they run v2.
            now.values()
                .all(|pod| pod_image(pod) == image && is_ready(pod))
                .then_some(())
        })
        .await?;
        self.story.seen("every pod runs v2", None);
        self.handed_back(start).await
    }

    async fn label(&mut self) -> anyhow::Result<()> {
        let namespace = self.stage.namespace.clone();
        self.story.chapter("A missing label");
        let start = Instant::now();
        let remove = format!(
            "kubectl label mystatefulapp my-app -n {namespace} {}-",
            names::WORKLOAD_TYPE
        );
        self.run(Identity::Developer, &remove).await?;
        let disabled = self.phase(start, "Disabled").await?;
        let message = disabled.object["status"]["message"].as_str().unwrap_or_default();
        self.story.seen("phase Disabled; its message:", None);
        self.story.quote(message);
        self.story.check(
            "the message names the label and the command that sets it",
            &(message.contains(names::WORKLOAD_TYPE) && message.contains("kubectl ")),
            &true,
        );
        let mend = format!("kubectl kruise workload label mystatefulapp/my-app -n {namespace}");
        let start = Instant::now();
        self.run(Identity::Developer, &mend).await?;
        let healthy = self.phase(start, "Healthy").await?;
        self.story.seen(
            "phase Healthy by itself",
            Some((since(start, healthy.at), "the command")),
        );
        self.guarded(&healthy.object);
        Ok(())
    }

    async fn phase(&self, start: Instant, phase: &str) -> anyhow::Result<Seen> {
        let rollouts = &self.timeline.rollouts;
        let what = format!("phase {phase}");
        rollouts
            .wait(start, &what, |rollout| rollout["status"]["phase"] == phase)
            .await
    }

    fn guarded(&mut self, rollout: &Value) {
        let guarded = condition(rollout, "Guarded");
        self.story
            .check("condition Guarded=True", &guarded["status"], &json!("True"));
        self.story.quote(guarded["message"].as_str().unwrap_or_default());
    }

    fn succeeded(&mut self, rollout: &Value, status: &str, reason: Option<&str>) {
        let found = condition(rollout, "Succeeded");
        let text = format!("condition Succeeded={status}");
        let text = reason.map_or(text.clone(), |reason| format!("{text}, reason {reason}"));
        let found = (found["status"].as_str(), reason.and(found["reason"].as_str()));
        self.story.check(&text, &found, &(Some(status), reason));
    }
}
