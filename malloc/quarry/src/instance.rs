//! The instance of the process: a stack with the policies that are compiled in, and its state.

#[cfg(feature = "page-cache")]
use quarry_cache::PageCaching;
use quarry_mm::pcp::V6_18;
use quarry_mm::slab::{DefaultSlab, SlabPolicy};
use quarry_mm::stack::{Stack, StackConfig, StackHost};
use quarry_mm::zone::Zones;
use quarry_sys::percpu::NativeSlots;
use quarry_sys::primitive::{AtomicU32, Ordering};
#[cfg(feature = "profile")]
use quarry_watch::HeapProfile;
#[cfg(feature = "guard")]
use quarry_watch::{Checks, WithChecks};

/// `libquarry.so`, which has neither feature, gives programs no caches.
#[cfg(any(feature = "std", feature = "page-cache"))]
pub(crate) type Slab = quarry_mm::slab::WithLoose<DefaultSlab>;
#[cfg(not(any(feature = "std", feature = "page-cache")))]
pub(crate) type Slab = DefaultSlab;

pub(crate) const SLAB: &str = <Slab as SlabPolicy<NativeSlots>>::NAME;

/// The options that the policy adds to those of every library; the default has none.
pub(crate) const SLAB_OPTIONS: &str = <Slab as SlabPolicy<NativeSlots>>::OPTIONS;

pub(crate) const HAS_GUARDS: bool = cfg!(feature = "guard");
pub(crate) const HAS_RECORDS: bool = cfg!(feature = "checks");

#[cfg(feature = "profile")]
type Profile = HeapProfile;
#[cfg(not(feature = "profile"))]
type Profile = ();

/// The policies of the process-wide instance.
pub struct ProcessConfig;

impl StackConfig for ProcessConfig {
    type PerCpu = NativeSlots;
    type Slab = Slab;
    type Pages = V6_18;
    #[cfg(feature = "page-cache")]
    type Cache = PageCaching;
    #[cfg(not(feature = "page-cache"))]
    type Cache = ();
    #[cfg(feature = "guard")]
    type Watch = WithChecks<Profile, HAS_RECORDS>;
    #[cfg(not(feature = "guard"))]
    type Watch = Profile;
}

/// The instance. Its fast paths refuse everything until
/// [`ensure_ready`](crate::process::ensure_ready) has built it.
pub static STACK: Stack<ProcessConfig> = Stack::new();

#[cfg(feature = "profile")]
pub(crate) fn profile() -> &'static HeapProfile {
    #[cfg(feature = "guard")]
    return &STACK.watch.0;
    #[cfg(not(feature = "guard"))]
    return &STACK.watch;
}

#[cfg(feature = "guard")]
pub(crate) fn checks() -> &'static Checks {
    &STACK.watch.1
}

pub(crate) fn zones() -> &'static Zones {
    STACK.pages().zones()
}

pub(crate) const UNTOUCHED: u32 = 0;
pub(crate) const BUILDING: u32 = 1;
pub(crate) const READY: u32 = 2;
pub(crate) const DISABLED: u32 = 3;

pub(crate) static STATE: AtomicU32 = AtomicU32::new(UNTOUCHED);

pub(crate) fn is_ready() -> bool {
    STATE.load(Ordering::Acquire) == READY
}
