//! The commit thread: takes all that is queued, appends it with one write and one sync, publishes it.
//!
//! A panic here aborts the process: what is on disk could then no longer be vouched for, and recovery can.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::abort::AbortOnPanic;
use super::active::{ActiveFile, head};
use super::files::file_name;
use super::published::{Health, LogEnd};
use super::queue::{Job, Work};
use super::shortage::{retry_while_out_of_files, retry_while_short};
use super::stop::Stop;
use super::syncer::Unsynced;
use super::timeline::Timeline;
use super::{CommitLevel, Shared, copy, large, verified};
use crate::event::FormatDescription;
use crate::gtid::Domains;
use crate::gtid::mariadb::{Gtid, GtidState, print_list};
use crate::transaction::{Events, Spilled, Transaction, seal};

/// How often the position known to be durable is noted beside the log.
const DURABLE_NOTE_EVERY: Duration = Duration::from_secs(1);

/// At level 1: bytes of a stream that are handed to the sync thread at once, while the next are written. So many may wait behind
/// those that are being synced; then the commit thread waits, too. The crate's tests hand over all the time.
pub(super) const PART: u64 = if cfg!(test) { 1200 } else { 4 << 20 };
/// At level 1: fewer bytes are synced by the commit thread itself, unless the sync thread is at work: handing them over would take
/// longer than what could be written meanwhile.
const WORTH_HANDING: u64 = if cfg!(test) { 600 } else { 256 << 10 };

#[derive(Debug)]
pub(crate) struct Committer {
    pub(crate) shared: Arc<Shared>,
    pub(crate) active: Option<ActiveFile>,
    pub(crate) state: GtidState,
    /// The last start of the source that a file of this log tells (`created`).
    pub(crate) last_created: u32,
    /// Numbers of each lane's last jobs that are done.
    pub(crate) lanes: Vec<u64>,
}

/// Transactions sealed for the active file but not yet written.
#[derive(Default)]
struct Group {
    transactions: Vec<Vec<u8>>,
    bytes: u64,
}

impl Committer {
    /// Runs until the queue is closed and empty, or a write fails.
    pub(crate) fn run(mut self) {
        let guard = AbortOnPanic;
        self.tell_header_len();
        let (mut jobs, mut stopped) = (VecDeque::new(), false);
        while self.shared.queue.take(&mut jobs) {
            // Behind what was given up nothing may be recorded, even if the disk has room again: it would leave a gap.
            if !stopped && let Err(stop) = self.commit(&mut jobs) {
                stopped = true;
                match stop {
                    Stop::Failed(error) => self.shared.latch(&error),
                    Stop::Closed => self.shared.queue.close(),
                }
            }
            jobs.clear();
        }
        self.finish();
        std::mem::forget(guard);
    }

    fn commit(&mut self, jobs: &mut VecDeque<Job>) -> Result<(), Stop> {
        if matches!(self.shared.published.view().health, Health::Latched(_)) {
            return Err(Stop::Closed);
        }
        let mut group = Group::default();
        for Job { lane, number, work } in jobs.drain(..) {
            match work {
                Work::Begin { format, state, domains, anew } => {
                    self.begin(&mut group, &format, &state, domains, anew)?;
                }
                Work::Transaction(transaction) => self.add(&mut group, transaction)?,
                Work::Rotate => self.rotate_on_demand(&mut group)?,
            }
            self.count(lane, number);
        }
        if self.active.is_none() {
            // A rotation of an empty log.
            self.publish(true);
            return Ok(());
        }
        self.write(&mut group)?;
        self.sync()?;
        self.rotate_if_over_size()
    }

    fn rotate_on_demand(&mut self, group: &mut Group) -> Result<(), Stop> {
        if self.active.is_none() {
            return Ok(());
        }
        self.write(group)?;
        let format = self.following_format()?;
        self.rotate(&format)
    }

    fn count(&mut self, lane: usize, number: u64) {
        if self.lanes.len() <= lane {
            self.lanes.resize(lane + 1, 0);
        }
        if let Some(last) = self.lanes.get_mut(lane) {
            *last = number;
        }
    }

