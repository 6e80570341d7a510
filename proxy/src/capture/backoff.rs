//! How long to wait before the next attempt.

use std::time::Duration;

use super::fault::Verdict;

const FIRST: Duration = Duration::from_millis(100);
const CAP: Duration = Duration::from_secs(10);
/// The other replica is to be seen meanwhile: a MariaDB tries again after a minute.
const DUPLICATE_SERVER_ID: Duration = Duration::from_secs(30);
const FULL_DISK: Duration = Duration::from_secs(1);

/// Doubles from 100 ms up to 10 s; starts over once events arrive.
#[derive(Debug)]
pub(super) struct Backoff {
    next: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { next: FIRST }
    }
}

impl Backoff {
    pub(super) fn reset(&mut self) {
        self.next = FIRST;
    }

    /// What somebody has to change is looked at again every 10 s, a server id that another has every 30, a full disk every second.
    /// `None` is never.
    pub(super) fn next(&mut self, verdict: Verdict) -> Option<Duration> {
        match verdict {
            Verdict::Retry => {
                let wait = self.next;
                self.next = (wait * 2).min(CAP);
                Some(wait)
            }
            Verdict::DiskFull => Some(FULL_DISK),
            Verdict::Refused | Verdict::Diverged => Some(CAP),
            Verdict::DuplicateServerId => Some(DUPLICATE_SERVER_ID),
            Verdict::Stopped => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_up_to_the_cap_and_starts_over() {
        let mut backoff = Backoff::default();
        let waits: Vec<_> = (0..9)
            .filter_map(|_| backoff.next(Verdict::Retry))
            .map(|wait| wait.as_millis())
            .collect();
        assert_eq!(waits, [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
        assert_eq!(backoff.next(Verdict::Refused), Some(CAP));
        backoff.reset();
        assert_eq!(backoff.next(Verdict::Retry), Some(FIRST));
    }

    #[test]
    fn a_log_that_takes_nothing_more_is_not_tried_again() {
        assert_eq!(Backoff::default().next(Verdict::Stopped), None);
    }
}
