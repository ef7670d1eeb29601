//! One cache: its parts, and the cache during an operation.

use super::barn::Barn;
use super::below::Below;
use super::pool::Pool;
use super::sheaf::Sheaf;
use quarry_mm::frame::{FreshZero, Metadata, MetadataKind, NodeId};
use quarry_mm::slab::{ArrayCounts, Cache, CacheIn, Count::BatchedOut, SlabContext, home};
use quarry_sys::broken::{Broken, Check};
use quarry_sys::lock::CountedLock;
use quarry_sys::locks::Visit;
use quarry_sys::os::OsResult;
use quarry_sys::percpu::{ArrayId, Arrays, Object, SlotIndex};
use quarry_sys::primitive::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

#[repr(align(64))]
pub(super) struct Cpu {
    /// The spare sheaf. Requests only try its lock (the kernel's `local_trylock`). If another task
    /// on this CPU holds the lock, the request uses the slabs.
    pub(super) spare: CountedLock<Option<Sheaf>>,
}

// SAFETY: zero bytes are a free lock around no sheaf (a null pointer).
unsafe impl FreshZero for Cpu {}

/// A slice in metadata, empty until it is built, and then kept.
struct LateSlice<T> {
    start: AtomicPtr<T>,
    /// Set last; 0 until the slice is built.
    len: AtomicU32,
}

impl<T: FreshZero + Sync> LateSlice<T> {
    const fn new() -> Self {
        Self { start: AtomicPtr::new(core::ptr::null_mut()), len: AtomicU32::new(0) }
    }

    /// Allocates `len` entries at the first call. The table of caches ensures one call at a time.
    fn build(&self, metadata: &Metadata, len: usize) -> OsResult<()> {
        if self.len.load(Ordering::Relaxed) == 0 {
            let bytes = len * size_of::<T>();
            let start = metadata.alloc(bytes, align_of::<T>(), MetadataKind::CpuSlabs)?;
            self.start.store(start.as_ptr().cast(), Ordering::Relaxed);
            self.len.store(len as u32, Ordering::Release);
        }
        Ok(())
    }

    #[inline]
    fn all(&self) -> &[T] {
        let len = self.len.load(Ordering::Acquire) as usize;
        if len == 0 {
            return &[];
        }
        // SAFETY: `len` is not 0, so `build` has stored `start` before it, and `start` points to
        // memory for `len` entries. This memory is zeroed, aligned to a `T` and never given back;
        // zero bytes are a valid `T`.
        unsafe { core::slice::from_raw_parts(self.start.load(Ordering::Relaxed), len) }
    }
}

pub(super) struct SheafCache {
    cpus: LateSlice<Cpu>,
    barns: LateSlice<Barn>,
    /// Number of objects in a full sheaf; 0 for a cache without sheaves.
    capacity: AtomicU32,
    /// Number of sheaves that the cache has taken from the pool and not given back.
    pub(super) sheaves: AtomicU64,
    pub(super) counts: ArrayCounts,
}

impl SheafCache {
    pub(super) const fn new() -> Self {
        Self {
            cpus: LateSlice::new(),
            barns: LateSlice::new(),
            capacity: AtomicU32::new(0),
            sheaves: AtomicU64::new(0),
            counts: ArrayCounts::zero(),
        }
    }

    /// Starts a cache. An earlier cache of the same number has left no sheaf.
    pub(super) fn configure<P: Arrays>(
        &self,
        cache: CacheIn<'_, P>,
        mut capacity: usize,
    ) -> OsResult<()> {
        let context = cache.context;
        let (area, array) = (context.percpu.area(), cache.id().array());
        self.cpus.build(context.metadata, area.slots() as usize)?;
        self.barns.build(context.metadata, context.zones.all().count())?;
        if capacity > 0 {
            context.define_array(&cache, capacity)?;
            // `main` is this array, and all sheaves have its capacity, which is less than wanted if
            // the slots lack room.
            capacity = area.capacity(array);
        }
        self.counts.restart(context.percpu.usage(array).operations);
        self.capacity.store(capacity as u32, Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn cpus(&self) -> &[Cpu] {
        self.cpus.all()
    }

    pub(super) fn barns(&self) -> &[Barn] {
        self.barns.all()
    }

    /// The CPUs whose spare's lock was ever taken; the others have no spare, and reading their
    /// entries would touch memory that is unused.
    pub(super) fn used_cpus(&self) -> impl Iterator<Item = (SlotIndex, &Cpu)> {
        let numbered = self.cpus().iter().enumerate();
        let used = numbered.filter(|(_, cpu)| cpu.spare.stats().acquisitions > 0);
        used.map(|(slot, cpu)| (SlotIndex(slot as u32), cpu))
    }

    pub(super) fn visit_locks(&self, visit: &mut Visit<'_>) {
        self.barns().iter().for_each(|barn| barn.visit_locks(visit));
        for (_, Cpu { spare }) in self.used_cpus() {
            visit("sheaf->spare", spare);
        }
    }
}

pub(super) struct View<'a, P: Arrays, B> {
    pub(super) context: &'a SlabContext<'a, P>,
    pub(super) cache: &'a Cache,
    pub(super) own: &'a SheafCache,
    pub(super) pool: &'a Pool,
    pub(super) below: &'a B,
}

impl<'a, P: Arrays, B: Below<P>> View<'a, P, B> {
    pub(super) fn cache_in(&self) -> CacheIn<'a, P> {
        self.context.with(self.cache)
    }

