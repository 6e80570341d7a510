//! The relay in front of a real MySQL 9.7: its own tools, MariaDB's, and a client library through it.

use mysql_async::prelude::Queryable;
use mysql_async::{ChangeUserOpts, Conn, OptsBuilder};
use spillway_integration_tests::client::{
    CAPABILITIES, COM_QUERY, COM_RESET_CONNECTION, COM_STMT_EXECUTE, COM_STMT_FETCH,
    COM_STMT_PREPARE, Client, Error, Login, MAX_PACKET, unexpected,
};
use spillway_integration_tests::mysql::MySql;
use spillway_integration_tests::run_dir::temp_dir;
use spillway_integration_tests::servers::{APP_USER, Server};
use spillway_integration_tests::spillway::Spillway;
use spillway_integration_tests::tool::{self, Output};
use spillway_integration_tests::wait;

use super::relay::{block_on, server_error};

const COM_STATISTICS: u8 = 9;
const PS_MULTI_RESULTS: u32 = 1 << 18;
const SESSION_TRACK: u32 = 1 << 23;
const DEPRECATE_EOF: u32 = 1 << 24;
const OPTIONAL_METADATA: u32 = 1 << 25;
const QUERY_ATTRIBUTES: u32 = 1 << 27;
const CLIENT_COMPRESS: u32 = 1 << 5;
const CLIENT_SSL: u32 = 1 << 11;
const ZSTD: u32 = 1 << 26;

fn relayed(mode: &str) -> Option<(MySql, Spillway)> {
    let server = MySql::start_new()?;
    let mut spillway = Spillway::prepared_for_port(server.port())
        .with("[[source]]", "capture", "false")
        .with("[[source]]", "ssl_mode", &format!("\"{mode}\""));
    spillway.start();
    Some((server, spillway))
}

/// One of MySQL's tools, at the relay.
fn run_tool(server: &MySql, relay: &Spillway, name: &str, args: &[&str]) -> Output {
    let port = format!("--port={}", relay.relay_port());
    let fixed = ["--no-defaults", "--host=127.0.0.1", &port, "--user=app", "--password=app-secret"];
    server.release().tool(name, &[&fixed, args].concat())
}

fn mysql(server: &MySql, relay: &Spillway, args: &[&str]) -> Output {
    run_tool(server, relay, "mysql", &[&["--batch", "--skip-column-names"], args].concat())
}

/// Without `--skip-ssl` it is refused by a server that offers no TLS and does not know the account yet (10.11; the same without a
/// relay).
fn mariadb(relay: &Spillway, args: &[&str]) -> Output {
    let port = format!("--port={}", relay.relay_port());
    let fixed =
        ["--no-defaults", "--host=127.0.0.1", &port, "--skip-ssl", "-uapp", "-papp-secret", "-BN"];
    tool::run("mariadb", &[&fixed, args].concat())
}

/// Every reply was understood up to its end.
fn assert_all_followed(relay: &Spillway) {
    assert_eq!(relay.metric("spillway_relay_unfollowed_connections_total"), Some(0.0));
}

