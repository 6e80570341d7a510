//! `spillway run`: builds the parts, waits for signals, drains.
//!
//! Start order: the log, the replica port, the relays, HTTP, capture. Each binds its socket before the next part starts, so
//! "ready" means that every port answers. Where the log waits for room on the disk, the relays and HTTP come before it. On the way down ports close, connections end, capture stops, the log is closed.

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use spillway_binlog::{Log, LogEnd};
use spillway_metrics::binlog::BinlogMetrics;
use spillway_metrics::http::Endpoint;
use spillway_metrics::process::ProcessMetrics;
use spillway_metrics::relay::RelayMetrics;
use spillway_metrics::source::SourceFamilies;
use spillway_metrics::{Families, Registry};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::capture::{self, CaptureHandle, CapturedSource};
use crate::config::{Config, Source};
use crate::exit::{Failure, Outcome};
use crate::relay::{self, RelayHandle};
use crate::reload::Reloader;
use crate::serve::{self, ServeHandle};
use crate::signals::{Signals, Wanted};
use crate::source::Upstream;
use crate::status::{Opened, SourceState, State};
use crate::{build, logging};

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
        // Starting can wait for a full disk: a signal ends that too.
        let running = tokio::select! {
            running = Running::start(&config) => running?,
            () = wanted_to_stop(&mut signals) => return Ok(Outcome::Fine),
        };
        tracing::info!(version = env!("CARGO_PKG_VERSION"), "ready");
        let mut reloader =
            Reloader::new(path, config, level, Arc::clone(&running.log), running.process.clone());
        while signals.next().await == Wanted::Reload {
            reloader.reload();
        }
        tokio::spawn(end_at_second(signals));
        running.drain().await;
        Ok(Outcome::Fine)
    })
}

async fn wanted_to_stop(signals: &mut Signals) {
    while signals.next().await == Wanted::Reload {}
}

/// Whoever asks twice does not want to wait for connections to end.
async fn end_at_second(mut signals: Signals) {
    wanted_to_stop(&mut signals).await;
    tracing::warn!("second signal: ending at once");
    std::process::exit(1);
}

/// All parts, started.
struct Running {
    process: ProcessMetrics,
    log: Arc<Log>,
    serve: ServeHandle,
    capture: CaptureHandle,
    front: Front,
    stop: Stop,
}

/// What needs no log: apps, and people who look.
struct Front {
    state: Arc<State>,
    relays: Vec<RelayHandle>,
    http: JoinHandle<()>,
}

/// One token a part: they stop one after another.
#[derive(Default)]
struct Stop {
    relay: CancellationToken,
    capture: CancellationToken,
    serve: CancellationToken,
    http: CancellationToken,
}

/// What parts are started with.
struct Parts<'a> {
    config: &'a Config,
    registry: Arc<Registry>,
    families: Families,
    upstreams: Vec<Arc<Upstream>>,
    stop: Stop,
}

impl Front {
    /// With the log, or why that is waited for.
    async fn start(parts: &Parts<'_>, log: Result<Opened, String>) -> Result<Self, Failure> {
        let Parts { config, registry, families, upstreams, stop } = parts;
        let relays = start_relays(config, upstreams, &families.relay, stop)?;
        let endpoint = bind_http(config).await?;
        let (opened, waiting) = match log {
            Ok(opened) => (OnceLock::from(opened), None),
            Err(reason) => (OnceLock::new(), Some(reason)),
        };
        let state = Arc::new(State {
            server_id: config.server_id,
            started: SystemTime::now(),
            sources: source_states(config, upstreams, &relays, &families.source),
            dir: config.binlog.dir.display().to_string(),
            waiting,
            opened,
            relay_metrics: families.relay.clone(),
            listen: config.replicas.listen,
            metrics: families.binlog.clone(),
            draining: false.into(),
        });
        let served =
            endpoint.serve(Arc::clone(registry), Arc::clone(&state) as _, stop.http.clone());
        let http = tokio::spawn(served);
        Ok(Self { state, relays: relays.into_iter().flatten().collect(), http })
    }
}

