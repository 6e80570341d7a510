//! Tests of the wire types: both ways, against mysql_common, and on any bytes.

use mysql_common::constants::CapabilityFlags;
use mysql_common::io::ParseBuf;
use mysql_common::packets::{HandshakePacket, HandshakeResponse as LibraryResponse};
use mysql_common::proto::{MyDeserialize, MySerialize};
use proptest::prelude::*;

use super::capability;
use super::cursor::{Cursor, put_lenenc};
use super::handshake::{
    AuthMoreData, AuthSwitchRequest, HandshakeResponse, ServerGreeting, SslRequest,
};
use super::packet::{Assembly, Header, MAX_PAYLOAD, put_packet, split_packet};
use super::reply::{EofPacket, ErrPacket, OkPacket, status};

fn greeting() -> ServerGreeting {
    ServerGreeting {
        version: "5.5.5-10.11.19-MariaDB-log".to_owned(),
        thread_id: 42,
        salt: (1..=20).collect(),
        capabilities: 0x1d_81ff_f7fe,
        charset: 8,
        status: 2,
        auth_plugin: "mysql_native_password".to_owned(),
    }
}

fn login() -> HandshakeResponse {
    HandshakeResponse {
        capabilities: 0x4_81bf_8a0c | capability::PROTOCOL_41,
        max_packet: 1 << 24,
        charset: 45,
        user: b"app".to_vec(),
        auth_response: vec![7; 20],
        database: b"shop".to_vec(),
        auth_plugin: "mysql_native_password".to_owned(),
        attributes: vec![("_pid".to_owned(), "1".to_owned()), ("_os".to_owned(), String::new())],
    }
}

#[test]
fn greeting_reads_back() {
    assert_eq!(ServerGreeting::parse(&greeting().encode()).unwrap(), greeting());
}

#[test]
fn library_agrees_on_greeting() {
    let payload = greeting().encode();
    let read = HandshakePacket::deserialize((), &mut ParseBuf(&payload)).unwrap();
    assert_eq!(read.server_version_ref(), greeting().version.as_bytes());
    assert_eq!(read.connection_id(), 42);
    assert_eq!(read.nonce(), greeting().salt);
    assert_eq!(read.capabilities().bits(), 0x81ff_f7fe);
}

#[test]
fn masking_touches_only_the_masked_bits() {
    let before = greeting().encode();
    let mut after = before.clone();
    let mask = capability::SSL | capability::COMPRESS | capability::MARIADB_PROGRESS;
    ServerGreeting::mask_capabilities(&mut after, mask).unwrap();
    let expected =
        ServerGreeting { capabilities: greeting().capabilities & !mask, ..greeting() }.encode();
    assert_eq!(after, expected);
    assert_ne!(after, before);
}

#[test]
fn masking_leaves_the_reserved_bytes_of_mysql_alone() {
    let mysql = ServerGreeting { capabilities: 0xdfff_ffff, ..greeting() };
    let mut payload = mysql.encode();
    ServerGreeting::mask_capabilities(&mut payload, u64::MAX << 32).unwrap();
    assert_eq!(payload, mysql.encode());
}

#[test]
fn login_reads_back() {
    assert_eq!(HandshakeResponse::parse(&login().encode()).unwrap(), login());
}

#[test]
fn library_agrees_on_login() {
    let payload = login().encode();
    let read = LibraryResponse::deserialize((), &mut ParseBuf(&payload)).unwrap();
    assert_eq!(read.user(), b"app");
    assert_eq!(read.db_name(), Some(&b"shop"[..]));
    assert_eq!(read.scramble_buf(), &[7; 20]);
    assert_eq!(read.connect_attributes().unwrap().len(), 2);
    assert!(read.capabilities().contains(CapabilityFlags::CLIENT_DEPRECATE_EOF));
    let mut out = Vec::new();
    read.serialize(&mut out);
    assert_eq!(HandshakeResponse::parse(&out).unwrap().user, login().user);
}

#[test]
fn request_for_tls_is_told_from_a_login() {
    let request = SslRequest {
        capabilities: capability::PROTOCOL_41 | capability::SSL,
        max_packet: 1,
        charset: 8,
    };
    assert!(SslRequest::matches(&request.encode()));
    assert!(!SslRequest::matches(&login().encode()));
    assert_eq!(SslRequest::parse(&request.encode()).unwrap(), request);
}

#[test]
fn errors_name_what_was_cut() {
    let payload = login().encode();
    let error = HandshakeResponse::parse(&payload[..34]).unwrap_err();
    assert_eq!(error.to_string(), "login packet: ends before its user");
    let old = HandshakeResponse::parse(&[5, 0, 0, 0, 1, 2, 3]).unwrap_err();
    assert!(old.to_string().contains("older than protocol 4.1"), "{old}");
}

