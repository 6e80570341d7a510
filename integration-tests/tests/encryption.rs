//! TLS towards a real upstream: each mode with good and bad certificates, clients' certificates, and the relay under TLS.

use std::path::Path;

use spillway_integration_tests::certificates::{Authority, Issued};
use spillway_integration_tests::client::{self, Client};
use spillway_integration_tests::servers::{APP_USER, Server};
use spillway_integration_tests::spillway::Spillway;
use spillway_integration_tests::tool;
use spillway_integration_tests::wait;

use super::refusals::assert_refused;

/// An upstream with this certificate, which believes clients' certificates of `clients`.
fn upstream(issued: &Issued, clients: Option<&Authority>, more: &[&str]) -> Server {
    let options = issued.server_options(clients);
    let options: Vec<_> = options.iter().map(String::as_str).chain(more.iter().copied()).collect();
    let server = Server::upstream_with(&options);
    assert_eq!(server.query("SELECT @@have_ssl").scalar(), "YES", "{}", server.log());
    server
}

fn prepared(upstream: &Server, mode: &str) -> Spillway {
    Spillway::prepared(upstream).with("[[source]]", "ssl_mode", &format!("\"{mode}\""))
}

fn quoted(path: &Path) -> String {
    format!("\"{}\"", path.display())
}

fn with_ca(spillway: Spillway, authority: &Authority) -> Spillway {
    spillway.with("[[source]]", "ssl_ca", &quoted(&authority.file()))
}

fn with_client(spillway: Spillway, issued: &Issued) -> Spillway {
    let spillway = spillway.with("[[source]]", "ssl_cert", &quoted(&issued.cert));
    spillway.with("[[source]]", "ssl_key", &quoted(&issued.key))
}

/// Changes something upstream and waits until the log has it.
fn assert_records(upstream: &Server, spillway: &Spillway) {
    upstream.run("CREATE DATABASE IF NOT EXISTS d; CREATE OR REPLACE TABLE d.t (id INT)");
    spillway.wait_recorded(&upstream.gtid_binlog_pos());
}

/// The cipher of the upstream's side of an app's connection; empty where it is plain.
fn relayed_cipher(spillway: &Spillway) -> String {
    let mut app = spillway.app().unwrap();
    app.query("SHOW STATUS LIKE 'Ssl_cipher'").unwrap().rows[0][1].clone().unwrap_or_default()
}

#[test]
fn each_mode_records_from_an_upstream_with_a_good_certificate() {
    let ca = Authority::new("ca");
    for version in ["TLSv1.2", "TLSv1.3"] {
        let option = format!("--tls-version={version}");
        let upstream = upstream(&ca.issue(&["127.0.0.1"]), None, &[&option]);
        // The server itself says whether the connection is encrypted.
        upstream.run("ALTER USER spillway@'%' REQUIRE SSL");
        for mode in ["PREFERRED", "REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY"] {
            let mut spillway = with_ca(prepared(&upstream, mode), &ca);
            let said = spillway.check().expect_code(0).stdout;
            let encrypted = format!("encrypted: {}", version.replace('.', "_"));
            assert!(said.contains(&encrypted), "{mode}: {said}");
            spillway.start();
            assert_records(&upstream, &spillway);
            let end = spillway.metric("spillway_certificate_not_after_timestamp_seconds").unwrap();
            assert!(end > 1e9, "{end}");
        }
        assert_refused(
            &mut prepared(&upstream, "DISABLED"),
            &[
                "Access denied",
                "whether the account or the upstream requires an encrypted connection",
            ],
        );
    }
}

#[test]
fn an_upstream_without_tls_is_recorded_plainly_or_refused_by_name() {
    let upstream = Server::upstream_with(&["--skip-ssl"]);
    for mode in ["DISABLED", "PREFERRED"] {
        let mut spillway = prepared(&upstream, mode);
        let said = spillway.check().expect_code(0).stdout;
        assert!(said.contains("the connection is not encrypted"), "{mode}: {said}");
        spillway.start();
        assert_records(&upstream, &spillway);
    }
    let mut spillway = prepared(&upstream, "REQUIRED");
    assert_refused(&mut spillway, &["the upstream offers no TLS and ssl_mode is REQUIRED"]);
    match spillway.app() {
        Err(client::Error::Server { sqlstate, message, .. }) => {
            assert!(sqlstate == "08S01" && message.contains("offers no TLS"), "{message}");
        }
        other => panic!("let in: {:?}", other.err()),
    }
}

