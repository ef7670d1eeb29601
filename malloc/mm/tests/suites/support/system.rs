//! An operating system for tests: it counts its calls, fails those that a test chooses, records its
//! mappings, and unmaps them at the end.

use quarry_sys::os::{FakeOs, Guard, Linux, NotMoved, Os, OsError, OsResult};
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The system to which [`TestOs`] passes its calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backing {
    /// Plain mappings: for memory checkers.
    Fake,
    /// The real calls: memory that is not mapped faults, and purged memory is gone.
    Linux,
}

/// The test system. Its calls are numbered from 1.
pub(crate) struct TestOs {
    inner: Box<dyn Os + Send>,
    page_size: usize,
    /// Makes memory inaccessible where a stack asks for it: a freed block may then be withheld.
    pub(crate) protects: AtomicBool,
    /// Makes guards where a stack asks for them.
    pub(crate) guards: AtomicBool,
    calls: AtomicU64,
    /// The calls from `first` to `last` fail.
    first: AtomicU64,
    last: AtomicU64,
    reservations: Mutex<Vec<(usize, usize)>>,
    windows: Mutex<Vec<(usize, usize)>>,
    pieces: Mutex<Pieces>,
}

/// The mapped ranges of windows, by their starts.
#[derive(Default)]
struct Pieces(BTreeMap<usize, usize>);

impl Pieces {
    /// Returns whether all of a range is mapped.
    fn cover(&self, start: usize, end: usize) -> bool {
        let mut covered = start;
        for (from, to) in self.0.range(..end) {
            if *from <= covered && covered < *to {
                covered = *to;
            }
        }
        covered >= end
    }

    fn add(&mut self, start: usize, end: usize) {
        let touches = self.0.range(..end).any(|(_, to)| *to > start);
        assert!(!touches, "mapped what is mapped already: {start:#x}..{end:#x}");
        self.0.insert(start, end);
    }

    fn remove(&mut self, start: usize, end: usize) {
        assert!(self.cover(start, end), "unmapped what is not mapped: {start:#x}..{end:#x}");
        let touched: Vec<_> =
            self.0.range(..end).filter(|(_, to)| **to > start).map(|(&at, &to)| (at, to)).collect();
        for (from, to) in touched {
            self.0.remove(&from);
            if from < start {
                self.0.insert(from, start);
            }
            if to > end {
                self.0.insert(end, to);
            }
        }
    }
}

impl TestOs {
    /// A system that refuses nothing, and reports pages of `page_size` bytes.
    pub(crate) fn new(backing: Backing, page_size: usize) -> Self {
        Self {
            inner: match backing {
                Backing::Fake => Box::new(FakeOs::new(page_size)),
                Backing::Linux => Box::new(Linux),
            },
            page_size,
            protects: AtomicBool::new(false),
            guards: AtomicBool::new(true),
            calls: AtomicU64::new(0),
            first: AtomicU64::new(u64::MAX),
            last: AtomicU64::new(0),
            reservations: Mutex::new(Vec::new()),
            windows: Mutex::new(Vec::new()),
            pieces: Mutex::new(Pieces::default()),
        }
    }

    /// Calls made so far.
    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Makes `count` calls fail, beginning with the `nth` from now on (1 is the next call).
    pub(crate) fn fail(&self, nth: u64, count: u64) {
        let first = self.calls() + nth;
        self.first.store(first, Ordering::Relaxed);
        self.last.store(first.saturating_add(count - 1), Ordering::Relaxed);
    }

    /// Makes all later calls succeed.
    pub(crate) fn succeed(&self) {
        self.first.store(u64::MAX, Ordering::Relaxed);
    }

    /// Unmaps everything.
    pub(crate) fn release_all(&self) {
        let not_null = |start: usize| NonNull::new(start as *mut u8).expect("nothing is at 0");
        let pieces = std::mem::take(&mut *self.pieces.lock().unwrap());
        for (start, end) in pieces.0 {
            // SAFETY: this system has mapped the range, and the bed that owned it is gone.
            unsafe { self.inner.unmap(not_null(start), end - start) }.expect("unmapped");
        }
        for (start, bytes) in std::mem::take(&mut *self.windows.lock().unwrap()) {
            self.inner.close_window(not_null(start), bytes);
        }
        let reservations = std::mem::take(&mut *self.reservations.lock().unwrap());
        for (start, bytes) in reservations {
            let start = NonNull::new(start as *mut u8).expect("reservations are not at 0");
            // SAFETY: this system made the reservation, and the bed that owned it is gone.
            unsafe { self.release_inner(start, bytes) };
        }
    }

    fn count(&self) -> OsResult<()> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let failing = self.first.load(Ordering::Relaxed)..=self.last.load(Ordering::Relaxed);
        if failing.contains(&call) { Err(OsError(libc::ENOMEM)) } else { Ok(()) }
    }
}

// SAFETY: each call is refused, or passed on to a system that keeps the promises.
unsafe impl Os for TestOs {
    fn page_size(&self) -> usize {
        self.page_size
    }

    fn window(&self, bytes: usize, align: usize) -> OsResult<NonNull<u8>> {
        assert!(bytes > 0 && bytes.is_multiple_of(self.page_size), "a window of {bytes} bytes");
        self.count()?;
        let start = self.inner.window(bytes, align)?;
        self.windows.lock().unwrap().push((start.as_ptr() as usize, bytes));
        Ok(start)
    }

    fn close_window(&self, address: NonNull<u8>, bytes: usize) {
        let start = address.as_ptr() as usize;
        let mut windows = self.windows.lock().unwrap();
        let index = windows.iter().position(|whole| *whole == (start, bytes));
        windows.swap_remove(index.expect("closed a window that was never chosen"));
        let pieces = self.pieces.lock().unwrap();
        let mut inside = pieces.0.range(start..start + bytes);
        assert_eq!(inside.next(), None, "closed a window with something in it");
        self.inner.close_window(address, bytes);
    }

