//! Which replication domains a source records.

use std::collections::BTreeSet;

use super::mariadb::{Gtid, GtidState};

/// A source's replication domains: all there are, or those its configuration names (`gtid_domains`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Domains(Option<BTreeSet<u32>>);

impl Domains {
    /// Every domain: a source that records alone.
    pub fn all() -> Self {
        Self(None)
    }

    /// These and no others.
    pub fn only(domains: impl IntoIterator<Item = u32>) -> Self {
        Self(Some(domains.into_iter().collect()))
    }

    /// Whether transactions of this domain are recorded.
    pub fn contains(&self, domain: u32) -> bool {
        self.0.as_ref().is_none_or(|domains| domains.contains(&domain))
    }

    /// Whether it is every domain.
    pub fn is_all(&self) -> bool {
        self.0.is_none()
    }

    /// The GTIDs of a list that are in these domains, in the list's order.
    pub fn of_list(&self, list: &[Gtid]) -> Vec<Gtid> {
        list.iter().filter(|gtid| self.contains(gtid.domain)).copied().collect()
    }

    /// The part of a state that is in these domains.
    pub fn of_state(&self, state: &GtidState) -> GtidState {
        GtidState::from_list(&self.of_list(&state.list()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gtid::mariadb::{parse_list, print_list};

    #[test]
    fn names_what_it_records() {
        let state = GtidState::from_list(&parse_list("0-1-6,0-2-7,1-9-1,2-1-1").unwrap());
        let some = Domains::only([2, 0]);
        assert!(some.contains(0) && !some.contains(1) && !some.is_all());
        assert_eq!(print_list(&some.of_state(&state).list()), "0-1-6,0-2-7,2-1-1");
        assert_eq!(Domains::all().of_state(&state), state);
        assert!(Domains::all().contains(u32::MAX) && Domains::all().is_all());
    }
}
