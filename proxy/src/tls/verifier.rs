//! How much of the upstream's certificate is checked.

use std::sync::OnceLock;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{
    WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

use super::certificate::Certificate;
use super::files::Authorities;

/// Checks a certificate as `ssl_mode` says, and remembers it for messages.
#[derive(Debug)]
pub(super) struct Verifier {
    /// `None` believes anybody.
    authorities: Option<Authorities>,
    by_name: bool,
    algorithms: WebPkiSupportedAlgorithms,
    seen: OnceLock<Certificate>,
}

impl Verifier {
    pub(super) fn new(authorities: Option<Authorities>, by_name: bool) -> Self {
        let algorithms = ring::default_provider().signature_verification_algorithms;
        Self { authorities, by_name, algorithms, seen: OnceLock::new() }
    }

    /// The certificate the server has shown.
    pub(super) fn seen(&self) -> Option<Certificate> {
        self.seen.get().cloned()
    }

    fn check_chain(
        &self,
        authorities: &Authorities,
        shown: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        // A server's own certificate in `ssl_ca` is believed for itself. The library would refuse it where it says that it may
        // issue others, as `openssl req -x509` makes them.
        if authorities.certificates.iter().any(|known| known.as_ref() == shown.as_ref()) {
            return self.check_dates(now);
        }
        let parsed = ParsedCertificate::try_from(shown)?;
        let (store, algorithms) = (&authorities.store, self.algorithms.all);
        verify_server_cert_signed_by_trust_anchor(&parsed, store, intermediates, now, algorithms)
    }

    fn check_dates(&self, now: UnixTime) -> Result<(), Error> {
        let seen = self.seen.get().ok_or(CertificateError::BadEncoding)?;
        let unix = |seconds: i64| {
            UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
        };
        let (not_before, not_after) = (unix(seen.not_before), unix(seen.not_after));
        if now > not_after {
            return Err(CertificateError::ExpiredContext { time: now, not_after }.into());
        }
        if now < not_before {
            return Err(CertificateError::NotValidYetContext { time: now, not_before }.into());
        }
        Ok(())
    }

    fn check_name(&self, shown: &CertificateDer<'_>, name: &ServerName<'_>) -> Result<(), Error> {
        if self.seen.get().is_some_and(|seen| seen.has_common_name(&name.to_str())) {
            return Ok(());
        }
        verify_server_name(&ParsedCertificate::try_from(shown)?, name)
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(certificate) = Certificate::read(shown) {
            self.seen.get_or_init(|| certificate);
        }
        if let Some(authorities) = &self.authorities {
            self.check_chain(authorities, shown, intermediates, now)?;
            if self.by_name {
                self.check_name(shown, name)?;
            }
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match self.authorities {
            Some(_) => verify_tls12_signature(message, shown, signed, &self.algorithms),
            None => Ok(unchecked()),
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match self.authorities {
            Some(_) => verify_tls13_signature(message, shown, signed, &self.algorithms),
            None => Ok(unchecked()),
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Whoever is in between has a certificate with a key of its own, so a signature of an unknown key proves nothing; and servers with
/// automatic certificates have some that the library does not read.
fn unchecked() -> HandshakeSignatureValid {
    HandshakeSignatureValid::assertion()
}
