//! Waiting for a condition with a deadline: the only way a test here waits.

use std::fmt::Debug;
use std::time::{Duration, Instant};

/// How long a condition may take before the test fails. Generous: it is a safety net, not a measurement.
/// `$SPILLWAY_TEST_DEADLINE` sets another number of seconds.
pub fn deadline() -> Duration {
    let seconds = std::env::var("SPILLWAY_TEST_DEADLINE").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(120))
}

const PAUSE: Duration = Duration::from_millis(10);

/// Polls `probe` until it gives a value; panics with `what` after [`deadline`].
pub fn until<T>(what: &str, probe: impl FnMut() -> Option<T>) -> T {
    until_within(deadline(), what, probe)
}

/// As [`until`], with another deadline.
pub fn until_within<T>(deadline: Duration, what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(value) = probe() {
            return value;
        }
        assert!(begin.elapsed() < deadline, "waited {deadline:?} in vain until {what}");
        std::thread::sleep(PAUSE);
    }
}

/// Polls `probe` until it gives `wanted`; on failure the message shows the last value seen.
pub fn until_equal<T: PartialEq + Debug>(what: &str, wanted: &T, mut probe: impl FnMut() -> T) {
    let (begin, deadline) = (Instant::now(), deadline());
    loop {
        let seen = probe();
        if seen == *wanted {
            return;
        }
        assert!(
            begin.elapsed() < deadline,
            "waited {deadline:?} in vain until {what}: wanted {wanted:?}, last seen {seen:?}"
        );
        std::thread::sleep(PAUSE);
    }
}
