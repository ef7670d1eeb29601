//! A machine whose jobs take small blocks from the caches of `kmalloc`, and pages.

use super::charged::{CPUS, Charged, Payer};
use anyhow::{Context, Result, anyhow};
use quarry_mm::frame::{FRAME_BYTES, FRAME_SHIFT, Metadata, Order, Pfn};
use quarry_mm::slab::{
    Cache, CacheId, CacheLimits, CacheOptions, CacheParams, CacheTable, PolicyOptions, Reclaim,
    SlabContext, SlabPolicy, SlabSetup, create_cache,
};
use quarry_replay::Source;
use quarry_sys::os::Linux;
use quarry_sys::percpu::{Object, PerCpu, Push, SlotIndex, VirtualSlots};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of the object or pages with which `kmalloc` serves a request.
fn bucket(bytes: usize) -> usize {
    Source::Kmalloc(bytes).bytes()
}

thread_local! {
    static CPU: Cell<u32> = const { Cell::new(0) };
}

/// Bytes of the largest objects of `kmalloc`: two pages, unless the policy's kernel had a smaller
/// limit. SLAB's limit was larger, but here larger blocks are pages under every policy.
const LARGEST: usize = 2 * FRAME_BYTES;

/// The limit of a group in MiB: the size of a "chunk" in document 002.
const GROUP_MIB: u32 = 128;

pub(super) struct Machine<S> {
    pub(super) memory: Charged,
    percpu: Box<VirtualSlots>,
    metadata: Metadata,
    caches: Box<CacheTable>,
    limits: CacheLimits,
    setup: SlabSetup,
    policy: Box<S>,
    /// The caches of `kmalloc`, by the bytes of their objects.
    kmalloc: BTreeMap<usize, CacheId>,
    /// Bytes of objects in use.
    pub(super) in_objects: Cell<usize>,
}

/// Memory of a job.
pub(super) enum Block {
    Object { cache: CacheId, object: Object },
    Pages(Vec<Pfn>),
}

impl<S: SlabPolicy<VirtualSlots>> Machine<S> {
    /// Builds a machine with `mib` MiB of memory, of which the policy's descriptors take their
    /// part.
    pub(super) fn build(mib: u32) -> Result<Self> {
        CPU.set(0);
        let percpu = Box::new(VirtualSlots::INERT);
        percpu.choice().declare(CPUS, || CPU.get());
        percpu.init(&Linux).map_err(|error| anyhow!("there are no slots: {error:?}"))?;
        let mut machine = Self {
            memory: Charged::build(mib, GROUP_MIB << (20 - FRAME_SHIFT))?,
            percpu,
            metadata: Metadata::new(&Linux),
            caches: Box::new(CacheTable::new()),
            limits: CacheLimits::new(),
            setup: SlabSetup { declared_cpus: CPUS, options: PolicyOptions::default() },
            policy: Box::new(S::NEW),
            kmalloc: BTreeMap::new(),
            in_objects: Cell::new(0),
        };
        let requests = 1..=S::LARGEST_KMALLOC.min(LARGEST);
        for bytes in requests.map(bucket).collect::<BTreeSet<usize>>() {
            let params = CacheParams { size: bytes, align: 8 };
            let (name, options) = (format!("kmalloc-{bytes}"), CacheOptions::default());
            let cache =
                create_cache(&machine.context(), &*machine.policy, &name, &params, &options);
            let id = cache.map_err(|error| anyhow!("{name}: {error:?}"))?.id();
            machine.kmalloc.insert(bytes, id);
        }
        let descriptors = ((mib as usize) << 20).div_ceil(FRAME_BYTES) * S::BYTES_PER_FRAME;
        machine.pages(descriptors.div_ceil(FRAME_BYTES)).context("no room for descriptors")?;
        Ok(machine)
    }

    fn context(&self) -> SlabContext<'_, VirtualSlots> {
        SlabContext {
            percpu: &self.percpu,
            zones: self.memory.pages.zones(),
            pages: &self.memory,
            metadata: &self.metadata,
            caches: &self.caches,
            limits: &self.limits,
            setup: &self.setup,
            emptied: Default::default(),
        }
    }

    /// Requests from here on come from this CPU, and this group pays for them.
    pub(super) fn enter(&self, cpu: u32, payer: Payer) {
        CPU.set(cpu);
        self.memory.payer.set(payer);
    }

    /// Takes memory of `bytes` bytes. `None` if the group or the machine has none even after all
    /// caches have given back what is not in use.
    pub(super) fn alloc(&self, bytes: usize) -> Option<Block> {
        match self.kmalloc.get(&bucket(bytes)) {
            Some(&cache) => {
                let object = self.again(|| self.object(cache))?;
                self.in_objects.set(self.in_objects.get() + self.cache(cache).object_bytes());
                Some(Block::Object { cache, object })
            }
            None => self.pages(bytes.div_ceil(FRAME_BYTES)).map(Block::Pages),
        }
    }

    /// Changes the size of a block; false if the memory for that is refused. Pages stay where they
    /// are, as with `mremap`.
    pub(super) fn resize(&self, block: &mut Block, bytes: usize) -> bool {
        let to = self.kmalloc.get(&bucket(bytes));
        match (&mut *block, to) {
            (Block::Object { cache, .. }, Some(to)) if cache == to => true,
            (Block::Pages(pages), None) => {
                let count = bytes.div_ceil(FRAME_BYTES);
                let more = self.pages(count.saturating_sub(pages.len()));
                pages.extend(more.iter().flatten());
                self.free(Block::Pages(pages.split_off(count.min(pages.len()))));
                more.is_some()
            }
            _ => {
                let moved = self.alloc(bytes).map(|new| self.free(std::mem::replace(block, new)));
                moved.is_some()
            }
        }
    }

    fn again<T>(&self, take: impl Fn() -> Option<T>) -> Option<T> {
        take().or_else(|| {
            self.reclaim();
            take()
        })
    }

    fn object(&self, cache: CacheId) -> Option<Object> {
        let slow = || self.policy.alloc_from_slabs(self.context().with(self.cache(cache)));
        S::alloc_fast(&*self.percpu, cache).or_else(slow)
    }

    fn cache(&self, id: CacheId) -> &Cache {
        self.caches.get(id).expect("caches stay")
    }

    /// Takes `count` pages, or none.
    pub(super) fn pages(&self, count: usize) -> Option<Vec<Pfn>> {
        let page = |_| self.again(|| self.memory.page(SlotIndex(CPU.get())));
        let pages: Vec<Pfn> = (0..count).map_while(page).collect();
        if pages.len() == count {
            return Some(pages);
        }
        self.free(Block::Pages(pages));
        None
    }

    pub(super) fn free(&self, block: Block) {
        match block {
            Block::Pages(pages) => {
                let slot = SlotIndex(CPU.get());
                pages.into_iter().for_each(|page| self.memory.put(slot, page, Order::ZERO));
            }
            Block::Object { cache, object } => {
                let (context, cache) = (self.context(), self.cache(cache));
                self.in_objects.set(self.in_objects.get() - cache.object_bytes());
                let slab = || context.slab_of(cache, object);
                // SAFETY: the object came from this cache, and the block was its only owner.
                unsafe {
                    if self.policy.looks_at_frees()
                        || S::free_fast(&*self.percpu, cache.id(), object, slab) != Push::Stored
                    {
                        self.policy.free_slow(context.with(cache), object);
                    }
                }
            }
        }
    }

    /// Gives back what no job uses.
    pub(super) fn reclaim(&self) {
        self.policy.reclaim(&self.context(), Reclaim::All);
        self.memory.pages.drain_all();
    }
}