    /// Begins domains at a state: in the first file, or in a new one where the log's state of them is another, or they begin `anew`.
    fn begin(
        &mut self,
        group: &mut Group,
        format: &FormatDescription,
        state: &GtidState,
        domains: Option<Domains>,
        anew: bool,
    ) -> Result<(), Stop> {
        if domains.is_none() && self.active.is_some() {
            return Ok(());
        }
        let domains = domains.unwrap_or_default();
        let format = FormatDescription { checksum: self.shared.options.checksum, ..format.clone() };
        if self.active.is_none() {
            self.state = domains.of_state(state);
            return self.open_file(1, &format, None);
        }
        let list = self.state.list().into_iter().filter(|gtid| !domains.contains(gtid.domain));
        let list: Vec<_> = list.chain(domains.of_list(&state.list())).collect();
        let anew = if anew { domains } else { Domains::only([]) };
        let timeline = Timeline::between(&self.state, &GtidState::from_list(&list), &anew);
        if timeline.domains.is_empty() {
            return Ok(());
        }
        self.write(group)?;
        let number = self.finish_active()?;
        let before = std::mem::replace(&mut self.state, GtidState::from_list(&list));
        self.open_file_after(&before, number, &format, Some(&timeline))?;
        tracing::info!(
            domains = ?timeline.domains, ended = print_list(&timeline.ended), begins = print_list(&list), file = number,
            "the log begins a new timeline"
        );
        Ok(())
    }

    /// Takes a transaction into the log, in a new file where the active one cannot take it.
    fn add(&mut self, group: &mut Group, transaction: Transaction) -> Result<(), Stop> {
        if transaction.checksum() != self.shared.options.checksum {
            return Err(Stop::Failed(io::Error::other(
                "a transaction has another checksum than its log",
            )));
        }
        if self.unsynced(group.bytes)? >= PART {
            self.write(group)?;
            self.hand_over()?;
        }
        let (gtid, time) = (transaction.gtid(), transaction.time());
        let next = self.next_format(&transaction, group.bytes)?;
        if self.shared.queue.is_large(&transaction) {
            self.write(group)?;
            return self.add_large(next, transaction);
        }
        if let Some(format) = next {
            self.write(group)?;
            self.rotate(&format)?;
        }
        match transaction.into_events() {
            Events::Memory(events) => self.seal_into(group, events)?,
            Events::File(spilled) => {
                self.write(group)?;
                self.copy(spilled)?;
            }
        }
        self.pass(gtid, time)
    }

    /// A transaction is in the active file, or will be with the next write.
    fn pass(&mut self, gtid: Gtid, time: u32) -> Result<(), Stop> {
        self.state.update(gtid);
        self.active()?.index.pass(gtid, time);
        Ok(())
    }

    fn seal_into(&mut self, group: &mut Group, mut events: Vec<u8>) -> Result<(), Stop> {
        let active = self.active()?;
        seal(&mut events, active.position + group.bytes, active.entry.format.checksum);
        group.bytes += events.len() as u64;
        group.transactions.push(events);
        Ok(())
    }

    fn copy(&mut self, mut spilled: Spilled) -> Result<(), Stop> {
        let shared = Arc::clone(&self.shared);
        let active = self.active()?;
        let before = active.position;
        retry_while_short(&shared, || copy::append(active, &mut spilled))?;
        shared.options.observer.committed(1, active.position - before);
        Ok(())
    }

    fn add_large(
        &mut self,
        next: Option<FormatDescription>,
        transaction: Transaction,
    ) -> Result<(), Stop> {
        let (gtid, time) = (transaction.gtid(), transaction.time());
        let format = match next {
            Some(format) => format,
            None => self.following_format()?,
        };
        let Events::File(spilled) = transaction.into_events() else { return Err(Stop::Closed) };
        let list = self.state.list();
        match large::fill_head(&format, &list, self.shared.options.server_id, &spilled) {
            Some(head) => self.rename(gtid, format, spilled, &head)?,
            None => {
                // More GTIDs were added since its first event than there is room for.
                self.rotate(&format)?;
                self.copy(spilled)?;
                self.state.update(gtid);
            }
        }
        self.active()?.index.pass(gtid, time);
        self.rotate_if_over_size()
    }

