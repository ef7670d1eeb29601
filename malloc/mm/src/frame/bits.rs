//! The frames of a pageblock as 512 bits: extents of set bits, found a word at a time.

use super::order::PAGEBLOCK_FRAMES;

/// Words of the bits of a pageblock.
pub const PAGEBLOCK_WORDS: usize = PAGEBLOCK_FRAMES as usize / 64;

/// One bit per frame of a pageblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameBits(pub [u64; PAGEBLOCK_WORDS]);

/// A place in a pageblock for an extent of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fit {
    /// Its first frame, counted from the start of the pageblock.
    pub at: u32,
    /// Frames of the longest extent that is left once that place is taken.
    pub longest_left: u32,
}

/// The bits of word `word` that lie in `first..end`, counted from the start of the pageblock.
#[inline(always)]
fn mask_of(word: usize, first: u32, end: u32) -> u64 {
    let base = word as u32 * 64;
    let low = first.saturating_sub(base).min(64);
    let high = end.saturating_sub(base).min(64);
    if low >= high { 0 } else { u64::MAX >> (64 - (high - low)) << low }
}

/// The words that hold bits of the `count` frames from `first` on, each with a mask of these bits.
#[inline(always)]
pub(crate) fn masks_of(first: u32, count: u32) -> impl Iterator<Item = (usize, u64)> {
    let end = first + count;
    (first as usize / 64..(end as usize).div_ceil(64))
        .map(move |word| (word, mask_of(word, first, end)))
}

impl FrameBits {
    /// No frame.
    pub const NONE: Self = Self([0; PAGEBLOCK_WORDS]);

    /// Adds `count` frames from `first` on.
    #[inline]
    pub fn set(&mut self, first: u32, count: u32) {
        masks_of(first, count).for_each(|(word, mask)| self.0[word] |= mask);
    }

    #[inline]
    #[must_use]
    pub(crate) fn count_in(&self, first: u32, count: u32) -> u32 {
        masks_of(first, count).map(|(word, mask)| (self.0[word] & mask).count_ones()).sum()
    }

    /// Counts all frames.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// The frames that are not among `others`.
    #[must_use]
    pub(crate) fn without(self, others: Self) -> Self {
        Self(core::array::from_fn(|word| self.0[word] & !others.0[word]))
    }

