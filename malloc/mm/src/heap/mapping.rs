//! Mappings: requests above 1 MiB, as extents of whole pageblocks of the window.
//!
//! Untouched pages of an extent cost nothing. The link words of its first frames describe a
//! mapping: `link[0]` holds the frames in use, `link[1]` the pageblocks of the extent, `link[2]`
//! the frames charged to the budget, `link[3]` whether its pages have been moved, `link[4]` its
//! number in the heap profile, `link[5]` its frames when the heap last found it sparse, or 0 (see
//! `filled`). A mapping is charged for the largest number of frames in use since its extent was
//! fresh, because those may be in memory, and for whole huge pages.
//!
//! The mapping cache keeps freed extents with their memory, up to a bound, so that a program that
//! allocates and frees 10 MiB in a loop makes no system call. The stack shrinks the cache before
//! the process grows beyond its recent peak (`malloc/mm/src/stack/footprint.rs`).
//!
//! A mapping grows in place, or its pages move to another extent: see `moving`.
//!
//! Equation: `frames <= charged <= blocks * 512`.

use super::filled::{Filled, is_end_huge, unite};
use super::mapping_cache::{CachedExtent, Extent, MappingCache, most_cached};
use super::moving::{Moved, MovedMappings};
use crate::frame::{
    FRAME_BYTES, Kind, PAGEBLOCK_BYTES, PAGEBLOCK_FRAMES, Pfn, Side, Taken, Wanted,
};
use crate::zone::{Zones, page_frames};
use quarry_sys::broken::{Broken, Check};
use quarry_sys::lock::CountedLock;
use quarry_sys::locks::Visit;
use quarry_sys::os::NotMoved;
use quarry_sys::own_stack;
use quarry_sys::primitive::{AtomicU32, AtomicUsize, Ordering};
use quarry_sys::topology::{current_memory_node, max_map_count};

/// A mapping that was handed out.
#[derive(Clone, Copy, Debug)]
pub struct Mapping {
    /// Its first frame.
    pub pfn: Pfn,
    /// Bytes at or past this offset are known to be zero.
    pub dirty_bytes: usize,
}

/// The mappings of a heap.
pub struct Mappings {
    cache: CountedLock<MappingCache>,
    live: AtomicUsize,
    /// Frames of the longest mapping that was freed, up to [`APART_FRAMES`].
    longest: AtomicU32,
    moved: MovedMappings,
    filled: Filled,
    /// Copies of the mapping cache's counts, for readers without its lock.
    cached_bytes: AtomicUsize,
    cached_charged: AtomicU32,
}

/// Notes that stay with a mapping when it moves.
#[derive(Clone, Copy, Default)]
struct Notes {
    /// See [`Mappings::sample`].
    sample: u32,
    /// Its frames when the heap last found it sparse, or 0.
    sparse: u32,
}

/// From this size on, 32 MiB, glibc maps each block for itself and unmaps it when it is freed
/// (`DEFAULT_MMAP_THRESHOLD_MAX`, 2.5 to 2.41). So `calloc` takes fresh memory unless the program
/// fills its tables, and what the program has done to the pages of a freed block (`MADV_DONTFORK`)
/// ends with it. Smaller blocks are on glibc's heap, except those that are longer than all freed
/// before (its threshold adapts).
const APART_FRAMES: u32 = (32 << 20) / FRAME_BYTES as u32;

/// Returns whether a cached extent may serve a request for zeroed memory: what is not cleared must
/// not come in as huge pages.
fn is_table(zones: &Zones, extent: &Extent, frames: u32) -> bool {
    let mut untouched = (extent.charged.next_multiple_of(PAGEBLOCK_FRAMES)..frames)
        .step_by(PAGEBLOCK_FRAMES as usize);
    let first = extent.first.first();
    frames < APART_FRAMES && !untouched.any(|frame| zones.faults(first.plus(frame)).is_huge())
}

