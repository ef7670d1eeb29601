//! The per-CPU lists of blocks: double-ended rings of frame numbers.
//!
//! A [`List`](crate::frame::List) would not do, because a block of order 0 has only one link word.
//! A ring takes 4 bytes per block, and touches memory only as far as it is used. Its capacity
//! bounds the list, and is a power of two, so that a mask replaces a division.

use crate::frame::{OsArray, PAGEBLOCK_FRAMES, Pfn, fresh_zero};
use quarry_sys::os::{Os, OsResult};
use quarry_sys::primitive::{AtomicU32, Ordering::Relaxed};

/// Maximum number of lists of a policy: 3 migratetypes x orders 0..=8, and two lists of order 9.
pub(super) const MAX_LISTS: usize = 29;

/// Position at which an empty list starts: in mid-page, so that a short list touches one page.
const START: u32 = 512;

/// The maximum number of pages that a list's capacity may be sized for: 4 GiB on one CPU.
const MOST_PAGES: u32 = 1 << 20;

/// Blocks that a list may hold, by its order. Powers of two.
#[derive(Clone, Copy, Debug)]
pub struct RingSizes {
    /// Order 0.
    pub single: u32,
    /// Orders 1..=3.
    pub small: u32,
    /// Order 9.
    pub huge: u32,
}

impl Default for RingSizes {
    /// Room for lists of at most 2,048 pages and a refill of 2,016.
    fn default() -> Self {
        Self { single: 4096, small: 1024, huge: 64 }
    }
}

impl RingSizes {
    pub(super) fn fitting(high: u32, refill: u32) -> Self {
        let pages = high.saturating_add(refill).min(MOST_PAGES);
        let (least, single) = (Self::default(), pages.next_power_of_two());
        Self {
            single: single.max(least.single),
            small: (single / 4).max(least.small),
            huge: (single / PAGEBLOCK_FRAMES).next_power_of_two().max(least.huge),
        }
    }

    fn of(&self, order: u8) -> u32 {
        let size = match order {
            0 => self.single,
            1..=3 => self.small,
            4..=8 => (self.single >> order).max(16),
            _ => self.huge,
        };
        assert!(size.is_power_of_two(), "ring sizes are powers of two");
        size
    }
}

fresh_zero! {
    /// One list: its start in the ring, and its number of blocks.
    #[derive(Clone, Copy, Debug, Default)]
    pub(super) struct Ring {
        head: u32,
        len: u32,
    }
}

impl Ring {
    #[inline]
    pub(super) fn len(self) -> u32 {
        self.len
    }

    #[inline]
    pub(super) fn is_empty(self) -> bool {
        self.len == 0
    }
}

pub(super) struct Rings {
    cells: OsArray<AtomicU32>,
    stride: u32,
    offset: [u32; MAX_LISTS],
    mask: [u32; MAX_LISTS],
}

#[derive(Clone, Copy)]
pub(super) struct SlotRings<'a> {
    rings: &'a Rings,
    base: usize,
}

impl Rings {
    /// Reserves rings for `count` pairs of slot and node, with one list per entry of `orders`.
    pub(super) fn reserve(
        os: &'static dyn Os,
        count: usize,
        orders: &[u8],
        sizes: &RingSizes,
    ) -> OsResult<Self> {
        let (mut offset, mut mask, mut stride) = ([0; MAX_LISTS], [0; MAX_LISTS], 0);
        for (list, order) in orders.iter().enumerate() {
            offset[list] = stride;
            mask[list] = sizes.of(*order) - 1;
            stride += sizes.of(*order);
        }
        let cells = OsArray::zeroed(os, count * stride as usize)?;
        Ok(Self { cells, stride, offset, mask })
    }

    #[inline]
    pub(super) fn at(&self, index: usize) -> SlotRings<'_> {
        SlotRings { rings: self, base: index * self.stride as usize }
    }
}

impl SlotRings<'_> {
    #[inline]
    fn cell(&self, list: usize, position: u32) -> &AtomicU32 {
        let inside = position.wrapping_add(START) & self.rings.mask[list];
        self.rings.cells.at(self.base + (self.rings.offset[list] + inside) as usize)
    }

    #[inline]
    pub(super) fn is_full(&self, list: usize, ring: Ring) -> bool {
        ring.len > self.rings.mask[list]
    }

    #[inline]
    pub(super) fn room(&self, list: usize, ring: Ring) -> u32 {
        self.rings.mask[list] + 1 - ring.len
    }

    #[inline]
    pub(super) fn pop_head(&self, list: usize, ring: &mut Ring) -> Option<Pfn> {
        ring.len = ring.len.checked_sub(1)?;
        let pfn = self.cell(list, ring.head).load(Relaxed);
        ring.head = ring.head.wrapping_add(1);
        if ring.len == 0 {
            // An empty list starts again at the beginning, so that it touches no more of its ring.
            ring.head = 0;
        }
        Some(Pfn(pfn))
    }

    #[inline]
    pub(super) fn pop_tail(&self, list: usize, ring: &mut Ring) -> Option<Pfn> {
        ring.len = ring.len.checked_sub(1)?;
        Some(Pfn(self.cell(list, ring.head.wrapping_add(ring.len)).load(Relaxed)))
    }

    #[inline]
    pub(super) fn push_head(&self, list: usize, ring: &mut Ring, pfn: Pfn) {
        debug_assert!(!self.is_full(list, *ring), "the ring is full");
        ring.head = ring.head.wrapping_sub(1);
        ring.len += 1;
        self.cell(list, ring.head).store(pfn.0, Relaxed);
    }

    #[inline]
    pub(super) fn push_tail(&self, list: usize, ring: &mut Ring, pfn: Pfn) {
        debug_assert!(!self.is_full(list, *ring), "the ring is full");
        self.cell(list, ring.head.wrapping_add(ring.len)).store(pfn.0, Relaxed);
        ring.len += 1;
    }

    pub(super) fn peek(&self, list: usize, ring: Ring, position: u32) -> Pfn {
        Pfn(self.cell(list, ring.head.wrapping_add(position)).load(Relaxed))
    }
}
