//! Statements from end to end, as clients send them.

use super::*;
use crate::serve::registry::Registration;
use crate::serve::testing::{SERVER_ID, Stage, VERSION};
use crate::source::CaptureState;
use spillway_binlog::gtid::Domains;

fn rows(session: &Session, text: &str) -> Rows {
    match execute(session, text) {
        Ok(Answer::Rows(rows)) => rows,
        Ok(_) => panic!("{text}: no rows"),
        Err(error) => panic!("{text}: {error:?}"),
    }
}

/// The one row, as text; `NULL` for NULL.
fn row(session: &Session, text: &str) -> Vec<String> {
    let rows = rows(session, text);
    assert_eq!(rows.rows.len(), 1, "{text}: {rows:?}");
    let shown = |value: &Value| value.to_text().unwrap_or_else(|| "NULL".to_owned());
    rows.rows[0].iter().map(shown).collect()
}

fn error(session: &Session, text: &str) -> u16 {
    match execute(session, text) {
        Err(error) => error.kind as u16,
        Ok(_) => panic!("{text}: no error"),
    }
}

fn ok(session: &Session, text: &str) {
    assert!(matches!(execute(session, text), Ok(Answer::Ok)), "{text}");
}

#[test]
fn the_queries_of_a_replica() {
    let stage = Stage::begun("");
    stage.record_all("0-1-1,0-1-2");
    let session = stage.session("repl");
    let time = rows(&session, "SELECT UNIX_TIMESTAMP()");
    assert_eq!(time.columns, [("UNIX_TIMESTAMP()".to_owned(), ColumnKind::Integer)]);
    let server_id = rows(&session, "SHOW VARIABLES LIKE 'SERVER_ID'");
    let values = ["server_id".to_owned(), SERVER_ID.to_string()].map(Value::Text);
    assert_eq!(server_id.rows, [values.to_vec()]);
    ok(&session, "SET @master_heartbeat_period= 30000001024");
    ok(&session, "SET @master_binlog_checksum= @@global.binlog_checksum");
    let checksum = rows(&session, "SELECT @master_binlog_checksum");
    assert_eq!(checksum.columns, [("@master_binlog_checksum".to_owned(), ColumnKind::LongText)]);
    assert_eq!(checksum.rows, [[Value::Text("CRC32".to_owned())]]);
    ok(&session, "SET @mariadb_slave_capability=4");
    let domain = rows(&session, "SELECT @@GLOBAL.gtid_domain_id");
    assert_eq!(domain.columns, [("@@GLOBAL.gtid_domain_id".to_owned(), ColumnKind::Unsigned)]);
    ok(&session, "SET @slave_connect_state='7-1-1,0-1-7'");
    ok(&session, "SET @slave_gtid_strict_mode=0");
    ok(&session, "SET NAMES latin1");
    let semi_sync = row(&session, "SHOW VARIABLES LIKE 'rpl_semi_sync_master_enabled'");
    assert_eq!(semi_sync, ["rpl_semi_sync_master_enabled", "OFF"]);
    let period = session.user_variable("master_heartbeat_period");
    assert_eq!(period, Some(Value::Integer(30_000_001_024)));
}

#[test]
fn positions_of_the_log() {
    let stage = Stage::begun("");
    stage.record_all("0-1-1,0-1-2");
    let session = stage.session("repl");
    let file = stage.service.log.files()[0].clone();
    assert_eq!(
        row(&session, "SHOW MASTER STATUS")[..2],
        [file.name.clone(), file.size.to_string()]
    );
    assert_eq!(row(&session, "SHOW BINARY LOGS"), [file.name.clone(), file.size.to_string()]);
    let at_end = format!("SELECT binlog_gtid_pos('{}',{})", file.name, file.size);
    assert_eq!(row(&session, &at_end), ["0-1-2"]);
    assert_eq!(rows(&session, &at_end).columns[0].1, ColumnKind::LongText);
    let at_start = format!("SELECT binlog_gtid_pos('{}',4)", file.name);
    assert_eq!(row(&session, &at_start), [""]);
    assert_eq!(row(&session, "SELECT binlog_gtid_pos('nosuch',4)"), ["NULL"]);
    assert_eq!(row(&session, "SELECT binlog_gtid_pos('binlog.000001',5)"), ["NULL"]);
    assert_eq!(
        row(&session, "SELECT @@gtid_binlog_pos, @@global.gtid_current_pos"),
        ["0-1-2", "0-1-2"]
    );
}

