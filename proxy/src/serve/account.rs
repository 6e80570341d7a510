//! Who may connect to the replica port, from where, with what secret, and what they may do.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use ipnet::IpNet;
use sha1::{Digest, Sha1};
use sha2::Sha256;

/// Bytes of the random challenge in a greeting.
pub(super) const SALT_LEN: usize = 20;

/// The client signs with SHA1 (`mysql_native_password`).
pub(super) const NATIVE_PASSWORD: &str = "mysql_native_password";
/// The client signs with SHA256 (`caching_sha2_password`, its fast path).
pub(super) const CACHING_SHA2_PASSWORD: &str = "caching_sha2_password";

/// What an account may do, named as MariaDB names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privilege {
    /// Take a binlog dump.
    ReplicationSlave,
    /// SHOW BINLOG STATUS, SHOW BINARY LOGS, SHOW BINLOG EVENTS.
    BinlogMonitor,
    /// PURGE, FLUSH.
    BinlogAdmin,
    /// KILL of other users' connections, and seeing them.
    ConnectionAdmin,
    /// ALTER SOURCE.
    ReplicationSlaveAdmin,
    /// SELECT; the port has nothing to read yet, so it is accepted for accounts copied from a server.
    Select,
}

impl Privilege {
    /// All of them, in the order SHOW GRANTS prints.
    pub const ALL: [Self; 6] = [
        Self::Select,
        Self::ReplicationSlave,
        Self::BinlogMonitor,
        Self::BinlogAdmin,
        Self::ConnectionAdmin,
        Self::ReplicationSlaveAdmin,
    ];

    /// The name in the configuration and in GRANT.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReplicationSlave => "REPLICATION SLAVE",
            Self::BinlogMonitor => "BINLOG MONITOR",
            Self::BinlogAdmin => "BINLOG ADMIN",
            Self::ConnectionAdmin => "CONNECTION ADMIN",
            Self::ReplicationSlaveAdmin => "REPLICATION SLAVE ADMIN",
            Self::Select => "SELECT",
        }
    }
}

/// What proves that a client is who it says.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    /// The password itself; an empty one lets the user in without.
    Password(String),
    /// A file whose first line is the password, read at every login so that it can change while Spillway runs.
    PasswordFile(PathBuf),
    /// SHA1(SHA1(password)): the verifier of `mysql_native_password`. Clients must use that plugin.
    NativeHash([u8; 20]),
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// The text is no verifier this port can use.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "the authentication_string is not `*` and 40 hexadecimal digits, as mysql_native_password has it"
)]
pub struct AuthenticationStringError;

impl Secret {
    /// From a server's own `authentication_string`: `*` and 40 hexadecimal digits.
    ///
    /// # Errors
    /// [`AuthenticationStringError`] for any other plugin's verifier.
    pub fn from_authentication_string(text: &str) -> Result<Self, AuthenticationStringError> {
        let digits = text.strip_prefix('*').filter(|digits| digits.len() == 40);
        let digits = digits.ok_or(AuthenticationStringError)?.as_bytes();
        let mut hash = [0; 20];
        for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| AuthenticationStringError)?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| AuthenticationStringError)?;
        }
        Ok(Self::NativeHash(hash))
    }

    /// Whether a client may sign with this plugin.
    pub(super) fn allows(&self, plugin: &str) -> bool {
        match self {
            Self::Password(_) | Self::PasswordFile(_) => {
                plugin == NATIVE_PASSWORD || plugin == CACHING_SHA2_PASSWORD
            }
            Self::NativeHash(_) => plugin == NATIVE_PASSWORD,
        }
    }

    /// Whether `response` signs `salt` with this secret.
    pub(super) fn verify(&self, plugin: &str, salt: &[u8], response: &[u8]) -> bool {
        match (self, plugin) {
            (Self::PasswordFile(path), _) => match std::fs::read_to_string(path) {
                Ok(text) => {
                    let password = text.lines().next().unwrap_or_default().to_owned();
                    Self::Password(password).verify(plugin, salt, response)
                }
                Err(error) => {
                    tracing::error!(file = %path.display(), %error, "cannot read password_file");
                    false
                }
            },
            (Self::Password(password), _) if password.is_empty() => response.is_empty(),
            (Self::Password(password), NATIVE_PASSWORD) => {
                let verifier = Sha1::digest(Sha1::digest(password.as_bytes()));
                verify_native(&verifier, salt, response)
            }
            (Self::Password(password), CACHING_SHA2_PASSWORD) => {
                let verifier = Sha256::digest(Sha256::digest(password.as_bytes()));
                verify_caching_sha2(&verifier, salt, response)
            }
            (Self::NativeHash(verifier), NATIVE_PASSWORD) => {
                verify_native(verifier, salt, response)
            }
            _ => false,
        }
    }
}

/// `response = SHA1(pw) xor SHA1(salt + verifier)`, where `verifier = SHA1(SHA1(pw))`.
fn verify_native(verifier: &[u8], salt: &[u8], response: &[u8]) -> bool {
    let mask = Sha1::new().chain_update(salt).chain_update(verifier).finalize();
    let stage1 = xor(response, &mask);
    same_bytes(&Sha1::digest(stage1), verifier) & (response.len() == mask.len())
}