fn blocks_of(frames: u32) -> u32 {
    frames.div_ceil(PAGEBLOCK_FRAMES)
}

/// The frames that hold `bytes`; `None` where no window has that many.
#[must_use]
pub fn frames_of(bytes: usize) -> Option<u32> {
    u32::try_from(bytes.div_ceil(FRAME_BYTES)).ok().filter(|frames| *frames < u32::MAX / 2)
}

impl Mappings {
    pub(crate) const fn new() -> Self {
        Self {
            cache: CountedLock::new(MappingCache::new()),
            live: AtomicUsize::new(0),
            longest: AtomicU32::new(0),
            moved: MovedMappings::new(),
            filled: Filled::new(),
            cached_bytes: AtomicUsize::new(0),
            cached_charged: AtomicU32::new(0),
        }
    }

    /// Mappings in use.
    #[must_use]
    pub fn live(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }

    /// Makes a mapping of `frames` frames at a multiple of `align` bytes (a power of two). If its
    /// dirty bytes will be cleared (`zeroed`), it is a table: see `filled`.
    pub fn alloc(&self, zones: &Zones, frames: u32, align: usize, zeroed: bool) -> Option<Mapping> {
        let blocks = blocks_of(frames);
        let align_blocks = u32::try_from(align.div_ceil(PAGEBLOCK_BYTES)).ok()?;
        let node = current_memory_node();
        let is_suitable = |extent: &Extent| {
            extent.node == node
                && (zones.arena().address(extent.first.first()).as_ptr() as usize)
                    .is_multiple_of(align)
        };
        let cached =
            self.change(|cache| cache.take(blocks, is_suitable)).map(|extent| (extent, false));
        let is_long = cached.is_some();
        let cached = cached.or_else(|| self.enlarge_cached(zones, frames, align_blocks, zeroed));
        let reused = cached.and_then(|(extent, is_moved)| {
            if zeroed && !self.filled.fills_tables(frames) && !is_table(zones, &extent, frames) {
                release(zones, extent);
                return None;
            }
            let (extent, dirty) = self.recharge(zones, extent, frames)?;
            Some((extent, dirty, is_moved))
        });
        let (extent, dirty, is_moved) = match reused {
            Some(reused) => reused,
            None => {
                let (extent, dirty) = self.fresh(zones, frames, align_blocks, zeroed)?;
                (extent, dirty, false)
            }
        };
        let pfn = extent.first.first();
        self.moved.begin(zones, pfn, is_moved);
        let is_large_table = zeroed && frames >= APART_FRAMES;
        if reused.is_none() || !is_long || is_large_table {
            self.filled.wait(zones, pfn, frames, is_large_table);
        }
        describe(zones, frames, extent, Notes::default());
        self.live.fetch_add(1, Ordering::Relaxed);
        Some(Mapping { pfn, dirty_bytes: dirty as usize * FRAME_BYTES })
    }

    /// Takes the cached extent with the most memory, if it is too short for `frames` frames, and
    /// makes it long enough. Also returns whether its pages were moved for this. (A move takes some
    /// microseconds, while fresh memory takes a page fault for each page.)
    fn enlarge_cached(
        &self,
        zones: &Zones,
        frames: u32,
        align_blocks: u32,
        zeroed: bool,
    ) -> Option<(Extent, bool)> {
        if align_blocks > 1 || zeroed && frames >= APART_FRAMES {
            return None;
        }
        let blocks = blocks_of(frames);
        let cached = self.change(|cache| cache.take_largest(blocks, current_memory_node()))?;
        let (kept, memory) = (cached.extent, zones.memory());
        let huge = if zeroed { 0 } else { self.huge_blocks(zones, 0, frames) };
        unite(zones, &kept, huge);
        let more = blocks - kept.blocks;
        if memory.extend(kept.first, kept.blocks, more, huge > 0).is_ok() {
            zones.make_huge(kept.first, huge);
            return Some((Extent { blocks, ..kept }, false));
        }
        let new = self.moved.may_move(kept).then(|| self.take_extent(zones, blocks, 1, 0, true));
        let new = new.flatten();
        if let Some(dirty) = new.filter(|new| new.charged > 0) {
            memory.give_back(dirty.first, dirty.blocks);
        } else if let Some(new) = new {
            // SAFETY: both extents are taken and do not overlap, and no other task knows them.
            let moved =
                unsafe { memory.move_extent((kept.first, kept.blocks), (new.first, new.blocks)) };
            match moved {
                Ok(()) => {
                    zones.make_huge(new.first, huge);
                    return Some((Extent { charged: kept.charged, ..new }, true));
                }
                Err(NotMoved::Unchanged) => memory.give_back(new.first, new.blocks),
                Err(NotMoved::Lost) => {}
            }
        }
        self.keep(zones, kept, Some(cached.number));
        None
    }

