//! Certificates made for a test, and a server that shows one.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tempfile::TempDir;

const DAY: Duration = Duration::from_secs(86_400);

/// An authority with its directory of files.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) dir: TempDir,
    name: String,
}

/// A certificate and its key, as files.
#[derive(Clone)]
pub(crate) struct Issued {
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let authority = Self {
            issuer: Issuer::new(params, key),
            dir: TempDir::new().unwrap(),
            name: name.to_owned(),
        };
        std::fs::write(authority.path(), certificate.pem()).unwrap();
        authority
    }

    /// The file of its own certificate.
    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join(format!("{}.pem", self.name))
    }

    /// Issues a certificate for these names.
    pub(crate) fn issue(&self, names: &[&str]) -> Issued {
        self.issue_with(&params(names, "server"))
    }

    pub(crate) fn issue_with(&self, params: &CertificateParams) -> Issued {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        self.write(&certificate.pem(), &key)
    }

    /// A certificate that has issued itself, in the directory of this authority.
    pub(crate) fn self_signed(&self, params: &CertificateParams) -> Issued {
        let key = KeyPair::generate().unwrap();
        self.write(&params.self_signed(&key).unwrap().pem(), &key)
    }

    fn write(&self, certificate: &str, key: &KeyPair) -> Issued {
        let number = std::fs::read_dir(self.dir.path()).unwrap().count();
        let path = |kind| self.dir.path().join(format!("{number}-{kind}.pem"));
        let issued = Issued { cert: path("cert"), key: path("key") };
        std::fs::write(&issued.cert, certificate).unwrap();
        std::fs::write(&issued.key, key.serialize_pem()).unwrap();
        issued
    }
}

pub(crate) fn params(names: &[&str], common_name: &str) -> CertificateParams {
    let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params
}

/// Valid from and to so many days from now.
pub(crate) fn valid(mut params: CertificateParams, from: i32, to: i32) -> CertificateParams {
    let at = |days: i32| match u32::try_from(days) {
        Ok(days) => SystemTime::now() + DAY * days,
        Err(_) => SystemTime::now() - DAY * days.unsigned_abs(),
    };
    params.not_before = at(from).into();
    params.not_after = at(to).into();
    params
}

/// A server's side of TLS; `clients` issues the certificates it wants to see.
pub(crate) fn server_config(issued: &Issued, clients: Option<&Authority>) -> Arc<ServerConfig> {
    let chain = CertificateDer::pem_file_iter(&issued.cert).unwrap().map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(&issued.key).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_file(authority.path()).unwrap()).unwrap();
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.unwrap())
        }
    };
    Arc::new(builder.with_single_cert(chain, key).unwrap())
}
