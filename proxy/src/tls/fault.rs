//! What goes wrong with TLS, each as one sentence that says what to do.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use rustls::{AlertDescription, CertificateError, Error, InconsistentKeys};

use super::certificate::{Certificate, date};
use super::{ClientCertificate, SslMode, TlsOptions, host};
use crate::source::ServerAddress;

/// Why there is no encrypted connection.
#[derive(Debug, thiserror::Error)]
pub enum TlsFault {
    /// The server has no TLS.
    #[error(
        "the upstream offers no TLS and ssl_mode is {}: give the upstream ssl_cert and ssl_key, or set ssl_mode = \"PREFERRED\"",
        .0.as_str()
    )]
    NotOffered(SslMode),
    /// Nobody to believe.
    #[error("ssl_mode is {} and ssl_ca is missing: name the file with the authority's certificate", .0.as_str())]
    NoAuthorities(SslMode),
    /// A file of ours.
    #[error("{key} {} cannot be used: {why}", path.display())]
    File {
        /// Its key in the configuration.
        key: &'static str,
        /// Where it is.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// `ssl_cert` and `ssl_key` are no pair.
    #[error(
        "ssl_key {} is not the key of the certificate in ssl_cert {}: name the one it was made with",
        .0.key.display(), .0.cert.display()
    )]
    KeyMismatch(ClientCertificate),
    /// The upstream's certificate is over.
    #[error("the upstream's certificate expired at {0}: give the upstream a new one")]
    Expired(String),
    /// The upstream's certificate is not valid yet.
    #[error(
        "the upstream's certificate is valid only from {0} on: check the clocks of both machines"
    )]
    NotYetValid(String),
    /// The upstream's certificate comes from somebody else.
    #[error("the upstream's certificate is {0}: add that certificate to ssl_ca")]
    UnknownIssuer(String),
    /// The upstream's certificate is somebody else's.
    #[error(
        "the upstream's certificate is for {names}, not for {host}: name one of these in `servers`, or set ssl_mode = \"VERIFY_CA\""
    )]
    WrongName {
        /// Whom it names.
        names: String,
        /// Who was asked for.
        host: String,
    },
    /// The upstream's certificate is faulty in another way.
    #[error("the upstream's certificate cannot be used: {0}: give the upstream another one")]
    Faulty(String),
    /// The upstream did not like ours, or wanted one.
    #[error("{0}")]
    Rejected(String),
    /// TLS could not be agreed on.
    #[error(
        "no TLS with the upstream: {0}: it must have TLS 1.2 or 1.3; ssl_mode = \"DISABLED\" goes without"
    )]
    Unusable(Error),
    /// The server said something before TLS that was due within it.
    #[error("the upstream sent bytes before TLS began, as an attacker between would")]
    Injected,
    /// The connection failed.
    #[error("the connection was lost during the TLS handshake: {0}")]
    Lost(io::Error),
}

impl TlsFault {
    pub(super) fn file(key: &'static str, path: &Path, why: impl Display) -> Self {
        Self::File { key, path: path.to_owned(), why: why.to_string() }
    }

    /// Whether trying again helps without anybody changing something.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Lost(_) | Self::Injected)
    }
}

/// Why `ssl_cert` and `ssl_key` were refused by the library.
pub(super) fn own_certificate(error: Error, client: &ClientCertificate) -> TlsFault {
    match error {
        Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
            TlsFault::KeyMismatch(client.clone())
        }
        Error::InvalidCertificate(error) => TlsFault::file("ssl_cert", &client.cert, error),
        error => TlsFault::file("ssl_key", &client.key, error),
    }
}

impl TlsOptions {
    /// What a failed handshake means.
    pub(super) fn explain(
        &self,
        error: io::Error,
        address: &ServerAddress,
        seen: Option<Certificate>,
    ) -> TlsFault {
        match library_error(&error) {
            Some(Error::InvalidCertificate(error)) => self.certificate_fault(error, address, seen),
            Some(error) => self.rejection(&error).unwrap_or(TlsFault::Unusable(error)),
            None => TlsFault::Lost(error),
        }
    }

    /// What a connection's failure after the handshake means, where TLS is the cause: a server of TLS 1.3 looks at our
    /// certificate when we are done already.
    pub fn explain_late(&self, error: &io::Error) -> Option<TlsFault> {
        self.rejection(&library_error(error)?)
    }

    fn certificate_fault(
        &self,
        error: CertificateError,
        address: &ServerAddress,
        seen: Option<Certificate>,
    ) -> TlsFault {
        use CertificateError as Wrong;
        match (error, seen) {
            (Wrong::ExpiredContext { not_after, .. }, _) => {
                TlsFault::Expired(date(not_after.as_secs().cast_signed()))
            }
            (Wrong::NotValidYetContext { not_before, .. }, _) => {
                TlsFault::NotYetValid(date(not_before.as_secs().cast_signed()))
            }
            (Wrong::UnknownIssuer, Some(seen)) => TlsFault::UnknownIssuer(self.issuer(&seen)),
            (Wrong::NotValidForName | Wrong::NotValidForNameContext { .. }, Some(seen)) => {
                TlsFault::WrongName { names: seen.names(), host: host(address).to_owned() }
            }
            (error, _) => TlsFault::Faulty(error.to_string()),
        }
    }

    fn issuer(&self, seen: &Certificate) -> String {
        let ca = self.ca.as_deref().unwrap_or(Path::new("")).display();
        if seen.is_self_signed() {
            format!("self-signed ({}) and not in ssl_ca {ca}", seen.subject)
        } else {
            format!("issued by {}, which is not in ssl_ca {ca}", seen.issuer)
        }
    }

    fn rejection(&self, error: &Error) -> Option<TlsFault> {
        use AlertDescription as Alert;
        let Error::AlertReceived(alert) = error else {
            return None;
        };
        let why = match alert {
            Alert::UnknownCA => "its ssl_ca does not have the authority that issued it",
            Alert::CertificateExpired => "it has expired, or is not valid yet",
            Alert::CertificateRevoked => "it has been revoked",
            Alert::BadCertificate
            | Alert::CertificateUnknown
            | Alert::UnsupportedCertificate
            | Alert::DecryptError => "it is not one for clients, or faulty",
            Alert::CertificateRequired | Alert::HandshakeFailure if self.client.is_none() => {
                let sentence =
                    "the upstream wants a client's certificate: set ssl_cert and ssl_key";
                return Some(TlsFault::Rejected(sentence.to_owned()));
            }
            _ => return None,
        };
        let client = self.client.as_ref()?;
        Some(TlsFault::Rejected(format!(
            "the upstream refuses the certificate in ssl_cert {}: {why}; name one that the upstream accepts",
            client.cert.display()
        )))
    }
}

fn library_error(error: &io::Error) -> Option<Error> {
    error.get_ref()?.downcast_ref::<Error>().cloned()
}