    /// Charges a cached extent for a mapping of `frames` frames; at the limit, releases the extent.
    /// Returns the extent, and how many frames it was charged for before.
    fn recharge(&self, zones: &Zones, extent: Extent, frames: u32) -> Option<(Extent, u32)> {
        let reach = if is_end_huge(zones, &extent) { extent.frames() } else { frames };
        let more = reach.saturating_sub(extent.charged);
        if !self.charge(zones, more) {
            release(zones, extent);
            return None;
        }
        Some((Extent { charged: extent.charged + more, ..extent }, extent.charged))
    }

    fn fresh(
        &self,
        zones: &Zones,
        frames: u32,
        align_blocks: u32,
        zeroed: bool,
    ) -> Option<(Extent, u32)> {
        let huge = if zeroed { 0 } else { self.huge_blocks(zones, 0, frames) };
        let charged = frames.max(huge * PAGEBLOCK_FRAMES);
        if !self.charge(zones, charged) {
            return None;
        }
        let taken = self.take_extent(zones, blocks_of(frames), align_blocks, 0, zeroed);
        let Some(extent) = taken else {
            zones.budget().uncharge_mapping(charged);
            return None;
        };
        let dirty = extent.charged;
        let more = dirty.saturating_sub(charged);
        if !self.charge(zones, more) {
            release(zones, Extent { charged, ..extent });
            return None;
        }
        if huge > 0 && dirty == 0 {
            zones.make_huge(extent.first, huge);
            zones.populate(extent.first.first(), PAGEBLOCK_FRAMES);
        }
        Some((Extent { charged: charged + more, ..extent }, dirty))
    }

    /// See [`Filled::huge_blocks`]; 0 if many mappings are live, because a huge one splits a
    /// mapping of the kernel into three.
    fn huge_blocks(&self, zones: &Zones, held: u32, frames: u32) -> u32 {
        let few = self.live() < max_map_count() / 8;
        if few { self.filled.huge_blocks(zones, held, frames) } else { 0 }
    }

    /// Same as [`huge_blocks`](Self::huge_blocks) for a mapping that grows: 0 unless it is filled.
    /// A look takes some microseconds, so after one that found it sparse, which is noted, the next
    /// comes when it is twice as long.
    #[inline(never)]
    fn huge_blocks_grown(&self, zones: &Zones, pfn: Pfn, frames: u32) -> u32 {
        let held = self.frames(zones, pfn);
        if held / 2 < self.notes(zones, pfn).sparse {
            self.filled.end_wait(pfn);
            return 0;
        }
        let looked = self.filled.look(zones, pfn, held);
        // Kept memory is there already.
        let huge = if zones.arena().keeps() { 0 } else { self.huge_blocks(zones, held, frames) };
        let is_filled = match looked {
            None if huge > 0 => Filled::is_filled(zones, pfn, held),
            looked => looked != Some(false),
        };
        if is_filled {
            return huge;
        }
        zones.frames().set_link(pfn.plus(5), held);
        0
    }

