//! TLS between relay and upstream, which the client knows nothing of.

use rustls::{ServerConnection, StreamOwned};

use super::*;
use crate::tls::SslMode;
use crate::tls::testing::{Authority, Issued, server_config};

type Encrypted = Peer<StreamOwned<ServerConnection, TcpStream>>;

fn required() -> TlsOptions {
    TlsOptions { mode: SslMode::Required, ..TlsOptions::default() }
}

/// The upstream's side of TLS, from its beginning on.
fn encrypt(server: Peer, issued: &Issued) -> Encrypted {
    let connection = ServerConnection::new(server_config(issued, None)).unwrap();
    Peer(StreamOwned::new(connection, server.0))
}

/// A client in its login and its upstream, both behind the login packet.
fn in_login(rig: &Rig, upstream: &TcpListener, issued: &Issued) -> (Peer, Encrypted) {
    let mut client = rig.connect();
    let mut server = accept(upstream);
    server.send(0, &greeting().encode());
    let (sequence, shown) = client.receive();
    let shown = ServerGreeting::parse(&shown).unwrap();
    assert_eq!((sequence, shown.capabilities & cap::SSL), (0, 0));
    let sent = login(CAPABILITIES);
    client.send(1, &sent.encode());
    let (sequence, request) = server.receive();
    let request = SslRequest::parse(&request).unwrap();
    assert_eq!((sequence, request.capabilities), (1, CAPABILITIES | cap::SSL));
    let mut server = encrypt(server, issued);
    let encrypted = HandshakeResponse { capabilities: CAPABILITIES | cap::SSL, ..sent };
    assert_eq!(server.receive(), (2, encrypted.encode()));
    (client, server)
}

#[test]
fn each_side_sees_its_own_packet_numbers_until_the_login_ends() {
    let ca = Authority::new("ca");
    let issued = ca.issue(&["127.0.0.1"]);
    let (upstream, address) = listener();
    let rig = Rig::with_tls(&address, required(), |_| {});
    let (mut client, mut server) = in_login(&rig, &upstream, &issued);
    server.send(3, b"\xfeno_such_plugin\0data");
    assert_eq!(client.receive(), (2, b"\xfeno_such_plugin\0data".to_vec()));
    for step in 0..200_u8 {
        let sequence = 3_u8.wrapping_add(step.wrapping_mul(2));
        client.send(sequence, &[step]);
        assert_eq!(server.receive(), (sequence.wrapping_add(1), vec![step]));
        server.send(sequence.wrapping_add(2), &[1, step]);
        assert_eq!(client.receive(), (sequence.wrapping_add(1), vec![1, step]));
    }
    let last = 3_u8.wrapping_add(200_u8.wrapping_mul(2));
    client.send(last, b"");
    assert_eq!(server.receive(), (last.wrapping_add(1), vec![]));
    server.send(last.wrapping_add(2), &ok(status::AUTOCOMMIT));
    assert_eq!(client.receive(), (last.wrapping_add(1), ok(status::AUTOCOMMIT)));
    client.query();
    assert_eq!(server.receive(), (0, b"\x03select 1".to_vec()));
    server.send(1, &ok(status::AUTOCOMMIT));
    assert_eq!(client.receive(), (1, ok(status::AUTOCOMMIT)));
}

#[test]
fn much_passes_both_ways_while_nobody_hurries() {
    const LENGTH: usize = 12 << 20;
    let ca = Authority::new("ca");
    let issued = ca.issue(&["127.0.0.1"]);
    let (upstream, address) = listener();
    let rig = Rig::with_tls(&address, required(), |_| {});
    let (mut client, mut server) = in_login(&rig, &upstream, &issued);
    server.send(3, &ok(status::AUTOCOMMIT));
    client.receive();
    let query = [&[Command::QUERY.0][..], &vec![b'x'; LENGTH]].concat();
    let sent = query.clone();
    let client = thread::spawn(move || {
        client.send(0, &sent);
        client.receive();
        client
    });
    assert!(server.receive().1 == query);
    server.send(1, &ok(status::AUTOCOMMIT));
    let mut client = client.join().unwrap();
    client.query();
    server.receive();
    let reply = OkPacket { status: status::AUTOCOMMIT, ..OkPacket::default() };
    let reply = [reply.encode(0), vec![b'y'; LENGTH]].concat();
    let sent = reply.clone();
    let server = thread::spawn(move || {
        server.send(1, &sent);
        server
    });
    assert!(client.receive().1 == reply);
    drop(server.join().unwrap());
    client.assert_closed();
}

