//! Giving back what a cache does not need: a batch every three seconds, or everything.
//!
//! The kernel has a timer for each CPU. Here a CPU trims its list on a slow path once the list is
//! due; the stack trims the lists of CPUs without slow paths with its other idle memory
//! ([`Reclaim::Idle`](quarry_mm::slab::Reclaim::Idle)).

use super::cache::SlqbCache;
use super::list::CacheList;
use super::slab_word::ListId;
use crate::slab::freelist::{Chain, Freelist};
use crate::slab::one_cache::LIST;
use quarry_sys::clock::coarse_ns;
use quarry_sys::percpu::{Lists, SlotIndex};
use quarry_sys::primitive::Ordering;

/// Time between two trims of a list (`cache_trim_worker`: `3 * HZ`).
pub(super) const TRIM_NS: u64 = 3_000_000_000;

/// Returns whether a list is due for a trim, and if so notes `now_ns` as the time of its last trim.
/// The first call only notes the time.
fn becomes_due(list: &CacheList, now_ns: u64) -> bool {
    let last = list.trimmed_ns.load(Ordering::Relaxed);
    let is_due = now_ns.saturating_sub(last) >= TRIM_NS;
    if last == 0 || is_due {
        list.trimmed_ns.store(now_ns.max(1), Ordering::Relaxed);
    }
    last != 0 && is_due
}

impl<P: Lists> SlqbCache<'_, P> {
    pub(super) fn trim_if_due(&self, slot: SlotIndex) {
        if becomes_due(self.of_slot(slot), coarse_ns()) {
            self.trim_own(slot);
        }
    }

    /// Trims the list of the running CPU (`kmem_cache_trim_percpu`).
    fn trim_own(&self, slot: SlotIndex) {
        let own = self.of_slot(slot);
        let list = self.take_list(slot).unwrap_or_default();
        self.flush_with_claimed(slot, list, own.claim(), Self::leave);
        self.flush_outgoing(own);
    }

    /// Appends claimed objects to a list and flushes one batch from its front; `leave` takes the
    /// remaining objects.
    fn flush_with_claimed(
        &self,
        slot: SlotIndex,
        list: Freelist,
        claimed: Option<Chain>,
        leave: fn(&Self, SlotIndex, Freelist),
    ) {
        let mut all = self.chain_of(list);
        // SAFETY: the caller owns the objects of both.
        unsafe { all.append(claimed.unwrap_or_default()) };
        self.flush_to(slot, all.list, None, leave);
    }

    /// Delivers the objects that a CPU has gathered, even if they are few.
    fn flush_outgoing(&self, list: &CacheList) {
        if let Some((to, objects)) = list.take_outgoing() {
            self.deliver(to, objects);
        }
    }

    /// Trims all lists that are due. Returns true if a due list had objects to give, or if the
    /// cache `is_idle` and a list with objects will be due later.
    pub(super) fn trim_all(&self, now_ns: u64, is_idle: bool) -> bool {
        let (mut found, mut must_drain) = (false, false);
        for id in self.tables.used_lists() {
            let (list, slot) = (self.list(id), self.tables.slot_of(id));
            let parked = slot.map_or(0, |slot| self.cell(slot, LIST) & 0xf_ffff);
            if parked == 0 && list.nr_remote() == 0 && list.nr_outgoing() == 0 {
                continue;
            }
            if !becomes_due(list, now_ns) {
                found |= is_idle;
                continue;
            }
            found = true;
            must_drain |= parked > 0;
            if parked == 0 {
                self.trim_claimed(id);
                self.flush_outgoing(list);
            }
        }
        if must_drain {
            self.trim_cells(now_ns);
        }
        found
    }

    /// Flushes one batch of the objects that other CPUs have brought, for a list whose cell is
    /// empty or for a node's list.
    fn trim_claimed(&self, id: ListId) {
        let Some(claimed) = self.list(id).claim() else { return };
        match self.tables.slot_of(id) {
            Some(slot) => self.flush_to(slot, claimed.list, None, Self::leave_to_owner),
            None => self.put_back(id, claimed.list),
        }
    }

    /// Takes the lists out of all cells. Flushes one batch of each list that was just found due;
    /// other lists join the `remote` objects of their slots.
    fn trim_cells(&self, now_ns: u64) {
        self.context.percpu.drain_lists(self.array(), &mut |guard, head, count| {
            let list = Freelist { head, count: count as u32 };
            match (guard >> 32).checked_sub(1) {
                // No free has set this guard since the last drain, so it names no slot.
                None => self.put_all_back(list),
                Some(slot) => {
                    let slot = SlotIndex(slot as u32);
                    let own = self.of_slot(slot);
                    if own.trimmed_ns.load(Ordering::Relaxed) == now_ns.max(1) {
                        self.flush_with_claimed(slot, list, own.claim(), Self::leave_to_owner);
                        self.flush_outgoing(own);
                    } else if count > 0 {
                        self.leave_to_owner(slot, list);
                    }
                }
            }
        });
    }

    /// Gives all objects back to the slabs, and the emptied slabs to the page allocator.
    pub(super) fn shrink(&self) {
        self.context.percpu.drain_lists(self.array(), &mut |_, head, count| {
            self.put_all_back(Freelist { head, count: count as u32 });
        });
        for id in self.tables.used_lists() {
            let list = self.list(id);
            if let Some((_, objects)) = list.take_outgoing() {
                self.put_all_back(objects.list);
            }
            if let Some(claimed) = list.claim() {
                self.put_all_back(claimed.list);
            }
        }
    }

    /// Number of objects in cells and on their way between lists.
    pub(super) fn parked(&self) -> u64 {
        let of_list = |id: ListId| {
            let (list, slot) = (self.list(id), self.tables.slot_of(id));
            let in_cell = slot.map_or(0, |slot| self.cell(slot, LIST) & 0xf_ffff);
            in_cell + u64::from(list.nr_remote()) + u64::from(list.nr_outgoing())
        };
        self.tables.used_lists().map(of_list).sum()
    }
}
