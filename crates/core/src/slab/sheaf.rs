//! `sheaf`, the default policy: arrays per CPU, a barn of full sheaves, slabs of bits (Linux 6.18).
//!
//! A CPU's array has room for two sheaves, the kernel's `main` and `spare`. A CPU that runs empty
//! takes a full sheaf from the barn, or a sheaf's worth from the slabs; one that runs full puts a
//! sheaf's worth into the barn, or into the slabs. Between CPU and barn always moves a whole sheaf
//! in one critical section and one restartable sequence.
//!
//! A CPU that runs empty and full by turns, because its program allocates and frees in larger
//! bursts than two sheaves, gets an array for such bursts; it stays until the array is drained.
//! Where one CPU only runs empty and another only full, larger arrays would save nothing.

use super::bitmap_slabs::{self, BitmapSlabs};
use super::{
    Barn, Cache, CacheId, CacheParams, Kept, MAX_BATCH, MAX_CACHES, SlabContext, SlabPolicy,
    SlabStats, double_free,
};
use crate::frame::{Order, Pfn};
use core::mem::MaybeUninit;
use quarry_sys::os::OsResult;
use quarry_sys::percpu::{ArrayId, Object, PerCpu, Push, SlotIndex, WIDE_OBJECTS};
use quarry_sys::primitive::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Most bytes of objects in a sheaf, within 4..=64 objects.
const SHEAF_BYTES: usize = 128 << 10;
/// Most bytes of objects in a barn, within 10 (`MAX_FULL_SHEAVES`, Linux 6.18) and 64 sheaves.
const BARN_BYTES: usize = 4 << 20;
/// A barn is asked to give where it keeps more than this part of what all may.
const LARGE_BARN: usize = 64;
/// Most bytes of objects in a wide array.
const WIDE_BYTES: usize = 512 << 10;
/// Times that an array has to run full after it ran empty before it is widened.
const TURNS_BEFORE_WIDE: u64 = 2;
/// Word of an array's cell with its misses: `{turns : 63 | ran empty since the last turn : 1}`.
const MISSES: usize = 2;
/// Empty slabs that a cache keeps, in bytes.
const EMPTY_BYTES: usize = 512 << 10;

/// One cache's part of the policy.
struct SheafCache {
    barn: Barn,
    /// Sheaves in the barn, to be read without its lock.
    sheaves: AtomicUsize,
    slabs: BitmapSlabs,
    /// Objects per sheaf.
    capacity: AtomicU32,
    /// Empty slabs kept.
    keep_empty: AtomicU32,
    alloc_slow: AtomicU64,
    free_slow: AtomicU64,
    /// Objects of bulk requests that came out of slots, and that went into them.
    bulk_alloc_fast: AtomicU64,
    bulk_free_fast: AtomicU64,
    /// Objects that entered and left slots in batches, for the count of single operations.
    batched_in: AtomicU64,
    batched_out: AtomicU64,
}

impl SheafCache {
    const fn new() -> Self {
        Self {
            barn: Barn::new(),
            sheaves: AtomicUsize::new(0),
            slabs: BitmapSlabs::new(),
            capacity: AtomicU32::new(0),
            keep_empty: AtomicU32::new(0),
            alloc_slow: AtomicU64::new(0),
            free_slow: AtomicU64::new(0),
            bulk_alloc_fast: AtomicU64::new(0),
            bulk_free_fast: AtomicU64::new(0),
            batched_in: AtomicU64::new(0),
            batched_out: AtomicU64::new(0),
        }
    }

    fn capacity(&self) -> usize {
        self.capacity.load(Ordering::Relaxed) as usize
    }

    fn sheaf_bytes(&self, cache: &Cache) -> usize {
        self.capacity() * cache.stride()
    }

    /// Bytes of objects in the barn, to within what others are just doing.
    fn barn_bytes(&self, cache: &Cache) -> usize {
        self.sheaves.load(Ordering::Relaxed) * self.sheaf_bytes(cache)
    }

