//! Certificates from files that somebody else renews, such as the mounted Secret of cert-manager.
//!
//! The files `tls.crt`, `tls.key` and, if there, `ca.crt` are read again every few seconds, and judged when their content has changed:
//! a mounted Secret is renewed by swapping a symlink, which neither times nor names of files show. What cannot be used is logged
//! once and counted, and the certificate before it stays in use.
//!
//! When `ca.crt` changes, the one before stays in the bundle beside it: other replicas may not have the new files yet.

use std::convert::Infallible;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use rustls::client::verify_server_name;
use rustls::server::ParsedCertificate;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::Name;
use super::bundle::{CA_CERTIFICATE, CERTIFICATE, KEY, Unusable, certificates, is_signed_by, pair};
use super::serving::{Offer, Serving};
use super::x509::Facts;
use crate::telemetry::chain;

/// How often the files are read.
const TICK: Duration = Duration::from_secs(2);

/// Why the files cannot be used.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("cannot read {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(transparent)]
    Unusable(#[from] Unusable),
    #[error("it has expired at {0}")]
    Expired(Timestamp),
    #[error("it is not for {0}, the name that the API server calls, and the one before is")]
    Name(String),
}

/// The content of the files.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Files {
    chain: String,
    key: String,
    authority: Option<String>,
}

/// Follows a directory; see the module's documentation.
pub(crate) struct Follower {
    directory: PathBuf,
    /// The name by which the API server calls.
    called: Option<Name>,
    serving: Serving,
    /// What was judged last, or why it could not be read.
    judged: Option<Result<Files, String>>,
    /// A certificate for that name has been taken.
    named: bool,
    /// The authorities that are told, the newest first.
    authorities: Vec<String>,
}

impl Follower {
    /// Follows `directory`, for a server that is called by the name `called`.
    pub(super) const fn new(directory: PathBuf, called: Option<Name>, serving: Serving) -> Self {
        Self {
            directory,
            called,
            serving,
            judged: None,
            named: false,
            authorities: Vec::new(),
        }
    }

    /// Runs until `stop`.
    pub(crate) async fn keep(mut self, stop: CancellationToken) -> Result<(), Infallible> {
        stop.run_until_cancelled(self.turn()).await;
        Ok(())
    }

    async fn turn(&mut self) -> Infallible {
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = tick.tick() => self.look().await,
                () = self.serving.moved() => {}
            }
            self.serving.advance(Timestamp::now());
        }
    }

    async fn look(&mut self) {
        let found = read(&self.directory).await;
        let told = found
            .as_ref()
            .map(Clone::clone)
            .map_err(|error| chain(error).to_string());
        if self.judged.as_ref() == Some(&told) {
            return;
        }
        // Two reads that agree are not torn by a swap between two files.
        if read(&self.directory).await.ok() != told.as_ref().ok().cloned() {
            return;
        }
        self.judged = Some(told);
        match found.and_then(|files| self.take(files, Timestamp::now())) {
            Ok(offer) => {
                self.serving.offer(offer, Timestamp::now());
                self.serving.source_is_good(true);
            }
            Err(error) => {
                tracing::error!(
                    error = %chain(&error),
                    directory = %self.directory.display(),
                    "The certificate in the directory cannot be used; the one before stays."
                );
                self.serving.source_is_good(false);
            }
        }
    }

    fn take(&mut self, files: Files, now: Timestamp) -> Result<Offer, Error> {
        let chain = certificates(CERTIFICATE, &files.chain)?;
        let facts =
            Facts::read(chain.first().ok_or(Unusable::Missing(CERTIFICATE))?).map_err(Unusable::from)?;
        let key = pair(chain, KEY, &files.key)?;
        if let Some(authority) = &files.authority {
            is_signed_by(&certificates(CA_CERTIFICATE, authority)?, &key, &facts)?;
        }
        if facts.not_after <= now {
            return Err(Error::Expired(facts.not_after));
        }
        if let Some(called) = &self.called {
            let leaf = ParsedCertificate::try_from(key.end_entity_cert().map_err(Unusable::from)?);
            let is_for = leaf.is_ok_and(|leaf| verify_server_name(&leaf, called).is_ok());
            let name = called.to_str();
            match (is_for, self.named) {
                (true, _) => self.named = true,
                (false, true) => return Err(Error::Name(name.into_owned())),
                // Something in between may call us by another name.
                (false, false) => tracing::warn!(
                    %name,
                    "The certificate does not have the name that the API server calls."
                ),
            }
        }
        if now < facts.not_before {
            tracing::warn!(from = %facts.not_before, "The certificate is not valid yet.");
        }
        Ok(Offer {
            key: key.into(),
            facts,
            ca_bundle_pem: files.authority.map(|authority| self.bundle(authority)),
        })
    }

    /// The newest authority, and the one before it.
    fn bundle(&mut self, newest: String) -> String {
        if self.authorities.first() != Some(&newest) {
            self.authorities.insert(0, newest);
            self.authorities.truncate(2);
        }
        self.authorities
            .iter()
            .flat_map(|pem| [pem.trim_end(), "\n"])
            .collect()
    }
}

