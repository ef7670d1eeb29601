//! A process that makes no system call which `malloc` of the C library does not make as well
//! (`QUARRY_SANDBOX=1`), because a filter kills for others in all of its threads.
//!
//! What is left: `mmap`, `munmap`, `madvise(MADV_DONTNEED)`, `futex`; at the start also
//! `sched_getaffinity`. That costs the restartable sequences (their barrier is a call of its own),
//! pages brought in by one call, huge pages, moving pages, and memory that goes back while the
//! program is idle.

use crate::os::{Linux, NotMoved, Os, OsError, OsResult};
use crate::primitive::{AtomicBool, Ordering};
use core::ptr::NonNull;

static CONFINED: AtomicBool = AtomicBool::new(false);

/// Confines the process; before anything else of this crate is used.
pub fn confine() {
    CONFINED.store(true, Ordering::Relaxed);
}

/// Whether the process is confined.
#[inline]
#[must_use]
pub fn is_confined() -> bool {
    CONFINED.load(Ordering::Relaxed)
}

/// [`Linux`] without what the C library does not use.
pub struct Confined;

const REFUSED: OsError = OsError(libc::EPERM);

// SAFETY: what is not refused is done by `Linux`, and `purge` is a call that acts on exactly the
// range it is given.
unsafe impl Os for Confined {
    fn page_size(&self) -> usize {
        Linux.page_size()
    }

    fn window(&self, bytes: usize, align: usize) -> OsResult<NonNull<u8>> {
        Linux.window(bytes, align)
    }

    fn close_window(&self, address: NonNull<u8>, bytes: usize) {
        Linux.close_window(address, bytes);
    }

    fn map(&self, address: NonNull<u8>, bytes: usize) -> OsResult<()> {
        Linux.map(address, bytes)
    }

    unsafe fn unmap(&self, address: NonNull<u8>, bytes: usize) -> OsResult<()> {
        // SAFETY: the caller's promise is passed on.
        unsafe { Linux.unmap(address, bytes) }
    }

    fn extend(&self, _address: NonNull<u8>, _bytes: usize, _new_bytes: usize) -> OsResult<()> {
        Err(REFUSED)
    }

    unsafe fn move_pages(
        &self,
        _from: (NonNull<u8>, usize),
        _to: (NonNull<u8>, usize),
    ) -> Result<(), NotMoved> {
        Err(NotMoved::Unchanged)
    }

    fn reserve(&self, bytes: usize) -> OsResult<NonNull<u8>> {
        Linux.reserve(bytes)
    }

    fn populate(&self, _address: NonNull<u8>, _bytes: usize) -> OsResult<()> {
        Err(REFUSED)
    }

    fn purge(&self, address: NonNull<u8>, bytes: usize) -> OsResult<()> {
        // SAFETY: the caller owns the range and has given up its contents.
        match unsafe { libc::madvise(address.as_ptr().cast(), bytes, libc::MADV_DONTNEED) } {
            0 => Ok(()),
            _ => Err(OsError(crate::errno::get())),
        }
    }

    fn advise_huge(&self, _address: NonNull<u8>, _bytes: usize, _huge: bool) -> OsResult<()> {
        Err(REFUSED)
    }

    unsafe fn release(&self, address: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller's promise is passed on.
        unsafe { Linux.release(address, bytes) };
    }
}
