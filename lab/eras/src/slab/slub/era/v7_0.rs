//! The slabs of Linux 7.0, which lie below sheaves.

use super::Era;
use crate::slab::slub::order;
use crate::slab::slub::page_word::PageWord;

/// Linux 7.0: CPUs have neither slabs nor partial lists.
pub enum V7_0 {}

impl Era for V7_0 {
    const NAME: &'static str = "sheaf-7.0";
    type Word = PageWord;
    const CPU_SLAB: bool = false;

    fn min_partial(stride: usize) -> u32 {
        order::min_partial(stride.ilog2() / 2)
    }
}
