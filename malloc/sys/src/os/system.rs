//! Memory from the operating system, and its addresses.
//!
//! There are two kinds of address space:
//!
//! * A *window* is a range of addresses. Choosing it maps nothing, so no limit counts it, and other
//!   code may map memory inside it. Pieces are mapped when needed and unmapped when given back.
//!   Mapping a piece fails where its addresses are in use, and so replaces nothing.
//! * A *reservation* is mapped as a whole, wherever the kernel chooses. Small structures use it,
//!   and arrays that must be addressable as a whole before all of their memory is used.
//!
//! Preconditions of all calls: addresses and lengths are multiples of [`Os::page_size`], lengths
//! are not zero, ranges lie in one window or reservation of the `Os`. Calls may change `errno`.
//!
//! States of an OS page in a window: *free* -> `map` -> *ours* (zero when first touched) ->
//! touched -> `purge` -> *ours*, zero again -> `unmap` -> *free*. Only pages that are *ours* are
//! ever touched, purged, moved or moved onto.

use crate::errno::{OsError, OsResult};
use core::ptr::NonNull;

/// The state after a move that the operating system refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotMoved {
    /// The pages stay; the contents of the target are unspecified. The caller may copy instead.
    Unchanged,
    /// The pages stay. The target may belong to other code, and the caller must not touch it.
    Lost,
}

/// How an operating system makes a guard: see [`Os::guard`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// By marks in page tables, without a mapping of its own.
    Marked = 1,
    /// By a mapping of its own; a process may have only so many of them.
    Mapped = 2,
}

/// The memory calls of an operating system, or of a fake one in tests.
///
/// # Safety
/// `map` and `reserve` return fresh memory that no live object overlaps and that belongs to this
/// process until it is unmapped or released; `purge` and `populate` never change the contents of
/// other ranges; no call changes mappings outside its arguments.
pub unsafe trait Os: Sync {
    /// Bytes per page of the OS: 4, 16 or 64 KiB. Quarry's frames always have 4 KiB.
    fn page_size(&self) -> usize;

    /// Chooses `bytes` of addresses, probably free, at a multiple of `align` (2^n). Maps nothing.
    ///
    /// # Errors
    /// `ENOMEM` where there is no such range.
    fn window(&self, bytes: usize, align: usize) -> OsResult<NonNull<u8>>;

    /// Gives up a window in which nothing is mapped.
    fn close_window(&self, _address: NonNull<u8>, _bytes: usize) {}

    /// Maps a piece of a window: readable, writable, zeroed, and charged as its pages are touched.
    ///
    /// # Errors
    /// `EEXIST` where other code has a mapping there, which stays; `ENOMEM` at a limit.
    fn map(&self, address: NonNull<u8>, bytes: usize) -> OsResult<()>;

    /// Unmaps a piece of a window.
    ///
    /// # Errors
    /// `ENOMEM` where splitting a VMA would exceed the system's limit; then nothing has changed.
    ///
    /// # Safety
    /// The piece is mapped, and no code uses it any more.
    unsafe fn unmap(&self, address: NonNull<u8>, bytes: usize) -> OsResult<()>;

    /// Grows a mapped piece of a window in place, as one mapping. The part after `bytes` is zero.
    ///
    /// # Errors
    /// If another mapping follows, at a limit, or if several VMAs are given; nothing changes.
    fn extend(&self, address: NonNull<u8>, bytes: usize, new_bytes: usize) -> OsResult<()>;

    /// Moves the pages of a mapped piece to the front of another one that is at least as long. The
    /// target loses its contents, and its rest reads as zero. The addresses at `from` become free.
    ///
    /// # Errors
    /// If the OS cannot move the pages, for example because they are in several VMAs. `from` has
    /// not changed then; the caller may copy unless the target is [`Lost`](NotMoved::Lost).
    ///
    /// # Safety
    /// Both pieces are mapped and only the caller uses them.
    unsafe fn move_pages(
        &self,
        from: (NonNull<u8>, usize),
        to: (NonNull<u8>, usize),
    ) -> Result<(), NotMoved>;

    /// Maps `bytes` of memory anywhere: readable, writable, zero, charged as its pages are touched.
    ///
    /// # Errors
    /// The OS's `errno` where address space or memory is limited or exhausted.
    fn reserve(&self, bytes: usize) -> OsResult<NonNull<u8>>;

    /// Brings the pages of an accessible range into memory by one call.
    ///
    /// # Errors
    /// `EINVAL` before Linux 5.14, `ENOMEM` or `EFAULT` at a limit: page faults do the work then.
    fn populate(&self, address: NonNull<u8>, bytes: usize) -> OsResult<()>;

    /// Gives an accessible range's memory back, even after `mlock`. The range then reads as zero.
    ///
    /// # Errors
    /// The OS's `errno` (`mlock` before Linux 5.18, a seccomp filter); the contents are undefined.
    fn purge(&self, address: NonNull<u8>, bytes: usize) -> OsResult<()>;

    /// [`purge`](Self::purge) of memory that no program has held: no code that watches is told, so
    /// the caller may hold locks.
    ///
    /// # Errors
    /// Same as those of `purge`.
    fn purge_metadata(&self, address: NonNull<u8>, bytes: usize) -> OsResult<()> {
        self.purge(address, bytes)
    }

    /// Returns whether code of the program runs inside `purge` and `unmap`. Then their caller holds
    /// no lock that a request takes.
    fn runs_others(&self) -> bool {
        false
    }

    /// Makes every access to whole pages of a mapped range fault, or succeed again.
    ///
    /// # Errors
    /// The OS's `errno` (`ENOSYS` without such a call); some of the mappings may have changed.
    fn set_accessible(
        &self,
        _address: NonNull<u8>,
        _bytes: usize,
        _accessible: bool,
    ) -> OsResult<()> {
        Err(OsError(libc::ENOSYS))
    }

    /// Makes a mapped range of whole pages a guard: every access faults until `unguard`, also after
    /// a purge and in children of a fork. The contents are lost.
    ///
    /// # Errors
    /// The OS's `errno`; `ENOMEM` if the process has many mappings. Then the range is accessible.
    fn guard(&self, _address: NonNull<u8>, _bytes: usize) -> OsResult<Guard> {
        Err(OsError(libc::ENOSYS))
    }

    /// Makes a guard accessible again.
    ///
    /// # Errors
    /// The OS's `errno`; the range stays a guard.
    fn unguard(&self, _address: NonNull<u8>, _bytes: usize, _made: Guard) -> OsResult<()> {
        Err(OsError(libc::ENOSYS))
    }

    /// Undoes what the program may have done to the pages of a mapped range: makes them writable,
    /// and shared with children of a fork like all others.
    ///
    /// # Errors
    /// The OS's `errno`; some of this may have been done.
    fn reset(&self, _address: NonNull<u8>, _bytes: usize) -> OsResult<()> {
        Ok(())
    }

    /// Asks for huge pages in an accessible range, or, if not `huge`, for ordinary ones. A hint: it
    /// changes no contents, and the caller may ignore a refusal.
    ///
    /// # Errors
    /// The OS's `errno`.
    fn advise_huge(&self, address: NonNull<u8>, bytes: usize, huge: bool) -> OsResult<()>;

    /// Returns whether faults and khugepaged make huge pages without `madvise`.
    fn gives_huge_unasked(&self) -> bool {
        false
    }

    /// Gives a whole reservation back.
    ///
    /// # Safety
    /// `address` and `bytes` are those of one `reserve`, and no code uses the memory any more.
    unsafe fn release(&self, address: NonNull<u8>, bytes: usize);
}
