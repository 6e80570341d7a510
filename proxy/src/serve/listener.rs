//! The port: accepts, bounds, and runs each connection in a task of its own. Its threads serve nothing else.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use opensrv_mysql::{AsyncMysqlIntermediary, ErrorKind, IntermediaryOptions};
use spillway_binlog::Log;
use spillway_metrics::serve::ServeMetrics;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::guard::{GuardReader, GuardWriter, SharedSocket};
use super::registry::{EndReason, Entry};
use super::service::{ServeOptions, Service};
use super::session::Session;
use super::shim::Shim;
use super::sql::SqlError;
use super::{account, dump};
use crate::source::Upstream;
use crate::wire::packet::put_packet;

/// Connections at a time.
const MAX_CONNECTIONS: usize = 512;
/// How long connections may take to end when Spillway stops.
const DRAIN_DEADLINE: Duration = Duration::from_secs(5);
/// After an accept that failed, for example for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How often the lag of the replicas is taken.
const LAG_INTERVAL: Duration = Duration::from_secs(1);
/// TCP asks a silent peer after this long whether it is still there.
const KEEPALIVE: Duration = Duration::from_secs(60);
/// At least: a thread that waits for the disk must not be the only one.
const MIN_THREADS: usize = 2;

/// A running port.
pub struct ServeHandle {
    service: Arc<Service>,
    thread: JoinHandle<()>,
}

/// A replica, or a tool, that is being served.
#[derive(Clone, Debug)]
pub struct ReplicaStatus {
    /// Its server id; 0 for a tool that reads to the end.
    pub server_id: u32,
    /// Number of its connection, for KILL.
    pub connection_id: u32,
    /// The account it uses.
    pub user: String,
    /// Where it connects from.
    pub address: IpAddr,
    /// What it calls itself (`report_host`); empty if nothing.
    pub host: String,
    /// What its dump is doing, in MariaDB's words.
    pub state: &'static str,
    /// Name of the file it is in; empty before the first.
    pub file: String,
    /// How far in that file.
    pub position: u64,
    /// Sent to it by this dump.
    pub sent_bytes: u64,
    /// Recorded and not yet sent to it.
    pub lag_bytes: u64,
    /// How long this dump has been going.
    pub connected_for: Duration,
}

/// Opens the port and serves it on threads of its own until `shutdown` is cancelled.
///
/// # Errors
/// The address cannot be listened on, or a thread cannot be made.
pub fn start(
    options: ServeOptions,
    log: Arc<Log>,
    upstreams: Vec<Arc<Upstream>>,
    metrics: ServeMetrics,
    shutdown: CancellationToken,
) -> io::Result<ServeHandle> {
    let listener = std::net::TcpListener::bind(options.listen)?;
    listener.set_nonblocking(true)?;
    let local = listener.local_addr()?;
    if options.accounts.is_empty() {
        tracing::warn!("no [[replicas.user]]: the replica port lets nobody in");
    }
    let service = Arc::new(Service::new(options, local, log, upstreams, metrics));
    let threads = std::thread::available_parallelism().map_or(MIN_THREADS, |threads| threads.get());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads.max(MIN_THREADS))
        .thread_name("serve-worker")
        .enable_all()
        .build()?;
    let running = Arc::clone(&service);
    let thread = std::thread::Builder::new().name("serve".to_owned()).spawn(move || {
        runtime.block_on(run(listener, running, shutdown));
        runtime.shutdown_timeout(Duration::from_millis(100));
    })?;
    Ok(ServeHandle { service, thread })
}

impl ServeHandle {
    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.service.local
    }

    /// Who is being served now.
    pub fn replicas(&self) -> Vec<ReplicaStatus> {
        replicas(&self.service)
    }

    /// What answers [`ServeHandle::replicas`] once the handle is gone: for the status page.
    pub fn replica_source(&self) -> impl Fn() -> Vec<ReplicaStatus> + Send + Sync + 'static {
        let service = Arc::clone(&self.service);
        move || replicas(&service)
    }

    /// Waits, blocking, until the port has closed after its shutdown.
    pub fn join(self) {
        if self.thread.join().is_err() {
            tracing::error!("the replica port's thread failed");
        }
    }
}

fn replicas(service: &Service) -> Vec<ReplicaStatus> {
    use std::sync::atomic::Ordering::Relaxed;
    let files = service.log.files();
    let mut replicas = Vec::new();
    for connection in service.connections.all() {
        let Some(dump) = connection.dump() else { continue };
        let activity = connection.activity();
        let number = dump.file.load(Relaxed);
        let file = files.iter().find(|file| file.number == number);
        replicas.push(ReplicaStatus {
            server_id: dump.server_id,
            connection_id: connection.id,
            user: activity.user,
            address: connection.peer.to_canonical(),
            host: connection.registration().map(|replica| replica.host).unwrap_or_default(),
            state: activity.state,
            file: file.map(|file| file.name.clone()).unwrap_or_default(),
            position: dump.position.load(Relaxed),
            sent_bytes: dump.sent_bytes.load(Relaxed),
            lag_bytes: dump::lag_bytes(&files, &dump),
            connected_for: dump.started.elapsed(),
        });
    }
    replicas
}