#[test]
fn a_plain_relay_passes_full_authentication_and_refuses_what_it_does_not_offer() {
    let Some((server, relay)) = relayed("PREFERRED") else { return };
    let direct = Client::greeted(server.port()).unwrap().greeting;
    let greeting = Client::greeted(relay.relay_port()).unwrap().greeting;
    let masked = CLIENT_SSL | CLIENT_COMPRESS | ZSTD;
    assert_eq!(direct.capabilities & masked, masked);
    assert_eq!(greeting.capabilities, direct.capabilities & !masked);
    assert_eq!((greeting.version, greeting.plugin), (direct.version, direct.plugin));
    let forget = || server.run("ALTER USER app@'%' IDENTIFIED BY 'app-secret'");
    let who = ["-e", "SELECT CURRENT_USER(), 6 * 7"];
    let key = format!("--server-public-key-path={}/public_key.pem", server.data_dir().display());
    for option in ["--get-server-public-key", &key] {
        forget();
        // Without a way to seal it, the client keeps its password to itself.
        let refused = mysql(&server, &relay, &who).expect_code(1).stderr;
        assert!(refused.contains("Authentication requires secure connection"), "{refused}");
        let said = mysql(&server, &relay, &[&[option], &who[..]].concat()).expect_code(0);
        assert_eq!(said.stdout, "app@%\t42\n");
        assert_eq!(mysql(&server, &relay, &who).expect_code(0).stdout, "app@%\t42\n");
    }
    forget();
    for _ in 0..2 {
        assert_eq!(mariadb(&relay, &who).expect_code(0).stdout, "app@%\t42\n");
    }
    let wrong = mysql(&server, &relay, &["--password=no", "--get-server-public-key"]);
    assert!(wrong.stderr.contains("1045 (28000): Access denied for user 'app'"), "{wrong:?}");
    let refused = mysql(&server, &relay, &["--ssl-mode=REQUIRED"]).expect_code(1).stderr;
    assert!(refused.contains("SSL is required but the server doesn't support it"), "{refused}");
    for names in ["zstd,uncompressed", "zlib,zstd,uncompressed"] {
        let option = format!("--compression-algorithms={names}");
        let sql = "SHOW STATUS LIKE 'Compression'";
        let said = mysql(&server, &relay, &[&option, "-e", sql]).expect_code(0).stdout;
        assert_eq!(said, "Compression\tOFF\n");
    }
    let only = mysql(&server, &relay, &["--compression-algorithms=zstd"]).expect_code(1);
    assert!(only.stderr.contains("2066 (HY000)"), "{only:?}");
    an_expired_password_is_changed(&server, &relay);
    outages_have_class_08(server, &relay);
    assert_all_followed(&relay);
}

fn an_expired_password_is_changed(server: &MySql, relay: &Spillway) {
    server.run("ALTER USER app@'%' PASSWORD EXPIRE");
    let expired = ["--connect-expired-password", "-e"];
    let said = mysql(server, relay, &[&expired[..], &["SELECT 1"]].concat()).expect_code(1);
    assert!(said.stderr.contains("1820 (HY000)"), "{said:?}");
    let change = "ALTER USER USER() IDENTIFIED BY 'app-secret'";
    mysql(server, relay, &[&expired[..], &[change]].concat()).expect_code(0);
    mysql(server, relay, &["--get-server-public-key", "-e", "SELECT 1"]).expect_code(0);
}

fn outages_have_class_08(mut server: MySql, relay: &Spillway) {
    let app = || Client::connect(relay.relay_port(), APP_USER.0, APP_USER.1);
    let mut idle = app().unwrap();
    idle.query("SET SESSION wait_timeout = 1").unwrap();
    let (code, ..) = server_error(Err::<(), _>(unexpected(&idle.receive().unwrap())));
    assert_eq!(code, 4031, "MySQL says why it leaves");
    let (mut open, mut busy) = (app().unwrap(), app().unwrap());
    busy.command(COM_QUERY, b"SELECT SLEEP(100)").unwrap();
    server.kill();
    let (code, sqlstate, message) = server_error(busy.read_replies());
    assert_eq!((code, sqlstate.as_str()), (1927, "08S01"), "{message}");
    // Told, where the relay had not yet seen that the server is gone; else closed.
    let lost = open.query("SELECT 1");
    assert!(matches!(lost, Err(Error::Io(_) | Error::Server { code: 1927, .. })), "{lost:?}");
    let (code, sqlstate, message) = server_error(app().map(drop));
    assert_eq!((code, sqlstate.as_str()), (1218, "08S01"), "{message}");
    let said = mysql(&server, relay, &["-e", "SELECT 1"]).expect_code(1).stderr;
    assert!(said.contains("1218 (08S01): Spillway cannot reach source 'main'"), "{said}");
    let said = mariadb(relay, &["-e", "SELECT 1"]).expect_code(1).stderr;
    assert!(said.contains("1218 (08S01): Spillway cannot reach source 'main'"), "{said}");
    server.start();
    let known = || mysql(&server, relay, &["--get-server-public-key", "-e", "SELECT 1"]).code == 0;
    wait::until("the relay works again", || known().then_some(()));
    app().unwrap().query("SELECT 1").unwrap();
}