    /// The cache file becomes the next log file. Its body is durable already.
    fn rename(
        &mut self,
        gtid: Gtid,
        format: FormatDescription,
        mut spilled: Spilled,
        head: &[u8],
    ) -> Result<(), Stop> {
        let shared = Arc::clone(&self.shared);
        let place = shared.place();
        let number = self.finish_active()?;
        // Until now the head was a hole: it needs room on the disk as any other write.
        retry_while_short(&shared, || {
            spilled.file.file.write_all_at(&mut [IoSlice::new(head)], 0)
        })?;
        spilled.file.file.sync_data()?;
        let entry = place.entry(number, format, self.state.list());
        retry_while_short(&shared, || place.fs.rename(&spilled.file.path, &entry.path))?;
        spilled.file.keep();
        for dir in [shared.space.dir(), place.dir] {
            retry_while_out_of_files(&shared, || place.fs.sync_dir(dir))?;
        }
        let file = Arc::clone(&spilled.file.file);
        shared.options.observer.renamed(spilled.body_len);
        // Before the file is published: who sees the transaction must find its GTID.
        let before = self.state.clone();
        self.state.update(gtid);
        self.enter(ActiveFile::new(Arc::new(entry), file, spilled.end()), &before)
    }

    /// The format description of the file a transaction needs, where the active file is not it.
    fn next_format(
        &mut self,
        transaction: &Transaction,
        pending: u64,
    ) -> Result<Option<FormatDescription>, Stop> {
        let (wanted, checksum) = (transaction.format(), self.shared.options.checksum);
        let format = &self.active()?.entry.format;
        let fits = wanted.same_class(format) && format.checksum == checksum;
        let restarted = wanted.created != 0 && wanted.created != self.last_created;
        if fits && !restarted && !self.is_over_size(pending) {
            return Ok(None);
        }
        let created = if restarted { wanted.created } else { 0 };
        Ok(Some(FormatDescription { created, checksum, ..wanted.as_ref().clone() }))
    }

    /// That of a file that follows the active one for no reason of the source's.
    fn following_format(&mut self) -> Result<FormatDescription, Stop> {
        let format = self.active()?.entry.format.as_ref().clone();
        Ok(FormatDescription { created: 0, ..format })
    }

    fn is_over_size(&self, pending: u64) -> bool {
        let size = self.active.as_ref().map_or(0, |active| active.position + pending);
        size >= self.shared.options.max_binlog_size
    }

    fn write(&mut self, group: &mut Group) -> Result<(), Stop> {
        let Group { transactions, bytes } = std::mem::take(group);
        if transactions.is_empty() {
            return Ok(());
        }
        let shared = Arc::clone(&self.shared);
        let active = self.active()?;
        retry_while_short(&shared, || {
            let mut parts: Vec<_> = transactions.iter().map(|one| IoSlice::new(one)).collect();
            active.append(&mut parts)
        })?;
        shared.options.observer.committed(transactions.len() as u64, bytes);
        Ok(())
    }

    /// At level 1: bytes written, or in the group, that neither thread has synced or is syncing.
    fn unsynced(&mut self, pending: u64) -> Result<u64, Stop> {
        let level = self.shared.options.commit_level;
        let active = self.active()?;
        let bytes = active.position + pending - active.handed.max(active.synced);
        Ok(if level == CommitLevel::One { bytes } else { 0 })
    }

    /// Publishes what is written, which at level 1 is synced before.
    fn sync(&mut self) -> Result<(), Stop> {
        if self.shared.options.commit_level != CommitLevel::One {
            if self.active()?.is_synced() {
                self.publish(true);
                self.index_end();
                return Ok(());
            }
            self.publish(false);
            return self.hand_over();
        }
        if !self.shared.syncer.is_idle()? || self.unsynced(0)? >= WORTH_HANDING {
            return self.hand_over();
        }
        let started = Instant::now();
        let active = self.active()?;
        active.synced = active.synced.max(active.handed);
        if active.sync()? {
            self.shared.options.observer.synced(started.elapsed());
        }
        self.publish(true);
        self.index_end();
        let active = self.active()?;
        let (number, position) = (active.entry.number, active.position);
        self.shared.note_durable(number, position, DURABLE_NOTE_EVERY);
        Ok(())
    }

    /// Leaves what is written to the sync thread.
    fn hand_over(&mut self) -> Result<(), Stop> {
        let (lanes, end, state) = (self.lanes.clone(), self.end(), Arc::new(self.state.clone()));
        let active = self.active()?;
        let (file, bytes) = (Arc::clone(&active.file), active.position - active.handed);
        active.handed = active.position;
        self.shared.syncer.note(Unsynced { file, lanes, end, state, bytes }, PART)?;
        self.index_end();
        Ok(())
    }

    fn rotate_if_over_size(&mut self) -> Result<(), Stop> {
        if !self.is_over_size(0) {
            return Ok(());
        }
        let format = self.following_format()?;
        self.rotate(&format)
    }

