//! The log: open, submit, read. One thread commits; readers never wait for it but at the published end.

mod abort;
mod active;
mod commit;
mod copy;
mod files;
mod index;
mod large;
mod note;
mod published;
mod purge;
mod queue;
mod readers;
mod shortage;
mod stop;
mod syncer;
mod timeline;
mod verified;

use std::any::Any;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub use files::{FileInfo, file_name, file_number, index_path};
pub use published::{Changed, Health, LogEnd, SubmitError, Ticket};
pub use purge::{Held, Purge, PurgeError, PurgeReason, PurgeRefusal, Retention};
pub use readers::Expelled;

pub(crate) use active::{ActiveFile, Place, low};
pub(crate) use files::{FileEntry, Files};
pub(crate) use index::{read as read_index, write as write_index};
pub(crate) use published::Published;
pub(crate) use purge::{forget as forget_purge, purge_path, remove_file};
pub(crate) use readers::Reader;
pub(crate) use timeline::Timeline;
pub(crate) use verified::{Verified, read as read_verified, stamp, write as write_verified};

use crate::event::{ChecksumAlgorithm, FormatDescription};
use crate::fs::{FileSystem, OsFileSystem};
use crate::gtid::Domains;
use crate::gtid::mariadb::GtidState;
use crate::recovery::{self, OpenError};
use crate::transaction::{
    CacheOptions, CacheSpace, Transaction, TransactionAssembler, TransactionOptions,
};
use commit::Committer;
use purge::Purging;
use queue::{Queue, Work};
use syncer::Syncer;

/// What the commit thread tells as it goes; for metrics. Called on that thread: be quick.
pub trait CommitObserver: Send + Sync {
    /// Transactions were appended; `bytes` in all.
    fn committed(&self, _transactions: u64, _bytes: u64) {}
    /// A sync of a group of transactions took this long.
    fn synced(&self, _took: Duration) {}
    /// A file was added to the log.
    fn file_opened(&self) {}
    /// A transaction's cache file of so many bytes became a log file.
    fn renamed(&self, _bytes: u64) {}
    /// So many files were purged, for one of [`PurgeReason`]'s names. Not called on the commit thread, as the next.
    fn purged(&self, _reason: &'static str, _files: u64) {}
    /// A file that should be purged was not, for one of [`PurgeRefusal`]'s names.
    fn purge_refused(&self, _reason: &'static str) {}
}

/// Observes nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl CommitObserver for NoObserver {}

/// When a commit is written and when it is synced: `flush_log_at_trx_commit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitLevel {
    /// 0: written at once while somebody waits for it, else once a second; synced once a second.
    Zero,
    /// 1: written and synced at once, one sync for all that is queued.
    One,
    /// 2: written at once, synced once a second.
    Two,
}

/// Where a log is and how it is written.
#[derive(Clone)]
pub struct LogOptions {
    /// The directory; created where it is missing.
    pub dir: PathBuf,
    /// `log_bin`: the files are `basename.000001` and so on.
    pub basename: String,
    /// Spillway's server id, in the header events of each file.
    pub server_id: u32,
    /// A file this large, bytes, is followed by a new one.
    pub max_binlog_size: u64,
    /// `binlog_checksum`: of new files.
    pub checksum: ChecksumAlgorithm,
    /// `flush_log_at_trx_commit`.
    pub commit_level: CommitLevel,
    /// `binlog_row_event_max_size`: bytes a packed rows event holds at most, unless one row is larger.
    pub row_event_max_size: usize,
    /// `binlog_cache_size`: memory of an open transaction, bytes; beyond it the cache is a file.
    pub cache_size: usize,
    /// `max_binlog_cache_size`: bytes a transaction may have; `None` is no limit.
    pub max_cache_size: Option<u64>,
    /// `binlog_large_commit_threshold`: transactions of this many bytes are committed by renaming their cache file.
    pub large_commit_threshold: u64,
    /// What is kept, and for how long.
    pub retention: Retention,
    /// `binlog_mmap`: read files through memory maps; else into buffers.
    pub mmap: bool,
    /// The file system.
    pub fs: Arc<dyn FileSystem>,
    /// Told of commits.
    pub observer: Arc<dyn CommitObserver>,
}

impl LogOptions {
    /// The defaults of the configuration, on the real file system.
    pub fn new(dir: impl Into<PathBuf>, server_id: u32) -> Self {
        Self {
            dir: dir.into(),
            basename: "binlog".into(),
            server_id,
            max_binlog_size: 1 << 30,
            checksum: ChecksumAlgorithm::Crc32,
            commit_level: CommitLevel::One,
            row_event_max_size: 64 << 10,
            cache_size: 1 << 20,
            max_cache_size: None,
            large_commit_threshold: 16 << 20,
            retention: Retention::default(),
            mmap: true,
            fs: Arc::new(OsFileSystem),
            observer: Arc::new(NoObserver),
        }
    }
}

impl std::fmt::Debug for LogOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogOptions").field("dir", &self.dir).finish_non_exhaustive()
    }
}

