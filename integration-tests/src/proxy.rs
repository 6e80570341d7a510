//! A TCP proxy between two parties of a test that can cut or stall connections at a chosen byte.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const NO_CUT: u64 = u64::MAX;
const SEEN: usize = 64 * 1024;
const PAUSE: Duration = Duration::from_millis(5);

/// Which way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the connecting side to the target.
    Up,
    /// From the target to the connecting side.
    Down,
}

#[derive(Default)]
struct State {
    up_left: AtomicU64,
    down_left: AtomicU64,
    stalled: AtomicBool,
    accepted: AtomicU64,
    /// Where the next connection goes.
    target: AtomicU16,
    /// The first bytes that went down since somebody looked.
    seen: Mutex<Vec<u8>>,
    open: Mutex<Vec<TcpStream>>,
}

/// The proxy. Its threads end with the connections they serve, or with the process.
pub struct Proxy {
    port: u16,
    state: Arc<State>,
}

impl Proxy {
    /// A proxy to a port on 127.0.0.1 that passes everything.
    pub fn start(target: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State::default());
        state.target.store(target, Ordering::SeqCst);
        state.up_left.store(NO_CUT, Ordering::SeqCst);
        state.down_left.store(NO_CUT, Ordering::SeqCst);
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                shared.accepted.fetch_add(1, Ordering::SeqCst);
                let _ = connect(client, &shared);
            }
        });
        Self { port, state }
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// How many connections it has taken so far.
    pub fn accepted(&self) -> u64 {
        self.state.accepted.load(Ordering::SeqCst)
    }

    /// Cuts the connection that passes byte number `bytes` from now, once; later connections live.
    pub fn cut_after(&self, direction: Direction, bytes: u64) {
        self.state.left(direction).store(bytes, Ordering::SeqCst);
    }

    /// What has gone down since the last call, its first 64 KiB.
    pub fn take_seen(&self) -> Vec<u8> {
        std::mem::take(&mut self.state.seen.lock().unwrap())
    }

    /// Cuts all open connections now.
    pub fn cut_now(&self) {
        for stream in self.state.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Leads to another port on 127.0.0.1 from now on, and cuts what is open.
    pub fn lead_to(&self, target: u16) {
        self.state.target.store(target, Ordering::SeqCst);
        self.cut_now();
    }

    /// While stalled, bytes are neither read nor passed on; connections stay open.
    pub fn stall(&self, stalled: bool) {
        self.state.stalled.store(stalled, Ordering::SeqCst);
    }
}

impl State {
    fn left(&self, direction: Direction) -> &AtomicU64 {
        match direction {
            Direction::Up => &self.up_left,
            Direction::Down => &self.down_left,
        }
    }

    fn see(&self, bytes: &[u8]) {
        let mut seen = self.seen.lock().unwrap();
        let room = SEEN - seen.len();
        seen.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}

fn connect(client: TcpStream, state: &Arc<State>) -> std::io::Result<()> {
    let server = TcpStream::connect(("127.0.0.1", state.target.load(Ordering::SeqCst)))?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let mut open = state.open.lock().unwrap();
    open.extend([client.try_clone()?, server.try_clone()?]);
    drop(open);
    let (up, down) = (Arc::clone(state), Arc::clone(state));
    let (from, to) = (client.try_clone()?, server.try_clone()?);
    std::thread::spawn(move || pass(from, to, Direction::Up, &up));
    std::thread::spawn(move || pass(server, client, Direction::Down, &down));
    Ok(())
}

fn pass(mut from: TcpStream, mut to: TcpStream, direction: Direction, state: &State) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        while state.stalled.load(Ordering::SeqCst) {
            std::thread::sleep(PAUSE);
        }
        let count = match from.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(count) => count,
        };
        let passed = allowed(state.left(direction), count);
        if direction == Direction::Down {
            state.see(&buffer[..passed]);
        }
        if to.write_all(&buffer[..passed]).is_err() || passed < count {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

/// How many of `count` bytes may pass; the counter that reaches zero is taken back to "no cut".
fn allowed(left: &AtomicU64, count: usize) -> usize {
    let wanted = u64::try_from(count).unwrap();
    let before = left.load(Ordering::SeqCst);
    if before == NO_CUT {
        return count;
    }
    if before < wanted {
        left.store(NO_CUT, Ordering::SeqCst);
        return usize::try_from(before).unwrap();
    }
    left.store(before - wanted, Ordering::SeqCst);
    count
}
