//! One transaction on its way into the log: the events of a group, rows repacked, held in a cache until it is submitted.

mod cache;
pub mod group;
mod space;

use std::io;
use std::sync::Arc;

pub(crate) use cache::{CacheOptions, Spilled, seal};
pub(crate) use space::CacheSpace;

use crate::event::gtid::GtidEvent;
use crate::event::{ChecksumAlgorithm, EventHeader, FormatDescription};
use crate::gtid::Domains;
use crate::gtid::mariadb::Gtid;
use crate::rows::{MAX_EVENT_SIZE, MIN_EVENT_SIZE, PackCounters, PackError, RowsPacker, Unpacked};
use cache::Cache;
use group::{GroupError, GroupTracker, Step};

/// How transactions are put together.
#[derive(Clone, Debug)]
pub(crate) struct TransactionOptions {
    /// `binlog_row_event_max_size`: bytes a packed rows event holds at most, unless one row is larger.
    pub(crate) row_event_max_size: usize,
    /// `max_binlog_cache_size`: bytes a transaction may have; `None` is no limit.
    pub(crate) max_cache_size: Option<u64>,
    pub(crate) cache: CacheOptions,
}

/// A whole transaction, ready for the log.
#[derive(Debug)]
pub struct Transaction {
    gtid: Gtid,
    time: u32,
    format: Arc<FormatDescription>,
    size: u64,
    checksum: ChecksumAlgorithm,
    events: Events,
}

/// Where a transaction's events are.
#[derive(Debug)]
pub(crate) enum Events {
    /// As a [`seal`] can finish them.
    Memory(Vec<u8>),
    /// In a cache file.
    File(Spilled),
}

impl Transaction {
    /// Its GTID.
    pub fn gtid(&self) -> Gtid {
        self.gtid
    }

    /// When it was committed, Unix seconds: the time of its Gtid event.
    pub fn time(&self) -> u32 {
        self.time
    }

    /// Bytes it takes in the log.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The format description its events were written under.
    pub(crate) fn format(&self) -> &Arc<FormatDescription> {
        &self.format
    }

    /// What its events have room for at their ends.
    pub(crate) fn checksum(&self) -> ChecksumAlgorithm {
        self.checksum
    }

    /// The cache file its events are in.
    pub(crate) fn spilled(&self) -> Option<&Spilled> {
        match &self.events {
            Events::File(spilled) => Some(spilled),
            Events::Memory(_) => None,
        }
    }

    pub(crate) fn events(&self) -> &Events {
        &self.events
    }

    pub(crate) fn into_events(self) -> Events {
        self.events
    }
}

/// The stream does not form transactions that can be recorded.
#[derive(Debug, thiserror::Error)]
pub enum TransactionError {
    /// An event stands where it cannot.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// The packer cannot take an event.
    #[error("{0}")]
    Pack(PackError<io::Error>),
    /// The cache file cannot take an event.
    #[error("cannot write the transaction's cache file: {0}")]
    Cache(io::Error),
    /// Larger than `max_binlog_cache_size`.
    #[error(
        "transaction {gtid} is larger than max_binlog_cache_size ({limit} bytes): raise it and start Spillway again"
    )]
    TooLarge {
        /// The transaction.
        gtid: Gtid,
        /// The limit, bytes.
        limit: u64,
    },
}

impl From<PackError<io::Error>> for TransactionError {
    fn from(error: PackError<io::Error>) -> Self {
        match error {
            PackError::Sink(error) => Self::Cache(error),
            error => Self::Pack(error),
        }
    }
}

/// What an event led to.
#[derive(Debug)]
pub enum Assembled {
    /// Nothing yet: the transaction goes on.
    Pending,
    /// The event stands between transactions and is not recorded: the log has its own header events.
    Outside,
    /// The event completed this transaction.
    Complete(Transaction),
    /// The event ended a transaction of a domain that is not recorded. Nothing of it was kept, nor of the events that rode with it.
    Skipped(Gtid),
}

/// Puts transactions together from the events of one source, in order.
pub struct TransactionAssembler {
    options: TransactionOptions,
    format: Arc<FormatDescription>,
    tracker: GroupTracker,
    packer: RowsPacker,
    cache: Cache,
    domains: Domains,
    gtid: Gtid,
    /// Whether the open transaction is one of a domain that is not recorded.
    skipping: bool,
    /// The time of its Gtid event.
    time: u32,
    /// Size of the last transaction: what the next is likely to need.
    last_size: u64,
}

/// Transactions are given at most this much memory before their first event.
const MAX_INITIAL_CAPACITY: usize = 64 * 1024;

