//! Three bits for each pageblock of a window; those of 64 pageblocks lie together, because small
//! programs use no more.

use super::OsArray;
use quarry_sys::os::{Os, OsResult};
use quarry_sys::primitive::{AtomicU64, Ordering};

/// What a bit says of a pageblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bit {
    /// It is somebody's.
    Taken,
    /// It is mapped, by us.
    Mapped,
    /// It is never to be touched.
    Excluded,
}

/// The bits. Who changes them holds a lock that keeps others from it.
pub(super) struct BlockBits {
    words: OsArray<[AtomicU64; 4]>,
    len: u32,
}

impl BlockBits {
    /// The bits of `len` pageblocks, none of them set.
    pub(super) fn new(os: &'static dyn Os, len: u32) -> OsResult<Self> {
        Ok(Self { words: OsArray::zeroed(os, len.div_ceil(64) as usize)?, len })
    }

    fn word(&self, bit: Bit, block: u32) -> &AtomicU64 {
        &self.words.at(block as usize / 64)[bit as usize]
    }

    pub(super) fn is_set(&self, bit: Bit, block: u32) -> bool {
        block < self.len && self.word(bit, block).load(Ordering::Relaxed) >> (block % 64) & 1 == 1
    }

    pub(super) fn set(&self, bit: Bit, block: u32, is_set: bool) {
        let (word, mask) = (self.word(bit, block), 1u64 << (block % 64));
        let old = word.load(Ordering::Relaxed);
        word.store(if is_set { old | mask } else { old & !mask }, Ordering::Relaxed);
    }

    /// The first block from `next` on whose bit is as asked for, or `end`; skips whole words.
    pub(super) fn next(&self, bit: Bit, is_set: bool, mut next: u32, end: u32) -> u32 {
        let skipped = if is_set { 0 } else { u64::MAX };
        while next < end && self.is_set(bit, next) != is_set {
            let is_whole =
                next.is_multiple_of(64) && self.word(bit, next).load(Ordering::Relaxed) == skipped;
            next += if is_whole { 64 } else { 1 };
        }
        next.min(end)
    }

    /// The runs of blocks in `first..end` whose bits are as asked for, as `(start, end)`. Each is
    /// found when it is asked for, so bits in front of it may be changed meanwhile.
    pub(super) fn runs(
        &self,
        bit: Bit,
        is_set: bool,
        first: u32,
        end: u32,
    ) -> impl Iterator<Item = (u32, u32)> {
        let mut next = first;
        core::iter::from_fn(move || {
            let start = self.next(bit, is_set, next, end);
            next = self.next(bit, !is_set, start, end);
            (start < end).then_some((start, next))
        })
    }
}
