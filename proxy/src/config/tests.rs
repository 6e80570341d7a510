//! Every fault gives the sentence that helps; what is accepted means what the file says.

use std::path::PathBuf;

use spillway_binlog::CommitLevel;

use super::*;
use crate::capture::StartPosition;
use crate::serve::{self, Privilege};
use crate::tls::{ClientCertificate, SslMode, TlsOptions};

const SMALLEST: &str =
    "server_id = 1\n[[source]]\nservers = [\"db:3306\"]\nuser = \"u\"\npassword = \"\"\n";

fn parse(text: &str) -> Result<Config, String> {
    Config::parse(text, Path::new("f")).map_err(|error| error.to_string())
}

fn only(config: &Config) -> &Source {
    let [source] = &config.sources[..] else { panic!("{} sources", config.sources.len()) };
    source
}

fn error_of(text: &str) -> String {
    parse(text).err().unwrap_or_else(|| panic!("accepted: {text}"))
}

/// Faults in one section each: `(section header, line, what the sentence must contain)`.
fn expect_faults(header: &str, cases: &[(&str, &str)]) {
    for (line, expected) in cases {
        let text = match header {
            "" => format!("{line}\n{SMALLEST}"),
            "[[source]]" => format!("{SMALLEST}{line}\n"),
            _ => format!("{SMALLEST}{header}\n{line}\n"),
        };
        let error = error_of(&text);
        assert!(error.contains(expected), "{line}\n  said: {error}\n  want: {expected}");
    }
}

#[test]
fn the_smallest_file_takes_every_default() {
    let config = parse(SMALLEST).unwrap();
    assert_eq!(config.server_id, 1);
    assert_eq!(only(&config).name, "main");
    assert_eq!(only(&config).server.to_string(), "db:3306");
    assert_eq!(only(&config).listen, None);
    assert_eq!(only(&config).max_connections, 1024);
    let capture = only(&config).capture.clone().unwrap();
    assert_eq!((capture.user.as_str(), capture.start), ("u", StartPosition::Oldest));
    assert_eq!(capture.password, Password::Given(Secret::new("")));
    assert_eq!(config.binlog.dir, PathBuf::from("spillway-data"));
    assert_eq!(config.binlog.log_bin, "binlog");
    assert_eq!(config.binlog.binlog_row_event_max_size, 65_536);
    assert_eq!(config.binlog.max_binlog_cache_size, None);
    assert_eq!(config.binlog.max_binlog_size, 1 << 30);
    assert_eq!(config.binlog.binlog_checksum, Checksum::Crc32);
    assert_eq!(config.replicas.listen.to_string(), "127.0.0.1:4307");
    assert!(config.replicas.users.is_empty());
    assert_eq!(config.http.listen.to_string(), "127.0.0.1:4308");
    assert_eq!((config.log.level, config.log.format), (LogLevel::Info, LogFormat::Text));
}

#[test]
fn the_example_in_deploy_is_accepted() {
    let config = parse(include_str!("../../../deploy/spillway.toml")).unwrap();
    assert_eq!(only(&config).listen.unwrap().port(), 4306);
    let user = config.replicas.users.first().unwrap();
    assert_eq!(user.privileges, [Privilege::ReplicationSlave, Privilege::BinlogMonitor]);
    assert!(matches!(&user.secret, serve::Secret::PasswordFile(_)));
}

#[test]
fn every_default_is_within_its_own_bounds() {
    // A key whose default its own reader refused would be reported as missing.
    let user = "[[replicas.user]]\nname = \"r\"\npassword = \"\"\n";
    let config = parse(&format!("{SMALLEST}{user}")).unwrap();
    let first = config.replicas.users.first().unwrap();
    assert_eq!(first.privileges, [Privilege::ReplicationSlave]);
    assert!(first.hosts.is_empty());
    let month = std::time::Duration::from_secs(30 * 24 * 3600);
    assert_eq!(config.binlog.binlog_expire_logs_seconds, Some(month));
    assert_eq!(config.binlog.max_binlog_total_size, None);
}

