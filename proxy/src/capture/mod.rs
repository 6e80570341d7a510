//! From the upstream into the log: a replica in the protocol's eyes. It attaches by GTID from the log's own state, checks every
//! checksum, and hands whole transactions on; half a transaction leaves no trace.
//!
//! One thread a source, with a runtime of its own: a slow disk or a fault here never touches app traffic.

mod attempts;
mod backoff;
pub(crate) mod connection;
mod diverged;
pub(crate) mod fault;
mod in_flight;
mod login;
mod packets;
mod peers;
mod semi_sync;
mod session;
mod start;
mod stream;
mod watch;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use spillway_binlog::gtid::Domains;
use spillway_binlog::{Log, Submitter};
use spillway_metrics::source::SourceMetrics;
use tokio_util::sync::CancellationToken;

pub use start::{ParseStartError, StartPosition};

use crate::source::{ALTER_NOTE, CaptureState, Upstream};
use attempts::{Attempts, Proof};
use fault::{Fault, Verdict};
use peers::Peers;

/// The account capture logs in with. The password is asked for at every connect, so that a changed file is noticed.
pub struct Credentials {
    /// The account's name.
    pub user: String,
    /// Answers the password, or one sentence why there is none.
    pub password: Box<dyn Fn() -> Result<String, String> + Send + Sync>,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

/// How often an idle upstream shows that it lives. After three periods of silence the connection is taken for dead.
pub const HEARTBEAT_PERIOD: Duration = Duration::from_secs(5);

/// How a source is captured.
#[derive(Debug)]
pub struct CaptureOptions {
    /// Spillway's server id: the one it registers with.
    pub server_id: u32,
    /// Who it logs in as.
    pub credentials: Credentials,
    /// Where to begin when the log has nothing of the source.
    pub start: StartPosition,
    /// The replication domains it is the source of; groups of others are skipped.
    pub domains: Domains,
    /// Acknowledge each transaction once the log has it at its commit level.
    pub semi_sync: bool,
    /// [`HEARTBEAT_PERIOD`]; shorter in tests.
    pub heartbeat_period: Duration,
}

/// A source that is to be captured.
#[derive(Debug)]
pub struct CapturedSource {
    /// How.
    pub options: CaptureOptions,
    /// Where it is. Its name is that of no other.
    pub upstream: Arc<Upstream>,
    /// What is counted of it.
    pub metrics: SourceMetrics,
}

/// What a capture works with.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) options: Arc<CaptureOptions>,
    pub(crate) log: Arc<Log>,
    pub(crate) submitter: Arc<Submitter>,
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) metrics: SourceMetrics,
    pub(crate) peers: Arc<Peers>,
    /// The upstream's thread of a semi-synchronous dump; 0 is none.
    pub(crate) dump_thread: Arc<AtomicU32>,
    /// This process has begun the source's domains in the log.
    pub(crate) has_begun: Arc<AtomicBool>,
}

/// The captures of a log, running.
#[derive(Debug)]
pub struct CaptureHandle {
    threads: Vec<JoinHandle<()>>,
}

impl CaptureHandle {
    /// Waits until all have stopped: after the token was cancelled, or the log takes nothing more.
    pub fn join(self) {
        for thread in self.threads {
            if thread.join().is_err() {
                tracing::error!("capture ended by a fault of Spillway's");
            }
        }
    }
}

/// Starts capturing all `sources` of a log until `shutdown` is cancelled. Without any, what the log has is all there will be.
///
/// # Errors
/// Where no thread or runtime can be had.
pub fn start(
    sources: Vec<CapturedSource>,
    log: &Arc<Log>,
    shutdown: &CancellationToken,
) -> io::Result<CaptureHandle> {
    if sources.is_empty() {
        log.set_caught_up();
    }
    let domains = |source: &CapturedSource| {
        (source.upstream.name().to_owned(), source.options.domains.clone())
    };
    let peers = Arc::new(Peers::new(sources.iter().map(domains)));
    for CapturedSource { options, upstream, .. } in &sources {
        upstream.is_captured(&options.domains);
    }
    restore_asked(&sources, log);
    let context = |CapturedSource { options, upstream, metrics }| Context {
        options: Arc::new(options),
        log: Arc::clone(log),
        submitter: Arc::new(log.submitter()),
        upstream,
        metrics,
        peers: Arc::clone(&peers),
        dump_thread: Arc::default(),
        has_begun: Arc::default(),
    };
    let threads = sources.into_iter().map(|source| spawn(context(source), shutdown.clone()));
    Ok(CaptureHandle { threads: threads.collect::<io::Result<_>>()? })
}

