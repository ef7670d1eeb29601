//! Purging: the memory of free blocks goes back to the system, and is zero afterwards.
//!
//! A purge holds the zone's lock while it takes a pageblock's dirty blocks off the lists and while
//! it puts them back, but not while it calls the system. A request that finds no block takes the
//! lock `purging` and tries the lists again: under that lock no purge has blocks off the lists.

use super::block::{Block, free_blocks, page_frames};
use super::give_back::Whole;
use super::huge;
use super::zone::{Locked, ZoneRef};
use super::zones::Zones;
use crate::frame::{
    End, FRAME_BYTES, FrameBits, Memory, NodeId, Order, PAGEBLOCK_FRAMES, PageblockIndex, Pfn,
};
use quarry_sys::counters::add_fields;
use quarry_sys::primitive::Ordering::Relaxed;

const ISOLATED_BLOCKS: usize = 64;
/// A bounded purge ends after this many refusals, which take about ten microseconds together.
const MOST_REFUSALS: u32 = 64;

#[derive(Clone, Copy, Default)]
struct Purged {
    bytes: usize,
    /// Calls that the system refused.
    refusals: u32,
}

add_fields!(Purged: bytes, refusals);

impl Zones {
    /// Purges the free blocks and extents of one node that have at least the order `smallest` and
    /// may hold data, until about `most_bytes` are given back. Returns the bytes. O(pageblocks +
    /// blocks); holds the zone's lock for at most 64 blocks, or one pageblock's extents, at a time.
    ///
    /// Memory that the system refuses to purge (locked memory, before Linux 5.18) stays dirty.
    /// After many refusals a purge with a bound `most_bytes` ends; the next begins where it ended.
    pub fn purge(&self, node: NodeId, smallest: Order, most_bytes: usize) -> usize {
        let zone = self.of(node);
        let page_frames = page_frames(self.arena().os());
        let smallest = smallest.max(Order::covering(page_frames));
        let (start, end) = (zone.refused_at.swap(0, Relaxed), zone.end().0);
        let mut purged = Purged::default();
        for index in (start..end).chain(0..start.min(end)).map(PageblockIndex) {
            if purged.bytes >= most_bytes {
                break;
            }
            if purged.refusals >= MOST_REFUSALS && most_bytes != usize::MAX {
                zone.refused_at.store(index.0, Relaxed);
                break;
            }
            purged += zone.purge_pageblock(index, smallest, page_frames, most_bytes - purged.bytes);
        }
        if purged.bytes > 0 {
            zone.clear_boost();
        }
        purged.bytes
    }

    /// Bytes of free memory that may hold data. O(nodes).
    pub(crate) fn dirty_bytes(&self) -> usize {
        self.all().map(|zone| zone.dirty() as usize * FRAME_BYTES).sum()
    }

    /// Purges all free memory that may hold data; returns the bytes given to the system.
    pub(crate) fn purge_all(&self) -> usize {
        let of = |node| {
            let whole = self.give_back_of(node, Whole::Dirty, usize::MAX);
            whole + self.purge(node, Order::ZERO, usize::MAX)
        };
        self.all().map(|zone| of(zone.node())).sum()
    }

    /// Purges frames of one pageblock for their owner, which has given up their contents.
    /// Afterwards they read as zero or are unchanged. Returns the bytes.
    pub(crate) fn purge_owned(&self, first: Pfn, frames: u32) -> usize {
        purge_extent(self.memory(), first, frames).bytes
    }
}

