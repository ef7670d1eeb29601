//! Quarry's stacks as the memory of a replayed kernel. A sample is a process of its own, so each
//! slab policy has one static stack, built with the page policy that the sample asks for.

use super::memory::{Buffer, Counters, KernelMemory};
use crate::nearest;
use anyhow::{Result, bail};
use quarry_core::frame::{MigrateType, NodeId, Order};
use quarry_core::heap::options::{OptionError, StackOptions};
use quarry_core::pcp::PageRequest;
use quarry_core::slab::sheaf::Sheaf;
use quarry_core::slab::slub::{LockedSlub, Slub};
use quarry_core::slab::{CacheId, CacheParams, SlabPolicy};
use quarry_core::stack::{Stack, StackConfig};
use quarry_sys::os::Linux;
use quarry_sys::percpu::{NativeSlots, PerCpu};
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;
use std::sync::Mutex;

/// Address space of a stack; a replay holds a few MiB.
const RESERVE_BYTES: usize = 4 << 30;

/// A slab policy with a page policy, written `slub+order0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Policies {
    slab: SlabName,
    /// As `QUARRY_PCP` spells it.
    pcp: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SlabName {
    Sheaf,
    Slub,
    LockedSlub,
}

impl fmt::Display for Policies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slab = match self.slab {
            SlabName::Sheaf => <Sheaf as SlabPolicy<NativeSlots>>::NAME,
            SlabName::Slub => <Slub as SlabPolicy<NativeSlots>>::NAME,
            SlabName::LockedSlub => <LockedSlub as SlabPolicy<NativeSlots>>::NAME,
        };
        write!(f, "{slab}+{}", self.pcp)
    }
}

impl FromStr for Policies {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let Some((slab, pcp)) = text.split_once('+') else {
            bail!("{text}: accepted: SLAB+PCP, such as slub+order0");
        };
        let slab = match slab {
            "sheaf" => SlabName::Sheaf,
            "slub" => SlabName::Slub,
            "slub-locked" => SlabName::LockedSlub,
            _ => {
                let accepted = ["sheaf", "slub", "slub-locked"];
                bail!("{text}: {}", nearest::unknown("slab policy", slab, &accepted));
            }
        };
        if let Err(OptionError::BadValue { accepted }) = StackOptions::default().set("PCP", pcp) {
            bail!("{text}: no page policy {pcp}; accepted: {accepted}");
        }
        Ok(Self { slab, pcp: pcp.to_owned() })
    }
}

/// Something to be done with a memory of whichever type.
pub(crate) trait Replay {
    /// What comes of it.
    type Output;

    /// Does it.
    fn on<M: KernelMemory>(self, memory: &M) -> Self::Output;
}

impl Policies {
    /// Builds the stack of this process, as on a machine with `declared_cpus` CPUs, and replays on
    /// it. Once per process.
    ///
    /// # Errors
    /// What the operating system refuses.
    pub(crate) fn replay<R: Replay>(&self, declared_cpus: u32, replay: R) -> Result<R::Output> {
        let mut options = StackOptions { heap: false, ..StackOptions::default() };
        options.pages.reserve_bytes = RESERVE_BYTES;
        options.pages.declared_cpus = declared_cpus;
        if options.set("PCP", &self.pcp).is_err() {
            bail!("no page policy {}", self.pcp);
        }
        match self.slab {
            SlabName::Sheaf => {
                static STACK: Stack<LabConfig<Sheaf>> = Stack::new();
                Ok(replay.on(&StackMemory::build(&STACK, &options)?))
            }
            SlabName::Slub => {
                static STACK: Stack<LabConfig<Slub>> = Stack::new();
                Ok(replay.on(&StackMemory::build(&STACK, &options)?))
            }
            SlabName::LockedSlub => {
                static STACK: Stack<LabConfig<LockedSlub>> = Stack::new();
                Ok(replay.on(&StackMemory::build(&STACK, &options)?))
            }
        }
    }
}

/// A slab policy on the slots of this machine.
struct LabConfig<S>(PhantomData<S>);

