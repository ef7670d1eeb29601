//! Quarry's stacks as the memory of a replayed kernel.

use super::memory::{Buffer, Counters, KernelMemory, Pages};
use anyhow::{Result, bail};
use quarry_core::frame::{MigrateType, NodeId, Order, Pfn};
use quarry_core::heap::options::{OptionError, StackOptions};
use quarry_core::pcp::PageRequest;
use quarry_core::slab::{
    CacheId, CacheParams, SlabPolicy, SlabVisitor, slab_names, with_slab_policy,
};
use quarry_core::stack::{Stack, StackConfig};
use quarry_harness::nearest;
use quarry_harness::usage::Usage;
use quarry_sys::os::Linux;
use quarry_sys::percpu::{NativeSlots, PerCpu};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;
use std::sync::Mutex;

/// Address space of a stack: room for the 64 tasks of document 004, of 128 MiB each, and more.
const RESERVE_BYTES: usize = 64 << 30;

/// A slab policy with a page policy, written `slub+order0`; perhaps with a way to free lists of
/// pages, as in `slub+order0+per_page`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Policies {
    /// As `QUARRY_SLAB` spells it.
    slab: String,
    /// As `QUARRY_PCP` spells it.
    pcp: String,
    /// As `QUARRY_FREE_LIST` spells it.
    free_list: Option<String>,
}

impl fmt::Display for Policies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.slab, self.pcp)?;
        self.free_list.iter().try_for_each(|free_list| write!(f, "+{free_list}"))
    }
}

impl From<Policies> for String {
    fn from(policies: Policies) -> Self {
        policies.to_string()
    }
}

impl TryFrom<String> for Policies {
    type Error = anyhow::Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl FromStr for Policies {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (slab, pcp, free_list) = match text.split('+').collect::<Vec<_>>()[..] {
            [slab, pcp] => (slab, pcp, None),
            [slab, pcp, free_list] => (slab, pcp, Some(free_list)),
            _ => bail!(Usage(format!(
                "{text}: accepted: SLAB+PCP, such as slub+order0, or SLAB+PCP+FREE_LIST"
            ))),
        };
        let Some(slab) = slab_names().find(|name| *name == slab) else {
            let accepted: Vec<&str> = slab_names().collect();
            let unknown = nearest::unknown("slab policy", slab, &accepted);
            bail!(Usage(format!("{text}: {unknown}")));
        };
        let policies = Self {
            slab: slab.to_owned(),
            pcp: pcp.to_owned(),
            free_list: free_list.map(str::to_owned),
        };
        policies.apply(&mut StackOptions::default())?;
        Ok(policies)
    }
}

/// Something to be done with a memory of whichever type.
pub(crate) trait Replay {
    /// Its result.
    type Output;

    /// Does it.
    fn on<M: KernelMemory>(self, memory: &M) -> Self::Output;
}

impl Policies {
    /// Chooses the page policies.
    fn apply(&self, options: &mut StackOptions) -> Result<()> {
        let free_list = self.free_list.iter().map(|value| ("FREE_LIST", value));
        for (name, value) in [("PCP", &self.pcp)].into_iter().chain(free_list) {
            match options.set(name, value) {
                Ok(()) => {}
                Err(OptionError::BadValue { accepted }) => {
                    bail!(Usage(format!("{self}: no page policy {value}; accepted: {accepted}")))
                }
                Err(OptionError::UnknownName) => bail!("{self}: no option {name}"),
            }
        }
        Ok(())
    }

    /// Builds a stack, as on a machine with `declared_cpus` CPUs, and replays on it. The stack is
    /// never taken down.
    ///
    /// # Errors
    /// What the operating system refuses.
    pub(crate) fn replay<R: Replay>(&self, declared_cpus: u32, replay: R) -> Result<R::Output> {
        let mut options = StackOptions { heap: false, ..StackOptions::default() };
        options.pages.reserve_bytes = RESERVE_BYTES;
        options.pages.declared_cpus = declared_cpus;
        self.apply(&mut options)?;
        let visitor = OnStack { options: &options, replay };
        with_slab_policy(&self.slab, visitor).expect("the name comes from the registry")
    }
}

/// Builds a stack with whichever slab policy, and replays on it.
struct OnStack<'a, R> {
    options: &'a StackOptions,
    replay: R,
}

impl<R: Replay> SlabVisitor<NativeSlots> for OnStack<'_, R> {
    type Output = Result<R::Output>;

    fn visit<S: SlabPolicy<NativeSlots> + 'static>(self) -> Self::Output {
        Ok(self.replay.on(&StackMemory::<S>::build(self.options)?))
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
    fn build(options: &StackOptions) -> Result<Self> {
        let stack = Box::leak(Box::new(Stack::new()));
        match stack.init(&Linux, options) {
            Ok(()) => Ok(Self { stack, caches: Mutex::default() }),
            Err(error) => bail!("the stack cannot be built: {error:?}"),
        }
    }
}

