//! A real MariaDB as replica of any port that speaks the protocol of a source.

use std::time::{Duration, Instant};

use crate::client::Client;
use crate::servers::Server;
use crate::wait;

/// The account of the replica port in every test configuration.
pub const REPLICA_USER: (&str, &str) = ("repl", "repl-secret");

/// Points the server at a source by GTID, from an empty state, and starts it.
pub fn attach(server: &Server, source_port: u16, login: (&str, &str)) {
    attach_at(server, source_port, login, "");
}

/// As [`attach`], from a GTID position. Without TLS, which newer releases ask for unless told not to.
pub fn attach_at(server: &Server, source_port: u16, login: (&str, &str), gtid: &str) {
    let (user, password) = login;
    server.run(&format!(
        "STOP SLAVE; RESET SLAVE ALL; SET GLOBAL gtid_slave_pos = '{gtid}';
         CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {source_port},
           MASTER_USER = '{user}', MASTER_PASSWORD = '{password}', MASTER_CONNECT_RETRY = 1,
           MASTER_SSL = 0,
           MASTER_USE_GTID = slave_pos, MASTER_HEARTBEAT_PERIOD = 2;
         START SLAVE"
    ));
}

/// As [`attach`], to apply the transactions of one domain alone.
pub fn attach_for_domain(server: &Server, source_port: u16, login: (&str, &str), domain: u32) {
    attach(server, source_port, login);
    server.run(&format!("STOP SLAVE; CHANGE MASTER TO DO_DOMAIN_IDS = ({domain}); START SLAVE"));
}

/// STOP SLAVE.
pub fn stop(server: &Server) {
    server.run("STOP SLAVE");
}

/// START SLAVE.
pub fn start(server: &Server) {
    server.run("START SLAVE");
}

/// Waits until the replica has applied `position`, as long as it makes progress. Fails at once when its SQL thread stops with an
/// error.
pub fn wait_applied(server: &Server, position: &str) {
    let wanted = sorted(position);
    let (mut since, mut before) = (Instant::now(), String::new());
    let mut client = server.root();
    loop {
        let seen = client.query("SELECT @@GLOBAL.gtid_slave_pos").expect("replica").scalar();
        if sorted(&seen) == wanted {
            return;
        }
        if seen != before {
            (since, before) = (Instant::now(), seen.clone());
        }
        let status = client.query("SHOW SLAVE STATUS").expect("SHOW SLAVE STATUS");
        let fine = status.named("Last_SQL_Errno").as_deref() == Some("0");
        if !fine || since.elapsed() > wait::deadline() {
            panic!("the replica is at {seen} instead of {position}:\n{}", state(&mut client));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What its replication threads do, for the message of a failure.
fn state(client: &mut Client) -> String {
    const SHOWN: [&str; 8] = [
        "Slave_IO_Running",
        "Slave_IO_State",
        "Gtid_IO_Pos",
        "Slave_SQL_Running",
        "Slave_SQL_Running_State",
        "Last_IO_Error",
        "Last_SQL_Error",
        "Relay_Log_Space",
    ];
    let status = client.query("SHOW SLAVE STATUS").expect("SHOW SLAVE STATUS");
    let mut lines: Vec<String> =
        SHOWN.map(|name| format!("{name}: {}", status.named(name).unwrap_or_default())).into();
    for sql in ["SHOW FULL PROCESSLIST", "XA RECOVER", "SHOW ENGINE INNODB STATUS"] {
        let rows = client.query(sql).map(|reply| reply.rows).unwrap_or_default();
        lines.extend(rows.iter().map(|row| {
            let row: Vec<&str> = row.iter().map(|cell| cell.as_deref().unwrap_or("NULL")).collect();
            row.join(" | ")
        }));
    }
    lines.join("\n")
}

/// Waits until the replica's I/O thread reports an error that contains `text`; gives the whole of it.
pub fn wait_io_error(server: &Server, text: &str) -> String {
    let mut client = server.root();
    wait::until(&format!("the replica's I/O error says `{text}`"), || {
        let status = client.query("SHOW SLAVE STATUS").expect("SHOW SLAVE STATUS");
        let number = status.named("Last_IO_Errno")?;
        let error = format!("{number}: {}", status.named("Last_IO_Error")?);
        error.contains(text).then_some(error)
    })
}

/// Domains in one order: a server may list them as it likes.
pub fn sorted(position: &str) -> Vec<String> {
    let mut gtids: Vec<String> =
        position.split(',').map(|gtid| gtid.trim().to_owned()).filter(|g| !g.is_empty()).collect();
    gtids.sort();
    gtids
}
