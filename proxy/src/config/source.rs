//! `[[source]]`: one upstream cluster, the apps' port in front of it, and how it is captured.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use crate::capture::StartPosition;
use crate::source::ServerAddress;
use crate::tls::{ClientCertificate, SslMode, TlsOptions};

use super::fault::Fault;
use super::key::{Key, Unavailable};
use super::password::{Password, Written};
use super::section::{Keys, Section};
use super::value;

const NAME: Key<String> = Key {
    name: "name",
    meaning: "What the source is called in logs, metrics and status.",
    allowed: "1 to 64 letters, digits, `_`, `-` and `.`",
    default: Some("\"main\""),
    reload: false,
    secret: false,
    parse: |value| value::text(value).filter(|name| is_name(name)),
};

const SERVERS: Key<Vec<ServerAddress>> = Key {
    name: "servers",
    meaning: "The upstream server, as a list of one (a longer list is not available in this release). \
              A name is resolved at every connect.",
    allowed: "a list with one \"host:port\" or \"unix:/path/to/socket\"",
    default: None,
    reload: false,
    secret: false,
    parse: |value| {
        let servers = value::list(value, |item| item.as_str()?.parse().ok());
        servers.filter(|servers| !servers.is_empty())
    },
};

const LISTEN: Key<SocketAddr> = Key {
    name: "listen",
    meaning: "Where apps connect. Left out: no relay, Spillway only records.",
    allowed: "an address and port such as \"127.0.0.1:4306\"",
    default: None,
    reload: false,
    secret: false,
    parse: value::socket_address,
};

const CAPTURE: Key<bool> = Key {
    name: "capture",
    meaning: "Record the upstream's transactions. `false`: relay only.",
    allowed: "true or false",
    default: Some("true"),
    reload: false,
    secret: false,
    parse: value::boolean,
};

const USER: Key<String> = Key {
    name: "user",
    meaning: "The upstream's account for capture. It needs REPLICATION SLAVE, and BINLOG MONITOR (MariaDB) or \
              REPLICATION CLIENT (MySQL); `spillway check` prints the GRANT. Required where `capture` is true.",
    allowed: "an account name",
    default: None,
    reload: false,
    secret: false,
    parse: value::text,
};

const PASSWORD: Key<Written> = Key {
    name: "password",
    meaning: "Its password: \"\" for an account without one, `${NAME}` for that environment variable. Either this or \
              `password_file`.",
    allowed: "a text in quotes",
    default: None,
    reload: false,
    secret: true,
    parse: Written::parse,
};

const PASSWORD_FILE: Key<String> = Key {
    name: "password_file",
    meaning: "A file whose first line is the password, read again at every connect.",
    allowed: "a path",
    default: None,
    reload: false,
    secret: false,
    parse: value::text,
};

const START: Key<StartPosition> = Key {
    name: "start",
    meaning: "Where recording begins when the log is empty: the upstream's oldest binlog, now, or after a GTID position.",
    allowed: "\"oldest\", \"current\" or a GTID position such as \"0-1-100\"",
    default: Some("\"oldest\""),
    reload: false,
    secret: false,
    parse: |value| value.as_str()?.parse().ok().filter(is_one_a_domain),
};

const GTID_DOMAINS: Key<BTreeSet<u32>> = Key {
    name: "gtid_domains",
    meaning: "The replication domains (`gtid_domain_id`) recorded from this source; transactions of others are skipped. Left out: \
              all. Required where more than one source is captured; a domain is recorded from one source only.",
    allowed: "a list of one or more different numbers from 0 to 4294967295",
    default: None,
    reload: false,
    secret: false,
    parse: |value| {
        let list = value::list(value, |item| value::integer(item, 0..=u32::MAX))?;
        let domains: BTreeSet<u32> = list.iter().copied().collect();
        (!list.is_empty() && domains.len() == list.len()).then_some(domains)
    },
};

const MAX_CONNECTIONS: Key<u32> = Key {
    name: "max_connections",
    meaning: "How many apps may be connected at a time; the next gets the server's error 1040.",
    allowed: "a number from 1 to 100000",
    default: Some("1024"),
    reload: false,
    secret: false,
    parse: |value| value::integer(value, 1..=100_000),
};

const SEMI_SYNC: Key<bool> = Key {
    name: "semi_sync",
    meaning: "Acknowledge each transaction to the upstream once the log has it: at `flush_log_at_trx_commit` 1 once it is synced, at 2 \
              and 0 once it is written. The upstream's commits wait for that where its `rpl_semi_sync_master_enabled` is ON. \
              docs/DURABILITY.md says what this promises.",
    allowed: "true or false",
    default: Some("false"),
    reload: false,
    secret: false,
    parse: value::boolean,
};

