//! A new timeline: where the log's history does not go on from one file to the next, because an operator or a new source began
//! domains at a state that the log did not have.
//!
//! The file that begins it says so in its Gtid_list ([`FLAG_TIMELINE`]), and which domains it is about: those whose state differs
//! from what the file before ended with, and all that an operator began anew. Their states may be equal: another history can have
//! come to the same numbers.
//!
//! [`FLAG_TIMELINE`]: crate::event::gtid_list::FLAG_TIMELINE

use crate::gtid::Domains;
use crate::gtid::mariadb::{Gtid, GtidState};

/// What is new in a file that begins a timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Timeline {
    /// The domains that begin anew.
    pub(crate) domains: Vec<u32>,
    /// The last GTID of each server in these domains before. Who stands at one of these numbers or a lower one may be of the old
    /// timeline: GTIDs do not tell.
    pub(crate) ended: Vec<Gtid>,
}

impl Timeline {
    /// Between the state at a file's end and the Gtid_list of the next: of the domains that differ, and of those that were begun
    /// `anew` whether they differ or not, as far as either side knows them.
    pub(crate) fn between(before: &GtidState, after: &GtidState, anew: &Domains) -> Self {
        let all = before.position().into_iter().chain(after.position());
        let mut domains: Vec<_> = all.map(|gtid| gtid.domain).collect();
        domains.sort_unstable();
        domains.dedup();
        domains.retain(|domain| {
            let only = Domains::only([*domain]);
            anew.contains(*domain) || only.of_state(before) != only.of_state(after)
        });
        Self::of(domains, before)
    }

    /// Of these domains, behind a file that ended with `before`.
    pub(crate) fn of(domains: Vec<u32>, before: &GtidState) -> Self {
        let ended = Domains::only(domains.iter().copied()).of_list(&before.list());
        Self { domains, ended }
    }

    /// Whether one of these domains begins here.
    pub(crate) fn begins(&self, domains: &Domains) -> bool {
        self.domains.iter().any(|domain| domains.contains(*domain))
    }

    /// Whether this GTID is, or may be, one of the timeline that ended.
    pub(crate) fn may_be_old(&self, gtid: Gtid) -> bool {
        let of_server = |ended: &&Gtid| (ended.domain, ended.server) == (gtid.domain, gtid.server);
        self.ended.iter().filter(of_server).any(|ended| gtid.sequence <= ended.sequence)
    }

    /// Whether someone with `replica` (one GTID a domain), who has all that the file before had, can go on in the file that begins
    /// with `list`: only with what it has of the new domains from elsewhere.
    pub(crate) fn can_enter(&self, list: &[Gtid], replica: impl Fn(u32) -> Option<Gtid>) -> bool {
        self.domains.iter().all(|domain| {
            let mut begun = list.iter().filter(|gtid| gtid.domain == *domain);
            let has = replica(*domain).filter(|gtid| !self.may_be_old(*gtid));
            match (begun.next_back(), has) {
                (Some(begun), Some(has)) => {
                    has == *begun || (has.server == begun.server && has.sequence > begun.sequence)
                }
                (Some(_), None) | (None, Some(_)) => false,
                (None, None) => self.ended.iter().all(|gtid| gtid.domain != *domain),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gtid::mariadb::{parse_list, print_list};

    fn state(text: &str) -> GtidState {
        GtidState::from_list(&parse_list(text).unwrap())
    }

    #[test]
    fn only_domains_that_differ_begin_anew() {
        let between = |anew: &[u32]| {
            let (before, after) = (state("0-1-5,2-1-1"), state("0-1-5,1-2-9,2-3-1"));
            let anew = Domains::only(anew.iter().copied());
            let timeline = Timeline::between(&before, &after, &anew);
            (timeline.domains, print_list(&timeline.ended))
        };
        assert_eq!(between(&[]), (vec![1, 2], "2-1-1".into()));
        // But for what an operator began anew; a domain that nobody has is none.
        assert_eq!(between(&[0, 7]), (vec![0, 1, 2], "0-1-5,2-1-1".into()));
    }

    #[test]
    fn who_stands_where_an_equal_state_begins_anew_cannot_enter() {
        let list = parse_list("0-1-5").unwrap();
        let timeline = Timeline::between(&state("0-1-5"), &state("0-1-5"), &Domains::all());
        let enters = |has: &str| timeline.can_enter(&list, |_| has.parse().ok());
        assert!(!enters("0-1-5") && !enters("0-1-4") && !enters(""));
        assert!(enters("0-1-6") && timeline.may_be_old(list[0]));
    }

    #[test]
    fn the_old_timeline_cannot_enter_the_new() {
        let list = parse_list("0-1-200,1-2-9").unwrap();
        let timeline =
            Timeline::between(&state("0-1-500"), &GtidState::from_list(&list), &Domains::only([]));
        let enters = |zero: &str, one: &str| {
            let has = [zero, one].map(|text| text.parse::<Gtid>().ok());
            timeline.can_enter(&list, |domain| has[domain as usize])
        };
        assert!(enters("0-1-501", "1-2-9") && enters("0-1-502", "1-2-10"));
        assert!(!enters("0-1-500", "1-2-9") && !enters("0-1-200", "1-2-9"));
        assert!(!enters("0-1-501", "") && !enters("", "1-2-9"));
        assert!(timeline.may_be_old(list[0]) && !timeline.may_be_old(list[1]));
        // Dropped without a word about where it goes on.
        let emptied = Timeline::between(&state("0-1-500"), &state(""), &Domains::only([]));
        assert!(!emptied.can_enter(&[], |_| Some("0-1-500".parse().unwrap())));
        assert!(!emptied.can_enter(&[], |_| None));
    }
}