    pub(super) fn array(&self) -> ArrayId {
        self.cache.id().array()
    }

    pub(super) fn capacity(&self) -> usize {
        self.own.capacity.load(Ordering::Relaxed) as usize
    }

    /// The running CPU's part. A hint: the thread may move to another CPU.
    pub(super) fn cpu(&self) -> &'a Cpu {
        &self.own.cpus()[self.context.percpu.current().index()]
    }

    pub(super) fn barn(&self) -> &'a Barn {
        match self.own.barns() {
            [only] => only,
            barns => &barns[usize::from(self.node().0)],
        }
    }

    fn node(&self) -> NodeId {
        self.context.zones.node_of(self.context.percpu.current())
    }

    /// Returns whether the stack has several nodes: then every free checks its object's node.
    pub(super) fn looks_at_frees(&self) -> bool {
        self.own.barns().len() > 1
    }

    pub(super) fn is_remote(&self, object: Object) -> bool {
        self.looks_at_frees() && home(self.context, object) != self.node()
    }

    /// Gives the running CPU's array the room of a sheaf if it has less, at first or after a drain.
    /// Returns whether it had less. If the OS refuses memory, the array keeps its room, and slabs
    /// serve the requests.
    pub(super) fn open_main(&self) -> bool {
        let percpu = self.context.percpu;
        let room = percpu.area().room(percpu.current(), self.array());
        let is_less = room < self.capacity();
        if is_less {
            let _ = percpu.prepare(self.array());
        }
        is_less
    }

    pub(super) fn to_slabs(&self, objects: &[Object]) {
        self.below.free(self.cache_in(), objects);
    }

    pub(super) fn new_sheaf(&self) -> Option<Sheaf> {
        let sheaf = self.pool.take(self.context.metadata, self.capacity())?;
        self.own.sheaves.fetch_add(1, Ordering::Relaxed);
        Some(sheaf)
    }

    pub(super) fn drop_sheaf(&self, sheaf: Sheaf) {
        self.own.sheaves.fetch_sub(1, Ordering::Relaxed);
        self.pool.give(sheaf);
    }

    /// Puts an empty sheaf into the barn, or into the pool if the barn has enough.
    pub(super) fn put_empty(&self, sheaf: Sheaf) {
        if let Some(sheaf) = self.barn().put_empty(sheaf) {
            self.drop_sheaf(sheaf);
        }
    }

    /// Puts a sheaf into the barn if it is full and the barn has room, else its objects into slabs.
    pub(super) fn put_full(&self, sheaf: Sheaf) {
        let left = match sheaf.len() == self.capacity() {
            true => self.barn().put_full(sheaf),
            false => Some(sheaf),
        };
        if let Some(mut sheaf) = left {
            self.flush(&mut sheaf);
            self.put_empty(sheaf);
        }
    }

    /// Gives the objects of a sheaf to their slabs (`sheaf_flush_unused`).
    pub(super) fn flush(&self, sheaf: &mut Sheaf) {
        self.to_slabs(sheaf.objects());
        sheaf.clear();
    }

    pub(super) fn take_back(&self, objects: &[Object]) {
        self.own.counts.add(BatchedOut, objects.len());
        self.to_slabs(objects);
        self.context.give_back_emptied();
    }

    /// Flushes the spare sheaves of the CPUs that `which` selects, and gives the sheaves to the
    /// pool. Returns whether there were any objects.
    pub(super) fn empty_spares(&self, which: &dyn Fn(SlotIndex) -> bool) -> bool {
        let mut any = false;
        for (_, cpu) in self.own.used_cpus().filter(|(slot, _)| which(*slot)) {
            let taken = cpu.spare.lock().take();
            if let Some(mut sheaf) = taken {
                any |= !sheaf.is_empty();
                self.flush(&mut sheaf);
                self.drop_sheaf(sheaf);
            }
        }
        self.context.give_back_emptied();
        any
    }

    /// Flushes the barns, gives their sheaves to the pool and the empty slabs to the page
    /// allocator.
    pub(super) fn empty_cache(&self) {
        for barn in self.own.barns() {
            for mut list in barn.take_all() {
                while let Some(mut sheaf) = list.pop() {
                    self.flush(&mut sheaf);
                    self.drop_sheaf(sheaf);
                }
            }
        }
        self.below.trim(self.cache_in());
    }

    /// Checks the invariants of the cache; returns the bytes of its empty slabs.
    pub(super) fn validate(&self) -> Result<usize, Broken> {
        let check = Check::of("sheaves of a cache").at(self.cache.id().index() as u64);
        let mut sheaves = 0;
        for (_, cpu) in self.own.used_cpus() {
            let spare = cpu.spare.lock();
            let len = spare.as_ref().map_or(0, Sheaf::len);
            check.that(len <= self.capacity(), "len(spare) <= capacity")?;
            sheaves += u64::from(spare.is_some());
        }
        for barn in self.own.barns() {
            barn.validate(self.capacity())?;
            sheaves += u64::from(barn.full()) + u64::from(barn.empty());
        }
        let counted = self.own.sheaves.load(Ordering::Relaxed);
        check.equal(counted, sheaves, "sheaves = spares + full + empty")?;
        self.below.validate(self.cache_in())
    }
}