const COMMIT_ACK: Unavailable = Unavailable {
    name: "commit_ack",
    meaning: "When a client's commit is acknowledged.",
    today: Some("\"upstream\""),
};

const COMMIT_ACK_REPLICAS: Unavailable = Unavailable {
    name: "commit_ack_replicas",
    meaning: "How many replicas must acknowledge a commit.",
    today: None,
};

const COMMIT_ACK_TIMEOUT: Unavailable = Unavailable {
    name: "commit_ack_timeout",
    meaning: "How long a commit's acknowledgement is held.",
    today: None,
};

const COMMIT_ACK_ON_TIMEOUT: Unavailable = Unavailable {
    name: "commit_ack_on_timeout",
    meaning: "What happens to a commit that was held too long.",
    today: None,
};

const SSL_MODE: Key<SslMode> = Key {
    name: "ssl_mode",
    meaning: "TLS towards the upstream. Of capture: `PREFERRED` encrypts where the server offers it (over TCP), and a handshake \
              that fails is an error; `REQUIRED` never goes on without; `VERIFY_CA` also checks that an authority of `ssl_ca` \
              has issued the certificate; `VERIFY_IDENTITY` also that it is for the host in `servers` (over a Unix socket \
              `localhost`). The relay encrypts with \
              `REQUIRED` and the stricter two, and stays plain with `DISABLED` and `PREFERRED`.",
    allowed: "\"DISABLED\", \"PREFERRED\", \"REQUIRED\", \"VERIFY_CA\" or \"VERIFY_IDENTITY\"",
    default: Some("\"PREFERRED\""),
    reload: false,
    secret: false,
    parse: |value| value::one_of(value, &SslMode::NAMES),
};

const SSL_CA: Key<String> = Key {
    name: "ssl_ca",
    meaning: "The authorities an upstream's certificate is checked against (PEM), read again at every connect. Used by \
              `VERIFY_CA` and `VERIFY_IDENTITY`.",
    allowed: "a path",
    default: None,
    reload: false,
    secret: false,
    parse: value::text,
};

const SSL_CERT: Key<String> = Key {
    name: "ssl_cert",
    meaning: "The certificate shown to the upstream (PEM), read again at every connect. Where the relay encrypts, it is shown \
              for every app.",
    allowed: "a path",
    default: None,
    reload: false,
    secret: false,
    parse: value::text,
};

const SSL_KEY: Key<String> = Key {
    name: "ssl_key",
    meaning: "The private key of that certificate (PEM, without a passphrase).",
    allowed: "a path",
    default: None,
    reload: false,
    secret: false,
    parse: value::text,
};

pub(super) const KEYS: Keys = &[
    &NAME,
    &SERVERS,
    &LISTEN,
    &CAPTURE,
    &USER,
    &PASSWORD,
    &PASSWORD_FILE,
    &START,
    &GTID_DOMAINS,
    &MAX_CONNECTIONS,
    &SEMI_SYNC,
    &COMMIT_ACK,
    &COMMIT_ACK_REPLICAS,
    &COMMIT_ACK_TIMEOUT,
    &COMMIT_ACK_ON_TIMEOUT,
    &SSL_MODE,
    &SSL_CA,
    &SSL_CERT,
    &SSL_KEY,
];

/// `[[source]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// What it is called.
    pub name: String,
    /// The upstream server.
    pub server: ServerAddress,
    /// Where apps connect; `None`: record only.
    pub listen: Option<SocketAddr>,
    /// The account to record with; `None`: relay only.
    pub capture: Option<Capture>,
    /// How many apps at a time.
    pub max_connections: u32,
    /// How connections to the upstream are encrypted.
    pub tls: TlsOptions,
}

/// How a source is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capture {
    /// The upstream's account.
    pub user: String,
    /// Its password.
    pub password: Password,
    /// Where recording begins when the log is empty.
    pub start: StartPosition,
    /// The replication domains that are recorded; `None`: all.
    pub gtid_domains: Option<BTreeSet<u32>>,
    /// Acknowledge transactions to the upstream.
    pub semi_sync: bool,
}

/// MariaDB takes one GTID a domain.
fn is_one_a_domain(start: &StartPosition) -> bool {
    let StartPosition::Gtid(list) = start else {
        return true;
    };
    let mut domains: Vec<_> = list.iter().map(|gtid| gtid.domain).collect();
    domains.sort_unstable();
    domains.windows(2).all(|pair| pair.first() != pair.last())
}

fn is_name(name: &str) -> bool {
    name.len() <= 64 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b))
}

