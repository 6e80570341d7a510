//! The HTTP endpoint: /metrics, /status, /livez, /readyz and its parts, a page at /. Read only.
//!
//! It may face an unfriendly network, so everything is bounded: connections, header sizes, the time a request may take to
//! arrive, the time a connection may live. Request bodies are refused.

mod client;
mod respond;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;

pub use client::{FetchError, fetch};

use crate::Registry;

/// Enough for several Prometheus servers and a few browsers; beyond, the oldest makes room: idle ones cannot shut others out.
const MAX_CONNECTIONS: usize = 64;
/// A request line and headers larger than this are no scrape.
const MAX_HEADER_BYTES: usize = 16 << 10;
const MAX_HEADERS: usize = 64;
/// For a request's headers to arrive; also how long an idle connection is kept.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// A reader this slow is dropped.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(60);
/// How long to wait after `accept` failed (out of file descriptors).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A part whose readiness can be asked for by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Apps can use the relay.
    Relay,
    /// Replicas can use the replica port.
    Serve,
}

/// What the endpoint shows besides metrics.
pub trait Health: Send + Sync + 'static {
    /// Brings gauges up to date before they are read.
    fn refresh_metrics(&self) {}
    /// The status document, as JSON.
    fn status(&self) -> String;
    /// The status page, as HTML without external parts.
    fn page(&self) -> String;
    /// Whether a part is ready; if not, why.
    ///
    /// # Errors
    /// One sentence that says what is missing.
    fn ready(&self, part: Part) -> Result<(), String>;
}

/// A bound endpoint: connections queue until [`Endpoint::serve`].
#[derive(Debug)]
pub struct Endpoint {
    listener: TcpListener,
}

impl Endpoint {
    /// Binds the address.
    ///
    /// # Errors
    /// What the socket said.
    pub async fn bind(address: SocketAddr) -> io::Result<Self> {
        Ok(Self { listener: TcpListener::bind(address).await? })
    }

    /// The address bound; of port 0, the one the system chose.
    ///
    /// # Errors
    /// What the socket said.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers until `stop`, then ends open connections after the answer they are at.
    pub async fn serve(
        self,
        registry: Arc<Registry>,
        health: Arc<dyn Health>,
        stop: CancellationToken,
    ) {
        let mut open = JoinSet::new();
        let mut oldest = VecDeque::new();
        while let Some(stream) = self.next(&stop).await {
            while open.try_join_next().is_some() {}
            // Connections live for a minute at most, so this forgets them soon enough.
            while oldest.front().is_some_and(AbortHandle::is_finished) {
                oldest.pop_front();
            }
            if open.len() >= MAX_CONNECTIONS {
                make_room(&mut open, &mut oldest).await;
            }
            let (registry, health, stop) = (registry.clone(), health.clone(), stop.clone());
            let task = open.spawn(async move {
                connection(stream, &registry, &*health, &stop).await;
            });
            oldest.push_back(task);
        }
        while open.join_next().await.is_some() {}
    }

    /// The next connection; `None` after `stop`.
    async fn next(&self, stop: &CancellationToken) -> Option<TcpStream> {
        let accepted = async {
            loop {
                match self.listener.accept().await {
                    Ok((stream, _)) => return stream,
                    Err(error) => {
                        tracing::warn!(%error, "http: cannot accept a connection");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                }
            }
        };
        tokio::select! {
            next = accepted => Some(next),
            () = stop.cancelled() => None,
        }
    }
}

/// Ends the connection that has been open longest.
async fn make_room(open: &mut JoinSet<()>, oldest: &mut VecDeque<AbortHandle>) {
    while let Some(task) = oldest.pop_front() {
        if !task.is_finished() {
            task.abort();
            open.join_next().await;
            return;
        }
    }
}

async fn connection(
    stream: TcpStream,
    registry: &Registry,
    health: &dyn Health,
    stop: &CancellationToken,
) {
    let service = service_fn(|request| async move {
        Ok::<_, Infallible>(respond::respond(&request, registry, health))
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEADER_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let served = async {
        tokio::select! {
            result = connection.as_mut() => result,
            () = stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.as_mut().await
            }
        }
    };
    match tokio::time::timeout(CONNECTION_TIMEOUT, served).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "http: connection ended"),
        Err(_) => tracing::debug!("http: connection ended after {CONNECTION_TIMEOUT:?}"),
    }
}

#[cfg(test)]
mod tests;