    /// Puts a sheaf into the barn; false where it is none or there is no room.
    fn put_sheaf<P: PerCpu>(
        &self,
        context: &SlabContext<'_, P>,
        cache: &Cache,
        objects: &[Object],
    ) -> bool {
        let put = self.barn.put(context.metadata, objects);
        if put {
            self.sheaves.fetch_add(1, Ordering::Relaxed);
            context.kept.count_into_barn(self.sheaf_bytes(cache));
        }
        put
    }

    /// Takes a sheaf out of the barn into the front of `out`; returns its objects, 0 where there is
    /// none.
    fn take_sheaf<P: PerCpu>(
        &self,
        context: &SlabContext<'_, P>,
        cache: &Cache,
        out: &mut [MaybeUninit<Object>],
    ) -> usize {
        let taken = self.barn.take(out);
        if taken > 0 {
            self.sheaves.fetch_sub(1, Ordering::Relaxed);
            context.kept.count_out_of_barn(self.sheaf_bytes(cache));
        }
        taken
    }

    /// Gives one sheaf of the barn to its slabs; false where there is none.
    fn empty_sheaf<P: PerCpu>(&self, context: &SlabContext<'_, P>, cache: &Cache) -> bool {
        let mut buffer = [MaybeUninit::uninit(); MAX_BATCH];
        let taken = self.take_sheaf(context, cache, &mut buffer);
        if taken > 0 {
            // SAFETY: take_sheaf wrote the first `taken` elements.
            let sheaf = unsafe { written(&buffer, taken) };
            let keep = self.keep_empty.load(Ordering::Relaxed);
            self.slabs.free(context, cache, sheaf, keep);
        }
        taken > 0
    }
}

fn count(counter: &AtomicU64, by: usize) {
    counter.fetch_add(by as u64, Ordering::Relaxed);
}

/// Objects of a buffer whose front has been written.
///
/// # Safety
/// The first `count` elements are initialised.
unsafe fn written(buffer: &[MaybeUninit<Object>], count: usize) -> &[Object] {
    // SAFETY: MaybeUninit<T> has the layout of T, and the caller vouches for the front.
    unsafe { core::slice::from_raw_parts(buffer.as_ptr().cast(), count) }
}

/// The policy; see the module.
pub struct Sheaf {
    caches: [SheafCache; MAX_CACHES],
}

impl Sheaf {
    fn of(&self, cache: &Cache) -> &SheafCache {
        &self.caches[cache.id().index()]
    }

    /// Puts objects into the running CPU's array, or where there is no room into barn or slabs.
    /// Returns whether they are in the array.
    fn park<P: PerCpu>(
        &self,
        context: &SlabContext<'_, P>,
        cache: &Cache,
        objects: &[Object],
    ) -> bool {
        let parked = context.percpu.push_batch(cache.id().array(), objects);
        if parked {
            count(&self.of(cache).batched_in, objects.len());
        } else {
            self.put_away(context, cache, objects);
        }
        parked
    }

    /// Barn if it is a whole sheaf and there is room, else slabs.
    fn put_away<P: PerCpu>(&self, context: &SlabContext<'_, P>, cache: &Cache, objects: &[Object]) {
        let own = self.of(cache);
        if own.put_sheaf(context, cache, objects) {
            self.bound_barns(context, cache);
        } else {
            own.slabs.free(context, cache, objects, own.keep_empty.load(Ordering::Relaxed));
        }
    }

    /// Where the barns of all caches keep too much, those that keep a good part of it give a sheaf
    /// each in turn, until it is within the bound; `cache` itself where there is no other.
    fn bound_barns<P: PerCpu>(&self, context: &SlabContext<'_, P>, cache: &Cache) {
        let most = Kept::barns_most(context.pages);
        while context.kept.barns() > most {
            let is_large = |cache: &Cache| self.of(cache).barn_bytes(cache) > most / LARGE_BARN;
            let caches = context.caches.iter().count();
            let first = context.kept.next_turn() % caches.max(1);
            let mut in_turn = context.caches.iter().cycle().skip(first).take(caches);
            let giver = in_turn.find(|cache| is_large(cache)).unwrap_or(cache);
            if !self.of(giver).empty_sheaf(context, giver) {
                return;
            }
        }
    }

