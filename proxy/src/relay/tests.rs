//! Tests of the relay's I/O with a scripted upstream: what clients are told when something is wrong, limits, and stopping.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Instant;

use spillway_metrics::Registry;

mod encryption;

use super::follower::Command;
use super::*;
use crate::source::ServerAddress;
use crate::tls::TlsOptions;
use crate::wire::capability as cap;
use crate::wire::handshake::{HandshakeResponse, ServerGreeting, SslRequest};
use crate::wire::packet::{HEADER_LEN, Header, put_packet};
use crate::wire::reply::{EofPacket, ErrPacket, OkPacket, status};

/// What a test waits for at most, anywhere.
const DEADLINE: Duration = Duration::from_secs(20);

const CAPABILITIES: u64 =
    cap::PROTOCOL_41 | cap::SECURE_CONNECTION | cap::PLUGIN_AUTH | cap::CONNECT_WITH_DB;

/// A relay with what belongs to it.
struct Rig {
    registry: Registry,
    upstream: Arc<Upstream>,
    shutdown: CancellationToken,
    handle: Option<RelayHandle>,
}

impl Rig {
    fn new(address: &str, change: impl FnOnce(&mut RelayOptions)) -> Self {
        Self::with_tls(address, TlsOptions::default(), change)
    }

    fn with_tls(address: &str, tls: TlsOptions, change: impl FnOnce(&mut RelayOptions)) -> Self {
        let registry = Registry::new();
        let metrics = RelayMetrics::register(&registry).unwrap();
        let upstream = Upstream::new("main", address.parse::<ServerAddress>().unwrap());
        let upstream = Arc::new(upstream.with_tls(tls));
        let mut options = RelayOptions::new("127.0.0.1:0".parse().unwrap());
        change(&mut options);
        let shutdown = CancellationToken::new();
        let handle = start(&options, &upstream, &metrics, shutdown.clone()).unwrap();
        Self { registry, upstream, shutdown, handle: Some(handle) }
    }

    fn connect(&self) -> Peer {
        Peer::new(TcpStream::connect(self.handle.as_ref().unwrap().local_addr()).unwrap())
    }

    /// A client that has logged in to an upstream that accepts it.
    fn session(&self, upstream: &TcpListener) -> (Peer, Peer) {
        let mut client = self.connect();
        let mut server = accept(upstream);
        server.send(0, &greeting().encode());
        let greeting = ServerGreeting::parse(&client.receive().1).unwrap();
        client.send(1, &login(greeting.capabilities).encode());
        assert_eq!(server.receive().0, 1);
        server.send(2, &ok(status::AUTOCOMMIT));
        assert_eq!(client.receive(), (2, ok(status::AUTOCOMMIT)));
        (client, server)
    }

    fn metrics(&self) -> String {
        String::from_utf8(self.registry.text().unwrap()).unwrap()
    }

    /// Waits until a line of the metrics is there.
    fn wait_for(&self, line: &str) {
        let start = Instant::now();
        while !self.metrics().lines().any(|found| found == line) {
            assert!(start.elapsed() < DEADLINE, "{line} is not in\n{}", self.metrics());
            thread::yield_now();
        }
    }

    fn stop(&self) {
        self.shutdown.cancel();
    }

    /// Waits for the end, in another thread so that the wait has a deadline.
    fn join(&mut self) {
        let handle = self.handle.take().unwrap();
        let (sender, done) = channel();
        thread::spawn(move || sender.send(handle.join()));
        done.recv_timeout(DEADLINE).expect("the relay stops").unwrap();
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

/// One end of a connection, packet by packet.
struct Peer<S = TcpStream>(S);

impl Peer {
    fn new(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.set_write_timeout(Some(DEADLINE)).unwrap();
        Self(stream)
    }
}

impl<S: Read + Write> Peer<S> {
    fn send(&mut self, sequence: u8, payload: &[u8]) {
        let mut bytes = Vec::new();
        put_packet(&mut bytes, sequence, payload);
        self.0.write_all(&bytes).unwrap();
    }

    fn receive(&mut self) -> (u8, Vec<u8>) {
        let mut header = [0; HEADER_LEN];
        self.0.read_exact(&mut header).unwrap();
        let header = Header::parse(header);
        let mut payload = vec![0; header.length];
        self.0.read_exact(&mut payload).unwrap();
        (header.sequence, payload)
    }

    fn receive_error(&mut self) -> (u8, ErrPacket) {
        let (sequence, payload) = self.receive();
        (sequence, ErrPacket::parse(&payload).unwrap())
    }

    /// A reset is an end too: what was sent and not read is of no matter here.
    fn assert_closed(&mut self) {
        let mut byte = [0];
        match self.0.read(&mut byte) {
            Ok(0) => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
            other => panic!("{other:?} where the end is due"),
        }
    }

    fn query(&mut self) {
        self.send(0, &[&[Command::QUERY.0], &b"select 1"[..]].concat());
    }
}

fn listener() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

/// Accepts one connection, within the deadline.
fn accept(listener: &TcpListener) -> Peer {
    listener.set_nonblocking(true).unwrap();
    let start = Instant::now();
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).unwrap();
                return Peer::new(stream);
            }
            Err(_) => assert!(start.elapsed() < DEADLINE, "no connection arrives"),
        }
        thread::yield_now();
    }
}

