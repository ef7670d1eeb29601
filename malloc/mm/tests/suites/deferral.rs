//! Requests that fail again and again do not each cause a reclaim; a request for which memory was
//! freed is served at once.

use crate::support::{Backing, Bed, VirtualConfig, on_cpu, small};
use quarry_mm::frame::FRAME_BYTES;
use quarry_mm::heap::options::StackOptions;
use quarry_mm::slab::SlabPolicy;
use quarry_sys::clock::coarse_ns;
use quarry_sys::percpu::{Object, VirtualSlots};

const LIMIT: usize = 8 << 20;
const SIZE: usize = 1000;

macro_rules! stamp {
    ($($policy:ident: $text:literal, $type:ty;)*) => {
        $(
            mod $policy {
                #[test]
                fn one_reclaim_serves_many_failures() {
                    super::one_reclaim_serves_many_failures::<$type>();
                }

                #[test]
                fn what_was_freed_is_found_at_once() {
                    super::what_was_freed_is_found_at_once::<$type>();
                }

                #[test]
                fn what_was_charged_since_is_found_again() {
                    super::what_was_charged_since_is_found_again::<$type>();
                }
            }
        )*
    };
}

slab_policies!(stamp);

struct Full<S: SlabPolicy<VirtualSlots> + 'static> {
    bed: Bed<VirtualConfig<S>>,
    /// The objects in use, in the order in which they were handed out.
    objects: Vec<Object>,
}

impl<S: SlabPolicy<VirtualSlots> + 'static> Full<S> {
    /// A stack at its limit.
    fn new() -> Self {
        let mut options = StackOptions { heap: true, ..small() };
        options.pages.limit_frames = (LIMIT / FRAME_BYTES) as u32;
        let bed = Bed::new(Backing::Linux, 4096, 2, &options);
        on_cpu(0);
        let objects: Vec<Object> = std::iter::from_fn(|| bed.stack.alloc(SIZE)).collect();
        assert!(objects.len() * SIZE >= LIMIT * 3 / 4, "{} objects", objects.len());
        Self { bed, objects }
    }

    fn free(&self, objects: impl IntoIterator<Item = Object>) {
        for object in objects {
            // SAFETY: the object is live, and no other code uses it.
            unsafe { self.bed.stack.free(object) };
        }
    }

    /// Frees everything, and checks that nothing is held.
    fn end(mut self) {
        let objects = std::mem::take(&mut self.objects);
        self.free(objects);
        self.bed.assert_empty(&[]);
    }
}

fn one_reclaim_serves_many_failures<S: SlabPolicy<VirtualSlots> + 'static>() {
    let full = Full::<S>::new();
    let stack = &full.bed.stack;
    for pair in [None, Some(24), Some(200), Some(1500)] {
        for size in [SIZE, 30_000, 100_000, 1 << 20, 3 << 20] {
            let (reclaims, start) = (stack.stats().direct_reclaims, coarse_ns());
            let mut failed = 0;
            for _ in 0..200 {
                // Pairs of a small request and its free go on as far as the arrays serve them.
                full.free(pair.and_then(|size| stack.alloc(size)));
                match stack.alloc(size) {
                    None => failed += 1,
                    // Memory that another request left over serves this one.
                    Some(object) => full.free([object]),
                }
            }
            let (reclaims, ns) = (stack.stats().direct_reclaims - reclaims, coarse_ns() - start);
            // A few reclaims come from pairs that fail themselves, or that take and free a slab.
            let most = 4 + ns / 10_000_000;
            assert!(
                reclaims <= most,
                "{reclaims} reclaims in {ns} ns for {failed} failures of {size} beside {pair:?}"
            );
        }
    }
    assert_eq!(stack.validate(), Ok(()));
    full.end();
}

fn what_was_freed_is_found_at_once<S: SlabPolicy<VirtualSlots> + 'static>() {
    let mut full = Full::<S>::new();
    for (cpu, size) in [(0, 30_000), (1, 100_000), (0, 200_000), (1, 900_000), (0, 1_200_000)] {
        on_cpu(0);
        assert_eq!(full.bed.stack.alloc(size), None, "{size} bytes");
        assert_eq!(full.bed.stack.alloc(size), None, "{size} bytes again");
        // Neighbouring objects are freed by the other CPU or by this one.
        on_cpu(cpu);
        let count = (size * 2 + (2 << 20)) / SIZE;
        let rest = full.objects.split_off(full.objects.len() - count);
        full.free(rest);
        on_cpu(0);
        let found = full.bed.stack.alloc(size);
        assert!(found.is_some(), "{size} bytes where {count} objects of {SIZE} were freed");
        full.free(found);
        full.objects.extend(std::iter::from_fn(|| full.bed.stack.alloc(SIZE)));
        assert_eq!(full.bed.stack.validate(), Ok(()));
    }
    full.end();
}

/// Small objects take memory and are freed; a large request then finds this memory.
fn what_was_charged_since_is_found_again<S: SlabPolicy<VirtualSlots> + 'static>() {
    let mut full = Full::<S>::new();
    let rest = full.objects.split_off(full.objects.len() - 3000);
    full.free(rest);
    // There is some room, but too little for this request.
    assert_eq!(full.bed.stack.alloc(LIMIT - (1 << 20)), None);
    assert_eq!(full.bed.stack.alloc(7 << 20), None);
    assert_eq!(full.bed.stack.alloc(7 << 20), None);
    let small: Vec<Object> = std::iter::from_fn(|| full.bed.stack.alloc(300)).collect();
    full.free(small);
    let found = full.bed.stack.alloc(1 << 20);
    assert!(found.is_some(), "1 MiB of the 3 MB that small objects have had in between");
    full.free(found);
    full.end();
}