    /// Returns whether there is no frame.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0 == Self::NONE.0
    }

    /// The first extent of the frames from `from` on: its first frame and its end.
    #[inline]
    #[must_use]
    pub(crate) fn next_extent(&self, from: u32) -> Option<(u32, u32)> {
        let mut word = from as usize / 64;
        let mut bits = self.0.get(word)? & u64::MAX << (from % 64);
        while bits == 0 {
            word += 1;
            bits = *self.0.get(word)?;
        }
        let first = word as u32 * 64 + bits.trailing_zeros();
        Some((first, self.end_of_extent(first)))
    }

    /// The first frame and the end of each extent, in order.
    #[inline]
    pub(crate) fn extents(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let mut from = 0;
        core::iter::from_fn(move || {
            let extent = self.next_extent(from)?;
            from = extent.1;
            Some(extent)
        })
    }

    /// The end of the extent that holds `frame`, or `frame` if no extent does.
    #[inline]
    #[must_use]
    pub(crate) fn end_of_extent(&self, frame: u32) -> u32 {
        let mut word = frame as usize / 64;
        let mut holes = !self.0[word] & u64::MAX << (frame % 64);
        while holes == 0 {
            word += 1;
            match self.0.get(word) {
                Some(bits) => holes = !bits,
                None => return PAGEBLOCK_FRAMES,
            }
        }
        word as u32 * 64 + holes.trailing_zeros()
    }

    /// The first frame of the extent whose end is `frame`, or `frame` if no extent ends there.
    #[inline]
    #[must_use]
    pub(crate) fn start_of_extent(&self, frame: u32) -> u32 {
        let mut word = frame as usize / 64;
        let mut holes = match frame % 64 {
            0 => 0,
            bit => !self.0[word] & ((1 << bit) - 1),
        };
        while holes == 0 {
            if word == 0 {
                return 0;
            }
            word -= 1;
            holes = !self.0[word];
        }
        word as u32 * 64 + 64 - holes.leading_zeros()
    }

    #[must_use]
    pub(crate) fn longest_extent(&self) -> u32 {
        self.longest_without(0, 0)
    }

    /// The lowest place in the shortest extent that holds `count` frames at a multiple of `align`.
    /// O(extents).
    #[inline]
    #[must_use]
    pub(crate) fn best_fit(&self, count: u32, align: u32) -> Option<Fit> {
        let (mut best, mut shortest) = (None, u32::MAX);
        let (mut others, mut from) = (0, 0);
        while let Some((first, end)) = self.next_extent(from) {
            from = end;
            let (at, length) = ((first + align - 1) & !(align - 1), end - first);
            if length < shortest && at + count <= end {
                others = others.max(if best.is_some() { shortest } else { 0 });
                shortest = length;
                best = Some((at, (at - first).max(end - at - count)));
                if length == count {
                    return Some(Fit { at, longest_left: self.longest_without(others, from) });
                }
            } else {
                others = others.max(length);
            }
        }
        best.map(|(at, rest)| Fit { at, longest_left: others.max(rest) })
    }

    /// The larger of `longest` and the length of the longest extent from `from` on.
    fn longest_without(&self, mut longest: u32, mut from: u32) -> u32 {
        while let Some((first, end)) = self.next_extent(from) {
            longest = longest.max(end - first);
            from = end;
        }
        longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Removes `count` frames from `first` on; returns how many of them were there.
    fn clear(bits: &mut FrameBits, first: u32, count: u32) -> u32 {
        let mut others = FrameBits::NONE;
        others.set(first, count);
        let there = bits.count_in(first, count);
        *bits = bits.without(others);
        there
    }

    /// The extents, found bit by bit: first frame and end of each.
    fn naive_extents(set: &[bool]) -> Vec<(u32, u32)> {
        let mut extents = Vec::new();
        let mut at = 0;
        while at < set.len() {
            let length = set[at..].iter().take_while(|bit| **bit).count();
            if length > 0 {
                extents.push((at as u32, (at + length) as u32));
            }
            at += length.max(1);
        }
        extents
    }

    fn any_bits() -> impl Strategy<Value = Vec<bool>> {
        // Extents of all lengths, also of exactly a word and of a whole pageblock.
        let extent =
            (any::<bool>(), prop_oneof![1usize..12, 12usize..200, Just(64usize), Just(512)]);
        prop::collection::vec(extent, 1..60).prop_map(|extents| {
            let bits = extents.into_iter().flat_map(|(set, count)| std::iter::repeat_n(set, count));
            let mut bits: Vec<bool> = bits.take(512).collect();
            bits.resize(512, false);
            bits
        })
    }

    proptest! {
        #[test]
        fn words_agree_with_single_bits(
            set in any_bits(), first in 0u32..512, count in 1u32..512, shift in 0u32..=8,
        ) {
            let count = count.min(512 - first);
            let mut bits = FrameBits::NONE;
            for (at, _) in set.iter().enumerate().filter(|(_, set)| **set) {
                bits.set(at as u32, 1);
            }
            let extents = naive_extents(&set);
            let mut found = Vec::new();
            while let Some(extent) = bits.next_extent(found.last().map_or(0, |(_, end)| *end)) {
                found.push(extent);
            }
            prop_assert_eq!(&found, &extents);
            let longest = |of: &[(u32, u32)]| of.iter().map(|(a, b)| b - a).max().unwrap_or(0);
            prop_assert_eq!(bits.longest_extent(), longest(&extents));
            let range = first as usize..(first + count) as usize;
            let there = set[range.clone()].iter().filter(|bit| **bit).count() as u32;
            prop_assert_eq!(bits.count_in(first, count), there);
            for (from, end) in &extents {
                let ends = (bits.start_of_extent(*end), bits.end_of_extent(*from));
                prop_assert_eq!(ends, (*from, *end));
            }

            let align = 1 << shift;
            let place = |(a, b): &(u32, u32)| {
                let at = a.next_multiple_of(align);
                (at + count <= *b).then_some((b - a, at))
            };
            let best = extents.iter().filter_map(place).min();
            let fit = bits.best_fit(count, align);
            prop_assert_eq!(fit.map(|fit| fit.at), best.map(|(_, at)| at));
            if let Some(Fit { at, longest_left }) = fit {
                prop_assert_eq!(clear(&mut bits, at, count), count);
                prop_assert_eq!(bits.longest_extent(), longest_left);
                bits.set(at, count);
            }
            prop_assert_eq!(clear(&mut bits, first, count), there);
            prop_assert_eq!(bits.count_in(first, count), 0);
            bits.set(first, count);
            prop_assert_eq!(bits.count_in(first, count), count);
        }
    }
}
