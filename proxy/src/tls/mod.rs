//! TLS towards an upstream: its settings, the handshake, and what is said when it fails.
//!
//! | file | what |
//! |---|---|
//! | `files` | `ssl_ca`, `ssl_cert` and `ssl_key`, read at every connect |
//! | `verifier` | how much of the upstream's certificate is checked |
//! | `certificate` | what a certificate says of itself, for people |
//! | `fault` | one sentence for each thing that goes wrong |
//! | `stream` | the encrypted connection |
//! | `renumber` | packet numbers of a login that the relay passes through one |

mod certificate;
mod fault;
mod files;
mod renumber;
mod stream;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod verifier;

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use tokio_rustls::TlsConnector;

pub use certificate::Certificate;
pub use fault::TlsFault;
pub use stream::{Encryption, TlsStream};

use crate::source::{ServerAddress, ServerStream};
use verifier::Verifier;

/// How a connection to an upstream is encrypted, by the names of MySQL's clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum SslMode {
    /// Never.
    Disabled,
    /// Where the server offers it, over TCP.
    #[default]
    Preferred,
    /// Always, with whoever answers.
    Required,
    /// Always, with a certificate that an authority of `ssl_ca` has issued.
    VerifyCa,
    /// As before, and issued for the name or address in `servers`.
    VerifyIdentity,
}

impl SslMode {
    /// Each mode under its name in the configuration.
    pub const NAMES: [(&str, Self); 5] = [
        ("DISABLED", Self::Disabled),
        ("PREFERRED", Self::Preferred),
        ("REQUIRED", Self::Required),
        ("VERIFY_CA", Self::VerifyCa),
        ("VERIFY_IDENTITY", Self::VerifyIdentity),
    ];

    /// Its name in the configuration.
    pub fn as_str(self) -> &'static str {
        Self::NAMES.iter().find(|(_, mode)| *mode == self).map_or("", |(name, _)| name)
    }

    /// Whether a connection that is not encrypted is an error.
    pub fn is_required(self) -> bool {
        self >= Self::Required
    }

    /// Whether the upstream's certificate is checked against `ssl_ca`.
    pub fn verifies(self) -> bool {
        self >= Self::VerifyCa
    }
}

/// The certificate shown to an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// `ssl_cert`: the certificate, and those between it and its authority.
    pub cert: PathBuf,
    /// `ssl_key`: its private key.
    pub key: PathBuf,
}

/// `ssl_…` of a source. The files are read at every connect, so that they can be renewed while Spillway runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsOptions {
    /// `ssl_mode`.
    pub mode: SslMode,
    /// `ssl_ca`.
    pub ca: Option<PathBuf>,
    /// `ssl_cert` and `ssl_key`.
    pub client: Option<ClientCertificate>,
}

impl TlsOptions {
    /// Whether to use TLS with a server that offers it or not; as MySQL's clients, not over a Unix socket unless it is asked for.
    ///
    /// # Errors
    /// `NotOffered` where it must be used.
    pub fn applies(&self, address: &ServerAddress, offered: bool) -> Result<bool, TlsFault> {
        match self.mode {
            SslMode::Disabled => Ok(false),
            SslMode::Preferred => Ok(offered && matches!(address, ServerAddress::Tcp { .. })),
            mode if offered => Ok(mode.is_required()),
            mode => Err(TlsFault::NotOffered(mode)),
        }
    }

    /// Does the handshake. Nothing may have been read from the stream that belongs to it.
    ///
    /// # Errors
    /// What the files, the certificates or the connection lack. Give it a deadline: this has none.
    pub async fn encrypt(
        &self,
        address: &ServerAddress,
        stream: ServerStream,
    ) -> Result<ServerStream, TlsFault> {
        let verifier = Arc::new(self.verifier()?);
        let (config, own) = self.config(Arc::clone(&verifier))?;
        let connector = TlsConnector::from(Arc::new(config));
        match connector.connect(server_name(address), stream).await {
            Ok(stream) => {
                Ok(ServerStream::Tls(Box::new(TlsStream::new(stream, verifier.seen(), own))))
            }
            Err(error) => Err(self.explain(error, address, verifier.seen())),
        }
    }

    fn verifier(&self) -> Result<Verifier, TlsFault> {
        let roots = match &self.ca {
            Some(ca) if self.mode.verifies() => Some(files::authorities(ca)?),
            None if self.mode.verifies() => return Err(TlsFault::NoAuthorities(self.mode)),
            _ => None,
        };
        Ok(Verifier::new(roots, self.mode == SslMode::VerifyIdentity))
    }

    fn config(
        &self,
        verifier: Arc<Verifier>,
    ) -> Result<(ClientConfig, Option<Certificate>), TlsFault> {
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(TlsFault::Unusable)?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let Some(client) = &self.client else {
            return Ok((builder.with_no_client_auth(), None));
        };
        let chain = files::certificates("ssl_cert", &client.cert)?;
        let own = chain.first().and_then(|leaf| Certificate::read(leaf));
        let key = files::private_key(&client.key)?;
        let config = builder.with_client_auth_cert(chain, key);
        let config = config.map_err(|error| fault::own_certificate(error, client))?;
        Ok((config, own))
    }
}

/// What the certificate is checked for, and what the server is told. Over a Unix socket that is `localhost`, as with MySQL's
/// clients. A host that no certificate can name is told to nobody, and matches none.
fn server_name(address: &ServerAddress) -> ServerName<'static> {
    let name = ServerName::try_from(host(address).to_owned());
    name.unwrap_or_else(|_| ServerName::from(std::net::IpAddr::from(Ipv4Addr::UNSPECIFIED)))
}

fn host(address: &ServerAddress) -> &str {
    match address {
        ServerAddress::Tcp { host, .. } => host,
        ServerAddress::Unix(_) => "localhost",
    }
}
