//! Statistics of running processes: finds what a process publishes, and prints it in the layouts
//! that the kernel has for its own.
#![deny(unsafe_code)]

pub mod activity;
pub mod buddyinfo;
mod label;
pub mod lockstat;
pub mod metrics;
pub mod slabinfo;
mod snapshot;
pub mod vmstat;
pub mod zoneinfo;

pub use label::Label;
pub use snapshot::{
    Budget, Cache, Event, FRAME_BYTES, Identity, Lock, Memory, PageLists, Snapshot, Zone,
    percentage,
};
