//! Gives back memory that was not used for a while: the work of the reclaim thread.
//!
//! A *look* has five stages:
//!
//! 1. a cache that has served no request since the last look gives its parked objects to its slabs,
//!    and its empty slabs to the page allocator; for other caches, idle CPUs give up their objects,
//!    and barns the objects that were not needed since the last look;
//! 2. per-CPU page lists give their pages to the zones if none was used, else they decay;
//! 3. mappings that have been in the mapping cache for the reclaim delay are released;
//! 4. free blocks of the zones that have been dirty since the last look go to the operating system,
//!    whole pageblocks first; free pageblocks are also unmapped, except some clean ones that a zone
//!    keeps;
//! 5. in caches without an operation since the last look, pages of sparse slabs that hold no object
//!    in use go to the operating system. Only Quarry's own thread does this while the process does
//!    not grow (see `reap.rs`).
//!
//! Dirty frames are counted, not tracked one by one. If a zone had at least `n` dirty frames ever
//! since the last look, no request needed `n` of them: so many are *due*. Due frames are purged in
//! steps of at most 16 MiB; a thread of the program does one step at a time.
//!
//! If memory that went back was needed again soon, stages 3 and 4 wait longer (see `retention.rs`).

use super::instance::{Stack, StackConfig, Watch};
use super::retention::{MOST_LOOKS, Retention};
use crate::frame::{FRAME_BYTES, MAX_NODES, NodeId, Order};
use crate::slab::{Cache, CacheId, Idle, MAX_CACHES, Reclaim, SlabPolicy, SparseWalk};
use crate::zone::{Whole, Zone, Zones};
use quarry_sys::own_stack;
use quarry_sys::percpu::{PerCpu, SlotIndex};

/// Maximum number of bytes of one step, which takes some milliseconds.
const PURGE_STEP_BYTES: usize = 16 << 20;
/// A zone keeps the address space of this many free clean frames (16 MiB) plus an eighth of the
/// frames in use, because a program that frees and allocates by turns needs it again.
const KEPT_WHOLE_FRAMES: u32 = 4096;
/// Slots whose numbers are equal modulo this share a counter, and are idle only together.
const SLOT_GROUPS: usize = 256;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Rest {
    Busy,
    /// The cache is idle; its sparse slabs should be walked.
    Due,
    /// The cache is idle; its sparse slabs have been walked.
    Done,
}

/// A count at the last look, plus 1; 0 before the first.
#[derive(Clone, Copy)]
struct Seen(u64);

impl Seen {
    const NOTHING: Self = Self(0);

    /// Notes the count of this look; returns whether it was the same at the last one.
    fn is_still(&mut self, count: u64) -> bool {
        let count = count.wrapping_add(1);
        core::mem::replace(&mut self.0, count) == count
    }
}

/// The findings of the last looks. The thread that reclaims owns them. (Before the first look all
/// bytes are zero: as a static it takes no room in a file.)
pub struct ReclaimState {
    allocs: [Seen; MAX_CACHES],
    operations: [Seen; MAX_CACHES],
    rest: [Rest; MAX_CACHES],
    sparse: Option<(CacheId, SparseWalk)>,
    slot_operations: [Seen; SLOT_GROUPS],
    page_operations: Seen,
    /// The fewest dirty frames of each node before each of the last looks, the latest first.
    dirty: [[u32; MAX_NODES]; MOST_LOOKS],
    /// Due frames that have not been purged yet.
    due: [u32; MAX_NODES],
    /// How many extents had ever been cached at each of the last looks, the latest first.
    cached_extents_seen: [u64; MOST_LOOKS],
    retention: Retention,
}

impl ReclaimState {
    /// The state before the first look.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            allocs: [Seen::NOTHING; MAX_CACHES],
            operations: [Seen::NOTHING; MAX_CACHES],
            rest: [Rest::Busy; MAX_CACHES],
            sparse: None,
            slot_operations: [Seen::NOTHING; SLOT_GROUPS],
            page_operations: Seen::NOTHING,
            dirty: [[0; MAX_NODES]; MOST_LOOKS],
            due: [0; MAX_NODES],
            cached_extents_seen: [0; MOST_LOOKS],
            retention: Retention::new(),
        }
    }

    /// Number of looks, 1 to 16, for which memory must be free before it goes back.
    #[must_use]
    pub fn looks_kept(&self) -> usize {
        self.retention.looks()
    }

    /// A bound for the bytes that looks and purges of `stack` may give back. O(arrays * slots).
    pub fn bound<C: StackConfig>(stack: &Stack<C>) -> usize {
        let (freed, context) =
            (stack.mappings.freeable_bytes(stack.pages().zones()), stack.context());
        freed + stack.slab.spare_bytes(&context) + stack.fast.percpu.area().held_bytes()
    }

    /// Notes the fewest dirty frames of a node since the last look. Returns how many are due now.
    fn note_dirty(&mut self, node: usize, lowest: u32) -> u32 {
        for look in (1..MOST_LOOKS).rev() {
            self.dirty[look][node] = self.dirty[look - 1][node];
        }
        self.dirty[0][node] = lowest;
        let kept = self.dirty[..self.retention.looks()].iter().map(|before| before[node]);
        kept.fold(u32::MAX, u32::min)
    }

    fn note_purged(&mut self, node: usize, frames: u32) {
        self.due[node] = self.due[node].saturating_sub(frames);
        for before in &mut self.dirty {
            before[node] = before[node].saturating_sub(frames);
        }
        self.retention.gave_back(frames);
    }

    /// Notes how many extents were ever cached; returns the count of `looks_kept` looks ago.
    fn note_cached_extents(&mut self, so_far: u64) -> u64 {
        let due = self.cached_extents_seen[self.retention.looks() - 1];
        self.cached_extents_seen.copy_within(..MOST_LOOKS - 1, 1);
        self.cached_extents_seen[0] = so_far;
        due
    }
}