impl TransactionAssembler {
    /// An assembler for events written under `format`.
    pub(crate) fn new(options: TransactionOptions, format: Arc<FormatDescription>) -> Self {
        let layout = format.rows_layout();
        let max_size = options.row_event_max_size.clamp(MIN_EVENT_SIZE, MAX_EVENT_SIZE);
        Self {
            format,
            tracker: GroupTracker::default(),
            packer: RowsPacker::new(max_size, layout),
            cache: Cache::new(0, options.cache.clone()),
            options,
            domains: Domains::all(),
            gtid: Gtid { domain: 0, server: 0, sequence: 0 },
            skipping: false,
            time: 0,
            last_size: 0,
        }
    }

    /// Takes these domains' transactions only: others are followed to their ends and skipped.
    #[must_use]
    pub fn recording(mut self, domains: Domains) -> Self {
        self.domains = domains;
        self
    }

    /// Takes events written under another format description from here on: the source's next file. What is open of a transaction
    /// is dropped: its server crashed in the middle of it. What rides with the next one is kept.
    pub fn next_file(&mut self, format: Arc<FormatDescription>) {
        let layout = format.rows_layout();
        self.packer.set_layout(layout);
        self.format = format;
        if self.tracker.in_group() {
            self.tracker = GroupTracker::default();
            self.skipping = false;
            self.cache = Cache::new(0, self.options.cache.clone());
        }
    }

    /// Whether a transaction is open.
    pub fn in_transaction(&self) -> bool {
        self.tracker.in_group()
    }

    /// The open transaction, and whether it is of a domain that is recorded.
    pub fn open(&self) -> Option<(Gtid, bool)> {
        self.tracker.in_group().then_some((self.gtid, !self.skipping))
    }

    /// What the packer did so far.
    pub fn pack_counters(&self) -> PackCounters {
        self.packer.counters()
    }

    /// What the packer passed through unpacked since the last call, for the log.
    pub fn take_unpacked(&mut self) -> Vec<Unpacked> {
        self.packer.take_unpacked()
    }

    /// Takes the next event, without its checksum. Its size and end position are made anew.
    ///
    /// # Errors
    /// [`TransactionError`]; the assembler is then of no further use: nothing of the open transaction is kept.
    pub fn push(&mut self, event: &[u8]) -> Result<Assembled, TransactionError> {
        let step = self.tracker.step(event)?;
        match step {
            Step::Outside => return Ok(Assembled::Outside),
            Step::Begin(GtidEvent { gtid, .. }) => self.begin(gtid, event)?,
            Step::Rider | Step::Inside | Step::End => {}
        }
        if self.skipping {
            return Ok(self.skip(step));
        }
        self.keep(step, event)?;
        Ok(if step == Step::End { self.complete()? } else { Assembled::Pending })
    }

    fn begin(&mut self, gtid: Gtid, event: &[u8]) -> Result<(), TransactionError> {
        self.gtid = gtid;
        self.time = EventHeader::parse(event).map_err(GroupError::from)?.timestamp;
        self.skipping = !self.domains.contains(gtid.domain);
        if self.skipping {
            // What rode with it is the other source's to record.
            self.cache = Cache::new(0, self.options.cache.clone());
        }
        Ok(())
    }

    fn skip(&mut self, step: Step) -> Assembled {
        if step != Step::End {
            return Assembled::Pending;
        }
        self.skipping = false;
        Assembled::Skipped(self.gtid)
    }

    fn keep(&mut self, step: Step, event: &[u8]) -> Result<(), TransactionError> {
        if self.cache.len() == 0 {
            let capacity = usize::try_from(self.last_size).unwrap_or(usize::MAX);
            let capacity = capacity.min(MAX_INITIAL_CAPACITY);
            self.cache = Cache::new(capacity, self.options.cache.clone());
        }
        self.packer.push(event, &mut self.cache)?;
        if matches!(step, Step::Begin(_)) {
            self.cache.end_lead();
        }
        self.check_size()
    }

    fn complete(&mut self) -> Result<Assembled, TransactionError> {
        self.packer.flush(&mut self.cache)?;
        self.check_size()?;
        let size = self.cache.len();
        self.last_size = size;
        let empty = Cache::new(0, self.options.cache.clone());
        let mut cache = std::mem::replace(&mut self.cache, empty);
        let checksum = cache.checksum();
        let events = match cache.finish().map_err(TransactionError::Cache)? {
            Some(spilled) => Events::File(spilled),
            None => Events::Memory(cache.into_memory()),
        };
        let (gtid, time, format) = (self.gtid, self.time, Arc::clone(&self.format));
        Ok(Assembled::Complete(Transaction { gtid, time, format, size, checksum, events }))
    }

    fn check_size(&self) -> Result<(), TransactionError> {
        match self.options.max_cache_size {
            Some(limit) if self.cache.len() > limit => {
                Err(TransactionError::TooLarge { gtid: self.gtid, limit })
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
