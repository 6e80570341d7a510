//! The replica port: accounts, what it answers, how it streams, and what it refuses.

use std::time::Duration;

use spillway_integration_tests::client::{Client, Error};
use spillway_integration_tests::dump::{
    ANNOTATE, ARTIFICIAL, Dump, FORMAT_DESCRIPTION, GTID, GTID_LIST, HEARTBEAT, ROTATE, Request,
};
use spillway_integration_tests::replica::{self, REPLICA_USER};
use spillway_integration_tests::servers::{APP_USER, Server};
use spillway_integration_tests::spillway::Spillway;
use spillway_integration_tests::wait;

const AHEAD: &str = "Error: connecting slave requested to start from GTID 0-1-999, \
                     which is not in the master's binlog";
const PURGED: &str = "Could not find GTID state requested by slave in any binlog files. Probably \
                      the slave state is too old and required binlog files have been purged.";

fn recorded() -> (Server, Spillway) {
    let upstream = Server::upstream();
    upstream.run("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, t LONGTEXT)");
    upstream.run("INSERT INTO d.t VALUES (1, 'one')");
    let spillway = Spillway::started(&upstream);
    spillway.wait_recorded(&upstream.gtid_binlog_pos());
    (upstream, spillway)
}

fn code<T>(result: Result<T, Error>) -> (u16, String) {
    match result {
        Err(Error::Server { code, message, .. }) => (code, message),
        Err(other) => panic!("wanted an ERR packet, got: {other}"),
        Ok(_) => panic!("wanted an ERR packet, it went well"),
    }
}

fn dump(spillway: &Spillway, request: &Request) -> Dump {
    Dump::start(spillway.replica_port(), REPLICA_USER, request).unwrap()
}

fn dump_error(spillway: &Spillway, request: &Request) -> (u16, String) {
    let mut dump = dump(spillway, request);
    loop {
        match dump.next_event() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the dump ended without an error"),
            Err(error) => return code::<()>(Err(error)),
        }
    }
}

#[test]
fn wrong_passwords_and_unknown_users_get_the_same_error() {
    let (_upstream, spillway) = recorded();
    let port = spillway.replica_port();
    let (wrong, _) = code(Client::connect(port, REPLICA_USER.0, "wrong"));
    let (unknown, _) = code(Client::connect(port, "nobody", "wrong"));
    let (empty, _) = code(Client::connect(port, REPLICA_USER.0, ""));
    assert_eq!([wrong, unknown, empty], [1045, 1045, 1045]);
}

#[test]
fn a_host_that_is_not_listed_is_refused() {
    let upstream = Server::upstream();
    let mut spillway =
        Spillway::prepared(&upstream).with("[[replicas.user]]", "hosts", "[\"10.9.8.0/24\"]");
    spillway.start();
    let (number, message) = code(spillway.replica_client());
    assert!([1045, 1130].contains(&number), "{number}: {message}");
}

#[test]
fn an_account_without_replication_slave_gets_no_dump() {
    let upstream = Server::upstream();
    let mut spillway = Spillway::prepared(&upstream).with(
        "[[replicas.user]]",
        "privileges",
        "[\"BINLOG MONITOR\"]",
    );
    spillway.start();
    let (number, message) = dump_error(&spillway, &Request::everything());
    assert_eq!(number, 1227, "{message}");
    assert!(message.contains("REPLICATION SLAVE"), "{message}");
}

#[test]
fn a_position_ahead_of_the_log_gets_the_servers_own_sentence() {
    let (_upstream, spillway) = recorded();
    let refused = dump_error(&spillway, &Request::from_gtid("0-1-999"));
    assert_eq!(refused, (1236, AHEAD.to_owned()));
    let server = Server::replica();
    replica::attach_at(&server, spillway.replica_port(), REPLICA_USER, "0-1-999");
    replica::wait_io_error(&server, AHEAD);
}

