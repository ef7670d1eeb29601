//! Freeing when a CPU's array is full, and freeing of other nodes' objects: `cache_flusharray` and
//! `cache_free_alien` of Linux 2.6.36.

use super::alien::Freed;
use super::cache::SlabCache;
use super::tuning::MOST_LIMIT;
use crate::slab::mechanisms::Mechanisms;
use crate::slab::one_cache::is_stored;
use core::mem::MaybeUninit;
use quarry_mm::frame::NodeId;
use quarry_mm::slab::{not_in_use, written};
use quarry_sys::percpu::{Arrays, Object, SlotIndex};

impl<P: Arrays> SlabCache<'_, P> {
    /// Frees an object that the running CPU's array has no room for, or whose node the fast path
    /// has not checked.
    pub(super) fn free_slow(&self, object: Object) {
        let (percpu, array) = (self.context.percpu, self.array());
        let (slot, node) = self.here();
        let mut is_new = self.tables.nodes() > 1;
        if is_new {
            let home = self.home(object);
            if home != node {
                return self.free_alien(node, home, object);
            }
        }
        if is_stored(self.cache, object, percpu.push_unregistered(array, object)) {
            return;
        }
        if percpu.area().room(slot, array) == 0 {
            is_new = self.demand_room(slot) > 0;
        }
        if is_new && is_stored(self.cache, object, percpu.push(array, object)) {
            return;
        }
        self.reap_if_due(slot, node);
        self.flush(slot, node, object);
    }

    /// Takes the oldest objects out of the running CPU's full array and puts `object` on top. The
    /// oldest go to the shared array if that has any room, else to the slabs.
    ///
    /// The kernel moves the remaining objects down. A sequence has only one committing store, so
    /// here all objects leave the array by one sequence, and the newer ones return by another.
    fn flush(&self, slot: SlotIndex, node: NodeId, object: Object) {
        let percpu = self.context.percpu;
        let room = percpu.area().room(slot, self.array()).min(MOST_LIMIT);
        let mut buffer = [MaybeUninit::uninit(); MOST_LIMIT + 1];
        let (mut is_double, mut left) = (false, 0);
        self.with_lists(node, |held| {
            held.lists.exchanges.free_slow += 1;
            let batch = match held.lists.shared.room(self.context.metadata) {
                0 => self.tuning().batch,
                shared => self.tuning().batch.min(shared),
            };
            let was_full = percpu.pop_batch(self.array(), &mut buffer[..room]);
            let all = if was_full { room } else { 0 };
            buffer[all].write(object);
            // SAFETY: pop_batch wrote the first `all` elements, and `object` lies after them.
            let objects = unsafe { written(&buffer, all + 1) };
            is_double = objects[..all].contains(&object);
            if is_double {
                return;
            }
            held.lists.exchanges.batched_out += all as u64;
            let (oldest, newer) = objects.split_at(batch.min(all));
            left = if percpu.push_batch(self.array(), newer) {
                held.lists.exchanges.batched_in += newer.len() as u64;
                oldest.len()
            } else {
                // The thread has moved, or a drain has stopped the array.
                objects.len()
            };
            if self.are_of(node, &objects[..left]) {
                held.give(&objects[..left]);
                left = 0;
            }
        });
        if is_double {
            not_in_use(self.cache, object);
        }
        // SAFETY: `left` is at most the number of elements written above.
        self.put_away(unsafe { written(&buffer, left) });
    }

    /// Frees an object of the memory of `home`, which is not the running CPU's node. The object
    /// enters `node`'s alien array for `home`; a full array goes home first. In a stack without
    /// alien arrays the object goes to its slab.
    fn free_alien(&self, node: NodeId, home: NodeId, object: Object) {
        let aliens = self.tables.alien(self.cache.id(), node, home);
        let Some(aliens) = aliens.filter(|_| Mechanisms::of(self.context.setup.options).alien)
        else {
            return self.with_lists(home, |held| {
                held.free_block(&[object]);
                held.lists.exchanges.free_slow += 1;
            });
        };
        match aliens.free(object, self.tuning().alien) {
            Freed::Stored(leaving) => self.bring_home(home, &leaving),
            Freed::Duplicate => not_in_use(self.cache, object),
        }
    }
}
