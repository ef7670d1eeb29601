//! A program that becomes idle.

use super::{Backing, Bed, VirtualConfig, on_cpu};
use quarry_cache::PageCaching;
use quarry_mm::frame::FRAME_BYTES;
use quarry_mm::heap::options::StackOptions;
use quarry_mm::pcp::PagePolicy;
use quarry_mm::slab::Sheaf;
use quarry_mm::stack::{ReclaimState, StackConfig};

/// Bytes in memory at most: in use, or free and not known to be zero.
pub(crate) fn touched<C: StackConfig>(bed: &Bed<C>) -> usize {
    let used = bed.stack.pages().zones().budget().used() as usize * FRAME_BYTES;
    used + bed.stack.upkeep().freeable_bytes()
}

/// Allocates `bytes` of objects of `size`, calls `full`, and frees them.
pub(crate) fn burst<C: StackConfig>(bed: &Bed<C>, size: usize, bytes: usize, full: impl FnOnce()) {
    let objects: Vec<_> =
        (0..bytes / size).map(|_| bed.stack.alloc(size).expect("there is memory")).collect();
    full();
    for object in objects {
        // SAFETY: just allocated, and used by nobody.
        unsafe { bed.stack.free(object) };
    }
}

/// A program that is idle gives all of its memory back, whatever policy its page lists have.
pub(crate) fn gives_all_back_when_idle<P: PagePolicy + Default>(policy: P, name: &str) {
    let mut options = StackOptions::default();
    (options.pages.policy, options.pages.reserve_bytes) = (policy, 512 << 20);
    let bed: Bed<VirtualConfig<Sheaf, PageCaching, P>> =
        Bed::new(Backing::Linux, 4096, 1, &options);
    on_cpu(0);
    for size in [16, 1000, 40_000] {
        burst(&bed, size, 32 << 20, || {});
    }
    let mut state = ReclaimState::new();
    for _ in 0..8 {
        bed.stack.upkeep().look(&mut state);
        while bed.stack.upkeep().purge_due(&mut state).is_some() {}
    }
    assert_eq!(touched(&bed), 0, "{}", name);
    bed.assert_empty(&[]);
}
