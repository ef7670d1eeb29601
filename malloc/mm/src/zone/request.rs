//! Requests for blocks, each served in one critical section.

use super::ask::{Ask, Destination};
use super::block::{Block, largest_blocks};
use super::exchange::mark_movable;
use super::fallback::Mode;
use super::zone::{Locked, ZoneRef};
use crate::frame::{
    End, FrameState, Memory, MigrateType, Order, PAGEBLOCK_FRAMES, PageblockIndex, PageblockTag,
    Pfn, Taken,
};
use quarry_sys::primitive::{Effort, effort};

impl ZoneRef<'_> {
    /// Takes up to `count` blocks, and passes each to `give` under the lock. Returns how many.
    #[inline(never)]
    pub(super) fn take(
        self,
        ask: &Ask,
        count: u32,
        destination: Destination,
        give: &mut dyn FnMut(Pfn, bool),
    ) -> u32 {
        let (memory, order, of) = (self.memory, ask.order, ask.migratetype);
        let mut hand_out = |pfn: Pfn, zeroed: bool| {
            if of == MigrateType::Movable {
                mark_movable(memory, pfn, order);
            }
            memory.frames().set_state(pfn, destination.state(order, zeroed));
            give(pfn, zeroed);
        };
        let mut locked = self.lock();
        let (mut taken, mut mode) = (0, Mode::Normal);
        while taken < count {
            if mode == Mode::Normal && !ask.flags.high_atomic {
                let run = locked.take_run(order, of, count - taken, &mut hand_out);
                if run > 0 {
                    taken += run;
                    continue;
                }
            }
            let Some(block) = locked.take_one(ask, &mut mode) else { break };
            hand_over(block, &mut hand_out);
            taken += 1;
        }
        effort::spend(Effort::ZoneBlock, taken as usize);
        let blocks = u64::from(taken);
        locked.state.counts.taken.add(blocks, blocks * u64::from(ask.order.frames()));
        taken
    }

    /// Puts back the blocks that `next` returns. Returns the numbers of blocks and of frames.
    #[inline(never)]
    pub(super) fn put(self, next: &mut dyn FnMut() -> Option<Block>) -> (u64, u32) {
        let mut locked = self.lock();
        let (mut count, mut frames) = (0, 0);
        let mut blocks = core::iter::from_fn(next).inspect(|block| {
            count += 1;
            frames += block.order.frames();
        });
        if let Some(mut run) = blocks.next().map(Run::of) {
            for block in blocks {
                if !run.extend(self.memory, block) {
                    locked.put_run(run);
                    run = Run::of(block);
                }
            }
            locked.put_run(run);
        }
        effort::spend(Effort::ZoneBlock, count as usize);
        locked.state.counts.put.add(count, u64::from(frames));
        (count, frames)
    }

    pub(super) fn add_frames(self, taken: Taken, frames: u32) {
        let Taken { first, zeroed } = taken;
        let mut locked = self.lock();
        let tag = PageblockTag::new(self.node(), MigrateType::Movable);
        let end = PageblockIndex(first.0 + frames.div_ceil(PAGEBLOCK_FRAMES));
        for index in first.0..end.0 {
            self.memory.pageblocks().at(PageblockIndex(index)).set_tag(tag);
        }
        for (pfn, order) in largest_blocks(first.first(), frames) {
            locked.put_block(Block { pfn, order, zeroed }, End::Tail);
        }
        locked.gain(frames, end);
    }
}

/// Not inlined: the code for runs of blocks already has an inlined copy of `give`.
#[inline(never)]
fn hand_over(block: Block, give: &mut impl FnMut(Pfn, bool)) {
    give(block.pfn, block.zeroed);
}

/// Neighbouring frames of one pageblock that are put back one after the other, in either direction.
/// Combined into larger blocks, they need fewer merges and list operations.
#[derive(Clone, Copy)]
struct Run {
    first: Pfn,
    frames: u32,
    zeroed: bool,
}

impl Run {
    #[inline]
    fn of(block: Block) -> Self {
        let Block { pfn, order, zeroed } = block;
        Self { first: pfn, frames: order.frames(), zeroed }
    }

    /// Adds a neighbour in the same pageblock that is zeroed iff the run is, or else returns false.
    #[inline]
    fn extend(&mut self, memory: &Memory, block: Block) -> bool {
        let Block { pfn, order, zeroed } = block;
        let is_behind = pfn == self.first.plus(self.frames);
        let is_next = is_behind || pfn.plus(order.frames()) == self.first;
        if !is_next || zeroed != self.zeroed || pfn.pageblock() != self.first.pageblock() {
            return false;
        }
        memory.frames().set_state(if is_behind { pfn } else { self.first }, FrameState::USED);
        self.first = self.first.min(pfn);
        self.frames += order.frames();
        true
    }
}

impl Locked<'_> {
    /// Puts a run back, as the largest blocks that it forms.
    #[inline]
    fn put_run(&mut self, run: Run) {
        let Run { first, frames, zeroed } = run;
        if frames.is_power_of_two() && first.0.is_multiple_of(frames) {
            let order = Order::covering(frames);
            return self.put_block(Block { pfn: first, order, zeroed }, End::Head);
        }
        for (pfn, order) in largest_blocks(first, frames) {
            self.put_block(Block { pfn, order, zeroed }, End::Head);
        }
    }

    #[inline]
    fn take_one(&mut self, ask: &Ask, mode: &mut Mode) -> Option<Block> {
        if ask.flags.high_atomic {
            let reserved = self.take_smallest(ask.order, MigrateType::HighAtomic);
            if reserved.is_some() {
                return reserved;
            }
        }
        let block = self.take_any(ask.order, ask.migratetype, mode);
        if block.is_none() && ask.flags.non_block {
            return self.take_smallest(ask.order, MigrateType::HighAtomic);
        }
        block
    }
}
