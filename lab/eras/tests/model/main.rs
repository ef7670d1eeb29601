//! Slab policies of other eras under the model checker, like the product's policies. Run by
//! `scripts/model.sh`.
#![cfg(quarry_model)]

/// As in the models of the product, with the policies of this crate.
macro_rules! slab_policies {
    ($callback:ident) => {
        quarry_eras::slab_policies_of_eras!($callback);
    };
}

#[path = "../../../../malloc/mm/tests/suites/support/system.rs"]
#[expect(dead_code, reason = "models need less of it than the suites")]
mod system;

#[path = "../../../../malloc/mm/tests/model/exploring.rs"]
mod exploring;
#[path = "../../../../malloc/mm/tests/model/hands.rs"]
mod hands;
mod planted;
#[path = "../../../../malloc/mm/tests/model/policies.rs"]
mod policies;

use exploring::{explore, explore_at_most, runs};
