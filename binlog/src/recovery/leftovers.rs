//! What a purge that was cut short has left: files that are out of the index and still on the disk.

use std::io;

use crate::fs::read_exact_at;
use crate::log::{Place, file_name, file_number, forget_purge, purge_path, remove_file};

/// More than the names of a hundred thousand files: nothing that a purge wrote.
const MAX_LIST: u64 = 32 << 20;

/// Removes what the purge has named and the index no longer does. Other files before the index's first are nobody's that is known
/// here: they stay, and are named. Nothing of it keeps a log from opening.
pub(super) fn clean_up(place: &Place<'_>, there: &[u64], first: u64) {
    let named = named(place).unwrap_or_else(|error| {
        tracing::warn!(%error, "cannot read the list of purged files");
        None
    });
    let is_named = |number| named.as_ref().is_some_and(|named| named.contains(number));
    let mut done = named.is_some();
    for number in there.iter().filter(|number| **number < first) {
        let file = file_name(place.basename, *number);
        if !is_named(number) {
            tracing::warn!(file, "not in the index, so not of the log: left alone");
            continue;
        }
        match remove_file(place, &file) {
            Ok(()) => tracing::info!(file, "removed what a purge has left"),
            Err(error) => {
                done = false;
                tracing::warn!(file, %error, "cannot remove what a purge has left");
            }
        }
    }
    let forgotten =
        if done { place.fs.sync_dir(place.dir).and_then(|()| forget_purge(place)) } else { Ok(()) };
    if let Err(error) = forgotten {
        tracing::warn!(%error, "cannot remove the list of purged files");
    }
}

/// Numbers in the list; `None` where there is none.
fn named(place: &Place<'_>) -> io::Result<Option<Vec<u64>>> {
    let path = purge_path(place);
    let len = match place.fs.metadata(&path) {
        Ok(metadata) => metadata.len.min(MAX_LIST),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = vec![0; usize::try_from(len).map_err(io::Error::other)?];
    read_exact_at(place.fs.open_read(&path)?.as_ref(), &mut bytes, 0)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(Some(text.lines().filter_map(|name| file_number(place.basename, name)).collect()))
}
