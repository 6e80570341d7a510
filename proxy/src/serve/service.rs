//! What all connections of the port share.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use spillway_binlog::Log;
use spillway_metrics::serve::ServeMetrics;

use super::account::Account;
use super::registry::Registry;
use crate::source::Upstream;

/// How the port is run.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// Where to listen.
    pub listen: SocketAddr,
    /// Spillway's `server_id`: in artificial events and `@@server_id`.
    pub server_id: u32,
    /// Who may connect; nobody if empty.
    pub accounts: Vec<Account>,
}

/// Shared by the connections.
pub(super) struct Service {
    pub server_id: u32,
    pub local: SocketAddr,
    pub hostname: String,
    pub log: Arc<Log>,
    pub upstreams: Vec<Arc<Upstream>>,
    pub metrics: ServeMetrics,
    pub connections: Arc<Registry>,
    pub started: Instant,
    /// From the greeting to the end of the login.
    pub login_deadline: Duration,
    /// How long a client whose file was purged has to take what it is being sent, and the error behind it. Until then the file
    /// keeps its room on the disk.
    pub purged_patience: Duration,
    accounts: Vec<Arc<Account>>,
}

/// As MariaDB's `connect_timeout`.
const LOGIN_DEADLINE: Duration = Duration::from_secs(10);

/// A client that reads at all takes a batch in this time.
const PURGED_PATIENCE: Duration = Duration::from_secs(5);

/// MariaDB 10 greets with this before its version, so that old replicas do not take it for MySQL 1.
const REPLICATION_PREFIX: &str = "5.5.5-";

impl Service {
    pub fn new(
        options: ServeOptions,
        local: SocketAddr,
        log: Arc<Log>,
        upstreams: Vec<Arc<Upstream>>,
        metrics: ServeMetrics,
    ) -> Self {
        Self {
            server_id: options.server_id,
            local,
            hostname: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            log,
            upstreams,
            metrics,
            connections: Arc::default(),
            started: Instant::now(),
            login_deadline: LOGIN_DEADLINE,
            purged_patience: PURGED_PATIENCE,
            accounts: options.accounts.into_iter().map(Arc::new).collect(),
        }
    }

    pub fn accounts(&self) -> &[Arc<Account>] {
        &self.accounts
    }

    /// The source of this name.
    pub fn source(&self, name: &str) -> Option<&Arc<Upstream>> {
        self.upstreams.iter().find(|upstream| upstream.name() == name)
    }

    /// The version to greet with: that of the first upstream that was seen, exactly as it greeted last; while none was, that of
    /// the newest recorded format description. Replicas and tools take from it what they may ask and what events look like.
    pub fn greeting_version(&self) -> Option<String> {
        if let Some(greeting) = self.upstreams.iter().find_map(|upstream| upstream.greeting()) {
            return Some(greeting.version.clone());
        }
        let version = self.log.format()?.server_version.clone();
        let ten = version.starts_with("10.") && version.contains("MariaDB");
        Some(if ten { format!("{REPLICATION_PREFIX}{version}") } else { version })
    }

    /// What `VERSION()` says: the same without the greeting's prefix.
    pub fn version(&self) -> String {
        let version = self.greeting_version().unwrap_or_default();
        version.strip_prefix(REPLICATION_PREFIX).map(str::to_owned).unwrap_or(version)
    }
}
