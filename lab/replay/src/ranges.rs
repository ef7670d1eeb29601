//! Ranges of pages, as `vmalloc` takes and frees them: what document 005 varies. Blocks are split
//! into pages, and pages go back one by one or as blocks.

use crate::memory::{Buffer, Pages};
use quarry_mm::frame::{FRAME_BYTES, MAX_ORDER, MigrateType, Order, Pfn};
use quarry_mm::pcp::{PageAllocator, PagePolicy, PageRequest};
use quarry_mm::zone::largest_blocks;
use quarry_sys::percpu::SlotIndex;

/// The ways of taking a range of pages and giving it back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ranges {
    /// Page by page, both ways (Linux up to 6.18).
    SinglePages,
    /// Takes the largest blocks that fit, splits them into pages, and frees each page by itself
    /// (a06157804399, Linux 6.19).
    #[default]
    SplitPages,
    /// Takes the same blocks. Checks each page by itself when it is freed, and gives contiguous
    /// pages back in the largest aligned blocks (document 005).
    SplitBlocks,
    /// Takes and frees exact numbers of frames, as `malloc` of this library does.
    Exact,
}

pub(crate) const RANGES: [(&str, Ranges); 4] = [
    ("single_pages", Ranges::SinglePages),
    ("split_pages", Ranges::SplitPages),
    ("split_blocks", Ranges::SplitBlocks),
    ("exact", Ranges::Exact),
];

/// Takes a block of pages for the caller alone.
#[inline]
pub(crate) fn take_block<P: PagePolicy>(
    allocator: &PageAllocator<P>,
    slot: SlotIndex,
    pages: Pages,
) -> Option<Pfn> {
    let (order, node) = (Order::new(pages.order), allocator.zones().node_of(slot));
    let migratetype = if pages.movable { MigrateType::Movable } else { MigrateType::Unmovable };
    let request = PageRequest { order, migratetype, flags: Default::default(), node };
    Some(allocator.alloc(slot, request)?.pfn)
}

impl Ranges {
    /// Takes `count` pages in blocks, each the largest that is not larger than what is missing, and
    /// hands them to `give` page by page. Returns false if there is no memory.
    pub(crate) fn take<P: PagePolicy>(
        self,
        (allocator, slot): (&PageAllocator<P>, SlotIndex),
        (count, movable): (u32, bool),
        give: &mut dyn FnMut(Buffer),
    ) -> bool {
        let mut missing = count;
        while let Some(log) = missing.checked_ilog2() {
            let order = match self {
                Self::SinglePages => 0,
                _ => log.min(u32::from(MAX_ORDER)) as u8,
            };
            let block = match self {
                // Movable frames, as `malloc` takes them.
                Self::Exact => {
                    let (most, of) = (missing.min(1 << MAX_ORDER), MigrateType::Movable);
                    let page = allocator.alloc_exact(slot, most, of, Order::ZERO);
                    page.map(|page| (page.pfn, most))
                }
                _ => take_block(allocator, slot, Pages { order, movable })
                    .map(|pfn| (pfn, 1 << order)),
            };
            let Some((first, frames)) = block else { return false };
            for number in 0..frames {
                let address = allocator.arena().address(first.plus(number));
                // SAFETY: the frame is part of a committed block that the page allocator has handed
                // out, and this loop makes one buffer of each of its frames.
                give(unsafe { Buffer::new(address, FRAME_BYTES) });
            }
            missing -= frames;
        }
        true
    }