#[test]
fn what_applications_do_with_it_is_followed() {
    let Some((server, relay)) = relayed("PREFERRED") else { return };
    mysql(&server, &relay, &["--get-server-public-key", "-e", "SELECT 1"]).expect_code(0);
    server.run(
        "INSTALL COMPONENT 'file://component_query_attributes';
         CREATE DATABASE d; CREATE TABLE d.t (n INT PRIMARY KEY, t TEXT);
         CREATE PROCEDURE d.two() BEGIN SELECT 1 AS a; SELECT 2 AS b; UPDATE d.t SET n = n; END",
    );
    server.run(OUT_TOO);
    tracked_attributes_and_many_results(&relay);
    metadata_left_out_and_cursors(&relay);
    packets_of_many_sizes(&relay);
    files_and_tools(&server, &relay);
    commands_of_all_kinds(&relay);
    block_on(a_library(&server, &relay));
    assert_all_followed(&relay);
}

fn tracked_attributes_and_many_results(relay: &Spillway) {
    let capabilities = CAPABILITIES | SESSION_TRACK | QUERY_ATTRIBUTES;
    let login = Login { capabilities, ..Login::new(APP_USER.0, APP_USER.1) };
    let mut client = Client::login(relay.relay_port(), &login).unwrap();
    // One attribute, one set of it, no NULL, types follow: a string `n1` with the value `v1`.
    let attribute = b"\x01\x01\x00\x01\xfe\x00\x02n1\x02v1";
    let sql = "SELECT mysql_query_attribute_string('n1')";
    client.command(COM_QUERY, &[&attribute[..], sql.as_bytes()].concat()).unwrap();
    assert_eq!(client.read_replies().unwrap()[0].scalar(), "v1");
    let none = [0, 1];
    let sql = "SELECT 1; DO 2; SELECT 3 WHERE 0; SELECT 4";
    client.command(COM_QUERY, &[&none, sql.as_bytes()].concat()).unwrap();
    let values: Vec<_> = client.read_replies().unwrap().iter().map(|r| r.scalar()).collect();
    assert_eq!(values, ["1", "", "", "4"]);
    client.command(COM_QUERY, &[&none, &b"CALL d.two()"[..]].concat()).unwrap();
    assert_eq!(client.read_replies().unwrap().len(), 3);
    let track = "SET session_track_gtids = OWN_GTID, session_track_system_variables = '*', session_track_schema = 1, \
                 session_track_state_change = 1, session_track_transaction_info = CHARACTERISTICS";
    for sql in [track, "USE d", "BEGIN", "INSERT INTO t VALUES (1, 'one')", "SET @x = 1"] {
        client.command(COM_QUERY, &[&none, sql.as_bytes()].concat()).unwrap();
        client.read_replies().unwrap();
    }
    client.command(COM_QUERY, &[&none, &b"COMMIT"[..]].concat()).unwrap();
    let ok = client.receive().unwrap();
    assert!(ok.len() > 40 && ok[0] == 0, "no GTID in {ok:02x?}");
    client.command(COM_RESET_CONNECTION, &[]).unwrap();
    assert_eq!(client.receive().unwrap()[0], 0);
    client.command(COM_QUERY, &[&none, &b"SELECT @x IS NULL"[..]].concat()).unwrap();
    assert_eq!(client.read_replies().unwrap()[0].scalar(), "1");
}

/// Whether all this was understood, the relay's count of connections that are not followed tells.
fn metadata_left_out_and_cursors(relay: &Spillway) {
    for more in [0, DEPRECATE_EOF] {
        let capabilities = CAPABILITIES | OPTIONAL_METADATA | more;
        let login = Login { capabilities, ..Login::new(APP_USER.0, APP_USER.1) };
        let mut client = Client::login(relay.relay_port(), &login).unwrap();
        let sql = "SELECT 1, 2 UNION SELECT 3, 4";
        for metadata in ["FULL", "NONE"] {
            let set = format!("SET SESSION resultset_metadata = {metadata}");
            answers(&mut client, COM_QUERY, set.as_bytes());
            let packets = answers(&mut client, COM_QUERY, sql.as_bytes());
            // Two columns, and whether their definitions follow.
            assert_eq!(packets[0], [2, u8::from(metadata == "FULL")]);
            let prepared = answers(&mut client, COM_STMT_PREPARE, b"SELECT n + ?, t FROM d.t");
            let statement = &prepared[0][1..5];
            // With a cursor: flags, one iteration, no NULL, types follow: a BIGINT.
            let value = [&[1, 1, 0, 0, 0, 0, 1, 8, 0][..], &7_u64.to_le_bytes()].concat();
            let execute = [statement, &value].concat();
            answers(&mut client, COM_STMT_EXECUTE, &execute);
            let fetch = [statement, &10_u32.to_le_bytes()].concat();
            let rows = answers(&mut client, COM_STMT_FETCH, &fetch);
            assert_eq!(rows.len(), 2, "one row and the end of all: {rows:02x?}");
        }
    }
}