/// Takes up what ALTER SOURCE has asked for in an earlier life. Nothing of it keeps a source from being captured as it was.
fn restore_asked(sources: &[CapturedSource], log: &Log) {
    for CapturedSource { upstream, .. } in sources {
        if let Err(error) = upstream.restore_asked(log) {
            tracing::error!(
                source = upstream.name(),
                note = %log.note_path(upstream.name(), ALTER_NOTE).display(),
                "what ALTER SOURCE asked for is not done: its note is passed over, because {error}; give ALTER SOURCE again"
            );
        }
    }
    let notes = log.notes(ALTER_NOTE).unwrap_or_else(|error| {
        tracing::warn!(%error, "cannot look for notes of ALTER SOURCE");
        Vec::new()
    });
    let is_known = |note: &String| sources.iter().any(|source| source.upstream.name() == note);
    for note in notes.iter().filter(|note| !is_known(note)) {
        let removed = log.remove_note(note, ALTER_NOTE).err();
        tracing::warn!(
            source = note,
            error = removed.map(tracing::field::display),
            "ALTER SOURCE asked for something of a source that is no longer captured: it is forgotten"
        );
    }
}

fn spawn(context: Context, shutdown: CancellationToken) -> io::Result<JoinHandle<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let name = format!("capture-{}", context.upstream.name());
    std::thread::Builder::new().name(name).spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                () = shutdown.cancelled() => session::end_dump(&context).await,
                () = run(&context) => {}
            }
        });
        context.metrics.up.set(0);
        if context.upstream.capture_status().state != CaptureState::Stopped {
            set_state(&context, CaptureState::Stopped, "Spillway is shutting down");
        }
    })
}

/// One session after another, until the log takes nothing more.
async fn run(context: &Context) {
    let mut attempts = Attempts::new(diverged::is_noted(context));
    loop {
        set_state(context, CaptureState::Connecting, &reason_to_keep(context));
        let proof = attempts.take_proof();
        let fault = match session::run(context, &mut attempts, proof).await {
            Ok(never) => match never {},
            Err(fault) => fault,
        };
        let fault = attempts.judged(fault);
        if attempts.ended_by(&fault) {
            diverged::note(context, &fault.to_string());
        }
        context.upstream.put_new_start_back();
        context.metrics.up.set(0);
        context.dump_thread.store(0, Ordering::Relaxed);
        context.metrics.reconnects.with_label_values(&[fault.label()]).inc();
        if let Some(proof) = attempts.goes_on_with(&fault, proof) {
            if proof == Proof::Nothing {
                tracing::info!(
                    source = context.upstream.name(),
                    "the upstream has purged the log's last transaction: going on behind it, by its GTID alone"
                );
            }
            continue;
        }
        if !report(context, &fault) {
            return;
        }
        match attempts.backoff.next(fault.verdict()) {
            Some(pause) => {
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = context.upstream.is_to_retry() => {}
                }
            }
            // Until the shutdown.
            None => std::future::pending().await,
        }
    }
}

/// A source that was refused stays so, with its reason, until it is streaming again.
fn reason_to_keep(context: &Context) -> String {
    context.upstream.capture_status().reason
}

/// Tells the fault where people look. Answers whether to go on.
fn report(context: &Context, fault: &Fault) -> bool {
    let state = match fault.verdict() {
        Verdict::Retry => CaptureState::Connecting,
        Verdict::Refused => CaptureState::Refused,
        Verdict::Diverged => CaptureState::Diverged,
        Verdict::DuplicateServerId => CaptureState::DuplicateServerId,
        Verdict::DiskFull => CaptureState::PausedForDisk,
        Verdict::Stopped => CaptureState::Stopped,
    };
    set_state(context, state, &fault.to_string());
    fault.verdict() != Verdict::Stopped
}

/// Sets the state and logs it where it is new.
pub(crate) fn set_state(context: &Context, state: CaptureState, reason: &str) {
    let before = context.upstream.capture_status().state;
    if state == CaptureState::Connecting && needs_somebody(before) {
        return;
    }
    if !context.upstream.set_capture_state(state, reason) {
        return;
    }
    let (source, state_name) = (context.upstream.name(), state.as_str());
    match state {
        _ if needs_somebody(state) => {
            tracing::error!(source, state = state_name, "capture: {reason}");
        }
        _ if reason.is_empty() => tracing::info!(source, state = state_name, "capture"),
        _ => tracing::warn!(source, state = state_name, "capture: {reason}"),
    }
}

/// Shown until it streams again.
fn needs_somebody(state: CaptureState) -> bool {
    matches!(
        state,
        CaptureState::Refused
            | CaptureState::Diverged
            | CaptureState::PausedForDisk
            | CaptureState::DuplicateServerId
    )
}
