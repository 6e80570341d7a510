//! The relay alone, without capture, log and replica port: to try it, and to measure it.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use clap::Parser;
use spillway::relay::{self, RelayOptions};
use spillway::source::{ServerAddress, Upstream};
use spillway_metrics::Registry;
use spillway_metrics::relay::RelayMetrics;
use tokio_util::sync::CancellationToken;

/// Relays connections to one server until Ctrl-C.
#[derive(Parser)]
struct Arguments {
    /// Where clients connect.
    #[arg(long, default_value = "127.0.0.1:4306")]
    listen: SocketAddr,
    /// The server: host:port or unix:/path.
    #[arg(long, default_value = "127.0.0.1:3306")]
    upstream: ServerAddress,
    /// Worker threads.
    #[arg(long, default_value_t = relay::default_threads())]
    threads: usize,
    /// More clients than this are refused.
    #[arg(long, default_value_t = 1024)]
    max_connections: usize,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(io::stderr)
        .init();
    let Arguments { listen, upstream, threads, max_connections } = Arguments::parse();
    let registry = Registry::new();
    let metrics = RelayMetrics::register(&registry).map_err(io::Error::other)?;
    let options = RelayOptions { threads, max_connections, ..RelayOptions::new(listen) };
    let upstream = Arc::new(Upstream::new("main", upstream));
    let shutdown = CancellationToken::new();
    let handle = relay::start(&options, &upstream, &metrics, shutdown.clone())?;
    println!("listening on {}", handle.local_addr());
    tokio::signal::ctrl_c().await?;
    shutdown.cancel();
    handle.join()?;
    let text = registry.text().map_err(io::Error::other)?;
    print!("{}", String::from_utf8_lossy(&text));
    Ok(())
}