async fn run(listener: std::net::TcpListener, service: Arc<Service>, shutdown: CancellationToken) {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(%error, "the replica port cannot listen");
            return;
        }
    };
    let mut tasks = JoinSet::new();
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut lag = tokio::time::interval(LAG_INTERVAL);
    loop {
        tokio::select! {
            () = shutdown.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((socket, peer)) => {
                    tasks.spawn(admit(Arc::clone(&service), Arc::clone(&places), socket, peer));
                }
                Err(error) => {
                    tracing::warn!(%error, "the replica port cannot accept");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(ended) = tasks.join_next() => {
                if let Err(error) = ended {
                    tracing::error!(%error, "a connection of the replica port failed");
                }
            }
            _ = lag.tick() => measure_lag(&service),
        }
    }
    drop(listener);
    service.connections.end_all(EndReason::Shutdown);
    let drained = async { while tasks.join_next().await.is_some() {} };
    if tokio::time::timeout(DRAIN_DEADLINE, drained).await.is_err() {
        tracing::warn!("connections of the replica port did not end in time");
    }
}

fn measure_lag(service: &Service) {
    let connections = service.connections.all();
    let mut dumps = connections.iter().filter_map(|connection| connection.dump()).peekable();
    if dumps.peek().is_none() {
        return;
    }
    let files = service.log.files();
    for dump in dumps {
        service.metrics.set_replica_lag(dump.server_id, dump::lag_bytes(&files, &dump));
    }
}

/// A connection from its first byte to its last.
async fn admit(service: Arc<Service>, places: Arc<Semaphore>, socket: TcpStream, peer: SocketAddr) {
    let _counted = service.metrics.connected();
    tune(&socket);
    let Ok(_place) = places.try_acquire() else {
        service.metrics.login_refused("too_many_connections");
        return turn_away(socket, ErrorKind::ER_CON_COUNT_ERROR, "Too many connections").await;
    };
    let entry = service.connections.enter(peer.ip());
    serve(service, &entry, socket).await;
}

fn tune(socket: &TcpStream) {
    let keepalive = socket2::TcpKeepalive::new().with_time(KEEPALIVE);
    let tuned = socket
        .set_nodelay(true)
        .and_then(|()| socket2::SockRef::from(socket).set_tcp_keepalive(&keepalive));
    if let Err(error) = tuned {
        tracing::debug!(%error, "socket options");
    }
}

/// An error in the greeting's place.
async fn turn_away(mut socket: impl AsyncWrite + Unpin, kind: ErrorKind, message: &str) {
    let mut packet = Vec::new();
    put_packet(&mut packet, 0, &SqlError::new(kind, message).to_payload());
    // Who does not read it cannot be told otherwise.
    let _ = socket.write_all(&packet).await;
    let _ = socket.shutdown().await;
}

/// Greets, logs in, answers; and dumps, once the client asks for that.
pub(super) async fn serve<S>(service: Arc<Service>, entry: &Entry, socket: S)
where
    S: AsyncRead + AsyncWrite + Send + Unpin,
{
    let Some(version) = service.greeting_version() else {
        service.metrics.login_refused("version_unknown");
        let message = "Spillway has not reached its upstream yet and has recorded nothing, so it cannot say which server \
                       version it speaks for; try again";
        return turn_away(socket, ErrorKind::ER_UNKNOWN_ERROR, message).await;
    };
    let salt = match account::fresh_salt() {
        Ok(salt) => salt,
        Err(error) => {
            tracing::error!(%error, "no random numbers for a greeting");
            return turn_away(socket, ErrorKind::ER_UNKNOWN_ERROR, "No random numbers").await;
        }
    };
    let session = Arc::new(Session::new(service, Arc::clone(&entry.connection), salt));
    let socket = SharedSocket::new(socket);
    answer(&session, &socket, version).await;
    let dump = session.take_dump();
    if let (Some(packet), Some(socket)) = (dump, socket.into_inner()) {
        dump::serve(&session, socket, &packet).await;
    }
}

/// Runs the library until the client goes, is ended, or asks for a dump.
async fn answer<S>(session: &Arc<Session>, socket: &SharedSocket<S>, version: String)
where
    S: AsyncRead + AsyncWrite + Send + Unpin,
{
    let shim = Shim { session: Arc::clone(session), version };
    let reader = GuardReader::new(socket.clone(), Arc::clone(session));
    let writer = GuardWriter::new(socket.clone(), Arc::clone(session));
    // USE comes as a query like any other.
    let options = IntermediaryOptions {
        process_use_statement_on_query: true,
        reject_connection_on_dbname_absence: false,
    };
    let run = AsyncMysqlIntermediary::run_with_options(shim, reader, writer, &options);
    let late = async {
        tokio::time::sleep(session.service.login_deadline).await;
        if session.is_logged_in() {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        result = run => if let Err(error) = result {
            tracing::debug!(connection = session.connection.id, %error, "connection ends");
        },
        _ = session.connection.ended() => {}
        () = late => session.service.metrics.login_refused("timeout"),
    }
}

#[cfg(test)]
mod tests;
