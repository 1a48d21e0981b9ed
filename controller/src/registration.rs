//! Our registrations: which writes the API server sends to us, and which it judges by itself.
//!
//! There is one webhook entry for each kind that is governed, so nothing else in the cluster ever waits for us. Where the server has
//! mutating admission policies, the same hold is kept by policies ([`policies`]), in the server's own process: once they are in
//! place and [`proof`] has shown that they hold without us, the entries of their kinds may fail, and an outage of ours neither blocks
//! an update nor lets one escape.
//!
//! The controller writes all of them itself and puts them right when somebody resets them; they are owned by its ClusterRole, so that
//! removing the RBAC removes them. They are also the memory of what is governed: a restarted controller finds marked objects by the
//! kinds that are registered here.
//!
//! [`entries`] has what the webhook configurations say, [`kept`] how one object is kept, [`crate::pace`] keeps two writers from
//! outshouting each other. Every replica looks at the registrations, because a certificate is served only where they trust it; the
//! leading one writes.

mod entries;
mod kept;
mod lookup;
mod policies;
mod proof;
mod seen;
mod standing;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::select_all;
use kruise_rollout::names;
use kruise_rollout::workload::GroupKind;
use kube::api::ApiResource;
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use self::entries::{Entries, dispensed, kind_of, plural_of};
use self::kept::{Kept, RETRY, Wanted};
use self::lookup::owner;
use self::policies::{Wish, in_place, wishes};
use self::seen::{Seen, changes};
use self::standing::{Plural, Standing};
use crate::certs::{CertState, Trusted};
use crate::context::Context;
use crate::lease::Leadership;
use crate::telemetry::chain;

pub(crate) use self::entries::{Endpoint, Governed};
pub(crate) use self::lookup::{found_group, registered_before, resources};
pub(crate) use self::policies::Sort;
pub(crate) use self::proof::Prover;

/// How long it may take until the server has told of all sorts of registrations what there is. The webhook can do without those that
/// it does not tell of.
const KNOWN_WITHIN: Duration = Duration::from_secs(10);
/// Pause after a policy that could not be written. The webhook holds meanwhile.
const POLICIES_AGAIN: Duration = Duration::from_secs(10);

/// Keeps the registrations right.
pub(crate) struct Registrar {
    context: Arc<Context>,
    endpoint: Endpoint,
    leadership: Leadership,
    switches: Switches,
    kinds: watch::Receiver<Governed>,
    certificates: watch::Receiver<Option<CertState>>,
    trusted: watch::Sender<Trusted>,
    /// Kinds whose policies are in place, but not proven.
    to_prove: watch::Sender<Vec<GroupKind>>,
    /// Kinds whose policies have been asked to hold, and whether they did.
    proofs: mpsc::Receiver<(GroupKind, bool)>,
    standing: Standing,
    objects: BTreeMap<(Sort, String), Kept>,
    /// Of each sort, whether the server has it, once it has been asked.
    served: BTreeMap<Sort, bool>,
    owner: Option<Value>,
    began: Instant,
}

/// Which policies are wanted, where the server has such.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Switches {
    /// Those that hold.
    pub(crate) hold: bool,
    /// The one of the status allows jumps, too.
    pub(crate) jumps: bool,
}

/// What the registrar needs from others, and tells them.
pub(crate) struct Inputs {
    /// The kinds to register.
    pub(crate) kinds: watch::Receiver<Governed>,
    /// What has to be trusted.
    pub(crate) certificates: watch::Receiver<Option<CertState>>,
    /// Told: what is trusted.
    pub(crate) trusted: watch::Sender<Trusted>,
}

impl Registrar {
    /// A registrar, and the prover of what it registers.
    pub(crate) fn new(
        context: Arc<Context>,
        endpoint: Endpoint,
        leadership: Leadership,
        switches: Switches,
        inputs: Inputs,
    ) -> (Self, Prover) {
        let (to_prove, unproven) = watch::channel(Vec::new());
        let (proofs, proven) = mpsc::channel(1);
        let prover = Prover::new(context.clone(), unproven, proofs);
        let registrar = Self {
            context,
            endpoint,
            leadership,
            switches,
            kinds: inputs.kinds,
            certificates: inputs.certificates,
            trusted: inputs.trusted,
            to_prove,
            proofs: proven,
            standing: Standing::default(),
            began: Instant::now(),
            objects: BTreeMap::new(),
            served: BTreeMap::new(),
            owner: None,
        };
        (registrar, prover)
    }

    /// Runs until `stop`.
    pub(crate) async fn keep(mut self, stop: CancellationToken) -> Result<(), Infallible> {
        stop.run_until_cancelled(self.turn()).await;
        Ok(())
    }

