//! The bytes of a frame, and orders: the sizes of blocks as powers of two.

use quarry_sys::os::Os;

/// log2 of the bytes of a frame.
pub const FRAME_SHIFT: u32 = 12;
/// Bytes of a frame: 4 KiB with any page size of the OS.
pub const FRAME_BYTES: usize = 1 << FRAME_SHIFT;
/// Largest order of the buddy allocator: 4 MiB blocks (`MAX_PAGE_ORDER`, Linux 6.8).
pub const MAX_ORDER: u8 = 10;
/// Order of a pageblock: 2 MiB, the huge page of x86-64 (`pageblock_order`, Linux 6.x).
pub const PAGEBLOCK_ORDER: u8 = 9;
/// Frames of a pageblock.
pub const PAGEBLOCK_FRAMES: u32 = 1 << PAGEBLOCK_ORDER;
/// Bytes of a pageblock.
pub const PAGEBLOCK_BYTES: usize = (PAGEBLOCK_FRAMES as usize) << FRAME_SHIFT;

/// Bytes of a page of the system, or of a frame if a frame is larger.
pub fn page_bytes(os: &dyn Os) -> usize {
    os.page_size().max(FRAME_BYTES)
}

/// The size of a block of frames, as a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Order(u8);

impl Order {
    /// One frame.
    pub const ZERO: Self = Self(0);
    /// The largest block.
    pub const MAX: Self = Self(MAX_ORDER);
    pub(crate) const PAGEBLOCK: Self = Self(PAGEBLOCK_ORDER);

    /// The order `value`; panics above [`MAX_ORDER`].
    #[inline(always)]
    #[must_use]
    pub const fn new(value: u8) -> Self {
        assert!(value <= MAX_ORDER, "orders are 0..=10");
        Self(value)
    }

    /// The smallest order whose blocks hold `frames` frames (1..=1024).
    #[inline]
    #[must_use]
    pub const fn covering(frames: u32) -> Self {
        Self::new(frames.next_power_of_two().trailing_zeros() as u8)
    }

    /// The order as a number.
    #[inline(always)]
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }

    /// The order as an index.
    #[inline(always)]
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Frames of a block.
    #[inline(always)]
    #[must_use]
    pub const fn frames(self) -> u32 {
        1 << self.0
    }

    /// Bytes of a block.
    #[inline(always)]
    #[must_use]
    pub const fn bytes(self) -> usize {
        FRAME_BYTES << self.0
    }
}
