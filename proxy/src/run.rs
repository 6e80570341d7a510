//! `spillway run`: builds the parts, waits for signals, drains.
//!
//! Start order: the log, the replica port, the relay, capture, HTTP. Each binds its socket before the next part starts, so
//! "ready" means that every port answers. On the way down ports close, connections end, capture stops, the log is closed.

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use spillway_binlog::event::ChecksumAlgorithm;
use spillway_binlog::{Log, LogOptions};
use spillway_metrics::Registry;
use spillway_metrics::http::Endpoint;
use spillway_metrics::process::ProcessMetrics;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::config::{Checksum, Config};
use crate::exit::{Failure, Outcome};
use crate::logging;
use crate::reload::Reloader;
use crate::signals::{Signals, Wanted};
use crate::source::Upstream;
use crate::status::State;

/// Runs the proxy until a signal ends it.
///
/// # Errors
/// A part cannot start: the sentence names it.
pub fn run(path: &Path, config: Config) -> Result<Outcome, Failure> {
    let level = logging::start(config.log)?;
    // Control work only: the relay and the replica port bring their own threads.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("spillway")
        .enable_all()
        .build()
        .map_err(Failure::fault)?;
    runtime.block_on(async {
        let mut signals = Signals::new().map_err(Failure::fault)?;
        let running = Running::start(&config).await?;
        tracing::info!(version = env!("CARGO_PKG_VERSION"), "ready");
        let mut reloader = Reloader::new(path, config, level, running.process.clone());
        while signals.next().await == Wanted::Reload {
            reloader.reload();
        }
        tokio::spawn(end_at_second(signals));
        running.drain().await;
        Ok(Outcome::Fine)
    })
}

/// Whoever asks twice does not want to wait for connections to end.
async fn end_at_second(mut signals: Signals) {
    while signals.next().await == Wanted::Reload {}
    tracing::warn!("second signal: ending at once");
    std::process::exit(1);
}

/// All parts, started.
struct Running {
    process: ProcessMetrics,
    state: Arc<State>,
    log: Arc<Log>,
    http: JoinHandle<()>,
    stop_http: CancellationToken,
}

impl Running {
    async fn start(config: &Config) -> Result<Self, Failure> {
        let registry = Arc::new(Registry::new());
        let process =
            ProcessMetrics::new(&registry, env!("CARGO_PKG_VERSION")).map_err(Failure::fault)?;
        count_panics(process.clone());
        warn_of(config);
        let upstream = Arc::new(Upstream::new(&config.source.name, config.source.server.clone()));
        let log = open_log(config).await?;

        let state = Arc::new(State {
            server_id: config.server_id,
            started: SystemTime::now(),
            upstream,
            log: Arc::clone(&log),
            dir: config.binlog.dir.display().to_string(),
            relay: config.source.listen,
            replicas: config.replicas.listen,
            draining: false.into(),
        });
        let endpoint = Endpoint::bind(config.http.listen).await.map_err(|error| {
            Failure::fault(format!("cannot listen on http.listen {}: {error}", config.http.listen))
        })?;
        let stop_http = CancellationToken::new();
        let served = endpoint.serve(registry, state.clone(), stop_http.clone());
        Ok(Self { process, state, log, http: tokio::spawn(served), stop_http })
    }

    /// Ends everything in order; the log is closed with all that was handed to it.
    async fn drain(self) {
        tracing::info!("draining: no new connections, waiting for open ones");
        self.state.drain();
        let log = self.log;
        // Waits for the commit thread's last sync.
        let _ = tokio::task::spawn_blocking(move || log.close()).await;
        self.stop_http.cancel();
        let _ = self.http.await;
        tracing::info!("stopped: the log is closed");
    }
}

async fn open_log(config: &Config) -> Result<Arc<Log>, Failure> {
    let options = LogOptions {
        basename: config.binlog.log_bin.clone(),
        max_binlog_size: config.binlog.max_binlog_size,
        checksum: match config.binlog.binlog_checksum {
            Checksum::Crc32 => ChecksumAlgorithm::Crc32,
            Checksum::None => ChecksumAlgorithm::None,
        },
        ..LogOptions::new(&config.binlog.dir, config.server_id)
    };
    // Recovery reads the last file: not on an async thread.
    let opened = tokio::task::spawn_blocking(|| Log::open(options)).await;
    let log = opened.map_err(Failure::fault)?.map_err(|error| {
        Failure::fault(format!("cannot open the log in {}: {error}", config.binlog.dir.display()))
    })?;
    tracing::info!(dir = %config.binlog.dir.display(), "the log is open");
    Ok(Arc::new(log))
}

fn warn_of(config: &Config) {
    if config.replicas.users.is_empty() {
        tracing::warn!("no [[replicas.user]]: the replica port lets nobody in");
    }
}

/// A panic is a fault of ours: it stands in the log and is counted, whichever thread it ends.
fn count_panics(process: ProcessMetrics) {
    std::panic::set_hook(Box::new(move |panic| {
        process.panicked();
        let thread = std::thread::current();
        let thread = thread.name().unwrap_or("unnamed");
        tracing::error!(thread, backtrace = %std::backtrace::Backtrace::capture(), "{panic}");
    }));
}