#[test]
fn values_are_read_as_written() {
    let config = parse(
        "server_id = 0x10\n[[source]]\nname = \"a.b-c_1\"\nservers = [\"unix:/run/s.sock\"]\nlisten = \"[::1]:0\"\nuser = \"u\"\n\
         password = \"${PATH}\"\nstart = \"0-1-100,1-2-3\"\nmax_connections = 7\n[binlog]\ndir = \"/d\"\nlog_bin = \"mbin\"\n\
         binlog_row_event_max_size = \"8K\"\nmax_binlog_cache_size = \"2G\"\nmax_binlog_size = 4096\nbinlog_checksum = \"NONE\"\n\
         flush_log_at_trx_commit = 2\nbinlog_mmap = false\nbinlog_cache_size = \"4KiB\"\nbinlog_large_commit_threshold = \"10MiB\"\n\
         binlog_expire_logs_seconds = 0\nmax_binlog_total_size = \"500GiB\"\n\
         [[replicas.user]]\nname = \"r\"\nauthentication_string = \"*0123456789ABCDEF0123456789abcdef01234567\"\n\
         hosts = [\"10.0.0.0/8\", \"::1\"]\nprivileges = [\"BINLOG MONITOR\"]\n[log]\nlevel = \"debug\"\nformat = \"json\"\n",
    )
    .unwrap();
    assert_eq!((config.server_id, only(&config).max_connections), (16, 7));
    let capture = only(&config).capture.clone().unwrap();
    assert_eq!(capture.start, "0-1-100,1-2-3".parse().unwrap());
    assert_eq!(capture.password, Password::Given(Secret::new(std::env::var("PATH").unwrap())));
    assert_eq!(config.binlog.binlog_row_event_max_size, 8192);
    assert_eq!(config.binlog.max_binlog_cache_size, Some(2 << 30));
    assert_eq!(config.binlog.flush_log_at_trx_commit, CommitLevel::Two);
    assert!(!config.binlog.binlog_mmap);
    assert_eq!(config.binlog.binlog_cache_size, 4096);
    assert_eq!(config.binlog.binlog_large_commit_threshold, 10 << 20);
    assert_eq!(config.binlog.max_binlog_size, 4096);
    assert_eq!(config.binlog.binlog_checksum, Checksum::None);
    assert_eq!(config.binlog.binlog_expire_logs_seconds, None);
    assert_eq!(config.binlog.max_binlog_total_size, Some(500 << 30));
    let user = config.replicas.users.first().unwrap();
    let hosts: Vec<_> = user.hosts.iter().map(ToString::to_string).collect();
    assert_eq!(hosts, ["10.0.0.0/8", "::1/128"]);
    assert_eq!(user.privileges, [Privilege::BinlogMonitor]);
}

#[test]
fn a_source_is_semi_synchronous_only_where_it_is_asked_to_be() {
    let asked = |text: &str| parse(text).unwrap().sources.remove(0).capture.unwrap().semi_sync;
    assert!(!asked(SMALLEST));
    assert!(asked(&format!("{SMALLEST}semi_sync = true\n")));
    expect_faults("[[source]]", &[("semi_sync = 1", "true or false")]);
}

#[test]
fn what_is_the_behaviour_today_may_be_written_out() {
    parse(&format!(
        "{SMALLEST}commit_ack = \"upstream\"\n\
         [relay]\nrequire_secure_transport = false\nproxy_protocol_networks = []\nproxy_protocol_to_upstream = false\n\
         [replicas]\nrequire_secure_transport = false\n"
    ))
    .unwrap();
}

#[test]
fn what_does_not_exist_yet_is_known_and_refused() {
    let gone = "is not available in this release";
    for (header, lines) in [
        (
            "[[source]]",
            &[
                "commit_ack = \"durable\"",
                "commit_ack_replicas = 1",
                "commit_ack_timeout = \"10s\"",
                "commit_ack_on_timeout = \"ack\"",
            ][..],
        ),
        (
            "[relay]",
            &[
                "ssl_cert = \"c.pem\"",
                "ssl_key = \"k.pem\"",
                "require_secure_transport = true",
                "proxy_protocol_networks = [\"10.0.0.0/8\"]",
                "proxy_protocol_to_upstream = true",
            ],
        ),
        (
            "[replicas]",
            &["ssl_cert = \"c.pem\"", "ssl_key = \"k.pem\"", "require_secure_transport = true"],
        ),
    ] {
        let cases: Vec<_> = lines.iter().map(|line| (*line, gone)).collect();
        expect_faults(header, &cases);
        let values: Vec<_> = lines.iter().map(|line| (*line, *line)).collect();
        expect_faults(header, &values);
    }
    expect_faults("[[source]]", &[("commit_ack = 5", "release: only `\"upstream\"` is")]);
    expect_faults("[[source]]", &[("commit_ack_replicas = 1", "release: leave it out")]);
}

