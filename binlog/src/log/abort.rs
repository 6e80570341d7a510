//! What becomes of the process when a thread that writes the log panics.

/// On a panic ends the process: a thread that writes the log is gone.
pub(super) struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        tracing::error!(
            "a thread that writes the log failed by a fault of Spillway's: ending the process, recovery will tell what is sound"
        );
        std::process::abort();
    }
}
