//! Reclaims objects from stocks and inboxes. One atomic swap takes a chain: no CPU is stopped.

use super::cache::{Slam, SlamCache};
use super::exchange::Buffer;
use super::stock::{Chain, Stock};
use super::tables::{CpuCache, Tables};
use core::mem::MaybeUninit;
use quarry_mm::slab::{CacheIn, CacheLimits, Idle, Reclaim, SlabContext, written};
use quarry_sys::own_stack;
use quarry_sys::percpu::{Arrays, Object};

/// Maximum number of bytes that stocks give to the slabs at a time under pressure, as for barns.
const PRESSED_BYTES: i64 = 2 << 20;

impl<P: Arrays> SlamCache<'_, P> {
    /// Takes whole bundles of the CPU's stocks into `out`; returns the number of objects.
    pub(super) fn take_into(&self, cpu: &CpuCache, out: &mut [MaybeUninit<Object>]) -> usize {
        let mut taken = 0;
        for stock in cpu.stocks() {
            let chain = stock.take();
            let (count, rest) = self.untie(chain, &mut out[taken..]);
            taken += count;
            self.count_out(stock, chain.bundles - rest.bundles);
            self.put_back(stock, rest);
        }
        taken
    }

    /// Gives up to `most` bundles of a stock to the slabs; returns their number.
    fn give_some(&self, stock: &Stock, most: u64) -> u64 {
        let mut chain = stock.take();
        let mut given = 0;
        let mut buffer: Buffer = [MaybeUninit::uninit(); size_of::<Buffer>() / size_of::<Object>()];
        while given < most && chain.head.is_some() {
            let room = (most - given).min((buffer.len() / self.bundle) as u64) as usize;
            let (taken, rest) = self.untie(chain, &mut buffer[..room * self.bundle]);
            let bundles = chain.bundles - rest.bundles;
            self.count_out(stock, bundles);
            // SAFETY: `untie` wrote the first `taken` elements.
            let objects = unsafe { written(&buffer, taken) };
            self.sheaf().free_to_slabs(objects);
            (given, chain) = (given + bundles, rest);
        }
        self.put_back(stock, chain);
        given
    }

    /// Gives all stocks of a slot to the slabs; returns whether they held any bundle.
    fn give_all(&self, cpu: &CpuCache) -> bool {
        let given = cpu.stocks().map(|stock| self.give_some(stock, u64::MAX));
        given.into_iter().any(|bundles| bundles > 0)
    }

    fn put_back(&self, stock: &Stock, rest: Chain) {
        stock.note_lowest(rest.bundles);
        if let Err(rest) = stock.put_back(rest) {
            self.count_out(stock, rest.bundles);
            self.give(rest);
        }
    }
}

impl Slam {
    /// [`SlabPolicy::reclaim`](quarry_mm::slab::SlabPolicy::reclaim) for stocks.
    pub(super) fn reclaim_stocks<P: Arrays>(
        &self,
        context: &SlabContext<'_, P>,
        what: Reclaim<'_>,
    ) -> u32 {
        let Some(tables) = self.tables.get() else { return 0 };
        let give_all = |cache: CacheIn<'_, P>| {
            let own = self.of(cache);
            let given = tables.cpus(cache.id()).filter(|cpu| own.give_all(cpu)).count();
            u32::from(given > 0)
        };
        match what {
            Reclaim::All => context.each_cache().map(give_all).sum(),
            Reclaim::Cache(cache) => give_all(context.with(cache)),
            Reclaim::Idle(idle) => {
                context.each_cache().map(|cache| self.trim_stocks(cache, idle)).sum()
            }
        }
    }

    /// Gives the stocks of idle slots to the slabs, or all stocks if the cache is idle. Of other
    /// stocks, gives the bundles that were not needed since the last call.
    fn trim_stocks<P: Arrays>(&self, cache: CacheIn<'_, P>, idle: Idle<'_>) -> u32 {
        let own = self.of(cache);
        let mut any = false;
        for slot in own.tables.slots() {
            let cpu = own.tables.look(cache.id(), slot);
            if (idle.caches)(cache.id()) || (idle.slots)(slot) {
                any |= own.give_all(cpu);
                continue;
            }
            for stock in cpu.stocks() {
                let unneeded = stock.unneeded();
                any |= unneeded > 0 && own.give_some(stock, unneeded) > 0;
            }
        }
        u32::from(any)
    }

    /// Under pressure, makes the stocks of all caches and CPUs give bundles in turn, until barns
    /// and stocks are within their bound or 2 MiB are given.
    pub(super) fn relieve_stocks<P: Arrays>(&self, context: &SlabContext<'_, P>) {
        let bound = CacheLimits::barns_pressed(context.zones);
        if context.limits.barns() > bound
            && let Some(tables) = self.tables.get()
        {
            own_stack::run(|| self.empty_stocks(context, tables, bound));
        }
    }

    #[cold]
    fn empty_stocks<P: Arrays>(&self, context: &SlabContext<'_, P>, tables: &Tables, bound: usize) {
        let mut left = PRESSED_BYTES;
        for cache in context.caches_in_turn() {
            let own = self.of(cache);
            for stock in tables.cpus(cache.id()).flat_map(CpuCache::stocks) {
                if left <= 0 || context.limits.barns() <= bound {
                    return;
                }
                if stock.bundles() > 0 {
                    let most = (left / own.bytes_of(1)).max(1) as u64;
                    left -= own.bytes_of(own.give_some(stock, most));
                }
            }
        }
    }
}
