//! A new timeline that an operator has asked for with ALTER SOURCE, until the log has begun it. It is noted beside the log before
//! the operator hears OK, so that no restart forgets it, and tells what begins before that does, so that none begins twice.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use spillway_binlog::Log;
use spillway_binlog::gtid::Domains;
use spillway_binlog::gtid::mariadb::{self, GtidState};

use crate::capture::StartPosition;

/// The last part of the note's name.
pub(crate) const SUFFIX: &str = "alter";

/// Where a new timeline is to begin.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wanted {
    start: StartPosition,
    /// The log's newest file when it was asked for; 0 is none.
    file: u64,
    /// What the log is told to begin with, from when it may have begun: nothing more is handed to it before the note is gone.
    begins: Option<GtidState>,
}

impl Wanted {
    /// Whether the log has begun it. With its first file it begins no timeline, and had nothing of the source before.
    fn has_begun(&self, log: &Log, domains: &Domains) -> bool {
        let Some(begins) = &self.begins else { return false };
        let is_first = || {
            self.file == 0 && log.end().file > 0 && *begins == domains.of_state(&log.gtid_state())
        };
        log.has_begun_behind(self.file, domains) || is_first()
    }

    fn to_text(&self, source: &str) -> String {
        let Self { start, file, begins } = self;
        let mut text = format!("source {source}\nstart {start}\nfile {file}\n");
        if let Some(state) = begins {
            text.push_str(&format!("begins {}\n", mariadb::print_list(&state.list())));
        }
        let sum = crc32fast::hash(text.as_bytes());
        text.push_str(&format!("crc32 {sum:08x}\n"));
        text
    }

    /// `None` for what [`Wanted::to_text`] has not written for this source.
    fn parse(text: &str, source: &str) -> Option<Self> {
        let (start, file, begins) = match text.lines().collect::<Vec<_>>().as_slice() {
            [_, start, file, _] => (*start, *file, None),
            [_, start, file, begins, _] => (*start, *file, Some(*begins)),
            _ => return None,
        };
        let state = |line: &str| {
            let list = mariadb::parse_list(line.strip_prefix("begins ")?).ok()?;
            Some(GtidState::from_list(&list))
        };
        let wanted = Self {
            start: start.strip_prefix("start ")?.parse().ok()?,
            file: file.strip_prefix("file ")?.parse().ok()?,
            begins: match begins {
                Some(line) => Some(state(line)?),
                None => None,
            },
        };
        (wanted.to_text(source) == text).then_some(wanted)
    }
}

/// Why ALTER SOURCE is refused.
#[derive(Debug, thiserror::Error)]
pub enum BeginAnewError {
    /// The source may well go on by itself, or is beginning one.
    #[error("capture of the source is {0}: a new timeline is for one that is diverged or refused")]
    NotHeldUp(&'static str),
    /// It cannot be noted, so a restart would forget it.
    #[error("cannot note the new timeline beside the log: {0}")]
    NotNoted(#[from] io::Error),
}

/// Why a note from an earlier life is passed over.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoteError {
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
    #[error("it is damaged")]
    Damaged,
    #[error("it is about another log, which had a file {0}")]
    Stale(u64),
}

/// The new timeline of one source, where one is wanted.
#[derive(Debug, Default)]
pub(super) struct NewStart(Mutex<Slot>);

#[derive(Debug, Default)]
struct Slot {
    wanted: Option<Wanted>,
    /// A session works on it.
    in_hand: bool,
}

impl NewStart {
    /// Whether one is wanted that no session works on yet.
    pub(super) fn is_waiting(&self) -> bool {
        let slot = self.lock();
        slot.wanted.is_some() && !slot.in_hand
    }

    /// Wants one, on disk when this is over. A session that is on its way without it is to end.
    pub(super) fn want(
        &self,
        log: &Log,
        source: &str,
        start: StartPosition,
    ) -> Result<(), BeginAnewError> {
        let mut slot = self.lock();
        if slot.in_hand && slot.wanted.is_some() {
            return Err(BeginAnewError::NotHeldUp("beginning one"));
        }
        let wanted = Wanted { start, file: log.end().file, begins: None };
        log.set_note(source, SUFFIX, wanted.to_text(source).as_bytes())?;
        *slot = Slot { wanted: Some(wanted), in_hand: false };
        Ok(())
    }

