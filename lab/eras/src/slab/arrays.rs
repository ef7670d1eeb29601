//! Parts of the policies whose CPUs have arrays.

use core::mem::MaybeUninit;
use quarry_mm::slab::{CacheId, CacheIn, Idle, SlabContext, written};
use quarry_sys::percpu::{ArrayId, Arrays, LOOKED_AT, Object, SlotIndex};

/// The functions of a policy whose fast paths are those of the CPUs' arrays.
macro_rules! through_arrays {
    () => {
        #[inline(always)]
        fn seems_parked(percpu: &P, id: CacheId, object: Object) -> bool {
            percpu.seems_on_top(id.array(), object)
        }

        fn activity(&self, cache: CacheIn<'_, P>) -> Option<u64> {
            let usage = cache.context.percpu.usage(cache.id().array());
            Some(usage.operations.wrapping_add(usage.level << 48))
        }

        #[inline(always)]
        fn alloc_fast(percpu: &P, id: CacheId) -> Option<Object> {
            percpu.pop(id.array())
        }

        #[inline(always)]
        unsafe fn free_fast(
            percpu: &P,
            id: CacheId,
            object: Object,
            _slab: impl FnOnce() -> Pfn,
        ) -> Push {
            percpu.push(id.array(), object)
        }
    };
}
pub(super) use through_arrays;

/// Empties the arrays that `idle` selects, by one membarrier for all these arrays, and gives their
/// objects to `take`. Returns whether there were any objects.
pub(super) fn drain<P: Arrays>(
    context: &SlabContext<'_, P>,
    idle: Idle<'_>,
    take: impl Fn(CacheIn<'_, P>, &[Object]),
) -> bool {
    let mut any = false;
    let which = |slot: SlotIndex, array: ArrayId| {
        (idle.slots)(slot) || (idle.caches)(CacheId::new(array.index()))
    };
    context.percpu.drain_where(&which, &mut |array, objects| {
        any = true;
        let cache = context.caches.get(CacheId::new(array.index())).expect("it has objects");
        take(context.with(cache), objects);
    });
    any
}

/// Returns whether `object` is among the top objects of the running CPU's array. To find out, takes
/// these objects out and puts them back. If the array refuses them, `take` gets them.
pub(super) fn is_on_top<P: Arrays>(
    percpu: &P,
    array: ArrayId,
    object: Object,
    take: impl Fn(&[Object]),
) -> bool {
    let mut buffer = [MaybeUninit::uninit(); LOOKED_AT];
    (1..=LOOKED_AT).rev().any(|count| {
        let taken = &mut buffer[..count];
        if !percpu.pop_batch(array, taken) {
            return false;
        }
        // SAFETY: pop_batch wrote all elements.
        let taken = unsafe { written(taken, count) };
        let is_here = taken.contains(&object);
        if !percpu.push_batch(array, taken) {
            take(taken);
        }
        is_here
    })
}
