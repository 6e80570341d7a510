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
use crate::serve::{Account, Privilege, Secret};

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
    meaning: "A file whose first line is the password, read again at every login.",
    allowed: "a path",
    default: None,
    reload: false,
    secret: false,
    parse: value::text,
};

const AUTHENTICATION_STRING: Key<Secret> = Key {
    name: "authentication_string",
    meaning: "The server's own mysql_native_password verifier, as `SELECT PASSWORD('…')` gives it.",
    allowed: "`*` and 40 hexadecimal digits",
    default: None,
    reload: false,
    secret: true,
    parse: |value| Secret::from_authentication_string(value.as_str()?).ok(),
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
    meaning: "What the account may do: REPLICATION SLAVE reads the log, BINLOG MONITOR sees its state, BINLOG ADMIN \
              may PURGE and FLUSH it, CONNECTION ADMIN may KILL, REPLICATION SLAVE ADMIN may ALTER SOURCE. SELECT is accepted for accounts copied from a server.",
    allowed: "a list of \"REPLICATION SLAVE\", \"BINLOG MONITOR\", \"BINLOG ADMIN\", \"CONNECTION ADMIN\", \
              \"REPLICATION SLAVE ADMIN\", \"SELECT\"",
    default: Some("[\"REPLICATION SLAVE\"]"),
    reload: false,
    secret: false,
    parse: |value| value::list(value, privilege),
};

pub(super) const USER_KEYS: Keys =
    &[&NAME, &PASSWORD, &PASSWORD_FILE, &AUTHENTICATION_STRING, &HOSTS, &PRIVILEGES];

/// `[replicas]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replicas {
    /// Where to listen.
    pub listen: SocketAddr,
    /// Who is let in; nobody if empty.
    pub users: Vec<Account>,
}

fn privilege(value: &DeValue<'_>) -> Option<Privilege> {
    value::one_of(value, &Privilege::ALL.map(|privilege| (privilege.as_str(), privilege)))
}

fn network(value: &DeValue<'_>) -> Option<IpNet> {
    let text = value.as_str()?;
    text.parse().ok().or_else(|| text.parse().ok().map(|address: std::net::IpAddr| address.into()))
}

pub(super) fn read(mut section: Section<'_>, users: Vec<Section<'_>>) -> Result<Replicas, Fault> {
    let listen = section.get(&LISTEN)?;
    section.finish()?;
    let mut known: Vec<Account> = Vec::new();
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

fn read_user(section: &mut Section<'_>) -> Result<Account, Fault> {
    Ok(Account {
        name: section.get(&NAME)?,
        secret: read_secret(section)?,
        hosts: section.optional(&HOSTS)?.unwrap_or_default(),
        privileges: section.get(&PRIVILEGES)?,
    })
}

fn read_secret(section: &mut Section<'_>) -> Result<Secret, Fault> {
    let password = read_password(section, &PASSWORD, &PASSWORD_FILE)?;
    let verifier = section.optional(&AUTHENTICATION_STRING)?;
    match (password, verifier) {
        (Some(Password::Given(password)), None) => Ok(Secret::Password(password.expose().to_owned())),
        (Some(Password::File(path)), None) => Ok(Secret::PasswordFile(path)),
        (None, Some(verifier)) => Ok(verifier),
        (None, None) => Err(section.fault(
            "`replicas.user.password` is missing: set it, `password_file` or `authentication_string`"
                .to_owned(),
        )),
        (Some(_), Some(_)) => Err(section.fault(
            "`replicas.user` has a password and an `authentication_string`: keep one".to_owned(),
        )),
    }
}