    /// Charges frames; at the limit, empties the mapping cache and tries again.
    fn charge(&self, zones: &Zones, frames: u32) -> bool {
        zones.budget().charge_mapping(frames)
            || (self.release_unused_since(zones, u64::MAX) > 0
                && zones.budget().charge_mapping(frames))
    }

    /// Takes an extent, with `room` free pageblocks after it if possible, and returns it with the
    /// frames that the caller must charge, because they may be in memory. Where address space is
    /// short, empties the mapping cache, then lets zones give back pageblocks.
    fn take_extent(
        &self,
        zones: &Zones,
        blocks: u32,
        align_blocks: u32,
        room: u32,
        zeroed: bool,
    ) -> Option<Extent> {
        let (memory, align) = (zones.memory(), align_blocks.max(1));
        let wanted = Wanted { side: Side::Mapping, count: blocks, align, room };
        let is_kept = finds_kept(zones, blocks, align);
        let take = || {
            let Taken { first, zeroed: is_zero } = memory.take(wanted).ok()?;
            let frames = blocks * PAGEBLOCK_FRAMES;
            // To clear an extent that lies only in part in memory would bring all of it in.
            let is_zero =
                is_zero || zeroed && !is_kept && zones.purge_owned(first.first(), frames) > 0;
            let charged = if is_zero { 0 } else { frames };
            Some(Extent { first, blocks, charged, node: current_memory_node() })
        };
        take()
            .or_else(|| if self.release_unused_since(zones, u64::MAX) > 0 { take() } else { None })
            .or_else(|| if zones.give_back() > 0 { take() } else { None })
    }

    /// Frames of the mapping that starts at `pfn`.
    #[must_use]
    pub fn frames(&self, zones: &Zones, pfn: Pfn) -> u32 {
        zones.frames().link(pfn)
    }

    /// Pageblocks of the extent of the mapping that starts at `pfn`.
    #[must_use]
    pub fn blocks(&self, zones: &Zones, pfn: Pfn) -> u32 {
        zones.frames().link(pfn.plus(1))
    }

    /// Frames that the mapping that starts at `pfn` is charged for.
    #[must_use]
    pub fn charged(&self, zones: &Zones, pfn: Pfn) -> u32 {
        zones.frames().link(pfn.plus(2))
    }

    /// The number of the heap profile's record of the mapping that starts at `pfn`, or 0.
    #[must_use]
    pub fn sample(&self, zones: &Zones, pfn: Pfn) -> u32 {
        zones.frames().link(pfn.plus(4))
    }

    /// Gives the mapping that starts at `pfn` this record of the heap profile; 0 gives it none.
    pub fn set_sample(&self, zones: &Zones, pfn: Pfn, record: u32) {
        zones.frames().set_link(pfn.plus(4), record);
    }

    fn notes(&self, zones: &Zones, pfn: Pfn) -> Notes {
        Notes { sample: self.sample(zones, pfn), sparse: zones.frames().link(pfn.plus(5)) }
    }

    pub(crate) fn cached_charged(&self) -> u32 {
        self.cached_charged.load(Ordering::Relaxed)
    }

    fn extent_of(&self, zones: &Zones, pfn: Pfn) -> Extent {
        let (blocks, charged) = (self.blocks(zones, pfn), self.charged(zones, pfn));
        Extent { first: pfn.pageblock(), blocks, charged, node: zones.frames().link(pfn.plus(6)) }
    }

    /// Checks the equations of the mapping cache; fails with the first that does not hold.
    pub fn validate(&self) -> Result<(), Broken> {
        let kept = self.cache.lock();
        let (check, bytes) = (Check::of("mappings"), self.cached_bytes() as u64);
        check.equal(bytes, kept.bytes() as u64, "the published bytes = bytes of the cache")?;
        check.equal(self.cached_charged(), kept.charged(), "the published charge = the cache's")?;
        kept.validate()
    }

