//! What applications do through the relay, and what they are told when it cannot be done.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder};
use spillway_integration_tests::client::{
    COM_PING, COM_QUERY, COM_RESET_CONNECTION, COM_STMT_EXECUTE, COM_STMT_FETCH, COM_STMT_PREPARE,
    Client, Error, Login,
};
use spillway_integration_tests::run_dir::temp_dir;
use spillway_integration_tests::servers::{APP_USER, Server};
use spillway_integration_tests::spillway::Spillway;
use spillway_integration_tests::{tool, wait};

const CLIENT_COMPRESS: u32 = 1 << 5;
const CLIENT_SSL: u32 = 1 << 11;

fn relayed() -> (Server, Spillway) {
    relayed_with(&[])
}

fn relayed_with(options: &[&str]) -> (Server, Spillway) {
    let upstream = Server::upstream_with(options);
    let spillway = Spillway::started(&upstream);
    (upstream, spillway)
}

pub fn server_error<T>(result: Result<T, Error>) -> (u16, String, String) {
    match result {
        Err(Error::Server { code, sqlstate, message }) => (code, sqlstate, message),
        Err(other) => panic!("wanted an error of the server, got: {other}"),
        Ok(_) => panic!("wanted an error of the server, it went well"),
    }
}

fn mariadb(port: u16, arguments: &[&str]) -> tool::Output {
    let port = format!("--port={port}");
    let user = format!("--user={}", APP_USER.0);
    let password = format!("--password={}", APP_USER.1);
    let fixed = ["--no-defaults", "--host=127.0.0.1", &port, &user, &password, "--batch"];
    tool::run("mariadb", &[&fixed, arguments].concat())
}

#[test]
fn the_greeting_is_the_upstreams_without_tls_and_compression() {
    let (upstream, spillway) = relayed();
    let direct = upstream.root().greeting.clone();
    let relayed = spillway.app().unwrap().greeting.clone();
    assert_eq!(relayed.version, direct.version);
    assert_eq!(relayed.plugin, direct.plugin);
    let masked = CLIENT_SSL | CLIENT_COMPRESS;
    assert_eq!(relayed.capabilities, direct.capabilities & !masked);
}

#[test]
fn the_command_line_client_works_through_it() {
    let (_upstream, spillway) = relayed();
    let output = mariadb(spillway.relay_port(), &["-e", "SELECT CURRENT_USER(), 6 * 7"]);
    assert!(output.expect_code(0).stdout.contains("app@%\t42"));
}

#[test]
fn a_wrong_password_gives_the_upstreams_own_error() {
    let (upstream, spillway) = relayed();
    let direct = server_error(Client::connect(upstream.port(), APP_USER.0, "wrong"));
    let relayed = server_error(Client::connect(spillway.relay_port(), APP_USER.0, "wrong"));
    assert_eq!(relayed, direct);
    assert_eq!(relayed.0, 1045);
}

#[test]
fn a_password_of_the_old_protocol_is_relayed() {
    let (upstream, spillway) = relayed_with(&["--secure-auth=0"]);
    upstream.run(
        "SET old_passwords = 1; CREATE USER old@'%' IDENTIFIED VIA mysql_old_password USING '';
         SET PASSWORD FOR old@'%' = OLD_PASSWORD('old-secret')",
    );
    assert_eq!(current_user(spillway.relay_port(), "old", "old-secret"), "old@%");
}

#[test]
fn ed25519_is_relayed_where_the_server_has_it() {
    let Some(upstream) = Server::upstream_with_ed25519() else { return };
    upstream.run("CREATE USER ed@'%' IDENTIFIED VIA ed25519 USING PASSWORD('ed-secret')");
    let spillway = Spillway::started(&upstream);
    assert_eq!(current_user(spillway.relay_port(), "ed", "ed-secret"), "ed@%");
}

pub fn current_user(port: u16, user: &str, password: &str) -> String {
    let options = OptsBuilder::default()
        .ip_or_hostname("127.0.0.1")
        .tcp_port(port)
        .prefer_socket(false)
        .secure_auth(false)
        .user(Some(user))
        .pass(Some(password));
    block_on(async {
        let mut conn = Conn::new(options).await.unwrap();
        let user: Option<String> = conn.query_first("SELECT CURRENT_USER()").await.unwrap();
        conn.disconnect().await.unwrap();
        user.unwrap()
    })
}

pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(future)
}

#[test]
fn a_client_of_protocol_41_without_plugin_names_logs_in() {
    const PLUGIN_AUTH: u32 = 1 << 19;
    let (_upstream, spillway) = relayed();
    let mut login = Login::new(APP_USER.0, APP_USER.1);
    login.capabilities &= !PLUGIN_AUTH;
    let mut client = Client::login(spillway.relay_port(), &login).unwrap();
    assert_eq!(client.query("SELECT 1").unwrap().scalar(), "1");
}

#[test]
fn a_default_database_in_the_login_is_used() {
    let (upstream, spillway) = relayed();
    upstream.run("CREATE DATABASE d");
    let login = Login { database: "d", ..Login::new(APP_USER.0, APP_USER.1) };
    let mut client = Client::login(spillway.relay_port(), &login).unwrap();
    assert_eq!(client.query("SELECT DATABASE()").unwrap().scalar(), "d");
}

