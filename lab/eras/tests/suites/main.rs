//! The suites of the product's policies, run on the policies of other eras; and tests of single
//! policies.
#![cfg(not(quarry_model))]

/// As in the suites of the product, with the policies of this crate.
macro_rules! slab_policies {
    ($callback:ident) => {
        quarry_eras::slab_policies_of_eras!($callback);
    };
}

#[path = "../../../../malloc/mm/tests/suites/caches.rs"]
mod caches;
#[path = "../../../../malloc/mm/tests/suites/deferral.rs"]
mod deferral;
#[path = "../../../../malloc/mm/tests/suites/failing.rs"]
mod failing;
mod heap;
mod known;
mod linux_slab;
mod linux_slab_misuse;
mod locks;
mod lru;
mod mechanisms;
#[path = "../../../../malloc/mm/tests/suites/moving.rs"]
mod moving;
mod pages;
#[path = "../../../../malloc/mm/tests/suites/policies.rs"]
mod policies;
#[path = "../../../../malloc/mm/tests/suites/record.rs"]
mod record;
mod refusals;
mod registry;
mod sheaf_6_18;
mod sheaf_7_0;
mod slam;
mod slam_misuse;
mod slub;
mod slub_misuse;
mod support;
#[path = "../../../../malloc/mm/tests/suites/threads.rs"]
mod threads;
#[path = "../../../../malloc/mm/tests/suites/usage.rs"]
mod usage;
