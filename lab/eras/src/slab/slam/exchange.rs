//! Moves objects between a CPU's array, its stock and the inboxes of other CPUs.

use super::bundle::{self, BUNDLE_MOST};
use super::cache::SlamCache;
use super::stock::{Chain, Stock};
use super::tables::CpuCache;
use core::mem::MaybeUninit;
use quarry_mm::slab::{CacheLimits, is_among, not_in_use, written};
use quarry_sys::local;
use quarry_sys::percpu::{Arrays, Object, SlotIndex};

/// Maximum number of objects that one miss moves.
const MOST: usize = 128;
/// Maximum number of objects and bytes of an inbox (SLQB's high water mark). Further objects go to
/// the barn, where every CPU finds them, because the inbox's CPU may never empty it.
const INBOX_OBJECTS: u64 = 1024;
const INBOX_BYTES: u64 = 1 << 20;

pub(super) type Buffer = [MaybeUninit<Object>; MOST];

impl<P: Arrays> SlamCache<'_, P> {
    /// Serves a miss with up to `sheaf` objects from the CPU's inbox or stock, if these hold any.
    #[inline]
    pub(super) fn take_bundles(
        &self,
        (slot, cpu): (SlotIndex, &CpuCache),
        sheaf: usize,
    ) -> Option<Object> {
        let (from, chain) = cpu.stocks().into_iter().find_map(|stock| {
            let chain = stock.take();
            chain.head.map(|_| (stock, chain))
        })?;
        let mut buffer = [MaybeUninit::uninit(); MOST];
        let most = sheaf.clamp(self.bundle, MOST);
        let (taken, rest) = self.untie(chain, &mut buffer[..most]);
        self.count_out(from, chain.bundles - rest.bundles);
        self.keep(cpu, from, rest);
        // SAFETY: `untie` wrote the first `taken` elements.
        let objects = unsafe { written(&buffer, taken) };
        self.own(slot, objects);
        let (object, rest) = objects.split_last()?;
        local::add(&cpu.alloc_slow, 1);
        self.park(cpu, rest);
        Some(*object)
    }

    /// Unties bundles of a chain into the front of `out` while whole bundles fit; returns the
    /// number of objects, and the rest of the chain.
    pub(super) fn untie(
        &self,
        mut chain: Chain,
        out: &mut [MaybeUninit<Object>],
    ) -> (usize, Chain) {
        let mut taken = 0;
        while taken + self.bundle <= out.len()
            && let Some(head) = chain.head
        {
            let place = &mut out[taken..taken + self.bundle];
            // SAFETY: this thread took the chain and owns its bundles of `self.bundle` objects.
            let next = unsafe { bundle::untie(self.cache, head, place) };
            taken += self.bundle;
            chain = Chain { head: next, bundles: chain.bundles - 1 };
        }
        (taken, chain)
    }

    #[inline]
    fn keep(&self, cpu: &CpuCache, from: &Stock, rest: Chain) {
        let is_opened = core::ptr::eq(from, &cpu.inbox);
        let home = if is_opened { &cpu.opened } else { from };
        from.note_lowest(if is_opened { 0 } else { rest.bundles });
        if is_opened {
            self.count_out(from, rest.bundles);
            self.count_in(home, rest.bundles);
        }
        if let Err(rest) = home.put_back(rest) {
            self.push_chain(home, rest);
        }
    }

    /// Pushes a chain on top of a stock, or gives it to slabs if the stock refuses. O(bundles).
    #[cold]
    fn push_chain(&self, stock: &Stock, chain: Chain) {
        let Some(mut last) = chain.head else { return };
        // SAFETY: the chain was taken, so this thread owns its bundles.
        while let Some(next) = unsafe { bundle::next(self.cache, last, self.bundle) } {
            last = next;
        }
        // SAFETY: this thread owns the chain, and `last` is its last bundle.
        if !unsafe { stock.push(chain, last) } {
            self.count_out(stock, chain.bundles);
            self.give(chain);
        }
    }

    /// Gives all objects of a chain, which no stock counts any more, to the slabs.
    pub(super) fn give(&self, mut chain: Chain) {
        let mut buffer: Buffer = [MaybeUninit::uninit(); MOST];
        while chain.head.is_some() {
            let (taken, rest) = self.untie(chain, &mut buffer);
            // SAFETY: `untie` wrote the first `taken` elements.
            let objects = unsafe { written(&buffer, taken) };
            self.sheaf().free_to_slabs(objects);
            chain = rest;
        }
    }

    /// Moves `sheaf` objects from a full array to the CPU's own stock or, if `remote`, to the CPUs
    /// that took them, then frees `object`. If the array has fewer, does nothing, returns false.
    pub(super) fn make_way(
        &self,
        (slot, cpu): (SlotIndex, &CpuCache),
        object: Object,
        sheaf: usize,
        remote: bool,
    ) -> bool {
        let percpu = self.context.percpu;
        let leaving = sheaf.min(MOST) / self.bundle * self.bundle;
        let mut buffer: Buffer = [MaybeUninit::uninit(); MOST];
        if leaving == 0 || !percpu.pop_batch(self.cache.id().array(), &mut buffer[..leaving]) {
            return false;
        }
        // SAFETY: pop_batch wrote all `leaving` elements.
        let objects = unsafe { written(&buffer, leaving) };
        // A full array refuses a push without a check for a double free: so check here.
        if is_among(objects, object) {
            not_in_use(self.cache, object);
        }
        local::add(&cpu.free_slow, 1);
        local::add(&cpu.batched_out, leaving as u64);
        self.park(cpu, &[object]);
        if remote {
            self.send(slot, cpu, objects);
        } else {
            self.stock(cpu, objects);
        }
        true
    }

    /// Puts objects into the running CPU's array, or into barns and slabs if it has no room.
    fn park(&self, cpu: &CpuCache, objects: &[Object]) {
        if self.context.percpu.push_batch(self.cache.id().array(), objects) {
            local::add(&cpu.batched_in, objects.len() as u64);
        } else {
            self.sheaf().put_away(objects);
        }
    }

    /// Puts whole bundles of objects into the CPU's stock; if that is full, into barns and slabs.
    fn stock(&self, cpu: &CpuCache, objects: &[Object]) {
        let limits = self.context.limits;
        let is_enough = limits.barns() > CacheLimits::barns_most(self.context.zones);
        if is_enough || !self.push(&cpu.stock, objects) {
            self.sheaf().put_away(objects);
        }
    }

    /// Ties whole bundles of objects and pushes them to a stock; returns false if that is full.
    fn push(&self, stock: &Stock, objects: &[Object]) -> bool {
        debug_assert!(objects.len().is_multiple_of(self.bundle));
        let (mut chain, mut last) = (Chain::EMPTY, None);
        for objects in objects.chunks_exact(self.bundle) {
            // SAFETY: the objects are free, different, and owned by this thread.
            unsafe {
                let head = bundle::tie(objects);
                chain.push(head);
                last = last.or(Some(head));
            }
        }
        let Some(last) = last else { return true };
        // Counted before the push: another thread may take the chain at once, and subtract it.
        self.count_in(stock, chain.bundles);
        // SAFETY: this thread made the chain, and `last` was pushed to it first.
        let is_pushed = unsafe { stock.push(chain, last) };
        if !is_pushed {
            self.count_out(stock, chain.bundles);
        }
        is_pushed
    }

    /// Sends whole bundles of objects to the CPUs that took them. This CPU keeps its own objects,
    /// and those that fill no bundle.
    fn send(&self, slot: SlotIndex, cpu: &CpuCache, objects: &[Object]) {
        let Some(owner) = self.owner(objects[0]).filter(|owner| *owner != slot) else {
            return self.send_groups(slot, cpu, objects);
        };
        // Neighbours in an array mostly belong to one slab.
        let mut slab = self.slab(objects[0]);
        let is_alike = objects.iter().all(|object| {
            let here = self.slab(*object);
            let is_alike = here == slab || self.owner(*object) == Some(owner);
            slab = here;
            is_alike
        });
        if !is_alike || self.deliver(owner, objects) != objects.len() {
            self.send_groups(slot, cpu, objects);
        }
    }

    /// Same as [`send`](Self::send), for objects that several CPUs took.
    #[cold]
    fn send_groups(&self, slot: SlotIndex, cpu: &CpuCache, objects: &[Object]) {
        let mut rest = [Object::dangling(); MOST];
        let rest = &mut rest[..objects.len()];
        rest.copy_from_slice(objects);
        let (mut from, mut kept) = (0, 0);
        let mut own = [Object::dangling(); MOST];
        while from < rest.len() {
            let owner = self.owner(rest[from]);
            let mut to = from;
            for index in from..rest.len() {
                if self.owner(rest[index]) == owner {
                    rest.swap(to, index);
                    to += 1;
                }
            }
            let group = &rest[from..to];
            let whole = match owner {
                Some(owner) if owner != slot => self.deliver(owner, group),
                _ => 0,
            };
            let left = &group[whole..];
            own[kept..kept + left.len()].copy_from_slice(left);
            kept += left.len();
            from = to;
        }
        if kept > objects.len() / 2 {
            // These objects do not go to the array: they would fill it again at once.
            self.sheaf().put_away(&own[..kept]);
        } else {
            self.park(cpu, &own[..kept]);
        }
    }

    /// Puts whole bundles into a slot's inbox or, if full, into barns; returns how many objects.
    fn deliver(&self, owner: SlotIndex, objects: &[Object]) -> usize {
        let inbox = &self.tables.cpu(self.cache.id(), owner).inbox;
        let held = inbox.bundles() * self.bundle as u64;
        let whole = objects.len() / self.bundle * self.bundle;
        let most = INBOX_OBJECTS.min(INBOX_BYTES / self.cache.stride() as u64);
        if held + whole as u64 > most.max(2 * BUNDLE_MOST as u64) {
            self.sheaf().put_away(&objects[..whole]);
            return whole;
        }
        if self.push(inbox, &objects[..whole]) { whole } else { 0 }
    }
}
