//! Huge pages for slabs whose memory programs touch whole, and for cached pages.
//!
//! The first touch of a huge page brings in all of it. So in a large zone, slabs whose objects
//! programs touch only in part, as checks by the slab layer show, take reclaimable pageblocks. All
//! other slabs take unmovable pageblocks (`Zones::slab_type`). When slabs claim an unmovable
//! pageblock, it becomes a huge page, provided that huge pages are cheap at that time.
//!
//! Cached pages lie in movable pageblocks, which slabs do not claim. The page cache fills each page
//! that it takes, and reports it here: its pageblock becomes huge if few frames there have owners.

use super::block::{Block, page_frames};
use super::zone::Zone;
use crate::frame::{FRAME_BYTES, Faults, Kind, Memory, MigrateType, PAGEBLOCK_BYTES};
use crate::frame::{PAGEBLOCK_FRAMES, PageblockIndex, Pfn};
use quarry_sys::clock::{coarse_ns, monotonic_ns};

/// Zones from 64 MiB on use huge pages: a half-used huge page then adds little to their memory.
/// `lab/docs/tried.md` has the figures for smaller zones.
pub(super) const HUGE_FROM_FRAMES: u32 = 16 * 1024;
/// Zones from this size on keep partly touched slabs apart, so that most are apart at 64 MiB.
pub(super) const SEPARATED_FROM_FRAMES: u32 = HUGE_FROM_FRAMES / 2;

/// Chooses how the kernel brings in the pageblocks of a free block. Slabs have claimed the block,
/// and will fill it from its start.
pub(super) fn claimed(zone: &Zone, memory: &Memory, block: Block, of: MigrateType) {
    if !zone.huge || zone.managed() < HUGE_FROM_FRAMES || memory.arena().keeps() {
        return;
    }
    for offset in (0..block.order.frames()).step_by(PAGEBLOCK_FRAMES as usize) {
        let is_huge = of == MigrateType::Unmovable && memory.prices().may_be_huge(coarse_ns());
        let faults = if is_huge { Faults::Huge } else { Faults::Plain };
        advise(memory, block.pfn.plus(offset), faults);
    }
}

/// Makes the pageblock of a frame a huge page if few frames of the pageblock have owners.
pub(super) fn fill_whole(memory: &Memory, pfn: Pfn) {
    let first = pfn.pageblock().first();
    let frames = pfn.pageblock().frames();
    let owned = frames.filter(|pfn| memory.frames().kind(*pfn) != Kind::NONE);
    if owned.count() <= OWNED_FRAMES {
        advise(memory, first, Faults::Huge);
    }
}

/// A movable pageblock may become a huge page while at most this many of its frames have owners:
/// about as many as the page cache takes between two of its requests for huge pages.
const OWNED_FRAMES: usize = 64;

/// Returns whether the page cache asks for a huge page when it takes this frame. It asks for one
/// frame of 64 only, because [`fill_whole`] then looks at each frame of the pageblock.
#[inline]
pub(super) fn asks_for_huge(memory: &Memory, pfn: Pfn) -> bool {
    (pfn.0 as usize).is_multiple_of(OWNED_FRAMES)
        && matches!(memory.pageblocks().of(pfn).faults(), Faults::Plain | Faults::Small)
}

/// Pageblocks at the start of the window (32 GiB) for which the OS may be told to keep small pages.
/// Next to huge neighbours each such pageblock can become a kernel mapping of its own, and Linux
/// allows a process 65,530 of these (`DEFAULT_MAX_MAP_COUNT`, 2.6.17 to 6.18).
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

/// See [`Zones::populate`](super::Zones::populate); notes how long the call took, as a price.
pub(super) fn populate(memory: &Memory, first: Pfn, count: u32) {
    let pageblock = memory.pageblocks().of(first);
    let (faults, os) = (pageblock.faults(), memory.arena().os());
    let is_huge = faults == Faults::Huge;
    // If a page of the OS is larger than a frame, neighbouring frames may come in as well.
    let page_frames = page_frames(os);
    let step = if is_huge { page_frames.max(PAGEBLOCK_FRAMES) } else { page_frames };
    let start = Pfn(first.0 / step * step);
    let frames = (first.0 + count).next_multiple_of(step) - start.0;
    let began = monotonic_ns();
    let populated = os.populate(memory.arena().address(start), frames as usize * FRAME_BYTES);
    if populated.is_err() {
        return;
    }
    let ended = monotonic_ns();
    // A system that makes huge pages unasked may bring in more frames: then the price is unknown.
    if is_huge || faults == Faults::Small || !os.gives_huge_unasked() {
        memory.prices().note(is_huge, frames, ended.saturating_sub(began), ended);
    }
    if is_huge {
        pageblock.came_in_whole();
    }
}

/// Makes the pages of fresh pageblocks huge or small.
pub(super) fn make(memory: &Memory, first: PageblockIndex, blocks: u32, faults: Faults) {
    let all = (first.0..first.0 + blocks).map(PageblockIndex);
    all.for_each(|block| memory.pageblocks().at(block).set_faults(faults));
    if blocks > 0 {
        let (arena, bytes) = (memory.arena(), blocks as usize * PAGEBLOCK_BYTES);
        let _ = arena.os().advise_huge(arena.address(first.first()), bytes, faults.is_huge());
    }
}

/// Records how a pageblock comes in, and advises the OS if that has changed.
fn advise(memory: &Memory, first: Pfn, faults: Faults) {
    let pageblock = memory.pageblocks().of(first);
    let before = pageblock.faults();
    // An OS that was told to keep a pageblock small does so until it is told the opposite.
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
        let _ = arena.os().advise_huge(arena.address(first), PAGEBLOCK_BYTES, is_huge);
    }
}