/// What the commit thread and readers share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) options: LogOptions,
    pub(crate) files: Files,
    pub(crate) published: Published,
    pub(crate) queue: Queue,
    pub(crate) syncer: Syncer,
    pub(crate) space: Arc<CacheSpace>,
    pub(crate) purge: Purging,
    /// The lane of [`Log::rotate`].
    rotations: OnceLock<usize>,
    /// All sources have been heard up to where they were when they were connected to.
    caught_up: AtomicBool,
    noted: Mutex<Instant>,
}

impl Shared {
    pub(crate) fn place(&self) -> Place<'_> {
        place(&self.options)
    }

    /// A write or sync failed: nothing more is recorded.
    pub(crate) fn latch(&self, error: &io::Error) {
        tracing::error!(%error, "a write to the log failed: nothing more is recorded until Spillway is started again");
        let reason: Arc<str> = error.to_string().into();
        self.queue.close();
        self.published.update(|view| {
            if !matches!(view.health, Health::Latched(_)) {
                view.health = Health::Latched(reason);
            }
        });
    }

    /// Notes what is verified and durable: the active file's `number`, up to `position`. Only a hint that spares recovery work and
    /// doubt: its loss or failure costs nothing.
    pub(crate) fn note_durable(&self, number: u64, position: u64, every: Duration) {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.elapsed() < every {
            return;
        }
        *noted = Instant::now();
        let files = self.files.all();
        let known =
            files.iter().filter(|entry| entry.number <= number).cloned().collect::<Vec<_>>();
        if let Err(error) = verified::write(&self.place(), &known, position) {
            tracing::debug!(%error, "cannot note how far the log is durable");
        }
    }

    pub(crate) fn assembler(&self, format: Arc<FormatDescription>) -> TransactionAssembler {
        let options = &self.options;
        let cache = CacheOptions {
            memory: options.cache_size,
            checksum: options.checksum,
            space: Arc::clone(&self.space),
        };
        let options = TransactionOptions {
            row_event_max_size: options.row_event_max_size,
            max_cache_size: options.max_cache_size,
            cache,
        };
        TransactionAssembler::new(options, format)
    }

    fn push(self: &Arc<Self>, lane: usize, work: Work) -> Ticket {
        let (number, to_prepare) = self.queue.push(lane, work);
        if let Some(job) = to_prepare {
            large::prepare(self, job);
        }
        Ticket { shared: Arc::clone(self), lane, number }
    }
}

pub(crate) fn place(options: &LogOptions) -> Place<'_> {
    Place {
        fs: options.fs.as_ref(),
        dir: &options.dir,
        basename: &options.basename,
        server_id: options.server_id,
    }
}

/// An open log. Dropping it closes it.
#[derive(Debug)]
pub struct Log {
    pub(crate) shared: Arc<Shared>,
    running: Mutex<Option<Running>>,
}

/// What an open log holds until it is closed.
#[derive(Debug)]
struct Running {
    threads: Vec<JoinHandle<()>>,
    _lock: Box<dyn Any + Send + Sync>,
}