/// An address that nobody listens on.
fn nowhere() -> String {
    listener().1
}

fn greeting() -> ServerGreeting {
    ServerGreeting {
        version: "5.5.5-10.11.19-MariaDB".to_owned(),
        thread_id: 7,
        salt: vec![b's'; 20],
        capabilities: CAPABILITIES | cap::SSL | cap::COMPRESS | cap::ZSTD_COMPRESSION,
        charset: 45,
        status: status::AUTOCOMMIT,
        auth_plugin: "mysql_native_password".to_owned(),
    }
}

fn login(capabilities: u64) -> HandshakeResponse {
    HandshakeResponse {
        capabilities,
        user: b"app".to_vec(),
        auth_response: vec![1; 20],
        auth_plugin: "mysql_native_password".to_owned(),
        ..HandshakeResponse::default()
    }
}

fn ok(status: u16) -> Vec<u8> {
    OkPacket { status, ..OkPacket::default() }.encode(0)
}

fn refusal_of(rig: &Rig) -> ErrPacket {
    let mut client = rig.connect();
    let (sequence, payload) = client.receive();
    assert_eq!(sequence, 0);
    let greeting = ServerGreeting::parse(&payload).unwrap();
    assert_eq!(greeting.capabilities & cap::SSL, 0);
    client.send(1, &login(greeting.capabilities).encode());
    let (sequence, error) = client.receive_error();
    assert_eq!(sequence, 2);
    client.assert_closed();
    error
}

#[test]
fn upstream_that_is_down_gives_an_error_of_class_08() {
    let rig = Rig::new(&nowhere(), |_| {});
    let error = refusal_of(&rig);
    assert_eq!((error.code, error.sql_state), (1218, Some(*b"08S01")));
    let expected = format!("Spillway cannot reach source 'main' at {}: ", rig.upstream.address());
    assert!(error.message.starts_with(&expected), "{error}");
    rig.wait_for(
        r#"spillway_relay_refused_connections_total{reason="upstream_unreachable",source="main"} 1"#,
    );
}

#[test]
fn name_that_does_not_resolve_gives_an_error_of_class_08() {
    let rig = Rig::new("no-such-host.invalid:3306", |_| {});
    assert_eq!(refusal_of(&rig).sql_state, Some(*b"08S01"));
}

#[test]
fn silent_upstream_gives_an_error_after_the_time_limit() {
    let (_silent, address) = listener();
    let rig = Rig::new(&address, |options| options.connect_timeout = Duration::from_millis(50));
    let error = refusal_of(&rig);
    assert!(error.message.contains("no greeting within 50ms"), "{error}");
}

#[test]
fn greeting_passes_without_what_is_not_offered() {
    let (upstream, address) = listener();
    let rig = Rig::new(&address, |_| {});
    let mut client = rig.connect();
    accept(&upstream).send(0, &greeting().encode());
    let passed = ServerGreeting::parse(&client.receive().1).unwrap();
    assert_eq!(passed, ServerGreeting { capabilities: CAPABILITIES, ..greeting() });
    let remembered = rig.upstream.greeting().unwrap();
    assert_eq!(remembered.version, greeting().version);
    assert_eq!(remembered.payload, greeting().encode());
}

#[test]
fn upstreams_own_refusal_gets_an_sqlstate() {
    let (upstream, address) = listener();
    let rig = Rig::new(&address, |_| {});
    let server = thread::spawn(move || {
        let blocked = ErrPacket { sql_state: None, ..ErrPacket::new(1129, b"     ", "blocked") };
        accept(&upstream).send(0, &blocked.encode());
    });
    let error = refusal_of(&rig);
    assert_eq!(error, ErrPacket::new(1129, b"08004", "blocked"));
    server.join().unwrap();
}