#[test]
fn check_tries_the_encryption_of_a_relay_alone_too() {
    let (ca, stranger) = (Authority::new("ca"), Authority::new("stranger"));
    let upstream = upstream(&ca.issue(&["127.0.0.1"]), None, &[]);
    let relaying = |mode, authority: &Authority| {
        with_ca(prepared(&upstream, mode), authority).with("[[source]]", "capture", "false")
    };
    let said = relaying("VERIFY_IDENTITY", &ca).check().expect_code(0).stdout;
    assert!(said.contains("answers, encrypted: TLSv1_3"), "{said}");
    let said = relaying("PREFERRED", &stranger).check().expect_code(0).stdout;
    assert!(said.contains("answers, not encrypted"), "{said}");
    let said = relaying("VERIFY_CA", &stranger).check().expect_code(1).stdout;
    assert!(said.contains("issued by CN=ca, which is not in ssl_ca"), "{said}");
}

#[test]
fn a_certificate_that_is_not_believed_is_named_and_a_renewed_one_is_taken() {
    let (ca, stranger) = (Authority::new("ca"), Authority::new("stranger"));
    let good = ca.issue(&["127.0.0.1"]);
    for (bad, mode, words) in [
        (stranger.issue(&["127.0.0.1"]), "VERIFY_CA", "issued by CN=stranger, which is not in"),
        (ca.issue_expired(&["127.0.0.1"]), "VERIFY_CA", "the upstream's certificate expired at 2"),
        (ca.issue(&["db1"]), "VERIFY_IDENTITY", "is for db1, not for 127.0.0.1"),
    ] {
        let mut upstream = upstream(&bad, None, &[]);
        let mut spillway = with_ca(prepared(&upstream, mode), &ca);
        assert_refused(&mut spillway, &[words]);
        upstream.stop();
        good.server_options(None).iter().for_each(|option| upstream.add_option(option));
        upstream.start();
        wait::until("it attaches by itself", || (spillway.http("/readyz")?.0 == 200).then_some(()));
        assert_records(&upstream, &spillway);
    }
}

#[test]
fn an_account_that_requires_a_certificate_is_told_apart() {
    let (ca, stranger) = (Authority::new("ca"), Authority::new("stranger"));
    let upstream = upstream(&ca.issue(&["127.0.0.1"]), Some(&ca), &[]);
    upstream.run("ALTER USER spillway@'%' REQUIRE X509");
    let without = ["Access denied", "whether the account requires a client's certificate"];
    assert_refused(&mut prepared(&upstream, "REQUIRED"), &without);
    let mut other = with_client(prepared(&upstream, "REQUIRED"), &stranger.issue(&[]));
    assert_refused(&mut other, &["the upstream refuses the certificate in ssl_cert"]);
    let mut spillway = with_client(prepared(&upstream, "PREFERRED"), &ca.issue(&[]));
    spillway.start();
    assert_records(&upstream, &spillway);
}

#[test]
fn an_upstream_that_takes_encrypted_connections_only_says_so() {
    let ca = Authority::new("ca");
    let upstream = upstream(&ca.issue(&["127.0.0.1"]), None, &[]);
    // Not from the start on: the harness itself connects plainly.
    upstream.run("SET GLOBAL require_secure_transport = ON");
    assert_refused(
        &mut prepared(&upstream, "DISABLED"),
        &["Access denied", "or the upstream requires an encrypted connection"],
    );
    let mut preferred = prepared(&upstream, "PREFERRED");
    let said = preferred.check().expect_code(1).stdout;
    assert!(said.contains("apps do not get in: set ssl_mode = \"REQUIRED\""), "{said}");
    preferred.start();
    assert!(matches!(preferred.app(), Err(client::Error::Server { code: 1045, .. })));
    drop(preferred);
    let mut required = prepared(&upstream, "REQUIRED");
    required.check().expect_code(0);
    required.start();
    assert_ne!(relayed_cipher(&required), "");
}

#[test]
fn apps_pass_an_encrypted_relay_without_knowing() {
    let ca = Authority::new("ca");
    let upstream = upstream(&ca.issue(&["127.0.0.1"]), None, &["--max-allowed-packet=64M"]);
    let mut plain = prepared(&upstream, "PREFERRED");
    plain.start();
    assert_eq!(relayed_cipher(&plain), "");
    drop(plain);
    let mut spillway = with_ca(prepared(&upstream, "VERIFY_IDENTITY"), &ca);
    spillway.start();
    assert_ne!(relayed_cipher(&spillway), "");
    let mut app = spillway.app().unwrap();
    let length = 40 << 20;
    let sql = format!("SELECT LENGTH('{}')", "x".repeat(length));
    assert_eq!(app.query(&sql).unwrap().scalar(), length.to_string());
    let text = app.query(&format!("SELECT REPEAT('y', {length})")).unwrap().scalar();
    assert!(text.len() == length && text.bytes().all(|byte| byte == b'y'));
    let wrong = Client::connect(spillway.relay_port(), APP_USER.0, "wrong").map(drop);
    assert!(matches!(wrong, Err(client::Error::Server { code: 1045, .. })), "{wrong:?}");
    let port = format!("--port={}", spillway.relay_port());
    let tool = ["--no-defaults", "--protocol=tcp", "-h127.0.0.1", &port, "-uapp", "-papp-secret"];
    let said = tool::run("mariadb", &[&tool[..], &["-Ne", "SELECT 40 + 2"]].concat());
    assert_eq!(said.expect_code(0).stdout.trim(), "42");
    upstream.run("CREATE USER app2@'%' IDENTIFIED BY ''");
    Client::connect(spillway.relay_port(), "app2", "").unwrap().query("SELECT 1").unwrap();
}

