//! MariaDB's GTIDs (`domain-server-sequence`) and the state they add up to.

use std::fmt;
use std::str::FromStr;

/// One global transaction id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Gtid {
    /// Replication domain.
    pub domain: u32,
    /// The server that committed it first.
    pub server: u32,
    /// Number within the domain. It may go back: order is that of the log, not of numbers.
    pub sequence: u64,
}

/// The text is no GTID, or no comma-separated list of them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a MariaDB GTID: write domain-server-sequence, as in 0-1-100")]
pub struct ParseGtidError(String);

impl fmt::Display for Gtid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.domain, self.server, self.sequence)
    }
}

impl FromStr for Gtid {
    type Err = ParseGtidError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fault = || ParseGtidError(text.to_owned());
        let mut parts = text.trim().split('-');
        let mut part = || parts.next().ok_or_else(fault);
        let gtid = Self {
            domain: part()?.parse().map_err(|_| fault())?,
            server: part()?.parse().map_err(|_| fault())?,
            sequence: part()?.parse().map_err(|_| fault())?,
        };
        if parts.next().is_some() { Err(fault()) } else { Ok(gtid) }
    }
}

/// Reads a comma-separated list; an empty text is an empty list.
///
/// # Errors
/// [`ParseGtidError`] with the part that is no GTID.
pub fn parse_list(text: &str) -> Result<Vec<Gtid>, ParseGtidError> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    text.split(',').map(str::parse).collect()
}

/// Prints a list as servers do: `0-1-100,1-2-7`.
pub fn print_list(list: &[Gtid]) -> String {
    list.iter().map(Gtid::to_string).collect::<Vec<_>>().join(",")
}

/// What a log holds: per domain the last GTID of each server, the domain's latest GTID last.
///
/// The order is what MariaDB keeps (observed on 10.11: after `0-1-6,0-2-7` a write of server 1 makes `0-2-7,0-1-8`), and the
/// only thing that tells a domain's latest GTID: the highest number does not, sequence numbers may go back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GtidState {
    domains: Vec<Vec<Gtid>>,
}

impl GtidState {
    /// A state from a Gtid_list or `@@gtid_binlog_state`: of each domain's GTIDs the last is the latest.
    pub fn from_list(list: &[Gtid]) -> Self {
        let mut state = Self::default();
        for gtid in list {
            state.update(*gtid);
        }
        state
    }

    /// Takes in the next transaction of the log.
    pub fn update(&mut self, gtid: Gtid) {
        let Some(servers) = self.domains.iter_mut().find(|servers| same_domain(servers, gtid))
        else {
            self.domains.push(vec![gtid]);
            return;
        };
        // The usual case first: the server that wrote last in this domain writes again.
        match servers.iter().rposition(|known| known.server == gtid.server) {
            Some(at) if at + 1 == servers.len() => servers[at] = gtid,
            Some(at) => {
                servers.remove(at);
                servers.push(gtid);
            }
            None => servers.push(gtid),
        }
    }

    /// All GTIDs in the order of a Gtid_list event (`@@gtid_binlog_state`).
    pub fn list(&self) -> Vec<Gtid> {
        self.domains.iter().flatten().copied().collect()
    }

    /// The latest GTID of each domain (`@@gtid_binlog_pos`): where a replica that has all of this stands.
    pub fn position(&self) -> Vec<Gtid> {
        self.domains.iter().filter_map(|servers| servers.last()).copied().collect()
    }

    /// The latest GTID of a domain.
    pub fn latest(&self, domain: u32) -> Option<Gtid> {
        self.position().into_iter().find(|gtid| gtid.domain == domain)
    }

    /// The last GTID of a server in a domain.
    pub fn last_of(&self, domain: u32, server: u32) -> Option<Gtid> {
        let mut all = self.domains.iter().flatten();
        all.find(|gtid| gtid.domain == domain && gtid.server == server).copied()
    }

    /// With what another state has of a domain.
    #[must_use]
    pub fn with_domain(mut self, domain: u32, other: &Self) -> Self {
        let is_it = |servers: &Vec<Gtid>| servers.first().is_some_and(|one| one.domain == domain);
        self.domains.retain(|servers| !is_it(servers));
        self.domains.extend(other.domains.iter().filter(|servers| is_it(servers)).cloned());
        self
    }

    /// Whether there is no GTID in it.
    pub fn is_empty(&self) -> bool {
        self.domains.is_empty()
    }
}

fn same_domain(servers: &[Gtid], gtid: Gtid) -> bool {
    servers.first().is_some_and(|known| known.domain == gtid.domain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(text: &str) -> GtidState {
        GtidState::from_list(&parse_list(text).unwrap())
    }

    #[test]
    fn a_domains_latest_gtid_stands_last() {
        let mut state = state("0-1-6,0-2-7,1-9-1");
        state.update("0-1-8".parse().unwrap());
        assert_eq!(print_list(&state.list()), "0-2-7,0-1-8,1-9-1");
        assert_eq!(print_list(&state.position()), "0-1-8,1-9-1");
    }

    #[test]
    fn numbers_that_go_back_are_kept_as_they_came() {
        let mut state = state("0-1-30");
        state.update("0-1-3".parse().unwrap());
        assert_eq!(state.latest(0), Some("0-1-3".parse().unwrap()));
        assert_eq!(state.last_of(0, 1), state.latest(0));
        assert_eq!(state.last_of(0, 2), None);
    }

    #[test]
    fn refuses_what_is_no_gtid() {
        for text in ["", "0-1", "0-1-2-3", "a-1-2", "0-1--2", "4294967296-1-1", "0-1-2,"] {
            assert!(text.parse::<Gtid>().is_err(), "{text}");
        }
        assert!(parse_list("0-1-2,").is_err());
        assert_eq!(parse_list(" ").unwrap(), []);
    }
}
