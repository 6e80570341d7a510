//! A real MySQL 9.7 as upstream: what capture's login does with it, that recording it is refused in one sentence.

use std::path::Path;

use spillway_integration_tests::certificates::Authority;
use spillway_integration_tests::client::Client;
use spillway_integration_tests::mysql::MySql;
use spillway_integration_tests::proxy::Proxy;
use spillway_integration_tests::run_dir::temp_dir;
use spillway_integration_tests::spillway::Spillway;
use spillway_integration_tests::wait;

use super::refusals::assert_refused;

/// All that is wrong once capture is logged in.
const LOGGED_IN: &str = "this release records MariaDB only";

/// Configured to record, as this user.
fn capturing(port: u16, user: &str, password: &str, mode: &str) -> Spillway {
    Spillway::prepared_for_port(port)
        .with("[[source]]", "user", &format!("\"{user}\""))
        .with("[[source]]", "password", &format!("\"{password}\""))
        .with("[[source]]", "ssl_mode", &format!("\"{mode}\""))
}

/// The one fault that `check` finds.
fn fault(spillway: &Spillway) -> String {
    let output = spillway.check().expect_code(1);
    assert_eq!(output.stderr, "");
    let faults: Vec<_> = output.stdout.lines().filter(|line| line.starts_with("fault")).collect();
    assert_eq!(faults.len(), 1, "{}", output.stdout);
    faults[0].to_owned()
}

fn login(port: u16, user: &str, password: &str, mode: &str) -> String {
    fault(&capturing(port, user, password, mode))
}

fn assert_logs_in(port: u16, user: &str, password: &str, mode: &str) {
    let said = login(port, user, password, mode);
    assert!(said.contains(LOGGED_IN), "{user} {mode}: {said}");
}

/// Logs in through the proxy; whether the server's key was fetched for it.
fn fetches_key(proxy: &Proxy, user: &str, password: &str) -> bool {
    proxy.take_seen();
    assert_logs_in(proxy.port(), user, password, "DISABLED");
    let seen = proxy.take_seen();
    seen.windows(26).any(|bytes| bytes == b"-----BEGIN PUBLIC KEY-----")
}

#[test]
fn the_password_is_sealed_with_the_servers_key_until_the_server_knows_it() {
    let Some(server) = MySql::start_new() else { return };
    let proxy = Proxy::start(server.port());
    let (user, password) = ("spillway", "capture-secret");
    assert!(fetches_key(&proxy, user, password));
    assert!(!fetches_key(&proxy, user, password));
    server.run("FLUSH PRIVILEGES");
    assert!(fetches_key(&proxy, user, password));
    assert!(!fetches_key(&proxy, user, password));
    server.run("FLUSH PRIVILEGES");
    let behind_socket = capturing(server.port(), user, password, "PREFERRED").with(
        "[[source]]",
        "servers",
        &format!("[\"unix:{}\"]", server.socket().display()),
    );
    assert!(fault(&behind_socket).contains(LOGGED_IN));
    server.run("CREATE USER blank@'%' IDENTIFIED BY ''");
    assert!(!fetches_key(&proxy, "blank", ""));
    assert_eq!(
        login(proxy.port(), user, "wrong", "DISABLED"),
        format!(
            "fault  cannot log in to 127.0.0.1:{} as spillway: the upstream refuses the login: Access denied for user \
             'spillway'@'127.0.0.1' (using password: YES); check user and password of the source, and whether the account or \
             the upstream requires an encrypted connection (this one is not: see ssl_mode)",
            proxy.port()
        )
    );
    passwords_of_any_length(&server);
    unknown_accounts_and_sha256(&server);
    accounts_that_are_not_let_in(&server);
    a_password_file_that_changes(&server);
    encrypted_connections_only(&server);
}