    /// Frees the mapping that starts at `pfn`.
    pub fn free(&self, zones: &Zones, pfn: Pfn) {
        let extent = self.extent_of(zones, pfn);
        let frames = self.frames(zones, pfn);
        let _ = self.filled.look(zones, pfn, frames);
        zones.frames().set_kind(pfn, 1, Kind::NONE);
        self.moved.forget(zones, pfn);
        self.live.fetch_sub(1, Ordering::Relaxed);
        let longest = self.longest.fetch_max(frames.min(APART_FRAMES), Ordering::Relaxed);
        let would_be_unmapped = frames > longest || frames >= APART_FRAMES;
        if would_be_unmapped
            && zones.arena().os().reset(zones.arena().address(pfn), extent.bytes()).is_err()
        {
            return release(zones, extent);
        }
        self.keep(zones, extent, None);
    }

    /// Puts an extent into the mapping cache, and releases older ones to make room; releases the
    /// extent itself if it is too large. An extent that was cached before keeps its `number`.
    fn keep(&self, zones: &Zones, extent: Extent, number: Option<u64>) {
        if zones.arena().keeps() {
            return release(zones, extent);
        }
        let used = zones.budget().used().saturating_sub(self.cached_charged() + extent.charged);
        let most = most_cached(used as usize * FRAME_BYTES);
        if extent.bytes() > most {
            return release(zones, extent);
        }
        loop {
            let oldest = self.change(|cache| {
                let oldest = cache.make_room_for(extent, most);
                if oldest.is_none() {
                    let charge = |missing| zones.budget().charge_mapping(missing);
                    cache.put(extent, number, charge);
                }
                oldest
            });
            match oldest {
                Some(oldest) => release(zones, oldest),
                None => return,
            }
        }
    }

    /// Changes the mapping at `pfn` to `frames` frames, in place or by moving its pages; returns
    /// `None` where neither is possible.
    pub fn resize(&self, zones: &Zones, pfn: Pfn, frames: u32) -> Option<Pfn> {
        let old = self.extent_of(zones, pfn);
        let blocks = blocks_of(frames);
        let huge = if blocks > old.blocks { self.huge_blocks_grown(zones, pfn, frames) } else { 0 };
        let notes = self.notes(zones, pfn);
        let new = if blocks > old.blocks {
            unite(zones, &old, huge);
            let reach = frames.max(huge * PAGEBLOCK_FRAMES);
            let new = self
                .extend(zones, old, reach, huge)
                .or_else(|| self.relocate(zones, old, reach))?;
            zones.make_huge(new.first, huge);
            self.filled.wait(zones, new.first.first(), frames, false);
            new
        } else if blocks < old.blocks {
            let (new, rest) = old.split(blocks);
            release(zones, rest);
            new
        } else {
            let more = frames.saturating_sub(old.charged);
            if !self.charge(zones, more) {
                return None;
            }
            Extent { charged: old.charged + more, ..old }
        };
        describe(zones, frames, new, notes);
        Some(new.first.first())
    }

    /// Grows `old` in place: by a cached extent that begins at its end, then by free pageblocks.
    fn extend(&self, zones: &Zones, old: Extent, frames: u32, huge: u32) -> Option<Extent> {
        let more = blocks_of(frames) - old.blocks;
        let is_in_memory = || zones.arena().is_kept(old.end(), more);
        if zones.arena().keeps() && !is_in_memory() && finds_kept(zones, blocks_of(frames), 1) {
            return None;
        }
        let kept = self.change(|cache| cache.take_after(&old, more));
        let kept = kept.unwrap_or(Extent { first: old.end(), blocks: 0, charged: 0, ..old });
        let give_back = || {
            if kept.blocks > 0 {
                self.keep(zones, kept, None);
            }
        };
        // A charge covers the front of an extent, so uncharged frames before `kept` count too.
        let charged = frames.max(old.charged + old.missing_before(&kept) + kept.charged);
        let missing = charged - old.charged - kept.charged;
        if !self.charge(zones, missing) {
            give_back();
            return None;
        }
        let fresh = more - kept.blocks;
        // The window extends the extent that ends where the fresh pageblocks begin.
        let front = if kept.blocks == 0 { old } else { kept };
        let extended = match fresh {
            0 => Ok(true),
            fresh => zones.memory().extend(front.first, front.blocks, fresh, huge > 0),
        };
        let mut new = Extent { blocks: old.blocks + more, charged, ..old };
        let behind = new.frames() - charged;
        match extended {
            Ok(true) => {}
            Ok(false) if self.charge(zones, behind) => new.charged += behind,
            Ok(false) => {
                zones.memory().give_back(kept.end(), fresh);
                zones.budget().uncharge_mapping(missing);
                give_back();
                return None;
            }
            Err(_) => {
                zones.budget().uncharge_mapping(missing);
                give_back();
                return None;
            }
        }
        Some(new)
    }

