//! A real MariaDB as replica of any port that speaks the protocol of a source.

use crate::servers::Server;
use crate::wait;

/// The account of the replica port in every test configuration.
pub const REPLICA_USER: (&str, &str) = ("repl", "repl-secret");

/// Points the server at a source by GTID, from an empty state, and starts it.
pub fn attach(server: &Server, source_port: u16, login: (&str, &str)) {
    attach_at(server, source_port, login, "");
}

/// As [`attach`], from a GTID position.
pub fn attach_at(server: &Server, source_port: u16, login: (&str, &str), gtid: &str) {
    let (user, password) = login;
    server.run(&format!(
        "STOP SLAVE; RESET SLAVE ALL; SET GLOBAL gtid_slave_pos = '{gtid}';
         CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {source_port},
           MASTER_USER = '{user}', MASTER_PASSWORD = '{password}', MASTER_CONNECT_RETRY = 1,
           MASTER_USE_GTID = slave_pos, MASTER_HEARTBEAT_PERIOD = 2;
         START SLAVE"
    ));
}

/// STOP SLAVE.
pub fn stop(server: &Server) {
    server.run("STOP SLAVE");
}

/// START SLAVE.
pub fn start(server: &Server) {
    server.run("START SLAVE");
}

/// Waits until the replica has applied `position`. Fails at once when its SQL thread stops with an error.
pub fn wait_applied(server: &Server, position: &str) {
    let wanted = sorted(position);
    let what = format!("the replica is at {position}");
    let mut client = server.root();
    let mut last = String::new();
    wait::until(&what, || {
        let seen = client.query("SELECT @@GLOBAL.gtid_slave_pos").expect("replica").scalar();
        if sorted(&seen) == wanted {
            return Some(());
        }
        let status = client.query("SHOW SLAVE STATUS").expect("SHOW SLAVE STATUS");
        let field = |name: &str| status.named(name).unwrap_or_default();
        assert!(
            field("Last_SQL_Errno") == "0",
            "the replica's SQL thread stopped at {seen}: {}",
            field("Last_SQL_Error")
        );
        report_change(&mut last, &field("Last_IO_Error"));
        None
    });
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

/// An I/O error is no failure by itself (a restart in the middle is one); it is shown when the wait fails.
fn report_change(last: &mut String, now: &str) {
    if last != now {
        now.clone_into(last);
        if !now.is_empty() {
            eprintln!("the replica's I/O thread: {now}");
        }
    }
}
