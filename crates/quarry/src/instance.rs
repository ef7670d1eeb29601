//! The process-wide instance itself: a stack with the policies that are compiled in, and how far
//! its building is.

use quarry_cache::PageCaching;
use quarry_mm::pcp::V6_18;
use quarry_mm::slab::SLAB_POLICIES;
#[cfg(not(feature = "eras"))]
use quarry_mm::slab::Sheaf;
use quarry_mm::stack::{Stack, StackConfig};
use quarry_sys::percpu::NativeSlots;
use quarry_sys::primitive::{AtomicU32, Ordering};
use quarry_watch::{AllInstruments, Checks, HeapProfile};

/// The line of the slab policy that is compiled in: the one that `QUARRY_BUILD_SLAB` names while
/// this crate is built with the feature `eras`, or the default.
#[cfg(feature = "eras")]
const LINE: usize = match option_env!("QUARRY_BUILD_SLAB") {
    Some(name) => quarry_eras::slab::line_of(name),
    None => 0,
};
#[cfg(not(feature = "eras"))]
const LINE: usize = match option_env!("QUARRY_BUILD_SLAB") {
    Some(_) => panic!("QUARRY_BUILD_SLAB needs the feature `eras`"),
    None => 0,
};

#[cfg(feature = "eras")]
type Slab = <quarry_eras::slab::Line<LINE> as quarry_eras::slab::Registered>::Policy;
#[cfg(not(feature = "eras"))]
type Slab = Sheaf;

/// Its name.
pub(crate) const SLAB: &str = SLAB_POLICIES[LINE].name;

/// True if that policy has mechanisms that it can do without: all have but the default.
pub(crate) const HAS_MECHANISMS: bool = LINE != 0;

/// The policies of the process-wide instance.
pub struct ProcessConfig;

impl StackConfig for ProcessConfig {
    type PerCpu = NativeSlots;
    type Slab = Slab;
    type Pages = V6_18;
    type Cache = PageCaching;
    type Watch = AllInstruments;
}

/// The instance. Its fast paths refuse everything until
/// [`ensure_ready`](crate::process::ensure_ready) has built it.
pub static STACK: Stack<ProcessConfig> = Stack::new();

/// The heap profile of the instance.
pub(crate) fn profile() -> &'static HeapProfile {
    &STACK.watch().0
}

/// The checks of the instance.
pub(crate) fn checks() -> &'static Checks {
    &STACK.watch().1
}

pub(crate) const UNTOUCHED: u32 = 0;
pub(crate) const BUILDING: u32 = 1;
pub(crate) const READY: u32 = 2;
pub(crate) const DISABLED: u32 = 3;

/// How far the building of the instance is.
pub(crate) static STATE: AtomicU32 = AtomicU32::new(UNTOUCHED);

/// Returns whether the instance has been built.
pub(crate) fn is_ready() -> bool {
    STATE.load(Ordering::Acquire) == READY
}
