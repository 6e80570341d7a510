//! Upstreams that cannot be recorded: one sentence each, in the log, in `/status`, and from `spillway check`.

use spillway_integration_tests::servers::Server;
use spillway_integration_tests::spillway::Spillway;
use spillway_integration_tests::wait;

/// `spillway check` ends with 1 and has a line with all of `words`; a running Spillway says it in its log and `/status`.
pub fn assert_refused(spillway: &mut Spillway, words: &[&str]) {
    let output = spillway.check().expect_code(1);
    let text = output.stdout + &output.stderr;
    let has_all = |line: &str| words.iter().all(|word| line.contains(word));
    assert!(text.lines().any(has_all), "no line of check has {words:?}:\n{text}");
    spillway.launch();
    wait::until(&format!("the log has a line with {words:?}"), || {
        spillway.log().lines().any(has_all).then_some(())
    });
    wait::until(&format!("/status has {words:?}"), || {
        has_all(&spillway.http("/status")?.1).then_some(())
    });
    let ready = spillway.http("/readyz").map(|(code, _)| code);
    assert_ne!(ready, Some(200), "ready although nothing is recorded");
}

#[test]
fn a_missing_privilege_is_named_with_its_grant() {
    let upstream = Server::upstream();
    upstream.run("REVOKE REPLICATION SLAVE ON *.* FROM spillway@'%'");
    let mut spillway = Spillway::prepared(&upstream);
    assert_refused(&mut spillway, &["GRANT", "REPLICATION SLAVE"]);
    upstream.run("GRANT REPLICATION SLAVE ON *.* TO spillway@'%'");
    wait::until("it attaches by itself", || (spillway.http("/readyz")?.0 == 200).then_some(()));
}

#[test]
fn a_wrong_password_is_said() {
    let upstream = Server::upstream();
    let mut spillway = Spillway::prepared(&upstream).with("[[source]]", "password", "\"wrong\"");
    assert_refused(&mut spillway, &["Access denied"]);
}

#[test]
fn an_account_that_is_not_let_in_is_said_with_what_it_needs() {
    let upstream = Server::upstream_with(&["--max-password-errors=2"]);
    let cases = [
        ("ACCOUNT LOCK", "ACCOUNT UNLOCK", ["account is locked", "ACCOUNT UNLOCK there"]),
        ("PASSWORD EXPIRE", "PASSWORD EXPIRE NEVER", ["SET PASSWORD", "IDENTIFIED BY '…' there"]),
    ];
    for (harm, remedy, words) in cases {
        upstream.run(&format!("ALTER USER spillway@'%' {harm}"));
        let mut spillway = Spillway::prepared(&upstream);
        assert_refused(&mut spillway, &words);
        let again = "SET PASSWORD FOR spillway@'%' = PASSWORD('capture-secret')";
        upstream.run(&format!("ALTER USER spillway@'%' {remedy}; {again}"));
        wait::until("it attaches by itself", || (spillway.http("/readyz")?.0 == 200).then_some(()));
    }
    let mut wrong = Spillway::prepared(&upstream).with("[[source]]", "password", "\"wrong\"");
    wrong.check().expect_code(1);
    wrong.check().expect_code(1);
    assert_refused(&mut wrong, &["blocked because of too many", "ACCOUNT UNLOCK there"]);
}

#[test]
fn an_upstream_without_a_binlog_is_said() {
    let upstream = Server::upstream_with(&["--skip-log-bin"]);
    assert_refused(&mut Spillway::prepared(&upstream), &["log_bin"]);
}

#[test]
fn statement_format_is_said() {
    let upstream = Server::upstream_with(&["--binlog-format=STATEMENT"]);
    assert_refused(&mut Spillway::prepared(&upstream), &["binlog_format", "ROW"]);
}

#[test]
fn a_position_the_upstream_has_purged_is_said() {
    let upstream = Server::upstream();
    upstream.run("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY)");
    let mut spillway = Spillway::started(&upstream);
    spillway.wait_recorded(&upstream.gtid_binlog_pos());
    spillway.stop();
    upstream.run("INSERT INTO d.t VALUES (1)");
    // Two files further on the first one is no longer held back by the storage engine's checkpoint.
    upstream.run("FLUSH BINARY LOGS; INSERT INTO d.t VALUES (2); FLUSH BINARY LOGS");
    let last = upstream.binlog_files().pop().unwrap();
    wait::until("the upstream has purged its first file", || {
        upstream.run(&format!("PURGE BINARY LOGS TO '{last}'"));
        (!upstream.binlog_files().contains(&"mbin.000001".to_owned())).then_some(())
    });
    spillway.launch();
    wait::until("the log and /status say so", || {
        let status = spillway.http("/status")?.1;
        (spillway.log().contains("purged") && status.contains("purged")).then_some(())
    });
}
