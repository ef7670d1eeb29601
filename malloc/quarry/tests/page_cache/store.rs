//! A backing in memory that fails as a test tells it to.

use quarry::{Access, Backing, OsError, ReadOnly, ReadWrite};
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};

pub(crate) const PAGE: usize = 4096;

/// A call that the store has received: offset, requested bytes, bytes of the pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) offset: u64,
    pub(crate) bytes: usize,
    pub(crate) pieces: usize,
}

/// The bytes of a store, and how its calls are to fail.
#[derive(Default)]
pub(crate) struct Disk {
    pub(crate) bytes: Mutex<Vec<u8>>,
    /// Maximum number of bytes that one call moves; 0 for no limit.
    pub(crate) most: AtomicUsize,
    /// Errors for reads of pages, by offset.
    pub(crate) bad_reads: Mutex<BTreeMap<u64, i32>>,
    /// The errors of the next writes, the last one first.
    pub(crate) bad_writes: Mutex<Vec<i32>>,
    /// The errors of the next syncs, the last one first.
    pub(crate) bad_syncs: Mutex<Vec<i32>>,
    /// Number of syncs that succeeded.
    pub(crate) synced: AtomicUsize,
    /// Pages with marks up to this one may be written.
    pub(crate) log: AtomicU64,
    pub(crate) reads: Mutex<Vec<Call>>,
    pub(crate) writes: Mutex<Vec<Call>>,
    pub(crate) panics: AtomicBool,
    /// Its panics print nothing.
    pub(crate) is_quiet: AtomicBool,
    /// Number of calls that may pass; `None` for all.
    gate: Mutex<Option<usize>>,
    opened: Condvar,
    /// Number of calls that have begun, including those that wait to pass.
    pub(crate) arrived: AtomicUsize,
}

impl Disk {
    /// A disk on which every page contains its number.
    pub(crate) fn of_pages(pages: u64) -> Arc<Self> {
        let disk = Self { log: AtomicU64::new(u64::MAX), ..Self::default() };
        *disk.bytes.lock().unwrap() = (0..pages).flat_map(page_of).collect();
        Arc::new(disk)
    }

    pub(crate) fn page(&self, index: u64) -> Vec<u8> {
        let start = index as usize * PAGE;
        self.bytes.lock().unwrap()[start..start + PAGE].to_vec()
    }

    /// Lets no call pass from now on.
    pub(crate) fn close(&self) {
        *self.gate.lock().unwrap() = Some(0);
    }

    /// Lets all calls pass.
    pub(crate) fn open(&self) {
        *self.gate.lock().unwrap() = None;
        self.opened.notify_all();
    }

    fn pass(&self) {
        self.arrived.fetch_add(1, SeqCst);
        let gate = self.gate.lock().unwrap();
        drop(self.opened.wait_while(gate, |gate| *gate == Some(0)).unwrap());
        if self.is_quiet.load(SeqCst) && self.panics.load(SeqCst) {
            std::panic::resume_unwind(Box::new("quiet"));
        }
        assert!(!self.panics.load(SeqCst), "the backing panics, as it was told");
    }

    /// The number of bytes that a call moves if `bytes` are requested.
    fn moved(&self, bytes: usize) -> usize {
        match self.most.load(SeqCst) {
            0 => bytes,
            most => bytes.min(most),
        }
    }
}

/// The bytes of a page that contains its number.
pub(crate) fn page_of(index: u64) -> Vec<u8> {
    (0..PAGE as u64 / 8).flat_map(|word| (index * 1_000_003 + word).to_le_bytes()).collect()
}

/// A backing over a disk.
pub(crate) struct Store<A>(pub(crate) Arc<Disk>, PhantomData<A>);

/// A backing that is only read.
pub(crate) fn readable(disk: &Arc<Disk>) -> Store<ReadOnly> {
    Store(Arc::clone(disk), PhantomData)
}

/// A backing that is read and written.
pub(crate) fn writable(disk: &Arc<Disk>) -> Store<ReadWrite> {
    Store(Arc::clone(disk), PhantomData)
}

impl<A: Access> Backing for Store<A> {
    type Access = A;

    fn size(&self) -> u64 {
        self.0.bytes.lock().unwrap().len() as u64
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<usize, OsError> {
        self.read_pages(offset, &mut [bytes])
    }

    fn read_pages(&self, offset: u64, pages: &mut [&mut [u8]]) -> Result<usize, OsError> {
        let disk = &*self.0;
        let asked = pages.iter().map(|page| page.len()).sum();
        disk.reads.lock().unwrap().push(Call { offset, bytes: asked, pieces: pages.len() });
        disk.pass();
        let bad: Vec<(u64, i32)> =
            disk.bad_reads.lock().unwrap().iter().map(|(page, errno)| (*page, *errno)).collect();
        let mut end = offset + disk.moved(asked) as u64;
        for (page, errno) in bad {
            let start = page * PAGE as u64;
            if (start..start + PAGE as u64).contains(&offset) {
                return Err(OsError(errno));
            }
            if start > offset {
                end = end.min(start);
            }
        }
        let all = disk.bytes.lock().unwrap();
        let end = end.min(all.len() as u64) as usize;
        let mut from = (offset as usize).min(end);
        for page in pages {
            let count = page.len().min(end - from);
            page[..count].copy_from_slice(&all[from..from + count]);
            from += count;
        }
        Ok(from.saturating_sub(offset as usize))
    }

    fn write_pages(&self, offset: u64, pages: &[&[u8]]) -> Result<usize, OsError> {
        let disk = &*self.0;
        let asked = pages.iter().map(|page| page.len()).sum();
        disk.writes.lock().unwrap().push(Call { offset, bytes: asked, pieces: pages.len() });
        disk.pass();
        if let Some(errno) = disk.bad_writes.lock().unwrap().pop() {
            return Err(OsError(errno));
        }
        let bytes: Vec<u8> = pages.concat();
        let moved = disk.moved(asked);
        let (start, mut all) = (offset as usize, disk.bytes.lock().unwrap());
        if all.len() < start + moved {
            all.resize(start + moved, 0);
        }
        all[start..start + moved].copy_from_slice(&bytes[..moved]);
        Ok(moved)
    }

    fn may_write(&self, mark: u64, _is_flush: bool) -> bool {
        mark <= self.0.log.load(SeqCst)
    }

    fn sync(&self) -> Result<(), OsError> {
        if let Some(errno) = self.0.bad_syncs.lock().unwrap().pop() {
            return Err(OsError(errno));
        }
        self.0.synced.fetch_add(1, SeqCst);
        Ok(())
    }
}