#[test]
fn an_empty_log_has_no_position() {
    let stage = Stage::empty();
    stage.greet("5.5.5-10.11.19-MariaDB");
    let session = stage.session("repl");
    assert!(rows(&session, "SHOW MASTER STATUS").rows.is_empty());
    assert!(rows(&session, "SHOW BINARY LOGS").rows.is_empty());
    assert_eq!(error(&session, "SHOW BINLOG EVENTS"), 1220);
}

#[test]
fn versions_are_the_upstreams() {
    let stage = Stage::begun("");
    let session = stage.session("repl");
    // No upstream was ever seen: what the recorded events say of it.
    assert_eq!(stage.service.greeting_version(), Some(format!("5.5.5-{VERSION}")));
    assert_eq!(row(&session, "SELECT VERSION() AS version, @@version"), [VERSION, VERSION]);
    stage.greet("11.8.9-MariaDB from Debian-log");
    assert_eq!(stage.service.greeting_version().unwrap(), "11.8.9-MariaDB from Debian-log");
    assert_eq!(row(&session, "SELECT VERSION()"), ["11.8.9-MariaDB from Debian-log"]);
    stage.greet("5.5.5-10.11.19-MariaDB-log");
    assert_eq!(row(&session, "select version()"), ["10.11.19-MariaDB-log"]);
    // Of several the first that was seen.
    stage.greet_from(0, "5.5.5-10.11.2-MariaDB-log");
    assert_eq!(row(&session, "select version()"), ["10.11.2-MariaDB-log"]);
    stage.greet("5.5.5-10.11.20-MariaDB-log");
    assert_eq!(row(&session, "select version()"), ["10.11.2-MariaDB-log"]);
}

#[test]
fn what_command_line_clients_ask_at_start() {
    let stage = Stage::begun("");
    let session = stage.session("repl");
    assert_eq!(row(&session, "select @@version_comment limit 1"), ["Spillway"]);
    assert_eq!(row(&session, "SELECT DATABASE()"), ["NULL"]);
    assert_eq!(row(&session, "show databases"), ["information_schema"]);
    assert_eq!(error(&session, "show tables"), 1046);
    ok(&session, "USE information_schema");
    assert!(rows(&session, "show tables").rows.is_empty());
    let id = session.connection.id.to_string();
    let asked = row(&session, "SELECT DATABASE(), USER(), CURRENT_USER, CONNECTION_ID() limit 1");
    assert_eq!(asked, ["information_schema", "repl@127.0.0.1", "repl@%", id.as_str()]);
    assert_eq!(error(&session, "select $$"), 1064);
    let grants = row(&session, "SHOW GRANTS");
    assert_eq!(grants, ["GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO `repl`@`%`"]);
}

