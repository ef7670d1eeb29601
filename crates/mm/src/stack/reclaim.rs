//! Giving memory back: in the background, a few times a second, what has not been used for a while;
//! and on the spot, where a request has found nothing.
//!
//! In the background there are five stages, from what callers touched last to what the operating
//! system gets:
//!
//! 1. a cache without an operation since the last look gives its parked objects to its slabs, and
//!    its empty slabs to the page allocator; of other caches, the CPUs that have not allocated or
//!    freed anything since then give theirs, and barns the objects not needed since then;
//! 2. per-CPU page lists without use give their pages to the zones, others decay;
//! 3. freed mappings that have been in the mapping cache for the delay are released;
//! 4. free blocks of the zones that have been dirty since the last look go to the operating system,
//!    whole pageblocks first; those take their address space along, as do clean ones, except some
//!    that a zone keeps;
//! 5. of a cache without an operation since the last look, pages of sparse slabs without an object
//!    in use go to the operating system. Only a thread of Quarry's own does this.
//!
//! "Dirty since the last look" is counted, not tracked per block: the fewest frames that were dirty
//! at a time since then were not needed, and are due. Due frames are purged in steps of at most
//! 16 MiB; a caller that has no time (a program's own thread) does one step at a time.
//!
//! Where memory that went back was needed again soon, stages 3 and 4 look back further (see
//! `retention`).

use super::instance::{Stack, StackConfig, Watch};
use super::retention::{MOST_LOOKS, Retention};
use super::upkeep::Upkeep;
use crate::frame::{FRAME_BYTES, MAX_NODES, NodeId, Order};
use crate::slab::{Cache, CacheId, Idle, MAX_CACHES, Reclaim, SlabPolicy, SparseWalk};
use crate::zone::{Whole, Zone, Zones};
use quarry_sys::own_stack;
use quarry_sys::percpu::{PerCpu, SlotIndex};

/// Most bytes purged in one step: some milliseconds.
const PURGE_STEP_BYTES: usize = 16 << 20;
/// Frames of free pageblocks that a zone keeps even if little is in use, 16 MiB: address space that
/// a program which frees and allocates by turns takes again at once.
const KEPT_WHOLE_FRAMES: u32 = 4096;
/// Slots that are distinguished; with more slots, one is idle if all are that share its number
/// modulo this.
const SLOT_GROUPS: usize = 256;

/// The findings of a look about a cache.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// Used since the look before.
    Busy,
    /// Not used since the look before; its sparse slabs should be looked at.
    Due,
    /// Still not used; its sparse slabs have been looked at.
    Done,
}

/// The findings of the last look. The caller that reclaims owns it; a new one sees nothing as idle.
pub struct ReclaimState {
    operations: [u64; MAX_CACHES],
    rest: [Rest; MAX_CACHES],
    /// The place of the walk through sparse slabs.
    sparse: Option<(CacheId, SparseWalk)>,
    slot_operations: [u64; SLOT_GROUPS],
    page_operations: u64,
    /// The fewest dirty frames before each of the last looks, the latest first.
    dirty: [[u32; MAX_NODES]; MOST_LOOKS],
    /// Frames found due that have not been purged yet.
    due: [u32; MAX_NODES],
    /// Extents put into the mapping cache before each of the last looks, the latest first.
    cached_extents_seen: [u64; MOST_LOOKS],
    retention: Retention,
}

impl ReclaimState {
    /// Nothing seen yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            operations: [u64::MAX; MAX_CACHES],
            rest: [Rest::Busy; MAX_CACHES],
            sparse: None,
            slot_operations: [u64::MAX; SLOT_GROUPS],
            page_operations: u64::MAX,
            dirty: [[0; MAX_NODES]; MOST_LOOKS],
            due: [0; MAX_NODES],
            cached_extents_seen: [0; MOST_LOOKS],
            retention: Retention::new(),
        }
    }

    /// Looks at which memory must have been free to go back: 1, or up to 16 where memory that went
    /// back was needed again soon.
    #[must_use]
    pub fn looks_kept(&self) -> usize {
        self.retention.looks()
    }

    /// Notes the fewest dirty frames of a node since the last look. Returns how many have been
    /// dirty for as many looks as memory is kept.
    fn note_dirty(&mut self, node: usize, lowest: u32) -> u32 {
        for look in (1..MOST_LOOKS).rev() {
            self.dirty[look][node] = self.dirty[look - 1][node];
        }
        self.dirty[0][node] = lowest;
        let kept = self.dirty[..self.retention.looks()].iter().map(|before| before[node]);
        kept.fold(u32::MAX, u32::min)
    }

    /// Notes that dirty frames of a node have been purged.
    fn note_purged(&mut self, node: usize, frames: u32) {
        self.due[node] = self.due[node].saturating_sub(frames);
        for before in &mut self.dirty {
            before[node] = before[node].saturating_sub(frames);
        }
        self.retention.gave_back(frames);
    }

    /// Notes the extents put into the mapping cache so far. Returns the number of those before the
    /// looks for which memory is kept.
    fn note_cached_extents(&mut self, so_far: u64) -> u64 {
        let due = self.cached_extents_seen[self.retention.looks() - 1];
        self.cached_extents_seen.copy_within(..MOST_LOOKS - 1, 1);
        self.cached_extents_seen[0] = so_far;
        due
    }
}

