//! What capture remembers from one session to the next.

use spillway_binlog::gtid::mariadb::Gtid;

use super::backoff::Backoff;
use super::fault::{Fault, Verdict};
use super::watch::Difference;

/// See the module's description.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    pub(super) backoff: Backoff,
    /// The next session does not ask for the log's last transaction: the upstream has purged it.
    at_its_word: bool,
    /// The source had another history when it was last heard.
    diverged: bool,
    /// The transaction that the last session could not take for its size.
    too_large: Option<Gtid>,
    /// What an idle upstream and the log differed in when that was last a reason to connect anew.
    stale: Option<Difference>,
}

impl Attempts {
    /// Events arrive that go on where the log ends: all is well, whatever was before.
    pub(super) fn streaming(&mut self) {
        self.backoff.reset();
        (self.at_its_word, self.diverged, self.too_large) = (false, false, None);
    }

    /// The transaction that held up the session before: until it is passed, this one is no better.
    pub(super) fn held_up_at(&self) -> Option<Gtid> {
        self.too_large
    }

    /// What ended a session.
    pub(super) fn ended_by(&mut self, fault: &Fault) {
        self.too_large = fault.too_large().or(self.too_large);
    }

    /// Whether to connect anew because of a difference: not where that has changed nothing.
    pub(super) fn is_news(&mut self, difference: &Difference) -> bool {
        let known = self.stale.replace(difference.clone());
        known.as_ref() != Some(difference)
    }

    /// Whether this session takes the source at its word instead of asking for the log's last transaction once more.
    pub(super) fn take_at_its_word(&mut self) -> bool {
        std::mem::take(&mut self.at_its_word)
    }

    /// Whether to connect again at once, because the upstream has purged the log's last transaction and may still have what comes
    /// behind it. Never with one that was known to have another history: it could not be told from the right one.
    pub(super) fn goes_on_unproven(&mut self, fault: &Fault, was_at_its_word: bool) -> bool {
        self.diverged |= fault.verdict() == Verdict::Diverged;
        self.at_its_word = fault.is_purged() && !was_at_its_word && !self.diverged;
        self.at_its_word
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::fault;
    use crate::wire::reply::ErrPacket;

    #[test]
    fn a_purged_transaction_is_done_without_once_and_never_after_a_divergence() {
        let purged = ErrPacket::new(1236, b"HY000", "required binlog files have been purged.");
        let purged = fault::server(purged, "spillway", None);
        let mut attempts = Attempts::default();
        assert!(attempts.goes_on_unproven(&purged, false));
        assert!(attempts.take_at_its_word() && !attempts.take_at_its_word());
        assert!(!attempts.goes_on_unproven(&purged, true));
        assert!(!attempts.goes_on_unproven(&Fault::Diverged(String::new()), false));
        assert!(!attempts.goes_on_unproven(&purged, false));
        attempts.streaming();
        assert!(attempts.goes_on_unproven(&purged, false));
    }
}
