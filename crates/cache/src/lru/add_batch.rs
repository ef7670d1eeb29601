//! Small batches of pages: collected by a CPU for the lists, or handled in one step.

use super::page::PageNo;

/// Most pages that an add batch can hold.
pub const MOST_ADD_BATCH: usize = 56;

/// Up to [`MOST_ADD_BATCH`] pages.
///
/// Invariant: `len <= MOST_ADD_BATCH`.
#[derive(Clone, Copy)]
pub(super) struct Pages {
    len: usize,
    pages: [PageNo; MOST_ADD_BATCH],
}

impl Pages {
    /// No pages.
    pub(super) const NONE: Self = Self { len: 0, pages: [PageNo(0); MOST_ADD_BATCH] };

    /// Appends a page.
    #[inline]
    pub(super) fn push(&mut self, page: PageNo) {
        self.pages[self.len] = page;
        self.len += 1;
    }

    /// Takes out all pages.
    #[inline]
    pub(super) fn take(&mut self) -> Self {
        let all = *self;
        self.len = 0;
        all
    }

    /// The pages.
    #[inline]
    pub(super) fn as_slice(&self) -> &[PageNo] {
        &self.pages[..self.len]
    }
}