#[test]
fn commands_of_all_kinds_are_followed_with_mariadb_too() {
    let server = Server::upstream();
    let relay = Spillway::started(&server);
    server.run("CREATE DATABASE d; CREATE TABLE d.t (n INT PRIMARY KEY, t TEXT)");
    server.run("USE d; INSERT INTO t SELECT seq, 'text' FROM seq_1_to_40000");
    server.query(OUT_TOO);
    commands_of_all_kinds(&relay);
}

/// A procedure with a result and an OUT parameter.
const OUT_TOO: &str =
    "CREATE PROCEDURE d.out_too(OUT n BIGINT) BEGIN SELECT 1 AS a; SET n = 7; END";

fn commands_of_all_kinds(relay: &Spillway) {
    const INIT_DB: u8 = 2;
    const STMT_LONG_DATA: u8 = 0x18;
    const STMT_CLOSE: u8 = 0x19;
    const STMT_RESET: u8 = 0x1a;
    const SET_OPTION: u8 = 0x1b;
    for more in [0, DEPRECATE_EOF, DEPRECATE_EOF | SESSION_TRACK] {
        let login = Login {
            capabilities: CAPABILITIES | PS_MULTI_RESULTS | more,
            ..Login::new(APP_USER.0, APP_USER.1)
        };
        let mut client = Client::login(relay.relay_port(), &login).unwrap();
        let statement = |packets: &[Vec<u8>]| packets[0][1..5].to_vec();
        let kill = answers(&mut client, COM_STMT_PREPARE, b"SET @id = CONNECTION_ID()");
        answers(&mut client, STMT_CLOSE, &statement(&kill));
        let call = answers(&mut client, COM_STMT_PREPARE, b"CALL d.out_too(?)");
        let called = [&statement(&call), &[0, 1, 0, 0, 0, 0, 1, 8, 0][..], &[0; 8]].concat();
        let results = answers(&mut client, COM_STMT_EXECUTE, &called);
        assert!(results.len() >= 9, "a result, the OUT parameter, an OK: {results:02x?}");
        let long = answers(&mut client, COM_STMT_PREPARE, b"SELECT LENGTH(?)");
        let parts = [&statement(&long), &[0, 0][..], b"part"].concat();
        assert!(answers(&mut client, STMT_LONG_DATA, &parts).is_empty());
        let sent = [&statement(&long), &[0, 1, 0, 0, 0, 0, 1, 0xfc, 0][..]].concat();
        assert!(answers(&mut client, COM_STMT_EXECUTE, &sent).len() >= 4);
        // What answers an OK, or an error: of commands that this release no longer has, and of results that break off.
        let breaks = "SELECT n, IF(n < 30000, t, EXP(n)) FROM d.t ORDER BY n";
        for (command, payload) in [
            (STMT_RESET, &statement(&long)[..]),
            (SET_OPTION, &[0, 0]),
            (INIT_DB, b"d"),
            (INIT_DB, b"no_such_database"),
            (0x04, b"t\0"),
            (0x0a, b""),
            (0x0c, &[0; 4]),
            (0x0d, b""),
            (COM_QUERY, breaks.as_bytes()),
            (COM_QUERY, b"SELECT nonsense"),
            (COM_QUERY, b"INSERT IGNORE INTO d.t VALUES (1, 'again'), (1, 'again')"),
            (COM_QUERY, b"DO 1 / 0"),
            (COM_STMT_EXECUTE, &[99, 0, 0, 0, 0, 1, 0, 0, 0]),
            (COM_STMT_PREPARE, b"nonsense"),
        ] {
            assert!(!answers(&mut client, command, payload).is_empty());
        }
    }
    assert_all_followed(relay);
}

/// Sends a command, and one behind it whose answer is told from all others; all packets up to that one.
fn answers(client: &mut Client, command: u8, payload: &[u8]) -> Vec<Vec<u8>> {
    client.command(command, payload).unwrap();
    client.command(COM_STATISTICS, &[]).unwrap();
    let packets = std::iter::from_fn(|| Some(client.receive().unwrap()));
    packets.take_while(|packet| !packet.starts_with(b"Uptime: ")).collect()
}

