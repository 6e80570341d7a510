//! Certificates made for a test, as PEM files.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

use crate::run_dir::temp_dir;

const DAY: Duration = Duration::from_secs(86_400);

/// An authority, with a directory for what it issues.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    dir: TempDir,
}

/// A certificate and its key.
#[derive(Clone, Debug)]
pub struct Issued {
    /// The certificate's file.
    pub cert: PathBuf,
    /// The key's file.
    pub key: PathBuf,
}

impl Authority {
    /// A new one.
    pub fn new(name: &str) -> Self {
        let mut params = subject(&[], name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let authority = Self { issuer: Issuer::new(params, key), dir: temp_dir("certificates") };
        std::fs::write(authority.file(), certificate.pem()).unwrap();
        authority
    }

    /// The file with its own certificate.
    pub fn file(&self) -> PathBuf {
        self.dir.path().join("authority.pem")
    }

    /// A certificate for host names and addresses.
    pub fn issue(&self, names: &[&str]) -> Issued {
        self.sign(&subject(names, "issued"))
    }

    /// One that was valid until ten days ago.
    pub fn issue_expired(&self, names: &[&str]) -> Issued {
        let mut params = subject(names, "expired");
        params.not_before = (SystemTime::now() - 20 * DAY).into();
        params.not_after = (SystemTime::now() - 10 * DAY).into();
        self.sign(&params)
    }

    fn sign(&self, params: &CertificateParams) -> Issued {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let number = std::fs::read_dir(self.dir.path()).unwrap().count();
        let path = |kind| self.dir.path().join(format!("{number}-{kind}.pem"));
        let issued = Issued { cert: path("cert"), key: path("key") };
        std::fs::write(&issued.cert, certificate.pem()).unwrap();
        std::fs::write(&issued.key, key.serialize_pem()).unwrap();
        issued
    }
}

impl Issued {
    /// Options of a server that shows it, and believes clients' certificates of `clients`.
    pub fn server_options(&self, clients: Option<&Authority>) -> Vec<String> {
        let mut options = vec![
            format!("--ssl-cert={}", self.cert.display()),
            format!("--ssl-key={}", self.key.display()),
        ];
        options.extend(clients.map(|clients| format!("--ssl-ca={}", clients.file().display())));
        options
    }
}

fn subject(names: &[&str], common_name: &str) -> CertificateParams {
    let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params
}
