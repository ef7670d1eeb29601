//! `v6.18`: the auto-tuned lists of Linux 6.18 with stable patches of January 2026; the default.
//!
//! Since 6.7 order 9 has got a list for movable blocks and one for others (6.10); a row of freed
//! blocks of orders 1..=3 must be longer before it counts, by half of `high_min` (6.16); and drains
//! release the lists and the zone after each batch (6.19, and 6.18 as a stable patch).
//!
//! Two things are of user space. A process has no fixed amount of memory to take an eighth of:
//! unless a machine's memory is declared, a list keeps at most 2,048 pages (8 MiB) per CPU. And
//! requests are tested against watermarks only where a list cannot serve them, because listed pages
//! are memory that the process holds already.

use super::auto_tuned::Release;
use super::policy::{LOW_LISTS, SizeInputs, Sizes};
use crate::frame::{MigrateType, PAGEBLOCK_ORDER};

/// Most pages that a CPU keeps in a process that declares no memory.
const HIGH_MOST: u32 = 2048;

/// The policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct V6_18;

impl Release for V6_18 {
    const ORDERS: &'static [u8] =
        &[0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, PAGEBLOCK_ORDER, PAGEBLOCK_ORDER];
    const RELEASES_BETWEEN_BATCHES: bool = true;
    const TESTS_EVERY_REQUEST: bool = false;

    #[inline]
    fn huge_list(migratetype: MigrateType) -> usize {
        usize::from(migratetype == MigrateType::Movable)
    }

    #[inline]
    fn row(sizes: Sizes) -> u32 {
        sizes.batch + sizes.high_min / 2
    }

    fn bound(inputs: &SizeInputs) -> u32 {
        if inputs.declared { u32::MAX } else { HIGH_MOST }
    }
}

/// The policy `v6.18-wide`: the same with lists of orders 4 to 8, which no kernel has. There blocks
/// of these orders cost a critical section of the zone and a split each, which two CPUs want at
/// once. The bound of what a list keeps is the same for all orders together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct V6_18Wide;

impl Release for V6_18Wide {
    const ORDERS: &'static [u8] = &[
        0,
        0,
        0,
        1,
        1,
        1,
        2,
        2,
        2,
        3,
        3,
        3,
        PAGEBLOCK_ORDER,
        PAGEBLOCK_ORDER,
        4,
        4,
        4,
        5,
        5,
        5,
        6,
        6,
        6,
        7,
        7,
        7,
        8,
        8,
        8,
    ];
    const RELEASES_BETWEEN_BATCHES: bool = V6_18::RELEASES_BETWEEN_BATCHES;
    const TESTS_EVERY_REQUEST: bool = <V6_18 as Release>::TESTS_EVERY_REQUEST;
    const MIDDLE_LISTS: Option<usize> = Some(LOW_LISTS + 2);

    #[inline]
    fn huge_list(migratetype: MigrateType) -> usize {
        V6_18::huge_list(migratetype)
    }

    #[inline]
    fn row(sizes: Sizes) -> u32 {
        V6_18::row(sizes)
    }

    fn bound(inputs: &SizeInputs) -> u32 {
        V6_18::bound(inputs)
    }
}