#[test]
fn change_user_is_relayed_with_its_authentication() {
    let (upstream, spillway) = relayed();
    upstream.run("CREATE USER other@'%' IDENTIFIED BY 'other-secret'");
    let mut client = spillway.app().unwrap();
    client.query("SET @kept = 1").unwrap();
    client.change_user("other", "other-secret", "").unwrap();
    assert_eq!(client.query("SELECT CURRENT_USER()").unwrap().scalar(), "other@%");
    assert_eq!(client.query("SELECT @kept IS NULL").unwrap().scalar(), "1");
    let (code, ..) = server_error(client.change_user("other", "wrong", ""));
    assert_eq!(code, 1045);
    assert!(spillway.app().is_ok(), "other connections go on");
}

#[test]
fn reset_connection_clears_the_session() {
    let (_upstream, spillway) = relayed();
    let mut client = spillway.app().unwrap();
    client.query("SET @kept = 1").unwrap();
    client.command(COM_RESET_CONNECTION, &[]).unwrap();
    assert_eq!(client.receive().unwrap().first(), Some(&0));
    assert_eq!(client.query("SELECT @kept IS NULL").unwrap().scalar(), "1");
}

#[test]
fn multi_statements_give_all_their_results() {
    let (_upstream, spillway) = relayed();
    let mut client = spillway.app().unwrap();
    let replies = client.query_all("SELECT 1; SET @a = 2; SELECT @a; SELECT 3 WHERE 0").unwrap();
    let values: Vec<String> = replies.iter().map(|reply| reply.scalar()).collect();
    assert_eq!(values, ["1", "", "2", ""]);
    let (code, ..) = server_error(client.query_all("SELECT 1; SELECT nonsense; SELECT 2"));
    assert_eq!(code, 1054);
    assert_eq!(client.query("SELECT 5").unwrap().scalar(), "5");
}

#[test]
fn prepared_statements_bind_and_return_values() {
    let (_upstream, spillway) = relayed();
    let options = OptsBuilder::default()
        .ip_or_hostname("127.0.0.1")
        .tcp_port(spillway.relay_port())
        .prefer_socket(false)
        .user(Some(APP_USER.0))
        .pass(Some(APP_USER.1));
    block_on(async {
        let mut conn = Conn::new(options).await.unwrap();
        for n in 0..50_u64 {
            let row: Option<(u64, String)> =
                conn.exec_first("SELECT ? + 1, CONCAT(?, '!')", (n, "text")).await.unwrap();
            assert_eq!(row, Some((n + 1, "text!".to_owned())));
        }
        let long = vec![b'l'; 3 << 20];
        let length: Option<u64> = conn.exec_first("SELECT LENGTH(?)", (long,)).await.unwrap();
        assert_eq!(length, Some(3 << 20));
        conn.disconnect().await.unwrap();
    });
}

#[test]
fn a_cursor_is_fetched_in_portions() {
    let (_upstream, spillway) = relayed();
    let mut client = spillway.app().unwrap();
    client.query("USE mysql").unwrap();
    client.command(COM_STMT_PREPARE, b"SELECT seq FROM seq_1_to_25").unwrap();
    let prepared = client.receive().unwrap();
    assert_eq!(prepared.first(), Some(&0));
    let statement = prepared[1..5].to_vec();
    // One column definition and its EOF.
    client.receive().unwrap();
    client.receive().unwrap();
    let execute = [&statement[..], &[1, 1, 0, 0, 0]].concat();
    client.command(COM_STMT_EXECUTE, &execute).unwrap();
    // Column count, definition, EOF with "cursor exists".
    for _ in 0..2 {
        client.receive().unwrap();
    }
    assert_eq!(client.receive().unwrap()[3] & 0x40, 0x40, "no cursor");
    let mut rows = 0;
    loop {
        client.command(COM_STMT_FETCH, &[&statement[..], &10_u32.to_le_bytes()].concat()).unwrap();
        let status = loop {
            let packet = client.receive().unwrap();
            if packet[0] == 0xfe {
                break packet[3];
            }
            rows += 1;
        };
        if status & 0x80 != 0 {
            break;
        }
    }
    assert_eq!(rows, 25);
    assert_eq!(client.query("SELECT 1").unwrap().scalar(), "1");
}

#[test]
fn load_data_local_infile_is_relayed() {
    let (upstream, spillway) = relayed();
    upstream.run("CREATE DATABASE d; CREATE TABLE d.t (n INT, t VARCHAR(30))");
    let dir = temp_dir("infile");
    let file = dir.path().join("rows");
    let lines: String = (0..100_000).map(|n| format!("{n}\ttext of row {n}\n")).collect();
    std::fs::write(&file, lines).unwrap();
    let load = format!(
        "LOAD DATA LOCAL INFILE '{}' INTO TABLE d.t; SELECT COUNT(*) FROM d.t",
        file.display()
    );
    let output = mariadb(spillway.relay_port(), &["--local-infile", "-e", &load]).expect_code(0);
    assert!(output.stdout.contains("100000"), "{output:?}");
    let missing = "LOAD DATA LOCAL INFILE '/does/not/exist' INTO TABLE d.t";
    let output = mariadb(spillway.relay_port(), &["--local-infile", "-e", missing]);
    assert!(output.stderr.contains("does/not/exist"), "{output:?}");
}

