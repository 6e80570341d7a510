//! `binlog.index`: one file name a line, oldest first, as servers write it.

use std::io::{self, IoSlice};

use super::active::Place;
use super::files::{FileEntry, index_path};
use crate::fs::read_exact_at;
use std::sync::Arc;

/// Names in the index; `None` where there is none. A last line without its line end was never finished and does not count.
pub(crate) fn read(place: &Place<'_>) -> io::Result<Option<Vec<String>>> {
    let path = index_path(place.dir, place.basename);
    let file = match place.fs.metadata(&path) {
        Ok(_) => place.fs.open(&path, false)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let len = usize::try_from(file.size()?).map_err(io::Error::other)?;
    let mut bytes = vec![0; len];
    read_exact_at(file.as_ref(), &mut bytes, 0)?;
    let text = String::from_utf8(bytes).map_err(|error| io::Error::other(error.to_string()))?;
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    // Servers write `./binlog.000001` where `log_bin` has no path.
    let name = |line: &str| line.trim().trim_start_matches("./").to_owned();
    Ok(Some(whole.lines().map(name).filter(|name| !name.is_empty()).collect()))
}

/// Replaces the index, durably.
pub(crate) fn write(place: &Place<'_>, files: &[Arc<FileEntry>]) -> io::Result<()> {
    let text: String = files.iter().map(|entry| format!("{}\n", entry.name)).collect();
    let path = index_path(place.dir, place.basename);
    replace(place, &path, text.as_bytes(), true)
}

/// Takes names off the head of the index where there is no room for a new file: over the old bytes, which need no more. A crash in
/// between leaves lines that are no names, which readers pass over; the first is an old name or a new one.
pub(crate) fn shorten_in_place(place: &Place<'_>, files: &[Arc<FileEntry>]) -> io::Result<()> {
    let text: String = files.iter().map(|entry| format!("{}\n", entry.name)).collect();
    let file = place.fs.open(&index_path(place.dir, place.basename), false)?;
    if file.size()? < text.len() as u64 {
        return Err(io::ErrorKind::StorageFull.into());
    }
    file.write_all_at(&mut [IoSlice::new(text.as_bytes())], 0)?;
    file.set_len(text.len() as u64)?;
    file.sync_data()?;
    // It may be a new file, whose name could not be made durable for lack of room.
    place.fs.sync_dir(place.dir)
}

/// Writes a file beside `path` and renames it there, so that no reader ever sees half of it.
pub(crate) fn replace(
    place: &Place<'_>,
    path: &std::path::Path,
    bytes: &[u8],
    durable: bool,
) -> io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = std::path::PathBuf::from(new);
    let file = place.fs.open(&new, true)?;
    file.write_all_at(&mut [IoSlice::new(bytes)], 0)?;
    if durable {
        file.sync_data()?;
    }
    place.fs.rename(&new, path)?;
    if durable {
        place.fs.sync_dir(place.dir)?;
    }
    Ok(())
}
