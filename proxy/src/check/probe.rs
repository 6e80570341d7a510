//! Asks an upstream what `judge` needs to know.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Finding;
use crate::capture::connection::{Connection, Row};
use crate::capture::fault::Fault;
use crate::config::{Capture, Source};
use crate::source::{ServerAddress, Upstream};
use crate::tls::{Encryption, SslMode};

/// For the whole probe; a server that needs longer is as good as down.
const TIMEOUT: Duration = Duration::from_secs(15);

const VARIABLES: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('log_bin', 'binlog_format', 'binlog_row_image', \
     'binlog_checksum', 'server_id', 'gtid_domain_id', 'gtid_strict_mode', 'gtid_binlog_state', \
     'binlog_expire_logs_seconds', 'expire_logs_days', 'require_secure_transport', \
     'rpl_semi_sync_master_enabled', 'rpl_semi_sync_master_timeout')";

type Binlogs = Result<Vec<(String, u64)>, String>;

/// What a server said.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    /// The address asked.
    pub(super) address: String,
    /// How the connection is encrypted; `None` where it is not.
    pub(super) encryption: Option<Encryption>,
    /// `VERSION()`.
    pub(super) version: String,
    /// `CURRENT_USER()`.
    pub(super) account: String,
    /// SHOW GRANTS.
    pub(super) grants: Vec<String>,
    /// Global variables by name.
    pub(super) variables: BTreeMap<String, String>,
    /// Names and sizes of its binlog files, or the server's refusal.
    pub(super) binlogs: Binlogs,
    /// Server ids of replicas it knows; empty where it does not tell.
    pub(super) replica_ids: Vec<u32>,
}

/// Logs in as capture does, and asks. The error is a sentence.
pub(super) async fn probe(source: &Source, capture: &Capture) -> Result<Facts, String> {
    let server = &source.server;
    let password = capture.password.read().map_err(|error| error.to_string())?;
    let upstream = Upstream::new(&source.name, server.clone()).with_tls(source.tls.clone());
    let work = async {
        let connection = Connection::open(&upstream, &capture.user, password.expose()).await;
        let mut connection = connection
            .map_err(|fault| format!("cannot log in to {server} as {}: {fault}", capture.user))?;
        let facts = ask(server, &mut connection).await;
        facts.map_err(|fault| format!("{server} does not answer: {fault}"))
    };
    match tokio::time::timeout(TIMEOUT, work).await {
        Ok(result) => result,
        Err(_) => Err(format!("{server} did not answer within {TIMEOUT:?}")),
    }
}

/// Only whether a server answers there, encrypted as the relay's connections are.
pub(super) async fn reach(source: &Source) -> Finding {
    let server = &source.server;
    let mut tls = source.tls.clone();
    if !tls.mode.is_required() {
        tls.mode = SslMode::Disabled;
    }
    let upstream = Upstream::new(&source.name, server.clone()).with_tls(tls);
    match tokio::time::timeout(TIMEOUT, Connection::reach(&upstream)).await {
        Ok(Ok(None)) => Finding::ok(format!("upstream {server} answers, not encrypted")),
        Ok(Ok(Some(encryption))) => {
            Finding::ok(format!("upstream {server} answers, encrypted: {encryption}"))
        }
        Ok(Err(fault)) => Finding::fault(format!("upstream {server}: {fault}")),
        Err(_) => Finding::fault(format!("{server} did not answer within {TIMEOUT:?}")),
    }
}

async fn ask(server: &ServerAddress, connection: &mut Connection) -> Result<Facts, Fault> {
    let identity = connection.query("SELECT VERSION(), CURRENT_USER()").await?;
    let (version, account) = identity.into_iter().find_map(pair).unwrap_or_default();
    let grants = connection.query("SHOW GRANTS").await?;
    let variables = connection.query(VARIABLES).await?;
    Ok(Facts {
        address: server.to_string(),
        encryption: connection.stream.encryption().cloned(),
        version,
        account,
        grants: grants.into_iter().filter_map(first).collect(),
        variables: variables.into_iter().filter_map(pair).collect(),
        binlogs: binlogs(connection).await?,
        replica_ids: replica_ids(connection).await?,
    })
}

async fn binlogs(connection: &mut Connection) -> Result<Binlogs, Fault> {
    // MySQL has a third column.
    let sized = |row| pair(row).and_then(|(name, size)| Some((name, size.parse().ok()?)));
    match connection.query("SHOW BINARY LOGS").await {
        Ok(rows) => Ok(Ok(rows.into_iter().filter_map(sized).collect())),
        Err(Fault::Server { error, .. }) => Ok(Err(error.message)),
        Err(fault) => Err(fault),
    }
}

/// Needs a privilege Spillway does not ask for; whoever has it gets the better check.
async fn replica_ids(connection: &mut Connection) -> Result<Vec<u32>, Fault> {
    match connection.query("SHOW SLAVE HOSTS").await {
        Ok(rows) => Ok(rows.into_iter().filter_map(|row| first(row)?.parse().ok()).collect()),
        Err(Fault::Server { .. }) => Ok(Vec::new()),
        Err(fault) => Err(fault),
    }
}

fn first(row: Row) -> Option<String> {
    row.into_iter().next()?
}

fn pair(row: Row) -> Option<(String, String)> {
    let mut values = row.into_iter();
    Some((values.next()??, values.next()??))
}
