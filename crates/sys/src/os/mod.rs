//! Memory from the operating system: reserve, commit, populate, purge, release, move.
//!
//! Preconditions common to all calls, stated once: addresses and lengths are multiples of
//! [`Os::page_size`], lengths are not zero, and ranges lie inside one reservation of the same `Os`.
//! No call touches `errno` visibly: entry points save it.
//!
//! States of a page: *reserved* (no access, no charge) -> `commit` -> *committed* (reads as zero
//! when first touched) -> touched -> `purge` -> *committed* again. Purging makes no page
//! inaccessible: by `mprotect` it would run into `vm.max_map_count`. Only where more is refused
//! does `decommit` turn unused ranges into *reserved* ones.

mod fake;
mod linux;

pub use fake::FakeOs;
pub use linux::Linux;

use core::ptr::NonNull;

/// Why the operating system refused, as the positive `errno` it gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OsError(pub i32);

/// Result of a call to the operating system.
pub type OsResult<T> = Result<T, OsError>;

/// What may be done with fresh memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It reads as zero; each part is writable once it has been [committed](Os::commit).
    ReadOnly,
    /// It may be written; memory is charged as pages are touched.
    Writable,
}

/// The memory calls of an operating system, or of a fake one in tests.
///
/// # Safety
/// `reserve` returns ranges that no live object overlaps and that stay this process's until
/// released; `commit` makes exactly the given range readable and writable; `purge` and `populate`
/// never change the contents of other ranges.
pub unsafe trait Os: Sync {
    /// Bytes per page of the OS: 4, 16 or 64 KiB. Frames of Quarry are 4 KiB whatever this is.
    fn page_size(&self) -> usize;

    /// Reserves `bytes` of address space, aligned to `align` (a power of two), without access.
    ///
    /// # Errors
    /// The OS's `errno` where the address space is limited or exhausted.
    fn reserve(&self, bytes: usize, align: usize) -> OsResult<NonNull<u8>>;

    /// As [`reserve`](Self::reserve) at any page, and then [`commit`](Self::commit) or
    /// [`commit_read_only`](Self::commit_read_only) of all of it: in one call where the OS can.
    ///
    /// # Errors
    /// Theirs; then nothing is reserved.
    fn reserve_accessible(&self, bytes: usize, access: Access) -> OsResult<NonNull<u8>> {
        let start = self.reserve(bytes, self.page_size())?;
        let committed = match access {
            Access::ReadOnly => self.commit_read_only(start, bytes),
            Access::Writable => self.commit(start, bytes),
        };
        if let Err(error) = committed {
            // SAFETY: the whole reservation of above, which nobody knows.
            unsafe { self.release(start, bytes) };
            return Err(error);
        }
        Ok(start)
    }

    /// Makes a reserved range readable (not writable): it reads as zero and charges nothing.
    ///
    /// # Errors
    /// The OS's `errno`.
    fn commit_read_only(&self, address: NonNull<u8>, bytes: usize) -> OsResult<()>;

    /// Makes a reserved range readable and writable. Idempotent.
    ///
    /// # Errors
    /// `ENOMEM` where overcommit accounting refuses.
    fn commit(&self, address: NonNull<u8>, bytes: usize) -> OsResult<()>;

    /// Takes access to a purged range away, and with it what it counts for in a limit of data or of
    /// committed memory.
    ///
    /// # Errors
    /// The OS's `errno`; some of the range may be accessible still.
    fn decommit(&self, address: NonNull<u8>, bytes: usize) -> OsResult<()>;

    /// Brings the pages of a committed range into memory in one call.
    ///
    /// # Errors
    /// `EINVAL` before Linux 5.14, `ENOMEM` or `EFAULT` at a memory limit: plain faults then serve.
    fn populate(&self, address: NonNull<u8>, bytes: usize) -> OsResult<()>;

    /// Says of each page from `address` on, as many as `pages` has bytes, whether it is in memory:
    /// in bit 0 of its byte. What was written out to swap may count as absent.
    ///
    /// # Errors
    /// The OS's `errno`, also where a filter refuses the call; `pages` then says nothing.
    fn resident(&self, address: NonNull<u8>, pages: &mut [u8]) -> OsResult<()>;

    /// Gives the memory of a committed range back, also where the program has locked it; it reads
    /// as zero afterwards.
    ///
    /// # Errors
    /// The OS's `errno` (locked pages before Linux 5.18, filters); the contents are then
    /// unspecified.
    fn purge(&self, address: NonNull<u8>, bytes: usize) -> OsResult<()>;

    /// Asks for huge pages (or, with false, for ordinary ones only) in a committed range. A hint:
    /// it changes no contents, and a refusal is without consequence.
    ///
    /// # Errors
    /// The OS's `errno`.
    fn advise_huge(&self, address: NonNull<u8>, bytes: usize, huge: bool) -> OsResult<()>;

    /// Moves the pages of `from` to `to` (committed, at least as long); `from` stays committed and
    /// reads as zero. Ranges do not overlap.
    ///
    /// # Errors
    /// Where the OS cannot move pages (before Linux 5.7, or a range of several mappings), in which
    /// case nothing was moved and the caller copies.
    fn move_pages(&self, from: NonNull<u8>, to: NonNull<u8>, bytes: usize) -> OsResult<()>;

    /// Gives a whole reservation back.
    ///
    /// # Safety
    /// `address` and `bytes` are those of one `reserve`, and nothing in it is used any more.
    unsafe fn release(&self, address: NonNull<u8>, bytes: usize);
}