#[test]
fn a_password_that_cannot_pass_is_told() {
    let ca = Authority::new("ca");
    let issued = ca.issue(&["127.0.0.1"]);
    let (upstream, address) = listener();
    let rig = Rig::with_tls(&address, required(), |_| {});
    let (mut client, mut server) = in_login(&rig, &upstream, &issued);
    server.send(3, b"\xfecaching_sha2_password\0abcdefghijklmnopqrst\0");
    client.receive();
    client.send(3, &[7; 32]);
    server.receive();
    server.send(5, b"\x01\x04");
    let (sequence, error) = client.receive_error();
    assert_eq!((sequence, error.sql_state), (4, Some(*b"08S01")));
    assert!(error.message.contains("user or password is wrong, or the source does"), "{error}");
    client.assert_closed();
}

#[test]
fn a_password_that_cannot_pass_is_told_to_who_changes_the_user_too() {
    let ca = Authority::new("ca");
    let issued = ca.issue(&["127.0.0.1"]);
    let (upstream, address) = listener();
    let rig = Rig::with_tls(&address, required(), |_| {});
    let (mut client, mut server) = in_login(&rig, &upstream, &issued);
    server.send(3, &ok(status::AUTOCOMMIT));
    client.receive();
    client.send(0, b"\x11other\0\0\0");
    server.receive();
    server.send(1, b"\xfecaching_sha2_password\0abcdefghijklmnopqrst\0");
    client.receive();
    client.send(2, &[7; 32]);
    server.receive();
    server.send(3, b"\x01\x04");
    let (sequence, error) = client.receive_error();
    assert_eq!((sequence, error.sql_state), (3, Some(*b"08S01")));
    assert!(error.message.contains("asks for the password itself"), "{error}");
    client.assert_closed();
}

#[test]
fn an_upstream_without_tls_is_refused_by_name() {
    let (upstream, address) = listener();
    let rig = Rig::with_tls(&address, required(), |_| {});
    let server = thread::spawn(move || {
        let mut server = accept(&upstream);
        let plain = ServerGreeting { capabilities: CAPABILITIES, ..greeting() };
        server.send(0, &plain.encode());
        server
    });
    let error = refusal_of(&rig);
    assert_eq!(error.sql_state, Some(*b"08S01"));
    assert!(error.message.contains("offers no TLS and ssl_mode is REQUIRED"), "{error}");
    drop(server.join().unwrap());
}

#[test]
fn a_certificate_that_is_not_believed_is_told_in_reply_to_the_login() {
    let (ca, stranger) = (Authority::new("ca"), Authority::new("stranger"));
    let issued = stranger.issue(&["127.0.0.1"]);
    let tls = TlsOptions { mode: SslMode::VerifyCa, ca: Some(ca.path()), client: None };
    let (upstream, address) = listener();
    let rig = Rig::with_tls(&address, tls, |_| {});
    let server = thread::spawn(move || {
        let mut server = accept(&upstream);
        server.send(0, &greeting().encode());
        server.receive();
        let mut server = encrypt(server, &issued);
        let mut byte = [0];
        server.0.read(&mut byte).unwrap_err();
    });
    let error = refusal_of(&rig);
    assert!(error.message.contains("issued by CN=stranger, which is not in ssl_ca"), "{error}");
    server.join().unwrap();
}

#[test]
fn preferred_leaves_the_relay_plain() {
    let (upstream, address) = listener();
    let rig = Rig::new(&address, |_| {});
    assert_eq!(rig.upstream.tls().mode, SslMode::Preferred);
    rig.session(&upstream);
}
