//! Whether an idle dump is still that of the upstream's binlog. After RESET MASTER a MariaDB 10.11 leaves a running dump at the end of
//! the removed file: heartbeats go on, and nothing that is committed from then on is sent (observed).

use spillway_binlog::gtid::Domains;
use spillway_binlog::gtid::mariadb::{self, Gtid};

use super::Context;
use super::connection::Connection;
use super::fault::Fault;

/// What an idle upstream and the log have: one GTID a domain, sorted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    theirs: Vec<Gtid>,
    ours: Vec<Gtid>,
}

/// Asks the upstream on a connection of its own, while the dump is idle.
#[derive(Debug, Default)]
pub(super) struct Watch {
    control: Option<Connection>,
    /// What differed at the last heartbeat.
    seen: Option<Difference>,
}

impl Watch {
    /// An event arrived: whatever differed may have been on its way.
    pub(super) fn not_idle(&mut self) {
        self.seen = None;
    }

    /// At a heartbeat, when all that was received is in the log. Answers what differs, where it did at the heartbeat before: the
    /// dump has sent nothing of it meanwhile.
    pub(super) async fn heartbeat(&mut self, context: &Context) -> Option<Difference> {
        let text = match self.ask(context).await {
            Ok(text) => text,
            Err(error) => {
                tracing::debug!(source = context.upstream.name(), %error, "the upstream does not say where it is");
                self.control = None;
                return None;
            }
        };
        let domains = &context.options.domains;
        let theirs = sorted(domains, &mariadb::parse_list(&text).ok()?);
        let ours = sorted(domains, &context.log.gtid_state().position());
        let found = (theirs != ours).then_some(Difference { theirs, ours });
        let stays = found.is_some() && self.seen == found;
        self.seen = found;
        self.seen.clone().filter(|_| stays)
    }

    async fn ask(&mut self, context: &Context) -> Result<String, Fault> {
        if self.control.is_none() {
            self.control = Some(super::session::connect(context).await?);
        }
        match &mut self.control {
            Some(control) => control.query_value("SELECT @@GLOBAL.gtid_binlog_pos").await,
            None => Ok(String::new()),
        }
    }
}

fn sorted(domains: &Domains, list: &[Gtid]) -> Vec<Gtid> {
    let mut list = domains.of_list(list);
    list.sort_unstable_by_key(|gtid| (gtid.domain, gtid.server, gtid.sequence));
    list
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [theirs, ours] = [&self.theirs, &self.ours].map(|list| mariadb::print_list(list));
        write!(f, "it is at [{theirs}], the log at [{ours}]")
    }
}
