//! Giving back what was not used for some seconds (`cache_reap` of Linux 2.6.36), or everything on
//! request.
//!
//! In the kernel each CPU has a timer that reaps every two seconds. Here the CPU's slow path reaps
//! once that time is over. A CPU at work soon takes a slow path; `Reclaim::Idle` empties the arrays
//! of idle CPUs.

use super::cache::SlabCache;
use super::node::Held;
use super::tuning::{MOST_LIMIT, REAP_CPU_NS, REAP_LISTS_NS, reaped_objects, reaped_slabs};
use core::mem::MaybeUninit;
use quarry_mm::frame::NodeId;
use quarry_mm::slab::written;
use quarry_sys::percpu::{Arrays, SlotIndex};
use quarry_sys::primitive::Ordering;

/// The time; tests set it.
fn now_ns() -> u64 {
    #[cfg(test)]
    return super::tests::now_ns();
    #[cfg(not(test))]
    quarry_sys::clock::coarse_ns()
}

impl<P: Arrays> SlabCache<'_, P> {
    /// Reaps all caches for `slot`, the running CPU's slot, if the slot's reap is due. O(1), or
    /// O(caches) if it reaps.
    #[inline]
    pub(super) fn reap_if_due(&self, slot: SlotIndex, node: NodeId) {
        let (now, reaper) = (now_ns(), self.tables.reaper(slot));
        let next = reaper.next.load(Ordering::Relaxed);
        if now < next {
            return;
        }
        let claimed = reaper.next.compare_exchange(
            next,
            now + REAP_CPU_NS,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        if claimed.is_ok() && next != 0 {
            self.reap_all(slot, node, now);
        }
    }

    #[cold]
    #[inline(never)]
    fn reap_all(&self, slot: SlotIndex, node: NodeId, now: u64) {
        let turn = self.tables.reaper(slot).turns.fetch_add(1, Ordering::Relaxed) as usize;
        let home = NodeId((turn % self.tables.nodes()) as u8);
        for cache in self.context.caches.iter() {
            let own = SlabCache { context: self.context, cache, tables: self.tables };
            if let Some(aliens) = self.tables.alien(cache.id(), node, home) {
                own.bring_home(home, &aliens.try_take());
            }
            own.reap_array(slot, node);
            own.reap_lists(node, now);
        }
    }

    /// If the running CPU's array in `slot` was not used since the last reap, takes its oldest
    /// objects: a fifth of its limit (`drain_array`).
    fn reap_array(&self, slot: SlotIndex, node: NodeId) {
        let percpu = self.context.percpu;
        let level = percpu.area().slot_level(slot, self.array()) as usize;
        if level == 0 || level > MOST_LIMIT {
            return;
        }
        if self.is_touched(slot) {
            return self.set_touched(slot, false);
        }
        let mut buffer = [MaybeUninit::uninit(); MOST_LIMIT];
        let mut left = 0;
        self.with_lists(node, |held| {
            // If the array has changed or the thread has moved, the next reap is soon enough.
            if !percpu.pop_batch(self.array(), &mut buffer[..level]) {
                return;
            }
            // SAFETY: pop_batch wrote the first `level` elements.
            let objects = unsafe { written(&buffer, level) };
            let (oldest, newer) = objects.split_at(reaped_objects(self.tuning().limit, level));
            held.lists.exchanges.batched_out += level as u64;
            left = level;
            if percpu.push_batch(self.array(), newer) {
                held.lists.exchanges.batched_in += newer.len() as u64;
                left = oldest.len();
            }
            if self.are_of(node, &objects[..left]) {
                held.free_block(&objects[..left]);
                left = 0;
            }
        });
        // SAFETY: `left` is at most the number of elements written above.
        self.put_away(unsafe { written(&buffer, left) });
    }

    /// If a node's reap is due, takes objects from its shared array and free slabs from its list,
    /// each only if no CPU has used it since the last reap. Returns whether there were any.
    fn reap_lists(&self, node: NodeId, now: u64) -> bool {
        let of_node = self.node(node);
        let next = of_node.next_reap.load(Ordering::Relaxed);
        if now < next {
            return false;
        }
        of_node.next_reap.store(now + REAP_LISTS_NS, Ordering::Relaxed);
        if next == 0 {
            return false;
        }
        self.with_lists(node, |held| {
            let mut any = false;
            let level = held.lists.shared.level();
            if level > 0 && !core::mem::take(&mut held.lists.shared.is_touched) {
                let oldest = reaped_objects(held.lists.shared.most(), level);
                held.free_oldest_shared(oldest);
                any = true;
            }
            if !core::mem::take(&mut held.lists.is_free_touched) {
                let most = reaped_slabs(held.lists.free_limit, self.cache.objects());
                any |= held.drain_free(most) > 0;
            }
            any
        })
    }

    /// Reaps the lists of all nodes whose time has come. Returns whether there was anything to
    /// take.
    pub(super) fn reap_nodes(&self) -> bool {
        let now = now_ns();
        let nodes = self.tables.node_ids();
        nodes.fold(false, |any, node| self.reap_lists(node, now) | any)
    }

    pub(super) fn empty(&self) {
        for (home, aliens) in self.tables.aliens(self.cache.id()) {
            self.bring_home(home, &aliens.take());
        }
        for node in self.tables.node_ids() {
            let more = |held: &mut Held<'_>| {
                let level = held.lists.shared.level().min(MOST_LIMIT);
                held.free_oldest_shared(level);
                let drained = held.drain_free(u64::MAX);
                level > 0 || drained > 0
            };
            while self.with_lists(node, more) {}
        }
    }
}
