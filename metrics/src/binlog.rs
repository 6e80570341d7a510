//! Metrics of the log: commits, syncs, size, latch.
