//! Linux as a [confined](crate::confined) process may use it.

use super::linux::{Linux, READ_WRITE, map_anywhere};
use super::system::{NotMoved, Os};
use crate::errno::{OsError, OsResult};
use core::ptr::NonNull;

/// [`Linux`] restricted to the system calls that the C library's `malloc` makes.
pub struct Confined;

const REFUSED: OsError = OsError(libc::EPERM);

// SAFETY: each call is refused or passed to `Linux`; `purge` acts on exactly its range.
unsafe impl Os for Confined {
    fn page_size(&self) -> usize {
        Linux.page_size()
    }

    fn window(&self, bytes: usize, align: usize) -> OsResult<NonNull<u8>> {
        Linux.window(bytes, align)
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
        map_anywhere(bytes, READ_WRITE)
    }

    fn populate(&self, _address: NonNull<u8>, _bytes: usize) -> OsResult<()> {
        Err(REFUSED)
    }

    fn purge(&self, address: NonNull<u8>, bytes: usize) -> OsResult<()> {
        // SAFETY: the caller owns the range and has given up its contents.
        match unsafe { libc::madvise(address.as_ptr().cast(), bytes, libc::MADV_DONTNEED) } {
            0 => Ok(()),
            _ => Err(OsError::last()),
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
