//! A day of a machine's memory in simulated time: the requests for pages, their lifetimes, and the
//! share of free memory in blocks of high orders.
//!
//! ```text
//! memory  Quarry's zones and page lists, as a variant has them
//! load    who asks for pages, second by second
//! sample  a day: the load on a memory, with a look every minute
//! ```

mod load;
mod memory;
mod sample;

pub(crate) use memory::{CHANGES, Variant};
pub(crate) use sample::{DaySample, LOOKED_AT, available, course, served};