impl<S: SlabPolicy<NativeSlots> + 'static> StackConfig for LabConfig<S> {
    type PerCpu = NativeSlots;
    type Slab = S;
}

/// A stack as a kernel's memory.
struct StackMemory<S: SlabPolicy<NativeSlots> + 'static> {
    stack: &'static Stack<LabConfig<S>>,
    caches: Mutex<Vec<CacheId>>,
}

impl<S: SlabPolicy<NativeSlots> + 'static> StackMemory<S> {
    fn build(stack: &'static Stack<LabConfig<S>>, options: &StackOptions) -> Result<Self> {
        match stack.init(&Linux, options) {
            Ok(()) => Ok(Self { stack, caches: Mutex::default() }),
            Err(error) => bail!("the stack cannot be built: {error:?}"),
        }
    }
}

impl<S: SlabPolicy<NativeSlots> + 'static> KernelMemory for StackMemory<S> {
    type Cache = (CacheId, usize);

    fn create_cache(&self, name: &str, bytes: usize) -> Self::Cache {
        let params = CacheParams { size: bytes, align: 64 };
        let id = self.stack.create_cache(name, &params).expect("room for one more cache");
        self.caches.lock().expect("nobody panics with it").push(id);
        (id, bytes)
    }

    #[inline]
    fn alloc(&self, (id, bytes): Self::Cache) -> Option<Buffer> {
        // SAFETY: the cache hands out objects of this size, each to one owner.
        self.stack.cache_alloc(id).map(|object| unsafe { Buffer::new(object, bytes) })
    }

    #[inline]
    fn free(&self, (id, _): Self::Cache, object: Buffer) {
        // SAFETY: replays free an object to the cache that it came from, and the buffer was its
        // only owner.
        unsafe { self.stack.cache_free(id, object.into_address()) };
    }

    #[inline]
    fn alloc_pages(&self, order: u8) -> Option<Buffer> {
        let request = PageRequest {
            order: Order::new(order),
            migratetype: MigrateType::Unmovable,
            flags: Default::default(),
            node: NodeId(0),
        };
        let pages = self.stack.pages();
        let page = pages.alloc(self.stack.percpu().current(), request)?;
        let address = pages.arena().address(page.pfn);
        // SAFETY: the page allocator hands out committed blocks, each to one owner.
        Some(unsafe { Buffer::new(address, Order::new(order).bytes()) })
    }

    #[inline]
    fn free_pages(&self, order: u8, block: Buffer) {
        let pages = self.stack.pages();
        let address = block.into_address();
        let pfn = pages.arena().pfn(address.as_ptr()).expect("the block came from this stack");
        pages.free(self.stack.percpu().current(), pfn, Order::new(order));
    }

    fn counters(&self) -> Counters {
        let mut counters = Counters::default();
        for zone in self.stack.pages().zones().all() {
            let stats = zone.stats();
            counters.zone_lock += stats.lock.acquisitions;
            counters.zone_contended += stats.lock.contentions;
            counters.zone_allocs += stats.taken.calls;
            counters.zone_frees += stats.put.calls;
        }
        for cache in self.caches.lock().expect("nobody panics with it").iter() {
            let stats = self.stack.cache_stats(*cache);
            counters.slab_lock += stats.list_lock.acquisitions + stats.barn_lock.acquisitions;
            counters.slabs += stats.slabs_allocated;
        }
        counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_policies() {
        for name in ["sheaf+v6.7", "slub+order0-310"] {
            assert_eq!(name.parse::<Policies>().unwrap().to_string(), name);
        }
        let error = |text: &str| text.parse::<Policies>().unwrap_err().to_string();
        assert_eq!(error("slub"), "slub: accepted: SLAB+PCP, such as slub+order0");
        assert_eq!(
            error("slob+v6.7"),
            "slob+v6.7: no slab policy slob; did you mean slub or slub-locked? \
             accepted: sheaf, slub, slub-locked"
        );
        assert!(error("sheaf+v5").starts_with("sheaf+v5: no page policy v5; accepted: order0, "));
    }
}