impl ZoneRef<'_> {
    /// Purges the dirty frames of one pageblock, until about `most_bytes` are given back.
    fn purge_pageblock(
        self,
        index: PageblockIndex,
        smallest: Order,
        page_frames: u32,
        most_bytes: usize,
    ) -> Purged {
        let mut purged = Purged::default();
        let pageblock = self.memory.pageblocks().at(index);
        let has_dirty_extents = !pageblock.dirty_extents().is_empty();
        if pageblock.dirty() == 0 && !has_dirty_extents
            || pageblock.tag().node() != Some(self.node())
        {
            return purged;
        }
        let mut from = index.first();
        while from < index.first().plus(PAGEBLOCK_FRAMES) && purged.bytes < most_bytes {
            purged += self.purge_blocks(smallest, &mut from);
        }
        if has_dirty_extents && smallest < Order::PAGEBLOCK && purged.bytes < most_bytes {
            purged += self.purge_extents(index, page_frames, smallest.frames());
        }
        purged
    }

    /// Purges up to 64 blocks from `from` on, and moves `from` past them.
    fn purge_blocks(self, smallest: Order, from: &mut Pfn) -> Purged {
        let _purging = self.purging.lock();
        let none = Block { pfn: Pfn::NONE, order: Order::ZERO, zeroed: false };
        let mut isolated = [none; ISOLATED_BLOCKS];
        let count = self.lock().isolate(smallest, from, &mut isolated);
        let blocks = &mut isolated[..count];
        let purged = purge_neighbours(self.memory, blocks);
        let mut locked = self.lock();
        for block in blocks.iter() {
            locked.put_block(*block, End::Tail);
        }
        purged
    }

    /// Purges a pageblock's dirty extents of at least `least` frames, in whole pages of the OS.
    fn purge_extents(self, index: PageblockIndex, page_frames: u32, least: u32) -> Purged {
        let _purging = self.purging.lock();
        let mut locked = self.lock();
        if self.memory.pageblocks().at(index).shelf().is_some() {
            return Purged::default();
        }
        let dirty = locked.state.extents.isolate_dirty(self.memory, index);
        drop(locked);
        let (mut clean, mut purged) = (FrameBits::NONE, Purged::default());
        for (first, end) in dirty.extents() {
            let start = first.next_multiple_of(page_frames);
            let end = end / page_frames * page_frames;
            if end < start + least.max(1) {
                continue;
            }
            let one = purge_extent(self.memory, index.first().plus(start), end - start);
            if one.refusals == 0 {
                clean.set(start, end - start);
            }
            purged += one;
        }
        let mut locked = self.lock();
        locked.put_bits(index, clean, true);
        locked.put_bits(index, dirty.without(clean), false);
        purged
    }
}

impl Locked<'_> {
    /// Takes dirty blocks of a pageblock off the lists, from `from` on, and moves `from` past them.
    /// Takes as many as `isolated` has room for; returns how many.
    fn isolate(&mut self, smallest: Order, from: &mut Pfn, isolated: &mut [Block]) -> usize {
        let (memory, end) = (self.memory, from.pageblock().first().plus(PAGEBLOCK_FRAMES));
        let is_wanted = |block: &Block| !block.zeroed && block.order >= smallest;
        let blocks = free_blocks(memory, *from).filter(is_wanted);
        let mut count = 0;
        for (place, block) in isolated.iter_mut().zip(blocks) {
            let Block { pfn, order, .. } = block;
            self.take_off(pfn, order, memory.pageblocks().of(pfn).migratetype());
            *place = block;
            count += 1;
            *from = pfn.plus(order.frames());
        }
        if count < isolated.len() {
            *from = end;
        }
        count
    }
}

/// Purges blocks, neighbouring ones by one call. Marks blocks as zeroed if their call succeeds.
fn purge_neighbours(memory: &Memory, blocks: &mut [Block]) -> Purged {
    let mut purged = Purged::default();
    let is_next = |one: &Block, next: &Block| one.pfn.plus(one.order.frames()) == next.pfn;
    for extent in blocks.chunk_by_mut(is_next) {
        let frames = extent.iter().map(|block| block.order.frames()).sum();
        let one = purge_extent(memory, extent[0].pfn, frames);
        extent.iter_mut().for_each(|block| block.zeroed = one.refusals == 0);
        purged += one;
    }
    purged
}

/// Purges neighbouring frames by one call: whole pageblocks, or a part of one.
fn purge_extent(memory: &Memory, first: Pfn, frames: u32) -> Purged {
    if frames < PAGEBLOCK_FRAMES {
        huge::make_hole(memory, first);
    } else {
        let block = first.pageblock().0;
        memory.note_purged(block, block + frames / PAGEBLOCK_FRAMES);
    }
    let (arena, bytes) = (memory.arena(), frames as usize * FRAME_BYTES);
    match arena.os().purge(arena.address(first), bytes) {
        Ok(()) => Purged { bytes, refusals: 0 },
        Err(_) => Purged { bytes: 0, refusals: 1 },
    }
}
