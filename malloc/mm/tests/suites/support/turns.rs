//! Requests of small and large sizes take turns.

use super::{Backing, Bed, VirtualConfig, pattern, small};
use quarry_mm::heap::options::StackOptions;
use quarry_mm::slab::SlabPolicy;
use quarry_mm::stack::Request;
use quarry_sys::percpu::VirtualSlots;

/// Objects, blocks and mappings of one size after the other take the whole window.
pub(crate) fn sizes_take_turns<S: SlabPolicy<VirtualSlots> + 'static>() {
    const RESERVE: usize = 64 << 20;
    let mut options = StackOptions { heap: true, ..small() };
    options.pages.reserve_bytes = RESERVE;
    let bed = Bed::<VirtualConfig<S>>::new(Backing::Linux, 4096, 2, &options);
    for size in [9000, 40 << 20, 160, 300_000, 5 << 20, 40_000, 30 << 20, 1000] {
        let mut objects = Vec::new();
        while let Some(object) = bed.stack.alloc(Request::of(size).zeroed()) {
            assert!(pattern::is_zero(object, size), "{size} bytes are not zero");
            pattern::fill(object, size, size as u64);
            objects.push(object);
        }
        let filled = objects.len() * size;
        assert!(filled >= RESERVE * 2 / 5, "only {filled} bytes of objects of {size}");
        assert_eq!(bed.stack.validate(), Ok(()), "filled with objects of {size}");
        for object in objects {
            assert!(pattern::holds(object, size, size as u64), "{object:p} of {size} changed");
            // SAFETY: the object was live, and only `objects` had it.
            unsafe { bed.stack.free(object) };
        }
        assert_eq!(bed.stack.validate(), Ok(()), "without objects of {size}");
    }
    bed.assert_empty(&[]);
}