    async fn turn(&mut self) -> Infallible {
        let client = self.context.client.clone();
        let mut seen = select_all(Sort::ALL.map(|sort| changes(&client, &self.context.area, sort)));
        let mut again: Option<Instant> = None;
        loop {
            tokio::select! {
                Some((sort, seen)) = seen.next() => self.see(sort, seen),
                Ok(()) = self.kinds.changed() => {}
                Ok(()) = self.certificates.changed() => {}
                Some((kind, held)) = self.proofs.recv() => self.proved(&kind, held),
                () = self.leadership.changed() => {}
                () = sleep_until(again.unwrap_or_else(Instant::now)), if again.is_some() => {}
            }
            again = None;
            if !Sort::WEBHOOKS.iter().all(|sort| self.serves(*sort)) {
                continue;
            }
            self.tell_trusted();
            // Of several replicas the one that leads writes.
            if !self.leadership.holds() {
                self.standing = Standing::default();
                self.context.metrics.dispenses(0);
                self.to_prove
                    .send_if_modified(|kinds| !std::mem::take(kinds).is_empty());
                continue;
            }
            // Before all is known that there is, an entry might be told to fail no more, or again.
            let patience = self.began + KNOWN_WITHIN;
            if self.served.len() < Sort::ALL.len() && Instant::now() < patience {
                again = Some(patience);
                continue;
            }
            again = match self.write().await {
                Ok(later) => later,
                Err(error) => {
                    tracing::warn!(error = %chain(&error), "The webhook configurations cannot be written.");
                    Some(Instant::now() + RETRY)
                }
            };
            self.tell_trusted();
        }
    }

    /// Takes what the watch of a sort says.
    fn see(&mut self, sort: Sort, seen: Seen) {
        match seen {
            Seen::All(mut objects) => {
                self.served.insert(sort, true);
                for ((_, name), kept) in self
                    .objects
                    .range_mut((sort, String::new())..)
                    .take_while(|((of, _), _)| *of == sort)
                {
                    kept.see(objects.remove(name).unwrap_or_default());
                }
                for (name, object) in objects {
                    self.kept(sort, &name).see(object);
                }
            }
            Seen::NotServed => {
                if self.served.insert(sort, false) == Some(true) {
                    tracing::warn!(
                        kind = sort.resource().kind,
                        "The API server has no such kind any more."
                    );
                }
                self.objects.retain(|(of, _), _| *of != sort);
            }
        }
    }

    /// Name of the webhook configurations.
    fn configuration(&self) -> String {
        self.context.area.name(names::WEBHOOK_CONFIGURATION)
    }

    fn serves(&self, sort: Sort) -> bool {
        self.served.get(&sort) == Some(&true)
    }

    fn kept(&mut self, sort: Sort, name: &str) -> &mut Kept {
        self.objects.entry((sort, name.to_owned())).or_default()
    }

    fn seen(&self, sort: Sort, name: &str) -> &Value {
        self.objects
            .get(&(sort, name.to_owned()))
            .map_or(&Value::Null, Kept::seen)
    }

    fn tell_trusted(&self) {
        let configurations = self
            .objects
            .iter()
            .filter(|((sort, _), _)| Sort::WEBHOOKS.contains(sort));
        let bundles: BTreeSet<_> = configurations.flat_map(|(_, kept)| kept.bundles()).collect();
        self.trusted.send_if_modified(|trusted| {
            let new = trusted.0 != bundles;
            trusted.0 = bundles;
            new
        });
    }

    fn proved(&mut self, kind: &GroupKind, held: bool) {
        let governed = self.kinds.borrow();
        let Some(resource) = governed
            .resources
            .iter()
            .find(|resource| kind_of(resource) == *kind)
        else {
            return;
        };
        if held {
            tracing::info!(%kind, "The admission policies hold without the webhook.");
        } else {
            tracing::warn!(%kind, "The admission policies do not hold without the webhook, which therefore has to answer.");
        }
        self.standing.proved(plural_of(resource), held);
    }

    /// Writes what is not as it should be; when to look again, if something has to wait.
    async fn write(&mut self) -> kube::Result<Option<Instant>> {
        let Some(CertState { ca_bundle_pem }) = self.certificates.borrow_and_update().clone() else {
            return Ok(None);
        };
        let governed = self.kinds.borrow_and_update().clone();
        let wishes = self.policies(&governed);
        let now = Instant::now();
        let dispensed = self.dispensed(&governed, &wishes, now);
        self.context.metrics.dispenses(dispensed.len());
        let mut later: Vec<_> = self.standing.next(now).into_iter().collect();
        // An entry that may fail is only written once the policies are there; one that may not, before they go.
        let webhooks = self
            .write_webhooks(&governed, ca_bundle_pem.as_deref(), &dispensed)
            .await;
        let needless = match &webhooks {
            Ok(waits) if waits.is_empty() => self.needless(&governed, &wishes),
            _ => Vec::new(),
        };
        match self.write_policies(wishes, needless).await {
            Ok(waits) => later.extend(waits),
            Err(error) => {
                tracing::warn!(error = %chain(&error), "The admission policies cannot be written; the webhook goes on holding.");
                later.push(now + POLICIES_AGAIN);
            }
        }
        later.extend(webhooks?);
        Ok(later.into_iter().min())
    }

