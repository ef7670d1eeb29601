//! Checks the equations at the head of `mod.rs`.

use super::bundle;
use super::cache::{Slam, SlamCache};
use super::stock::Stock;
use core::mem::MaybeUninit;
use quarry_mm::slab::{SlabContext, written};
use quarry_sys::broken::{Broken, Check};
use quarry_sys::percpu::{Arrays, Object};

impl<P: Arrays> SlamCache<'_, P> {
    fn is_object(&self, object: Object) -> bool {
        let (arena, frames) = (self.context.zones.arena(), self.context.zones.frames());
        let Some(frame) = arena.pfn(object.as_ptr()) else { return false };
        let offset = object.as_ptr() as usize - arena.base().as_ptr() as usize;
        let in_slab = offset & (self.cache.order().bytes() - 1);
        frames.kind(frame) == self.cache.id().kind() && self.cache.object_number(in_slab).is_some()
    }

    /// Follows a stock's chain; returns the bytes of its objects. No other thread uses the stack.
    fn walk(&self, stock: &Stock) -> Result<i64, Broken> {
        let (check, chain) = (Check::of("stock"), stock.chain());
        let mut out = [MaybeUninit::uninit(); bundle::BUNDLE_MOST];
        let (mut walked, mut next) = (0u64, chain.head);
        while let Some(head) = next {
            check.that(walked < chain.bundles, "bundles = bundles on the chain")?;
            walked += 1;
            // SAFETY: no other thread uses the stack, and the head is on this stock's chain.
            next = unsafe { bundle::untie(self.cache, head, &mut out[..self.bundle]) };
            // SAFETY: `untie` wrote the first `self.bundle` elements.
            let objects = unsafe { written(&out, self.bundle) };
            let are_own = objects.iter().all(|object| self.is_object(*object));
            check.that(are_own, "objects of a bundle = objects of the cache")?;
        }
        check.equal(chain.bundles, walked, "bundles = bundles on the chain")?;
        Ok(self.bytes_of(walked))
    }
}

impl Slam {
    pub(super) fn validate_stocks<P: Arrays>(
        &self,
        context: &SlabContext<'_, P>,
    ) -> Result<usize, Broken> {
        let mut announced = 0;
        for cache in context.each_cache() {
            let own = self.of(cache);
            for stock in own.tables.cpus(cache.id()).flat_map(|cpu| cpu.stocks()) {
                announced += own.walk(stock)? - stock.unannounced();
            }
        }
        Ok(announced as usize)
    }
}