#[test]
fn encryption_towards_the_upstream_is_read_and_its_parts_belong_together() {
    let tls = |lines: &str| parse(&format!("{SMALLEST}{lines}")).unwrap().sources.remove(0).tls;
    assert_eq!(tls(""), TlsOptions::default());
    assert_eq!(TlsOptions::default().mode, SslMode::Preferred);
    let all =
        tls("ssl_mode = \"VERIFY_IDENTITY\"\nssl_ca = \"ca\"\nssl_cert = \"c\"\nssl_key = \"k\"\n");
    let client = ClientCertificate { cert: "c".into(), key: "k".into() };
    let expected =
        TlsOptions { mode: SslMode::VerifyIdentity, ca: Some("ca".into()), client: Some(client) };
    assert_eq!(all, expected);
    expect_faults(
        "[[source]]",
        &[
            ("ssl_mode = \"required\"", "\"VERIFY_IDENTITY\""),
            ("ssl_mode = \"VERIFY_CA\"", "`source.ssl_ca` is missing"),
            ("ssl_cert = \"c\"", "`source.ssl_key` is missing"),
            ("ssl_key = \"k\"", "`source.ssl_cert` is missing"),
            ("ssl_ca = \"\"", "a path"),
        ],
    );
}

#[test]
fn a_value_out_of_bounds_is_named_with_what_is_allowed() {
    expect_faults(
        "[[source]]",
        &[
            (
                "name = \"a b\"",
                "f line 6: `source.name = \"a b\"` is refused: allowed is 1 to 64 letters",
            ),
            (
                "listen = \"4306\"",
                "`source.listen = \"4306\"` is refused: allowed is an address and port",
            ),
            (
                "capture = \"yes\"",
                "`source.capture = \"yes\"` is refused: allowed is true or false",
            ),
            ("start = \"newest\"", "allowed is \"oldest\", \"current\" or a GTID position"),
            ("start = \"0-1\"", "`source.start = \"0-1\"` is refused"),
            ("start = \"0-1-1,0-2-2\"", "is refused"),
            (
                "gtid_domains = []",
                "`source.gtid_domains = []` is refused: allowed is a list of one",
            ),
            ("gtid_domains = [1, 1]", "allowed is a list of one or more different numbers"),
            ("gtid_domains = [4294967296]", "is refused"),
            ("gtid_domains = 1", "is refused"),
            (
                "max_connections = 0",
                "`source.max_connections = 0` is refused: allowed is a number from 1 to 100000",
            ),
            ("max_connections = 1.5", "`source.max_connections = 1.5` is refused"),
        ],
    );
    expect_faults(
        "[binlog]",
        &[
            ("dir = \"\"", "`binlog.dir = \"\"` is refused: allowed is a path"),
            ("log_bin = \"a/b\"", "`binlog.log_bin = \"a/b\"` is refused: allowed is a file name"),
            ("binlog_row_event_max_size = 255", "allowed is a size from 256 (bytes) to \"1GiB\""),
            (
                "binlog_row_event_max_size = \"2GiB\"",
                "`binlog.binlog_row_event_max_size = \"2GiB\"`",
            ),
            ("flush_log_at_trx_commit = 3", "allowed is 1, 2 or 0"),
            ("binlog_cache_size = \"1KiB\"", "allowed is a size from \"4KiB\" to \"1GiB\""),
            ("binlog_large_commit_threshold = \"1MiB\"", "allowed is a size of at least \"10MiB\""),
            ("binlog_mmap = 1", "allowed is true or false"),
            ("max_binlog_cache_size = \"1KiB\"", "allowed is a size of at least \"4KiB\""),
            ("max_binlog_size = \"1TiB\"", "allowed is a size from \"4KiB\" to \"1GiB\""),
            ("binlog_checksum = \"crc32\"", "allowed is \"CRC32\" or \"NONE\""),
        ],
    );
    expect_faults("[replicas]", &[("listen = 4307", "`replicas.listen = 4307` is refused")]);
    expect_faults(
        "[http]",
        &[("listen = \"localhost\"", "`http.listen = \"localhost\"` is refused")],
    );
    expect_faults(
        "[log]",
        &[
            (
                "level = \"loud\"",
                "allowed is \"error\", \"warn\", \"info\", \"debug\" or \"trace\"",
            ),
            (
                "format = \"xml\"",
                "`log.format = \"xml\"` is refused: allowed is \"text\" or \"json\"",
            ),
        ],
    );
    expect_faults(
        "[[replicas.user]]\nname = \"r\"",
        &[
            ("password = \"x\"\nhosts = [\"somewhere\"]", "allowed is a list of networks"),
            ("password = \"x\"\nhosts = []", "allowed is a list of networks"),
            (
                "password = \"x\"\nprivileges = [\"SUPER\"]",
                "allowed is a list of \"REPLICATION SLAVE\"",
            ),
        ],
    );
    for id in ["0", "4294967296", "-1", "\"1\""] {
        let text = SMALLEST.replace("server_id = 1", &format!("server_id = {id}"));
        let expected = format!(
            "f line 1: `server_id = {id}` is refused: allowed is a number from 1 to 4294967295"
        );
        assert_eq!(error_of(&text), expected);
    }
}

