//! Huge pages for slabs, where the program touches what it is given.
//!
//! A huge page is in memory as a whole from its first touch on. So now and then a zone leaves a
//! pageblock to plain faults, as a *sample*. A while later it checks which slabs have taken the
//! sample, and how many of its frames belong to slabs that are touched whole (the slab layer knows
//! which). The zone asks for huge pages as long as the last sample was dense, and huge pages cost
//! hardly more than small ones (see `Prices`).
//!
//! The zone counts the pageblocks that are claimed as a whole, in the order of the claims.
//!
//! Cached pages need no samples: the page cache fills each one that it takes. They lie in movable
//! pageblocks, which slabs do not claim, so the page cache itself announces that it is about to
//! fill one.

use super::block::Block;
use crate::frame::{
    FRAME_BYTES, Faults, Kind, KindSet, Link, Memory, PAGEBLOCK_FRAMES, Pfn, Prices,
};
use quarry_sys::clock::{coarse_ns, monotonic_ns};

/// Zones of this many frames (64 MiB) ask for huge pages: one half-used block then adds little to
/// what is resident. From 8 MiB on, and with looks one pageblock earlier, lua had 78 % fewer
/// faults, as much memory and 0.96 of the time; but sqlite, with 66 % fewer faults, had 4.3 % more
/// memory (the rest of its last block) and took as long. From 16 MiB on these were 60 %, 50 % and
/// 3.3 % (40 and 24 interleaved runs of each on Zen 5).
pub(super) const HUGE_FROM_FRAMES: u32 = 16 * 1024;
/// Samples begin at half of that size, so that one has been taken by then.
const SAMPLES_FROM_FRAMES: u32 = HUGE_FROM_FRAMES / 2;
/// Pageblocks that are claimed between a sample and the look at it. By then the lists of CPUs have
/// handed out their blocks of the sample.
const LOOK_AFTER: u32 = 2;
/// Frames of a sample that slabs must have for the sample to count.
const ENOUGH_FRAMES: u32 = PAGEBLOCK_FRAMES / 2;
/// While samples are dense, the zone takes the next one after as many claims as it has pageblocks,
/// and after this many at least: a heap pays for a sample each time that it doubles.
const SAMPLE_AFTER_LEAST: u32 = 32;

/// The samples of a zone: how densely the program touches its slabs.
pub(super) struct HugePages {
    /// True if the zone may ask for huge pages.
    is_on: bool,
    /// First frame of the sample that the zone has not looked at yet.
    sample: Link<Pfn>,
    /// Pageblocks claimed since the last sample.
    since: u32,
    /// True if the last sample that counted was dense.
    is_dense: bool,
}

impl HugePages {
    pub(super) const fn new(is_on: bool) -> Self {
        Self { is_on, sample: Link::NONE, since: 0, is_dense: false }
    }

    /// Chooses how the pageblocks of a free block come in; slabs are about to fill it from its
    /// start. The zone has `managed` frames; kinds in `touched_whole` are touched whole.
    pub(super) fn claimed(
        &mut self,
        memory: &Memory,
        block: Block,
        managed: u32,
        touched_whole: &KindSet,
    ) {
        if !self.is_on || managed < SAMPLES_FROM_FRAMES {
            return;
        }
        self.look_at_sample(memory, touched_whole);
        for offset in (0..block.order.frames()).step_by(PAGEBLOCK_FRAMES as usize) {
            let first = block.pfn.plus(offset);
            let faults = self.choose(memory.prices(), managed, block.zeroed);
            if faults != Faults::Huge && block.zeroed && self.sample == Link::NONE {
                self.sample = Link::to(first);
                self.since = 0;
            } else {
                self.since += 1;
            }
            advise(memory, first, faults);
        }
    }

    /// Lets the pageblock of a frame come in as a huge page, where hardly any of its frames has an
    /// owner.
    pub(super) fn fill_whole(&self, memory: &Memory, pfn: Pfn) {
        let first = pfn.pageblock().first();
        if self.is_on && is_fresh(memory, first) {
            advise(memory, first, Faults::Huge);
        }
    }

    fn choose(&self, prices: &Prices, managed: u32, is_fresh: bool) -> Faults {
        if !self.is_dense || managed < HUGE_FROM_FRAMES {
            return Faults::Plain;
        }
        let after = (managed / PAGEBLOCK_FRAMES).max(SAMPLE_AFTER_LEAST);
        let is_due = is_fresh && self.since >= after;
        if is_due && self.sample == Link::NONE {
            Faults::Sample
        } else if prices.may_be_huge(coarse_ns()) {
            Faults::Huge
        } else {
            Faults::Plain
        }
    }

