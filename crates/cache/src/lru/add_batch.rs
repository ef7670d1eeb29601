//! An array of up to 56 pages: the add batch of a CPU, or pages that are handled together.

use super::page::PageNo;

/// Maximum number of pages that an add batch can hold.
pub const MOST_ADD_BATCH: usize = 56;

/// Invariant: `len <= MOST_ADD_BATCH`.
#[derive(Clone, Copy)]
pub(super) struct Pages {
    len: usize,
    pages: [PageNo; MOST_ADD_BATCH],
}

impl Pages {
    pub(super) const NONE: Self = Self { len: 0, pages: [PageNo(0); MOST_ADD_BATCH] };

    #[inline]
    pub(super) fn push(&mut self, page: PageNo) {
        self.pages[self.len] = page;
        self.len += 1;
    }

    #[inline]
    pub(super) fn take(&mut self) -> Self {
        let all = *self;
        self.len = 0;
        all
    }

    #[inline]
    pub(super) fn as_slice(&self) -> &[PageNo] {
        &self.pages[..self.len]
    }
}
