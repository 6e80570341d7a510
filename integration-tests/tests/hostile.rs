//! Clients that break the protocol: their own connection ends, others and the log do not notice.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use spillway_integration_tests::client::{COM_BINLOG_DUMP, Client};
use spillway_integration_tests::replica::REPLICA_USER;
use spillway_integration_tests::servers::{APP_USER, Server};
use spillway_integration_tests::spillway::Spillway;
use spillway_integration_tests::stack::assert_log_equal;
use spillway_integration_tests::wait;

const TIMEOUT: Duration = Duration::from_secs(60);

/// Bytes a client may send in answer to the greeting, none of them a login.
fn attacks() -> Vec<Vec<u8>> {
    let garbage = |seed: u8| {
        (0..5000_u32).map(move |n| n.wrapping_mul(2_654_435_761).to_be_bytes()[0] ^ seed)
    };
    vec![
        garbage(1).collect(),
        garbage(99).collect(),
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
        // Announces 16 MiB, sends nothing of it.
        vec![0xff, 0xff, 0xff, 1],
        // An empty login.
        vec![0, 0, 0, 1],
        // A login of four bytes.
        vec![4, 0, 0, 1, 0xff, 0xff, 0xff, 0xff],
        // A wrong sequence number.
        [&[32, 0, 0, 77][..], &[0; 32]].concat(),
        // Asks for TLS, which is not offered.
        [&[32, 0, 0, 1, 0x00, 0x8a, 0x08, 0x00][..], &[0; 28]].concat(),
        // A user name without an end, and an authentication answer longer than the packet.
        [&[64, 0, 0, 1, 0x05, 0xa2, 0x08, 0x00][..], &[0xff; 60]].concat(),
    ]
}

fn attack(port: u16, bytes: &[u8]) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let mut greeting = [0; 4];
    let _ = stream.read_exact(&mut greeting);
    let _ = stream.write_all(bytes);
    let mut answer = [0; 512];
    while stream.read(&mut answer).is_ok_and(|count| count > 0) {}
}

fn recorded() -> (Server, Spillway) {
    let upstream = Server::upstream();
    upstream.run("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY)");
    let spillway = Spillway::started(&upstream);
    (upstream, spillway)
}

/// A connection opened before still works, new ones too, and recording goes on exactly.
fn assert_unharmed(upstream: &Server, spillway: &Spillway, open: &mut Client) {
    assert_eq!(open.query("SELECT 1").unwrap().scalar(), "1");
    let mut app = wait::until("the relay takes a new connection", || spillway.app().ok());
    app.query("INSERT INTO d.t SELECT COALESCE(MAX(id), 0) + 1 FROM d.t").unwrap();
    assert_log_equal(upstream, spillway);
}

#[test]
fn garbage_at_login_ends_only_its_own_connection() {
    let (upstream, spillway) = recorded();
    for port in [spillway.relay_port(), spillway.replica_port()] {
        let mut open = spillway.app().unwrap();
        for bytes in attacks() {
            attack(port, &bytes);
        }
        assert_unharmed(&upstream, &spillway, &mut open);
    }
}

#[test]
fn garbage_after_login_ends_only_its_own_connection() {
    let (upstream, spillway) = recorded();
    let logins = [(spillway.relay_port(), APP_USER), (spillway.replica_port(), REPLICA_USER)];
    for (port, (user, password)) in logins {
        let mut open = spillway.app().unwrap();
        for bytes in attacks() {
            let mut client = Client::connect(port, user, password).unwrap();
            client.set_read_timeout(Duration::from_millis(200));
            let _ = client.send_raw(&bytes);
            while client.receive().is_ok() {}
        }
        assert_unharmed(&upstream, &spillway, &mut open);
    }
}

#[test]
fn malformed_dump_commands_are_answered_with_an_error() {
    let (upstream, spillway) = recorded();
    let mut open = spillway.app().unwrap();
    for payload in [vec![], vec![0; 3], vec![0xff; 9], vec![0xff; 300]] {
        let mut client = spillway.replica_client().unwrap();
        client.command(COM_BINLOG_DUMP, &payload).unwrap();
        client.set_read_timeout(TIMEOUT);
        let refused = match client.receive() {
            Ok(packet) => packet.first() == Some(&0xff),
            Err(_) => true,
        };
        assert!(refused, "{} bytes were taken for a dump", payload.len());
    }
    // COM_BINLOG_DUMP_GTID of another flavour, with a huge count.
    let mut client = spillway.replica_client().unwrap();
    let huge = [&[0, 0][..], &[9; 4], &[0; 4], &[4, 0, 0, 0, 0, 0, 0, 0], &[0xff; 12]].concat();
    client.command(0x1e, &huge).unwrap();
    assert_ne!(client.receive().ok().and_then(|packet| packet.first().copied()), Some(0));
    assert_unharmed(&upstream, &spillway, &mut open);
}

#[test]
fn silent_clients_do_not_keep_others_out() {
    let (upstream, spillway) = recorded();
    let mut open = spillway.app().unwrap();
    let ports = [spillway.relay_port(), spillway.replica_port()];
    let silent: Vec<TcpStream> = ports
        .into_iter()
        .flat_map(|port| (0..40).map(move |_| TcpStream::connect(("127.0.0.1", port)).unwrap()))
        .collect();
    assert_unharmed(&upstream, &spillway, &mut open);
    drop(silent);
}