/// MySQL takes passwords of up to 256 bytes; its key of 2,048 bits seals 213 of them.
fn passwords_of_any_length(server: &MySql) {
    for length in [1, 20, 21, 32, 100, 213] {
        let password = "x".repeat(length);
        server.run(&format!("CREATE USER l{length}@'%' IDENTIFIED BY '{password}'"));
        assert_logs_in(server.port(), &format!("l{length}"), &password, "DISABLED");
    }
    for length in [214, 256] {
        let (user, password) = (format!("l{length}"), "x".repeat(length));
        server.run(&format!("CREATE USER {user}@'%' IDENTIFIED BY '{password}'"));
        let said = login(server.port(), &user, &password, "DISABLED");
        let words = "its public key seals 213 bytes at most, fewer than the password has: set ssl_mode = \"REQUIRED\"";
        assert!(said.contains(words), "{said}");
        assert_logs_in(server.port(), &user, &password, "REQUIRED");
        // Now the server knows it.
        assert_logs_in(server.port(), &user, &password, "DISABLED");
    }
    server.run("CREATE USER words@'%' IDENTIFIED BY 'pässwört € 密码'");
    assert_logs_in(server.port(), "words", "pässwört € 密码", "DISABLED");
}

/// For an account that does not exist MySQL asks as if it had any of its plugins.
fn unknown_accounts_and_sha256(server: &MySql) {
    server.run("CREATE USER old@'%' IDENTIFIED WITH sha256_password BY 'old-secret'");
    for mode in ["DISABLED", "REQUIRED"] {
        for n in 0..6 {
            let said = login(server.port(), &format!("nobody{n}"), "secret", mode);
            assert!(said.contains(&format!("Access denied for user 'nobody{n}'")), "{said}");
        }
        assert_logs_in(server.port(), "old", "old-secret", mode);
        let said = login(server.port(), "old", "wrong", mode);
        assert!(said.contains("Access denied for user 'old'"), "{said}");
    }
}

fn accounts_that_are_not_let_in(server: &MySql) {
    server.run(
        "CREATE USER locked@'%' IDENTIFIED BY 'secret' ACCOUNT LOCK;
         CREATE USER blocked@'%' IDENTIFIED BY 'secret' FAILED_LOGIN_ATTEMPTS 1 PASSWORD_LOCK_TIME 1;
         CREATE USER expired@'%' IDENTIFIED BY 'secret' PASSWORD EXPIRE;
         CREATE USER tls@'%' IDENTIFIED BY 'secret' REQUIRE SSL",
    );
    login(server.port(), "blocked", "wrong", "DISABLED");
    for (user, words) in [
        ("locked", ["Account is locked", "ALTER USER locked ACCOUNT UNLOCK there"]),
        ("blocked", ["1 consecutive failed logins", "ALTER USER blocked ACCOUNT UNLOCK there"]),
        ("expired", ["Your password has expired", "ALTER USER expired IDENTIFIED BY"]),
        ("tls", ["Access denied", "whether the account or the upstream requires an encrypted"]),
    ] {
        let mut spillway = capturing(server.port(), user, "secret", "DISABLED");
        assert_refused(&mut spillway, &words);
        let state = &spillway.status()["sources"][0];
        assert!(state.to_string().contains("\"refused\""), "{state}");
    }
    assert_logs_in(server.port(), "tls", "secret", "PREFERRED");
}

fn a_password_file_that_changes(server: &MySql) {
    server.run("CREATE USER filed@'%' IDENTIFIED BY 'first'");
    let directory = temp_dir("password");
    let file = directory.path().join("password");
    let mut spillway = capturing(server.port(), "filed", "", "DISABLED").with(
        "[[source]]",
        "password_file",
        &format!("\"{}\"", file.display()),
    );
    spillway.config().unset("[[source]]", "password");
    for password in ["first", "second"] {
        server.run(&format!("ALTER USER filed@'%' IDENTIFIED BY '{password}'"));
        assert_ne!(fault(&spillway), "", "nothing or the one before is in the file");
        std::fs::write(&file, format!("{password}\n")).unwrap();
        for _ in 0..2 {
            assert!(fault(&spillway).contains(LOGGED_IN));
        }
    }
}

fn encrypted_connections_only(server: &MySql) {
    server.run("SET GLOBAL require_secure_transport = ON");
    let said = login(server.port(), "spillway", "capture-secret", "DISABLED");
    assert!(said.contains("the upstream takes encrypted connections only"), "{said}");
    assert!(said.contains("set ssl_mode to \"REQUIRED\" or stricter"), "{said}");
    let check = capturing(server.port(), "spillway", "capture-secret", "PREFERRED").check();
    assert!(check.stdout.contains(LOGGED_IN) && check.stdout.contains("apps do not get in"));
    assert_logs_in(server.port(), "spillway", "capture-secret", "REQUIRED");
}

