//! The GTID state at every file's begin is the server's own, with several server ids and domains.

use std::collections::{BTreeMap, BTreeSet};

use spillway_integration_tests::client::Client;
use spillway_integration_tests::servers::{APP_USER, Server};
use spillway_integration_tests::spillway::Spillway;
use spillway_integration_tests::stack::assert_log_equal;
use spillway_integration_tests::wait;

const ADMIN: &str = "[\"REPLICATION SLAVE\", \"BINLOG MONITOR\", \"BINLOG ADMIN\"]";
/// Domain and server id of each transaction, in order.
const WRITERS: &[(u32, u32)] = &[
    (0, 1),
    (0, 2),
    (5, 3),
    (0, 1),
    (5, 1),
    (0, 3),
    (5, 2),
    (5, 3),
    (0, 2),
    (0, 1),
    (5, 1),
    (0, 3),
];

/// What a list of GTIDs means: per domain the latest GTID, which stands last, and the set of the others. Their order is that of
/// a hash table in the server (observed on MariaDB 10.11: `0-1-5,0-2-4,0-3-6` though 0-2-4 was the older), which nobody reads.
fn meaning(list: &str) -> BTreeMap<String, (String, BTreeSet<String>)> {
    let mut domains = BTreeMap::new();
    for gtid in list.trim_matches(['[', ']']).split([',', ' ']).filter(|text| !text.is_empty()) {
        let domain = gtid.split('-').next().unwrap().to_owned();
        let entry: &mut (String, BTreeSet<String>) = domains.entry(domain).or_default();
        let before = std::mem::replace(&mut entry.0, gtid.to_owned());
        entry.1.extend((!before.is_empty()).then_some(before));
    }
    domains
}

/// What the Gtid_list of the newest file says.
fn last_list(client: &mut Client) -> String {
    let files = client.query("SHOW BINARY LOGS").unwrap().rows;
    let name = files.last().unwrap()[0].clone().unwrap();
    let events = client.query(&format!("SHOW BINLOG EVENTS IN '{name}'")).unwrap().rows;
    let list = events.iter().find(|row| row[2].as_deref() == Some("Gtid_list"));
    list.expect("a Gtid_list")[5].clone().unwrap()
}

#[test]
fn gtid_lists_equal_the_servers_own_with_three_server_ids_in_each_of_two_domains() {
    let upstream = Server::upstream();
    upstream.run("CREATE DATABASE d; CREATE TABLE d.t (id INT AUTO_INCREMENT PRIMARY KEY, s INT)");
    let mut spillway = Spillway::prepared(&upstream).with("[[replicas.user]]", "privileges", ADMIN);
    spillway.start();
    for (number, (domain, server)) in WRITERS.iter().enumerate() {
        upstream.run(&format!(
            "SET gtid_domain_id = {domain}; SET server_id = {server}; INSERT INTO d.t (s) VALUES ({server})"
        ));
        spillway.wait_recorded(&upstream.gtid_binlog_pos());
        if number % 4 == 3 {
            spillway.kill();
            spillway.start();
            wait::until("the replica port answers", || spillway.replica_client().ok());
        }
        let mut own = Client::connect(upstream.port(), APP_USER.0, APP_USER.1).unwrap();
        let mut log = spillway.replica_client().unwrap();
        own.query("FLUSH BINARY LOGS").unwrap();
        log.query("FLUSH BINARY LOGS").unwrap();
        let state = "SELECT @@GLOBAL.gtid_binlog_state";
        let wanted = own.query(state).unwrap().scalar();
        let recorded = log.query(state).unwrap().scalar();
        assert_eq!(meaning(&recorded), meaning(&wanted), "transaction {number}");
        let (recorded, wanted) = (last_list(&mut log), last_list(&mut own));
        assert_eq!(meaning(&recorded), meaning(&wanted), "transaction {number}");
    }
    let state = meaning(&upstream.query("SELECT @@GLOBAL.gtid_binlog_state").scalar());
    assert!(state.values().all(|(_, others)| others.len() == 2), "{state:?}");
    assert_log_equal(&upstream, &spillway);
}
