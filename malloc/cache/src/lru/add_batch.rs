//! Short lists in arrays: the add batch of a CPU, or pages that are handled together.

use super::page::PageNo;
use super::state::State;
use core::mem::take;
use core::ops::Deref;

/// Maximum number of pages that an add batch can hold.
pub const MOST_ADD_BATCH: usize = 56;

/// The pages of an add batch.
pub(super) type Pages = Few<PageNo, MOST_ADD_BATCH>;

/// Up to `N` items. Invariant: `len <= N`.
#[derive(Clone, Copy)]
pub(crate) struct Few<T, const N: usize> {
    len: usize,
    items: [T; N],
}

/// The constant that fills a new list. (A value made at run time would be on the stack twice.)
pub(crate) trait Filler: Copy {
    const FILLER: Self;
}

macro_rules! filler {
    ($($of:ty: $filler:expr),*) => {$(
        impl Filler for $of {
            const FILLER: Self = $filler;
        }
    )*};
}

filler!(u64: 0, State: State(0), PageNo: PageNo(0));
filler!((u64, PageNo): (0, PageNo(0)), (PageNo, bool): (PageNo(0), false));

impl<T: Filler, const N: usize> Few<T, N> {
    pub(crate) const NONE: Self = Self { len: 0, items: [T::FILLER; N] };
}

impl<T: Copy, const N: usize> Few<T, N> {
    #[inline]
    pub(crate) fn push(&mut self, item: T) {
        self.items[self.len] = item;
        self.len += 1;
    }

    #[inline]
    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    #[inline]
    pub(crate) fn take(&mut self) -> Self {
        Self { len: take(&mut self.len), ..*self }
    }
}

impl<T, const N: usize> Deref for Few<T, N> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        &self.items[..self.len]
    }
}
