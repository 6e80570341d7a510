//! The acceptor: takes client connections, keeps to the limit of them, hands them round robin to the worker threads.
//!
//! Sockets that several threads listen on by SO_REUSEPORT would need no acceptor, but the kernel spreads connections over them by
//! a hash of addresses. Pools keep few connections for long, and a bad spread of those stays.

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener, TcpStream as StdStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};
use spillway_metrics::relay::{OpenConnection, Refusal, RelaySourceMetrics};
use tokio::net::TcpListener;
use tokio::sync::mpsc::UnboundedSender;
use tokio_util::sync::CancellationToken;

/// Connections that wait to be accepted. All of an app's servers may start at once.
const BACKLOG: i32 = 1024;

/// Clients over the limit that are being told so; more are closed without a word, so that telling costs bounded memory.
const MAX_REFUSED_AT_ONCE: usize = 128;

/// The pause after the system refused a connection, mostly because the process is out of file descriptors.
const PAUSE_AFTER_ERROR: Duration = Duration::from_millis(100);

/// A client's connection on its way to a worker thread.
#[derive(Debug)]
pub(super) struct Arrival {
    pub(super) stream: StdStream,
    pub(super) admission: Admission,
    pub(super) open: OpenConnection,
}

/// Whether a client may come in.
#[derive(Debug)]
pub(super) enum Admission {
    /// It has a place, while this lives.
    Admitted(Place),
    /// It is one too many, to be told so.
    TooMany(Place),
}

/// One of a limited number of places; given back on drop.
#[derive(Debug)]
pub(super) struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(taken: &Arc<AtomicUsize>, limit: usize) -> Option<Self> {
        let one_more = |count| (count < limit).then_some(count + 1);
        taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more).ok()?;
        Some(Self(Arc::clone(taken)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Listens on an address.
pub(super) fn listen(address: SocketAddr) -> io::Result<StdListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// Sees to it that the process may have the files open that this many clients, of all relays together, need. Systems start processes with a low limit
/// for the sake of programs that use `select`, and let them raise it.
pub fn allow_open_files(max_connections: usize) {
    // A client has a socket on each side; the rest of the process is content with the reserve.
    let wanted = u64::try_from(max_connections).unwrap_or(u64::MAX).saturating_mul(2) + 256;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let too_few = |limit: Option<u64>| limit.is_some_and(|limit| limit < wanted);
    if !too_few(current) {
        return;
    }
    let allowed = maximum.map_or(wanted, |maximum| maximum.min(wanted));
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(allowed), maximum });
    if raised.is_err() || too_few(maximum) {
        tracing::warn!(
            limit = allowed,
            wanted,
            max_connections,
            "the limit of open files is too low for max_connections; raise it (ulimit -n, LimitNOFILE)"
        );
    }
}

/// The acceptor. Runs as a task on the first worker thread: it has little to do.
#[derive(Debug)]
pub(super) struct Acceptor {
    listener: StdListener,
    inboxes: Vec<UnboundedSender<Arrival>>,
    next_inbox: usize,
    max_connections: usize,
    admitted: Arc<AtomicUsize>,
    refused: Arc<AtomicUsize>,
    metrics: RelaySourceMetrics,
    shutdown: CancellationToken,
}

impl Acceptor {
    pub(super) fn new(
        listener: StdListener,
        inboxes: Vec<UnboundedSender<Arrival>>,
        max_connections: usize,
        metrics: RelaySourceMetrics,
        shutdown: CancellationToken,
    ) -> Self {
        Self {
            listener,
            inboxes,
            next_inbox: 0,
            max_connections,
            admitted: Arc::default(),
            refused: Arc::default(),
            metrics,
            shutdown,
        }
    }

    /// Accepts until the shutdown. That the inboxes are then closed tells the worker threads to drain.
    pub(super) async fn run(mut self) {
        let shutdown = self.shutdown.clone();
        shutdown.run_until_cancelled(self.accept_all()).await;
    }

    async fn accept_all(&mut self) {
        let listener = match self.listener.try_clone().and_then(TcpListener::from_std) {
            Ok(listener) => listener,
            Err(error) => {
                tracing::error!(%error, "the relay cannot accept connections");
                return;
            }
        };
        loop {
            match listener.accept().await {
                Ok((stream, _)) => self.arrived(stream),
                Err(error) => {
                    tracing::warn!(%error, "a client connection could not be accepted");
                    tokio::time::sleep(PAUSE_AFTER_ERROR).await;
                }
            }
        }
    }

    fn arrived(&mut self, stream: tokio::net::TcpStream) {
        let open = self.metrics.connection();
        let Some(admission) = self.admit() else {
            self.metrics.refused(Refusal::TooManyConnections);
            return;
        };
        // A connection that is lost already needs no place.
        let Ok(stream) = stream.into_std().and_then(prepared) else { return };
        let inbox = self.inboxes.get(self.next_inbox % self.inboxes.len());
        self.next_inbox = self.next_inbox.wrapping_add(1);
        if let Some(inbox) = inbox {
            // Fails only when that thread has panicked; the client sees its connection closed.
            let _closed = inbox.send(Arrival { stream, admission, open });
        }
    }

    fn admit(&self) -> Option<Admission> {
        Place::take(&self.admitted, self.max_connections)
            .map(Admission::Admitted)
            .or_else(|| Place::take(&self.refused, MAX_REFUSED_AT_ONCE).map(Admission::TooMany))
    }
}

/// Without Nagle's delay, and with probes that find a peer which has gone without a word, as servers set them.
fn prepared(stream: StdStream) -> io::Result<StdStream> {
    stream.set_nodelay(true)?;
    socket2::SockRef::from(&stream).set_tcp_keepalive(&keepalive())?;
    Ok(stream)
}

/// Finds a dead peer in about two minutes.
pub(super) fn keepalive() -> TcpKeepalive {
    TcpKeepalive::new()
        .with_time(Duration::from_secs(60))
        .with_interval(Duration::from_secs(10))
        .with_retries(6)
}
