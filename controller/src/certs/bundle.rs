//! An authority and its leaf, as they stand in the Secret, checked on the way in.
//!
//! Whatever a Secret contains becomes either a [`Bundle`] in which every part fits the others, or an error: a key that is not the
//! certificate's, a leaf that its authority did not sign. A leaf that does not fit is left out rather than refused, since a new one
//! can be signed; without a fitting authority there is nothing to keep.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::sign::CertifiedKey;

use super::Name;
use super::x509::{Facts, Malformed};
use crate::telemetry::chain;

/// Keys of the Secret's data, and names of the files of a mounted one.
pub(super) const CA_CERTIFICATE: &str = "ca.crt";
const CA_KEY: &str = "ca.key";
pub(super) const CERTIFICATE: &str = "tls.crt";
pub(super) const KEY: &str = "tls.key";

/// Why something is no bundle.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unusable {
    /// A part is missing or is not text.
    #[error("{0} is missing or not text")]
    Missing(&'static str),
    /// A part is not PEM.
    #[error("{part} is not PEM")]
    Pem {
        /// Key in the Secret's data.
        part: &'static str,
        /// What is wrong.
        #[source]
        source: pem::Error,
    },
    /// A certificate cannot be read.
    #[error(transparent)]
    Certificate(#[from] Malformed),
    /// Key and certificate, or leaf and authority, do not fit.
    #[error("keys and certificates do not fit")]
    Mismatch(#[from] rustls::Error),
    /// The leaf cannot be checked against the authority.
    #[error("the authority cannot verify")]
    Verifier(#[from] rustls::client::VerifierBuilderError),
    /// The leaf names nobody.
    #[error("the certificate has no names")]
    Nameless,
}

/// The authority that signs.
#[derive(Clone)]
pub(crate) struct Authority {
    /// What is to be trusted: the present certificate first, then at most one older.
    pub(crate) bundle_pem: String,
    /// Its key, PKCS #8 in PEM.
    pub(crate) key_pem: String,
    /// The present certificate's own words.
    pub(crate) facts: Facts,
    /// The certificates of the bundle, in its order.
    pub(crate) certificates: Vec<CertificateDer<'static>>,
}

/// What the server shows.
#[derive(Clone)]
pub(crate) struct Leaf {
    /// The certificate, and any between it and the authority, in PEM.
    pub(crate) chain_pem: String,
    /// Its key, PKCS #8 in PEM.
    pub(crate) key_pem: String,
    /// Its own words.
    pub(crate) facts: Facts,
    /// Ready to serve.
    pub(crate) key: Arc<CertifiedKey>,
}

/// An authority and, unless it does not fit, its leaf.
#[derive(Clone)]
pub(crate) struct Bundle {
    /// The authority.
    pub(crate) authority: Authority,
    /// The leaf.
    pub(crate) leaf: Option<Leaf>,
}

impl Authority {
    /// Checks an authority: the key belongs to the first certificate of the bundle.
    pub(crate) fn new(bundle_pem: String, key_pem: String) -> Result<Self, Unusable> {
        let certificates = certificates(CA_CERTIFICATE, &bundle_pem)?;
        let facts = Facts::read(certificates.first().ok_or(Unusable::Missing(CA_CERTIFICATE))?)?;
        pair(certificates.clone(), CA_KEY, &key_pem)?;
        Ok(Self {
            bundle_pem,
            key_pem,
            facts,
            certificates,
        })
    }
}

impl Leaf {
    /// Checks a leaf: the key belongs to the certificate, and the authority signed it.
    pub(crate) fn new(chain_pem: String, key_pem: String, authority: &Authority) -> Result<Self, Unusable> {
        let chain = certificates(CERTIFICATE, &chain_pem)?;
        let facts = Facts::read(chain.first().ok_or(Unusable::Missing(CERTIFICATE))?)?;
        let key = pair(chain, KEY, &key_pem)?;
        is_signed_by(&authority.certificates, &key, &facts)?;
        Ok(Self {
            chain_pem,
            key_pem,
            facts,
            key: Arc::new(key),
        })
    }

    /// Whether it is for all of these names.
    pub(crate) fn is_for(&self, names: &[Name]) -> bool {
        names.iter().all(|name| self.facts.names.contains(name))
    }
}

impl Facts {
    /// Whether it is valid at this time.
    pub(crate) fn is_valid(&self, at: Timestamp) -> bool {
        self.not_before <= at && at < self.not_after
    }
}

impl Bundle {
    /// Reads the data of the Secret. A leaf that does not fit is logged and left out.
    pub(crate) fn read(data: &BTreeMap<String, ByteString>) -> Result<Self, Unusable> {
        let text = |part: &'static str| {
            let bytes = data.get(part).ok_or(Unusable::Missing(part))?;
            String::from_utf8(bytes.0.clone()).map_err(|_| Unusable::Missing(part))
        };
        let authority = Authority::new(text(CA_CERTIFICATE)?, text(CA_KEY)?)?;
        let leaf = text(CERTIFICATE)
            .and_then(|chain| Leaf::new(chain, text(KEY)?, &authority))
            .inspect_err(|error| {
                tracing::warn!(error = %chain(error), "The Secret's certificate is unusable.");
            })
            .ok();
        Ok(Self { authority, leaf })
    }

    /// The data of a Secret. Without a leaf its two entries are empty, because a Secret of this type must have them.
    pub(crate) fn write(&self) -> BTreeMap<String, ByteString> {
        let Self { authority, leaf } = self;
        let (chain, key) = leaf
            .as_ref()
            .map_or(("", ""), |leaf| (leaf.chain_pem.as_str(), leaf.key_pem.as_str()));
        [
            (CA_CERTIFICATE, authority.bundle_pem.as_str()),
            (CA_KEY, authority.key_pem.as_str()),
            (CERTIFICATE, chain),
            (KEY, key),
        ]
        .into_iter()
        .map(|(part, text)| (part.to_owned(), ByteString(text.as_bytes().to_vec())))
        .collect()
    }

    /// Whether both have the same content.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.write() == other.write()
    }
}

/// Checks that one of the authorities signed the leaf, perhaps by way of its chain. Its time is not checked: that is what a plan
/// looks at.
pub(super) fn is_signed_by(
    authorities: &[CertificateDer<'static>],
    leaf: &CertifiedKey,
    facts: &Facts,
) -> Result<(), Unusable> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(authorities.iter().cloned());
    let provider = Arc::new(ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build()?;
    let name = facts.names.first().ok_or(Unusable::Nameless)?;
    let seconds = u64::try_from(facts.not_before.as_second()).unwrap_or_default();
    let when = UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
    let between = leaf.cert.get(1..).unwrap_or_default();
    verifier.verify_server_cert(leaf.end_entity_cert()?, between, name, &[], when)?;
    Ok(())
}

/// The certificates in a PEM text; at least one.
pub(super) fn certificates(part: &'static str, text: &str) -> Result<Vec<CertificateDer<'static>>, Unusable> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    let read = read.map_err(|source| Unusable::Pem { part, source })?;
    if read.is_empty() {
        Err(Unusable::Missing(part))
    } else {
        Ok(read)
    }
}

/// Certificates with the key of the first.
pub(super) fn pair(
    chain: Vec<CertificateDer<'static>>,
    part: &'static str,
    key: &str,
) -> Result<CertifiedKey, Unusable> {
    let key =
        PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|source| Unusable::Pem { part, source })?;
    Ok(CertifiedKey::from_der(chain, key, &ring::default_provider())?)
}