    /// The policies that there should be, where the server has such: validating ones are older than mutating ones.
    fn policies(&self, governed: &Governed) -> Vec<Wish> {
        let (username, area) = (&self.context.username, &self.context.area);
        let has = |sorts: &[Sort]| sorts.iter().all(|sort| self.serves(*sort));
        let mut wanted = Vec::new();
        if has(&Sort::VALIDATING) {
            wanted.extend(Wish::status(username, area, self.switches.jumps));
            if has(&Sort::MUTATING) && self.switches.hold {
                let present = |name: &str| self.seen(Sort::MutatingPolicy, name).clone();
                wanted.extend(wishes(username, area, governed, present));
            }
        }
        wanted
    }

    /// The kinds that the API server holds by itself. Those whose policies are in place are to be proven.
    fn dispensed(&mut self, governed: &Governed, wishes: &[Wish], now: Instant) -> BTreeSet<Plural> {
        let configuration = self.seen(Sort::MutatingWebhook, &self.configuration());
        let inherited: Vec<_> = dispensed(configuration).collect();
        self.standing.inherit(inherited);
        let in_place = in_place(wishes, &self.context.area, |wish| {
            let kept = self.objects.get(&(wish.sort, wish.name.clone()));
            kept.is_some_and(|kept| kept.says(&wish.wanted))
        });
        self.standing.see(&in_place, now);
        let unproven = governed.resources.iter();
        let unproven: Vec<_> = unproven
            .filter(|resource| self.standing.is_unproven(&plural_of(resource)))
            .map(kind_of)
            .collect();
        self.to_prove.send_if_modified(|present| {
            let new = *present != unproven;
            *present = unproven;
            new
        });
        self.standing.dispensed(now)
    }

    async fn write_webhooks(
        &mut self,
        governed: &Governed,
        ca_bundle_pem: Option<&str>,
        dispensed: &BTreeSet<Plural>,
    ) -> kube::Result<Vec<Instant>> {
        let mut later = Vec::new();
        let name = self.configuration();
        for sort in Sort::WEBHOOKS {
            let kept = self.objects.entry((sort, name.clone())).or_default();
            let entries = Entries {
                endpoint: &self.endpoint,
                ca_bundle_pem: ca_bundle_pem.filter(|_| !kept.is_injected()),
                area: &self.context.area,
                username: &self.context.username,
                dispensed,
            };
            let mut content = match sort {
                Sort::MutatingWebhook => entries.holds(governed, kept.seen()),
                _ => entries.reviews(governed, kept.seen()),
            };
            if kept.is_injected() {
                content = kept.with_present_bundles(content);
            }
            let wanted = Wanted {
                member: "webhooks",
                content,
            };
            let waits = self.ensure(sort, &name, wanted).await?;
            if sort == Sort::MutatingWebhook && waits.is_none() {
                self.publish(&governed.resources);
            }
            later.extend(waits);
        }
        Ok(later)
    }

    /// The policies and bindings of ours that nothing is held by any more; a binding goes before its policy. As long as not all
    /// kinds are known, none is given up.
    fn needless(&self, governed: &Governed, wishes: &[Wish]) -> Vec<(Sort, String)> {
        if !governed.complete && self.switches.hold {
            return Vec::new();
        }
        let wished = |(sort, name): &(Sort, String)| {
            wishes.iter().any(|wish| wish.sort == *sort && wish.name == *name)
        };
        let there = self.objects.iter().filter(|(_, kept)| !kept.seen().is_null());
        there
            .map(|(of, _)| of)
            .filter(|of| !Sort::WEBHOOKS.contains(&of.0) && !wished(of))
            .rev()
            .cloned()
            .collect()
    }

    async fn write_policies(
        &mut self,
        wishes: Vec<Wish>,
        needless: Vec<(Sort, String)>,
    ) -> kube::Result<Vec<Instant>> {
        let mut later = Vec::new();
        for Wish { sort, name, wanted } in wishes {
            later.extend(self.ensure(sort, &name, wanted).await?);
        }
        for (sort, name) in needless {
            let client = self.context.client.clone();
            self.kept(sort, &name)
                .delete(&client, &sort.resource(), &name)
                .await?;
        }
        Ok(later)
    }

    async fn ensure(&mut self, sort: Sort, name: &str, wanted: Wanted) -> kube::Result<Option<Instant>> {
        let client = self.context.client.clone();
        // Where something of ours is missing, it may have gone with its owner.
        let missing = self.seen(sort, name).is_null();
        let owner = match self.owner.take().filter(|_| !missing) {
            Some(owner) => owner,
            None => owner(&client, &self.context.area).await?,
        };
        self.owner = Some(owner.clone()).filter(|owner| owner.as_array().is_some_and(|of| !of.is_empty()));
        let kept = self.kept(sort, name);
        kept.ensure(&client, &sort.resource(), name, &owner, wanted).await
    }

    /// Says which kinds are registered, and looks again at the Rollouts of new ones.
    fn publish(&self, resources: &[ApiResource]) {
        let kinds: Vec<_> = resources.iter().map(kind_of).collect();
        let before = self.context.registered.send_replace(kinds.clone());
        for kind in kinds.iter().filter(|kind| !before.contains(kind)) {
            self.context.look_at(self.context.world.retry(kind));
        }
    }
}