#[test]
fn a_replica_older_than_the_log_gets_the_servers_own_sentence() {
    let upstream = Server::upstream();
    upstream.run("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY)");
    let mut spillway = Spillway::prepared(&upstream).with("[[source]]", "start", "\"current\"");
    spillway.start();
    upstream.run("INSERT INTO d.t VALUES (1)");
    spillway.wait_recorded(&upstream.gtid_binlog_pos());
    for gtid in ["", "0-1-1"] {
        let refused = dump_error(&spillway, &Request::from_gtid(gtid));
        assert_eq!(refused, (1236, PURGED.to_owned()), "from `{gtid}`");
    }
    let server = Server::replica();
    replica::attach(&server, spillway.replica_port(), REPLICA_USER);
    replica::wait_io_error(&server, PURGED);

    server.run("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY)");
    replica::attach_at(&server, spillway.replica_port(), REPLICA_USER, "0-1-2");
    replica::wait_applied(&server, &upstream.gtid_binlog_pos());
}

#[test]
fn a_stream_by_gtid_opens_as_a_servers_does() {
    let (_upstream, spillway) = recorded();
    let mut dump = dump(&spillway, &Request::from_gtid("0-1-2"));
    let mut next = || dump.next_event().unwrap().expect("an event");
    let rotate = next();
    assert_eq!((rotate.kind, rotate.flags & ARTIFICIAL, rotate.timestamp), (ROTATE, ARTIFICIAL, 0));
    assert_eq!(&rotate.body[8..], b"binlog.000001");
    assert_eq!(rotate.server_id, 4307, "artificial events carry Spillway's own id");
    let format = next();
    assert_eq!(format.kind, FORMAT_DESCRIPTION);
    let created = u32::from_le_bytes(format.body[52..56].try_into().unwrap());
    assert_eq!(created, 0, "a replica in the middle must not drop its temporary tables");
    let mut lists = 0;
    loop {
        let event = next();
        match event.kind {
            GTID => {
                assert_eq!(event.gtid().unwrap(), "0-1-3", "what the replica has is skipped");
                break;
            }
            GTID_LIST => lists += 1,
            _ => {}
        }
    }
    assert!(lists > 0, "no Gtid_list tells where the stream is");
}

#[test]
fn checksums_are_negotiated_as_a_server_does() {
    let (_upstream, spillway) = recorded();
    for (checksum, rotate_has_it) in [("'CRC32'", true), ("'NONE'", false)] {
        let request = Request { checksum, ..Request::everything() };
        let events: Vec<_> = dump(&spillway, &request).map(|event| event.unwrap()).collect();
        assert_eq!(events[0].kind, ROTATE);
        assert_eq!(events[0].checksummed, rotate_has_it, "{checksum}");
        // The file's own events keep theirs whatever was asked for, as with a real server.
        let gtids: Vec<_> = events.iter().filter(|event| event.kind == GTID).collect();
        assert!(gtids.len() == 3 && gtids.iter().all(|event| event.checksummed), "{checksum}");
    }
    let mut client = spillway.replica_client().unwrap();
    client.query("SET @master_binlog_checksum= @@global.binlog_checksum").unwrap();
    assert_eq!(client.query("SELECT @master_binlog_checksum").unwrap().scalar(), "CRC32");
}

#[test]
fn an_idle_stream_sends_heartbeats_and_then_the_next_transaction() {
    let (upstream, spillway) = recorded();
    let request = Request {
        flags: ANNOTATE,
        heartbeat: Some(Duration::from_millis(200)),
        ..Request::everything()
    };
    let mut dump = dump(&spillway, &request);
    let mut next = || dump.next_event().unwrap().expect("an event");
    let heartbeat = loop {
        let event = next();
        if event.kind == HEARTBEAT {
            break event;
        }
    };
    assert_eq!(heartbeat.body, b"binlog.000001");
    assert_eq!(heartbeat.timestamp, 0);
    upstream.run("INSERT INTO d.t VALUES (2, 'two')");
    while next().gtid().as_deref() != Some("0-1-4") {}
}

#[test]
fn a_reader_that_stops_reading_costs_bounded_memory_and_misses_nothing() {
    const MIB: u64 = 1 << 20;
    let (upstream, spillway) = recorded();
    let request = Request { flags: ANNOTATE, ..Request::everything() };
    let mut stopped = dump(&spillway, &request);
    let before = spillway.process().anonymous_bytes();
    for n in 0..60 {
        upstream.run(&format!("INSERT INTO d.t VALUES ({}, REPEAT('z', {}))", n + 100, 5 * MIB));
    }
    spillway.wait_recorded(&upstream.gtid_binlog_pos());
    let grown = spillway.process().anonymous_bytes().saturating_sub(before);
    assert!(grown < 120 * MIB, "memory grew by {} MiB for 300 MiB unread", grown / MIB);
    let wanted = upstream.gtid_binlog_pos();
    while stopped.next_event().unwrap().unwrap().gtid().as_deref() != Some(wanted.as_str()) {}
}

