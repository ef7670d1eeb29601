//! SLUB of Linux 3.0, with which document 002 begins.

use super::Era;
use crate::slab::slub::lock_word::LockWord;

/// Linux 3.0: slabs as in 2.6.29; caches also serve larger requests.
///
/// The kernel's fast path is a compare-and-swap of two words without a lock prefix (2.6.39); here
/// it is a restartable sequence, as for all versions.
pub enum V3_0 {}

impl Era for V3_0 {
    const NAME: &'static str = "slub-3.0";
    type Word = LockWord;
}
