//! Notes beside the log: small files of whoever works with it, each replaced whole and on disk when the call is over.

use std::io;
use std::path::PathBuf;

use super::{Log, index};
use crate::fs::read_exact_at;

/// Nothing that was noted is larger.
const MAX_NOTE: u64 = 16 << 20;

impl Log {
    /// The names of the notes that end with `suffix`, without it.
    ///
    /// # Errors
    /// What the system said.
    pub fn notes(&self, suffix: &str) -> io::Result<Vec<String>> {
        let place = self.shared.place();
        let (before, after) = (format!("{}.", place.basename), format!(".{suffix}"));
        let names = place.fs.list(place.dir)?;
        let note = |name: &String| {
            let note = name.strip_prefix(&before)?.strip_suffix(&after)?;
            Some(note.to_owned())
        };
        Ok(names.iter().filter_map(note).collect())
    }

    /// Where a note is.
    pub fn note_path(&self, name: &str, suffix: &str) -> PathBuf {
        let place = self.shared.place();
        place.dir.join(format!("{}.{name}.{suffix}", place.basename))
    }

    /// What a note says; `None` where there is none.
    ///
    /// # Errors
    /// What the system said; [`io::ErrorKind::InvalidData`] for one that is too large.
    pub fn note(&self, name: &str, suffix: &str) -> io::Result<Option<Vec<u8>>> {
        let (place, path) = (self.shared.place(), self.note_path(name, suffix));
        let len = match place.fs.metadata(&path) {
            Ok(metadata) if metadata.len > MAX_NOTE => {
                return Err(io::ErrorKind::InvalidData.into());
            }
            Ok(metadata) => usize::try_from(metadata.len).map_err(io::Error::other)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut bytes = vec![0; len];
        read_exact_at(place.fs.open_read(&path)?.as_ref(), &mut bytes, 0)?;
        Ok(Some(bytes))
    }

    /// Writes a note, or another in its place.
    ///
    /// # Errors
    /// What the system said. Then the note says what it did, or this; after a crash, either.
    pub fn set_note(&self, name: &str, suffix: &str, bytes: &[u8]) -> io::Result<()> {
        index::replace(&self.shared.place(), &self.note_path(name, suffix), bytes, true)
    }

    /// Removes a note, where there is one.
    ///
    /// # Errors
    /// What the system said. Then the note may still be there, or be there again after a crash.
    pub fn remove_note(&self, name: &str, suffix: &str) -> io::Result<()> {
        let place = self.shared.place();
        match place.fs.remove(&self.note_path(name, suffix)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => place.fs.sync_dir(place.dir),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::LogOptions;

    #[test]
    fn notes_are_replaced_listed_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let open = || Log::open(LogOptions::new(dir.path(), 4307)).unwrap();
        let log = open();
        assert_eq!(log.note("a.b", "x").unwrap(), None);
        log.remove_note("a.b", "x").unwrap();
        log.set_note("a.b", "x", b"one").unwrap();
        log.set_note("a.b", "x", b"two").unwrap();
        log.set_note("c", "y", b"").unwrap();
        drop(log);
        let log = open();
        assert_eq!(log.note("a.b", "x").unwrap().unwrap(), b"two");
        assert_eq!(
            (log.notes("x").unwrap(), log.notes("y").unwrap()),
            (vec!["a.b".into()], vec!["c".into()])
        );
        log.remove_note("a.b", "x").unwrap();
        assert_eq!(log.note("a.b", "x").unwrap(), None);
        assert!(log.notes("x").unwrap().is_empty());
    }
}