/// Reads the files; `ca.crt` may be missing or empty.
async fn read(directory: &Path) -> Result<Files, Error> {
    let text = async |name: &str| {
        let path = directory.join(name);
        let text = tokio::fs::read_to_string(&path).await;
        text.map_err(|source| Error::Read { path, source })
    };
    let authority = match text(CA_CERTIFICATE).await {
        Ok(text) => Some(text).filter(|text| !text.trim().is_empty()),
        Err(Error::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    Ok(Files {
        chain: text(CERTIFICATE).await?,
        key: text(KEY).await?,
        authority,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::watch;

    use super::super::bundle::Bundle;
    use super::super::issue::carry_out;
    use super::super::plan::{CertPlan, Lifetimes};
    use super::super::{CertState, ServedKey, Trusted, wanted_names};
    use super::*;
    use crate::gates::Gates;

    /// A mounted Secret: the names are links into a folder behind a link that is swapped.
    struct Mount {
        root: PathBuf,
        version: u32,
    }

    impl Mount {
        fn new(name: &str) -> Self {
            let root = std::env::temp_dir().join(format!("kruise-rollout-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&root).unwrap();
            for file in [CERTIFICATE, KEY, CA_CERTIFICATE] {
                std::os::unix::fs::symlink(Path::new("..data").join(file), root.join(file)).unwrap();
            }
            Self { root, version: 0 }
        }

        fn put(&mut self, files: &[(&str, &str)]) {
            self.version += 1;
            let name = format!("..{}", self.version);
            std::fs::create_dir(self.root.join(&name)).unwrap();
            for (file, text) in files {
                std::fs::write(self.root.join(&name).join(file), text).unwrap();
            }
            std::os::unix::fs::symlink(&name, self.root.join("..tmp")).unwrap();
            std::fs::rename(self.root.join("..tmp"), self.root.join("..data")).unwrap();
        }

        fn put_bundle(&mut self, bundle: &Bundle) {
            let leaf = bundle.leaf.as_ref().unwrap();
            self.put(&[
                (CERTIFICATE, &leaf.chain_pem),
                (KEY, &leaf.key_pem),
                (CA_CERTIFICATE, &bundle.authority.bundle_pem),
            ]);
        }
    }

    impl Drop for Mount {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.root);
        }
    }

    fn issued(have: Option<&Bundle>) -> Bundle {
        issued_for("ops", have, Timestamp::now())
    }

    fn issued_for(namespace: &str, have: Option<&Bundle>, now: Timestamp) -> Bundle {
        let names = wanted_names(namespace, None);
        let plan = match have {
            Some(_) => CertPlan::NewLeaf { names: names.clone() },
            None => CertPlan::NewCa { keep_old_ca: false },
        };
        let bundle = carry_out(&plan, have, &names, now, Lifetimes::default());
        bundle.unwrap().unwrap()
    }

    struct Stage {
        follower: Follower,
        served: Arc<ServedKey>,
        trust: watch::Sender<Trusted>,
        state: watch::Receiver<Option<CertState>>,
        gates: Gates,
    }

    impl Stage {
        fn new(mount: &Mount) -> Self {
            let served = Arc::new(ServedKey::default());
            let (trust, trusted) = watch::channel(Trusted::default());
            let gates = Gates::new(CancellationToken::new());
            let gate = gates.gate("certificate");
            let (serving, state) = Serving::new(served.clone(), trusted, Arc::default(), gate);
            Self {
                follower: Follower::new(
                    mount.root.clone(),
                    wanted_names("ops", None).into_iter().next(),
                    serving,
                ),
                served,
                trust,
                state,
                gates,
            }
        }

        fn serves(&self, bundle: &Bundle) -> bool {
            let served = self.served.present().unwrap();
            served.cert == bundle.leaf.as_ref().unwrap().key.cert
        }

        fn told(&self) -> String {
            let state = self.state.borrow().clone();
            state.unwrap().ca_bundle_pem.unwrap()
        }
    }

    #[tokio::test]
    async fn what_is_swapped_in_is_served_and_what_is_broken_is_not() {
        let mut mount = Mount::new("swap");
        let mut stage = Stage::new(&mount);
        stage.follower.look().await;
        assert_eq!(stage.gates.missing(), ["certificate"], "no files yet");

        let one = issued(None);
        mount.put_bundle(&one);
        stage.follower.look().await;
        assert!(stage.serves(&one) && stage.gates.missing().is_empty());
        assert_eq!(stage.told(), one.authority.bundle_pem);
        stage
            .trust
            .send_replace(Trusted([one.authority.bundle_pem.clone()].into()));

        let two = issued(Some(&one));
        mount.put_bundle(&two);
        stage.follower.look().await;
        assert!(stage.serves(&two));

        let (leaf, other) = (two.leaf.as_ref().unwrap(), issued(None));
        let foreign = other.leaf.as_ref().unwrap();
        for broken in [
            vec![(CERTIFICATE, leaf.chain_pem.as_str()), (KEY, "nonsense")],
            vec![(CERTIFICATE, "nonsense"), (KEY, leaf.key_pem.as_str())],
            vec![(CERTIFICATE, leaf.chain_pem.as_str())],
            vec![
                (CERTIFICATE, leaf.chain_pem.as_str()),
                (KEY, foreign.key_pem.as_str()),
            ],
            vec![
                (CERTIFICATE, foreign.chain_pem.as_str()),
                (KEY, foreign.key_pem.as_str()),
                (CA_CERTIFICATE, one.authority.bundle_pem.as_str()),
            ],
        ] {
            mount.put(&broken);
            stage.follower.look().await;
            assert!(stage.serves(&two), "{broken:?}");
            assert_eq!(stage.told(), one.authority.bundle_pem, "{broken:?}");
        }
    }

    #[tokio::test]
    async fn one_that_callers_would_refuse_takes_no_good_ones_place() {
        let mut mount = Mount::new("refused");
        let mut stage = Stage::new(&mount);
        let good = issued(None);
        let (now, year) = (Timestamp::now(), jiff::SignedDuration::from_hours(24 * 365));
        let trust = Trusted([good.authority.bundle_pem.clone()].into());
        stage.trust.send_replace(trust);

        let expired = issued_for("ops", Some(&good), now - year);
        mount.put_bundle(&expired);
        stage.follower.look().await;
        assert_eq!(stage.gates.missing(), ["certificate"], "expired");
        mount.put_bundle(&good);
        stage.follower.look().await;
        assert!(stage.serves(&good));
        let early = issued_for("ops", Some(&good), now + year);
        for unfit in [&expired, &issued_for("other", Some(&good), now), &early] {
            mount.put_bundle(unfit);
            stage.follower.look().await;
            assert!(stage.serves(&good), "{:?}", unfit.leaf.as_ref().unwrap().facts);
        }
        // Its time comes.
        stage.follower.serving.advance(now + year);
        assert!(stage.serves(&early));
    }

    #[tokio::test]
    async fn the_authority_before_is_trusted_on() {
        let mut mount = Mount::new("authority");
        let mut stage = Stage::new(&mount);
        let (one, two, three) = (issued(None), issued(None), issued(None));
        let pem = |bundle: &Bundle| bundle.authority.bundle_pem.clone();
        mount.put_bundle(&one);
        stage.follower.look().await;
        stage.trust.send_replace(Trusted([pem(&one)].into()));
        mount.put_bundle(&two);
        stage.follower.look().await;
        assert_eq!(stage.told(), pem(&two) + &pem(&one));
        assert!(stage.serves(&one), "nobody trusts the new one yet");
        // A new leaf of the same authority.
        mount.put_bundle(&issued(Some(&two)));
        stage.follower.look().await;
        assert_eq!(stage.told(), pem(&two) + &pem(&one));
        mount.put_bundle(&three);
        stage.follower.look().await;
        assert_eq!(stage.told(), pem(&three) + &pem(&two));
    }
}