#[test]
fn variables_that_change_nothing_read_back() {
    let stage = Stage::begun("");
    let session = stage.session("repl");
    ok(&session, "SET autocommit=0, SESSION sql_mode=CONCAT(@@sql_mode, 'ANSI'), wait_timeout=5");
    assert_eq!(
        row(&session, "SELECT @@autocommit, @@sql_mode, @@wait_timeout"),
        ["0", "ANSI", "5"]
    );
    assert_eq!(row(&session, "SHOW VARIABLES LIKE 'autocommit'"), ["autocommit", "OFF"]);
    ok(&session, "SET autocommit=ON, sql_mode=DEFAULT");
    assert_eq!(row(&session, "SELECT @@autocommit, @@sql_mode"), ["1", ""]);
    assert_eq!(error(&session, "SET server_id=1"), 1238);
    assert_eq!(error(&session, "SET GLOBAL autocommit=1"), 1227);
    assert_eq!(error(&session, "SET nosuch=1"), 1193);
    assert_eq!(error(&session, "SELECT @@gtid_mode"), 1193);
    assert!(rows(&session, "SHOW VARIABLES LIKE 'gtid_mode'").rows.is_empty());
    assert_eq!(row(&session, "SELECT @never_set"), ["NULL"]);
}

#[test]
fn privileges_are_needed() {
    let stage = Stage::begun("");
    let session = stage.session("nobody");
    for text in ["SHOW MASTER STATUS", "SHOW BINARY LOGS", "SHOW SLAVE HOSTS", "SHOW BINLOG EVENTS"]
    {
        assert_eq!(error(&session, text), 1227, "{text}");
    }
    assert_eq!(row(&session, "SHOW GRANTS"), ["GRANT USAGE ON *.* TO `nobody`@`%`"]);
}

#[test]
fn kill_is_for_ones_own_and_for_administrators() {
    let stage = Stage::begun("");
    let (session, other, admin) =
        (stage.session("repl"), stage.session("admin"), stage.session("admin"));
    assert_eq!(error(&session, "KILL 4000000000"), 1094);
    let kill = |session: &Session| format!("KILL {}", session.connection.id);
    assert_eq!(error(&session, &kill(&other)), 1095);
    assert_eq!(other.connection.end_reason(), None);
    // There is no query to end.
    ok(&admin, &format!("KILL QUERY {}", session.connection.id));
    assert_eq!(session.connection.end_reason(), None);
    ok(&admin, &kill(&session));
    assert!(session.connection.end_reason().is_some());
    let ids = rows(&other, "SHOW PROCESSLIST").rows.len();
    assert_eq!(ids, 3);
    assert_eq!(rows(&session, "SHOW FULL PROCESSLIST").rows.len(), 1);
}

#[test]
fn a_source_that_is_held_up_is_altered_by_administrators() {
    let stage = Stage::begun("");
    let (session, admin) = (stage.session("repl"), stage.session("admin"));
    let alter = format!("ALTER SOURCE {} START = '0-1-5'", stage.service.upstreams[0].name());
    assert_eq!(error(&session, &alter), 1227);
    assert_eq!(error(&admin, "ALTER SOURCE nobody START = 'current'"), 1210);
    assert_eq!(error(&admin, &alter.replace("0-1-5", "now")), 1210);
    stage.service.upstreams[0].set_capture_state(CaptureState::Streaming, "");
    assert_eq!(error(&admin, &alter), 1198);
    // It may come back as it was.
    stage.service.upstreams[0].set_capture_state(CaptureState::Connecting, "");
    assert_eq!(error(&admin, &alter), 1198);
    stage.service.upstreams[0].set_capture_state(CaptureState::Diverged, "another history");
    ok(&admin, &alter);
    // On disk before the OK.
    let note = stage.service.log.note(stage.service.upstreams[0].name(), "alter").unwrap();
    assert!(String::from_utf8(note.unwrap()).unwrap().contains("start 0-1-5\n"));
    // Another word, while nobody has begun it.
    stage.service.upstreams[0].set_capture_state(CaptureState::Connecting, "no answer");
    ok(&admin, &alter.replace("0-1-5", "0-1-6"));
    let start = "0-1-6".parse().unwrap();
    assert_eq!(stage.service.upstreams[0].take_new_start(), Some(start));
    // A session is at it.
    assert_eq!(error(&admin, &alter), 1198);
}