    /// Closes the active file with a Rotate event and goes on in a new one.
    fn rotate(&mut self, format: &FormatDescription) -> Result<(), Stop> {
        let number = self.finish_active()?;
        self.open_file(number, format, None)
    }

    /// Appends Rotate and makes the file durable, at every level; answers the next file's number.
    fn finish_active(&mut self) -> Result<u64, Stop> {
        let shared = Arc::clone(&self.shared);
        let active = self.active()?;
        let number = active.entry.number + 1;
        let next = file_name(&shared.options.basename, number);
        retry_while_short(&shared, || active.append_rotate(&next, shared.options.server_id))?;
        shared.syncer.take_over()?;
        active.sync()?;
        Ok(number)
    }

    fn open_file(
        &mut self,
        number: u64,
        format: &FormatDescription,
        timeline: Option<&Timeline>,
    ) -> Result<(), Stop> {
        let before = self.state.clone();
        self.open_file_after(&before, number, format, timeline)
    }

    fn open_file_after(
        &mut self,
        before: &GtidState,
        number: u64,
        format: &FormatDescription,
        timeline: Option<&Timeline>,
    ) -> Result<(), Stop> {
        let shared = Arc::clone(&self.shared);
        let list = self.state.list();
        let new = retry_while_short(&shared, || {
            let (format, list) = (format.clone(), list.clone());
            ActiveFile::create(&shared.place(), number, format, list, timeline.cloned())
        })?;
        self.enter(new, before)
    }

    /// Goes on in a new file that is durable: publishes its end, and adds it to the index. A file the index does not know yet is
    /// adopted at recovery. `before` is the GTID state at the end of the file before.
    fn enter(&mut self, new: ActiveFile, before: &GtidState) -> Result<(), Stop> {
        let shared = Arc::clone(&self.shared);
        if new.entry.format.created != 0 {
            self.last_created = new.entry.format.created;
        }
        let (number, position) = (new.entry.number, new.position);
        shared.files.push(Arc::clone(&new.entry));
        let old = self.active.replace(new);
        old.iter().for_each(ActiveFile::set_closed);
        // The file before was synced as a whole.
        self.publish(true);
        self.tell_header_len();
        let place = shared.place();
        if number == 1 {
            // Recovery relies on a hint being there, however old, once there is a second file.
            retry_while_short(&shared, || verified::write(&place, &shared.files.all(), position))?;
        }
        retry_while_short(&shared, || shared.write_index())?;
        if let Some(mut old) = old {
            old.finish_index(shared.options.fs.as_ref(), before);
        }
        shared.note_durable(number, position, Duration::ZERO);
        shared.options.observer.file_opened();
        shared.purge.look();
        Ok(())
    }

    /// Transactions that spill keep room for the header events of the file they may become.
    fn tell_header_len(&self) {
        if let Some(active) = &self.active {
            let head = head(&active.entry.format, &self.state.list(), None, 0);
            self.shared.space.set_header_len(head.len() as u64);
        }
    }

    fn end(&self) -> LogEnd {
        self.active.as_ref().map_or(LogEnd::default(), |active| LogEnd {
            file: active.entry.number,
            position: active.position,
        })
    }

    fn publish(&self, durable: bool) {
        let (end, state) = (self.end(), Arc::new(self.state.clone()));
        self.shared.published.update(|view| {
            view.end = end;
            view.state = state;
            if view.health.shortage().is_some() {
                view.health = Health::Running;
            }
            view.reach(&self.lanes, true, durable);
        });
    }

    /// After all that is passed is published.
    fn index_end(&mut self) {
        if let Some(active) = &mut self.active {
            active.index_end(self.shared.options.fs.as_ref(), &self.state);
        }
    }

    fn active(&mut self) -> Result<&mut ActiveFile, Stop> {
        let missing = || io::Error::other("a transaction came before the log was begun");
        self.active.as_mut().ok_or_else(|| Stop::Failed(missing()))
    }

    /// All is written. The sync thread makes it durable, then the log is closed.
    fn finish(&self) {
        self.shared.syncer.close();
        // A sync that failed has latched the log: what was published before is durable.
        let _ = self.shared.syncer.drain();
        if self.shared.options.commit_level != CommitLevel::One {
            return;
        }
        // Not the active file's end: after a failure that was never synced.
        let end = self.shared.published.end();
        if end.file != 0 {
            self.shared.note_durable(end.file, end.position, Duration::ZERO);
        }
    }
}
