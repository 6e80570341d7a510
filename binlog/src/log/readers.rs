//! Who reads the log, and in which file: a purge takes no file that a reader still needs, unless it is told to.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

/// One cursor's place, as purges see it. A cursor goes forward only, so what they see is never ahead of it.
#[derive(Debug)]
pub(crate) struct Reader {
    file: AtomicU64,
    expelled: AtomicBool,
    wakers: Mutex<Vec<Waker>>,
}

impl Reader {
    /// It needs the files before this one no more.
    pub(crate) fn enter(&self, file: u64) {
        self.file.store(file, Ordering::Release);
    }

    /// Its file was purged.
    pub(crate) fn is_expelled(&self) -> bool {
        self.expelled.load(Ordering::Acquire)
    }

    fn expel(&self) {
        self.expelled.store(true, Ordering::Release);
        let wakers = std::mem::take(&mut *lock(&self.wakers));
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// Resolves when the file that a cursor is in was purged. See `Cursor::expelled`.
#[derive(Debug)]
pub struct Expelled {
    pub(crate) reader: Arc<Reader>,
}

impl Future for Expelled {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut wakers = lock(&self.reader.wakers);
        if self.reader.is_expelled() {
            return Poll::Ready(());
        }
        if !wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
            wakers.push(cx.waker().clone());
        }
        Poll::Pending
    }
}

/// All cursors there are.
#[derive(Debug, Default)]
pub(crate) struct Readers {
    list: Mutex<Vec<Weak<Reader>>>,
}

impl Readers {
    /// A reader of this file. Whoever reads registers before it looks for the file: a purge then sees it, or it does not find the
    /// file.
    pub(crate) fn register(&self, file: u64) -> Arc<Reader> {
        let (file, expelled) = (AtomicU64::new(file), AtomicBool::new(false));
        let reader = Arc::new(Reader { file, expelled, wakers: Mutex::default() });
        let mut list = lock(&self.list);
        list.retain(|known| known.strong_count() > 0);
        list.push(Arc::downgrade(&reader));
        reader
    }

    /// The oldest file that somebody reads, and by how many.
    pub(crate) fn oldest(&self) -> Option<(u64, usize)> {
        self.lock().oldest()
    }

    /// Nobody registers until the answer is dropped.
    pub(crate) fn lock(&self) -> LockedReaders<'_> {
        LockedReaders { list: lock(&self.list) }
    }
}

/// See [`Readers::lock`].
pub(crate) struct LockedReaders<'a> {
    list: MutexGuard<'a, Vec<Weak<Reader>>>,
}

impl LockedReaders<'_> {
    /// The oldest file that somebody reads, and by how many.
    pub(crate) fn oldest(&self) -> Option<(u64, usize)> {
        let files = self.list.iter().filter_map(Weak::upgrade);
        let files: Vec<_> = files.map(|reader| reader.file.load(Ordering::Acquire)).collect();
        let oldest = *files.iter().min()?;
        Some((oldest, files.iter().filter(|file| **file == oldest).count()))
    }

    /// Ends the readers of files before this one; answers how many there were.
    pub(crate) fn expel_before(&self, file: u64) -> usize {
        let readers = self.list.iter().filter_map(Weak::upgrade);
        let behind = readers.filter(|reader| reader.file.load(Ordering::Acquire) < file);
        behind.map(|reader| reader.expel()).count()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