#[test]
fn a_source_that_is_diverged_is_continued_by_administrators() {
    let stage = Stage::begun("0-1-5");
    let (session, admin) = (stage.session("repl"), stage.session("admin"));
    let upstream = &stage.service.upstreams[0];
    let go_on = format!("ALTER SOURCE {} CONTINUE", upstream.name());
    assert_eq!(error(&session, &go_on), 1227);
    assert_eq!(error(&admin, "ALTER SOURCE nobody CONTINUE"), 1210);
    upstream.is_captured(&Domains::all());
    for state in [CaptureState::Streaming, CaptureState::Refused, CaptureState::Connecting] {
        upstream.set_capture_state(state, "");
        assert_eq!(error(&admin, &go_on), 1198);
    }
    upstream.set_capture_state(CaptureState::Diverged, "another history");
    // The log begins at 0-1-5 and has no transaction.
    assert_eq!(error(&admin, &go_on), 1198);
    let note = || stage.service.log.note(upstream.name(), "alter").unwrap();
    assert_eq!(note(), None);
    stage.record_all("0-1-6");
    ok(&admin, &go_on);
    let text = |note: Option<Vec<u8>>| String::from_utf8(note.unwrap()).unwrap();
    assert!(text(note()).contains("continue 0-1-6\n"));
    assert!(upstream.capture_status().reason.contains("0-1-6"));
    // Each word replaces the one before.
    ok(&admin, &go_on.replace("CONTINUE", "START = 'current'"));
    assert!(text(note()).contains("start current\n"));
    assert_eq!(upstream.vouched(&stage.service.log), None);
    ok(&admin, &go_on);
    assert_eq!(upstream.take_new_start(), None);
    let vouched = upstream.vouched(&stage.service.log).map(|vouched| vouched.gtid);
    assert_eq!(vouched, Some("0-1-6".parse().unwrap()));
}

#[test]
fn the_log_is_flushed_and_purged_by_administrators() {
    let stage = Stage::begun("");
    let (session, admin) = (stage.session("repl"), stage.session("admin"));
    let purge = "PURGE BINARY LOGS TO 'binlog.000002'";
    for text in [purge, "PURGE BINARY LOGS BEFORE NOW()", "FLUSH LOGS", "RESET MASTER"] {
        assert_eq!(error(&session, text), 1227, "{text}");
    }
    for gtid in ["0-1-1", "0-1-2", "0-1-3"] {
        stage.record_all(gtid);
        ok(&admin, "FLUSH BINARY LOGS");
    }
    let names = || -> Vec<_> { stage.service.log.files().into_iter().map(|f| f.name).collect() };
    assert_eq!(names().len(), 4);
    assert_eq!(error(&admin, "PURGE BINARY LOGS TO 'binlog.000009'"), 1373);
    assert_eq!(error(&admin, "PURGE BINARY LOGS BEFORE 'soon'"), 1210);
    assert_eq!(error(&admin, "RESET MASTER"), 1235);
    ok(&admin, "PURGE BINARY LOGS BEFORE NOW() - INTERVAL 1 DAY");
    ok(&admin, "PURGE BINARY LOGS BEFORE '2001-01-01'");
    assert_eq!(names().len(), 4);
    ok(&admin, purge);
    assert_eq!(names()[0], "binlog.000002");
    assert!(rows(&admin, "SHOW WARNINGS").rows.is_empty());

    // Somebody is in the second file.
    let reader = stage.service.log.cursor(2, 4).unwrap();
    ok(&admin, "PURGE MASTER LOGS TO 'binlog.000004'");
    assert_eq!(row(&admin, "SELECT @@warning_count"), ["1"]);
    assert_eq!(row(&admin, "SHOW COUNT(*) WARNINGS"), ["1"]);
    let message = "file binlog.000002 was not purged because it was being read by 1 thread(s), purged only 0 out of 2 files.";
    assert_eq!(row(&admin, "SHOW WARNINGS"), ["Warning", "1867", message]);
    assert_eq!(names().len(), 3);
    drop(reader);
    ok(&admin, "PURGE MASTER LOGS BEFORE '2037-01-01 00:00:00'");
    assert_eq!(names(), ["binlog.000004"]);
    assert_eq!(row(&admin, "SHOW COUNT(*) WARNINGS"), ["0"]);
}