#[test]
fn it_answers_what_administrators_and_tools_ask() {
    let (upstream, spillway) = recorded();
    let mut client = spillway.replica_client().unwrap();
    let mut ask = |sql: &str| client.query(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));

    let position = upstream.gtid_binlog_pos();
    for sql in ["SELECT @@gtid_binlog_pos", "SELECT @@GLOBAL.gtid_binlog_pos"] {
        assert_eq!(ask(sql).scalar(), position, "{sql}");
    }
    assert_eq!(ask("SELECT @@GLOBAL.gtid_domain_id").scalar(), "0");
    assert_eq!(ask("SHOW VARIABLES LIKE 'SERVER_ID'").rows[0][1].as_deref(), Some("4307"));
    assert_ne!(ask("SELECT UNIX_TIMESTAMP()").scalar(), "");
    let version = upstream.query("SELECT VERSION()").scalar();
    assert_eq!(ask("SELECT VERSION()").scalar(), version);
    assert_eq!(ask("SELECT @@version").scalar(), version);

    let status = ask("SHOW MASTER STATUS");
    assert_eq!(status.columns, ["File", "Position", "Binlog_Do_DB", "Binlog_Ignore_DB"]);
    let last = spillway.binlog_files().pop().unwrap();
    let size = std::fs::metadata(&last).unwrap().len().to_string();
    assert_eq!(status.rows[0][0].as_deref(), last.file_name().unwrap().to_str());
    assert_eq!(status.rows[0][1].as_deref(), Some(size.as_str()));
    assert_eq!(ask("SHOW BINLOG STATUS").columns, status.columns);

    let logs = ask("SHOW BINARY LOGS");
    assert_eq!(logs.columns, ["Log_name", "File_size"]);
    assert_eq!(logs.rows.len(), spillway.binlog_files().len());
    assert_eq!(ask("SHOW MASTER LOGS"), logs);
    assert_eq!(ask("SHOW SLAVE HOSTS").columns, ["Server_id", "Host", "Port", "Master_id"]);
}

#[test]
fn the_version_in_the_greeting_is_the_upstreams_also_when_it_is_down() {
    let (mut upstream, mut spillway) = recorded();
    let version = upstream.root().greeting.version.clone();
    assert_eq!(spillway.replica_client().unwrap().greeting.version, version);
    upstream.stop();
    assert_eq!(spillway.stop().code(), Some(0));
    spillway.launch();
    let client = wait::until("the replica port answers", || spillway.replica_client().ok());
    assert_eq!(client.greeting.version, version);
}

#[test]
fn replicas_keep_being_served_while_the_upstream_is_down() {
    let (mut upstream, spillway) = recorded();
    let position = upstream.gtid_binlog_pos();
    upstream.kill();
    let server = Server::replica();
    replica::attach(&server, spillway.replica_port(), REPLICA_USER);
    replica::wait_applied(&server, &position);
}

#[test]
fn a_replica_moves_between_the_upstream_and_spillway_at_will() {
    let (upstream, spillway) = recorded();
    let server = Server::replica();
    let ports = [spillway.replica_port(), upstream.port()];
    for (round, port) in ports.into_iter().cycle().take(4).enumerate() {
        let login = if port == upstream.port() { APP_USER } else { REPLICA_USER };
        replica::stop(&server);
        server.run(&format!(
            "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {port},
               MASTER_USER = '{}', MASTER_PASSWORD = '{}', MASTER_CONNECT_RETRY = 1,
               MASTER_USE_GTID = slave_pos; START SLAVE",
            login.0, login.1
        ));
        upstream.run(&format!("INSERT INTO d.t VALUES ({}, 'moved')", 1000 + round));
        replica::wait_applied(&server, &upstream.gtid_binlog_pos());
    }
}
