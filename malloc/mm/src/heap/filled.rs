//! Decides which mappings become huge pages: those of programs that fill their mappings.
//!
//! The first touch of a huge page brings in all of it, so a table that is touched here and there
//! would take many times its memory. So a mapping that gets fresh memory *waits* until the heap has
//! read a few of its pages and knows whether the program fills its mappings. The heap reads them
//! when the mapping is freed or grows, or when another mapping asks for huge pages.
//!
//! Bound: the mapping that asks and all huge mappings that wait are together at most [`ALLOWED`]
//! times as long as the longest mapping that the program filled; and what is not known to be filled
//! of them is at most as long as that mapping, or 256 MiB. So a table that doubles is huge from its
//! second step on, and a program whose later tables are sparse wastes at most that much. (When one
//! filled mapping allowed all later ones to be huge, a program with 100 sparse tables of 40 MiB
//! held 2,581 MiB instead of 12. Without the second bound, a sparse block of 1,126 MiB after a
//! filled one of 512 MiB held all of its memory.)
//!
//! A mapping that grows must itself be filled to become huge. One that must be zero (`calloc`) gets
//! no huge pages at first: programs request large tables so, and touch them here and there. From
//! 32 MiB on such a *table* gets no memory that has to be cleared, either, unless the program has
//! filled the last table of this length.
//!
//! The last pageblock of an extent is huge only if its part beyond the mapping's end is at most a
//! sixteenth of the mapping. (With an eighth, large blocks took 0.43 of the time, 6 % more memory.)

use super::mapping_cache::Extent;
use crate::frame::{FRAME_BYTES, PAGEBLOCK_FRAMES, Pfn};
use crate::zone::Zones;
use quarry_sys::peek;
use quarry_sys::primitive::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// 9/4: a table that doubles requests a little more than twice the old one, which is filled.
const ALLOWED: (u64, u64) = (9, 4);
/// Frames, 256 MiB, that may be wasted even if no filled mapping is as long.
const WASTED: u32 = 64 << 10;
/// A sparse huge mapping of `n` frames lowers the longest filled length to `n` divided by this.
const SPARSE_SHARE: u32 = 4;
/// The last pageblock is huge if at most the mapping divided by this lies beyond the mapping's end.
const END_SHARE: u32 = 16;
/// Lengths of filled tables that are remembered.
const TABLES: usize = 4;
/// In a word of `waiting`: the mapping is a table. (No mapping has so many frames.)
const TABLE: u32 = 1 << 31;
/// Maximum number of mappings that wait. A fresh one may replace one that is not huge.
const MOST: usize = 4;
/// Places of a mapping that are read; at most `ZEROS` of a filled one are zero.
const PLACES: usize = 16;
/// The nth place is this many frames times `n` (modulo their distance) beyond an even distribution,
/// because a program that touches a page in each 2 MiB must not hit them all.
const SKEW: usize = 37;
const ZEROS: usize = 2;
/// Offsets of the three 32-bit words that the heap reads in each place, a page: two low halves of
/// 64-bit numbers (zero in most fractions) and a high half (zero in most integers).
const WORDS: [usize; 3] = [0, 17 * 64 + 4, 33 * 64];

/// The frames of the longest mapping that a program filled, those of tables that it had filled when
/// it freed them, and the mappings that wait.
pub(super) struct Filled {
    frames: AtomicU32,
    tables: [AtomicU32; TABLES],
    waiting: [AtomicU64; MOST],
    turn: AtomicU32,
}

/// A mapping that waits, or none if it has no frames.
#[derive(Clone, Copy)]
pub(super) struct Waiting {
    first: Pfn,
    frames: u32,
    is_table: bool,
}

impl Waiting {
    fn of(word: u64) -> Self {
        let (first, frames) = (Pfn((word >> 32) as u32), word as u32);
        Self { first, frames: frames & !TABLE, is_table: frames & TABLE != 0 }
    }

    fn word(self) -> u64 {
        let flag = if self.is_table { TABLE } else { 0 };
        u64::from(self.first.0) << 32 | u64::from(self.frames | flag)
    }

    fn is_huge(self, zones: &Zones) -> bool {
        self.frames > 0 && zones.faults(self.first).is_huge()
    }

    /// Reads the mapping from its end, which a program that fills it writes last. At most 48 system
    /// calls, 9 if the end is not written. The mapping may be gone: a read never faults.
    fn is_filled(self, zones: &Zones) -> bool {
        let start = zones.arena().address(self.first).as_ptr() as usize;
        let step = (self.frames as usize / PLACES).max(1);
        let place = |at: usize| start + (at * step + at * SKEW % step) * FRAME_BYTES;
        let is_zero = |place: usize| peek::is_zero(place) != Some(false);
        let zeros =
            (0..PLACES).rev().filter(|at| WORDS.iter().all(|word| is_zero(place(*at) + word)));
        zeros.take(ZEROS + 1).count() <= ZEROS
    }
}

impl Filled {
    pub(super) const fn new() -> Self {
        Self {
            frames: AtomicU32::new(0),
            tables: [const { AtomicU32::new(0) }; TABLES],
            waiting: [const { AtomicU64::new(0) }; MOST],
            turn: AtomicU32::new(0),
        }
    }