    /// Moves the pages to another extent: by page tables where possible, else by copying.
    fn relocate(&self, zones: &Zones, old: Extent, frames: u32) -> Option<Extent> {
        let blocks = blocks_of(frames);
        let node = current_memory_node();
        let kept = self.change(|cache| cache.take(blocks, |extent| extent.node == node));
        // With free pageblocks after it, the mapping can grow in place next time.
        let new = kept.or_else(|| self.take_extent(zones, blocks, 1, blocks / 2, false))?;
        // Moved pages replace memory of the new extent; only its memory after them stays charged.
        let behind = if new.charged > old.frames() { new.charged } else { 0 };
        let charged = frames.max(behind);
        let before = old.charged + kept.map_or(0, |kept| kept.charged);
        if !self.charge(zones, charged.saturating_sub(before)) {
            match kept {
                Some(extent) => self.keep(zones, extent, None),
                None => zones.memory().give_back(new.first, new.blocks),
            }
            return None;
        }
        zones.frames().set_kind(old.first.first(), 1, Kind::NONE);
        // SAFETY: the caller of `realloc`, the only user of the old extent, waits for this call. No
        // other task knows the new extent, which was taken above and is at least as long.
        match unsafe { self.moved.bring(zones, old, new) } {
            Moved::Gone => {}
            Moved::Copied => zones.memory().give_back(old.first, old.blocks),
            Moved::Lost => {
                zones.frames().set_kind(old.first.first(), 1, Kind::MAPPING);
                zones.budget().uncharge_mapping(before.max(charged) - old.charged);
                return None;
            }
        }
        zones.budget().uncharge_mapping(before.saturating_sub(charged));
        Some(Extent { charged, ..new })
    }

    /// Bytes that [`purge_all`](Self::purge_all) would give back. O(nodes).
    #[must_use]
    pub fn freeable_bytes(&self, zones: &Zones) -> usize {
        zones.dirty_bytes() + self.cached_bytes()
    }

    /// Gives cached mappings and free blocks of the zones to the operating system; returns the
    /// bytes.
    pub fn purge_all(&self, zones: &Zones) -> usize {
        let purge = || self.release_unused_since(zones, u64::MAX) + zones.purge_all();
        if self.freeable_bytes(zones) == 0 { 0 } else { own_stack::run(purge) }
    }

    /// Chooses whether all freed memory stays until a trim: then any request finds it, also a small
    /// one that of a mapping.
    pub fn keep_all(&self, zones: &Zones, keeps: bool) {
        if keeps {
            zones.memory().set_keeps(true);
            self.release_unused_since(zones, u64::MAX);
        } else {
            self.give_back_kept(zones);
            zones.memory().set_keeps(false);
        }
    }

    /// Gives back the memory of free pageblocks, if all memory is kept; returns the bytes.
    pub(crate) fn give_back_kept(&self, zones: &Zones) -> usize {
        if !zones.arena().keeps() {
            return 0;
        }
        zones.give_back();
        zones.memory().give_back_kept()
    }

    pub(crate) fn cached_so_far(&self) -> u64 {
        self.cache.lock().so_far()
    }