impl Default for ReclaimState {
    fn default() -> Self {
        Self::new()
    }
}

/// The work of one look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reclaimed {
    /// Bytes given back to the operating system.
    pub bytes: usize,
    /// Caches and page lists that were found idle with something to give.
    pub shrunk: u32,
}

/// Gives about `bytes` of dirty memory of a node back: whole pageblocks, and where there are none,
/// smaller blocks.
#[inline(never)]
fn purge_some(zones: &Zones, node: NodeId, bytes: usize) -> usize {
    let mut given = zones.give_back_of(node, Whole::Dirty, bytes);
    for smallest in [Order::PAGEBLOCK, Order::ZERO] {
        if given == 0 {
            given = zones.purge(node, smallest, bytes);
        }
    }
    given
}

impl<C: StackConfig> Stack<C> {
    /// Returns to the operating system all that it can: slots, barns, empty slabs, per-CPU page
    /// lists, free blocks of the zones, cached mappings. Returns the bytes purged.
    #[inline(never)]
    pub fn trim(&self) -> usize {
        self.watch.give_back(self);
        self.shrink_all();
        let bytes = self.upkeep().purge_free();
        // Clean pageblocks hold no memory, but address space.
        self.pages().give_back();
        bytes
    }

    /// Looks at everything, and gives back all that it finds due. Takes each lock for short moments
    /// only; the work is bounded by what there is to give back.
    pub fn reclaim(&self, state: &mut ReclaimState) -> Reclaimed {
        let mut done = self.upkeep().look(state);
        while let Some(bytes) = self.upkeep().purge_due(state) {
            done.bytes += bytes;
        }
        done
    }
}

