//! Why the commit thread stops.

use std::io;

use super::syncer::SyncFailed;

/// Why nothing more is recorded.
pub(super) enum Stop {
    Failed(io::Error),
    /// Closed while the disk was full, or latched elsewhere.
    Closed,
}

impl From<SyncFailed> for Stop {
    fn from(_: SyncFailed) -> Self {
        Self::Closed
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}
