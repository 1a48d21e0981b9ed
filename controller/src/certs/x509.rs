//! Reads validity and names out of a certificate.
//!
//! The certificate itself says when it expires and for whom it is: a copy of these facts beside it could disagree. Only this
//! much of X.509 is read, and nothing here decides about trust; signatures, chains and names are checked by rustls.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;
use rustls::pki_types::{CertificateDer, DnsName, ServerName};

const INTEGER: u8 = 0x02;
const OCTET_STRING: u8 = 0x04;
const OID: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
const DNS_NAME: u8 = 0x82;
const IP_ADDRESS: u8 = 0x87;
/// 2.5.29.17, subjectAltName.
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];

/// The certificate is not DER of the expected shape; the text says where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed certificate at {0}")]
pub(crate) struct Malformed(&'static str);

/// What a certificate says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    /// From when it is valid.
    pub(crate) not_before: Timestamp,
    /// Until when it is valid.
    pub(crate) not_after: Timestamp,
    /// DNS names and IP addresses that it is for; other kinds of names are left out.
    pub(crate) names: Vec<ServerName<'static>>,
}

impl Facts {
    /// Reads a certificate.
    pub(crate) fn read(certificate: &CertificateDer<'_>) -> Result<Self, Malformed> {
        let mut outer = Reader(certificate.as_ref());
        let mut certificate = outer.take(SEQUENCE, "certificate")?;
        let mut body = certificate.take(SEQUENCE, "body")?;
        body.take_if(VERSION, "version")?;
        body.take(INTEGER, "serial number")?;
        body.take(SEQUENCE, "signature algorithm")?;
        body.take(SEQUENCE, "issuer")?;
        let mut validity = body.take(SEQUENCE, "validity")?;
        let (not_before, not_after) = (validity.time()?, validity.time()?);
        let mut names = Vec::new();
        while let Some((tag, content)) = body.next("body")? {
            if tag == EXTENSIONS {
                names = alternative_names(Reader(content))?;
            }
        }
        Ok(Self {
            not_before,
            not_after,
            names,
        })
    }
}

