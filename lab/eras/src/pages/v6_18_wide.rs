//! `v6.18-wide`: the lists of `v6.18`, and lists of orders 4 to 8, which no kernel has. Under
//! `v6.18` a block of these orders costs a critical section of the zone and a split, and two CPUs
//! contend for the zone. One bound still limits the pages of all lists together.

use quarry_mm::frame::{MigrateType, PAGEBLOCK_ORDER};
use quarry_mm::pcp::{LOW_LISTS, Release, SizeInputs, Sizes, V6_18};

const HUGE: u8 = PAGEBLOCK_ORDER;

/// The policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct V6_18Wide;

impl Release for V6_18Wide {
    const NAME: &'static str = "v6.18-wide";
    const ORDERS: &'static [u8] = &[
        0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, HUGE, HUGE, 4, 4, 4, 5, 5, 5, 6, 6, 6, 7, 7, 7, 8, 8, 8,
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