impl Running {
    async fn start(config: &Config) -> Result<Self, Failure> {
        let registry = Arc::new(Registry::new());
        let families =
            Families::register(&registry, env!("CARGO_PKG_VERSION")).map_err(Failure::fault)?;
        count_panics(families.process.clone());
        let (upstreams, stop) = (upstreams(config), Stop::default());
        let parts = Parts { config, registry, families, upstreams, stop };

        let mut front = None;
        let log = open_log(config, parts.families.binlog.clone(), async |reason| {
            front = Some(Front::start(&parts, Err(reason)).await?);
            Ok(())
        });
        let log = log.await?;
        let beside = logs_beside(config, &log).await;
        let serve = start_serve(&parts, &log)?;
        let replicas = Box::new(serve.replica_source());
        let opened = Opened { log: Arc::clone(&log), beside, serve: serve.local_addr(), replicas };
        let front = match front {
            None => Front::start(&parts, Ok(opened)).await?,
            Some(front) => {
                // It has none yet.
                let _ = front.state.opened.set(opened);
                front
            }
        };
        // Last: from here on there is something to lose.
        let capture = start_capture(&parts, &log)?;
        let Parts { families, stop, .. } = parts;
        Ok(Self { process: families.process, log, serve, capture, front, stop })
    }

    /// Ends everything in order; the log is closed with all that was handed to it.
    async fn drain(self) {
        tracing::info!("draining: no new connections, open ones may finish");
        let Self { front: Front { state, relays, http }, capture, log, serve, stop, .. } = self;
        state.drain();
        stop.relay.cancel();
        blocking(move || relays.into_iter().for_each(join_relay)).await;
        // After the relay: what its last clients committed should still be recorded where possible.
        stop.capture.cancel();
        blocking(move || capture.join()).await;
        // Waits for the commit thread's last sync.
        blocking(move || log.close()).await;
        // After the log: replicas may have what was recorded last.
        stop.serve.cancel();
        blocking(move || serve.join()).await;
        stop.http.cancel();
        if let Err(error) = http.await {
            tracing::error!(%error, "the HTTP endpoint failed");
        }
        tracing::info!("stopped: the log is closed");
    }
}

fn join_relay(relay: RelayHandle) {
    if let Err(error) = relay.join() {
        tracing::error!("{error}");
    }
}

/// Waits for something that blocks.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.inspect_err(|error| tracing::error!(%error, "a part failed while it stopped")).ok()
}

fn upstreams(config: &Config) -> Vec<Arc<Upstream>> {
    let upstream = |source: &Source| {
        Upstream::new(&source.name, source.server.clone()).with_tls(source.tls.clone())
    };
    config.sources.iter().map(|source| Arc::new(upstream(source))).collect()
}

