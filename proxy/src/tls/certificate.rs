//! What a certificate says of itself. Nothing here decides whether it is believed.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;

/// Names shown of a certificate that has more.
const MAX_NAMES: usize = 10;

/// The parts that matter here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Who it is for, such as `CN=db1`.
    pub subject: String,
    /// Who has issued it.
    pub issuer: String,
    /// The common names in its subject.
    pub common_names: Vec<String>,
    /// The host names in its subjectAltName.
    pub dns_names: Vec<String>,
    /// The addresses in its subjectAltName.
    pub addresses: Vec<String>,
    /// Valid from then on, in Unix seconds.
    pub not_before: i64,
    /// Valid up to and with then, in Unix seconds.
    pub not_after: i64,
}

impl Certificate {
    /// Reads DER; `None` for what is no certificate.
    pub fn read(der: &[u8]) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let subject = certificate.subject();
        let names = |name: &x509_parser::x509::AttributeTypeAndValue<'_>| {
            name.as_str().ok().map(str::to_owned)
        };
        let alternative = certificate.subject_alternative_name().ok().flatten();
        let general = alternative.map(|names| names.value.general_names.as_slice());
        let general = general.unwrap_or_default();
        Some(Self {
            subject: subject.to_string(),
            issuer: certificate.issuer().to_string(),
            common_names: subject.iter_common_name().filter_map(names).collect(),
            dns_names: general.iter().filter_map(dns_name).collect(),
            addresses: general.iter().filter_map(address).collect(),
            not_before: certificate.validity().not_before.timestamp(),
            not_after: certificate.validity().not_after.timestamp(),
        })
    }

    /// How long it is still valid; nothing where it is over.
    pub fn time_left(&self) -> Option<Duration> {
        let end = UNIX_EPOCH + Duration::from_secs(u64::try_from(self.not_after).ok()?);
        Some(end.duration_since(SystemTime::now()).unwrap_or_default())
    }

    /// Whether it names this host by its common name, which counts for one without host names in a subjectAltName: as OpenSSL,
    /// and so the clients of MySQL, have it.
    pub(super) fn has_common_name(&self, host: &str) -> bool {
        self.dns_names.is_empty()
            && self.common_names.iter().any(|name| name.eq_ignore_ascii_case(host))
    }

    pub(super) fn is_self_signed(&self) -> bool {
        self.subject == self.issuer
    }

    /// The names that count, as a list for people.
    pub(super) fn names(&self) -> String {
        let common = if self.dns_names.is_empty() { self.common_names.as_slice() } else { &[] };
        let all: Vec<_> = self.dns_names.iter().chain(&self.addresses).chain(common).collect();
        let shown: Vec<_> = all.iter().take(MAX_NAMES).map(|name| name.as_str()).collect();
        match (shown.is_empty(), all.len() > MAX_NAMES) {
            (true, _) => "nobody".to_owned(),
            (false, true) => format!("{} and more", shown.join(", ")),
            (false, false) => shown.join(", "),
        }
    }
}

fn dns_name(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        _ => None,
    }
}

fn address(name: &GeneralName<'_>) -> Option<String> {
    let GeneralName::IPAddress(bytes) = name else {
        return None;
    };
    let v4 = <[u8; 4]>::try_from(*bytes).map(|bytes| Ipv4Addr::from(bytes).to_string());
    v4.or_else(|_| <[u8; 16]>::try_from(*bytes).map(|bytes| Ipv6Addr::from(bytes).to_string())).ok()
}

/// A moment for people.
pub(super) fn date(seconds: i64) -> String {
    jiff::Timestamp::from_second(seconds).map_or_else(|_| seconds.to_string(), |at| at.to_string())
}