#[test]
fn an_unknown_name_is_refused_with_what_is_known() {
    expect_faults(
        "",
        &[("sever_id = 1", "f line 1: `sever_id` is unknown: the top of the file takes server_id")],
    );
    expect_faults(
        "[[source]]",
        &[(
            "listn = \"x\"",
            "line 6: `source.listn` is unknown: [source] takes name, servers, listen",
        )],
    );
    expect_faults(
        "[binlog]",
        &[("dirr = \"x\"", "line 7: `binlog.dirr` is unknown: [binlog] takes dir, log_bin")],
    );
    expect_faults("[relais]", &[("x = 1", "`relais` is unknown")]);
    expect_faults("[relay]", &[("x = 1", "`relay.x` is unknown")]);
    expect_faults("[replicas]", &[("x = 1", "`replicas.x` is unknown")]);
    expect_faults(
        "[http]",
        &[("port = 1", "`http.port` is a server's name: Spillway has one `listen` a section")],
    );
    expect_faults("[log]", &[("file = \"x\"", "`log.file` is unknown")]);
}

#[test]
fn a_servers_name_is_answered_with_ours() {
    expect_faults(
        "[binlog]",
        &[
            (
                "sync_binlog = 1",
                "`binlog.sync_binlog` is a server's name: Spillway calls it `binlog.flush_log_at_trx_commit`",
            ),
            ("expire_logs_days = 3", "Spillway calls it `binlog.binlog_expire_logs_seconds`"),
            (
                "max_binlog_stmt_cache_size = 1",
                "Spillway has one cache, `binlog.max_binlog_cache_size`",
            ),
        ],
    );
    expect_faults("", &[("gtid_mode = \"ON\"", "`gtid_mode` is a server's name: leave it out")]);
}

#[test]
fn a_section_of_the_wrong_kind_is_refused() {
    for (text, expected) in [
        ("server_id = 1\nsource = 3\n", "f line 2: `source` is a list of tables: write [[source]]"),
        ("server_id = 1\nsource = [3]\n", "`source` is a table: write [[source]]"),
        (
            "server_id = 1\n[source]\nname = \"x\"\n",
            "`source` is a list of tables: write [[source]]",
        ),
        ("binlog = \"x\"\n", "`binlog` is a table: write [binlog]"),
    ] {
        let error = error_of(text);
        assert!(error.contains(expected), "{text}\n  said: {error}\n  want: {expected}");
    }
}