fn packets_of_many_sizes(relay: &Spillway) {
    let mut client = Client::connect(relay.relay_port(), APP_USER.0, APP_USER.1).unwrap();
    for length in [17 << 20, MAX_PACKET - 16, MAX_PACKET - 17] {
        let sql = format!("SELECT LENGTH('{}')", "x".repeat(length));
        assert_eq!(client.query(&sql).unwrap().scalar(), length.to_string());
    }
    client.query("SET SESSION cte_max_recursion_depth = 1000000").unwrap();
    for length in [17 << 20, MAX_PACKET - 4, MAX_PACKET - 5] {
        let reply = client.query(&format!("SELECT REPEAT('y', {length})")).unwrap();
        assert_eq!(reply.scalar().len(), length);
    }
    let rows = "WITH RECURSIVE s AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM s WHERE n < 300000) SELECT n, 'text' FROM s";
    assert_eq!(client.query(rows).unwrap().rows.len(), 300_000);
    let (code, ..) = server_error(client.query("SELECT nonsense"));
    assert_eq!(code, 1054);
    assert_eq!(client.query("SELECT 1").unwrap().scalar(), "1");
}

fn files_and_tools(server: &MySql, relay: &Spillway) {
    let dir = temp_dir("infile");
    let (file, script) = (dir.path().join("rows"), dir.path().join("script"));
    let lines: String = (10..50_000).map(|n| format!("{n}\ttext of row {n}\n")).collect();
    std::fs::write(&file, lines).unwrap();
    let load = |path: &str| format!("LOAD DATA LOCAL INFILE '{path}' INTO TABLE d.t");
    mysql(server, relay, &["--local-infile=1", "-e", &load(file.to_str().unwrap())]).expect_code(0);
    let refused = mysql(server, relay, &["-e", &load(file.to_str().unwrap())]).expect_code(1);
    assert!(refused.stderr.contains("LOAD DATA LOCAL INFILE"), "{refused:?}");
    let missing = mysql(server, relay, &["--local-infile=1", "-e", &load("/does/not/exist")]);
    assert!(missing.stderr.contains("does/not/exist"), "{missing:?}");
    assert_eq!(server.query("SELECT COUNT(*) FROM d.t").scalar(), "49991");
    let dump =
        run_tool(server, relay, "mysqldump", &["--set-gtid-purged=OFF", "--source-data=2", "d"]);
    let dump = dump.expect_code(0).stdout;
    assert!(dump.contains("text of row 49999") && dump.contains("CHANGE REPLICATION SOURCE"));
    std::fs::write(&script, dump).unwrap();
    server.run("CREATE DATABASE copy");
    let source = format!("source {}", script.display());
    mysql(server, relay, &["--commands", "copy", "-e", &source]).expect_code(0);
    let counts = "SELECT COUNT(*), SUM(n) FROM";
    let same = server.query(&format!("{counts} d.t")).rows
        == server.query(&format!("{counts} copy.t")).rows;
    assert!(same, "the dump differs");
    let log = server.query("SHOW BINARY LOGS").scalar();
    let read = ["--read-from-remote-server", "--verify-binlog-checksum", &log];
    let events = run_tool(server, relay, "mysqlbinlog", &read).expect_code(0).stdout;
    assert!(events.contains("CREATE DATABASE copy") && events.contains("# End of log file"));
}

async fn a_library(server: &MySql, relay: &Spillway) {
    server.run("CREATE USER other@'%' IDENTIFIED BY 'other-secret'");
    let options = OptsBuilder::default()
        .ip_or_hostname("127.0.0.1")
        .tcp_port(relay.relay_port())
        .prefer_socket(false)
        .user(Some(APP_USER.0))
        .pass(Some(APP_USER.1));
    let mut conn = Conn::new(options).await.unwrap();
    for n in 0..50_u64 {
        let row: Option<(u64, String)> =
            conn.exec_first("SELECT ? + 1, CONCAT(?, '!')", (n, "text")).await.unwrap();
        assert_eq!(row, Some((n + 1, "text!".to_owned())));
    }
    let user = async |conn: &mut Conn| -> String {
        conn.query_first("SELECT CONCAT(CURRENT_USER(), @x IS NULL)").await.unwrap().unwrap()
    };
    // Full authentication, then the fast one; back to the first user.
    for _ in 0..2 {
        conn.query_drop("SET @x = 1").await.unwrap();
        let other = ChangeUserOpts::new().with_user(Some("other".to_owned()));
        conn.change_user(other.with_pass(Some("other-secret".to_owned()))).await.unwrap();
        assert_eq!(user(&mut conn).await, "other@%1");
        let app = ChangeUserOpts::new().with_user(Some(APP_USER.0.to_owned()));
        conn.change_user(app.with_pass(Some(APP_USER.1.to_owned()))).await.unwrap();
        assert_eq!(user(&mut conn).await, "app@%1");
    }
    conn.query_drop("SET @x = 1").await.unwrap();
    assert!(conn.reset().await.unwrap());
    assert_eq!(user(&mut conn).await, "app@%1");
    conn.disconnect().await.unwrap();
}

