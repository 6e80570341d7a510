//! How long the upstream will still have what the log lacks.

use std::time::{Duration, SystemTime};

/// How an upstream keeps its binlog files: each until so long after it was last written. A purge by hand or by size is not foreseen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    keeps: Duration,
    /// Seconds by which its clock is ahead of ours.
    clock_ahead: i64,
}

impl Retention {
    /// Files are kept for `keeps`; its clock shows `its_now`, in Unix seconds.
    pub fn new(keeps: Duration, its_now: i64) -> Self {
        Self { keeps, clock_ahead: its_now.saturating_sub(unix(SystemTime::now())) }
    }

    /// What its clock shows now, in Unix seconds.
    fn its_now(self, now: SystemTime) -> i64 {
        unix(now).saturating_add(self.clock_ahead)
    }
}

/// Since when the upstream has something that the log lacks, as far as that is known. It is a bound: what is lacking was not
/// committed before.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lacking {
    /// Unix seconds of the upstream's clock; 0 while nothing is known.
    since: i64,
}

impl Lacking {
    /// All up to an event of this time was received. A session may set the time of its events, so one from the future is not
    /// believed, and one from the past changes nothing.
    pub(super) fn received(&mut self, timestamp: u32, retention: Option<Retention>) {
        let its_now = its_now(retention);
        self.since = self.since.max(i64::from(timestamp).min(its_now));
    }

    /// The log has all the upstream has.
    pub(super) fn nothing(&mut self, retention: Option<Retention>) {
        self.since = self.since.max(its_now(retention));
    }

    /// How long the upstream keeps what is lacking.
    pub(super) fn kept_for(
        self,
        retention: Option<Retention>,
        now: SystemTime,
    ) -> Option<Duration> {
        let retention = retention.filter(|_| self.since != 0)?;
        let keeps = i64::try_from(retention.keeps.as_secs()).unwrap_or(i64::MAX);
        let left = self.since.saturating_add(keeps).saturating_sub(retention.its_now(now));
        Some(Duration::from_secs(u64::try_from(left).unwrap_or(0)))
    }
}

fn its_now(retention: Option<Retention>) -> i64 {
    let now = SystemTime::now();
    retention.map_or_else(|| unix(now), |retention| retention.its_now(now))
}

fn unix(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    #[test]
    fn counts_down_from_the_last_event_by_the_upstreams_clock() {
        let now = SystemTime::now();
        let its_now = unix(now) + 7200;
        let retention = Some(Retention::new(DAY, its_now));
        let mut lacking = Lacking::default();
        assert_eq!(lacking.kept_for(retention, now), None);
        lacking.received(u32::try_from(its_now - 3600).unwrap(), retention);
        assert_eq!(lacking.kept_for(None, now), None);
        let about = |left: Duration, wanted: u64| left.as_secs().abs_diff(wanted) <= 2;
        let left = |lacking: Lacking, later| lacking.kept_for(retention, now + later).unwrap();
        assert!(about(left(lacking, Duration::ZERO), 82_800));
        // Neither an event dated back nor one dated ahead counts.
        lacking.received(1, retention);
        assert!(about(left(lacking, Duration::ZERO), 82_800));
        lacking.received(u32::MAX, retention);
        assert!(about(left(lacking, Duration::ZERO), 86_400));
        lacking.nothing(retention);
        assert!(about(left(lacking, DAY / 2), 43_200));
        assert_eq!(left(lacking, DAY * 2), Duration::ZERO);
    }
}