#[test]
fn each_ssl_mode_takes_the_certificate_it_should() {
    let Some(server) = MySql::start_new() else { return };
    let own = server.data_dir().join("ca.pem");
    server.run("ALTER USER spillway@'%' REQUIRE SSL");
    let with = |mode: &str, key: &'static str, file: &Path| {
        let spillway = capturing(server.port(), "spillway", "capture-secret", mode);
        spillway.with("[[source]]", key, &format!("\"{}\"", file.display()))
    };
    // As the server made them at its first start.
    assert_logs_in(server.port(), "spillway", "capture-secret", "REQUIRED");
    assert!(fault(&with("VERIFY_CA", "ssl_ca", &own)).contains(LOGGED_IN));
    let said = fault(&with("VERIFY_IDENTITY", "ssl_ca", &own));
    let names = "the upstream's certificate is for MySQL_Server_9.7";
    assert!(said.contains(names) && said.contains("not for 127.0.0.1"), "{said}");
    let (ca, stranger) = (Authority::new("ca"), Authority::new("stranger"));
    let said = fault(&with("VERIFY_CA", "ssl_ca", &stranger.file()));
    assert!(said.contains("issued by CN=MySQL_Server_9.7"), "{said}");
    // An authority's own.
    let issued = ca.issue(&["127.0.0.1"]);
    server.run(&format!(
        "SET GLOBAL ssl_ca = '{}'; SET GLOBAL ssl_cert = '{}'; SET GLOBAL ssl_key = '{}'; ALTER INSTANCE RELOAD TLS",
        ca.file().display(),
        issued.cert.display(),
        issued.key.display()
    ));
    for mode in ["VERIFY_CA", "VERIFY_IDENTITY"] {
        assert!(fault(&with(mode, "ssl_ca", &ca.file())).contains(LOGGED_IN), "{mode}");
        let said = fault(&with(mode, "ssl_ca", &stranger.file()));
        assert!(said.contains("issued by CN=ca, which is not in ssl_ca"), "{said}");
    }
    server.run("ALTER USER spillway@'%' REQUIRE X509");
    let said = fault(&with("VERIFY_IDENTITY", "ssl_ca", &ca.file()));
    assert!(said.contains("whether the account requires a client's certificate"), "{said}");
    for (authority, words) in
        [(&ca, LOGGED_IN), (&stranger, "the upstream refuses the certificate in ssl_cert")]
    {
        let client = authority.issue(&[]);
        let spillway = with("VERIFY_IDENTITY", "ssl_ca", &ca.file())
            .with("[[source]]", "ssl_cert", &format!("\"{}\"", client.cert.display()))
            .with("[[source]]", "ssl_key", &format!("\"{}\"", client.key.display()));
        let said = fault(&spillway);
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn recording_it_is_refused_once_and_the_relay_goes_on() {
    let Some(server) = MySql::start_new() else { return };
    let proxy = Proxy::start(server.port());
    let mut spillway = capturing(proxy.port(), "spillway", "capture-secret", "PREFERRED");
    let version = server.query("SELECT VERSION()").scalar();
    let words = [&format!("is {version}"), LOGGED_IN, "set capture = false"];
    let said = fault(&spillway);
    assert!(said.contains(words[0]) && said.contains("set `capture = false` to relay"), "{said}");
    spillway.launch();
    wait::until("/status says so", || {
        let status = spillway.http("/status")?.1;
        words.iter().all(|word| status.contains(*word)).then_some(())
    });
    let before = proxy.accepted();
    for _ in 0..30 {
        Client::connect(spillway.relay_port(), "root", "").unwrap().query("SELECT 1").unwrap();
    }
    // It is looked at again every ten seconds, not at once.
    assert!(proxy.accepted() <= before + 31, "connects again and again");
    let log = spillway.log();
    assert_eq!(log.matches("ERROR").count(), 1, "{log}");
    assert!(words.iter().all(|word| log.contains(*word)), "{log}");
    assert_eq!(spillway.metric("spillway_source_bytes_total").unwrap_or_default(), 0.0);
    assert!(spillway.binlog_files().is_empty(), "something was recorded");
}
