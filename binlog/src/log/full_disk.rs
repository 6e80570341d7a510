//! A full disk pauses the commit thread, and nobody else.

use std::io;
use std::time::Duration;

use super::Shared;
use super::commit::Stop;
use super::published::Health;
use crate::fs;

/// How long to wait before a write to a full disk is tried again. The crate's tests fill many disks.
const FULL_DISK_PAUSE: Duration =
    if cfg!(test) { Duration::from_millis(20) } else { Duration::from_secs(1) };

/// Tries again while the disk is full; readers and what is published are not affected.
pub(super) fn retry_while_full<T>(
    shared: &Shared,
    mut operation: impl FnMut() -> io::Result<T>,
) -> Result<T, Stop> {
    let mut reported = false;
    loop {
        match operation() {
            Err(error) if fs::is_full(&error) => {
                if !std::mem::replace(&mut reported, true) {
                    tracing::warn!(%error, dir = %shared.options.dir.display(), "the log's disk is full: waiting for room");
                    change_health(shared, &Health::Running, Health::DiskFull);
                }
                if shared.queue.pause(FULL_DISK_PAUSE) {
                    return Err(Stop::Closed);
                }
            }
            other => {
                if reported {
                    tracing::info!("the log's disk has room again");
                    change_health(shared, &Health::DiskFull, Health::Running);
                }
                return Ok(other?);
            }
        }
    }
}

/// Another thread may have latched the log meanwhile: that stays.
fn change_health(shared: &Shared, from: &Health, to: Health) {
    shared.published.update(|view| {
        if view.health == *from {
            view.health = to;
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Log;
    use crate::testing::Sample;

    fn full<T>() -> io::Result<T> {
        Err(io::ErrorKind::StorageFull.into())
    }

    #[test]
    fn a_full_disk_does_not_hide_that_the_log_is_latched() {
        let sample = Sample::new();
        let log = Log::open(sample.options()).unwrap();
        log.shared.latch(&io::Error::other("a sync failed"));
        // On the commit thread, which was at a write when the sync thread latched.
        let waited = retry_while_full(&log.shared, full::<()>);
        assert!(matches!(waited, Err(Stop::Closed)));
        assert!(matches!(log.health(), Health::Latched(_)), "{:?}", log.health());
    }

    #[test]
    fn room_again_does_not_hide_that_the_log_was_latched_meanwhile() {
        let sample = Sample::new();
        let log = Log::open(sample.options()).unwrap();
        let mut tries = 0;
        let written = retry_while_full(&log.shared, || {
            tries += 1;
            if tries == 1 {
                return full();
            }
            assert_eq!(log.health(), Health::DiskFull);
            log.shared.published.update(|view| view.health = Health::Latched("sync".into()));
            Ok(())
        });
        assert!(written.is_ok() && tries == 2);
        assert!(matches!(log.health(), Health::Latched(_)), "{:?}", log.health());
    }
}
