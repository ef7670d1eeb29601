//! Watermarks: how far requests may use up a zone's free memory (Linux 6.x `mm/page_alloc.c`).
//!
//! ```text
//! min_free_kbytes = clamp(sqrt(16 * managed kB of all zones), 128, 262144)
//! min = the zone's share of min_free_kbytes, in frames
//! gap = max(min / 4, managed * 10 / 10000)
//! low = min + gap      high = low + gap
//! ```
//! The boost raises every mark. It grows when a request tries to claim a partly used pageblock.

use crate::frame::PAGEBLOCK_FRAMES;
use quarry_sys::primitive::{AtomicU32, Ordering, Ordering::Relaxed};

/// Bounds of `min_free_kbytes` (Linux 5.8+).
const MIN_FREE_KB: (u64, u64) = (128, 262_144);
/// `watermark_scale_factor`: the gap between two marks, in 1/10,000 of the zone (Linux 4.6+).
pub(super) const SCALE_FACTOR: u32 = 10;
/// `watermark_boost_factor` (Linux 5.0+): the largest boost is 1.5 `high`, at least a pageblock.
const BOOST_FACTOR: u64 = 15_000;

/// A level of free memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Below this level only requests with rights to the reserve are served.
    Min,
    /// Below this level the zone grows, or reclaim starts.
    Low,
    /// Reclaim goes on until this level is reached.
    High,
}

/// The three marks, in frames, without the boost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// See [`Mark::Min`].
    pub min: u32,
    /// See [`Mark::Low`].
    pub low: u32,
    /// See [`Mark::High`].
    pub high: u32,
}

impl Marks {
    /// The marks of a zone of `managed` frames, if all zones together have `total` frames.
    #[must_use]
    pub fn of(managed: u32, total: u32) -> Self {
        Self::scaled(managed, total, None, SCALE_FACTOR)
    }

    /// Same as [`of`](Self::of), with another `watermark_scale_factor`, and with `min` frames, if
    /// given, instead of `min_free_kbytes`.
    #[must_use]
    pub(super) fn scaled(managed: u32, total: u32, min: Option<u32>, scale: u32) -> Self {
        if managed == 0 {
            return Self::default();
        }
        let by_root = (u64::from(total) * 4 * 16).isqrt().clamp(MIN_FREE_KB.0, MIN_FREE_KB.1) / 4;
        let min = min.map_or(by_root, u64::from) * u64::from(managed) / u64::from(total);
        let gap = (min / 4).max(u64::from(managed) * u64::from(scale) / 10_000);
        let mark = |gaps: u64| u32::try_from(min + gaps * gap).unwrap_or(u32::MAX);
        Self { min: mark(0), low: mark(1), high: mark(2) }
    }
}

/// Marks that threads read while another changes them.
#[derive(Default)]
pub(super) struct SharedMarks([AtomicU32; 3]);

impl SharedMarks {
    pub(super) fn set(&self, marks: Marks, ordering: Ordering) {
        let values = [marks.min, marks.low, marks.high];
        self.0.iter().zip(values).for_each(|(mark, value)| mark.store(value, ordering));
    }

    #[inline]
    pub(super) fn at(&self, mark: Mark) -> u32 {
        self.0[mark as usize].load(Relaxed)
    }

    pub(super) fn get(&self) -> Marks {
        Marks { min: self.at(Mark::Min), low: self.at(Mark::Low), high: self.at(Mark::High) }
    }
}

#[derive(Default)]
pub(super) struct Watermarks {
    /// The marks without the boost.
    pub(super) base: SharedMarks,
    boost: AtomicU32,
}

impl Watermarks {
    #[inline]
    pub(super) fn effective(&self, mark: Mark) -> u32 {
        self.base.at(mark) + self.boost.load(Relaxed)
    }

    pub(super) fn boost(&self) -> u32 {
        self.boost.load(Relaxed)
    }

    /// Raises the boost of all marks by a pageblock, up to a bound, because migratetypes are about
    /// to mix. A small zone gets no boost, which would be too large a part of the zone.
    pub(super) fn raise_boost(&self, managed: u32) {
        let high = u64::from(self.base.at(Mark::High));
        let most = ((high * BOOST_FACTOR / 10_000) as u32).max(PAGEBLOCK_FRAMES);
        if managed >= 4 * PAGEBLOCK_FRAMES && high != 0 {
            self.boost.store((self.boost() + PAGEBLOCK_FRAMES).min(most), Relaxed);
        }
    }

    pub(super) fn clear_boost(&self) {
        self.boost.store(0, Relaxed);
    }
}
