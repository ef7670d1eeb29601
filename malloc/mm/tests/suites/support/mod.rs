//! Shared parts of the suites: stacks on systems that can fail, virtual CPUs, patterns, an oracle.

pub(crate) mod aborting;
mod bed;
mod direct;
pub(crate) mod idle;
pub(crate) mod locks;
mod oracle;
pub(crate) mod page_threads;
pub(crate) mod pattern;
mod random;
pub(crate) mod seed;
mod system;
pub(crate) mod turns;
mod unregister;

pub(crate) use bed::{Bed, VirtualConfig, declare, fix_checks, on_cpu, small};
pub(crate) use direct::{Direct, PUSHES};
pub(crate) use oracle::Oracle;
pub(crate) use random::check;
pub(crate) use system::{Backing, TestOs};
pub(crate) use unregister::unregister;

use quarry_mm::frame::Faults;
use quarry_mm::zone::Zones;

/// Returns whether the pageblock of an address is, or will be, a huge page.
pub(crate) fn is_huge(zones: &Zones, address: *mut u8) -> bool {
    let pfn = zones.arena().pfn(address).expect("memory of the window");
    matches!(zones.faults(pfn), Faults::Huge | Faults::Whole)
}