    /// Notes that the running CPU's array ran empty. A lost update costs a turn.
    fn note_empty<P: PerCpu>(percpu: &P, array: ArrayId) {
        let misses = percpu.area().word(percpu.current(), array, MISSES);
        let seen = misses.load(Ordering::Relaxed);
        if seen & 1 == 0 {
            misses.store(seen + 1, Ordering::Relaxed);
        }
    }

    /// Notes that the running CPU's array ran full, and widens it where it has done so by turns
    /// with running empty. Returns whether it did.
    fn widen_if_due<P: PerCpu>(percpu: &P, array: ArrayId) -> bool {
        let misses = percpu.area().word(percpu.current(), array, MISSES);
        let seen = misses.load(Ordering::Relaxed);
        if seen & 1 == 0 {
            return false;
        }
        misses.store(seen + 1, Ordering::Relaxed);
        (seen + 1) >> 1 >= TURNS_BEFORE_WIDE && percpu.widen(array)
    }

    /// A sheaf's worth from barn or slabs into the front of `buffer`.
    fn refill<P: PerCpu>(
        &self,
        context: &SlabContext<'_, P>,
        cache: &Cache,
        buffer: &mut [MaybeUninit<Object>],
    ) -> usize {
        let own = self.of(cache);
        match own.take_sheaf(context, cache, buffer) {
            0 => {
                let taken = own.slabs.alloc(context, cache, buffer);
                // Lowest address on top: what is handed out first lies together.
                buffer[..taken].reverse();
                taken
            }
            taken => taken,
        }
    }
}

impl<P: PerCpu> SlabPolicy<P> for Sheaf {
    const NAME: &'static str = "sheaf";
    const NEW: Self = Self { caches: [const { SheafCache::new() }; MAX_CACHES] };

    /// The smallest order from 2 on that holds 8 objects and wastes at most 1/8 (of order 2..=5,
    /// or whatever holds four objects).
    fn slab_order(params: &CacheParams, _declared_cpus: u32) -> Order {
        let stride = params.stride();
        let fits = |order: u8| {
            let bytes = Order::new(order).bytes();
            let usable = bytes - bitmap_slabs::header_bytes(bytes, stride).min(bytes);
            usable / stride >= 8 && (bytes - usable / stride * stride) * 8 <= bytes
        };
        let lowest = bitmap_slabs::MIN_ORDER.get();
        let order = (lowest..=5).find(|order| fits(*order)).unwrap_or_else(|| {
            let frames = (stride * 4).div_ceil(crate::frame::FRAME_BYTES) as u32;
            Order::covering(frames.min(Order::MAX.frames())).get().max(lowest)
        });
        Order::new(order)
    }

    fn slab_header_bytes(params: &CacheParams, order: Order) -> usize {
        bitmap_slabs::header_bytes(order.bytes(), params.stride())
    }