    /// Takes up what an earlier life of the process has noted. Answers where it is to begin.
    pub(super) fn restore(
        &self,
        log: &Log,
        source: &str,
    ) -> Result<Option<StartPosition>, NoteError> {
        let Some(bytes) = log.note(source, SUFFIX)? else { return Ok(None) };
        let text = std::str::from_utf8(&bytes).map_err(|_| NoteError::Damaged)?;
        let wanted = Wanted::parse(text, source).ok_or(NoteError::Damaged)?;
        if wanted.file > log.end().file {
            return Err(NoteError::Stale(wanted.file));
        }
        let start = wanted.start.clone();
        *self.lock() = Slot { wanted: Some(wanted), in_hand: false };
        Ok(Some(start))
    }

    /// Forgets what the log has begun before somebody could say so. Answers whether there was such a one. A state does not tell: that
    /// of the history before can be the same.
    pub(super) fn forget_begun(
        &self,
        log: &Log,
        source: &str,
        domains: &Domains,
    ) -> io::Result<bool> {
        let wanted = self.lock().wanted.clone();
        let has = wanted.is_some_and(|wanted| wanted.has_begun(log, domains));
        if has {
            self.begun(log, source)?;
        }
        Ok(has)
    }

    /// From here on it cannot be asked for otherwise, until the attempt is over.
    pub(super) fn take(&self) -> Option<StartPosition> {
        let mut slot = self.lock();
        slot.in_hand = true;
        slot.wanted.as_ref().map(|wanted| wanted.start.clone())
    }

    /// The attempt is over.
    pub(super) fn put_back(&self) {
        self.lock().in_hand = false;
    }

    /// Notes what the log is about to begin with. Answers whether a new timeline is wanted at all.
    pub(super) fn begins(&self, log: &Log, source: &str, state: GtidState) -> io::Result<bool> {
        let mut slot = self.lock();
        let in_hand = slot.in_hand;
        // One that was asked for since this attempt began is the next one's.
        let Some(wanted) = slot.wanted.as_mut().filter(|_| in_hand) else { return Ok(false) };
        let noted = Wanted { begins: Some(state), ..wanted.clone() };
        log.set_note(source, SUFFIX, noted.to_text(source).as_bytes())?;
        *wanted = noted;
        Ok(true)
    }

    /// The log has begun it.
    pub(super) fn begun(&self, log: &Log, source: &str) -> io::Result<()> {
        let mut slot = self.lock();
        log.remove_note(source, SUFFIX)?;
        slot.wanted = None;
        Ok(())
    }

    /// What it guards is only ever replaced whole.
    fn lock(&self) -> MutexGuard<'_, Slot> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted() -> Wanted {
        let list = mariadb::parse_list("0-1-6,0-2-7,1-9-1").unwrap();
        Wanted {
            start: StartPosition::Gtid(mariadb::parse_list("0-1-5,1-9-1").unwrap()),
            file: 3,
            begins: Some(GtidState::from_list(&list)),
        }
    }

    #[test]
    fn a_note_reads_back() {
        let empty = Some(GtidState::default());
        for start in [StartPosition::Oldest, StartPosition::Current, wanted().start] {
            for begins in [None, empty.clone(), wanted().begins] {
                let wanted = Wanted { start: start.clone(), file: 7, begins };
                assert_eq!(Wanted::parse(&wanted.to_text("main"), "main"), Some(wanted));
            }
        }
    }

    #[test]
    fn a_note_that_is_cut_or_changed_is_no_note() {
        let text = wanted().to_text("main");
        assert_eq!(Wanted::parse(&text, "other"), None);
        for at in 0..text.len() {
            assert_eq!(Wanted::parse(&text[..at], "main"), None, "{at}");
            for flipped in [0x01, 0x20] {
                let mut bytes = text.clone().into_bytes();
                bytes[at] ^= flipped;
                if let Ok(changed) = String::from_utf8(bytes) {
                    assert_eq!(Wanted::parse(&changed, "main"), None, "{at}");
                }
            }
        }
    }
}
