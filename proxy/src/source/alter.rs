//! What an operator has asked for with ALTER SOURCE, until it is done: a new timeline, or to go on with a server that holds the
//! log's last transaction in another form. It is noted beside the log before the operator hears OK, so that no restart forgets it.
//! What a new timeline begins is noted before the log is told, so that none begins twice.

mod note;

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use spillway_binlog::Log;
use spillway_binlog::alignment::AlignError;
use spillway_binlog::gtid::Domains;
use spillway_binlog::gtid::mariadb::{Gtid, GtidState};

use crate::capture::StartPosition;
pub(crate) use note::Vouched;
use note::{Asked, Wanted};

/// The last part of the note's name.
pub(crate) const SUFFIX: &str = "alter";

/// Why ALTER SOURCE is refused.
#[derive(Debug, thiserror::Error)]
pub enum AlterError {
    /// The source may well go on by itself, or is beginning one.
    #[error("capture of the source is {0}: a new timeline is for one that is diverged or refused")]
    NotHeldUp(&'static str),
    /// Only another form of what the log has can be vouched for.
    #[error("capture of the source is {0}: CONTINUE is for one that is diverged")]
    NotDiverged(&'static str),
    /// It has nothing to go on behind.
    #[error("the log has no transaction of the source's timeline that CONTINUE could go on behind")]
    NothingRecorded,
    /// The log's last transaction is not known.
    #[error(transparent)]
    Log(#[from] AlignError),
    /// It cannot be noted, so a restart would forget it.
    #[error("cannot note beside the log what was asked for: {0}")]
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

/// What is asked for of one source, where something is.
#[derive(Debug, Default)]
pub(super) struct Alter(Mutex<Slot>);

#[derive(Debug, Default)]
struct Slot {
    asked: Option<Asked>,
    /// A session works on it.
    in_hand: bool,
}

impl Slot {
    fn wanted(&self) -> Option<&Wanted> {
        match &self.asked {
            Some(Asked::Start(wanted)) => Some(wanted),
            _ => None,
        }
    }

    fn ask(&mut self, log: &Log, source: &str, asked: Asked) -> io::Result<()> {
        log.set_note(source, SUFFIX, asked.to_text(source).as_bytes())?;
        *self = Self { asked: Some(asked), in_hand: false };
        Ok(())
    }
}

impl Alter {
    /// Whether a new timeline is wanted that no session works on yet.
    pub(super) fn is_waiting(&self) -> bool {
        let slot = self.lock();
        slot.wanted().is_some() && !slot.in_hand
    }

    /// Wants a new timeline, on disk when this is over. A session that is on its way without it is to end.
    pub(super) fn want(
        &self,
        log: &Log,
        source: &str,
        start: StartPosition,
    ) -> Result<(), AlterError> {
        let mut slot = self.lock();
        if slot.in_hand && slot.wanted().is_some() {
            return Err(AlterError::NotHeldUp("beginning one"));
        }
        let wanted = Wanted { start, file: log.end().file, begins: None };
        Ok(slot.ask(log, source, Asked::Start(wanted))?)
    }

    /// Vouches for the log's last transaction of the source, on disk when this is over. Answers its GTID.
    pub(super) fn vouch(
        &self,
        log: &Log,
        source: &str,
        domains: &Domains,
    ) -> Result<Gtid, AlterError> {
        let last = last(log, domains)?.ok_or(AlterError::NothingRecorded)?;
        let mut slot = self.lock();
        if slot.in_hand && slot.wanted().is_some() {
            return Err(AlterError::NotDiverged("beginning a new timeline"));
        }
        slot.ask(log, source, Asked::Continue(last))?;
        Ok(last.gtid)
    }

    /// Takes up what an earlier life of the process has noted. Answers what that is, in words.
    pub(super) fn restore(&self, log: &Log, source: &str) -> Result<Option<String>, NoteError> {
        let Some(bytes) = log.note(source, SUFFIX)? else { return Ok(None) };
        let text = std::str::from_utf8(&bytes).map_err(|_| NoteError::Damaged)?;
        let asked = Asked::parse(text, source).ok_or(NoteError::Damaged)?;
        let told = match &asked {
            Asked::Start(wanted) if wanted.file > log.end().file => {
                return Err(NoteError::Stale(wanted.file));
            }
            Asked::Start(wanted) => new_timeline(&wanted.start),
            Asked::Continue(vouched) => going_on(vouched.gtid),
        };
        *self.lock() = Slot { asked: Some(asked), in_hand: false };
        Ok(Some(told))
    }

    /// Forgets what the log has begun before somebody could say so. Answers whether there was such a one. A state does not tell: that
    /// of the history before can be the same.
    pub(super) fn forget_begun(
        &self,
        log: &Log,
        source: &str,
        domains: &Domains,
    ) -> io::Result<bool> {
        let wanted = self.lock().wanted().cloned();
        let has = wanted.is_some_and(|wanted| wanted.has_begun(log, domains));
        if has {
            self.done(log, source)?;
        }
        Ok(has)
    }

    /// Answers where a new timeline is to begin. From here on it cannot be asked for otherwise, until the attempt is over.
    pub(super) fn take(&self) -> Option<StartPosition> {
        let mut slot = self.lock();
        slot.in_hand = true;
        slot.wanted().map(|wanted| wanted.start.clone())
    }

    /// The attempt is over.
    pub(super) fn put_back(&self) {
        self.lock().in_hand = false;
    }

    /// What is vouched for.
    pub(super) fn vouched(&self) -> Option<Vouched> {
        match self.lock().asked {
            Some(Asked::Continue(vouched)) => Some(vouched),
            _ => None,
        }
    }

    /// Notes the server that was vouched for, where that is not known yet.
    pub(super) fn bind_vouched(&self, log: &Log, source: &str, server: u32) -> io::Result<()> {
        let mut slot = self.lock();
        match slot.asked {
            Some(Asked::Continue(vouched)) if vouched.server.is_none() => {
                let bound = Asked::Continue(Vouched { server: Some(server), ..vouched });
                slot.ask(log, source, bound)
            }
            _ => Ok(()),
        }
    }

    /// What was vouched for is the log's last transaction no more.
    pub(super) fn forget_vouched(&self, log: &Log, source: &str) {
        let mut slot = self.lock();
        if !matches!(slot.asked, Some(Asked::Continue(_))) {
            return;
        }
        slot.asked = None;
        if let Err(error) = log.remove_note(source, SUFFIX) {
            tracing::warn!(source, %error, "cannot remove the note of ALTER SOURCE CONTINUE, which is void by now");
        }
    }

    /// Notes what the log is about to begin with. Answers whether a new timeline is wanted at all.
    pub(super) fn begins(&self, log: &Log, source: &str, state: GtidState) -> io::Result<bool> {
        let mut slot = self.lock();
        // One that was asked for since this attempt began is the next one's.
        let Some(wanted) = slot.wanted().filter(|_| slot.in_hand) else { return Ok(false) };
        let noted = Asked::Start(Wanted { begins: Some(state), ..wanted.clone() });
        log.set_note(source, SUFFIX, noted.to_text(source).as_bytes())?;
        slot.asked = Some(noted);
        Ok(true)
    }

    /// The log has begun the new timeline.
    pub(super) fn done(&self, log: &Log, source: &str) -> io::Result<()> {
        let mut slot = self.lock();
        log.remove_note(source, SUFFIX)?;
        slot.asked = None;
        Ok(())
    }

    /// What it guards is only ever replaced whole.
    fn lock(&self) -> MutexGuard<'_, Slot> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn last(log: &Log, domains: &Domains) -> Result<Option<Vouched>, AlignError> {
    let last = log.last_transaction(domains)?;
    Ok(last.map(|(gtid, file, position)| Vouched { gtid, file, position, server: None }))
}

/// What status says of a new timeline that is wanted.
pub(super) fn new_timeline(start: &StartPosition) -> String {
    format!("a new timeline was asked for (START = '{start}'): it begins at the next connect")
}

/// What status says of a transaction that is vouched for.
pub(super) fn going_on(gtid: Gtid) -> String {
    format!(
        "the source was vouched to hold the log's last transaction {gtid} in another form (CONTINUE): recording goes on behind it at the next connect"
    )
}
