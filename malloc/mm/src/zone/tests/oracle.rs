//! A buddy allocator so simple that it is obviously right: a map of free blocks. It chooses no
//! addresses: it checks that the zone's choice was legal, and records the free blocks that result.

use crate::frame::{Memory, MigrateType, Order, PAGEBLOCK_ORDER, Pfn};
use crate::zone::{ORDERS, largest_blocks};
use std::collections::BTreeMap;

/// Maps the first frame of each free block to its order, and to whether it is known to be zero.
pub(super) struct NaiveBuddy {
    free: BTreeMap<u32, (u8, bool)>,
}

/// Returns whether two blocks of `order` at these frames may merge.
fn may_merge(memory: &Memory, order: u8, one: u32, other: u32) -> bool {
    let of = |pfn: u32| memory.pageblocks().of(Pfn(pfn)).tag();
    let (one, other) = (of(one), of(other));
    let pinned = |of: MigrateType| of == MigrateType::HighAtomic;
    one.node() == other.node()
        && (order < PAGEBLOCK_ORDER
            || one.migratetype() == other.migratetype()
            || !(pinned(one.migratetype()) || pinned(other.migratetype())))
}

impl NaiveBuddy {
    pub(super) fn new(first: Pfn, frames: u32) -> Self {
        let free = largest_blocks(first, frames)
            .map(|(pfn, order)| (pfn.0, (order.get(), true)))
            .collect();
        Self { free }
    }

    /// Takes the block at `pfn` out of the free block that contains it. Returns the order of the
    /// free block, and whether it was zero.
    ///
    /// # Panics
    /// If the block was not free.
    pub(super) fn take(&mut self, pfn: Pfn, order: Order) -> (u8, bool) {
        let (&start, &(from, zeroed)) =
            self.free.range(..=pfn.0).next_back().expect("a free block holds the frame");
        assert!(pfn.0 + order.frames() <= start + (1 << from), "{pfn:?} was not free");
        self.free.remove(&start);
        let (mut start, mut size) = (start, from);
        while size > order.get() {
            size -= 1;
            let upper = start + (1 << size);
            if pfn.0 >= upper {
                self.free.insert(start, (size, zeroed));
                start = upper;
            } else {
                self.free.insert(upper, (size, zeroed));
            }
        }
        assert_eq!(start, pfn.0, "blocks start at multiples of their size");
        (from, zeroed)
    }

    pub(super) fn put(&mut self, memory: &Memory, pfn: Pfn, order: Order, zeroed: bool) {
        let (mut pfn, mut order, mut zeroed) = (pfn.0, order.get(), zeroed);
        while usize::from(order) + 1 < ORDERS {
            let buddy = pfn ^ (1 << order);
            let Some((_, buddy_zeroed)) =
                self.free.get(&buddy).copied().filter(|(size, _)| *size == order)
            else {
                break;
            };
            if !may_merge(memory, order, pfn, buddy) {
                break;
            }
            self.free.remove(&buddy);
            zeroed &= buddy_zeroed;
            pfn = pfn.min(buddy);
            order += 1;
        }
        assert!(self.free.insert(pfn, (order, zeroed)).is_none(), "freed twice");
    }

    /// Adapts to changed types: splits blocks of order 10 whose pageblocks may not merge any more,
    /// and merges blocks of order 9 that may merge now.
    pub(super) fn follow_types(&mut self, memory: &Memory) {
        self.split_unlike(memory);
        let pageblocks: Vec<(u32, bool)> = self
            .free
            .iter()
            .filter(|(_, (order, _))| *order == PAGEBLOCK_ORDER)
            .map(|(pfn, (_, zeroed))| (*pfn, *zeroed))
            .collect();
        for (pfn, _) in &pageblocks {
            self.free.remove(pfn);
        }
        for (pfn, zeroed) in pageblocks {
            self.put(memory, Pfn(pfn), Order::PAGEBLOCK, zeroed);
        }
    }

    fn split_unlike(&mut self, memory: &Memory) {
        let unlike = |pfn: u32| !may_merge(memory, PAGEBLOCK_ORDER, pfn, pfn + (1 << 9));
        let split: Vec<(u32, bool)> = self
            .free
            .iter()
            .filter(|(pfn, (order, _))| *order == 10 && unlike(**pfn))
            .map(|(pfn, (_, zeroed))| (*pfn, *zeroed))
            .collect();
        for (pfn, zeroed) in split {
            self.free.insert(pfn, (9, zeroed));
            self.free.insert(pfn + (1 << 9), (9, zeroed));
        }
    }

    /// Does to the dirty blocks of at least `smallest` what a purge does to them: takes all of them
    /// out, and puts them back as zero.
    pub(super) fn purge(&mut self, memory: &Memory, smallest: u8) -> usize {
        let dirty: Vec<(u32, u8)> = self
            .free
            .iter()
            .filter(|(_, (order, zeroed))| !zeroed && *order >= smallest)
            .map(|(pfn, (order, _))| (*pfn, *order))
            .collect();
        for (pfn, _) in &dirty {
            self.free.remove(pfn);
        }
        for (pfn, order) in &dirty {
            self.put(memory, Pfn(*pfn), Order::new(*order), true);
        }
        dirty.iter().map(|(_, order)| 4096 << order).sum()
    }

    /// Free blocks by order.
    pub(super) fn nr_free(&self) -> [u32; ORDERS] {
        let mut counts = [0; ORDERS];
        self.free.values().for_each(|(order, _)| counts[usize::from(*order)] += 1);
        counts
    }

    /// Free frames not known to be zero.
    pub(super) fn dirty(&self) -> u32 {
        self.free.values().filter(|(_, zeroed)| !zeroed).map(|(order, _)| 1u32 << order).sum()
    }

    /// Order of the smallest free block of type `of` and of at least `order`.
    pub(super) fn smallest(&self, memory: &Memory, order: Order, of: MigrateType) -> Option<u8> {
        self.free
            .iter()
            .filter(|(pfn, (size, _))| {
                *size >= order.get() && memory.pageblocks().of(Pfn(**pfn)).migratetype() == of
            })
            .map(|(_, (size, _))| *size)
            .min()
    }

    /// Compares the free blocks with the states of the frames, one by one.
    pub(super) fn compare(&self, memory: &Memory) {
        for (pfn, (order, zeroed)) in &self.free {
            let state = memory.frames().state(Pfn(*pfn));
            assert!(state.is_buddy(Order::new(*order)), "F{pfn:x} is free, of order {order}");
            assert_eq!(state.is_zeroed(), *zeroed, "F{pfn:x} known to be zero");
        }
    }
}