#[test]
fn upstream_that_is_no_server_is_named() {
    let (upstream, address) = listener();
    let rig = Rig::new(&address, |_| {});
    let server = thread::spawn(move || accept(&upstream).send(0, b"SSH-2.0-OpenSSH"));
    let error = refusal_of(&rig);
    assert!(error.message.contains("server greeting: not of protocol 10"), "{error}");
    server.join().unwrap();
}

#[test]
fn one_client_too_many_is_told_with_an_sqlstate() {
    let (upstream, address) = listener();
    let rig = Rig::new(&address, |options| options.max_connections = 1);
    let session = rig.session(&upstream);
    assert_eq!(refusal_of(&rig), ErrPacket::new(1040, b"08004", "Too many connections"));
    drop(session);
    rig.wait_for(r#"spillway_relay_connections{source="main"} 0"#);
    rig.session(&upstream);
}

/// The error for a client that answers the greeting with this.
fn error_for_login(sequence: u8, payload: &[u8]) -> ErrPacket {
    let (upstream, address) = listener();
    let rig = Rig::new(&address, |_| {});
    let (mut good, mut good_server) = rig.session(&upstream);
    let mut client = rig.connect();
    let mut server = accept(&upstream);
    server.send(0, &greeting().encode());
    client.receive();
    client.send(sequence, payload);
    let (sequence, error) = client.receive_error();
    assert_eq!(sequence, 2);
    client.assert_closed();
    server.assert_closed();
    // Others are not touched.
    good.query();
    assert_eq!(good_server.receive().0, 0);
    good_server.send(1, &ok(2));
    assert_eq!(good.receive(), (1, ok(2)));
    error
}

#[test]
fn faulty_logins_end_their_connection_with_what_was_wrong() {
    let tls = SslRequest { capabilities: CAPABILITIES | cap::SSL, max_packet: 0, charset: 8 };
    let good = login(CAPABILITIES).encode();
    for (sequence, payload, expected) in [
        (1, &b"garbage"[..], "older than protocol 4.1"),
        (1, &good[..40], "login packet: ends before its authentication data"),
        (5, &good, "the login has sequence number 5, expected 1"),
        (1, &tls.encode(), "TLS was asked for, which is not offered here"),
        (1, &login(CAPABILITIES | cap::COMPRESS).encode(), "the login uses CLIENT_COMPRESS"),
        (1, &[0; 300 << 10], "a packet of 307200 bytes during the login"),
    ] {
        let error = error_for_login(sequence, payload);
        assert_eq!((error.code, error.sql_state), (1043, Some(*b"08S01")), "{error}");
        assert!(error.message.contains(expected), "{error}");
    }
}

#[test]
fn silent_client_does_not_hold_its_place() {
    let (upstream, address) = listener();
    let rig = Rig::new(&address, |options| options.login_timeout = Duration::from_millis(50));
    let mut client = rig.connect();
    let mut server = accept(&upstream);
    server.send(0, &greeting().encode());
    client.receive();
    assert_eq!(client.receive_error().1.code, 1159);
    server.assert_closed();
    // And within the dialogue.
    let mut client = rig.connect();
    let mut server = accept(&upstream);
    server.send(0, &greeting().encode());
    client.receive();
    client.send(1, &login(CAPABILITIES).encode());
    server.receive();
    server.send(2, b"\x01question");
    assert_eq!(client.receive(), (2, b"\x01question".to_vec()));
    let (sequence, error) = client.receive_error();
    assert_eq!((sequence, error.code), (3, 1159));
    server.assert_closed();
}

#[test]
fn authentication_passes_whatever_the_plugin() {
    let (upstream, address) = listener();
    let rig = Rig::new(&address, |_| {});
    let mut client = rig.connect();
    let mut server = accept(&upstream);
    server.send(0, &greeting().encode());
    client.receive();
    let sent = login(CAPABILITIES).encode();
    client.send(1, &sent);
    assert_eq!(server.receive(), (1, sent));
    server.send(2, b"\xfeno_such_plugin\0data");
    assert_eq!(client.receive().1, b"\xfeno_such_plugin\0data");
    for step in 0..200_u8 {
        let sequence = 3_u8.wrapping_add(step.wrapping_mul(2));
        client.send(sequence, &[step]);
        assert_eq!(server.receive(), (sequence, vec![step]));
        server.send(sequence.wrapping_add(1), &[1, step]);
        assert_eq!(client.receive(), (sequence.wrapping_add(1), vec![1, step]));
    }
    let last = 3_u8.wrapping_add(200_u8.wrapping_mul(2));
    client.send(last, b"");
    assert_eq!(server.receive(), (last, vec![]));
    server.send(last.wrapping_add(1), &ErrPacket::new(1045, b"28000", "no").encode());
    assert_eq!(client.receive_error().1.code, 1045);
    drop(server);
    client.assert_closed();
    rig.wait_for(
        r#"spillway_relay_refused_connections_total{reason="access_denied",source="main"} 1"#,
    );
}

#[test]
fn garbage_within_the_dialogue_ends_it() {
    let (upstream, address) = listener();
    let rig = Rig::new(&address, |_| {});
    let mut client = rig.connect();
    let mut server = accept(&upstream);
    server.send(0, &greeting().encode());
    client.receive();
    client.send(1, &login(CAPABILITIES).encode());
    server.receive();
    server.send(9, &ok(2));
    let (sequence, error) = client.receive_error();
    assert_eq!((sequence, error.code), (2, 1043));
    assert!(error.message.contains("server packet has sequence number 9, expected 2"), "{error}");
    server.assert_closed();
}

#[test]
fn upstream_lost_within_a_command_is_told() {
    let (upstream, address) = listener();
    let rig = Rig::new(&address, |_| {});
    let (mut client, mut server) = rig.session(&upstream);
    client.query();
    server.receive();
    server.send(1, &[1]);
    client.receive();
    drop(server);
    let (sequence, error) = client.receive_error();
    assert_eq!((sequence, error.code, error.sql_state), (2, 1927, Some(*b"08S01")));
    assert!(error.message.starts_with("Lost connection to source 'main'"), "{error}");
    client.assert_closed();
    rig.wait_for(
        r#"spillway_relay_aborted_connections_total{reason="upstream_lost",source="main"} 1"#,
    );
}

#[test]
fn upstream_lost_while_idle_or_within_a_packet_just_closes() {
    let (upstream, address) = listener();
    let rig = Rig::new(&address, |_| {});
    let (mut client, server) = rig.session(&upstream);
    drop(server);
    client.assert_closed();
    let (mut client, mut server) = rig.session(&upstream);
    client.query();
    server.receive();
    server.0.write_all(&[9, 0, 0, 1, 5]).unwrap();
    let mut cut = [0; 5];
    client.0.read_exact(&mut cut).unwrap();
    drop(server);
    client.assert_closed();
}

#[test]
fn what_a_client_sent_before_it_left_arrives() {
    let (upstream, address) = listener();
    let rig = Rig::new(&address, |_| {});
    let (mut client, mut server) = rig.session(&upstream);
    let long = vec![b'x'; 8 << 20];
    let sender = thread::spawn(move || {
        client.send(0, &[&[Command::QUERY.0], &long[..]].concat());
        client
    });
    assert_eq!(server.receive().1.len(), (8 << 20) + 1);
    let mut client = sender.join().unwrap();
    client.query();
    drop(client);
    assert_eq!(server.receive().1, [&[Command::QUERY.0], &b"select 1"[..]].concat());
    server.assert_closed();
    rig.wait_for(
        r#"spillway_relay_aborted_connections_total{reason="client_lost",source="main"} 1"#,
    );
}

#[test]
fn half_closed_client_still_gets_its_reply() {
    let (upstream, address) = listener();
    let rig = Rig::new(&address, |_| {});
    let (mut client, mut server) = rig.session(&upstream);
    client.query();
    client.0.shutdown(Shutdown::Write).unwrap();
    server.receive();
    server.assert_closed();
    server.send(1, &ok(2));
    assert_eq!(client.receive(), (1, ok(2)));
}

#[test]
fn slow_reader_stops_only_its_own_upstream() {
    let (upstream, address) = listener();
    let rig = Rig::new(&address, |_| {});
    let (mut slow, mut slow_server) = rig.session(&upstream);
    slow.query();
    slow_server.receive();
    let rows = 64 << 20;
    let sender = thread::spawn(move || {
        slow_server.send(1, &[1]);
        slow_server.send(2, &[b'd'; 30]);
        slow_server.send(3, &EofPacket { warnings: 0, status: 2 }.encode());
        let next = {
            let mut bytes = Vec::new();
            let next = put_packet(&mut bytes, 4, &vec![1; rows]);
            slow_server.0.write_all(&bytes).unwrap();
            next
        };
        slow_server.send(next, &EofPacket { warnings: 0, status: 2 }.encode());
        slow_server
    });
    let (mut other, mut other_server) = rig.session(&upstream);
    for _ in 0..100 {
        other.query();
        other_server.receive();
        other_server.send(1, &ok(2));
        assert_eq!(other.receive(), (1, ok(2)));
    }
    let mut length = 0;
    while length < rows {
        length += slow.receive().1.len();
    }
    sender.join().unwrap();
    rig.wait_for(r#"spillway_relay_unfollowed_connections_total{source="main"} 0"#);
}

#[test]
fn unknown_command_passes_and_is_counted() {
    let (upstream, address) = listener();
    let rig = Rig::new(&address, |_| {});
    let (mut client, mut server) = rig.session(&upstream);
    client.send(0, &[0x77]);
    assert_eq!(server.receive(), (0, vec![0x77]));
    server.send(1, b"whatever");
    assert_eq!(client.receive(), (1, b"whatever".to_vec()));
    rig.wait_for(r#"spillway_relay_unfollowed_connections_total{source="main"} 1"#);
    assert!(rig.metrics().contains(r#"spillway_relay_commands_total{command="unknown""#));
}

#[test]
fn commands_and_replies_are_counted() {
    let (upstream, address) = listener();
    let rig = Rig::new(&address, |options| options.threads = 3);
    let mut sessions: Vec<_> = (0..6).map(|_| rig.session(&upstream)).collect();
    for (client, server) in &mut sessions {
        client.query();
        server.receive();
        server.send(1, &ok(2));
        client.receive();
    }
    rig.wait_for(r#"spillway_relay_commands_total{command="query",source="main"} 6"#);
    rig.wait_for(r#"spillway_relay_command_seconds_count{command="query",source="main"} 6"#);
    rig.wait_for(r#"spillway_relay_connections{source="main"} 6"#);
}

#[test]
fn stopping_closes_the_idle_and_lets_the_busy_finish() {
    let (upstream, address) = listener();
    let mut rig = Rig::new(&address, |options| options.threads = 2);
    let (mut idle, mut idle_server) = rig.session(&upstream);
    let (mut busy, mut busy_server) = rig.session(&upstream);
    let (mut open, mut open_server) = rig.session(&upstream);
    busy.query();
    busy_server.receive();
    open.query();
    open_server.receive();
    open_server.send(1, &ok(status::IN_TRANSACTION));
    open.receive();
    rig.stop();
    idle.assert_closed();
    idle_server.assert_closed();
    busy_server.send(1, &ok(2));
    assert_eq!(busy.receive(), (1, ok(2)));
    busy.assert_closed();
    // The transaction goes on to its end.
    for status in [status::IN_TRANSACTION, status::AUTOCOMMIT] {
        open.query();
        open_server.receive();
        open_server.send(1, &ok(status));
        assert_eq!(open.receive(), (1, ok(status)));
    }
    open.assert_closed();
    rig.join();
    rig.wait_for(r#"spillway_relay_connections{source="main"} 0"#);
}

#[test]
fn stopping_cuts_what_does_not_finish() {
    let (upstream, address) = listener();
    let mut rig = Rig::new(&address, |options| options.drain_timeout = Duration::from_millis(50));
    let (mut busy, mut server) = rig.session(&upstream);
    busy.query();
    server.receive();
    rig.stop();
    let (sequence, error) = busy.receive_error();
    assert_eq!((sequence, error.code, error.sql_state), (1, 1053, Some(*b"08S01")));
    drop(busy);
    server.assert_closed();
    rig.join();
}

#[test]
fn stopping_tells_a_client_within_its_login() {
    let (upstream, address) = listener();
    let mut rig = Rig::new(&address, |_| {});
    let mut client = rig.connect();
    let mut server = accept(&upstream);
    server.send(0, &greeting().encode());
    client.receive();
    client.send(1, &login(CAPABILITIES).encode());
    server.receive();
    rig.stop();
    let (sequence, error) = client.receive_error();
    assert_eq!((sequence, error.code), (2, 1053));
    drop(client);
    rig.join();
}

#[test]
fn address_in_use_is_an_error() {
    let (_taken, address) = listener();
    let registry = Registry::new();
    let metrics = RelayMetrics::register(&registry).unwrap();
    let upstream = Arc::new(Upstream::new("main", address.parse().unwrap()));
    let options = RelayOptions::new(address.parse().unwrap());
    let error = start(&options, &upstream, &metrics, CancellationToken::new()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
}
