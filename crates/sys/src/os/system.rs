//! Memory from the operating system, and the addresses that it lies at.
//!
//! Two kinds of address space are told apart:
//!
//! * A *window* is a range of addresses and nothing else: choosing it maps nothing, so it counts in
//!   no limit, and a foreign mapping may lie in it. Pieces of it are mapped as they are
//!   needed and unmapped when they are given back. Mapping a piece shows whether its addresses are
//!   free; nothing is ever replaced.
//! * A *reservation* is mapped as a whole, wherever the system likes. It serves for small things,
//!   and for memory that code must be able to address before it is used.
//!
//! Preconditions common to all calls, stated once: addresses and lengths are multiples of
//! [`Os::page_size`], lengths are not zero, and ranges lie inside one window or reservation of the
//! same `Os`. No call touches `errno` visibly: entry points save it.
//!
//! States of a page of a window: *free* -> `map` -> *ours* (reads as zero when first touched)
//! -> touched -> `purge` -> *ours*, zero again -> `unmap` -> *free*. Only pages that are *ours*
//! are ever touched, purged, moved or moved onto.

use crate::errno::{OsError, OsResult};
use core::ptr::NonNull;

/// The state after a move that the operating system refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotMoved {
    /// Nothing moved, but the contents of the target are unspecified now: the caller may copy.
    Unchanged,
    /// The pages are where they were. The target may be foreign now and must not be touched
    /// again.
    Lost,
}

/// The memory calls of an operating system, or of a fake one in tests.
///
/// # Safety
/// `map` and `reserve` return fresh memory that no live object overlaps and that stays this
/// process's until it is unmapped or released; `purge` and `populate` never change the contents of
/// other ranges; no call changes a mapping that it was not given.
pub unsafe trait Os: Sync {
    /// Bytes per page of the OS: 4, 16 or 64 KiB. Frames of Quarry are 4 KiB whatever this is.
    fn page_size(&self) -> usize;

    /// Chooses `bytes` of addresses, at a multiple of `align` (a power of two), where nothing is
    /// likely to be mapped. Maps nothing.
    ///
    /// # Errors
    /// `ENOMEM` where there is no such range.
    fn window(&self, bytes: usize, align: usize) -> OsResult<NonNull<u8>>;

    /// Gives up a window of which nothing is mapped any more.
    fn close_window(&self, address: NonNull<u8>, bytes: usize);

    /// Maps a piece of a window: readable, writable, zero, charged as its pages are touched.
    ///
    /// # Errors
    /// `EEXIST` where anything is mapped there already, which is left as it is; `ENOMEM` at a
    /// limit.
    fn map(&self, address: NonNull<u8>, bytes: usize) -> OsResult<()>;

    /// Unmaps a piece of a window.
    ///
    /// # Errors
    /// `ENOMEM` where the system would have to split a mapping and has too many; nothing has
    /// changed then.
    ///
    /// # Safety
    /// The piece is mapped, and no code uses it any more.
    unsafe fn unmap(&self, address: NonNull<u8>, bytes: usize) -> OsResult<()>;

    /// Lets a mapped piece of a window grow from `bytes` to `new_bytes` where it lies, as one
    /// mapping. The new part reads as zero.
    ///
    /// # Errors
    /// Where anything lies after it, where it is more than one mapping, or at a limit; nothing has
    /// changed then.
    fn extend(&self, address: NonNull<u8>, bytes: usize, new_bytes: usize) -> OsResult<()>;

    /// Moves the pages of a mapped piece to the front of another one, which must be at least as
    /// long and loses its contents; after the pages it reads as zero. The addresses at `from` are
    /// free afterwards.
    ///
    /// # Errors
    /// Where the OS cannot move pages, for example those of several mappings. `from` has not
    /// changed then, so the caller may copy, if the target is still ours.
    ///
    /// # Safety
    /// Both pieces are mapped and only the caller uses them.
    unsafe fn move_pages(
        &self,
        from: (NonNull<u8>, usize),
        to: (NonNull<u8>, usize),
    ) -> Result<(), NotMoved>;

    /// Maps `bytes` of memory of its own anywhere: readable, writable, zero, charged as its pages
    /// are touched.
    ///
    /// # Errors
    /// The OS's `errno` where address space or memory is limited or exhausted.
    fn reserve(&self, bytes: usize) -> OsResult<NonNull<u8>>;

    /// Brings the pages of an accessible range into memory in one call.
    ///
    /// # Errors
    /// `EINVAL` before Linux 5.14, `ENOMEM` or `EFAULT` at a memory limit: plain faults then serve.
    fn populate(&self, address: NonNull<u8>, bytes: usize) -> OsResult<()>;

    /// Gives the memory of an accessible range back, also where the program has locked it; it reads
    /// as zero afterwards.
    ///
    /// # Errors
    /// The OS's `errno` (locked pages before Linux 5.18, filters); the contents are then
    /// unspecified.
    fn purge(&self, address: NonNull<u8>, bytes: usize) -> OsResult<()>;

    /// Makes whole pages of a mapped range fault at every access, or accessible again as they were.
    ///
    /// # Errors
    /// The OS's `errno`; of several mappings the first ones may have changed. A system that cannot
    /// says `ENOSYS`.
    fn set_accessible(
        &self,
        _address: NonNull<u8>,
        _bytes: usize,
        _accessible: bool,
    ) -> OsResult<()> {
        Err(OsError(libc::ENOSYS))
    }

    /// Asks for huge pages (or, with false, for ordinary ones only) in an accessible range. A hint:
    /// it changes no contents, and a refusal is without consequence.
    ///
    /// # Errors
    /// The OS's `errno`.
    fn advise_huge(&self, address: NonNull<u8>, bytes: usize, huge: bool) -> OsResult<()>;

    /// Returns whether memory comes in as huge pages, and khugepaged makes more of them, without a
    /// request.
    fn gives_huge_unasked(&self) -> bool {
        false
    }

    /// Gives a whole reservation back.
    ///
    /// # Safety
    /// `address` and `bytes` are those of one `reserve`, and nothing in it is used any more.
    unsafe fn release(&self, address: NonNull<u8>, bytes: usize);
}