#[test]
fn authentication_packets_read_back() {
    for salt in [vec![9; 20], vec![9; 32], vec![0; 20], vec![0; 32], Vec::new()] {
        let switch = AuthSwitchRequest { auth_plugin: "client_ed25519".to_owned(), data: salt };
        assert_eq!(AuthSwitchRequest::parse(&switch.encode()).unwrap(), switch);
    }
    // Observed from MariaDB: 20 bytes and a zero, or 32 and none.
    let native = AuthSwitchRequest::parse(&[b"\xfenative\0", &[5; 20][..], &[0]].concat());
    assert_eq!(native.unwrap().data, [5; 20]);
    let ed25519 = AuthSwitchRequest::parse(&[b"\xfeed\0", &[5; 31][..], &[0]].concat());
    assert_eq!(ed25519.unwrap().data.len(), 32);
    let more = AuthMoreData(&[4]);
    assert_eq!(AuthMoreData::parse(&more.encode()).unwrap(), more);
}

#[test]
fn replies_read_back() {
    let error = ErrPacket::new(1040, b"08004", "Too many connections");
    assert_eq!(ErrPacket::parse(&error.encode()).unwrap(), error);
    let bare = ErrPacket { sql_state: None, ..error };
    assert_eq!(ErrPacket::parse(&bare.encode()).unwrap(), bare);
    let eof = EofPacket { warnings: 3, status: status::AUTOCOMMIT };
    assert_eq!(EofPacket::parse(&eof.encode()).unwrap(), eof);
}

#[test]
fn ok_with_session_state_as_mariadb_sends_it() {
    let bytes = b"\x00\x01\x01\x02\x40\x00\x00\x00\x13\x00\x11\x09last_gtid\x060-1-16";
    let ok = OkPacket::parse(bytes, capability::SESSION_TRACK).unwrap();
    assert_eq!(ok.session_state, b"\x00\x11\x09last_gtid\x060-1-16");
    assert_eq!((ok.affected_rows, ok.last_insert_id, ok.status), (1, 1, 0x4002));
    // Written with the empty info and its length, as read.
    assert_eq!(ok.encode(capability::SESSION_TRACK), bytes);
}

#[test]
fn payload_of_exactly_the_maximum_gets_an_empty_packet_after_it() {
    let payload = vec![1; MAX_PAYLOAD];
    let mut out = Vec::new();
    assert_eq!(put_packet(&mut out, 255, &payload), 1);
    let (first, piece, rest) = split_packet(&out).unwrap();
    assert!(first.continues());
    let mut assembly = Assembly::new(MAX_PAYLOAD);
    assert_eq!(assembly.push(first, piece), Ok(None));
    let (second, piece, rest) = split_packet(rest).unwrap();
    assert_eq!((second, rest.len()), (Header { length: 0, sequence: 0 }, 0));
    assert_eq!(assembly.push(second, piece), Ok(Some(payload)));
}

#[test]
fn assembly_refuses_what_is_over_its_limit() {
    let mut assembly = Assembly::new(3);
    assert!(assembly.push(Header { length: 4, sequence: 0 }, b"abcd").is_err());
}

proptest! {
    #[test]
    fn no_bytes_make_a_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), caps: u64) {
        let mut ten = bytes.clone();
        ten.insert(0, 10);
        let mut v41 = bytes.clone();
        v41.splice(0..0, [0, 0x8a, 0x3f, 0]);
        for payload in [bytes, ten, v41] {
            let _ = ServerGreeting::parse(&payload);
            let _ = ServerGreeting::mask_capabilities(&mut payload.clone(), caps);
            let _ = HandshakeResponse::parse(&payload);
            let _ = SslRequest::parse(&payload);
            let _ = AuthSwitchRequest::parse(&payload);
            let _ = AuthMoreData::parse(&payload);
            let _ = ErrPacket::parse(&payload);
            let _ = OkPacket::parse(&payload, caps);
            let _ = EofPacket::parse(&payload);
            let _ = split_packet(&payload);
        }
    }

    #[test]
    fn lenenc_reads_back(value: u64) {
        let mut out = Vec::new();
        put_lenenc(&mut out, value);
        let mut cursor = Cursor::new("test", &out);
        prop_assert_eq!(cursor.lenenc("value"), Ok(value));
        prop_assert!(cursor.is_empty());
    }

    #[test]
    fn greeting_and_masking_agree(caps: u64, mask: u64, version in "[a-z0-9.-]{0,30}") {
        let caps = if caps & 1 == 0 { caps } else { caps & 0xffff_ffff };
        let offered = caps | capability::PLUGIN_AUTH | capability::SECURE_CONNECTION;
        // Bit 0 decides where the upper half is: it is never masked.
        let mask = mask & !1 & !(capability::PLUGIN_AUTH | capability::SECURE_CONNECTION);
        let full = ServerGreeting { capabilities: offered, version, ..greeting() };
        let mut payload = full.encode();
        prop_assert_eq!(&ServerGreeting::parse(&payload).unwrap(), &full);
        ServerGreeting::mask_capabilities(&mut payload, mask).unwrap();
        prop_assert_eq!(ServerGreeting::parse(&payload).unwrap().capabilities, offered & !mask);
    }
}
