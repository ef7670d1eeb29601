//! Quarry's stacks as the memory of a replayed kernel.

use crate::anonymous::AnonymousLru;
use crate::file_cache::FileCache;
use crate::host::Mutex;
use crate::memory::{Buffer, CacheCounts, Counters, Footprint, KernelMemory, Pages};
use crate::policies::{CachingOptions, Policies};
use crate::ranges::{Ranges, take_block};
use anyhow::{Result, bail};
use quarry_cache::PageCaching;
use quarry_cache::lru::LruOptions;
use quarry_eras::lru;
use quarry_eras::pages::{Chosen, Machine as Declared};
use quarry_eras::slab::{SlabVisitor, with_slab_policy};
use quarry_mm::frame::{FRAME_SHIFT, MetadataKind, Order, Pfn};
use quarry_mm::slab::{CacheId, CacheOptions, CacheParams, SlabPolicy, SlabStats};
use quarry_mm::stack::{Stack, StackConfig, StackHost};
use quarry_sys::os::Linux;
use quarry_sys::percpu::{Object, PerCpu};
use quarry_watch::AllInstruments;
use serde::{Deserialize, Serialize};
use std::marker::PhantomData;

/// The slots of a stack: those of this machine, or those of the simulated one.
#[cfg(not(quarry_sim))]
pub(crate) type Slots = quarry_sys::percpu::NativeSlots;
/// The slots of a stack: those of this machine, or those of the simulated one.
#[cfg(quarry_sim)]
pub(crate) type Slots = quarry_sys::percpu::VirtualSlots;

/// Address space of a stack: room for the 64 tasks of document 004, of 128 MiB each, and more.
const RESERVE_BYTES: usize = 64 << 30;

/// An operation on a memory of any type.
pub trait Replay {
    /// Result of the operation.
    type Output;

    /// Performs the operation.
    fn on<M: FileCache>(self, memory: &M) -> Self::Output;
}

/// The machine for which the stack computes the kernel's formulas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// CPUs.
    pub cpus: u32,
    /// Bytes of memory; 0 = unknown, because a process has no fixed amount of memory.
    pub memory: u64,
    /// Number of nodes. Unless the system has as many, slots are assigned to the nodes in turn.
    pub nodes: u8,
    /// Bytes that the stack may have; 0 = no limit.
    pub budget: u64,
}

impl Policies {
    /// Builds a stack as for that machine, and replays on it. The stack is never torn down.
    ///
    /// # Errors
    /// A call that the operating system refuses.
    pub fn replay<R: Replay>(&self, machine: Machine, replay: R) -> Result<R::Output> {
        let mut caching = CachingOptions::default();
        let options = &mut caching.stack;
        options.heap = false;
        options.pages.reserve_bytes = RESERVE_BYTES;
        let declared = Declared {
            cpus: machine.cpus,
            frames: u32::try_from(machine.memory >> FRAME_SHIFT).unwrap_or(u32::MAX),
            nodes: machine.nodes,
        };
        declared.declare(&mut options.pages);
        if machine.budget > 0 {
            options.pages.limit_frames = u32::try_from(machine.budget >> FRAME_SHIFT)?;
        }
        self.apply(&mut caching);
        let (lru, ranges) = (self.lru(), self.ranges());
        let visitor = OnStack { options: &caching, lru, ranges, replay };
        with_slab_policy(self.slab(), visitor).expect("the name comes from the registry")
    }
}

/// Builds a stack with the slab policy that the registry passes to `visit`, and replays on it.
struct OnStack<'a, R> {
    options: &'a CachingOptions,
    lru: Option<LruOptions<lru::Chosen>>,
    ranges: Ranges,
    replay: R,
}

impl<R: Replay> SlabVisitor<Slots> for OnStack<'_, R> {
    type Output = Result<R::Output>;

    fn visit<S: SlabPolicy<Slots> + 'static>(self) -> Self::Output {
        let memory = StackMemory::<S>::build(self.options, self.lru, self.ranges)?;
        Ok(self.replay.on(&memory))
    }
}

/// Locks under which CPUs hand over objects of other CPUs: SLAB's alien arrays, SLQB's remote
/// lists, and lists of objects on their way there. No cache's statistics include these locks.
const HAND_OVER_LOCKS: [&str; 3] = ["slab->alien", "slqb->remote_free", "slqb->rlist"];

/// A slab policy on the slots of this machine.
pub(crate) struct LabConfig<S>(PhantomData<S>);

