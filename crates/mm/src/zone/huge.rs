//! Huge pages for slabs, as long as the program touches nearly all memory of its slabs.
//!
//! The first touch of a huge page brings in all of it, and so does not show how much the program
//! touches. Therefore a zone sometimes leaves a pageblock to faults of small pages, as a *sample*.
//! After some more claims of whole pageblocks, the zone counts the frames of the sample that belong
//! to slabs, and those among them of slabs that are touched whole (the slab layer notes which). The
//! zone asks for huge pages while the last sample was *dense*, and huge pages cost hardly more than
//! small ones.
//!
//! Cached pages need no samples, because the page cache fills each page that it takes, and calls
//! `fill_whole` for it. They lie in movable pageblocks, which slabs do not claim.

use super::block::Block;
use crate::frame::{
    FRAME_BYTES, Faults, Kind, KindSet, Link, Memory, PAGEBLOCK_FRAMES, Pfn, Prices,
};
use quarry_sys::clock::{coarse_ns, monotonic_ns};

/// Zones from 64 MiB on ask for huge pages, because a half-used one then adds little to their
/// memory. A variant used huge pages from 8 MiB on, and looked at samples one pageblock earlier.
/// Compared with 64 MiB, lua had 78 % fewer faults with it, as much memory and 0.96 of the time;
/// sqlite had 66 % fewer faults, 4.3 % more memory (the rest of its last huge page) and took as
/// long. With 16 MiB faults fell by 60 % and 50 %, and sqlite had 3.3 % more memory (40 and 24
/// interleaved runs of each on Zen 5).
pub(super) const HUGE_FROM_FRAMES: u32 = 16 * 1024;
/// Samples begin at half of that size, so that there is a result by then.
const SAMPLES_FROM_FRAMES: u32 = HUGE_FROM_FRAMES / 2;
/// Pageblocks claimed between taking a sample and looking at it. By then slabs have got the blocks
/// of the sample from the pcp lists.
const LOOK_AFTER: u32 = 2;
/// Frames of a sample that slabs must have for the sample to count.
const ENOUGH_FRAMES: u32 = PAGEBLOCK_FRAMES / 2;
/// While samples are dense, the zone takes the next sample after as many claims as it has
/// pageblocks, and at least this many. So there is one sample each time that the heap doubles.
const SAMPLE_AFTER_LEAST: u32 = 32;

pub(super) struct HugePages {
    is_on: bool,
    /// First frame of the sample that the zone has not looked at yet.
    sample: Link<Pfn>,
    since: u32,
    /// True if the last sample with enough frames was dense.
    is_dense: bool,
}

impl HugePages {
    pub(super) const fn new(is_on: bool) -> Self {
        Self { is_on, sample: Link::NONE, since: 0, is_dense: false }
    }

    /// Chooses how the kernel brings in the pageblocks of a free block, which slabs will fill from
    /// its start. `touched_whole` has the kinds of frames that programs touch whole.
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

/// A movable pageblock may become a huge page while at most this many of its frames have owners:
/// about as many as the page cache takes before it asks.
const OWNED_FRAMES: usize = 64;

/// Returns whether the page cache asks for a huge page when it takes this frame. It does for one
/// frame of 64, because [`is_fresh`] looks at each frame of the pageblock.
#[inline]
pub(super) fn asks_for_huge(memory: &Memory, pfn: Pfn) -> bool {
    (pfn.0 as usize).is_multiple_of(OWNED_FRAMES)
        && matches!(memory.pageblocks().of(pfn).faults(), Faults::Plain | Faults::Small)
}

fn is_fresh(memory: &Memory, first: Pfn) -> bool {
    let frames = (0..PAGEBLOCK_FRAMES).map(|at| first.plus(at));
    frames.filter(|pfn| memory.frames().kind(*pfn) != Kind::NONE).count() <= OWNED_FRAMES
}

/// Pageblocks at the start of the window (32 GiB) for which the OS may be told to keep small pages.
/// Each can become a mapping of its own beside huge neighbours, and Linux allows a process 65,530
/// mappings (`DEFAULT_MAX_MAP_COUNT`, 2.6.17 to 6.18).
const MOST_SMALL: u32 = 16 * 1024;

/// Tells the OS to keep small pages in a pageblock before a part of it is purged. Otherwise
/// khugepaged would make it a huge page and so fill the hole again: it accepts up to 511 absent
/// pages (`max_ptes_none`, its default from Linux 2.6.38 to 6.18).
pub(super) fn make_hole(memory: &Memory, pfn: Pfn) {
    let first = pfn.pageblock().first();
    let faults = memory.pageblocks().of(first).faults();
    let unasked = || memory.arena().os().gives_huge_unasked() && pfn.pageblock().0 < MOST_SMALL;
    if faults.is_huge() || faults != Faults::Small && unasked() {
        advise(memory, first, Faults::Small);
    }
}

/// See [`Zones::populate`](super::Zones::populate); notes the duration.
pub(super) fn populate(memory: &Memory, first: Pfn, count: u32) {
    let pageblock = memory.pageblocks().of(first);
    let (faults, os) = (pageblock.faults(), memory.arena().os());
    let is_huge = faults == Faults::Huge;
    // If a page of the OS is larger than a block, neighbouring frames come in as well.
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
    // A system that makes huge pages on its own may bring in more than was asked for.
    if is_huge || faults == Faults::Small || !os.gives_huge_unasked() {
        memory.prices().note(is_huge, frames, ended.saturating_sub(began), ended);
    }
    if is_huge {
        pageblock.came_in_whole();
    }
}

/// Records how a pageblock comes in, and advises the OS if that has changed.
fn advise(memory: &Memory, first: Pfn, faults: Faults) {
    let pageblock = memory.pageblocks().of(first);
    let before = pageblock.faults();
    // Once told to keep a pageblock small, the OS does so until it is told to make it huge.
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
        let _ = arena.os().advise_huge(arena.address(first), bytes, is_huge);
    }
}