pub(super) fn read(section: &mut Section<'_>) -> Result<Source, Fault> {
    let name = section.get(&NAME)?;
    let servers = section.get(&SERVERS)?;
    let listen = section.optional(&LISTEN)?;
    let recorded = section.get(&CAPTURE)?;
    let account = read_account(section)?;
    let tls = read_tls(section)?;
    let source = Source {
        name,
        server: only_server(section, servers)?,
        listen,
        capture: if recorded { Some(account.complete(section)?) } else { None },
        max_connections: section.get(&MAX_CONNECTIONS)?,
        tls,
    };
    if source.listen.is_none() && source.capture.is_none() {
        let sentence = "`source.capture` is false and `source.listen` is missing, so there is nothing to do: set one";
        return Err(section.fault(sentence.to_owned()));
    }
    section.refuse_rest()?;
    Ok(source)
}

fn only_server(section: &Section<'_>, servers: Vec<ServerAddress>) -> Result<ServerAddress, Fault> {
    let [server] = <[ServerAddress; 1]>::try_from(servers).map_err(|_| {
        let sentence =
            "a list of servers in `source.servers` is not available in this release: name one";
        section.fault(sentence.to_owned())
    })?;
    Ok(server)
}

fn read_tls(section: &mut Section<'_>) -> Result<TlsOptions, Fault> {
    let mode = section.get(&SSL_MODE)?;
    let ca = section.optional(&SSL_CA)?.map(Into::into);
    let client = match (section.optional(&SSL_CERT)?, section.optional(&SSL_KEY)?) {
        (Some(cert), Some(key)) => Some(ClientCertificate { cert: cert.into(), key: key.into() }),
        (None, None) => None,
        (Some(_), None) => {
            let sentence = "`source.ssl_cert` is set and `source.ssl_key` is missing: name the certificate's private key";
            return Err(section.fault(sentence.to_owned()));
        }
        (None, Some(_)) => {
            let sentence = "`source.ssl_key` is set and `source.ssl_cert` is missing: name the key's certificate";
            return Err(section.fault(sentence.to_owned()));
        }
    };
    if mode.verifies() && ca.is_none() {
        return Err(section.fault(format!(
            "`source.ssl_mode` is {} and `source.ssl_ca` is missing: name the file with the authority's certificate",
            mode.as_str()
        )));
    }
    Ok(TlsOptions { mode, ca, client })
}

/// What the file says about the account, complete or not.
struct Account {
    user: Option<String>,
    password: Option<Password>,
    start: StartPosition,
    gtid_domains: Option<BTreeSet<u32>>,
    semi_sync: bool,
}

fn read_account(section: &mut Section<'_>) -> Result<Account, Fault> {
    Ok(Account {
        user: section.optional(&USER)?,
        password: read_password(section, &PASSWORD, &PASSWORD_FILE)?,
        start: section.get(&START)?,
        gtid_domains: section.optional(&GTID_DOMAINS)?,
        semi_sync: section.get(&SEMI_SYNC)?,
    })
}

impl Account {
    fn complete(self, section: &Section<'_>) -> Result<Capture, Fault> {
        let fault = |sentence: &str| section.fault(sentence.to_owned());
        let user = self.user.ok_or_else(|| {
            fault("`source.user` is missing: name the upstream's account for capture, or set `capture = false`")
        })?;
        let password = self.password.ok_or_else(|| {
            fault("`source.password` is missing: set it or `source.password_file` (\"\" for an account without one)")
        })?;
        let Self { start, gtid_domains, semi_sync, .. } = self;
        let capture = Capture { user, password, start, gtid_domains, semi_sync };
        if let Some(domain) = capture.start_elsewhere() {
            return Err(section.fault(format!(
                "`source.start` names domain {domain}, which `source.gtid_domains` does not: leave it out there, or add it here"
            )));
        }
        Ok(capture)
    }
}

impl Capture {
    /// A domain in which recording is to begin without being recorded.
    fn start_elsewhere(&self) -> Option<u32> {
        let (StartPosition::Gtid(list), Some(domains)) = (&self.start, &self.gtid_domains) else {
            return None;
        };
        list.iter().map(|gtid| gtid.domain).find(|domain| !domains.contains(domain))
    }
}

/// `password` or `password_file`, not both.
pub(super) fn read_password(
    section: &mut Section<'_>,
    password: &Key<Written>,
    file: &Key<String>,
) -> Result<Option<Password>, Fault> {
    let written = section.optional(password)?;
    let file = section.optional(file)?;
    match (written, file) {
        (Some(_), Some(_)) => {
            let path = section.path();
            Err(section.fault(format!(
                "`{path}.password` and `{path}.password_file` are both set: keep one"
            )))
        }
        (None, file) => Ok(file.map(|file| Password::File(file.into()))),
        (Some(written), None) => match written.resolve() {
            Ok(secret) => Ok(Some(Password::Given(secret))),
            Err(name) => Err(section.fault(format!(
                "`{}.password` takes the environment variable {name}, which is not set",
                section.path()
            ))),
        },
    }
}