/// `response = SHA256(pw) xor SHA256(verifier + salt)`, where `verifier = SHA256(SHA256(pw))`.
fn verify_caching_sha2(verifier: &[u8], salt: &[u8], response: &[u8]) -> bool {
    let mask = Sha256::new().chain_update(verifier).chain_update(salt).finalize();
    let stage1 = xor(response, &mask);
    same_bytes(&Sha256::digest(stage1), verifier) & (response.len() == mask.len())
}

fn xor(left: &[u8], right: &[u8]) -> Vec<u8> {
    left.iter().zip(right).map(|(l, r)| l ^ r).collect()
}

/// Compares in a time that does not tell where the first difference is.
fn same_bytes(left: &[u8], right: &[u8]) -> bool {
    let difference = left.iter().zip(right).fold(0, |all, (l, r)| all | (l ^ r));
    std::hint::black_box(difference) == 0 && left.len() == right.len()
}

/// One `[[replicas.user]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The user's name.
    pub name: String,
    /// Its proof.
    pub secret: Secret,
    /// Where it may come from; empty: from anywhere.
    pub hosts: Vec<IpNet>,
    /// What it may do.
    pub privileges: Vec<Privilege>,
}

impl Account {
    /// Whether the account has a privilege.
    pub fn has(&self, privilege: Privilege) -> bool {
        self.privileges.contains(&privilege)
    }

    /// Whether it may come from this address.
    pub fn admits(&self, peer: IpAddr) -> bool {
        let peer = peer.to_canonical();
        self.hosts.is_empty() || self.hosts.iter().any(|network| network.contains(&peer))
    }
}

/// A fresh challenge. Clients cut it at the first NUL, and some read `$` as a separator: neither occurs.
///
/// # Errors
/// The operating system has no random numbers.
pub(super) fn fresh_salt() -> Result<[u8; SALT_LEN], getrandom::Error> {
    let mut salt = [0; SALT_LEN];
    getrandom::fill(&mut salt)?;
    // 0x25..=0x64: six random bits a byte, 120 in all.
    Ok(salt.map(|byte| b'%' + (byte & 0x3f)))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// What a client sends for a password, by the plugins' definitions.
    pub(in crate::serve) fn sign(plugin: &str, password: &str, salt: &[u8]) -> Vec<u8> {
        if plugin == NATIVE_PASSWORD {
            let stage1 = Sha1::digest(password.as_bytes());
            let mask = Sha1::new().chain_update(salt).chain_update(Sha1::digest(stage1)).finalize();
            return xor(&stage1, &mask);
        }
        let stage1 = Sha256::digest(password.as_bytes());
        let mask = Sha256::new().chain_update(Sha256::digest(stage1)).chain_update(salt).finalize();
        xor(&stage1, &mask)
    }

    #[test]
    fn the_right_password_signs_and_no_other() {
        let salt = fresh_salt().unwrap();
        let secret = Secret::Password("geheim".to_owned());
        for plugin in [NATIVE_PASSWORD, CACHING_SHA2_PASSWORD] {
            let good = sign(plugin, "geheim", &salt);
            assert!(secret.verify(plugin, &salt, &good), "{plugin}");
            assert!(!secret.verify(plugin, &salt, &sign(plugin, "Geheim", &salt)), "{plugin}");
            assert!(!secret.verify(plugin, &fresh_salt().unwrap(), &good), "{plugin}");
            assert!(!secret.verify(plugin, &salt, &good[..good.len() - 1]), "{plugin}");
            assert!(!secret.verify(plugin, &salt, &[]), "{plugin}");
        }
        assert!(!secret.verify("client_ed25519", &salt, &sign(NATIVE_PASSWORD, "geheim", &salt)));
    }

    #[test]
    fn a_servers_own_verifier_works() {
        // SELECT PASSWORD('secret') on MariaDB.
        let text = "*14E65567ABDB5135D0CFD9A70B3032C179A49EE7";
        let secret = Secret::from_authentication_string(text).unwrap();
        let salt = fresh_salt().unwrap();
        assert!(secret.verify(NATIVE_PASSWORD, &salt, &sign(NATIVE_PASSWORD, "secret", &salt)));
        assert!(!secret.allows(CACHING_SHA2_PASSWORD));
        for bad in ["", "*14", &text.replace('E', "é"), &text[1..], "$A$005$abc"] {
            assert!(Secret::from_authentication_string(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_empty_password_lets_in_without_one_only() {
        let secret = Secret::Password(String::new());
        assert!(secret.verify(NATIVE_PASSWORD, b"salt", &[]));
        assert!(!secret.verify(NATIVE_PASSWORD, b"salt", &[0; 20]));
    }

    #[test]
    fn hosts_bound_where_from() {
        let mut account = Account {
            name: "repl".to_owned(),
            secret: Secret::Password("x".to_owned()),
            hosts: vec!["127.0.0.0/8".parse().unwrap(), "fd00::/8".parse().unwrap()],
            privileges: vec![Privilege::ReplicationSlave],
        };
        assert!(account.admits("127.1.2.3".parse().unwrap()));
        assert!(account.admits("::ffff:127.0.0.1".parse().unwrap()));
        assert!(account.admits("fd12::1".parse().unwrap()));
        assert!(!account.admits("10.0.0.1".parse().unwrap()));
        account.hosts.clear();
        assert!(account.admits("10.0.0.1".parse().unwrap()));
    }
}
