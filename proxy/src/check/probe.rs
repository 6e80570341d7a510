//! Asks an upstream what `judge` needs to know.

use std::collections::BTreeMap;
use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder, Row};

use super::Finding;
use crate::config::Capture;
use crate::source::ServerAddress;

/// For the whole probe; a server that needs longer is as good as down.
const TIMEOUT: Duration = Duration::from_secs(15);

const VARIABLES: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('log_bin', 'binlog_format', 'binlog_row_image', \
     'binlog_checksum', 'server_id', 'gtid_domain_id', 'gtid_strict_mode', 'gtid_mode', 'gtid_binlog_state', \
     'binlog_expire_logs_seconds', 'expire_logs_days', 'require_secure_transport', \
     'rpl_semi_sync_master_enabled', 'rpl_semi_sync_master_timeout')";

type Binlogs = Result<Vec<(String, u64)>, String>;

/// What a server said.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    /// The address asked.
    pub(super) address: String,
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

/// Logs in and asks. The error is a sentence.
pub(super) async fn probe(server: &ServerAddress, capture: &Capture) -> Result<Facts, String> {
    let password = capture.password.read().map_err(|error| error.to_string())?;
    let options = options(server, &capture.user, password.expose());
    let work = async {
        let mut conn = Conn::new(options).await.map_err(|error| {
            format!("cannot log in to {server} as {}: {}", capture.user, sentence(&error))
        })?;
        let facts = ask(server, &mut conn).await;
        let facts =
            facts.map_err(|error| format!("{server} stopped answering: {}", sentence(&error)));
        // The facts are there; how the connection ends does not matter.
        let _ = conn.disconnect().await;
        facts
    };
    match tokio::time::timeout(TIMEOUT, work).await {
        Ok(result) => result,
        Err(_) => Err(format!("{server} did not answer within {TIMEOUT:?}")),
    }
}

/// Only whether something accepts connections there.
pub(super) async fn reach(server: &ServerAddress) -> Finding {
    match tokio::time::timeout(TIMEOUT, server.connect()).await {
        Ok(Ok(_)) => Finding::ok(format!("upstream {server} accepts connections")),
        Ok(Err(error)) => Finding::fault(format!("cannot connect to {server}: {error}")),
        Err(_) => Finding::fault(format!("{server} did not answer within {TIMEOUT:?}")),
    }
}

fn options(server: &ServerAddress, user: &str, password: &str) -> Opts {
    let builder = OptsBuilder::default()
        .user(Some(user))
        .pass(Some(password))
        // Otherwise it would move to a local server's socket by itself.
        .prefer_socket(false);
    match server {
        ServerAddress::Tcp { host, port } => builder.ip_or_hostname(host.as_str()).tcp_port(*port),
        ServerAddress::Unix(path) => builder.socket(Some(path.display().to_string())),
    }
    .into()
}

async fn ask(server: &ServerAddress, conn: &mut Conn) -> mysql_async::Result<Facts> {
    let identity: Option<(String, String)> =
        conn.query_first("SELECT VERSION(), CURRENT_USER()").await?;
    let (version, account) = identity.unwrap_or_default();
    Ok(Facts {
        address: server.to_string(),
        version,
        account,
        grants: conn.query("SHOW GRANTS").await?,
        variables: conn.query::<(String, String), _>(VARIABLES).await?.into_iter().collect(),
        binlogs: binlogs(conn).await?,
        replica_ids: replica_ids(conn).await?,
    })
}

async fn binlogs(conn: &mut Conn) -> mysql_async::Result<Binlogs> {
    match conn.query::<Row, _>("SHOW BINARY LOGS").await {
        // MySQL has a third column.
        Ok(rows) => {
            Ok(Ok(rows.iter().filter_map(|row| Some((row.get(0)?, row.get(1)?))).collect()))
        }
        Err(mysql_async::Error::Server(error)) => Ok(Err(error.message)),
        Err(error) => Err(error),
    }
}

/// Needs a privilege Spillway does not ask for; whoever has it gets the better check.
async fn replica_ids(conn: &mut Conn) -> mysql_async::Result<Vec<u32>> {
    match conn.query::<Row, _>("SHOW SLAVE HOSTS").await {
        Ok(rows) => Ok(rows.iter().filter_map(|row| row.get(0)).collect()),
        Err(mysql_async::Error::Server(_)) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// The server's own words without the library's wrapping.
fn sentence(error: &mysql_async::Error) -> String {
    match error {
        mysql_async::Error::Server(error) => format!("{} ({})", error.message, error.code),
        mysql_async::Error::Io(mysql_async::IoError::Io(error)) => error.to_string(),
        other => other.to_string(),
    }
}
