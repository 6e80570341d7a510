//! The port over TCP: that it opens, serves and closes.

use std::io::Read;
use std::time::Duration;

use super::*;
use crate::serve::testing::Stage;

fn options() -> ServeOptions {
    ServeOptions { listen: "127.0.0.1:0".parse().unwrap(), server_id: 1, accounts: Vec::new() }
}

fn open(stage: &Stage) -> (ServeHandle, CancellationToken) {
    let shutdown = CancellationToken::new();
    let metrics = ServeMetrics::register(&spillway_metrics::Registry::new()).unwrap();
    let (log, upstreams) = (Arc::clone(&stage.service.log), stage.service.upstreams.clone());
    let handle = start(options(), log, upstreams, metrics, shutdown.clone()).unwrap();
    (handle, shutdown)
}

#[test]
fn greets_over_tcp_and_ends_its_connections_when_it_closes() {
    let stage = Stage::begun("");
    let (handle, shutdown) = open(&stage);
    let mut client = std::net::TcpStream::connect(handle.local_addr()).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut header = [0; 5];
    client.read_exact(&mut header).unwrap();
    assert_eq!((header[3], header[4]), (0, 10));
    assert!(handle.replicas().is_empty());
    shutdown.cancel();
    handle.join();
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).unwrap();
    assert!(rest.ends_with(b"mysql_native_password\0"));
}

#[test]
fn an_address_in_use_is_an_error() {
    let stage = Stage::begun("");
    let (handle, shutdown) = open(&stage);
    let metrics = ServeMetrics::register(&spillway_metrics::Registry::new()).unwrap();
    let (log, upstreams) = (Arc::clone(&stage.service.log), stage.service.upstreams.clone());
    let taken = ServeOptions { listen: handle.local_addr(), ..options() };
    assert!(start(taken, log, upstreams, metrics, shutdown.clone()).is_err());
    shutdown.cancel();
    handle.join();
}

#[tokio::test]
async fn who_does_not_log_in_is_let_go() {
    let stage = Stage::impatient();
    let mut client = stage.connect();
    client.receive().await;
    assert!(client.rest().await.is_empty());
    client.task.await.unwrap();
    let text = String::from_utf8(stage.registry.text().unwrap()).unwrap();
    assert!(text.contains("spillway_serve_refused_logins_total{reason=\"timeout\"} 1"), "{text}");
}
