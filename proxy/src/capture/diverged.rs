//! The note beside the log that a source had another history when it was last heard. A restart must not forget that: the source may
//! have purged by then what showed it, and would be taken at its word.

use super::Context;

/// The last part of the note's name.
const SUFFIX: &str = "diverged";

/// Whether it is noted. A note that cannot be read is one.
pub(super) fn is_noted(Context { log, upstream, .. }: &Context) -> bool {
    !matches!(log.note(upstream.name(), SUFFIX), Ok(None))
}

/// Notes it, with a reason for who looks.
pub(super) fn note(Context { log, upstream, .. }: &Context, reason: &str) {
    let source = upstream.name();
    if let Err(error) = log.set_note(source, SUFFIX, format!("{reason}\n").as_bytes()) {
        tracing::warn!(source, %error, "cannot note beside the log that the source has diverged");
    }
}

/// The source goes on where the log ends, or where a new timeline begins.
pub(super) fn forget(Context { log, upstream, .. }: &Context) {
    let source = upstream.name();
    if let Err(error) = log.remove_note(source, SUFFIX) {
        tracing::warn!(source, %error, "cannot remove the note that the source has diverged");
    }
}