#[test]
fn what_is_missing_is_named() {
    let without = |line: &str| error_of(&SMALLEST.replace(&format!("{line}\n"), ""));
    assert_eq!(
        without("server_id = 1"),
        "f: `server_id` is missing: set it to a number from 1 to 4294967295"
    );
    assert!(
        without("servers = [\"db:3306\"]")
            .contains("`source.servers` is missing: set it to a list with one")
    );
    assert!(without("user = \"u\"").contains("`source.user` is missing"));
    assert!(without("password = \"\"").contains("`source.password` is missing"));
    assert!(error_of("server_id = 1").contains("[[source]] is missing"));
    expect_faults("[[replicas.user]]", &[("password = \"x\"", "`replicas.user.name` is missing")]);
    expect_faults("[[replicas.user]]", &[("name = \"x\"", "`replicas.user.password` is missing")]);
}

#[test]
fn contradictions_are_refused() {
    expect_faults(
        "[[source]]",
        &[
            (
                "password_file = \"p\"",
                "`source.password` and `source.password_file` are both set: keep one",
            ),
            ("capture = false", "so there is nothing to do"),
            (
                "listen = \"127.0.0.1:4307\"",
                "`replicas.listen` and `source.listen` are both 127.0.0.1:4307",
            ),
            (
                "start = \"0-1-9,4-1-2\"\ngtid_domains = [0]",
                "`source.start` names domain 4, which `source.gtid_domains` does not",
            ),
        ],
    );
    expect_faults(
        "[http]",
        &[("listen = \"127.0.0.1:4307\"", "`http.listen` and `replicas.listen` are both")],
    );
    let two = SMALLEST.replace("\"db:3306\"", "\"a:1\", \"b:1\"");
    assert!(
        error_of(&two)
            .contains("a list of servers in `source.servers` is not available in this release")
    );
    let twice = "[[replicas.user]]\nname = \"r\"\npassword = \"\"\n".repeat(2);
    assert!(
        error_of(&format!("{SMALLEST}{twice}"))
            .contains("`replicas.user.name = \"r\"` is there twice")
    );
    let verifier = format!("authentication_string = \"*{}\"", "0".repeat(40));
    expect_faults(
        "[[replicas.user]]\nname = \"r\"\npassword = \"x\"",
        &[(&verifier, "a password and an `authentication_string`: keep one")],
    );
}

/// A file with these `[[source]]`, each from its lines; `user` and `password` are there.
fn sources(each: &[&str]) -> String {
    let mut text = "server_id = 1\n".to_owned();
    for lines in each {
        text += &format!("[[source]]\nuser = \"u\"\npassword = \"\"\n{lines}\n");
    }
    text
}

const A: &str = "name = \"a\"\nservers = [\"a:1\"]\ngtid_domains = [0, 3]";

#[test]
fn any_number_of_sources_is_read_in_the_files_order() {
    let config = parse(&sources(&[
        A,
        "name = \"b\"\nservers = [\"b:1\"]\ngtid_domains = [1]\nlisten = \"127.0.0.1:5\"",
        "name = \"c\"\nservers = [\"a:1\"]\ncapture = false\nlisten = \"127.0.0.1:6\"",
    ]))
    .unwrap();
    let read: Vec<_> = config
        .sources
        .iter()
        .map(|source| {
            let domains = source.capture.as_ref().map(|capture| capture.gtid_domains.clone());
            (source.name.as_str(), domains.flatten(), source.listen.map(|address| address.port()))
        })
        .collect();
    assert_eq!(
        read,
        [("a", Some([0, 3].into()), None), ("b", Some([1].into()), Some(5)), ("c", None, Some(6))]
    );
    let alone = parse(&sources(&[A])).unwrap();
    assert_eq!(only(&alone).capture.clone().unwrap().gtid_domains, Some([0, 3].into()));
    parse(&sources(&[
        "servers = [\"a:1\"]",
        "name = \"c\"\nservers = [\"c:1\"]\ncapture = false\nlisten = \"127.0.0.1:6\"",
    ]))
    .unwrap();
}

