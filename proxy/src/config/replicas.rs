//! `[replicas]`: the port replicas and tools connect to, and its accounts.

use std::net::SocketAddr;

use ipnet::IpNet;
use toml::de::DeValue;

use super::fault::Fault;
use super::key::Key;
use super::password::{Password, Written};
use super::section::{Keys, Section};
use super::source::read_password;
use super::unavailable::{REQUIRE_SECURE_TRANSPORT, SSL_CERT, SSL_KEY};
use super::value;

const LISTEN: Key<SocketAddr> = Key {
    name: "listen",
    meaning: "Where replicas, CDC tools, mysqlbinlog and administrators connect.",
    allowed: "an address and port such as \"127.0.0.1:4307\"",
    default: Some("\"127.0.0.1:4307\""),
    reload: false,
    secret: false,
    parse: value::socket_address,
};

pub(super) const KEYS: Keys = &[&LISTEN, &SSL_CERT, &SSL_KEY, &REQUIRE_SECURE_TRANSPORT];

const NAME: Key<String> = Key {
    name: "name",
    meaning: "The account's name.",
    allowed: "an account name of 1 to 128 bytes",
    default: None,
    reload: false,
    secret: false,
    parse: |value| value::text(value).filter(|name| name.len() <= 128),
};

const PASSWORD: Key<Written> = Key {
    name: "password",
    meaning: "Its password, `${NAME}` for that environment variable. One of `password`, `password_file` and \
              `authentication_string` must be set.",
    allowed: "a text in quotes",
    default: None,
    reload: false,
    secret: true,
    parse: Written::parse,
};

const PASSWORD_FILE: Key<String> = Key {
    name: "password_file",
    meaning: "A file whose first line is the password.",
    allowed: "a path",
    default: None,
    reload: false,
    secret: false,
    parse: value::text,
};

const AUTHENTICATION_STRING: Key<String> = Key {
    name: "authentication_string",
    meaning: "The server's own mysql_native_password verifier, as `SELECT PASSWORD('…')` gives it.",
    allowed: "`*` and 40 hexadecimal digits",
    default: None,
    reload: false,
    secret: true,
    parse: |value| value::text(value).filter(|text| is_verifier(text)),
};

const HOSTS: Key<Vec<IpNet>> = Key {
    name: "hosts",
    meaning: "The networks or addresses the account may come from. Left out: from anywhere.",
    allowed: "a list of networks such as \"127.0.0.0/8\" or addresses",
    default: None,
    reload: false,
    secret: false,
    parse: |value| value::list(value, network).filter(|hosts| !hosts.is_empty()),
};

const PRIVILEGES: Key<Vec<Privilege>> = Key {
    name: "privileges",
    meaning: "What the account may do: REPLICATION SLAVE reads the log, BINLOG MONITOR sees its state.",
    allowed: "a list of \"REPLICATION SLAVE\", \"BINLOG MONITOR\"",
    default: Some("[\"REPLICATION SLAVE\"]"),
    reload: false,
    secret: false,
    parse: |value| value::list(value, Privilege::parse),
};

pub(super) const USER_KEYS: Keys =
    &[&NAME, &PASSWORD, &PASSWORD_FILE, &AUTHENTICATION_STRING, &HOSTS, &PRIVILEGES];

/// `[replicas]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replicas {
    /// Where to listen.
    pub listen: SocketAddr,
    /// Who is let in; nobody if empty.
    pub users: Vec<User>,
}

/// `[[replicas.user]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Its name.
    pub name: String,
    /// What proves it.
    pub credential: Credential,
    /// Where it may come from; empty: anywhere.
    pub hosts: Vec<IpNet>,
    /// What it may do.
    pub privileges: Vec<Privilege>,
}

/// What proves an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    /// A password.
    Password(Password),
    /// `*` and SHA1(SHA1(password)) in hexadecimal.
    Verifier(String),
}

/// What an account of the replica port may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privilege {
    /// Read the log.
    ReplicationSlave,
    /// See the log's state.
    BinlogMonitor,
}

impl Privilege {
    fn parse(value: &DeValue<'_>) -> Option<Self> {
        let names = [
            ("REPLICATION SLAVE", Self::ReplicationSlave),
            ("REPLICATION REPLICA", Self::ReplicationSlave),
            ("BINLOG MONITOR", Self::BinlogMonitor),
            ("REPLICATION CLIENT", Self::BinlogMonitor),
        ];
        value::one_of(value, &names)
    }
}

fn network(value: &DeValue<'_>) -> Option<IpNet> {
    let text = value.as_str()?;
    text.parse().ok().or_else(|| text.parse().ok().map(|address: std::net::IpAddr| address.into()))
}

fn is_verifier(text: &str) -> bool {
    let digits = text.strip_prefix('*').filter(|digits| digits.len() == 40);
    digits.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

pub(super) fn read(mut section: Section<'_>, users: Vec<Section<'_>>) -> Result<Replicas, Fault> {
    let listen = section.get(&LISTEN)?;
    section.finish()?;
    let mut known: Vec<User> = Vec::new();
    for mut section in users {
        let user = read_user(&mut section)?;
        if known.iter().any(|other| other.name == user.name) {
            let sentence =
                format!("`replicas.user.name = {:?}` is there twice: keep one", user.name);
            return Err(section.fault(sentence));
        }
        known.push(user);
        section.finish()?;
    }
    Ok(Replicas { listen, users: known })
}

fn read_user(section: &mut Section<'_>) -> Result<User, Fault> {
    Ok(User {
        name: section.get(&NAME)?,
        credential: read_credential(section)?,
        hosts: section.optional(&HOSTS)?.unwrap_or_default(),
        privileges: section.get(&PRIVILEGES)?,
    })
}

fn read_credential(section: &mut Section<'_>) -> Result<Credential, Fault> {
    let password = read_password(section, &PASSWORD, &PASSWORD_FILE)?;
    let verifier = section.optional(&AUTHENTICATION_STRING)?;
    match (password, verifier) {
        (Some(password), None) => Ok(Credential::Password(password)),
        (None, Some(verifier)) => Ok(Credential::Verifier(verifier)),
        (None, None) => Err(section.fault(
            "`replicas.user.password` is missing: set it, `password_file` or `authentication_string`"
                .to_owned(),
        )),
        (Some(_), Some(_)) => Err(section.fault(
            "`replicas.user` has a password and an `authentication_string`: keep one".to_owned(),
        )),
    }
}