    fn look_at_sample(&mut self, memory: &Memory, touched_whole: &KindSet) {
        let Some(sample) = self.sample.get().filter(|_| self.since >= LOOK_AFTER) else { return };
        self.sample = Link::NONE;
        let seen = memory.touched(sample, PAGEBLOCK_FRAMES, touched_whole);
        if seen.handed_out >= ENOUGH_FRAMES {
            self.is_dense = seen.is_dense();
        }
    }
}

/// Frames of a movable pageblock that may have owners for it to become a huge page still: about as
/// many as the page cache has taken before it asks.
const OWNED_FRAMES: usize = 64;

/// Returns whether the page cache asks for a huge page with this frame: with one of 64, because an
/// answer looks at each frame of its pageblock.
#[inline]
pub(super) fn asks_for_huge(memory: &Memory, pfn: Pfn) -> bool {
    (pfn.0 as usize).is_multiple_of(OWNED_FRAMES)
        && matches!(memory.pageblocks().of(pfn).faults(), Faults::Plain | Faults::Small)
}

/// Returns whether hardly any frame of a pageblock has an owner. O(512).
fn is_fresh(memory: &Memory, first: Pfn) -> bool {
    let frames = (0..PAGEBLOCK_FRAMES).map(|at| first.plus(at));
    frames.filter(|pfn| memory.frames().kind(*pfn) != Kind::NONE).count() <= OWNED_FRAMES
}

/// Pageblocks of the window (its first 32 GiB) that may be told to stay small. Each can become a
/// mapping of its own where its neighbours are huge, and Linux allows a process 65,530
/// (`DEFAULT_MAX_MAP_COUNT`, 2.6.17 to 6.18).
const MOST_SMALL: u32 = 16 * 1024;

/// Tells the OS that a part of a pageblock goes back to it. khugepaged would make the rest a huge
/// page again, and fill the hole: it accepts up to 511 absent pages (`max_ptes_none`, its default
/// from Linux 2.6.38 to 6.18).
pub(super) fn make_hole(memory: &Memory, pfn: Pfn) {
    let first = pfn.pageblock().first();
    let faults = memory.pageblocks().of(first).faults();
    let unasked = || memory.arena().os().gives_huge_unasked() && pfn.pageblock().0 < MOST_SMALL;
    if faults.is_huge() || faults != Faults::Small && unasked() {
        advise(memory, first, Faults::Small);
    }
}

/// Brings frames of one pageblock into memory in one call: all of it where it comes in as a huge
/// page. Notes the duration. Where the system refuses, plain faults do the same.
pub(super) fn populate(memory: &Memory, first: Pfn, count: u32) {
    let pageblock = memory.pageblocks().of(first);
    let (faults, os) = (pageblock.faults(), memory.arena().os());
    let is_huge = faults == Faults::Huge;
    // Where a page of the OS is larger than a block, the frames beside the block come in as well.
    let page_frames = os.page_size().div_ceil(FRAME_BYTES) as u32;
    let step = if is_huge { page_frames.max(PAGEBLOCK_FRAMES) } else { page_frames };
    let start = Pfn(first.0 / step * step);
    let frames = (first.0 + count).next_multiple_of(step) - start.0;
    let began = monotonic_ns();
    let populated = os.populate(memory.arena().address(start), frames as usize * FRAME_BYTES);
    if populated.is_err() {
        return;
    }
    let ended = monotonic_ns();
    // Where the system makes huge pages unasked, a call for small ones brings in more than was
    // asked for, unless the pageblock was told to stay small.
    if is_huge || faults == Faults::Small || !os.gives_huge_unasked() {
        memory.prices().note(is_huge, frames, ended.saturating_sub(began), ended);
    }
    if is_huge {
        pageblock.came_in_whole();
    }
}

/// Records how a pageblock comes in, and tells the OS where that changes.
fn advise(memory: &Memory, first: Pfn, faults: Faults) {
    let pageblock = memory.pageblocks().of(first);
    let before = pageblock.faults();
    // A mapping that was told to stay small stays so until it is told otherwise.
    let faults = match (before, faults) {
        (Faults::Small, Faults::Plain) => Faults::Small,
        (Faults::Whole, Faults::Huge) => Faults::Whole,
        (_, faults) => faults,
    };
    pageblock.set_faults(faults);
    let (was_huge, is_huge) = (before.is_huge(), faults.is_huge());
    let becomes_small = before != Faults::Small && faults == Faults::Small;
    if was_huge != is_huge || becomes_small {
        let arena = memory.arena();
        let bytes = PAGEBLOCK_FRAMES as usize * FRAME_BYTES;
        // A hint: where the OS refuses it, the pages come in as they did.
        let _ = arena.os().advise_huge(arena.address(first), bytes, is_huge);
    }
}
