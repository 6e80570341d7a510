//! One transaction on its way into the log: the events of a group, rows repacked, held in a cache until it is submitted.

mod cache;
pub mod group;

use std::sync::Arc;

pub(crate) use cache::seal;

use crate::event::gtid::GtidEvent;
use crate::event::{ChecksumAlgorithm, FormatDescription};
use crate::gtid::mariadb::Gtid;
use crate::rows::{
    MAX_EVENT_SIZE, MIN_EVENT_SIZE, PackCounters, PackError, RowsLayout, RowsPacker, Unpacked,
};
use cache::Cache;
use group::{GroupError, GroupTracker, Step};

/// How transactions are put together.
#[derive(Clone, Copy, Debug)]
pub struct TransactionOptions {
    /// `binlog_row_event_max_size`: bytes a packed rows event holds at most, unless one row is larger.
    pub row_event_max_size: usize,
    /// `max_binlog_cache_size`: bytes a transaction may have; `None` is no limit.
    pub max_cache_size: Option<u64>,
    /// `binlog_checksum` of the log.
    pub checksum: ChecksumAlgorithm,
}

/// A whole transaction, ready for the log.
#[derive(Debug)]
pub struct Transaction {
    gtid: Gtid,
    format: Arc<FormatDescription>,
    cache: Cache,
}

impl Transaction {
    /// Its GTID.
    pub fn gtid(&self) -> Gtid {
        self.gtid
    }

    /// Bytes it takes in the log.
    pub fn size(&self) -> usize {
        self.cache.len()
    }

    /// The format description its events were written under.
    pub(crate) fn format(&self) -> &Arc<FormatDescription> {
        &self.format
    }

    /// Its events as a [`seal`] can finish them.
    pub(crate) fn events_mut(&mut self) -> &mut [u8] {
        self.cache.events_mut()
    }
}

/// The stream does not form transactions that can be recorded.
#[derive(Debug, thiserror::Error)]
pub enum TransactionError {
    /// An event stands where it cannot.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// The packer cannot take an event.
    #[error(transparent)]
    Pack(#[from] PackError<std::convert::Infallible>),
    /// Larger than `max_binlog_cache_size`.
    #[error(
        "transaction {gtid} is larger than max_binlog_cache_size ({limit} bytes): raise it, or make the transaction smaller"
    )]
    TooLarge {
        /// The transaction.
        gtid: Gtid,
        /// The limit, bytes.
        limit: u64,
    },
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
}

/// Puts transactions together from the events of one source, in order.
pub struct TransactionAssembler {
    options: TransactionOptions,
    format: Arc<FormatDescription>,
    tracker: GroupTracker,
    packer: RowsPacker,
    cache: Cache,
    gtid: Gtid,
    /// Size of the last transaction: what the next is likely to need.
    last_size: usize,
}

/// Transactions are given at most this much memory before their first event.
const MAX_INITIAL_CAPACITY: usize = 64 * 1024;

impl TransactionAssembler {
    /// An assembler for events written under `format`.
    pub fn new(options: TransactionOptions, format: Arc<FormatDescription>) -> Self {
        let layout = RowsLayout::from_post_header_lengths(&format.post_header_lengths);
        let max_size = options.row_event_max_size.clamp(MIN_EVENT_SIZE, MAX_EVENT_SIZE);
        Self {
            options,
            format,
            tracker: GroupTracker::default(),
            packer: RowsPacker::new(max_size, layout),
            cache: Cache::with_capacity(0, options.checksum),
            gtid: Gtid { domain: 0, server: 0, sequence: 0 },
            last_size: 0,
        }
    }

    /// Whether a transaction is open.
    pub fn in_transaction(&self) -> bool {
        self.tracker.in_group()
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
            Step::Begin(GtidEvent { gtid, .. }) => self.gtid = gtid,
            Step::Rider | Step::Inside | Step::End => {}
        }
        if self.cache.len() == 0 {
            let capacity = self.last_size.min(MAX_INITIAL_CAPACITY);
            self.cache = Cache::with_capacity(capacity, self.options.checksum);
        }
        self.packer.push(event, &mut self.cache)?;
        self.check_size()?;
        Ok(if step == Step::End { self.complete()? } else { Assembled::Pending })
    }

    fn complete(&mut self) -> Result<Assembled, TransactionError> {
        self.packer.flush(&mut self.cache)?;
        self.last_size = self.cache.len();
        let empty = Cache::with_capacity(0, self.options.checksum);
        let cache = std::mem::replace(&mut self.cache, empty);
        let format = Arc::clone(&self.format);
        Ok(Assembled::Complete(Transaction { gtid: self.gtid, format, cache }))
    }

    fn check_size(&self) -> Result<(), TransactionError> {
        match self.options.max_cache_size {
            Some(limit) if self.cache.len() as u64 > limit => {
                Err(TransactionError::TooLarge { gtid: self.gtid, limit })
            }
            _ => Ok(()),
        }
    }
}