impl<S: SlabPolicy<Slots> + 'static> StackConfig for LabConfig<S> {
    type PerCpu = Slots;
    type Slab = S;
    type Pages = Chosen;
    type Cache = PageCaching<lru::Chosen>;
    type Watch = AllInstruments;
}

/// A value that starts at a page boundary: its fields have the same cache lines in every process.
#[repr(align(4096))]
struct OnPages<T>(T);

/// A stack as a kernel's memory.
pub(crate) struct StackMemory<S: SlabPolicy<Slots> + 'static> {
    stack: &'static Stack<LabConfig<S>>,
    caches: Mutex<Vec<(String, CacheId)>>,
    /// True if the policy makes one cache of all caches of a size.
    merges: bool,
    /// The LRU lists of programs' pages, if the variant has any.
    anonymous: Option<AnonymousLru>,
    /// How ranges of pages are taken and freed.
    ranges: Ranges,
}

impl<S: SlabPolicy<Slots> + 'static> StackMemory<S> {
    fn build(
        options: &CachingOptions,
        lru: Option<LruOptions<lru::Chosen>>,
        ranges: Ranges,
    ) -> Result<Self> {
        let OnPages(stack): &'static OnPages<Stack<LabConfig<S>>> =
            Box::leak(Box::new(OnPages(Stack::new())));
        #[cfg(quarry_sim)]
        stack.percpu().choice().declare(crate::host::cpus(), crate::host::cpu);
        if let Err(error) = stack.init(&Linux, &options.stack, &options.cache) {
            bail!("the stack cannot be built: {error:?}");
        }
        let frames = stack.pages().arena().frames() as usize;
        let slots = stack.percpu().area().slots() as usize;
        let nodes = options.stack.pages.nodes.into();
        let lists = |lru| AnonymousLru::build(lru, frames, slots, nodes);
        let (caches, merges) = (Mutex::default(), S::merges(options.stack.slab));
        Ok(Self { stack, caches, merges, anonymous: lru.map(lists).transpose()?, ranges })
    }

    pub(crate) fn stack(&self) -> &'static Stack<LabConfig<S>> {
        self.stack
    }

    /// Every cache once, under its first name: caches that a policy merges have one number.
    fn caches_once(&self) -> Vec<(String, CacheId)> {
        let mut caches = self.caches.lock().clone();
        caches.sort_by_key(|(_, cache)| cache.index());
        caches.dedup_by_key(|(_, cache)| *cache);
        caches
    }

    /// The counts of all caches.
    fn slab_stats(&self) -> impl Iterator<Item = SlabStats> {
        self.caches_once().into_iter().map(|(_, cache)| self.stack.cache(cache).stats())
    }

    /// Frees blocks of one order as lists.
    fn free_frames(&self, order: Order, mut frames: impl Iterator<Item = Pfn>) {
        const CHUNK: usize = 512;
        let mut blocks = [(Pfn::NONE, order); CHUNK];
        loop {
            let mut count = 0;
            for (block, frame) in blocks.iter_mut().zip(&mut frames) {
                block.0 = frame;
                count += 1;
            }
            if count == 0 {
                return;
            }
            self.stack.pages().free_list(self.stack.percpu().current(), &blocks[..count]);
        }
    }

    fn pfn(&self, block: &Buffer) -> Pfn {
        let address = block.address();
        self.stack.pages().arena().pfn(address.as_ptr()).expect("the block came from this stack")
    }
}

