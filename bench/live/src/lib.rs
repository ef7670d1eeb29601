//! Statistics of running processes: finds the page that a process publishes, and prints it in the
//! layouts of the kernel's own statistics.
#![deny(unsafe_code)]

pub mod activity;
pub mod buddyinfo;
mod choice;
mod clock;
pub mod core_dump;
pub mod farewell;
mod from_record;
pub mod http;
mod label;
pub mod lockstat;
pub mod metrics;
mod page;
mod place;
mod problem;
mod process;
mod services;
mod size;
pub mod slabinfo;
mod snapshot;
pub mod total;
mod tree;
pub mod vmstat;
mod watch;
pub mod zoneinfo;

pub use choice::{Choice, Found};
pub use label::Label;
pub use place::{Place, Pods};
pub use problem::{CoreProblem, Problem, Who};
pub use process::{Process, parse_pid};
pub use quarry_record::Memory;
pub use size::{bytes, change, count};
pub use snapshot::{
    Budget, Cache, CpuLists, Event, FRAME_BYTES, Identity, Lock, Snapshot, Zone, percentage,
};
pub use tree::{Tree, read_tree};
pub use watch::{Ended, Family, Member};
