//! Ports for the servers of a test.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// Below the kernel's ephemeral range, so that no outgoing connection can take a port between its choice and its use.
const FIRST: u16 = 12_000;
const COUNT: u16 = 18_000;

static NEXT: AtomicU16 = AtomicU16::new(0);

/// A port on 127.0.0.1 that nobody listens on and that this process has not handed out yet.
pub fn free_port() -> u16 {
    let start = u16::try_from(std::process::id() % u32::from(COUNT)).unwrap();
    for _ in 0..COUNT {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = FIRST + (start.wrapping_mul(7) % COUNT + step % COUNT) % COUNT;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no free port between {FIRST} and {}", FIRST + COUNT)
}
