//! The endpoint over real sockets.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::process::ProcessMetrics;

struct Fixed {
    relay: Result<(), String>,
}

impl Health for Fixed {
    fn status(&self) -> String {
        "{\"a\":1}".into()
    }

    fn page(&self) -> String {
        "<!doctype html><title>t</title>".into()
    }

    fn ready(&self, part: Part) -> Result<(), String> {
        match part {
            Part::Relay => self.relay.clone(),
            Part::Serve => Ok(()),
        }
    }
}

struct Server {
    address: SocketAddr,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

async fn start(relay: Result<(), String>) -> Server {
    let registry = Arc::new(Registry::new());
    ProcessMetrics::register(&registry, "1.2.3").unwrap();
    let endpoint = Endpoint::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = endpoint.local_addr().unwrap();
    let stop = CancellationToken::new();
    let task = tokio::spawn(endpoint.serve(registry, Arc::new(Fixed { relay }), stop.clone()));
    Server { address, stop, task }
}

/// Sends raw bytes and reads until the server closes.
async fn exchange(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // The server may answer and close before it has read all of a refused request.
    let _ = stream.write_all(request).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8(answer).unwrap()
}

async fn get(address: SocketAddr, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    exchange(address, request.as_bytes()).await
}

#[tokio::test]
async fn each_path_has_its_document() {
    let server = start(Ok(())).await;
    for (path, kind, part) in [
        ("/", "text/html; charset=utf-8", "<title>"),
        ("/status", "application/json", "{\"a\":1}"),
        ("/metrics", "text/plain; version=0.0.4", "spillway_build_info{version=\"1.2.3\"} 1"),
        ("/metrics", "text/plain; version=0.0.4", "process_resident_memory_bytes"),
        ("/livez", "text/plain", "ok"),
        ("/readyz", "text/plain", "ok"),
        ("/readyz/serve?verbose", "text/plain", "ok"),
    ] {
        let answer = get(server.address, path).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{path}: {answer}");
        assert!(answer.contains(&format!("content-type: {kind}")), "{path}: {answer}");
        assert!(answer.contains(part), "{path}: {answer}");
    }
    assert!(get(server.address, "/nothing").await.starts_with("HTTP/1.1 404 "));
}

#[tokio::test]
async fn readiness_names_what_is_missing() {
    let server = start(Err("the relay is not listening yet".into())).await;
    for path in ["/readyz", "/readyz/relay"] {
        let answer = get(server.address, path).await;
        assert!(answer.starts_with("HTTP/1.1 503 "), "{path}: {answer}");
        assert!(answer.contains("the relay is not listening yet"), "{path}: {answer}");
    }
    assert!(get(server.address, "/readyz/serve").await.starts_with("HTTP/1.1 200 "));
    assert!(get(server.address, "/livez").await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn it_is_read_only_and_takes_no_bodies() {
    let server = start(Ok(())).await;
    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        let request = format!("{method} /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        let answer = exchange(server.address, request.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 405 "), "{method}: {answer}");
        assert!(answer.contains("allow: GET, HEAD"), "{method}: {answer}");
    }
    let body = b"GET /status HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello";
    assert!(exchange(server.address, body).await.starts_with("HTTP/1.1 413 "));
    let head = b"HEAD /status HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let answer = exchange(server.address, head).await;
    assert!(answer.contains("content-length: 7") && answer.ends_with("\r\n\r\n"), "{answer}");
}

#[tokio::test]
async fn headers_are_bounded() {
    let server = start(Ok(())).await;
    let large = format!("GET / HTTP/1.1\r\nHost: x\r\nA: {}\r\n\r\n", "a".repeat(64 << 10));
    assert!(!exchange(server.address, large.as_bytes()).await.contains("200 OK"));
    let many = format!("GET / HTTP/1.1\r\nHost: x\r\n{}\r\n", "A: a\r\n".repeat(100));
    assert!(!exchange(server.address, many.as_bytes()).await.contains("200 OK"));
    assert!(get(server.address, "/livez").await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn stopping_ends_idle_connections_and_the_listener() {
    let server = start(Ok(())).await;
    let mut idle = TcpStream::connect(server.address).await.unwrap();
    idle.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let mut first = [0; 12];
    idle.read_exact(&mut first).await.unwrap();
    server.stop.cancel();
    let mut rest = Vec::new();
    idle.read_to_end(&mut rest).await.unwrap();
    server.task.await.unwrap();
    assert!(TcpStream::connect(server.address).await.is_err());
}

#[tokio::test]
async fn the_client_reads_what_the_server_says() {
    let server = start(Ok(())).await;
    let url = format!("http://{}/", server.address);
    assert_eq!(&*fetch(&url, "/status").await.unwrap(), b"{\"a\":1}");
    let error = fetch(&url, "/nothing").await.unwrap_err();
    assert!(error.to_string().ends_with("answered 404 Not Found"), "{error}");
    for url in ["https://x", "/", "", "http://", "a b"] {
        assert!(matches!(fetch(url, "/").await, Err(FetchError::Url(_))), "{url}");
    }
    server.stop.cancel();
    server.task.await.unwrap();
    assert!(matches!(fetch(&url, "/status").await, Err(FetchError::Connect { .. })));
}

#[tokio::test]
async fn idle_connections_do_not_shut_others_out() {
    let server = start(Ok(())).await;
    let mut idle = Vec::new();
    for _ in 0..2 * MAX_CONNECTIONS {
        idle.push(TcpStream::connect(server.address).await.unwrap());
    }
    let asked = tokio::time::timeout(HEADER_TIMEOUT / 2, get(server.address, "/livez")).await;
    assert!(asked.unwrap().starts_with("HTTP/1.1 200 OK\r\n"));
    // The first made room: its end is seen long before its time is over.
    let mut byte = [0];
    let read = tokio::time::timeout(HEADER_TIMEOUT / 2, idle[0].read(&mut byte)).await;
    assert!(matches!(read.unwrap(), Ok(0) | Err(_)));
}