impl<C: StackConfig> Upkeep<'_, C> {
    /// Slots, barns, empty slabs and per-CPU page lists go back to the zones. Slots of other CPUs
    /// stay as they are where the calling thread may not stop them (see
    /// [`reaches_every_slot`](quarry_sys::percpu::PerCpu::reaches_every_slot)).
    pub fn shrink_all(self) {
        self.0.shrink_all();
    }

    /// Bytes that the operating system could have at once: dirty free blocks and cached mappings.
    /// O(nodes).
    #[must_use]
    pub fn freeable_bytes(self) -> usize {
        let inner = self.0.inner();
        let dirty: usize = inner.pages.zones().all().map(|zone| zone.dirty() as usize).sum();
        dirty * FRAME_BYTES + inner.mappings.cached_bytes()
    }

    /// Bytes that the next look may find unneeded beside those: in barns, and on CPUs. O(caches *
    /// slots that are awake), unlike [`parked_bytes_at_most`](Self::parked_bytes_at_most).
    #[must_use]
    pub fn parked_bytes(self) -> usize {
        self.0.inner().limits.barns() + self.0.fast.percpu.area().held_bytes()
    }

    /// The part of these bytes that is in barns. O(1).
    #[must_use]
    pub fn parked_in_barns(self) -> usize {
        self.0.inner().limits.barns()
    }

    /// Bytes in barns, and the room of the arrays of CPUs. O(1).
    #[must_use]
    pub fn parked_bytes_at_most(self) -> usize {
        self.0.inner().limits.barns() + self.0.fast.percpu.area().all_room()
    }

    /// Bytes of freed mappings in the mapping cache. O(1).
    #[must_use]
    pub fn cached_bytes(self) -> usize {
        self.0.inner().mappings.cached_bytes()
    }

    /// Gives free blocks and cached mappings to the operating system at once; returns the bytes.
    pub fn purge_free(self) -> usize {
        if self.freeable_bytes() == 0 { 0 } else { own_stack::run(|| self.purge_free_here()) }
    }

    #[inline(never)]
    fn purge_free_here(self) -> usize {
        let inner = self.0.inner();
        let mut bytes = inner.mappings.release_cached(inner.pages.zones());
        for zone in inner.pages.zones().all() {
            let whole = inner.pages.zones().give_back_of(zone.node(), Whole::Dirty, usize::MAX);
            bytes += whole + inner.pages.purge(zone.node(), Order::ZERO, usize::MAX);
        }
        bytes
    }

    /// Same as [`look`](Self::look) at `now_ns`, where looks are half a `delay_ns` apart: memory
    /// that is needed again soon after it went back is kept longer the next time, for up to eight
    /// delays.
    #[inline(never)]
    pub fn look_at(self, state: &mut ReclaimState, now_ns: u64, delay_ns: u64) -> Reclaimed {
        state.retention.see(self.0.footprint_frames(), now_ns, delay_ns);
        self.look(state)
    }

    /// Looks at everything and notes what is due; only cached mappings go back at once.
    pub fn look(self, state: &mut ReclaimState) -> Reclaimed {
        let mut done = Reclaimed::default();
        // Where memory is short, the zones also need what lists get during this look.
        let _active = self.0.pages().zones().reclaiming(Zone::is_below_high);
        self.shrink_idle_caches(state, &mut done);
        self.shrink_page_lists(state, &mut done);
        let inner = self.0.inner();
        let unused_since = state.note_cached_extents(inner.mappings.cached_so_far());
        let cached = inner.mappings.cached_charged();
        done.bytes += inner.mappings.release_unused_since(inner.pages.zones(), unused_since);
        state.retention.gave_back(cached.saturating_sub(inner.mappings.cached_charged()));
        for zone in inner.pages.zones().all() {
            let node = usize::from(zone.node().0);
            state.due[node] = state.note_dirty(node, zone.take_lowest_dirty());
            // The program needs address space for itself as well.
            let kept = KEPT_WHOLE_FRAMES + inner.pages.zones().budget().used() / 8;
            inner.pages.zones().give_back_of(zone.node(), Whole::CleanBeyond(kept), usize::MAX);
        }
        done
    }

    /// Purges up to 16 MiB of what the last look found due. Returns the bytes, `None`
    /// where nothing is due any more.
    pub fn purge_due(self, state: &mut ReclaimState) -> Option<usize> {
        let pages = &self.0.inner().pages;
        for zone in pages.zones().all() {
            let node = usize::from(zone.node().0);
            let due = state.due[node].min(zone.dirty()) as usize * FRAME_BYTES;
            let bytes = match due {
                0 => 0,
                due => own_stack::run(|| {
                    purge_some(pages.zones(), zone.node(), due.min(PURGE_STEP_BYTES))
                }),
            };
            if bytes > 0 {
                state.note_purged(node, (bytes / FRAME_BYTES) as u32);
                return Some(bytes);
            }
            state.due[node] = 0;
        }
        None
    }

    /// A step through the sparse slabs of a cache that no thread has used since the last look:
    /// gives back pages without an object in use. Returns the bytes, `None` where nothing is due
    /// any more.
    pub fn purge_sparse(self, state: &mut ReclaimState) -> Option<usize> {
        let (inner, context) = (self.0.inner(), self.0.context());
        // The checks fill free objects with bytes that they want to see again.
        if self.0.watch.have_records() {
            return None;
        }
        let is_due = |cache: &&Cache| state.rest[cache.id().index()] == Rest::Due;
        let Some(cache) = inner.caches.iter().find(is_due) else {
            state.sparse = None;
            return None;
        };
        let started = state.sparse.filter(|(id, _)| *id == cache.id()).map(|(_, walk)| walk);
        let mut walk = started.unwrap_or(SparseWalk::START);
        let bytes = inner.slab.purge_sparse(&context, cache, &mut walk);
        state.sparse = Some((cache.id(), walk));
        if walk.is_over() {
            state.rest[cache.id().index()] = Rest::Done;
        }
        Some(bytes)
    }

    fn shrink_idle_caches(self, state: &mut ReclaimState, done: &mut Reclaimed) {
        let (inner, context) = (self.0.inner(), self.0.context());
        let busy = self.busy_slots(state);
        let mut idle = [false; MAX_CACHES];
        for cache in inner.caches.iter() {
            let stats = inner.slab.stats(&context, cache);
            let operations = stats.allocs() + stats.frees();
            let seen = &mut state.operations[cache.id().index()];
            let is_idle = core::mem::replace(seen, operations) == operations;
            idle[cache.id().index()] = is_idle;
            let rest = &mut state.rest[cache.id().index()];
            *rest = match (is_idle, *rest) {
                (false, _) => Rest::Busy,
                (true, Rest::Busy) => Rest::Due,
                (true, rest) => rest,
            };
        }
        let idle = Idle {
            slots: &|slot| !busy[slot.index() % SLOT_GROUPS],
            caches: &|id| idle[id.index()],
        };
        done.shrunk += inner.slab.reclaim(&context, Reclaim::Idle(idle));
    }

    /// Finds the slots that have pushed or popped anything since the last look. O(1) for those that
    /// are asleep or were never used.
    fn busy_slots(self, state: &mut ReclaimState) -> [bool; SLOT_GROUPS] {
        let area = self.0.fast.percpu.area();
        let mut operations = [0u64; SLOT_GROUPS];
        for slot in area.awake() {
            let group = &mut operations[slot.index() % SLOT_GROUPS];
            *group = group.wrapping_add(area.slot_operations(slot));
        }
        core::array::from_fn(|group| {
            let seen = &mut state.slot_operations[group];
            core::mem::replace(seen, operations[group]) != operations[group]
        })
    }

    fn shrink_page_lists(self, state: &mut ReclaimState, done: &mut Reclaimed) {
        let pages = &self.0.inner().pages;
        let totals = pages.pcp_totals();
        let operations = totals.allocs + totals.frees + totals.drains;
        if core::mem::replace(&mut state.page_operations, operations) == operations {
            pages.drain_all();
        } else {
            for slot in 0..self.0.fast.percpu.area().slots() {
                done.shrunk += u32::from(pages.decay(SlotIndex(slot)));
            }
        }
    }
}
