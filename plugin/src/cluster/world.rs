//! What is known at a moment: Rollout, workload, pods.

use jiff::Timestamp;
use kruise_rollout::api::v1beta1::Rollout;
use kruise_rollout::report::{Hidden, RolloutReport, Seen, Sources, spec_changed};
use kruise_rollout::workload::{PodView, TemplateId, View};
use kube::api::{Api, ListParams};

use super::event::{Happening, Happenings};
use super::pod::{Owners, Pod};
use super::{Cluster, Workload};
use crate::error::Error;

/// The workload as far as it is known.
#[derive(Clone, Debug, Default)]
pub(super) enum Known {
    /// It could not be read.
    #[default]
    Unknown,
    /// It is not there.
    Missing,
    /// It is there.
    Present(Box<View>),
}

/// One look at a workload.
#[derive(Clone, Debug)]
pub(super) struct Sighting {
    known: Known,
    /// When its spec was written last.
    changed: Option<Timestamp>,
}

impl Sighting {
    /// Of a workload as it was read; `None` when it is not there.
    pub(super) fn of(workload: Option<&Workload>) -> Self {
        Self {
            changed: workload
                .and_then(|workload| spec_changed(&workload.object["metadata"]["managedFields"])),
            known: match workload.map(Workload::view) {
                None => Known::Missing,
                Some(Some(Ok(view))) => Known::Present(Box::new(view)),
                Some(Some(Err(_)) | None) => Known::Unknown,
            },
        }
    }
}

/// Rollout, workload and pods.
#[derive(Debug)]
pub(crate) struct World {
    pub(super) rollout: Rollout,
    pub(super) known: Known,
    /// Sorted by name; `None` when they could not be read.
    pub(super) pods: Option<Vec<PodView>>,
    pub(super) happenings: Happenings,
    /// When the workload's spec was written last.
    pub(super) changed: Option<Timestamp>,
    /// What could not be read.
    pub(super) hidden: Vec<Hidden>,
}

impl World {
    /// The pods, sorted by name; `None` when they could not be read.
    pub(crate) fn pods(&self) -> Option<&[PodView]> {
        self.pods.as_deref()
    }

    /// The last events, the newest at the end.
    pub(crate) fn last_events(&self, count: usize) -> Vec<Happening> {
        self.happenings.last(count)
    }

    /// Events since this was asked last; those that were there when the watch began are none.
    pub(crate) fn new_events(&mut self) -> Vec<Happening> {
        self.happenings.fresh()
    }

    /// When the Rollout got into the state of its step.
    pub(crate) fn since(&self) -> Option<Timestamp> {
        let canary = self.rollout.status.as_ref()?.canary_status.as_ref()?;
        canary.last_update_time.as_ref().map(|time| time.0)
    }

    /// A Rollout of which nothing else is known yet.
    pub(super) fn new(rollout: Rollout) -> Self {
        Self {
            rollout,
            known: Known::Unknown,
            pods: None,
            happenings: Happenings::default(),
            changed: None,
            hidden: Vec::new(),
        }
    }

    /// The report of this moment.
    pub(crate) fn report(&self, followed: Option<&TemplateId>, now: Timestamp) -> RolloutReport {
        RolloutReport::new(&self.sources(followed, now))
    }

    /// What reports of this moment are made from.
    pub(crate) fn sources<'a>(&'a self, followed: Option<&'a TemplateId>, now: Timestamp) -> Sources<'a> {
        let workload = match &self.known {
            Known::Unknown => Seen::Unknown,
            Known::Missing => Seen::Missing,
            Known::Present(view) => Seen::Present(view),
        };
        Sources {
            rollout: &self.rollout,
            workload,
            pods: self.pods.as_deref(),
            followed,
            hidden: &self.hidden,
            workload_changed: self.changed,
            now,
        }
    }

    /// The Rollout.
    pub(crate) fn rollout(&self) -> &Rollout {
        &self.rollout
    }

    /// The workload, as far as decisions go.
    pub(crate) fn view(&self) -> Option<&View> {
        match &self.known {
            Known::Present(view) => Some(view),
            Known::Unknown | Known::Missing => None,
        }
    }

    /// The template that the workload has.
    pub(crate) fn template(&self) -> Option<&TemplateId> {
        self.view().map(|view| &view.template)
    }

    /// Takes in the workload. Returns its UID when it is there.
    pub(super) fn take_workload(&mut self, workload: Option<&Workload>) -> Option<String> {
        self.take(Sighting::of(workload));
        self.view().map(|view| view.uid.clone())
    }

    /// Takes in a look at the workload.
    pub(super) fn take(&mut self, sighting: Sighting) {
        self.known = sighting.known;
        self.changed = sighting.changed;
    }

    pub(super) fn take_pod(&mut self, pod: PodView) {
        let pods = self.pods.get_or_insert_default();
        match pods.binary_search_by(|known| known.name.cmp(&pod.name)) {
            Ok(position) => pods[position] = pod,
            Err(position) => pods.insert(position, pod),
        }
    }

    pub(super) fn drop_pod(&mut self, name: &str) {
        if let Some(pods) = &mut self.pods {
            pods.retain(|pod| pod.name != name);
        }
    }
}

impl Cluster {
    /// Reads a Rollout with its workload and pods. What may not be read is left out and named in the second part.
    pub(crate) async fn world(&self, name: &str) -> Result<(World, Option<Workload>, Vec<String>), Error> {
        let (mut world, workload) = self.world_without_pods(name).await?;
        if let (Some(view), Some(workload)) = (world.view(), &workload) {
            match self.pods(&view.uid, workload).await {
                Ok(pods) => world.pods = Some(pods),
                Err(Error::Forbidden { right, .. }) => world.hidden.push(Hidden { part: "pods", right }),
                Err(error) => return Err(error),
            }
        }
        let notes = world.hidden.iter().map(ToString::to_string).collect();
        Ok((world, workload, notes))
    }

    /// Reads a Rollout with its workload.
    pub(super) async fn world_without_pods(&self, name: &str) -> Result<(World, Option<Workload>), Error> {
        let mut world = World::new(self.rollout(name).await?);
        let workload = match self.workload_of(&world.rollout.spec.workload_ref).await {
            Ok(workload) => workload,
            Err(Error::Forbidden { right, .. }) => {
                let part = "the workload and its pods";
                world.hidden.push(Hidden { part, right });
                return Ok((world, None));
            }
            Err(error) => return Err(error),
        };
        world.take_workload(workload.as_ref());
        Ok((world, workload))
    }

    /// The pods of a workload, sorted by name; each is reduced on arrival.
    pub(super) async fn pods(&self, uid: &str, workload: &Workload) -> Result<Vec<PodView>, Error> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let params = ListParams {
            label_selector: workload.selector(),
            ..ListParams::default()
        };
        let mut owners = Owners::new(uid.to_owned());
        let mut pods = Vec::new();
        self.each(&api, params, "list pods", |pod: Pod| {
            pods.extend(Some(pod.kept()).filter(|pod| owners.may_have(pod)));
        })
        .await?;
        Ok(owners.pick(self, pods).await)
    }
}