    /// Lets a mapping that got fresh memory wait, or a table, unless huge mappings fill `waiting`.
    pub(super) fn wait(&self, zones: &Zones, first: Pfn, frames: u32, is_table: bool) {
        let word = Waiting { first, frames, is_table }.word();
        let turn = self.turn.fetch_add(1, Relaxed) as usize % MOST;
        for place in self.waiting.iter().cycle().skip(turn).take(MOST) {
            let old = place.load(Relaxed);
            if !Waiting::of(old).is_huge(zones)
                && place.compare_exchange(old, word, Relaxed, Relaxed).is_ok()
            {
                return;
            }
        }
    }

    /// Reads pages of a mapping that is to be freed or to grow, if it waits; then ends its wait.
    /// Returns whether it is filled.
    pub(super) fn look(&self, zones: &Zones, first: Pfn, frames: u32) -> Option<bool> {
        let mapping = Waiting { frames, ..self.end_wait(first)? };
        let is_filled = mapping.is_filled(zones);
        if mapping.is_table {
            self.table(frames).store(if is_filled { frames } else { 0 }, Relaxed);
        }
        if is_filled {
            self.frames.fetch_max(frames, Relaxed);
        } else if mapping.is_huge(zones) {
            self.frames.fetch_min(frames / SPARSE_SHARE, Relaxed);
        }
        Some(is_filled)
    }

    /// Ends the wait of the mapping at `first`; returns it if it waited.
    pub(super) fn end_wait(&self, first: Pfn) -> Option<Waiting> {
        let is_it = |(_, it): &(&AtomicU64, Waiting)| it.frames > 0 && it.first == first;
        let (place, waiting) = self.all_waiting().find(is_it)?;
        // If another mapping has got this entry in between, it goes on waiting.
        let _ = place.compare_exchange(waiting.word(), 0, Relaxed, Relaxed);
        Some(waiting)
    }

    /// Returns whether the program filled the last table of this length, if that is remembered.
    pub(super) fn fills_tables(&self, frames: u32) -> bool {
        self.table(frames).load(Relaxed) == frames
    }

    fn table(&self, frames: u32) -> &AtomicU32 {
        &self.tables[frames as usize % TABLES]
    }

    /// Number of pageblocks at the front of a mapping that may be huge pages if the mapping, whose
    /// first `held` frames are filled, gets `frames` frames.
    #[cold]
    #[inline(never)]
    pub(super) fn huge_blocks(&self, zones: &Zones, held: u32, frames: u32) -> u32 {
        let whole = frames.next_multiple_of(PAGEBLOCK_FRAMES);
        let may_be = zones.may_make_huge() && whole <= zones.budget().room();
        let is_allowed = || self.is_allowed(zones, held, frames);
        if !may_be || !(is_allowed() || self.finds_filled(zones, frames) && is_allowed()) {
            return 0;
        }
        let huge = if whole - frames <= frames / END_SHARE { whole } else { frames };
        huge / PAGEBLOCK_FRAMES
    }

    fn all_waiting(&self) -> impl Iterator<Item = (&AtomicU64, Waiting)> {
        self.waiting.iter().map(|place| (place, Waiting::of(place.load(Relaxed))))
    }

    /// Returns whether a mapping at `first` of so many frames is filled.
    pub(super) fn is_filled(zones: &Zones, first: Pfn, frames: u32) -> bool {
        Waiting { first, frames, is_table: false }.is_filled(zones)
    }

    fn is_allowed(&self, zones: &Zones, held: u32, frames: u32) -> bool {
        let (mut wanted, mut places) = (u64::from(frames), 0);
        for (_, mapping) in self.all_waiting().filter(|(_, mapping)| mapping.is_huge(zones)) {
            wanted += u64::from(mapping.frames);
            places += 1;
        }
        let filled = self.frames.load(Relaxed).max(held);
        let wasted = wanted - u64::from(held.min(frames));
        wanted <= Self::allowed(filled) && wasted <= filled.max(WASTED).into() && places < MOST
    }

    fn allowed(filled: u32) -> u64 {
        u64::from(filled) * ALLOWED.0 / ALLOWED.1
    }

    /// Reads waiting mappings that are huge or, if filled, allow `frames` frames. Returns whether
    /// any is filled.
    fn finds_filled(&self, zones: &Zones, frames: u32) -> bool {
        let mut any = false;
        for (place, mapping) in self.all_waiting() {
            let is_long = Self::allowed(mapping.frames) >= u64::from(frames);
            if (is_long || mapping.is_huge(zones)) && mapping.is_filled(zones) {
                self.frames.fetch_max(mapping.frames, Relaxed);
                let _ = place.compare_exchange(mapping.word(), 0, Relaxed, Relaxed);
                any = true;
            }
        }
        any
    }
}

/// Makes a partly huge extent huge as a whole, if pageblocks (`huge`) may be huge once it has
/// grown: a move by page tables requires that the extent is one mapping of the kernel.
pub(super) fn unite(zones: &Zones, extent: &Extent, huge: u32) {
    let begins_huge = zones.faults(extent.first.first()).is_huge();
    if huge > 0 && begins_huge && !is_end_huge(zones, extent) {
        zones.make_huge(extent.first, extent.blocks);
    }
}

/// Returns whether the last pageblock of an extent comes in as a huge page.
pub(super) fn is_end_huge(zones: &Zones, extent: &Extent) -> bool {
    zones.faults(extent.first.first().plus(extent.frames() - 1)).is_huge()
}