#[test]
fn under_tls_and_behind_a_socket_only_accounts_that_the_server_knows_get_in() {
    let Some((server, tls)) = relayed("REQUIRED") else { return };
    let address = format!("127.0.0.1:{}", server.port());
    only_known_accounts_get_in(&server, &tls, &address, "TLSv1.3");
    let address = format!("unix:{}", server.socket().display());
    let mut socket = Spillway::prepared_for_port(server.port())
        .with("[[source]]", "capture", "false")
        .with("[[source]]", "servers", &format!("[\"{address}\"]"));
    socket.start();
    only_known_accounts_get_in(&server, &socket, &address, "");
}

fn only_known_accounts_get_in(server: &MySql, relay: &Spillway, address: &str, tls: &str) {
    server.run(
        "ALTER USER app@'%' IDENTIFIED BY 'app-secret'; CREATE USER blank@'%' IDENTIFIED BY '';
         CREATE USER other@'%' IDENTIFIED BY 'other-secret'",
    );
    let sentence = format!(
        "Source 'main' at {address} asks for the password itself (caching_sha2_password), which cannot pass from a client without \
         TLS to a source under TLS or behind a Unix socket: user or password is wrong, or the source does not know the account \
         yet, which a login at the source itself changes"
    );
    let who = ["-e", "SELECT CURRENT_USER(); SHOW STATUS LIKE 'Ssl_version'"];
    for option in ["--get-server-public-key", "--ssl-mode=DISABLED"] {
        let said = mysql(server, relay, &[&[option], &who[..]].concat()).expect_code(1).stderr;
        assert!(said.contains(&format!("ERROR 1218 (08S01): {sentence}")), "{said}");
    }
    let said = mariadb(relay, &who).expect_code(1).stderr;
    assert!(said.contains(&sentence), "{said}");
    let at_the_source = |user: &str, password: &str| {
        let port = format!("--port={}", server.port());
        let (user, password) = (format!("--user={user}"), format!("--password={password}"));
        let fixed = ["--no-defaults", "--host=127.0.0.1", &port, &user, &password];
        let args = [&fixed[..], &["-e", "SELECT 1"]].concat();
        server.release().tool("mysql", &args).expect_code(0);
    };
    at_the_source("app", "app-secret");
    for said in [mysql(server, relay, &who), mariadb(relay, &who)] {
        assert_eq!(said.expect_code(0).stdout, format!("app@%\nSsl_version\t{tls}\n"));
    }
    // A wrong password looks the same from here.
    let said = mysql(server, relay, &["--password=wrong"]).expect_code(1).stderr;
    assert!(said.contains(&sentence), "{said}");
    Client::connect(relay.relay_port(), "blank", "").unwrap().query("SELECT 1").unwrap();
    let app = || Client::connect(relay.relay_port(), APP_USER.0, APP_USER.1).unwrap();
    let mut client = app();
    let (code, sqlstate, message) = server_error(client.change_user("other", "other-secret", ""));
    assert_eq!((code, sqlstate.as_str(), message), (1218, "08S01", sentence));
    assert!(matches!(client.query("SELECT 1"), Err(Error::Io(_))));
    at_the_source("other", "other-secret");
    let mut client = app();
    client.change_user("other", "other-secret", "").unwrap();
    assert_eq!(client.query("SELECT CURRENT_USER()").unwrap().scalar(), "other@%");
    assert_all_followed(relay);
    server.run("DROP USER blank@'%', other@'%'");
}