impl Log {
    /// Opens the log in a directory, takes its lock, and brings it to the end of its last complete transaction.
    ///
    /// # Errors
    /// [`OpenError`]: the directory is in use, a file is missing or damaged, or the system said no.
    pub fn open(options: LogOptions) -> Result<Self, OpenError> {
        let recovered = recovery::recover(&options)?;
        let space = CacheSpace::open(Arc::clone(&options.fs), &options.dir)
            .map_err(|error| OpenError::Io { path: options.dir.clone(), error })?;
        let end = recovered.active.as_ref().map_or(LogEnd::default(), |active| LogEnd {
            file: active.entry.number,
            position: active.position,
        });
        let lazy = options.commit_level == CommitLevel::Zero;
        let shared = Arc::new(Shared {
            files: Files::new(recovered.files),
            published: Published::new(end, recovered.state.clone()),
            queue: Queue::new(options.large_commit_threshold, lazy),
            syncer: Syncer::new(options.commit_level),
            space,
            purge: Purging::new(options.retention),
            rotations: OnceLock::new(),
            caught_up: AtomicBool::new(false),
            noted: Mutex::new(Instant::now()),
            options,
        });
        let committer = Committer {
            shared: Arc::clone(&shared),
            active: recovered.active,
            state: recovered.state,
            last_created: recovered.last_created,
            lanes: Vec::new(),
        };
        let mut threads = vec![thread("binlog-commit", || committer.run())?];
        let purging = Arc::clone(&shared);
        threads.push(thread("binlog-purge", move || purging.keep_house())?);
        let syncing = Arc::clone(&shared);
        threads.push(thread("binlog-sync", move || Syncer::run(&syncing))?);
        let running = Running { threads, _lock: recovered.lock };
        Ok(Self { shared, running: Mutex::new(Some(running)) })
    }

    /// For one source: its transactions stand in the log in the order it submits them.
    pub fn submitter(&self) -> Submitter {
        Submitter { lane: self.shared.queue.add_lane(), shared: Arc::clone(&self.shared) }
    }

    /// Closes the active file and goes on in a new one, once what was submitted before is written. Nothing happens in a log
    /// without a file.
    pub fn rotate(&self) -> Ticket {
        let lane = *self.shared.rotations.get_or_init(|| self.shared.queue.add_lane());
        self.shared.push(lane, Work::Rotate)
    }

    /// The end of what readers may see.
    pub fn end(&self) -> LogEnd {
        self.shared.published.end()
    }

    /// Resolves when the end is another than `seen`, or the log is closed.
    pub fn changed(&self, seen: LogEnd) -> Changed {
        Changed { shared: Arc::clone(&self.shared), seen }
    }

    /// The GTID state at [`Log::end`].
    pub fn gtid_state(&self) -> Arc<GtidState> {
        self.shared.published.view().state
    }

    /// Whether the log records, and if not, why.
    pub fn health(&self) -> Health {
        self.shared.published.health()
    }

    /// Resolves when the log's health is another than `seen`.
    pub async fn health_changed(&self, seen: &Health) -> Health {
        std::future::poll_fn(|cx| self.shared.published.poll_health(cx, seen)).await
    }

    /// Whether the log has, since it was opened, everything its sources had. Before that a replica may be ahead of it and no more
    /// than early: after a crash at level 2 or 0 the log has to fetch again what it had served.
    pub fn is_caught_up(&self) -> bool {
        self.shared.caught_up.load(Ordering::Acquire)
    }

    /// All sources have been heard up to where they were, or there are none.
    pub fn set_caught_up(&self) {
        self.shared.caught_up.store(true, Ordering::Release);
    }

    /// What files of this log carry after their events.
    pub fn checksum(&self) -> ChecksumAlgorithm {
        self.shared.options.checksum
    }

    /// `max_binlog_cache_size`: bytes a transaction may have; `None` is no limit.
    pub fn max_cache_size(&self) -> Option<u64> {
        self.shared.options.max_cache_size
    }

