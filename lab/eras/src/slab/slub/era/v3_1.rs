//! SLUB of Linux 3.1, with document 002's slow paths without a lock.

use super::Era;
use crate::slab::slub::page_word::PageWord;

/// Linux 3.1: a slab's packed word changes by compare-and-swap, and a node keeps some of the slabs
/// that a free empties.
pub enum V3_1 {}

impl Era for V3_1 {
    const NAME: &'static str = "slub-3.1";
    type Word = PageWord;

    /// A node keeps one slab more than `min_partial`: an empty slab goes back only if `nr_partial >
    /// min_partial` (mm/slub.c, Linux 3.1 to 3.16).
    fn keeps_empty(on_list: u32, min_partial: u32) -> bool {
        on_list <= min_partial
    }
}
