//! Programs that become idle.

use super::{Backing, Bed, VirtualConfig, on_cpu};
use quarry_cache::PageCaching;
use quarry_mm::frame::FRAME_BYTES;
use quarry_mm::heap::options::StackOptions;
use quarry_mm::pcp::PagePolicy;
use quarry_mm::slab::Sheaf;
use quarry_mm::stack::{ReclaimState, Reclaimed, Stack, StackConfig, StackHost};

/// Bytes that may be in memory: in use, or free and not known to be zero.
pub(crate) fn touched<C: StackConfig>(bed: &Bed<C>) -> usize {
    let used = bed.stack.pages().zones().budget().used() as usize * FRAME_BYTES;
    used + bed.stack.mappings.freeable_bytes(bed.stack.pages().zones())
}

/// One look, and a purge of all due frames.
pub(crate) fn reclaim<C: StackConfig>(stack: &Stack<C>, state: &mut ReclaimState) -> Reclaimed {
    let mut done = stack.look(state, 0, 0);
    while let Some(bytes) = stack.purge(state, false) {
        done.bytes += bytes;
    }
    done
}

/// Allocates objects of `size` bytes, `bytes` in total; calls `full`, and frees the objects.
pub(crate) fn burst<C: StackConfig>(bed: &Bed<C>, size: usize, bytes: usize, full: impl FnOnce()) {
    let objects: Vec<_> =
        (0..bytes / size).map(|_| bed.stack.alloc(size).expect("there is memory")).collect();
    full();
    for object in objects {
        // SAFETY: the object was just allocated, and no other code uses it.
        unsafe { bed.stack.free(object) };
    }
}

/// An idle program gives all of its memory back, under any policy of the page lists.
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
        reclaim(&bed.stack, &mut state);
    }
    assert_eq!(touched(&bed), 0, "{}", name);
    bed.assert_empty(&[]);
}