    /// Format description of the newest file; `None` before the first.
    pub fn format(&self) -> Option<Arc<FormatDescription>> {
        self.shared.files.newest().map(|entry| Arc::clone(&entry.format))
    }

    /// Whether one of these domains began a new timeline with a file behind this one.
    pub fn has_begun_behind(&self, file: u64, domains: &Domains) -> bool {
        let (end, files) = (self.end(), self.shared.files.all());
        let behind = files.iter().filter(|entry| (file + 1..=end.file).contains(&entry.number));
        behind.filter_map(|entry| entry.timeline.as_ref()).any(|new| new.begins(domains))
    }

    /// The files, oldest first, with their readable sizes.
    pub fn files(&self) -> Vec<FileInfo> {
        let end = self.end();
        let entries = self.shared.files.all().into_iter();
        entries.filter(|entry| entry.number <= end.file).map(|entry| info(&entry, end)).collect()
    }

    /// The file of this name.
    pub fn file_by_name(&self, name: &str) -> Option<FileInfo> {
        let end = self.end();
        let entry = self.shared.files.by_name(name).filter(|entry| entry.number <= end.file)?;
        Some(info(&entry, end))
    }

    /// Records what was submitted, then closes the log and gives its lock back. It can still be read. Further calls change nothing.
    pub fn close(&self) {
        self.shared.queue.close();
        self.shared.purge.close();
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(running) = running else { return };
        for thread in running.threads {
            if thread.join().is_err() {
                tracing::error!("a thread of the log failed");
            }
        }
        self.shared.published.update(|view| {
            if !matches!(view.health, Health::Latched(_)) {
                view.health = Health::Closed;
            }
        });
    }
}

/// Hands the transactions of one source to the log.
#[derive(Debug)]
pub struct Submitter {
    shared: Arc<Shared>,
    lane: usize,
}

impl Submitter {
    /// Opens the first file of an empty log: the source's format description, and the GTID state where recording begins. In a
    /// log that has a file it changes nothing.
    pub fn begin(&self, format: Arc<FormatDescription>, state: GtidState) -> Ticket {
        self.shared.push(self.lane, Work::Begin { format, state, domains: None, anew: false })
    }

    /// The same for some domains, whatever the log has of them: they go on from this state. Where that is another than the log's,
    /// a new timeline begins, in a new file: who has read the old one cannot go on in it.
    pub fn begin_domains(
        &self,
        format: Arc<FormatDescription>,
        state: GtidState,
        domains: Domains,
    ) -> Ticket {
        let domains = Some(domains);
        self.shared.push(self.lane, Work::Begin { format, state, domains, anew: false })
    }

    /// The same as a new timeline in any case: what the log has of the domains is of another history, also where that has come to
    /// the same state. Only where the log has nothing of them, and they begin with nothing, there is nothing to begin.
    pub fn begin_anew(
        &self,
        format: Arc<FormatDescription>,
        state: GtidState,
        domains: Domains,
    ) -> Ticket {
        let domains = Some(domains);
        self.shared.push(self.lane, Work::Begin { format, state, domains, anew: true })
    }

    /// Hands over a transaction; returns at once.
    pub fn submit(&self, transaction: Transaction) -> Ticket {
        self.shared.push(self.lane, Work::Transaction(transaction))
    }

    /// Puts transactions together from events that were written under `format`, as this log keeps them.
    pub fn assembler(&self, format: Arc<FormatDescription>) -> TransactionAssembler {
        self.shared.assembler(format)
    }
}

fn thread(name: &str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, OpenError> {
    std::thread::Builder::new().name(name.into()).spawn(body).map_err(OpenError::Thread)
}

impl Drop for Log {
    fn drop(&mut self) {
        self.close();
    }
}

fn info(entry: &FileEntry, end: LogEnd) -> FileInfo {
    let size = entry.closed_len().unwrap_or(end.position);
    FileInfo { number: entry.number, name: entry.name.clone(), size }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
