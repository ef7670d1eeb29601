//! SLUB of Linux 4.9, the kernel of document 000.

use super::Era;
use crate::slab::slub::order;
use crate::slab::slub::page_word::PageWord;

/// Linux 4.9: CPUs keep partly free slabs (since 3.2), so nodes need fewer.
pub enum V4_9 {}

impl Era for V4_9 {
    const NAME: &'static str = "slub-4.9";
    type Word = PageWord;
    const CPU_PARTIAL: bool = true;

    fn min_partial(stride: usize) -> u32 {
        order::min_partial(stride.ilog2() / 2)
    }
}
