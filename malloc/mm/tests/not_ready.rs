//! A stack that is not initialised refuses every request, also one for 0 bytes.

use quarry_mm::pcp::V6_18;
use quarry_mm::slab::Sheaf;
use quarry_mm::stack::{NotFreed, Stack, StackConfig};
use quarry_sys::percpu::NativeSlots;
use quarry_watch::AllInstruments;

struct Policies;

impl StackConfig for Policies {
    type PerCpu = NativeSlots;
    type Slab = Sheaf;
    type Pages = V6_18;
    type Cache = ();
    type Watch = AllInstruments;
}

/// `malloc(0)` may be a program's first call: its fast path must not use slots, which do not exist
/// yet.
#[test]
fn the_fast_paths_refuse_before_init() {
    let stack = Stack::<Policies>::new();
    for size in [0, 1, 16, usize::MAX] {
        assert_eq!(stack.fast.alloc(size), None);
    }
    let mut local = 0u64;
    for address in [core::ptr::null_mut(), (&raw mut local).cast()] {
        // SAFETY: no allocation starts at either address.
        assert_eq!(unsafe { stack.fast.free(address) }, Err(NotFreed::Outside));
    }
}