impl<S: SlabPolicy<NativeSlots> + 'static> StackMemory<S> {
    /// The caches, each once: those that a policy merges have one number.
    fn caches(&self) -> Vec<CacheId> {
        let mut caches = self.caches.lock().expect("nobody panics with it").clone();
        caches.sort_unstable_by_key(|cache| cache.index());
        caches.dedup();
        caches
    }

    fn pfn(&self, block: Buffer) -> Pfn {
        let address = block.into_address();
        self.stack.pages().arena().pfn(address.as_ptr()).expect("the block came from this stack")
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
        self.stack.cache(id).alloc().map(|object| unsafe { Buffer::new(object, bytes) })
    }

    #[inline]
    fn free(&self, (id, _): Self::Cache, object: Buffer) {
        // SAFETY: replays free an object to the cache that it came from, and the buffer was its
        // only owner.
        unsafe { self.stack.cache(id).free(object.into_address()) };
    }

    #[inline]
    fn alloc_pages(&self, pages: Pages) -> Option<Buffer> {
        let order = Order::new(pages.order);
        let movable = if pages.movable { MigrateType::Movable } else { MigrateType::Unmovable };
        let request =
            PageRequest { order, migratetype: movable, flags: Default::default(), node: NodeId(0) };
        let pages = self.stack.pages();
        let page = pages.alloc(self.stack.percpu().current(), request)?;
        let address = pages.arena().address(page.pfn);
        // SAFETY: the page allocator hands out committed blocks, each to one owner.
        Some(unsafe { Buffer::new(address, order.bytes()) })
    }

    #[inline]
    fn free_pages(&self, pages: Pages, block: Buffer) {
        let order = Order::new(pages.order);
        self.stack.pages().free(self.stack.percpu().current(), self.pfn(block), order);
    }

    fn free_list(&self, pages: Pages, list: &mut Vec<Buffer>) {
        const CHUNK: usize = 512;
        let order = Order::new(pages.order);
        let mut blocks = [(Pfn::NONE, order); CHUNK];
        while !list.is_empty() {
            let count = list.len().min(CHUNK);
            for (block, buffer) in blocks.iter_mut().zip(list.drain(..count)) {
                block.0 = self.pfn(buffer);
            }
            self.stack.pages().free_list(self.stack.percpu().current(), &blocks[..count]);
        }
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
        counters.page_sections = self.stack.pages().pcp_totals().critical_sections;
        for cache in self.caches() {
            let stats = self.stack.cache(cache).stats();
            for lock in [stats.list_lock, stats.slab_lock, stats.barn_lock] {
                counters.slab_lock += lock.acquisitions;
                counters.slab_contended += lock.contentions;
            }
            counters.slabs += stats.slabs_allocated;
        }
        counters
    }

    fn check_at_end(&self) -> Result<(), String> {
        self.caches().into_iter().for_each(|cache| self.stack.cache(cache).shrink());
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
    use super::super::kernels::tests::{of_amount, of_bytes};
    use super::super::kernels::{Cast, Scenario};
    use super::super::stage::Scale;
    use super::*;
    use std::time::Duration;

    /// A scenario that runs for a fixed amount of work or a moment.
    struct Briefly(Scenario, usize);

    impl Replay for Briefly {
        /// Zone locks per message.
        type Output = f64;

        fn on<M: KernelMemory>(mut self, memory: &M) -> f64 {
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
            replayed.counters.zone_lock as f64 / replayed.sent as f64
        }
    }

    fn run(policies: &str, scenario: Scenario, tasks: usize) -> f64 {
        let policies: Policies = policies.parse().unwrap();
        policies.replay(16, Briefly(scenario, tasks)).unwrap()
    }

    /// Of one task: where several share a CPU, one that loses it while it holds the lists sends the
    /// others to the zone.
    fn zone_locks(policies: &str, scenario: Scenario) -> f64 {
        run(policies, scenario, 1)
    }

    #[test]
    fn every_policy_carries_every_path_and_gives_everything_back() {
        for policies in ["slub+order0", "slub+v2016", "slub-2.6.29+order0-310", "sheaf+v6.7"] {
            for scenario in [
                of_bytes("udp-linux-2-6-29", 1024),
                of_bytes("udp-linux-4-9", 16384),
                of_bytes("tcp-stream", 3312),
                of_bytes("tcp-transactions", 1),
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

    /// Document 003: two locks of the zone for every packet, none with lists for order 1.
    #[test]
    fn lists_for_higher_orders_spare_the_zone() {
        let packets = || of_bytes("udp-linux-2-6-29", 4096);
        let order0 = zone_locks("slub+order0", packets());
        assert!((2.0..2.1).contains(&order0), "{order0}");
        for policies in ["slub+v2016", "sheaf+v6.7"] {
            let spared = zone_locks(policies, packets());
            assert!(order0 > 10.0 * spared, "{policies}: {spared} of {order0}");
        }
    }

    /// Document 004: ten times the batch, a tenth of the zone's locks.
    #[test]
    fn a_larger_batch_spares_the_zone() {
        let faults = || of_amount("page-fault", 32_768, false);
        let (small, large) =
            (zone_locks("slub+order0", faults()), zone_locks("slub+order0-310", faults()));
        assert!((8.0..12.0).contains(&(small / large)), "{small} to {large}");
    }

    #[test]
    fn names_lead_back_to_their_policies() {
        for name in ["sheaf+v6.7", "slub+order0-310", "slub+order0+per_page"] {
            assert_eq!(name.parse::<Policies>().unwrap().to_string(), name);
        }
        let error = |text: &str| text.parse::<Policies>().unwrap_err().to_string();
        assert!(error("slub").starts_with("slub: accepted: SLAB+PCP, such as slub+order0"));
        let unknown = error("slob+v6.7");
        assert!(unknown.starts_with("slob+v6.7: no slab policy slob; did you mean "), "{unknown}");
        assert!(unknown.contains("? accepted: sheaf, "), "{unknown}");
        assert!(error("sheaf+v5").starts_with("sheaf+v5: no page policy v5; accepted: order0, "));
        assert_eq!(
            error("sheaf+v6.7+twice"),
            "sheaf+v6.7+twice: no page policy twice; accepted: per_page or one_section"
        );
    }
}
