//! A worker thread: its runtime, what its connections share, and its drain.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use spillway_metrics::relay::{RelaySourceMetrics, Shard};
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::timeout;

use super::RelayOptions;
use super::drain::{Drain, Stage};
use super::listener::{Acceptor, Arrival};
use super::session;
use crate::source::Upstream;

/// Size of the one buffer that all connections of a thread read into. What is read is written on at once; only what the other
/// side does not take is kept, in a buffer of that connection. So an idle connection holds none.
const BUFFER_LEN: usize = 128 << 10;

/// How long connections may take to end once they are cut: they only have to notice.
const CUT_TIMEOUT: Duration = Duration::from_secs(5);

/// What a worker thread is made from.
#[derive(Debug)]
pub(super) struct WorkerThread {
    pub(super) options: RelayOptions,
    pub(super) upstream: Arc<Upstream>,
    pub(super) metrics: RelaySourceMetrics,
    pub(super) inbox: UnboundedReceiver<Arrival>,
}

/// What the connections of one thread share.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) options: RelayOptions,
    pub(super) upstream: Arc<Upstream>,
    pub(super) metrics: RelaySourceMetrics,
    pub(super) shard: Shard,
    /// Borrowed only while a connection reads and writes, never across a wait.
    pub(super) buffer: RefCell<Box<[u8]>>,
    pub(super) drain: Rc<Drain>,
    /// Whether the last attempt to connect failed, so that an outage is logged once and not for each client.
    pub(super) upstream_down: Cell<bool>,
    /// Why the last connection could not be encrypted; empty where it could. Logged where it changes.
    pub(super) no_tls: RefCell<String>,
    /// The log has the sentence on a password that cannot pass.
    pub(super) told_password_asked: Cell<bool>,
}

impl WorkerThread {
    /// Starts the thread. The runtime is made before, where its errors can be told.
    pub(super) fn spawn(
        self,
        number: usize,
        acceptor: Option<Acceptor>,
    ) -> io::Result<JoinHandle<()>> {
        let name = format!("relay-{number}");
        let (ready, started) = std::sync::mpsc::sync_channel(1);
        let thread = std::thread::Builder::new().name(name).spawn(move || {
            let runtime =
                Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
            match runtime {
                Ok(runtime) => {
                    let _ = ready.send(Ok(()));
                    self.run(&runtime, acceptor);
                }
                Err(error) => {
                    let _ = ready.send(Err(error));
                }
            }
        })?;
        started.recv().unwrap_or_else(|_| Err(io::Error::other("a thread ended at its start")))?;
        Ok(thread)
    }

    fn run(self, runtime: &LocalRuntime, acceptor: Option<Acceptor>) {
        let Self { options, upstream, metrics, mut inbox } = self;
        let worker = Rc::new(Worker {
            shard: metrics.shard(),
            options,
            upstream,
            metrics,
            buffer: RefCell::new(vec![0; BUFFER_LEN].into_boxed_slice()),
            drain: Rc::new(Drain::new()),
            upstream_down: Cell::new(false),
            no_tls: RefCell::default(),
            told_password_asked: Cell::new(false),
        });
        runtime.block_on(async move {
            if let Some(acceptor) = acceptor {
                tokio::task::spawn_local(acceptor.run());
            }
            while let Some(arrival) = inbox.recv().await {
                let seat = worker.drain.seat();
                tokio::task::spawn_local(session::run(Rc::clone(&worker), arrival, seat));
            }
            worker.drained().await;
        });
    }
}

impl Worker {
    async fn drained(&self) {
        self.drain.advance(Stage::Draining);
        if timeout(self.options.drain_timeout, self.drain.emptied()).await.is_ok() {
            return;
        }
        tracing::warn!(
            source = self.upstream.name(),
            connections = self.drain.open(),
            "clients were still busy at the end of the drain; their connections are cut"
        );
        self.drain.advance(Stage::Cut);
        // What is left then ends with the runtime.
        let _ = timeout(CUT_TIMEOUT, self.drain.emptied()).await;
    }
}