impl<S: SlabPolicy<Slots> + 'static> KernelMemory for StackMemory<S> {
    type Cache = (CacheId, usize);

    fn largest_kmalloc(&self) -> usize {
        S::LARGEST_KMALLOC
    }

    fn create_cache(&self, name: &str, bytes: usize) -> Self::Cache {
        let mut caches = self.caches.lock();
        let known = caches.iter().find(|(known, _)| known == name).map(|(_, id)| *id);
        let id = known.unwrap_or_else(|| {
            let params = CacheParams { size: bytes, align: 64 };
            let id = self
                .stack
                .create_cache(name, &params, &CacheOptions::default())
                .expect("room for one more cache");
            caches.push((name.to_owned(), id));
            id
        });
        (id, bytes)
    }

    #[inline]
    fn alloc(&self, (id, bytes): Self::Cache) -> Option<Buffer> {
        // SAFETY: the cache hands out objects of this size, each to one owner.
        self.stack.cache(id).alloc().map(|object| unsafe { Buffer::new(object, bytes) })
    }

    #[inline]
    fn free(&self, (id, _): Self::Cache, object: Buffer) {
        // SAFETY: replays free an object to the cache that it came from, and the buffer was its
        // only owner.
        unsafe { self.stack.cache(id).free(object.into_address()) };
    }

    fn free_bulk(&self, (id, _): Self::Cache, objects: &mut Vec<Buffer>) {
        let objects: Vec<Object> = objects.drain(..).map(Buffer::into_address).collect();
        // SAFETY: as in `free`; each buffer was the only owner of its object, so all differ.
        unsafe { self.stack.free_objects(id, &objects) };
    }

    #[inline]
    fn alloc_pages(&self, pages: Pages) -> Option<Buffer> {
        let (allocator, slot) = (self.stack.pages(), self.stack.percpu().current());
        let address = allocator.arena().address(take_block(allocator, slot, pages)?);
        // SAFETY: the page allocator hands out committed blocks, each to one owner.
        Some(unsafe { Buffer::new(address, Order::new(pages.order).bytes()) })
    }

    #[inline]
    fn free_pages(&self, pages: Pages, block: Buffer) {
        let order = Order::new(pages.order);
        self.stack.pages().free(self.stack.percpu().current(), self.pfn(&block), order);
    }

    fn free_list(&self, pages: Pages, list: &mut Vec<Buffer>) {
        self.free_frames(Order::new(pages.order), list.drain(..).map(|block| self.pfn(&block)));
    }

    fn alloc_range(&self, count: u32, pages: Pages, give: &mut dyn FnMut(Buffer)) -> bool {
        let at = (self.stack.pages(), self.stack.percpu().current());
        self.ranges.take(at, (count, pages.movable), give)
    }

    fn free_range(&self, _pages: Pages, range: &mut Vec<Buffer>) {
        let frames: Vec<Pfn> = range.drain(..).map(|page| self.pfn(&page)).collect();
        self.ranges.give((self.stack.pages(), self.stack.percpu().current()), &frames);
    }

    #[inline]
    fn add_to_lru(&self, page: &Buffer) {
        let Some(anonymous) = &self.anonymous else { return };
        let slot = self.stack.percpu().current();
        let pages = self.stack.pages();
        let frame = self.pfn(page);
        let free = &mut |frame| pages.free(slot, frame, Order::ZERO);
        let node = pages.memory().pageblocks().of(frame).tag().node();
        anonymous.add((slot, node.expect("a page in use has a node")), frame, free);
    }

    fn drop_page(&self, pages: Pages, page: Buffer) {
        let last = match &self.anonymous {
            Some(anonymous) => anonymous.drop_page(self.pfn(&page)),
            None => Some(self.pfn(&page)),
        };
        if let Some(frame) = last {
            let slot = self.stack.percpu().current();
            self.stack.pages().free(slot, frame, Order::new(pages.order));
        }
    }

    fn release(&self, pages: Pages, list: &mut Vec<Buffer>) {
        let Some(anonymous) = &self.anonymous else { return self.free_list(pages, list) };
        let mut frames: Vec<Pfn> = list.drain(..).map(|block| self.pfn(&block)).collect();
        let slot = self.stack.percpu().current();
        let free = &mut |frame| self.stack.pages().free(slot, frame, Order::ZERO);
        anonymous.release(slot, &mut frames, free);
        self.free_frames(Order::ZERO, frames.into_iter());
    }

    fn counters(&self) -> Counters {
        let mut counters = Counters::default();
        for zone in self.stack.pages().zones().all() {
            let stats = zone.stats();
            counters.zone_lock += stats.lock.acquisitions;
            counters.zone_contended += stats.lock.contentions;
            counters.zone_wait_ns += stats.lock.wait_ns;
            counters.zone_hold_samples += stats.lock.hold_samples;
            counters.zone_hold_ns += stats.lock.hold_ns;
            counters.zone_allocs += stats.taken.calls;
            counters.zone_frees += stats.put.calls;
            counters.zone_taken += stats.taken.blocks;
            counters.zone_put += stats.put.blocks;
            counters.lists_drained += stats.put.blocks;
        }
        let lists = self.stack.pages().pcp_totals();
        counters.page_sections = lists.critical_sections;
        counters.listed = lists.allocs + lists.frees;
        // A free that bypasses the pcp lists also puts a block into the zone, but drains no list.
        counters.lists_drained = counters.lists_drained.saturating_sub(lists.bypassed_frees);
        counters.handed_out = lists.allocs + lists.bypassed_allocs;
        counters.taken_back = lists.frees + lists.bypassed_frees;
        if let Some(anonymous) = &self.anonymous {
            let lists = anonymous.lists();
            lists.visit_locks(&mut |name, lock| counters.add_lru_lock(name, lock));
            counters.add_lru(lists.counters());
        }
        if let Some(cache) = PageCaching::opened(self.stack) {
            cache.visit_locks(&mut |name, lock| counters.add_lru_lock(name, lock));
            counters.add_lru(cache.lru_counters());
            counters.add_events(cache.events());
        }
        self.stack.visit_locks(&mut |name, lock| {
            if HAND_OVER_LOCKS.contains(&name) {
                counters.add_slab_lock(lock.stats().unwrap_or_default());
            }
        });
        for stats in self.slab_stats() {
            for lock in [stats.list_lock, stats.slab_lock, stats.barn_lock] {
                counters.add_slab_lock(lock);
            }
            counters.list_lock += stats.list_lock.acquisitions;
            counters.barn_lock += stats.barn_lock.acquisitions;
            counters.lock_bits += stats.slab_lock.acquisitions;
            counters.slabs += stats.slabs_allocated;
            counters.fast_allocs += stats.alloc_fast;
            counters.slow_allocs += stats.alloc_slow;
            counters.fast_frees += stats.free_fast;
            counters.slow_frees += stats.free_slow;
        }
        counters
    }

    fn caches(&self) -> Vec<CacheCounts> {
        let counts = |(name, cache): (String, CacheId)| {
            let stats = self.stack.cache(cache).stats();
            CacheCounts {
                // SLUB's name for a cache that others may share, which is then followed by one.
                name: match self.merges {
                    true => format!(":{:07} = {name}", self.stack.cache(cache).stride()),
                    false => name,
                },
                objects: stats.active_objects,
                allocs: stats.allocs(),
                frees: stats.frees(),
                fast_allocs: stats.alloc_fast,
                fast_frees: stats.free_fast,
            }
        };
        self.caches_once().into_iter().map(counts).collect()
    }

    fn footprint(&self) -> Footprint {
        let zones = self.stack.pages().zones();
        let stats = self.stack.stats();
        let kinds = [MetadataKind::Sheaves, MetadataKind::SlabHeaders, MetadataKind::CpuSlabs];
        let in_lists = |node| u64::from(zones.frames_in_pcp(node));
        Footprint {
            list_bytes: zones.all().map(|zone| in_lists(zone.node())).sum::<u64>() << FRAME_SHIFT,
            frames: zones.all().map(|zone| u64::from(zone.managed())).sum(),
            policy_bytes_per_frame: S::BYTES_PER_FRAME as u64,
            slab_metadata: kinds.map(|kind| stats.metadata_bytes(kind) as u64).iter().sum(),
        }
    }

    fn check_at_end(&self) -> Result<(), String> {
        if let Some(anonymous) = &self.anonymous {
            let (pages, slot) = (self.stack.pages(), self.stack.percpu().current());
            anonymous.drain_all(&mut |frame| pages.free(slot, frame, Order::ZERO));
            anonymous.check_at_end(pages.zones().all().count() as u8)?;
        }
        if let Some(cache) = PageCaching::opened(self.stack) {
            cache.trim();
            cache.validate().map_err(|broken| broken.to_string())?;
        }
        self.stack.trim();
        self.stack.pages().drain_all();
        self.stack.validate().map_err(|broken| broken.to_string())?;
        match self.stack.pages().zones().budget().used() {
            0 => Ok(()),
            used => Err(format!("{used} frames did not come back")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crew::Place;
    use crate::kernels::tests::{of_amount, of_bytes};
    use crate::kernels::{Cast, Scenario, Setting};
    use crate::stage::Scale;
    use quarry_eras::lru::LRU_POLICIES;
    use quarry_eras::slab::SLAB_POLICIES;
    use std::time::Duration;

    /// A scenario, and the number of tasks that run it briefly.
    struct Briefly(Scenario, usize);

    impl Replay for Briefly {
        /// The number of zone locks taken per message, and the names of the caches.
        type Output = (f64, Vec<String>);

        fn on<M: FileCache>(mut self, memory: &M) -> Self::Output {
            if let Cast::Crew(crew) = &mut self.0.cast {
                crew.turns = crew.turns.or(Some(100));
            }
            self.0.path.work = Default::default();
            let scale = Scale {
                tasks: self.1,
                cpus: &[],
                warm_up: Duration::ZERO,
                measured: Duration::from_millis(2),
            };
            let replayed = self.0.run(memory, scale);
            assert!(replayed.sent > 0);
            assert_eq!(replayed.verified, replayed.sent, "every message arrived");
            assert_eq!(memory.check_at_end(), Ok(()));
            let locks = replayed.counters.zone_lock as f64 / replayed.sent as f64;
            (locks, memory.caches().into_iter().map(|cache| cache.name).collect())
        }
    }

    /// The machine of documents 002 and 003, on one node.
    const DOCUMENTED: Machine = Machine { cpus: 16, memory: 0, nodes: 1, budget: 0 };

    fn run(policies: &str, scenario: Scenario, tasks: usize) -> (f64, Vec<String>) {
        let policies: Policies = policies.parse().unwrap();
        policies.replay(DOCUMENTED, Briefly(scenario, tasks)).unwrap()
    }

    /// Zone locks taken per message by one task. With several tasks on one CPU, a task could lose
    /// the CPU while it holds the pcp lists' lock, and the others would then go to the zone.
    fn zone_locks(policies: &str, scenario: Scenario) -> f64 {
        run(policies, scenario, 1).0
    }

    fn caches_of(policies: &str, scenario: Scenario) -> Vec<String> {
        run(policies, scenario, 1).1
    }

    #[test]
    fn every_policy_carries_every_path_and_gives_everything_back() {
        let slabs = SLAB_POLICIES.iter().map(|policy| policy.name);
        for policies in slabs.chain(["slub+v2016", "slub-3.0+order0-310"]) {
            for scenario in [
                of_bytes("udp-linux-2-6-29", 1024),
                of_bytes("udp-linux-4-9", 16384),
                of_bytes("udp-remote", 64),
                of_bytes("af-unix", 3312),
                of_bytes("tcp-stream", 3312),
                of_bytes("tcp-transactions", 1),
                of_bytes("tcp-through-card", 1),
                of_amount("pipe", 2, false),
                of_amount("socket", 2, true),
                of_amount("files", 500, false),
                of_amount("page-fault", 2048, true),
                of_amount("page-lists", 2, false),
            ] {
                run(policies, scenario, 2);
            }
        }
    }

    #[test]
    fn what_kmalloc_is_the_slab_policy_says() {
        // The data buffer of a 4 KiB packet has more than 4,096 bytes and less than 8,192.
        for policy in SLAB_POLICIES {
            let caches = caches_of(policy.name, of_bytes("udp-linux-2-6-29", 4096));
            let has_cache = caches.iter().any(|name| name.ends_with("kmalloc-8192"));
            assert_eq!(has_cache, policy.name != "slub-2.6.29", "{}: {caches:?}", policy.name);
        }
    }

    /// Document 003: each packet whose buffer comes from the page allocator takes the zone's lock
    /// twice, whichever CPU frees it. A packet takes no zone lock if its buffer comes from a slab
    /// cache, or if there are pcp lists for order 1.
    #[test]
    fn pass_through_buffers_are_what_reaches_the_zone() {
        for place in [Place::Same, Place::Next, Place::Unbound] {
            let packets = || {
                let bytes = 4096;
                let setting = Setting { bytes, place, ..Setting::default() };
                Scenario::of("udp-linux-2-6-29", &setting)
            };
            let passed_through = zone_locks("slub-2.6.29", packets());
            assert!((2.0..2.05).contains(&passed_through), "{place:?}: {passed_through}");
            for policies in ["slub-2.6.29+v2016", "slub-4.9+v2016", "sheaf"] {
                let spared = zone_locks(policies, packets());
                assert!(passed_through > 10.0 * spared, "{policies}, {place:?}: {spared}");
            }
        }
    }

    /// Each page of a fault is put onto the LRU lists and taken off, on a machine of two nodes.
    #[test]
    fn every_lru_policy_has_the_pages_of_faults() {
        for lru in LRU_POLICIES {
            for name in ["", "+add56", "+uncounted"].map(|rest| format!("{}{rest}", lru.name)) {
                let policies: Policies = format!("slub+order0+{name}").parse().unwrap();
                let machine = Machine { cpus: 44, memory: 0, nodes: 2, budget: 0 };
                let faults = of_amount("page-fault", 2048, true);
                policies.replay(machine, Briefly(faults, 4)).unwrap();
            }
        }
    }

    /// Document 004: a batch ten times as large takes the zone's lock a tenth as often.
    #[test]
    fn a_larger_batch_spares_the_zone() {
        let faults = || of_amount("page-fault", 32_768, false);
        let (small, large) =
            (zone_locks("slub+order0", faults()), zone_locks("slub+order0-310", faults()));
        assert!((8.0..12.0).contains(&(small / large)), "{small} to {large}");
    }
}
