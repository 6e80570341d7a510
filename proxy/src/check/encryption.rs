//! What is said about the encryption of connections to an upstream. No I/O.

use std::time::Duration;

use super::Finding;
use super::probe::Facts;
use crate::config::Source;
use crate::source::ServerAddress;
use crate::tls::Certificate;

/// A renewal that has not happened by then has failed: those of Let's Encrypt happen a month before the end.
const CERTIFICATE_NOTICE: Duration = Duration::from_secs(14 * 86_400);

/// How the connection is encrypted, and what that means for apps.
pub(super) fn encryption(facts: &Facts, source: &Source) -> Vec<Finding> {
    let mode = source.tls.mode;
    let mut findings = match &facts.encryption {
        None => vec![Finding::ok(format!(
            "the connection is not encrypted (ssl_mode is {})",
            mode.as_str()
        ))],
        Some(encryption) => vec![Finding::ok(format!("the connection is encrypted: {encryption}"))],
    };
    if source.tls.ca.is_some() && !mode.verifies() {
        findings.push(Finding::warn(format!(
            "ssl_ca is set, but ssl_mode {} checks no certificate: set ssl_mode = \"VERIFY_CA\" or \"VERIFY_IDENTITY\"",
            mode.as_str()
        )));
    }
    let parts = facts.encryption.as_ref().map(|encryption| (&encryption.upstream, &encryption.own));
    if let Some((upstream, own)) = parts {
        findings.extend(ends_soon("the upstream's certificate", upstream.as_ref()));
        findings.extend(ends_soon("the certificate in ssl_cert", own.as_ref()));
    }
    findings.extend(relay_encryption(facts, source));
    findings
}

fn ends_soon(which: &str, certificate: Option<&Certificate>) -> Option<Finding> {
    let left = certificate?.time_left()?;
    (left < CERTIFICATE_NOTICE).then(|| {
        let days = left.as_secs() / 86_400;
        Finding::warn(format!("{which} ends in {days} days: replace it before"))
    })
}

/// Whether apps get through the relay.
fn relay_encryption(facts: &Facts, source: &Source) -> Option<Finding> {
    let wanted = facts.variable("require_secure_transport") == Some("ON");
    let plain =
        !source.tls.mode.is_required() && matches!(source.server, ServerAddress::Tcp { .. });
    (wanted && plain && source.listen.is_some()).then(|| {
        Finding::fault(
            "require_secure_transport is ON at the upstream and the relay's connections are plain, so apps do not get in: set \
             ssl_mode = \"REQUIRED\" or stricter",
        )
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::super::Level;
    use super::super::judge::tests::sound;
    use super::*;
    use crate::config::Config;
    use crate::tls::Encryption;

    fn source(lines: &str) -> Source {
        let text = "server_id = 4307\n[[source]]\nservers = [\"db:3306\"]\nuser = \"u\"\npassword = \"\"\n";
        let config = Config::parse(&format!("{text}{lines}\n"), Path::new("f"));
        config.unwrap().sources.remove(0)
    }

    fn not_ok(facts: &Facts, lines: &str) -> Vec<Finding> {
        let all = encryption(facts, &source(lines)).into_iter();
        all.filter(|finding| finding.level != Level::Ok).collect()
    }

    fn only(facts: &Facts) -> Finding {
        let mut found = not_ok(facts, "");
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0)
    }

    fn ending_in(days: u64) -> Certificate {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        Certificate {
            subject: "CN=db1".into(),
            issuer: "CN=ca".into(),
            common_names: Vec::new(),
            dns_names: Vec::new(),
            addresses: Vec::new(),
            not_before: 0,
            not_after: i64::try_from(now.as_secs() + days * 86_400 + 60).unwrap(),
        }
    }

    fn encrypted(upstream: Certificate, own: Option<Certificate>) -> Facts {
        let (protocol, cipher_suite) = ("TLSv1_3".to_owned(), "S".to_owned());
        let encryption = Encryption { protocol, cipher_suite, upstream: Some(upstream), own };
        Facts { encryption: Some(encryption), ..sound() }
    }

    #[test]
    fn the_encryption_is_told() {
        let has = |facts: &Facts, part: &str| {
            let all = encryption(facts, &source(""));
            assert!(all.iter().any(|finding| finding.text.contains(part)), "{part}: {all:?}");
        };
        has(&sound(), "the connection is not encrypted (ssl_mode is PREFERRED)");
        has(
            &encrypted(ending_in(90), None),
            "encrypted: TLSv1_3, S, certificate CN=db1 valid until 2",
        );
        assert_eq!(not_ok(&encrypted(ending_in(90), Some(ending_in(15))), ""), []);
        let soon = only(&encrypted(ending_in(13), None));
        assert_eq!(
            (soon.level, soon.text.contains("certificate ends in 13 days")),
            (Level::Warn, true)
        );
        assert!(
            only(&encrypted(ending_in(90), Some(ending_in(1))))
                .text
                .contains("in ssl_cert ends in 1")
        );
        let unused = not_ok(&sound(), "ssl_mode = \"REQUIRED\"\nssl_ca = \"ca\"");
        assert!(unused[0].text.contains("ssl_mode REQUIRED checks no certificate"), "{unused:?}");
    }

    #[test]
    fn a_relay_that_is_too_plain_for_the_upstream_is_told() {
        let mut facts = sound();
        facts.variables.insert("require_secure_transport".into(), "ON".into());
        let listen = "listen = \"127.0.0.1:4306\"";
        let found = not_ok(&facts, listen);
        assert_eq!(found[0].level, Level::Fault);
        assert!(
            found[0].text.contains("apps do not get in: set ssl_mode = \"REQUIRED\""),
            "{found:?}"
        );
        assert_eq!(not_ok(&facts, &format!("{listen}\nssl_mode = \"REQUIRED\"")), []);
        assert_eq!(not_ok(&facts, ""), []);
    }
}
