//! Makes keys and certificates: ECDSA on P-256, which every API server verifies and which costs a handshake least.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SanType, string::Ia5String,
};
use rustls::pki_types::ServerName;

use super::Name;
use super::bundle::{Authority, Bundle, Leaf, Unusable};
use super::plan::{CertPlan, Lifetimes};

/// Subject of every authority. Two of the same name in one bundle are told apart by their key identifiers.
const CA_SUBJECT: &str = "kruise-rollout webhook CA";
/// Subject of every leaf. Clients look at the alternative names only.
const LEAF_SUBJECT: &str = "kruise-rollout webhook";

/// Why nothing was issued.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A key or certificate could not be made.
    #[error("cannot issue a certificate")]
    Issue(#[from] rcgen::Error),
    /// What was made does not fit together.
    #[error("what was issued does not fit together")]
    Unusable(#[from] Unusable),
}

/// Carries out a plan: the bundle that is to replace the one at hand, or nothing if that is to be kept.
pub(crate) fn carry_out(
    plan: &CertPlan,
    have: Option<&Bundle>,
    want: &[Name],
    now: Timestamp,
    lives: Lifetimes,
) -> Result<Option<Bundle>, Error> {
    match (plan, have) {
        (CertPlan::Keep { .. }, _) => Ok(None),
        (CertPlan::NewLeaf { names }, Some(have)) => match leaf(&have.authority, names, now, lives) {
            Ok(leaf) => Ok(Some(Bundle {
                authority: have.authority.clone(),
                leaf: Some(leaf),
            })),
            // An authority that was put there by others and cannot sign as ours do is no use.
            Err(Error::Unusable(_)) => first(want, now, lives).map(Some),
            Err(error) => Err(error),
        },
        (CertPlan::NewCa { keep_old_ca: true }, Some(have)) => next(have, want, now, lives).map(Some),
        (CertPlan::NewLeaf { .. } | CertPlan::NewCa { .. }, _) => first(want, now, lives).map(Some),
    }
}

/// An authority and its leaf, out of nothing.
fn first(want: &[Name], now: Timestamp, lives: Lifetimes) -> Result<Bundle, Error> {
    let authority = authority(None, now, lives)?;
    let leaf = leaf(&authority, want, now, lives)?;
    Ok(Bundle {
        authority,
        leaf: Some(leaf),
    })
}

/// A new authority beside the old. The leaf stays while it is good, for the reason in the documentation of [`super`].
fn next(have: &Bundle, want: &[Name], now: Timestamp, lives: Lifetimes) -> Result<Bundle, Error> {
    let authority = authority(Some(&have.authority), now, lives)?;
    let good = have
        .leaf
        .as_ref()
        .filter(|leaf| leaf.facts.is_valid(now) && leaf.is_for(want));
    let leaf = match good {
        Some(good) => Leaf::new(good.chain_pem.clone(), good.key_pem.clone(), &authority)?,
        None => leaf(&authority, want, now, lives)?,
    };
    Ok(Bundle {
        authority,
        leaf: Some(leaf),
    })
}

/// A new authority; the present certificate of the old one follows in its bundle.
fn authority(old: Option<&Authority>, now: Timestamp, lives: Lifetimes) -> Result<Authority, Error> {
    let key = KeyPair::generate()?;
    let mut params = params(CA_SUBJECT, now, lives.authority(), lives);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    let mut bundle = params.self_signed(&key)?.pem();
    if let Some(old) = old.and_then(|old| first_certificate(&old.bundle_pem)) {
        bundle.push_str(old);
    }
    Ok(Authority::new(bundle, key.serialize_pem())?)
}

/// The first certificate of a PEM text, with the line end after it.
fn first_certificate(bundle: &str) -> Option<&str> {
    const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
    const END: &str = "-----END CERTIFICATE-----";
    let begin = bundle.find(BEGIN)?;
    let end = begin + bundle.get(begin..)?.find(END)? + END.len();
    let line_end = bundle
        .get(end..)?
        .find('\n')
        .map_or(bundle.len(), |at| end + at + 1);
    bundle.get(begin..line_end)
}

/// A new leaf by an authority.
fn leaf(authority: &Authority, names: &[Name], now: Timestamp, lives: Lifetimes) -> Result<Leaf, Error> {
    let key = KeyPair::generate()?;
    let mut leaf = params(LEAF_SUBJECT, now, lives.leaf(), lives);
    leaf.subject_alt_names = names
        .iter()
        .map(alternative_name)
        .collect::<Result<Vec<_>, _>>()?
        .concat();
    leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    leaf.use_authority_key_identifier_extension = true;
    // Of an issuer only subject and key count here; both are the same for each of our authorities.
    let issuer = Issuer::new(
        params(CA_SUBJECT, now, lives.authority(), lives),
        KeyPair::from_pem(&authority.key_pem)?,
    );
    let chain = leaf.signed_by(&key, &issuer)?.pem();
    Ok(Leaf::new(chain, key.serialize_pem(), authority)?)
}

fn params(subject: &str, now: Timestamp, life: Duration, lives: Lifetimes) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, subject);
    let from = SystemTime::from(now) - lives.skew();
    params.not_before = from.into();
    params.not_after = (from + life).into();
    params
}

