//! Support that these suites share with those of the product.

#[path = "../../../../malloc/mm/tests/suites/support/aborting.rs"]
pub(crate) mod aborting;
#[path = "../../../../malloc/mm/tests/suites/support/bed.rs"]
#[expect(dead_code, reason = "these suites need less of it than the product's")]
mod bed;
mod cache_bed;
#[path = "../../../../malloc/mm/tests/suites/support/direct.rs"]
mod direct;
#[path = "../../../../malloc/mm/tests/suites/support/idle.rs"]
pub(crate) mod idle;
#[path = "../../../../malloc/mm/tests/suites/support/locks.rs"]
pub(crate) mod locks;
#[path = "../../../../malloc/mm/tests/suites/support/oracle.rs"]
mod oracle;
#[path = "../../../../malloc/mm/tests/suites/support/page_threads.rs"]
pub(crate) mod page_threads;
#[path = "../../../../malloc/mm/tests/suites/support/pattern.rs"]
pub(crate) mod pattern;
#[path = "../../../../malloc/mm/tests/suites/support/random.rs"]
mod random;
#[path = "../../../../malloc/mm/tests/suites/support/seed.rs"]
pub(crate) mod seed;
#[path = "../../../../malloc/mm/tests/suites/support/system.rs"]
mod system;
#[path = "../../../../malloc/mm/tests/suites/support/turns.rs"]
pub(crate) mod turns;
#[path = "../../../../malloc/mm/tests/suites/support/unregister.rs"]
mod unregister;

pub(crate) use bed::{Bed, VirtualConfig, on_cpu};
pub(crate) use cache_bed::CacheBed;
pub(crate) use direct::Direct;
pub(crate) use oracle::Oracle;
pub(crate) use random::check;
pub(crate) use system::{Backing, TestOs};
pub(crate) use unregister::unregister;

use quarry_eras::slab::{Mechanisms, SlamMode};
use quarry_mm::heap::options::StackOptions;
use std::cell::Cell;

thread_local! {
    static SLAM_MODE: Cell<Option<SlamMode>> = const { Cell::new(None) };
}

/// Fixes the mode of the policy `slam` in options that the calling thread makes later.
pub(crate) fn fix_slam_mode(mode: Option<SlamMode>) {
    SLAM_MODE.set(mode);
}

/// As in the suites of the product.
pub(crate) fn small<P: Default>() -> StackOptions<P> {
    let mut options = bed::small();
    options.slab = Mechanisms { slam_mode: SLAM_MODE.get(), ..Mechanisms::ALL }.into();
    options
}