#[test]
fn sources_that_cannot_be_there_together_are_refused_with_both_names() {
    for (lines, expected) in [
        (
            "name = \"a\"\nservers = [\"b:1\"]\ngtid_domains = [1]",
            "f line 8: `source.name = \"a\"` is there twice: give each [[source]] its own",
        ),
        (
            "name = \"b\"\nservers = [\"b:1\"]\ngtid_domains = [1, 3]",
            "f line 8: `source.gtid_domains` of a and b both have 3",
        ),
        (
            "name = \"b\"\nservers = [\"b:1\"]",
            "f line 8: `source.gtid_domains` of b is missing: with more than one captured source",
        ),
        (
            "name = \"b\"\nservers = [\"a:1\"]\ngtid_domains = [1]",
            "f line 8: a and b are both captured from a:1",
        ),
        (
            "name = \"b\"\nservers = [\"b:1\"]\ngtid_domains = [1]\nlisten = \"127.0.0.1:4308\"",
            "`http.listen` and `source.listen` of b are both 127.0.0.1:4308",
        ),
    ] {
        let error = error_of(&sources(&[A, lines]));
        assert!(error.contains(expected), "{lines}\n  said: {error}\n  want: {expected}");
    }
    let unnamed = error_of(&sources(&["servers = [\"a:1\"]", "servers = [\"b:1\"]"]));
    assert!(unnamed.contains("`source.name = \"main\"` is there twice"), "{unnamed}");
    let [bare, b] = ["a", "b"].map(|name| format!("name = {name:?}\nservers = [\"{name}:1\"]"));
    let first = error_of(&sources(&[&bare, &format!("{b}\ngtid_domains = [1]")]));
    assert!(first.contains("`source.gtid_domains` of a is missing"), "{first}");
    let port = "listen = \"127.0.0.1:9\"";
    let b = format!("{b}\ngtid_domains = [1]\n{port}");
    let twice = error_of(&sources(&[&format!("{A}\n{port}"), &b]));
    assert!(
        twice.contains("`source.listen` of b and `source.listen` of a are both 127.0.0.1:9"),
        "{twice}"
    );
}

#[test]
fn a_secret_is_never_shown() {
    for (header, line) in [
        ("[[replicas.user]]\nname = \"r\"", "password = 4711"),
        ("[[replicas.user]]\nname = \"r\"", "authentication_string = \"4711\""),
        ("[[replicas.user]]\nname = \"r\"", "pasword = \"4711\""),
    ] {
        let error = error_of(&format!("{SMALLEST}{header}\n{line}\n"));
        assert!(!error.contains("4711"), "{error}");
    }
    let config = parse(&SMALLEST.replace("password = \"\"", "password = \"4711\"")).unwrap();
    assert!(!format!("{config:?}").contains("4711"));
}

#[test]
fn an_environment_variable_that_is_not_set_is_named() {
    let text = SMALLEST.replace("password = \"\"", "password = \"${SPILLWAY_TEST_UNSET}\"");
    let error = error_of(&text);
    assert!(
        error.contains("the environment variable SPILLWAY_TEST_UNSET, which is not set"),
        "{error}"
    );
}

#[test]
fn what_is_no_toml_is_refused_with_its_line() {
    let error = error_of("server_id = 1\n[[source]\n");
    assert!(error.starts_with("f line 2: this is not TOML: "), "{error}");
    assert!(!error.contains('\n'), "{error}");
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let error = Config::load(Path::new("/nonexistent/spillway.toml")).unwrap_err().to_string();
    assert!(
        error.starts_with("cannot read the configuration file /nonexistent/spillway.toml: "),
        "{error}"
    );
}

#[test]
fn docs_config_md_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/CONFIG.md");
    if std::env::var_os("SPILLWAY_WRITE_DOCS").is_some() {
        std::fs::write(path, render_docs()).unwrap();
    }
    let stored = std::fs::read_to_string(path).unwrap_or_default();
    assert!(stored == render_docs(), "stale: SPILLWAY_WRITE_DOCS=1 cargo test -p spillway config");
}

#[test]
fn every_sample_in_the_repository_is_accepted() {
    let readme = include_str!("../../../README.md");
    let (_, rest) = readme.split_once("```toml\n").unwrap();
    let (sample, _) = rest.split_once("```").unwrap();
    for text in [sample, include_str!("../../../deploy/compose/spillway.toml")] {
        let config = parse(text).unwrap();
        assert!(only(&config).listen.is_some() && only(&config).capture.is_some());
        assert_eq!(config.replicas.users.len(), 1);
    }
}
