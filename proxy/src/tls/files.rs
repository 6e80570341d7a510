//! The PEM files of `ssl_ca`, `ssl_cert` and `ssl_key`.

use std::path::Path;

use rustls::RootCertStore;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::fault::TlsFault;

/// No certificate or key comes near; a file that is larger is another one.
const MAX_LEN: u64 = 4 << 20;

/// Whom to believe.
#[derive(Debug)]
pub(super) struct Authorities {
    pub(super) store: RootCertStore,
    /// As the file has them: a server's own certificate may be among them.
    pub(super) certificates: Vec<CertificateDer<'static>>,
}

/// `ssl_ca`.
pub(super) fn authorities(path: &Path) -> Result<Authorities, TlsFault> {
    let certificates = certificates("ssl_ca", path)?;
    let mut store = RootCertStore::empty();
    for certificate in &certificates {
        store.add(certificate.clone()).map_err(|error| TlsFault::file("ssl_ca", path, error))?;
    }
    Ok(Authorities { store, certificates })
}

/// The certificates of a file, in its order; at least one.
pub(super) fn certificates(
    key: &'static str,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, TlsFault> {
    let text = read(key, path)?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match certificates {
        Ok(certificates) if certificates.is_empty() => {
            Err(TlsFault::file(key, path, "no certificate in PEM is in it"))
        }
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(TlsFault::file(key, path, error)),
    }
}

/// `ssl_key`.
pub(super) fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsFault> {
    let text = read("ssl_key", path)?;
    let encrypted = text.windows(b"ENCRYPTED".len()).any(|window| window == b"ENCRYPTED");
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| match error {
        _ if encrypted => {
            TlsFault::file("ssl_key", path, "the key in it has a passphrase: store it without one")
        }
        pem::Error::NoItemsFound => {
            TlsFault::file("ssl_key", path, "no private key in PEM is in it")
        }
        error => TlsFault::file("ssl_key", path, error),
    })
}

fn read(key: &'static str, path: &Path) -> Result<Vec<u8>, TlsFault> {
    let length = std::fs::metadata(path).map_err(|error| TlsFault::file(key, path, error))?.len();
    if length > MAX_LEN {
        return Err(TlsFault::file(key, path, format!("it has {length} bytes, no PEM file has")));
    }
    std::fs::read(path).map_err(|error| TlsFault::file(key, path, error))
}
