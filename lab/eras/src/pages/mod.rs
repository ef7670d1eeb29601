//! Page policies of other eras.
//!
//! A new policy is a file here, a line in `registry.rs`, a page in `lab/docs/policies` and a row in
//! its `README.md`. Files use only those to their left:
//!
//! ```text
//! order0, v2016, v5_14, v6_7, v6_18_wide -> registry    machine
//! ```
#![deny(unsafe_code)]

mod machine;
mod order0;
mod registry;
#[cfg(test)]
pub(crate) mod tests;
mod v2016;
mod v5_14;
mod v6_18_wide;
mod v6_7;

pub use machine::Machine;
pub use order0::Order0;
pub use registry::{Chosen, PAGE_POLICIES, PAGE_POLICY_NAMES};
pub use v5_14::V5_14;
pub use v6_7::V6_7;
pub use v6_18_wide::V6_18Wide;
pub use v2016::V2016;
