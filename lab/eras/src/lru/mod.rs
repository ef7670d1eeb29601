//! LRU policies of other eras.
//!
//! A new policy is a file here, a line in `registry.rs`, a page in `lab/docs/policies` and a row in
//! its `README.md`. Files use only those to their left:
//!
//! ```text
//! single -> registry
//! ```
#![deny(unsafe_code)]

mod registry;
mod single;
#[cfg(test)]
mod tests;

pub use registry::{Chosen, ChosenLists, LRU_POLICIES, LRU_POLICY_NAMES};
pub use single::{Single, SingleLists};
