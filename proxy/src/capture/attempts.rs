//! What capture remembers from one session to the next.

use spillway_binlog::gtid::mariadb::Gtid;

use super::backoff::Backoff;
use super::fault::{Fault, Verdict};
use super::watch::Difference;

/// See the module's description.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    pub(super) backoff: Backoff,
    /// What the next session asks for.
    proof: Proof,
    /// The source had another history when it was last heard.
    diverged: bool,
    /// The transaction that the last session could not take: it is too large, or the disk is full.
    held_up_at: Option<Gtid>,
    /// What an idle upstream and the log differed in when that was last a reason to connect anew.
    stale: Option<Difference>,
}

/// What of the log a source has to send once more, to show that its history is the same. Less where it has purged that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Proof {
    /// The last transaction of each domain that is not far back.
    #[default]
    EachDomain,
    /// The last of all.
    Last,
    /// It is taken at its word.
    Nothing,
}

impl Attempts {
    /// Of a source that had another history in an earlier life of the process, or not.
    pub(super) fn new(diverged: bool) -> Self {
        Self { diverged, ..Self::default() }
    }

    /// Events arrive that go on where the log ends: all is well, whatever was before. Answers whether it had diverged.
    pub(super) fn streaming(&mut self) -> bool {
        self.backoff.reset();
        (self.proof, self.held_up_at) = (Proof::default(), None);
        std::mem::take(&mut self.diverged)
    }

    /// A source that had another history still has, although it has purged what would show it.
    pub(super) fn judged(&self, fault: Fault) -> Fault {
        if self.diverged && fault.is_purged() {
            let told =
                "so it was when it was last heard, and it has purged since what would show it";
            return Fault::Diverged(told.to_owned());
        }
        fault
    }

    /// The transaction that held up the session before: until it is passed, this one is no better.
    pub(super) fn held_up_at(&self) -> Option<Gtid> {
        self.held_up_at
    }

    /// What ended a session. Answers whether the source is found to have another history, which it had not before.
    pub(super) fn ended_by(&mut self, fault: &Fault) -> bool {
        self.held_up_at = fault.held_up_at().or(self.held_up_at);
        fault.verdict() == Verdict::Diverged && !std::mem::replace(&mut self.diverged, true)
    }

    /// Whether to connect anew because of a difference: not where that has changed nothing.
    pub(super) fn is_news(&mut self, difference: &Difference) -> bool {
        let known = self.stale.replace(difference.clone());
        known.as_ref() != Some(difference)
    }

    /// What this session asks for.
    pub(super) fn take_proof(&mut self) -> Proof {
        std::mem::take(&mut self.proof)
    }

    /// What to ask for at once, because the upstream has purged what the last session asked for and may still have what comes behind
    /// it. Never of one that was known to have another history: it could not be told from the right one.
    pub(super) fn goes_on_with(&mut self, fault: &Fault, asked_for: Proof) -> Option<Proof> {
        let less = match asked_for {
            Proof::EachDomain => Proof::Last,
            Proof::Last => Proof::Nothing,
            Proof::Nothing => return None,
        };
        let goes_on = fault.is_purged() && !self.diverged;
        goes_on.then(|| {
            self.proof = less;
            less
        })
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
        let all = Proof::EachDomain;
        assert_eq!(attempts.goes_on_with(&purged, all), Some(Proof::Last));
        assert_eq!((attempts.take_proof(), attempts.take_proof()), (Proof::Last, all));
        assert_eq!(attempts.goes_on_with(&purged, Proof::Last), Some(Proof::Nothing));
        assert_eq!(attempts.take_proof(), Proof::Nothing);
        assert_eq!(attempts.goes_on_with(&purged, Proof::Nothing), None);
        let diverged = Fault::Diverged(String::new());
        assert!(attempts.ended_by(&diverged) && !attempts.ended_by(&diverged));
        assert_eq!(attempts.goes_on_with(&diverged, all), None);
        assert_eq!(attempts.goes_on_with(&purged, all), None);
        assert!(attempts.streaming() && !attempts.streaming());
        assert_eq!(attempts.goes_on_with(&purged, all), Some(Proof::Last));
        // Nor in the next life.
        let mut attempts = Attempts::new(true);
        assert_eq!(attempts.goes_on_with(&purged, all), None);
        assert_eq!(attempts.judged(purged).verdict(), Verdict::Diverged);
    }
}
