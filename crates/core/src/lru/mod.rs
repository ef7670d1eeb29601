//! The LRU lists of cached pages, per node: active and inactive, with per-CPU batches in front;
//! one file per policy.

#![deny(unsafe_code)]

mod page;
mod state;

pub use page::{Descriptor, DescriptorTable, PageNo};
pub use state::{MOST_PINS, MOST_SHARED, State, StateWord};
