//! One cache during an operation, with its nodes and CPUs.

use super::alien::Aliens;
use super::node::{Emptied, Held, Node};
use super::slab::Slabs;
use super::tables::Tables;
use super::tuning::{MOST_LIMIT, Tuning};
use crate::slab::mechanisms::Mechanisms;
use crate::slab::one_cache::OneCache;
use quarry_mm::frame::NodeId;
use quarry_mm::slab::home;
use quarry_sys::percpu::{Arrays, Limits, Object, SlotIndex};
use quarry_sys::primitive::Ordering;

/// Word of an array's cell whose lower half holds the count of operations at the last reap. The
/// upper half belongs to `quarry_sys::percpu`.
const SEEN: usize = 2;
const SEEN_MASK: u64 = 0xffff_ffff;

pub(super) type SlabCache<'a, P> = OneCache<'a, P, Tables>;

impl<'a, P: Arrays> SlabCache<'a, P> {
    pub(super) fn slabs(&self) -> Slabs<'a> {
        Slabs::new(self.context, self.cache, &self.tables.records)
    }

    pub(super) fn tuning(&self) -> Tuning {
        let setup = self.context.setup;
        let most = self.context.percpu.area().capacity(self.array());
        let tuning = Tuning::of(self.cache.stride(), setup.declared_cpus, most);
        Tuning {
            shared: if Mechanisms::of(setup.options).shared { tuning.shared } else { 0 },
            ..tuning
        }
    }

    /// The running CPU's slot and node. Both are hints: the thread may move to another CPU.
    pub(super) fn here(&self) -> (SlotIndex, NodeId) {
        let slot = self.context.percpu.current();
        let node = match self.tables.nodes() {
            1 => NodeId(0),
            _ => self.context.zones.node_of(slot),
        };
        (slot, node)
    }

    pub(super) fn node(&self, node: NodeId) -> &'a Node {
        self.tables.node(self.cache.id(), node)
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = &'a Node> + use<'a, P> {
        let (tables, id) = (self.tables, self.cache.id());
        tables.node_ids().map(move |node| tables.node(id, node))
    }

    pub(super) fn home(&self, object: Object) -> NodeId {
        home(self.context, object)
    }

    /// Runs `act` on the lists of a node, then gives back the slabs that it has emptied.
    pub(super) fn with_lists<R>(&self, node: NodeId, act: impl FnOnce(&mut Held<'_>) -> R) -> R {
        let mut emptied = Emptied::new();
        let result = act(&mut Held {
            lists: self.node(node).lists.lock(),
            slabs: self.slabs(),
            metadata: self.context.metadata,
            emptied: &mut emptied,
        });
        emptied.give_back(self.context, self.cache);
        result
    }

    /// Returns whether all `objects` are of `node`'s memory. An array may hold other objects: those
    /// of a thread that moved to another node during a slow path.
    pub(super) fn are_of(&self, node: NodeId, objects: &[Object]) -> bool {
        self.tables.nodes() == 1 || objects.iter().all(|object| self.home(*object) == node)
    }

    /// Gives objects that have left an array to their nodes: to the shared arrays as far as these
    /// have room, the others to slabs.
    pub(super) fn put_away(&self, objects: &[Object]) {
        self.for_each_home(objects, |held, alike| held.give(alike));
    }

    pub(super) fn free_objects(&self, objects: &[Object]) {
        self.for_each_home(objects, |held, alike| {
            held.lists.exchanges.batched_out += alike.len() as u64;
            held.free_block(alike);
        });
    }

    /// Gives objects of an alien array to their home node in one critical section: the newest to
    /// the shared array as far as it has room, the others to slabs.
    pub(super) fn bring_home(&self, home: NodeId, aliens: &Aliens) {
        if !aliens.objects().is_empty() {
            self.with_lists(home, |held| held.give(aliens.objects()));
        }
    }

    /// Calls `act` for each run of objects of the same node, with the lists of that node.
    fn for_each_home(&self, objects: &[Object], act: impl Fn(&mut Held<'_>, &[Object])) {
        let mut rest = objects;
        while let Some(&first) = rest.first() {
            let node = if self.tables.nodes() == 1 { NodeId(0) } else { self.home(first) };
            let most = rest.len().min(MOST_LIMIT);
            let strange = |object: &Object| !self.are_of(node, core::slice::from_ref(object));
            let count = rest[..most].iter().position(strange).unwrap_or(most);
            let (alike, behind) = rest.split_at(count);
            self.with_lists(node, |held| act(held, alike));
            rest = behind;
        }
    }

    /// Gives the running CPU's array all the room it may have; returns the number of objects that
    /// still fit.
    pub(super) fn demand_room(&self, slot: SlotIndex) -> usize {
        let percpu = self.context.percpu;
        if percpu.area().room(slot, self.array()) == 0 {
            // As in the kernel, nothing but the array's own size bounds its room.
            percpu.make_room(self.array(), &Limits::NONE, &mut |_, _| {});
        }
        percpu.area().room(slot, self.array())
    }

    /// Returns whether the array of `slot` was used since the last reap. The kernel counts only
    /// allocations as use; here frees count too.
    pub(super) fn is_touched(&self, slot: SlotIndex) -> bool {
        let seen = self.context.percpu.area().word(slot, self.array(), SEEN);
        seen.load(Ordering::Relaxed) & SEEN_MASK != self.operations(slot)
    }

    /// Marks the array of `slot` as used or unused. A hint: a concurrent change of the other half
    /// of the word may be lost.
    pub(super) fn set_touched(&self, slot: SlotIndex, is_touched: bool) {
        let seen = self.context.percpu.area().word(slot, self.array(), SEEN);
        let value = self.operations(slot).wrapping_sub(u64::from(is_touched)) & SEEN_MASK;
        seen.store(seen.load(Ordering::Relaxed) & !SEEN_MASK | value, Ordering::Relaxed);
    }

    fn operations(&self, slot: SlotIndex) -> u64 {
        let header = self.context.percpu.area().word(slot, self.array(), 0);
        header.load(Ordering::Relaxed) >> 16 & SEEN_MASK
    }
}
