//! The barn and the slab policies under the model checker, which chooses the next thread before
//! each access to shared memory. Run by `scripts/model.sh`.
//!
//! The models check that an object is in one place at a time (a thread, a slot, a barn or a slab),
//! and that no object is lost.
#![cfg(quarry_model)]

/// Calls the macro `$callback` with the policies for which all models of policies run. A line is
/// `identifier: "name", Type;`.
macro_rules! slab_policies {
    ($callback:ident) => {
        $callback! {
            sheaf: "sheaf", quarry_mm::slab::Sheaf;
        }
    };
}

#[path = "../suites/support/system.rs"]
#[expect(dead_code, reason = "models need less of it than the suites")]
mod system;

mod barn;
mod errors;
mod exploring;
mod hands;
mod hooks;
mod index;
mod numbers;
mod own_heaps;
mod page_cache;
mod planted;
mod policies;

use exploring::{explore, explore_at_most};
