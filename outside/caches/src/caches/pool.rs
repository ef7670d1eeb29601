//! Memory for pages, taken directly from the system.

use crate::page::{PAGE_BYTES, Page};
use anyhow::{Result, ensure};
use std::io;
use std::ptr;

/// Address space for `len` pages. Untouched and discarded pages read as zero and take no memory.
pub(super) struct Pool {
    base: *mut Page,
    len: u32,
}

// SAFETY: pages are words that are only accessed atomically.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

impl Pool {
    pub(super) fn reserve(len: u32) -> Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let bytes = len as usize * PAGE_BYTES;
        // SAFETY: a new mapping at an address of the kernel's choice touches no other.
        let base = unsafe { libc::mmap(ptr::null_mut(), bytes, rights, flags, -1, 0) };
        ensure!(base != libc::MAP_FAILED, "no memory: {}", io::Error::last_os_error());
        Ok(Self { base: base.cast(), len })
    }

    pub(super) fn set_huge(&self, huge: bool) {
        let advice = if huge { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE };
        // SAFETY: the range is this mapping, whose contents the advice does not change.
        unsafe { libc::madvise(self.base.cast(), self.len as usize * PAGE_BYTES, advice) };
    }

    #[inline(always)]
    pub(super) fn page(&self, at: u32) -> &Page {
        debug_assert!(at < self.len);
        // SAFETY: `at` is inside the mapping, which lives as long as `self`; any content is a page.
        unsafe { &*self.base.add(at as usize) }
    }

    pub(super) fn discard(&self, at: u32) {
        let page: *const Page = self.page(at);
        // SAFETY: the range is one page of this private mapping; readers see zeroes.
        unsafe { libc::madvise(page.cast_mut().cast(), PAGE_BYTES, libc::MADV_DONTNEED) };
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: the mapping is this pool's own, and references into it borrow the pool.
        unsafe { libc::munmap(self.base.cast(), self.len as usize * PAGE_BYTES) };
    }
}