#[test]
fn registered_replicas_are_listed() {
    let stage = Stage::begun("");
    let session = stage.session("repl");
    let host = "my-replica-host".to_owned();
    session.register_replica(Registration { server_id: 2, host, port: 3307 }).unwrap();
    let shown = row(&session, "SHOW SLAVE HOSTS");
    assert_eq!(shown, ["2", "my-replica-host", "3307", SERVER_ID.to_string().as_str()]);
}

fn events(session: &Session, text: &str) -> Vec<Vec<String>> {
    let Ok(Answer::Events(mut rows)) = execute(session, text) else { panic!("{text}") };
    let mut all = Vec::new();
    loop {
        let batch = rows.next_rows().unwrap();
        if batch.is_empty() {
            return all;
        }
        let shown = |row: Vec<Value>| row.iter().map(|value| value.to_text().unwrap()).collect();
        all.extend(batch.into_iter().map(shown));
    }
}

#[test]
fn binlog_events_are_shown() {
    let stage = Stage::begun("");
    stage.record_all("0-1-1");
    let session = stage.session("repl");
    let all = events(&session, "SHOW BINLOG EVENTS");
    let types: Vec<_> = all.iter().map(|row| row[2].as_str()).collect();
    assert!(types.starts_with(&["Format_desc", "Gtid_list"]), "{types:?}");
    assert!(types.ends_with(&["Gtid", "Annotate_rows", "Query", "Xid"]), "{types:?}");
    let infos: Vec<_> = all.iter().rev().take(4).map(|row| row[5].as_str()).collect();
    let insert = "insert into t values (1)";
    assert_eq!(infos, ["COMMIT /* xid=1 */", insert, insert, "BEGIN GTID 0-1-1"]);
    let some = events(&session, "SHOW BINLOG EVENTS IN 'binlog.000001' FROM 256 LIMIT 1,2");
    assert_eq!(some, all[2..4]);
    assert_eq!(error(&session, "SHOW BINLOG EVENTS IN 'nosuch'"), 1220);
    assert_eq!(error(&session, "SHOW BINLOG EVENTS FROM 5"), 1220);
}

#[test]
fn prepared_statements_are_described_without_being_carried_out() {
    let stage = Stage::begun("");
    let session = stage.session("repl");
    let described = columns(&session, "SELECT VERSION() AS v, 1").unwrap();
    let expected = [("v".to_owned(), ColumnKind::Text), ("1".to_owned(), ColumnKind::Integer)];
    assert_eq!(described, expected);
    assert_eq!(columns(&session, "SET @x = 1").unwrap(), []);
    assert_eq!(session.user_variable("x"), None);
    assert!(columns(&session, "SELECT ?").is_err());
}

#[test]
fn a_session_keeps_a_bounded_number_of_variables() {
    let stage = Stage::begun("");
    let session = stage.session("repl");
    for number in 0..128 {
        ok(&session, &format!("SET @v{number} = {number}"));
    }
    assert_eq!(error(&session, "SET @one_more = 1"), 1231);
    ok(&session, "SET @v5 = 'again'");
    assert_eq!(error(&session, &format!("SET @v6 = '{}'", "x".repeat(2 << 20))), 1231);
}

#[test]
fn a_session_keeps_a_bounded_number_of_bytes() {
    let stage = Stage::begun("");
    let session = stage.session("repl");
    let half = "x".repeat(600 << 10);
    ok(&session, &format!("SET @a = '{half}'"));
    ok(&session, &format!("SET @a = '{half}'"));
    assert_eq!(error(&session, &format!("SET @b = '{half}'")), 1231);
    ok(&session, "SET @a = ''");
    ok(&session, &format!("SET @b = '{half}'"));
}
