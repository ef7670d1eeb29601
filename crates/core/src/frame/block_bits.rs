//! One bit for each pageblock of a window.

use super::OsArray;
use quarry_sys::os::{Os, OsResult};
use quarry_sys::primitive::{AtomicU64, Ordering};

/// The bits. Who changes them holds a lock that keeps others from it.
pub(super) struct BlockBits {
    words: OsArray<AtomicU64>,
    len: u32,
}

impl BlockBits {
    /// `len` bits that are not set.
    pub(super) fn new(os: &'static dyn Os, len: u32) -> OsResult<Self> {
        Ok(Self { words: OsArray::zeroed(os, len.div_ceil(64) as usize)?, len })
    }

    fn word(&self, block: u32) -> &AtomicU64 {
        self.words.at(block as usize / 64)
    }

    pub(super) fn is_set(&self, block: u32) -> bool {
        block < self.len && self.word(block).load(Ordering::Relaxed) >> (block % 64) & 1 == 1
    }

    pub(super) fn set(&self, block: u32, is_set: bool) {
        let (word, bit) = (self.word(block), 1u64 << (block % 64));
        let old = word.load(Ordering::Relaxed);
        word.store(if is_set { old | bit } else { old & !bit }, Ordering::Relaxed);
    }

    /// The first block from `next` on whose bit is as asked for, or `end`; skips whole words.
    pub(super) fn next(&self, is_set: bool, mut next: u32, end: u32) -> u32 {
        let skipped = if is_set { 0 } else { u64::MAX };
        while next < end && self.is_set(next) != is_set {
            let is_whole =
                next.is_multiple_of(64) && self.word(next).load(Ordering::Relaxed) == skipped;
            next += if is_whole { 64 } else { 1 };
        }
        next.min(end)
    }

    /// The runs of blocks in `first..end` whose bits are as asked for, as `(start, end)`. Each is
    /// found when it is asked for, so bits in front of it may be changed meanwhile.
    pub(super) fn runs(
        &self,
        is_set: bool,
        first: u32,
        end: u32,
    ) -> impl Iterator<Item = (u32, u32)> {
        let mut next = first;
        core::iter::from_fn(move || {
            let start = self.next(is_set, next, end);
            next = self.next(!is_set, start, end);
            (start < end).then_some((start, next))
        })
    }
}
