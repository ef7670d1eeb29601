//! `v6.7`: a freed block of orders 1..=3 sends all listed pages to the zone if a whole batch has
//! been freed without an allocation in between; a drain is one critical section; order 9 has one
//! list. `high_max` is an eighth of the zone, divided by its CPUs, without another bound.

use quarry_mm::frame::{MigrateType, PAGEBLOCK_ORDER};
use quarry_mm::pcp::{Release, SizeInputs, Sizes};

/// The policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct V6_7;

impl Release for V6_7 {
    const NAME: &'static str = "v6.7";
    const ORDERS: &'static [u8] = &[0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, PAGEBLOCK_ORDER];
    const RELEASES_BETWEEN_BATCHES: bool = false;
    const TESTS_EVERY_REQUEST: bool = true;

    fn huge_list(_migratetype: MigrateType) -> usize {
        0
    }

    fn row(sizes: Sizes) -> u32 {
        sizes.batch
    }

    fn bound(_inputs: &SizeInputs) -> u32 {
        u32::MAX
    }
}
