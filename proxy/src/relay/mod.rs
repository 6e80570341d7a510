//! Apps to upstream: bytes pass both ways, commands and replies are followed by packet headers.
//!
//! One acceptor hands client sockets round robin to worker threads, each with a current-thread runtime of its own. A connection
//! stays on its thread, both directions are one task, a read is followed by the write at once, and nothing on that path is shared
//! between threads: work stealing and a task for each direction were measured, and cost more than they bring.
//!
//! | file | what |
//! |---|---|
//! | `listener` | the acceptor, the limit of connections |
//! | `worker` | a thread: its runtime, its buffer, its drain |
//! | `session` | one connection from accept to close |
//! | `login` | connecting upstream, the greeting, the client's first packet |
//! | `pump` | both directions of a connection, as one future |
//! | `refusal` | errors made up here, in a form that clients show |
//! | `follower` | what the bytes mean; pure |

mod drain;
pub mod follower;
mod listener;
mod login;
mod pump;
mod refusal;
mod session;
mod worker;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use spillway_metrics::relay::RelayMetrics;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub use listener::allow_open_files;

use crate::source::Upstream;
use follower::Command;
use listener::Acceptor;
use worker::WorkerThread;

/// How the relay of one source is run.
#[derive(Clone, Debug)]
pub struct RelayOptions {
    /// Where apps connect.
    pub listen: SocketAddr,
    /// More clients than this are refused with error 1040.
    pub max_connections: usize,
    /// Worker threads; see [`default_threads`].
    pub threads: usize,
    /// The longest that connecting to the upstream and its greeting may take.
    pub connect_timeout: Duration,
    /// The longest that each step of a client's login may take, as `connect_timeout` of the servers.
    pub login_timeout: Duration,
    /// How long clients in a command or a transaction may go on once the relay is being stopped.
    pub drain_timeout: Duration,
}

impl RelayOptions {
    /// The defaults.
    pub fn new(listen: SocketAddr) -> Self {
        Self {
            listen,
            max_connections: 1024,
            threads: default_threads(),
            connect_timeout: Duration::from_secs(10),
            login_timeout: Duration::from_secs(10),
            drain_timeout: Duration::from_secs(30),
        }
    }
}

/// A quarter of the cores, at least one. What costs a MariaDB one second of CPU costs a worker thread 0.8 (point selects) or 0.5
/// (sysbench's read/write transactions), nearly all of it in the kernel's network code; and on two cores that the server shares,
/// one thread was faster than two.
pub fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 4).max(1))
}

/// A relay that runs. Stops by the token given to [`start`].
#[derive(Debug)]
pub struct RelayHandle {
    local_addr: SocketAddr,
    threads: Vec<JoinHandle<()>>,
}

impl RelayHandle {
    /// Where apps connect: the address asked for, with the port that was given for port 0.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Blocks until the relay has been stopped and every connection has ended.
    ///
    /// # Errors
    /// When a worker thread has panicked.
    pub fn join(self) -> io::Result<()> {
        // All of them, before an error of one is told.
        let ends: Vec<_> = self.threads.into_iter().map(JoinHandle::join).collect();
        match ends.into_iter().any(|end| end.is_err()) {
            true => Err(io::Error::other("a worker thread of the relay panicked")),
            false => Ok(()),
        }
    }
}

/// Listens, and relays until `shutdown` is cancelled; then accepts no more clients, closes idle ones, lets busy ones finish.
///
/// # Errors
/// When the address cannot be listened on, or a thread or its runtime cannot be made.
pub fn start(
    options: &RelayOptions,
    upstream: &Arc<Upstream>,
    metrics: &RelayMetrics,
    shutdown: CancellationToken,
) -> io::Result<RelayHandle> {
    let listener = listener::listen(options.listen)?;
    let local_addr = listener.local_addr()?;
    let metrics = metrics.source(upstream.name(), Command::NAMES);
    let (mut threads, mut inboxes) = (Vec::new(), Vec::new());
    for number in 0..options.threads.max(1) {
        let (sender, inbox) = mpsc::unbounded_channel();
        inboxes.push(sender);
        threads.push((
            number,
            WorkerThread {
                options: options.clone(),
                upstream: Arc::clone(upstream),
                metrics: metrics.clone(),
                inbox,
            },
        ));
    }
    let mut acceptor =
        Some(Acceptor::new(listener, inboxes, options.max_connections, metrics, shutdown));
    let threads = threads
        .into_iter()
        .map(|(number, thread)| thread.spawn(number, acceptor.take()))
        .collect::<io::Result<_>>()?;
    Ok(RelayHandle { local_addr, threads })
}

#[cfg(test)]
mod tests;