#[test]
fn ed25519_passes_under_tls_where_the_server_has_it() {
    let ca = Authority::new("ca");
    let issued = ca.issue(&["127.0.0.1"]);
    let Some(mut upstream) = Server::upstream_with_ed25519() else { return };
    upstream.stop();
    issued.server_options(None).iter().for_each(|option| upstream.add_option(option));
    upstream.start();
    upstream.run(
        "ALTER USER spillway@'%' IDENTIFIED VIA ed25519 USING PASSWORD('ed-secret') REQUIRE SSL;
         CREATE USER ed@'%' IDENTIFIED VIA ed25519 USING PASSWORD('ed-secret') REQUIRE SSL",
    );
    let mut spillway =
        prepared(&upstream, "REQUIRED").with("[[source]]", "password", "\"ed-secret\"");
    spillway.start();
    assert_records(&upstream, &spillway);
    assert_eq!(super::relay::current_user(spillway.relay_port(), "ed", "ed-secret"), "ed@%");
}

#[test]
fn over_a_unix_socket_tls_is_used_only_where_it_is_required() {
    let ca = Authority::new("ca");
    let upstream = upstream(&ca.issue(&["localhost"]), None, &[]);
    let over_socket = |mode: &str| {
        let servers = format!("[\"unix:{}\"]", upstream.socket().display());
        with_ca(prepared(&upstream, mode), &ca).with("[[source]]", "servers", &servers)
    };
    for (mode, cipher) in [("PREFERRED", false), ("REQUIRED", true), ("VERIFY_IDENTITY", true)] {
        let mut spillway = over_socket(mode);
        let said = spillway.check().expect_code(0).stdout;
        assert_eq!(said.contains("the connection is encrypted"), cipher, "{mode}: {said}");
        spillway.start();
        assert_records(&upstream, &spillway);
        assert_eq!(relayed_cipher(&spillway).is_empty(), !cipher, "{mode}");
    }
}

#[test]
fn files_are_read_again_at_every_connect() {
    let ca = Authority::new("ca");
    let mut upstream = upstream(&ca.issue(&["127.0.0.1"]), None, &[]);
    let directory = spillway_integration_tests::run_dir::temp_dir("files");
    let (authority, password) = (directory.path().join("ca.pem"), directory.path().join("pw"));
    std::fs::write(&authority, "nothing yet").unwrap();
    std::fs::write(&password, "capture-secret\n").unwrap();
    let mut spillway = prepared(&upstream, "VERIFY_CA")
        .with("[[source]]", "ssl_ca", &quoted(&authority))
        .with("[[source]]", "password_file", &quoted(&password));
    spillway.config().unset("[[source]]", "password");
    assert_refused(&mut spillway, &["ssl_ca", "ca.pem cannot be used: no certificate in PEM"]);
    std::fs::copy(ca.file(), &authority).unwrap();
    wait::until("it attaches by itself", || (spillway.http("/readyz")?.0 == 200).then_some(()));
    assert_records(&upstream, &spillway);
    upstream.run("SET PASSWORD FOR spillway@'%' = PASSWORD('new-secret')");
    upstream.stop();
    upstream.start();
    spillway.wait_says("Access denied");
    std::fs::write(&password, "new-secret\n").unwrap();
    wait::until("it attaches by itself", || (spillway.http("/readyz")?.0 == 200).then_some(()));
    assert_records(&upstream, &spillway);
}

/// Such a server makes itself a certificate, and offers TLS without anybody having asked for it.
#[test]
fn mariadb_11_8_as_it_comes_is_recorded_under_tls() {
    let Some(upstream) = Server::upstream_11_8() else { return };
    upstream.run("ALTER USER spillway@'%' REQUIRE SSL");
    let mut spillway = Spillway::prepared(&upstream);
    let said = spillway.check().expect_code(0).stdout;
    assert!(said.contains("the connection is encrypted: TLSv1_3"), "{said}");
    spillway.start();
    assert_records(&upstream, &spillway);
    assert_eq!(relayed_cipher(&spillway), "");
    let mut required = prepared(&upstream, "REQUIRED");
    required.start();
    assert_ne!(relayed_cipher(&required), "");
    let stranger = Authority::new("stranger");
    let mut verifying = with_ca(prepared(&upstream, "VERIFY_CA"), &stranger);
    assert_refused(
        &mut verifying,
        &["the upstream's certificate is self-signed (CN=MariaDB Server)"],
    );
}
