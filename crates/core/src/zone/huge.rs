//! Which pageblocks of slabs become huge pages: those of a program that touches what it is given.
//!
//! A huge page is in memory as a whole from its first touch on. A zone therefore leaves a pageblock
//! to plain faults now and then, the *sample*, and looks a while later which slabs have taken it,
//! and how much of it belongs to such as are touched whole: there caches of large objects see what
//! is touched of theirs. Huge pages are asked for as long as the last sample was dense.
//!
//! Counted are pageblocks that are claimed as a whole, in the order in which they are.

use super::block::Block;
use crate::frame::{FRAME_BYTES, Faults, KindSet, Link, Memory, PAGEBLOCK_FRAMES, Pfn};

/// Zones of this many frames (64 MiB) ask for huge pages: one half-used block then adds little to
/// what is resident. From 8 MiB on, lua and sqlite had 40 % fewer faults, 1 to 5 % more memory, and
/// took 1.02 and 1.04 times as long (12 interleaved runs, quartiles over 1).
pub(super) const HUGE_FROM_FRAMES: u32 = 16 * 1024;
/// Samples are taken from half of it on, so that there is one by then.
const SAMPLES_FROM_FRAMES: u32 = HUGE_FROM_FRAMES / 2;
/// A sample is looked at when so many pageblocks more have been claimed: what the lists of CPUs
/// keep of it has been handed out by then.
const LOOK_AFTER: u32 = 2;
/// A sample says something where slabs have this many of its frames.
const ENOUGH_FRAMES: u32 = PAGEBLOCK_FRAMES / 2;
/// While huge pages are right, the next sample is taken after as many pageblocks as the zone has,
/// so many at least: a heap pays for one each time that it doubles.
const SAMPLE_AFTER_LEAST: u32 = 32;

/// What a zone knows of how densely its slabs are touched.
pub(super) struct HugePages {
    /// Whether huge pages may be asked for at all.
    is_on: bool,
    /// First frame of a sample that has not been looked at.
    sample: Link<Pfn>,
    /// Pageblocks claimed since the last sample.
    since: u32,
    /// Whether the last one that said something was dense.
    is_dense: bool,
}

impl HugePages {
    pub(super) const fn new(is_on: bool) -> Self {
        Self { is_on, sample: Link::NONE, since: 0, is_dense: false }
    }

    /// Takes up a free block of whole pageblocks that slabs are about to fill from its start, in a
    /// zone of `managed` frames that touches kinds of slabs as `touched_whole` says.
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
            let faults = self.choose(managed, block.zeroed);
            if faults != Faults::Huge && block.zeroed && self.sample == Link::NONE {
                self.sample = Link::to(first);
                self.since = 0;
            } else {
                self.since += 1;
            }
            advise(memory, first, faults);
        }
    }

    fn choose(&self, managed: u32, is_fresh: bool) -> Faults {
        if !self.is_dense || managed < HUGE_FROM_FRAMES {
            return Faults::Plain;
        }
        let after = (managed / PAGEBLOCK_FRAMES).max(SAMPLE_AFTER_LEAST);
        let is_due = is_fresh && self.since >= after;
        if is_due && self.sample == Link::NONE { Faults::Sample } else { Faults::Huge }
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

/// Tells the OS how a pageblock comes in, where that changes.
fn advise(memory: &Memory, first: Pfn, faults: Faults) {
    let pageblock = memory.pageblocks().of(first);
    let (was_huge, is_huge) = (pageblock.faults() == Faults::Huge, faults == Faults::Huge);
    pageblock.set_faults(faults);
    if was_huge != is_huge {
        let arena = memory.arena();
        let bytes = PAGEBLOCK_FRAMES as usize * FRAME_BYTES;
        // A hint: refused, the pages come as they did before.
        let _ = arena.os().advise_huge(arena.address(first), bytes, is_huge);
    }
}