    fn create(&self, context: &SlabContext<'_, P>, cache: &Cache) -> OsResult<()> {
        let own = self.of(cache);
        let capacity = (SHEAF_BYTES / cache.stride()).clamp(4, MAX_BATCH);
        let max_full = (BARN_BYTES / (capacity * cache.stride())).clamp(10, 64);
        own.capacity.store(capacity as u32, Ordering::Relaxed);
        let keep = EMPTY_BYTES / cache.order().bytes();
        own.keep_empty.store(keep as u32, Ordering::Relaxed);
        own.barn.configure(capacity, max_full);
        let (area, array) = (context.percpu.area(), cache.id().array());
        area.define(array, 2 * capacity)?;
        let wide = (WIDE_BYTES / cache.stride()).min(WIDE_OBJECTS);
        if wide > 2 * capacity {
            area.define_wide(array, wide);
        }
        Ok(())
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

    fn alloc_slow(&self, context: &SlabContext<'_, P>, cache: &Cache) -> Option<Object> {
        let own = self.of(cache);
        if let Some(object) = context.percpu.pop_unregistered(cache.id().array()) {
            return Some(object);
        }
        let _ = context.percpu.prepare(cache.id().array());
        Self::note_empty(context.percpu, cache.id().array());
        let mut buffer = [MaybeUninit::uninit(); MAX_BATCH];
        let taken = self.refill(context, cache, &mut buffer[..own.capacity()]);
        // SAFETY: refill wrote the first `taken` elements.
        let (object, rest) = unsafe { written(&buffer, taken) }.split_last()?;
        count(&own.alloc_slow, 1);
        if !rest.is_empty() {
            self.park(context, cache, rest);
        }
        Some(*object)
    }

    unsafe fn free_slow(&self, context: &SlabContext<'_, P>, cache: &Cache, object: Object) {
        let own = self.of(cache);
        let array = cache.id().array();
        let percpu = context.percpu;
        match percpu.push_unregistered(array, object) {
            Push::Stored => return,
            Push::Duplicate => double_free(cache, object),
            Push::Refused => {}
        }
        let _ = percpu.prepare(array);
        if percpu.push_batch(array, &[object]) {
            count(&own.free_slow, 1);
            count(&own.batched_in, 1);
            return;
        }
        if Self::widen_if_due(percpu, array) {
            match percpu.push(array, object) {
                // The array has counted it.
                Push::Stored => return,
                Push::Duplicate => double_free(cache, object),
                Push::Refused => {}
            }
        }
        count(&own.free_slow, 1);
        let mut buffer = [MaybeUninit::uninit(); MAX_BATCH];
        let capacity = own.capacity();
        if percpu.pop_batch(array, &mut buffer[..capacity]) {
            count(&own.batched_out, capacity);
            // SAFETY: pop_batch wrote all `capacity` elements.
            let sheaf = unsafe { written(&buffer, capacity) };
            // A full array refuses before it looks for a duplicate.
            if sheaf.contains(&object) {
                double_free(cache, object);
            }
            self.park(context, cache, &[object]);
            self.put_away(context, cache, sheaf);
        } else {
            self.put_away(context, cache, &[object]);
        }
    }

    fn alloc_bulk(
        &self,
        context: &SlabContext<'_, P>,
        cache: &Cache,
        out: &mut [MaybeUninit<Object>],
    ) -> usize {
        let own = self.of(cache);
        let capacity = own.capacity();
        let (mut fast, mut taken) = (0, 0);
        while taken < out.len() {
            let end = out.len().min(taken + capacity);
            let piece = &mut out[taken..end];
            if context.percpu.pop_batch(cache.id().array(), piece) {
                fast += piece.len();
                taken = end;
                continue;
            }
            match own.take_sheaf(context, cache, piece) {
                0 => break,
                count => taken += count,
            }
        }
        if taken < out.len() {
            taken += own.slabs.alloc(context, cache, &mut out[taken..]);
        }
        count(&own.batched_out, fast);
        count(&own.bulk_alloc_fast, fast);
        count(&own.alloc_slow, taken - fast);
        taken
    }

    unsafe fn free_bulk(&self, context: &SlabContext<'_, P>, cache: &Cache, objects: &[Object]) {
        let own = self.of(cache);
        let _ = context.percpu.prepare(cache.id().array());
        let mut fast = 0;
        for sheaf in objects.chunks(own.capacity()) {
            if self.park(context, cache, sheaf) {
                fast += sheaf.len();
            }
        }
        count(&own.bulk_free_fast, fast);
        count(&own.free_slow, objects.len() - fast);
    }

    fn shrink(&self, context: &SlabContext<'_, P>, cache: &Cache) {
        let own = self.of(cache);
        let array = cache.id().array();
        // A drain stops every CPU: not for a cache that nobody uses.
        if context.percpu.usage(array).level > 0 {
            context.percpu.drain(array, &mut |objects| {
                count(&own.batched_out, objects.len());
                own.slabs.free(context, cache, objects, u32::MAX);
            });
        }
        while own.empty_sheaf(context, cache) {}
        own.slabs.trim(context, cache, 0);
    }

    fn shrink_slots(
        &self,
        context: &SlabContext<'_, P>,
        cache: &Cache,
        which: &dyn Fn(SlotIndex) -> bool,
    ) -> bool {
        let own = self.of(cache);
        let (array, area) = (cache.id().array(), context.percpu.area());
        // A drain stops the CPUs: not for nothing.
        let holds = |slot: SlotIndex| which(slot) && area.slot_level(slot, array) > 0;
        if !(0..area.slots()).map(SlotIndex).any(holds) {
            return false;
        }
        let keep = own.keep_empty.load(Ordering::Relaxed);
        context.percpu.drain_slots(array, which, &mut |objects| {
            count(&own.batched_out, objects.len());
            own.slabs.free(context, cache, objects, keep);
        })
    }

    fn stats(&self, context: &SlabContext<'_, P>, cache: &Cache) -> SlabStats {
        let own = self.of(cache);
        let mut stats = SlabStats::default();
        own.slabs.add_stats(cache, &mut stats);
        let usage = context.percpu.usage(cache.id().array());
        let batched_in = own.batched_in.load(Ordering::Relaxed);
        let batched_out = own.batched_out.load(Ordering::Relaxed);
        // level = pushes - pops + batched_in - batched_out; operations = pushes + pops.
        let pushes_more = (usage.level + batched_out).wrapping_sub(batched_in) as i64;
        let pops = (usage.operations as i64 - pushes_more).max(0) as u64 / 2;
        stats.parked_objects = usage.level + own.barn.objects();
        stats.alloc_slow = own.alloc_slow.load(Ordering::Relaxed);
        stats.free_slow = own.free_slow.load(Ordering::Relaxed);
        let pushes = usage.operations.saturating_sub(pops);
        stats.alloc_fast = pops + own.bulk_alloc_fast.load(Ordering::Relaxed);
        stats.free_fast = pushes + own.bulk_free_fast.load(Ordering::Relaxed);
        stats.barn_lock = own.barn.lock_stats();
        stats
    }

    fn validate(&self, context: &SlabContext<'_, P>, cache: &Cache) -> Result<(), &'static str> {
        self.of(cache).slabs.validate(context, cache)
    }

    fn validate_kept(&self, context: &SlabContext<'_, P>) -> Result<(), &'static str> {
        let (mut barns, mut empty) = (0, 0);
        for cache in context.caches.iter() {
            let own = self.of(cache);
            if own.barn.objects() as usize * cache.stride() != own.barn_bytes(cache) {
                return Err("sheaves counted != sheaves in the barn");
            }
            barns += own.barn_bytes(cache);
            let mut stats = SlabStats::default();
            own.slabs.add_stats(cache, &mut stats);
            let slabs = stats.total_slabs - stats.active_slabs;
            empty += slabs as usize * cache.order().bytes();
        }
        if barns != context.kept.barns() {
            return Err("bytes kept in barns != sum over caches");
        }
        if empty != context.kept.empty() {
            return Err("bytes of empty slabs != sum over caches");
        }
        Ok(())
    }

    fn lock_for_fork(&self) {
        for own in &self.caches {
            own.barn.lock_for_fork();
            own.slabs.lock_for_fork();
        }
    }

    unsafe fn unlock_after_fork(&self) {
        for own in &self.caches {
            // SAFETY: the caller took both by `lock_for_fork`.
            unsafe {
                own.slabs.unlock_after_fork();
                own.barn.unlock_after_fork();
            }
        }
    }
}