    /// Frees the pages of one range.
    pub(crate) fn give<P: PagePolicy>(
        self,
        (allocator, slot): (&PageAllocator<P>, SlotIndex),
        frames: &[Pfn],
    ) {
        if matches!(self, Self::SinglePages | Self::SplitPages) {
            return frames.iter().for_each(|pfn| allocator.free(slot, *pfn, Order::ZERO));
        }
        // As the kernel prepares each page before it frees any of them.
        let is_free = |pfn: &Pfn| allocator.frames().state(*pfn).is_free();
        assert!(!frames.iter().any(is_free), "a page of the range is free already");
        for run in frames.chunk_by(|one, next| one.plus(1) == *next) {
            let (first, count) = (run[0], run.len() as u32);
            if self == Self::Exact {
                // As many at a time as were taken.
                for from in (0..count).step_by(1 << MAX_ORDER) {
                    let most = (count - from).min(1 << MAX_ORDER);
                    allocator.free_exact(slot, first.plus(from), most);
                }
                continue;
            }
            for (pfn, order) in largest_blocks(first, count) {
                allocator.free(slot, pfn, order);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file_cache::FileCache;
    use crate::memory::Counters;
    use crate::policies::Policies;
    use crate::stack::{Machine, Replay};
    use std::collections::BTreeSet;

    /// Takes ranges of these lengths, checks that no page is handed out twice, and frees them in
    /// another order.
    struct Cycle<'a>(&'a [u32]);

    impl Replay for Cycle<'_> {
        /// The counts of taking all ranges, and those of freeing them.
        type Output = [Counters; 2];

        fn on<M: FileCache>(self, memory: &M) -> Self::Output {
            let kind = Pages { order: 0, movable: false };
            let at = [0, 1, 2].map(|_| memory.counters());
            let mut ranges: Vec<Vec<Buffer>> = Vec::new();
            let mut seen = BTreeSet::new();
            for length in self.0 {
                let mut range = Vec::new();
                assert!(memory.alloc_range(*length, kind, &mut |page| range.push(page)));
                assert_eq!(range.len(), *length as usize);
                assert!(range.iter().all(|page| seen.insert(page.address())), "handed out twice");
                ranges.push(range);
            }
            let taken = memory.counters();
            ranges.rotate_left(self.0.len() / 2);
            ranges.iter_mut().for_each(|range| memory.free_range(kind, range));
            assert!(ranges.iter().all(Vec::is_empty));
            let freed = memory.counters();
            assert_eq!(memory.check_at_end(), Ok(()));
            [taken.since(at[0]), freed.since(taken)]
        }
    }

    fn cycle(policies: &str, lengths: &[u32]) -> [Counters; 2] {
        let machine = Machine { cpus: 16, memory: 0, nodes: 1, budget: 0 };
        policies.parse::<Policies>().unwrap().replay(machine, Cycle(lengths)).unwrap()
    }

    #[test]
    fn every_way_gives_every_page_back() {
        for pages in ["order0", "v2016", "v6.18", "v6.18-wide"] {
            for (way, _) in RANGES {
                cycle(&format!("slub+{pages}+{way}"), &[1, 5, 8, 512, 3, 1500, 256, 64, 4096]);
            }
        }
    }

    /// A range of 512 pages is one block of order 9, and goes back as one or as 512.
    #[test]
    fn blocks_go_back_as_blocks_or_as_pages() {
        let blocks = |way: &str| {
            let [taken, freed] = cycle(&format!("sheaf+v6.18+{way}"), &[512]);
            (taken.handed_out, freed.taken_back)
        };
        assert_eq!(blocks("single_pages"), (512, 512));
        assert_eq!(blocks("split_pages"), (1, 512));
        assert_eq!(blocks("split_blocks"), (1, 1));
        assert_eq!(blocks("exact"), (1, 1));
    }

    /// Blocks that nothing keeps together are freed as runs of neighbours, whatever their order.
    #[test]
    fn a_range_of_several_blocks_goes_back_in_the_largest() {
        let [taken, freed] = cycle("slub+order0+split_blocks", &[1024 + 512 + 8 + 1]);
        assert_eq!(taken.handed_out, 4, "of 1,024, 512, 8 and 1");
        assert!((2..=4).contains(&freed.taken_back), "{}", freed.taken_back);
    }
}
