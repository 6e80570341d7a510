//! A full disk, or too many open files, pause the commit thread, and nobody else.

use std::io;
use std::time::Duration;

use super::Shared;
use super::published::Health;
use super::stop::Stop;
use crate::fs;

/// How long to wait before what found no room is tried again. The crate's tests fill many disks.
const PAUSE: Duration = if cfg!(test) { Duration::from_millis(20) } else { Duration::from_secs(1) };

/// Tries again while the disk is full, or no file can be opened; readers and what is published are not affected.
pub(super) fn retry_while_short<T>(
    shared: &Shared,
    operation: impl FnMut() -> io::Result<T>,
) -> Result<T, Stop> {
    retry_while(shared, shortage, operation)
}

/// The same for a sync, which a full disk must not fail twice: what it was to make durable may be lost by then. One for which the
/// file could not be opened has not begun.
pub(super) fn retry_while_out_of_files<T>(
    shared: &Shared,
    operation: impl FnMut() -> io::Result<T>,
) -> Result<T, Stop> {
    retry_while(shared, |error| shortage(error).filter(|of| *of == Health::OutOfFiles), operation)
}

fn shortage(error: &io::Error) -> Option<Health> {
    if fs::is_full(error) {
        return Some(Health::DiskFull);
    }
    fs::is_out_of_files(error).then_some(Health::OutOfFiles)
}

fn retry_while<T>(
    shared: &Shared,
    passes: impl Fn(&io::Error) -> Option<Health>,
    mut operation: impl FnMut() -> io::Result<T>,
) -> Result<T, Stop> {
    let mut waits = false;
    loop {
        let result = operation();
        let short = result.as_ref().err().and_then(&passes);
        match (short, result) {
            (Some(health), Err(error)) => {
                let dir = shared.options.dir.display();
                if change_health(shared, health.clone()) {
                    let told = health.shortage().unwrap_or_default();
                    tracing::warn!(%error, %dir, "{told}");
                }
                waits = true;
                if shared.queue.pause(PAUSE) {
                    return Err(Stop::Closed);
                }
            }
            (_, result) => {
                if waits && change_health(shared, Health::Running) {
                    tracing::info!("the log goes on");
                }
                return Ok(result?);
            }
        }
    }
}

/// Answers whether it is another. Another thread may have latched the log meanwhile: that stays.
fn change_health(shared: &Shared, to: Health) -> bool {
    let mut changed = false;
    shared.published.update(|view| {
        let passes = view.health == Health::Running || view.health.shortage().is_some();
        if passes && view.health != to {
            (view.health, changed) = (to, true);
        }
    });
    changed
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
        let waited = retry_while_short(&log.shared, full::<()>);
        assert!(matches!(waited, Err(Stop::Closed)));
        assert!(matches!(log.health(), Health::Latched(_)), "{:?}", log.health());
    }

    #[test]
    fn room_again_does_not_hide_that_the_log_was_latched_meanwhile() {
        let sample = Sample::new();
        let log = Log::open(sample.options()).unwrap();
        let mut tries = 0;
        let written = retry_while_short(&log.shared, || {
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
