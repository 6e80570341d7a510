//! Status variables: the few that monitoring of a replication source reads.

use crate::serve::session::Session;

/// Names as MariaDB spells them, with their values now.
pub(super) fn shown(session: &Session, accepts: impl Fn(&str) -> bool) -> Vec<(String, String)> {
    let service = &session.service;
    let all = service.connections.all();
    let dumps = all.iter().filter(|connection| connection.dump().is_some()).count();
    let values = [
        ("Rpl_semi_sync_master_clients", "0".to_owned()),
        ("Rpl_semi_sync_master_status", "OFF".to_owned()),
        ("Slaves_connected", dumps.to_string()),
        ("Ssl_cipher", String::new()),
        ("Threads_connected", all.len().to_string()),
        ("Uptime", service.started.elapsed().as_secs().to_string()),
    ];
    let passing = values.into_iter().filter(|(name, _)| accepts(name));
    passing.map(|(name, value)| (name.to_owned(), value)).collect()
}