/// Opens the log. Recovery keeps a copy of what it cuts: on a full disk it is tried until there is room, and `waiting` is told why,
/// once.
async fn open_log(
    config: &Config,
    metrics: BinlogMetrics,
    waiting: impl AsyncFnOnce(String) -> Result<(), Failure>,
) -> Result<Arc<Log>, Failure> {
    const LOOK_EVERY: Duration = Duration::from_secs(1);
    let dir = config.binlog.dir.display();
    let mut waiting = Some(waiting);
    let log = loop {
        let options = build::log_options(config, metrics.clone());
        // Recovery reads the last file: not on an async thread.
        let opened = tokio::task::spawn_blocking(|| Log::open(options)).await;
        match opened.map_err(Failure::fault)? {
            Ok(log) => break log,
            Err(error) if error.is_full_disk() => {
                if let Some(waiting) = waiting.take() {
                    tracing::error!(
                        "waiting for room on the disk: {error}; make some, recording begins by itself"
                    );
                    waiting(error.to_string()).await?;
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
            Err(error) => {
                return Err(Failure::fault(format!("cannot open the log in {dir}: {error}")));
            }
        }
    };
    let (end, files) = (log.end(), log.files().len());
    tracing::info!(%dir, files, file = end.file, position = end.position, "the log is open");
    Ok(Arc::new(log))
}

/// Tells of other logs in the directory. Answers what a person must see: that a log may begin which was to go on.
async fn logs_beside(config: &Config, log: &Log) -> Vec<String> {
    let (dir, log_bin) = (config.binlog.dir.clone(), config.binlog.log_bin.clone());
    let look = tokio::task::spawn_blocking(move || crate::binlog::beside(&dir, &log_bin));
    let found = look.await.unwrap_or_default();
    let told: Vec<_> = found.iter().map(ToString::to_string).collect();
    told.iter().for_each(|sentence| tracing::warn!("{sentence}"));
    if log.end() == LogEnd::default() { told } else { Vec::new() }
}

fn start_serve(parts: &Parts<'_>, log: &Arc<Log>) -> Result<ServeHandle, Failure> {
    let Parts { config, upstreams, families, stop, .. } = parts;
    let options = build::serve_options(config);
    let listen = options.listen;
    let (metrics, stop) = (families.serve.clone(), stop.serve.clone());
    let started = serve::start(options, Arc::clone(log), upstreams.to_vec(), metrics, stop);
    let serve = started.map_err(|error| {
        Failure::fault(format!(
            "cannot start the replica port on replicas.listen {listen}: {error}"
        ))
    })?;
    tracing::info!(address = %serve.local_addr(), "the replica port is listening");
    Ok(serve)
}

/// One relay a source, `None` for a source that is only recorded.
fn start_relays(
    config: &Config,
    upstreams: &[Arc<Upstream>],
    metrics: &RelayMetrics,
    stop: &Stop,
) -> Result<Vec<Option<RelayHandle>>, Failure> {
    let relayed = config.sources.iter().filter(|source| source.listen.is_some());
    let connections = relayed.map(|source| source.max_connections as usize).sum::<usize>();
    if connections > 0 {
        relay::allow_open_files(connections);
    }
    let sources = config.sources.iter().zip(upstreams);
    sources.map(|(source, upstream)| start_relay(source, upstream, metrics, stop)).collect()
}

fn start_relay(
    source: &Source,
    upstream: &Arc<Upstream>,
    metrics: &RelayMetrics,
    stop: &Stop,
) -> Result<Option<RelayHandle>, Failure> {
    let Some(listen) = source.listen else {
        return Ok(None);
    };
    let options = build::relay_options(source, listen);
    let started = relay::start(&options, upstream, metrics, stop.relay.clone());
    let relay = started.map_err(|error| {
        Failure::fault(format!("cannot start the relay on source.listen {listen}: {error}"))
    })?;
    let address = relay.local_addr();
    tracing::info!(source = source.name, %address, "the relay is listening");
    Ok(Some(relay))
}

fn start_capture(parts: &Parts<'_>, log: &Arc<Log>) -> Result<CaptureHandle, Failure> {
    let Parts { config, upstreams, families, stop, .. } = parts;
    let captured = config.sources.iter().zip(upstreams).filter_map(|(source, upstream)| {
        Some(CapturedSource {
            options: build::capture_options(config, source.capture.as_ref()?),
            upstream: Arc::clone(upstream),
            metrics: families.source.of(&source.name),
        })
    });
    capture::start(captured.collect(), log, &stop.capture)
        .map_err(|error| Failure::fault(format!("cannot start capture: {error}")))
}

fn source_states(
    config: &Config,
    upstreams: &[Arc<Upstream>],
    relays: &[Option<RelayHandle>],
    families: &SourceFamilies,
) -> Vec<SourceState> {
    let parts = config.sources.iter().zip(upstreams).zip(relays);
    let state = |((source, upstream), relay): ((&Source, &Arc<Upstream>), &Option<RelayHandle>)| {
        SourceState {
            upstream: Arc::clone(upstream),
            capture: source.capture.as_ref().map(|_| families.of(&source.name)),
            relay: relay.as_ref().map(RelayHandle::local_addr),
        }
    };
    parts.map(state).collect()
}

async fn bind_http(config: &Config) -> Result<Endpoint, Failure> {
    let wanted = config.http.listen;
    let cannot = |error| Failure::fault(format!("cannot listen on http.listen {wanted}: {error}"));
    let endpoint = Endpoint::bind(wanted).await.map_err(cannot)?;
    let address = endpoint.local_addr().map_err(cannot)?;
    tracing::info!(%address, "http is listening");
    Ok(endpoint)
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