/// The names in the extension for them.
fn alternative_names(mut outer: Reader<'_>) -> Result<Vec<ServerName<'static>>, Malformed> {
    let mut extensions = outer.take(SEQUENCE, "extensions")?;
    while let Some((_, content)) = extensions.next("extensions")? {
        let mut extension = Reader(content);
        if extension.take(OID, "extension name")?.0 != SUBJECT_ALT_NAME {
            continue;
        }
        // A flag "critical" may stand in between.
        while let Some((tag, content)) = extension.next("extension")? {
            if tag == OCTET_STRING {
                return general_names(Reader(content).take(SEQUENCE, "names")?);
            }
        }
    }
    Ok(Vec::new())
}

fn general_names(mut names: Reader<'_>) -> Result<Vec<ServerName<'static>>, Malformed> {
    let mut found = Vec::new();
    while let Some((tag, content)) = names.next("names")? {
        match tag {
            // A name that rustls does not take, such as a wildcard, is none that we ask for.
            DNS_NAME => found.extend(DnsName::try_from(content).ok().map(|name| name.to_owned().into())),
            IP_ADDRESS => found.push(ServerName::IpAddress(ip(content)?.into())),
            _ => {}
        }
    }
    Ok(found)
}

fn ip(bytes: &[u8]) -> Result<IpAddr, Malformed> {
    let four = <[u8; 4]>::try_from(bytes).map(|bytes| Ipv4Addr::from(bytes).into());
    four.or_else(|_| <[u8; 16]>::try_from(bytes).map(|bytes| Ipv6Addr::from(bytes).into()))
        .map_err(|_| Malformed("IP address"))
}

/// Walks over the elements of DER: tag, length, content.
#[derive(Clone, Copy)]
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// The next element, or nothing at the end.
    fn next(&mut self, at: &'static str) -> Result<Option<(u8, &'a [u8])>, Malformed> {
        let [tag, length, rest @ ..] = self.0 else {
            return if self.0.is_empty() {
                Ok(None)
            } else {
                Err(Malformed(at))
            };
        };
        let (length, rest) = match *length {
            short @ 0..=0x7f => (usize::from(short), rest),
            // The long form: that many bytes of length follow. Four are more than any certificate needs.
            long @ 0x81..=0x84 => {
                let (bytes, rest) = rest
                    .split_at_checked(usize::from(long & 0x7f))
                    .ok_or(Malformed(at))?;
                (
                    bytes
                        .iter()
                        .fold(0, |length, byte| length << 8 | usize::from(*byte)),
                    rest,
                )
            }
            _ => return Err(Malformed(at)),
        };
        let (content, rest) = rest.split_at_checked(length).ok_or(Malformed(at))?;
        self.0 = rest;
        Ok(Some((*tag, content)))
    }

    /// The next element, which must have this tag.
    fn take(&mut self, tag: u8, at: &'static str) -> Result<Self, Malformed> {
        match self.next(at)? {
            Some((found, content)) if found == tag => Ok(Self(content)),
            _ => Err(Malformed(at)),
        }
    }

    /// Steps over the next element if it has this tag.
    fn take_if(&mut self, tag: u8, at: &'static str) -> Result<(), Malformed> {
        if self.0.first() == Some(&tag) {
            self.take(tag, at).map(drop)
        } else {
            Ok(())
        }
    }

    /// A point in time: `YYMMDDHHMMSSZ` with years from 1950 to 2049, or `YYYYMMDDHHMMSSZ`.
    fn time(&mut self) -> Result<Timestamp, Malformed> {
        let malformed = Malformed("validity");
        let (tag, content) = self.next("validity")?.ok_or(malformed)?;
        let text = std::str::from_utf8(content).map_err(|_| malformed)?;
        let civil = match tag {
            UTC_TIME => format!(
                "{}{text}",
                if text.starts_with(['5', '6', '7', '8', '9']) {
                    "19"
                } else {
                    "20"
                }
            ),
            GENERALIZED_TIME => text.to_owned(),
            _ => return Err(malformed),
        };
        let civil = DateTime::strptime("%Y%m%d%H%M%SZ", civil).map_err(|_| malformed)?;
        Offset::UTC.to_timestamp(civil).map_err(|_| malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair};
    use std::time::SystemTime;

    fn certificate(names: &[&str], not_before: &str, not_after: &str) -> CertificateDer<'static> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.not_before = SystemTime::from(not_before.parse::<Timestamp>().unwrap()).into();
        params.not_after = SystemTime::from(not_after.parse::<Timestamp>().unwrap()).into();
        params
            .self_signed(&KeyPair::generate().unwrap())
            .unwrap()
            .der()
            .clone()
    }

    #[test]
    fn reads_what_was_written() {
        let (from, to) = ("2026-11-30T01:02:03Z", "2061-01-02T03:04:05Z");
        let long = format!("{}.{}.svc", "a".repeat(63), "b".repeat(63));
        let names = ["x.ns.svc", "127.0.0.1", "::1", long.as_str()];
        let facts = Facts::read(&certificate(&names, from, to)).unwrap();
        assert_eq!(facts.not_before, from.parse().unwrap());
        assert_eq!(facts.not_after, to.parse().unwrap());
        let read: Vec<_> = facts
            .names
            .iter()
            .map(|name| name.to_str().into_owned())
            .collect();
        assert_eq!(read, names);
    }

    #[test]
    fn a_certificate_without_names_has_none() {
        let facts = Facts::read(&certificate(&[], "1999-01-01T00:00:00Z", "2049-12-31T23:59:59Z")).unwrap();
        assert_eq!(facts.not_before, "1999-01-01T00:00:00Z".parse().unwrap());
        assert!(facts.names.is_empty());
    }

    #[test]
    fn damage_is_an_error_and_never_a_panic() {
        let whole = certificate(
            &["x.ns.svc", "127.0.0.1"],
            "2026-11-30T01:02:03Z",
            "2061-01-02T03:04:05Z",
        );
        for length in 0..whole.len() {
            assert!(
                Facts::read(&CertificateDer::from(&whole[..length])).is_err(),
                "cut at {length}"
            );
        }
        for at in 0..whole.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut damaged = whole.to_vec();
                damaged[at] ^= flip;
                let _ = Facts::read(&CertificateDer::from(damaged));
            }
        }
    }
}