fn alternative_name(name: &Name) -> Result<Vec<SanType>, rcgen::Error> {
    Ok(match name {
        ServerName::DnsName(name) => vec![SanType::DnsName(Ia5String::try_from(name.as_ref())?)],
        ServerName::IpAddress(ip) => vec![SanType::IpAddress((*ip).into())],
        // rustls may learn other kinds of names; none of them is asked for here.
        _ => Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::wanted_names;
    use super::*;

    const LIVES: Lifetimes = Lifetimes::of_leaf(Lifetimes::LEAF);

    fn now() -> Timestamp {
        "2026-11-30T00:00:00Z".parse().unwrap()
    }

    #[test]
    fn what_is_issued_survives_the_secret() {
        let want = wanted_names("ops", Some("example.com"));
        let bundle = first(&want, now(), LIVES).unwrap();
        let read = Bundle::read(&bundle.write()).unwrap();
        assert!(read.is_same(&bundle));
        let leaf = read.leaf.unwrap();
        assert!(leaf.is_for(&want));
        assert_eq!(leaf.facts.names, want);
    }

    #[test]
    fn damage_in_the_secret_is_noticed() {
        let want = wanted_names("ops", None);
        let (one, two) = (
            first(&want, now(), LIVES).unwrap(),
            first(&want, now(), LIVES).unwrap(),
        );
        let mix = |part: &str| {
            let mut data = one.write();
            data.insert(part.to_owned(), two.write()[part].clone());
            Bundle::read(&data)
        };
        for part in ["ca.crt", "ca.key"] {
            assert!(mix(part).is_err(), "{part}");
        }
        for part in ["tls.crt", "tls.key"] {
            assert!(mix(part).unwrap().leaf.is_none(), "{part}");
        }
        for part in one.write().keys() {
            let mut data = one.write();
            data.remove(part);
            assert!(
                Bundle::read(&data).map_or(true, |bundle| bundle.leaf.is_none()),
                "{part}"
            );
        }
    }

    #[test]
    fn an_authority_that_signs_otherwise_is_replaced() {
        let key = KeyPair::generate().unwrap();
        let mut foreign = params("somebody else", now(), LIVES.authority(), LIVES);
        foreign.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = foreign.self_signed(&key).unwrap().pem();
        let have = Bundle {
            authority: Authority::new(pem, key.serialize_pem()).unwrap(),
            leaf: None,
        };
        let want = wanted_names("ops", None);
        let plan = super::super::plan::plan(Some(&have), &want, now(), LIVES);
        assert!(matches!(plan, CertPlan::NewLeaf { .. }));
        let issued = carry_out(&plan, Some(&have), &want, now(), LIVES)
            .unwrap()
            .unwrap();
        assert_ne!(issued.authority.bundle_pem, have.authority.bundle_pem);
        assert!(issued.leaf.is_some());
    }

    #[test]
    fn the_bundle_has_at_most_two_authorities() {
        let want = wanted_names("ops", None);
        let one = first(&want, now(), LIVES).unwrap();
        let two = next(&one, &want, now(), LIVES).unwrap();
        let three = next(
            &Bundle {
                leaf: None,
                ..two.clone()
            },
            &want,
            now(),
            LIVES,
        )
        .unwrap();
        assert_eq!(two.authority.certificates.len(), 2);
        assert_eq!(three.authority.certificates.len(), 2);
        assert_eq!(three.authority.certificates[1], two.authority.certificates[0]);
    }
}
