//! The log: open, submit, read. One thread commits; readers never wait for it but at the published end.

mod active;
mod commit;
mod files;
mod index;
mod published;
mod queue;
mod verified;

use std::any::Any;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub use files::{FileInfo, file_name, file_number, index_path};
pub use published::{Changed, Health, LogEnd, SubmitError, Ticket};

pub(crate) use active::{ActiveFile, Place, low};
pub(crate) use files::{FileEntry, Files};
pub(crate) use index::{read as read_index, write as write_index};
pub(crate) use published::Published;
pub(crate) use verified::{Verified, read as read_verified};

use crate::event::{ChecksumAlgorithm, FormatDescription};
use crate::fs::{FileSystem, OsFileSystem};
use crate::gtid::mariadb::GtidState;
use crate::recovery::{self, OpenError};
use crate::transaction::Transaction;
use commit::Committer;
use queue::{Job, Queue};

/// What the commit thread tells as it goes; for metrics. Called on that thread: be quick.
pub trait CommitObserver: Send + Sync {
    /// Transactions were appended; `bytes` in all.
    fn committed(&self, _transactions: u64, _bytes: u64) {}
    /// A sync of a group of transactions took this long.
    fn synced(&self, _took: Duration) {}
    /// A file was created.
    fn file_opened(&self) {}
}

/// Observes nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl CommitObserver for NoObserver {}

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
    pub(crate) published: Arc<Published>,
    pub(crate) queue: Queue,
}

impl Shared {
    pub(crate) fn place(&self) -> Place<'_> {
        place(&self.options)
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
    thread: JoinHandle<()>,
    _lock: Box<dyn Any + Send + Sync>,
}

impl Log {
    /// Opens the log in a directory, takes its lock, and brings it to the end of its last complete transaction.
    ///
    /// # Errors
    /// [`OpenError`]: the directory is in use, a file is missing or damaged, or the system said no.
    pub fn open(options: LogOptions) -> Result<Self, OpenError> {
        let recovered = recovery::recover(&options)?;
        let end = recovered.active.as_ref().map_or(LogEnd::default(), |active| LogEnd {
            file: active.entry.number,
            position: active.position,
        });
        let shared = Arc::new(Shared {
            options,
            files: Files::new(recovered.files),
            published: Arc::new(Published::new(end, recovered.state.clone())),
            queue: Queue::default(),
        });
        let committer = Committer {
            shared: Arc::clone(&shared),
            active: recovered.active,
            state: recovered.state,
            last_created: recovered.last_created,
            noted: Instant::now(),
        };
        let builder = std::thread::Builder::new().name("binlog-commit".into());
        let thread = builder.spawn(|| committer.run()).map_err(OpenError::Thread)?;
        let running = Running { thread, _lock: recovered.lock };
        Ok(Self { shared, running: Mutex::new(Some(running)) })
    }

    /// Opens the first file of an empty log: the source's format description, and the GTID state where recording begins. In a
    /// log that has a file it changes nothing.
    pub fn begin(&self, format: Arc<FormatDescription>, state: GtidState) -> Ticket {
        self.push(Job::Begin { format, state })
    }

    /// Hands over a transaction; returns at once. Transactions stand in the log in the order of the calls.
    pub fn submit(&self, transaction: Transaction) -> Ticket {
        self.push(Job::Transaction(transaction))
    }

    fn push(&self, job: Job) -> Ticket {
        let number = self.shared.queue.push(job);
        Ticket { published: Arc::clone(&self.shared.published), number }
    }

    /// The end of what readers may see.
    pub fn end(&self) -> LogEnd {
        self.shared.published.end()
    }

    /// Resolves when the end is another than `seen`, or the log is closed.
    pub fn changed(&self, seen: LogEnd) -> Changed {
        Changed { published: Arc::clone(&self.shared.published), seen }
    }

    /// The GTID state at [`Log::end`].
    pub fn gtid_state(&self) -> Arc<GtidState> {
        self.shared.published.view().state
    }

    /// Whether the log records, and if not, why.
    pub fn health(&self) -> Health {
        self.shared.published.view().health
    }

    /// What files of this log carry after their events.
    pub fn checksum(&self) -> ChecksumAlgorithm {
        self.shared.options.checksum
    }

    /// Format description of the newest file; `None` before the first.
    pub fn format(&self) -> Option<Arc<FormatDescription>> {
        self.shared.files.newest().map(|entry| Arc::clone(&entry.format))
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
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A panic on that thread has ended the process.
        running.map(|running| running.thread.join());
    }
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
mod tests;