    /// Releases the cached extents whose number is below `number`; returns their bytes.
    pub(crate) fn release_unused_since(&self, zones: &Zones, number: u64) -> usize {
        let mut bytes = 0;
        while let Some(extent) = self.change(|cache| cache.take_older_than(number)) {
            bytes += extent.bytes();
            release(zones, extent);
        }
        bytes
    }

    /// Gives cached memory back, oldest first, until the cache's charge has fallen by `frames`.
    /// Returns the frames still to give. Of the last extent, only the end goes back, so that a
    /// later mapping of that extent's size takes page faults for this end only.
    pub(crate) fn shrink_cache(&self, zones: &Zones, frames: u32) -> u32 {
        let mut left = frames;
        while left > 0 {
            let Some(oldest) = self.change(MappingCache::take_oldest) else { return left };
            let charged = oldest.extent.charged;
            if charged > left {
                self.cut(zones, oldest, charged - left);
                return 0;
            }
            left -= charged;
            release(zones, oldest.extent);
        }
        0
    }

    /// Purges a cached extent except its first `charged` frames, and puts it back.
    fn cut(&self, zones: &Zones, kept: CachedExtent, charged: u32) {
        let CachedExtent { mut extent, number } = kept;
        let (arena, os) = (zones.arena(), zones.arena().os());
        let page_frames = page_frames(os);
        let first = charged.next_multiple_of(page_frames);
        let end = extent.charged.next_multiple_of(page_frames);
        if first < end {
            let bytes = (end - first) as usize * FRAME_BYTES;
            if os.purge(arena.address(extent.first.first().plus(first)), bytes).is_ok() {
                zones.budget().uncharge_mapping(extent.charged - first);
                extent.charged = first;
            }
        }
        self.keep(zones, extent, Some(number));
    }

    /// Bytes of the mapping cache.
    #[must_use]
    pub fn cached_bytes(&self) -> usize {
        self.cached_bytes.load(Ordering::Relaxed)
    }

    /// Changes the mapping cache under its lock, and publishes its bytes and its charge.
    fn change<T>(&self, change: impl FnOnce(&mut MappingCache) -> T) -> T {
        let mut cache = self.cache.lock();
        let changed = change(&mut cache);
        self.cached_bytes.store(cache.bytes(), Ordering::Relaxed);
        self.cached_charged.store(cache.charged(), Ordering::Relaxed);
        changed
    }

    /// Visits the lock of the mapping cache.
    pub fn visit_locks(&self, visit: &mut Visit<'_>) {
        visit("mappings->lock", &self.cache);
    }
}

/// Returns whether an extent in memory is free for a mapping, if the window keeps such extents. If
/// not, zones give back theirs.
fn finds_kept(zones: &Zones, blocks: u32, align: u32) -> bool {
    let has_kept = || zones.arena().has_kept(blocks, align);
    zones.arena().keeps() && (has_kept() || zones.give_back() > 0 && has_kept())
}

fn describe(zones: &Zones, frames: u32, extent: Extent, notes: Notes) {
    debug_assert!(frames <= extent.charged && extent.charged <= extent.blocks * PAGEBLOCK_FRAMES);
    let pfn = extent.first.first();
    zones.frames().set_link(pfn, frames);
    zones.frames().set_link(pfn.plus(1), extent.blocks);
    zones.frames().set_link(pfn.plus(2), extent.charged);
    zones.frames().set_link(pfn.plus(4), notes.sample);
    zones.frames().set_link(pfn.plus(5), notes.sparse);
    zones.frames().set_link(pfn.plus(6), extent.node);
    zones.frames().set_kind(pfn, 1, Kind::MAPPING);
}

/// Gives a charged extent back to the window, and uncharges it.
fn release(zones: &Zones, extent: Extent) {
    zones.memory().give_back(extent.first, extent.blocks);
    zones.budget().uncharge_mapping(extent.charged);
}
