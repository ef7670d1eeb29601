//! An operating system for tests: counts its calls, fails where told to, unmaps when done.

use quarry_sys::os::{FakeOs, Linux, Os, OsError, OsResult};
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// What lies below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backing {
    /// Plain mappings: for memory checkers.
    Fake,
    /// The real calls: memory that was not committed faults, purged memory is gone.
    Linux,
}

/// The system. Calls are numbered from 1.
pub(crate) struct TestOs {
    inner: Box<dyn Os + Send>,
    page_size: usize,
    calls: AtomicU64,
    /// Calls `first..=last` fail.
    first: AtomicU64,
    last: AtomicU64,
    reservations: Mutex<Vec<(usize, usize)>>,
}

impl TestOs {
    /// One on which nothing fails, that says its pages have `page_size` bytes.
    pub(crate) fn new(backing: Backing, page_size: usize) -> Self {
        Self {
            inner: match backing {
                Backing::Fake => Box::new(FakeOs::new(page_size)),
                Backing::Linux => Box::new(Linux),
            },
            page_size,
            calls: AtomicU64::new(0),
            first: AtomicU64::new(u64::MAX),
            last: AtomicU64::new(0),
            reservations: Mutex::new(Vec::new()),
        }
    }

    /// Calls made so far.
    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Lets `count` calls fail, from the `nth` from now on (1 = the next).
    pub(crate) fn fail(&self, nth: u64, count: u64) {
        let first = self.calls() + nth;
        self.first.store(first, Ordering::Relaxed);
        self.last.store(first.saturating_add(count - 1), Ordering::Relaxed);
    }

    /// Lets everything succeed from now on.
    pub(crate) fn succeed(&self) {
        self.first.store(u64::MAX, Ordering::Relaxed);
    }

    /// Unmaps everything.
    pub(crate) fn release_all(&self) {
        let reservations = std::mem::take(&mut *self.reservations.lock().unwrap());
        for (start, bytes) in reservations {
            let start = NonNull::new(start as *mut u8).expect("reservations are not at 0");
            // SAFETY: a whole reservation of this system; the bed that owned it is gone.
            unsafe { self.inner.release(start, bytes) };
        }
    }

    fn count(&self) -> OsResult<()> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let failing = self.first.load(Ordering::Relaxed)..=self.last.load(Ordering::Relaxed);
        if failing.contains(&call) { Err(OsError(libc::ENOMEM)) } else { Ok(()) }
    }
}

// SAFETY: everything is passed on to a system that keeps the promises, or refused.
unsafe impl Os for TestOs {
    fn page_size(&self) -> usize {
        self.page_size
    }

    fn reserve(&self, bytes: usize, align: usize) -> OsResult<NonNull<u8>> {
        assert!(bytes > 0 && bytes.is_multiple_of(self.page_size), "reserve {bytes} bytes");
        assert!(align.is_power_of_two());
        self.count()?;
        let start = self.inner.reserve(bytes, align)?;
        self.reservations.lock().unwrap().push((start.as_ptr() as usize, bytes));
        Ok(start)
    }

    fn commit_read_only(&self, address: NonNull<u8>, bytes: usize) -> OsResult<()> {
        self.check_range(address, bytes);
        self.count()?;
        self.inner.commit_read_only(address, bytes)
    }

    fn commit(&self, address: NonNull<u8>, bytes: usize) -> OsResult<()> {
        self.check_range(address, bytes);
        self.count()?;
        self.inner.commit(address, bytes)
    }

    fn decommit(&self, address: NonNull<u8>, bytes: usize) -> OsResult<()> {
        self.check_range(address, bytes);
        self.count()?;
        self.inner.decommit(address, bytes)
    }

    fn populate(&self, address: NonNull<u8>, bytes: usize) -> OsResult<()> {
        self.check_range(address, bytes);
        self.count()?;
        self.inner.populate(address, bytes)
    }

    fn resident(&self, address: NonNull<u8>, pages: &mut [u8]) -> OsResult<()> {
        self.check_range(address, pages.len() * self.page_size);
        self.count()?;
        self.inner.resident(address, pages)
    }

    fn advise_huge(&self, address: NonNull<u8>, bytes: usize, huge: bool) -> OsResult<()> {
        self.check_range(address, bytes);
        self.count()?;
        self.inner.advise_huge(address, bytes, huge)
    }

    fn purge(&self, address: NonNull<u8>, bytes: usize) -> OsResult<()> {
        self.check_range(address, bytes);
        self.count()?;
        self.inner.purge(address, bytes)
    }

    fn move_pages(&self, from: NonNull<u8>, to: NonNull<u8>, bytes: usize) -> OsResult<()> {
        self.check_range(from, bytes);
        self.check_range(to, bytes);
        let distance = (from.as_ptr() as usize).abs_diff(to.as_ptr() as usize);
        assert!(distance >= bytes, "pages moved onto themselves");
        self.count()?;
        self.inner.move_pages(from, to, bytes)
    }

    unsafe fn release(&self, address: NonNull<u8>, bytes: usize) {
        let start = address.as_ptr() as usize;
        let mut reservations = self.reservations.lock().unwrap();
        let index = reservations.iter().position(|whole| *whole == (start, bytes));
        reservations.swap_remove(index.expect("released what was never reserved"));
        // SAFETY: the caller's promise is passed on.
        unsafe { self.inner.release(address, bytes) };
    }
}

impl TestOs {
    /// The preconditions that are common to all calls.
    fn check_range(&self, address: NonNull<u8>, bytes: usize) {
        let start = address.as_ptr() as usize;
        assert!(start.is_multiple_of(self.page_size), "a call on {start:#x}, inside a page");
        assert!(bytes > 0 && bytes.is_multiple_of(self.page_size), "a call on {bytes} bytes");
        let reservations = self.reservations.lock().unwrap();
        let inside = |(low, span): &(usize, usize)| *low <= start && start + bytes <= low + span;
        assert!(reservations.iter().any(inside), "a call outside every reservation");
    }
}