#[test]
fn messages_over_one_packet_pass_both_ways() {
    let (_upstream, spillway) = relayed();
    let mut client = spillway.app().unwrap();
    // 0xFFFFFF − 16 makes a message of exactly one full packet, which an empty packet has to follow.
    for length in [20 << 20, 0xff_ffff - 16, (0xff_ffff - 16) * 2 + 15] {
        let sql = format!("SELECT LENGTH('{}')", "x".repeat(length));
        assert_eq!(client.query(&sql).unwrap().scalar(), length.to_string());
    }
    for length in [20 << 20, 0xff_ffff - 4, 0xff_ffff - 5] {
        let reply = client.query(&format!("SELECT REPEAT('y', {length})")).unwrap();
        assert_eq!(reply.scalar().len(), length);
    }
    assert_eq!(client.query("SELECT 1").unwrap().scalar(), "1");
}

#[test]
fn kill_reaches_the_connection_it_names() {
    let (_upstream, spillway) = relayed();
    let mut victim = spillway.app().unwrap();
    let mut killer = spillway.app().unwrap();
    let id = victim.greeting.connection_id;
    victim.command(COM_QUERY, b"SELECT SLEEP(100)").unwrap();
    let sleeping = format!(
        "SELECT COUNT(*) FROM information_schema.processlist WHERE id = {id} AND state = 'User sleep'"
    );
    wait::until("the victim sleeps", || {
        (killer.query(&sleeping).unwrap().scalar() == "1").then_some(())
    });
    killer.query(&format!("KILL QUERY {id}")).unwrap();
    assert_eq!(server_error(victim.read_replies()).0, 1317, "SLEEP was interrupted");
    assert_eq!(victim.query("SELECT 1").unwrap().scalar(), "1");
    killer.query(&format!("KILL {id}")).unwrap();
    wait::until("the victim's connection ends", || victim.query("SELECT 1").err());
}

#[test]
fn commands_sent_back_to_back_are_answered_in_order() {
    let (_upstream, spillway) = relayed();
    let mut client = spillway.app().unwrap();
    let mut bytes = Vec::new();
    for n in 0..200_u32 {
        let text = format!("SELECT {n}");
        let length = u32::try_from(text.len()).unwrap() + 1;
        bytes.extend_from_slice(&length.to_le_bytes()[..3]);
        bytes.extend_from_slice(&[0, COM_QUERY]);
        bytes.extend_from_slice(text.as_bytes());
    }
    client.send_raw(&bytes).unwrap();
    for n in 0..200_u32 {
        assert_eq!(client.read_replies().unwrap()[0].scalar(), n.to_string());
    }
}

#[test]
fn an_upstream_that_is_down_gives_an_error_of_class_08() {
    let (mut upstream, spillway) = relayed();
    let mut open = spillway.app().unwrap();
    upstream.stop();
    assert!(open.query("SELECT 1").is_err());
    let (code, sqlstate, message) = server_error(spillway.app());
    assert!(sqlstate.starts_with("08"), "{code} {sqlstate} {message}");
    assert!(message.contains(&upstream.port().to_string()), "names the upstream: {message}");
    upstream.start();
    wait::until("the relay works again", || spillway.app().ok());
}

#[test]
fn connections_beyond_max_connections_are_refused_and_a_free_place_is_reused() {
    let upstream = Server::upstream();
    let mut spillway = Spillway::prepared(&upstream).with("[[source]]", "max_connections", "2");
    spillway.start();
    let first = spillway.app().unwrap();
    let _second = spillway.app().unwrap();
    let (code, sqlstate, _) = server_error(spillway.app());
    assert_eq!((code, sqlstate.as_str()), (1040, "08004"));
    drop(first);
    wait::until("a place is free", || spillway.app().ok());
}

#[test]
fn an_idle_connection_survives_and_quit_reaches_the_upstream() {
    let (upstream, spillway) = relayed();
    let mut client = spillway.app().unwrap();
    client.set_read_timeout(Duration::from_secs(5));
    client.command(COM_PING, &[]).unwrap();
    assert_eq!(client.receive().unwrap().first(), Some(&0));
    let count = "SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'app'";
    assert_eq!(upstream.query(count).scalar(), "1");
    drop(client);
    wait::until("the upstream's connection is closed", || {
        (upstream.query(count).scalar() == "0").then_some(())
    });
}

#[test]
fn with_capture_off_it_relays_and_records_nothing() {
    let upstream = Server::upstream_with(&["--skip-log-bin"]);
    let mut spillway = Spillway::prepared(&upstream).with("[[source]]", "capture", "false");
    spillway.start();
    assert_eq!(spillway.app().unwrap().query("SELECT 1").unwrap().scalar(), "1");
}
