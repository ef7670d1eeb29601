//! A day of a machine's memory in simulated time: requests for pages, lifetimes of pages, and the
//! share of free memory that is in blocks of high orders.
//!
//! ```text
//! memory  Quarry's zones and pcp lists, set up as a variant
//! load    the requests for pages, second by second
//! sample  a day: the load on a memory, observed once a minute
//! ```

mod load;
mod memory;
mod sample;

pub(crate) use memory::{CHANGES, Variant};
pub(crate) use sample::{DaySample, LOOKED_AT, available, course, served};