    fn map(&self, address: NonNull<u8>, bytes: usize) -> OsResult<()> {
        let start = address.as_ptr() as usize;
        let inside = |(low, span): &(usize, usize)| *low <= start && start + bytes <= low + span;
        assert!(self.windows.lock().unwrap().iter().any(inside), "mapped outside every window");
        self.count()?;
        self.inner.map(address, bytes)?;
        self.pieces.lock().unwrap().add(start, start + bytes);
        Ok(())
    }

    unsafe fn unmap(&self, address: NonNull<u8>, bytes: usize) -> OsResult<()> {
        let start = address.as_ptr() as usize;
        self.count()?;
        // The range is removed here before another thread can map it again.
        self.pieces.lock().unwrap().remove(start, start + bytes);
        // SAFETY: the caller's promise is passed on.
        unsafe { self.inner.unmap(address, bytes) }
    }

    fn extend(&self, address: NonNull<u8>, bytes: usize, new_bytes: usize) -> OsResult<()> {
        self.check_range(address, bytes);
        self.count()?;
        self.inner.extend(address, bytes, new_bytes)?;
        let start = address.as_ptr() as usize;
        self.pieces.lock().unwrap().add(start + bytes, start + new_bytes);
        Ok(())
    }

    unsafe fn move_pages(
        &self,
        (from, bytes): (NonNull<u8>, usize),
        (to, new_bytes): (NonNull<u8>, usize),
    ) -> Result<(), NotMoved> {
        self.check_range(from, bytes);
        self.check_range(to, new_bytes);
        let (start, target) = (from.as_ptr() as usize, to.as_ptr() as usize);
        assert!(start + bytes <= target || target + new_bytes <= start, "moved onto itself");
        assert!(bytes <= new_bytes, "moved to where there is no room");
        self.count().map_err(|_| NotMoved::Unchanged)?;
        // SAFETY: the caller's promise is passed on.
        let moved = unsafe { self.inner.move_pages((from, bytes), (to, new_bytes)) };
        let mut pieces = self.pieces.lock().unwrap();
        match moved {
            Ok(()) => pieces.remove(start, start + bytes),
            Err(NotMoved::Lost) => pieces.remove(target, target + new_bytes),
            Err(NotMoved::Unchanged) => {}
        }
        moved
    }

    fn set_accessible(&self, address: NonNull<u8>, bytes: usize, accessible: bool) -> OsResult<()> {
        self.check_range(address, bytes);
        if !self.protects.load(Ordering::Relaxed) {
            return Err(OsError(libc::ENOSYS));
        }
        self.count()?;
        self.inner.set_accessible(address, bytes, accessible)
    }

    fn guard(&self, address: NonNull<u8>, bytes: usize) -> OsResult<Guard> {
        self.check_range(address, bytes);
        if !self.guards.load(Ordering::Relaxed) {
            return Err(OsError(libc::ENOSYS));
        }
        self.count()?;
        self.inner.guard(address, bytes)
    }

    fn unguard(&self, address: NonNull<u8>, bytes: usize, made: Guard) -> OsResult<()> {
        self.check_range(address, bytes);
        self.count()?;
        self.inner.unguard(address, bytes, made)
    }

    fn reserve(&self, bytes: usize) -> OsResult<NonNull<u8>> {
        assert!(bytes > 0 && bytes.is_multiple_of(self.page_size), "reserve {bytes} bytes");
        self.count()?;
        // At a multiple of the page size that this system reports.
        let start = self.inner.window(bytes, self.page_size)?;
        self.inner.map(start, bytes)?;
        self.reservations.lock().unwrap().push((start.as_ptr() as usize, bytes));
        Ok(start)
    }

    fn populate(&self, address: NonNull<u8>, bytes: usize) -> OsResult<()> {
        self.check_range(address, bytes);
        self.count()?;
        self.inner.populate(address, bytes)
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

    unsafe fn release(&self, address: NonNull<u8>, bytes: usize) {
        let start = address.as_ptr() as usize;
        let mut reservations = self.reservations.lock().unwrap();
        let index = reservations.iter().position(|whole| *whole == (start, bytes));
        reservations.swap_remove(index.expect("released what was never reserved"));
        // SAFETY: the caller's promise is passed on.
        unsafe { self.release_inner(address, bytes) };
    }
}

impl TestOs {
    /// # Safety
    /// As `release`.
    unsafe fn release_inner(&self, address: NonNull<u8>, bytes: usize) {
        // SAFETY: `reserve` mapped this window, which is not used any more (caller's promise).
        unsafe { self.inner.unmap(address, bytes) }.expect("unmapped");
        self.inner.close_window(address, bytes);
    }

    /// Checks the preconditions that all calls have in common.
    fn check_range(&self, address: NonNull<u8>, bytes: usize) {
        let start = address.as_ptr() as usize;
        assert!(start.is_multiple_of(self.page_size), "a call on {start:#x}, inside a page");
        assert!(bytes > 0 && bytes.is_multiple_of(self.page_size), "a call on {bytes} bytes");
        let reservations = self.reservations.lock().unwrap();
        let inside = |(low, span): &(usize, usize)| *low <= start && start + bytes <= low + span;
        let is_mapped = || self.pieces.lock().unwrap().cover(start, start + bytes);
        assert!(
            reservations.iter().any(inside) || is_mapped(),
            "a call on {start:#x}, of which not all {bytes} bytes are mapped"
        );
    }
}