/// The results of one look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reclaimed {
    /// Bytes given back to the operating system.
    pub bytes: usize,
    /// Number of caches and page lists that gave memory; all slots together count as one.
    pub shrunk: u32,
}

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
    /// Gives all unused memory to the operating system: slots, barns, empty slabs, per-CPU page
    /// lists, free blocks of the zones, cached mappings. Returns the bytes purged.
    #[inline(never)]
    pub fn trim(&self) -> usize {
        let zones = self.pages().zones();
        self.watch.give_back(self);
        self.shrink_all();
        let kept = self.mappings.give_back_kept(zones);
        let bytes = self.mappings.purge_all(zones);
        // Free clean pageblocks still hold address space.
        zones.give_back();
        kept + bytes
    }

    /// One look, half a `delay_ns` after the last: does stages 1 to 3, notes which frames are due,
    /// and unmaps clean pageblocks. Also decides how long freed memory is kept: up to eight delays,
    /// and not at all if `delay_ns` is 0.
    #[inline(never)]
    pub fn look(&self, state: &mut ReclaimState, now_ns: u64, delay_ns: u64) -> Reclaimed {
        if delay_ns > 0 {
            state.retention.see(self.footprint_frames(), now_ns, delay_ns);
        }
        let mut done = Reclaimed::default();
        // If memory is short, page lists keep less, so that the zones get the pages of this look.
        let _active = self.pages().zones().reclaiming(Zone::is_below_high);
        self.shrink_idle_caches(state, &mut done);
        self.shrink_page_lists(state, &mut done);
        let zones = self.pages().zones();
        let unused_since = state.note_cached_extents(self.mappings.cached_so_far());
        let cached = self.mappings.cached_charged();
        done.bytes += self.mappings.release_unused_since(zones, unused_since);
        state.retention.gave_back(cached.saturating_sub(self.mappings.cached_charged()));
        for zone in zones.all() {
            let node = usize::from(zone.node().0);
            state.due[node] = state.note_dirty(node, zone.take_lowest_dirty());
            let kept = KEPT_WHOLE_FRAMES + zones.budget().used() / 8;
            zones.give_back_of(zone.node(), Whole::CleanBeyond(kept), usize::MAX);
        }
        done
    }

    /// Purges up to 16 MiB of due frames; if none is due and `is_sparse` is true, does a step of
    /// the fifth stage. Returns the bytes; `None` if nothing is due any more.
    pub fn purge(&self, state: &mut ReclaimState, is_sparse: bool) -> Option<usize> {
        let bytes = self.purge_due(state);
        if is_sparse { bytes.or_else(|| self.purge_sparse(state)) } else { bytes }
    }

    fn purge_due(&self, state: &mut ReclaimState) -> Option<usize> {
        let pages = self.pages();
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

    /// One step through the sparse slabs of an idle cache: gives back pages without an object in
    /// use. Returns the bytes; `None` if no cache is due any more.
    fn purge_sparse(&self, state: &mut ReclaimState) -> Option<usize> {
        let is_due = |cache: &&Cache| state.rest[cache.id().index()] == Rest::Due;
        let cache = self.caches.iter().find(is_due);
        let (bytes, walked) = self.walk_sparse(&mut state.sparse, cache)?;
        if let Some(cache) = walked {
            state.rest[cache.id().index()] = Rest::Done;
        }
        Some(bytes)
    }

    fn shrink_idle_caches(&self, state: &mut ReclaimState, done: &mut Reclaimed) {
        let context = self.context();
        let busy = self.busy_slots(state);
        let mut idle = [false; MAX_CACHES];
        for cache in self.caches.iter() {
            let stats = self.slab.stats(context.with(cache));
            let (index, operations) = (cache.id().index(), stats.allocs() + stats.frees());
            idle[index] = state.allocs[index].is_still(stats.allocs());
            let rest = &mut state.rest[index];
            *rest = match (state.operations[index].is_still(operations), *rest) {
                (false, _) => Rest::Busy,
                (true, Rest::Busy) => Rest::Due,
                (true, rest) => rest,
            };
        }
        let idle = Idle {
            slots: &|slot| !busy[slot.index() % SLOT_GROUPS],
            caches: &|id| idle[id.index()],
        };
        done.shrunk += self.slab.reclaim(&context, Reclaim::Idle(idle));
    }

    fn busy_slots(&self, state: &mut ReclaimState) -> [bool; SLOT_GROUPS] {
        let area = self.fast.percpu.area();
        let mut operations = [0u64; SLOT_GROUPS];
        for slot in area.awake() {
            let group = &mut operations[slot.index() % SLOT_GROUPS];
            *group = group.wrapping_add(area.slot_operations(slot));
        }
        core::array::from_fn(|group| !state.slot_operations[group].is_still(operations[group]))
    }

    fn shrink_page_lists(&self, state: &mut ReclaimState, done: &mut Reclaimed) {
        let pages = self.pages();
        let totals = pages.pcp_totals();
        let operations = totals.allocs + totals.frees + totals.drains;
        if state.page_operations.is_still(operations) {
            pages.drain_all();
        } else {
            for slot in 0..self.fast.percpu.area().slots() {
                done.shrunk += u32::from(pages.decay(SlotIndex(slot)));
            }
        }
    }
}
