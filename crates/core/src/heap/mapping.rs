//! Mappings: requests above 1 MiB, as runs of whole pageblocks of the reservation.
//!
//! The run of a mapping is committed whole; what is not touched costs nothing. The link words of
//! its first frames describe it: `link[0]` frames in use, `link[1]` pageblocks of the run,
//! `link[2]` frames charged to the budget: as many as have been in use since the run was fresh,
//! because those may be in memory.
//! Freed runs are kept with their memory for reuse, up to a bound, so that a program that
//! allocates and frees 10 MiB in a loop makes no system call.
//!
//! Equations: `frames <= charged <= blocks * 512`; `kept_bytes = sum of kept runs <= KEPT_BYTES`.

use crate::frame::{
    FRAME_BYTES, Kind, PAGEBLOCK_BYTES, PAGEBLOCK_FRAMES, PageblockIndex, Pfn, Side,
};
use crate::pcp::PageAllocator;
use quarry_sys::lock::{CountedLock, LockStats};
use quarry_sys::primitive::{AtomicUsize, Ordering};

/// Most bytes of freed mappings kept with their memory.
const KEPT_BYTES: usize = 64 << 20;
/// Most freed mappings kept.
const KEPT_RUNS: usize = 32;

#[derive(Clone, Copy)]
struct Run {
    first: PageblockIndex,
    blocks: u32,
    /// Frames in the budget.
    charged: u32,
}

/// A freed run, with the number of runs that had been kept before it.
#[derive(Clone, Copy)]
struct KeptRun {
    run: Run,
    number: u64,
}

struct Kept {
    /// Oldest first.
    runs: [KeptRun; KEPT_RUNS],
    count: usize,
    bytes: usize,
    so_far: u64,
}

/// A mapping that was handed out.
#[derive(Clone, Copy, Debug)]
pub struct Mapping {
    /// Its first frame.
    pub pfn: Pfn,
    /// Whether every byte is known to be zero.
    pub zeroed: bool,
}

/// All mappings of a heap.
pub struct Mappings {
    kept: CountedLock<Kept>,
    live: AtomicUsize,
    /// `Kept::bytes`, to be read without the lock.
    kept_bytes: AtomicUsize,
}

const NO_RUN: Run = Run { first: PageblockIndex(0), blocks: 0, charged: 0 };

fn blocks_of(frames: u32) -> u32 {
    frames.div_ceil(PAGEBLOCK_FRAMES)
}

fn bytes_of(blocks: u32) -> usize {
    blocks as usize * PAGEBLOCK_BYTES
}

/// Frames that hold `bytes`, where the reservation can have as many.
#[must_use]
pub fn frames_of(bytes: usize) -> Option<u32> {
    u32::try_from(bytes.div_ceil(FRAME_BYTES)).ok().filter(|frames| *frames < u32::MAX / 2)
}

impl Mappings {
    /// No mappings.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            kept: CountedLock::new(Kept {
                runs: [KeptRun { run: NO_RUN, number: 0 }; KEPT_RUNS],
                count: 0,
                bytes: 0,
                so_far: 0,
            }),
            live: AtomicUsize::new(0),
            kept_bytes: AtomicUsize::new(0),
        }
    }

    /// Mappings in use.
    #[must_use]
    pub fn live(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }

    /// A mapping of `frames` frames at a multiple of `align` bytes (a power of two).
    pub fn alloc(&self, pages: &PageAllocator, frames: u32, align: usize) -> Option<Mapping> {
        let blocks = blocks_of(frames);
        let align_blocks = u32::try_from(align.div_ceil(PAGEBLOCK_BYTES)).ok()?;
        let is_aligned = |run: &Run| {
            (pages.arena().address(run.first.first()).as_ptr() as usize).is_multiple_of(align)
        };
        let reused = {
            let mut kept = self.kept.lock();
            let run = kept.take(blocks, is_aligned);
            self.publish(&kept);
            run
        };
        let reused = reused.and_then(|run| self.recharge(pages, run, frames));
        let zeroed = reused.is_none();
        let run = match reused {
            Some(run) => run,
            None => self.fresh(pages, frames, align_blocks)?,
        };
        let pfn = run.first.first();
        describe(pages, frames, run);
        self.live.fetch_add(1, Ordering::Relaxed);
        Some(Mapping { pfn, zeroed })
    }

    /// A kept run for a mapping of `frames` frames: charged for those that it has not had yet, or
    /// released where the limit does not allow them.
    fn recharge(&self, pages: &PageAllocator, run: Run, frames: u32) -> Option<Run> {
        let more = frames.saturating_sub(run.charged);
        if !self.charge(pages, more) {
            release(pages, run);
            return None;
        }
        Some(Run { charged: run.charged + more, ..run })
    }

    /// A run for `frames` frames that is charged and committed.
    fn fresh(&self, pages: &PageAllocator, frames: u32, align_blocks: u32) -> Option<Run> {
        if !self.charge(pages, frames) {
            return None;
        }
        let run = self.take_run(pages, blocks_of(frames), align_blocks);
        if run.is_none() {
            pages.uncharge(frames);
        }
        Some(Run { charged: frames, ..run? })
    }

    /// Charges frames, in place of kept runs where the limit leaves no other way.
    fn charge(&self, pages: &PageAllocator, frames: u32) -> bool {
        pages.charge(frames) || (self.release_kept(pages) > 0 && pages.charge(frames))
    }

    /// A run that is committed and not charged; where address space is short, in place of kept
    /// ones, and then of pageblocks that zones have and do not use.
    fn take_run(&self, pages: &PageAllocator, blocks: u32, align_blocks: u32) -> Option<Run> {
        let take = || {
            let arena = pages.arena();
            let first = arena.take(pages.frames(), Side::Mapping, blocks, align_blocks.max(1));
            first
                .ok()
                .map(|first| Run { first, blocks, charged: 0 })
                .filter(|run| commit(pages, *run))
        };
        take()
            .or_else(|| if self.release_kept(pages) > 0 { take() } else { None })
            .or_else(|| if pages.give_back() > 0 { take() } else { None })
    }

    /// Frames of the mapping that starts at `pfn`.
    #[must_use]
    pub fn frames(&self, pages: &PageAllocator, pfn: Pfn) -> u32 {
        pages.frames().link(pfn)
    }

    /// Pageblocks of the run of the mapping that starts at `pfn`.
    #[must_use]
    pub fn blocks(&self, pages: &PageAllocator, pfn: Pfn) -> u32 {
        pages.frames().link(pfn.plus(1))
    }

    /// Frames in the budget for the mapping that starts at `pfn`.
    #[must_use]
    pub fn charged(&self, pages: &PageAllocator, pfn: Pfn) -> u32 {
        pages.frames().link(pfn.plus(2))
    }

    /// Frames in the budget for kept runs.
    #[must_use]
    pub fn kept_charged(&self) -> u64 {
        let kept = self.kept.lock();
        kept.runs[..kept.count].iter().map(|kept| u64::from(kept.run.charged)).sum()
    }

    /// The run of the mapping that starts at `pfn`.
    fn run_of(&self, pages: &PageAllocator, pfn: Pfn) -> Run {
        let (blocks, charged) = (self.blocks(pages, pfn), self.charged(pages, pfn));
        Run { first: pfn.pageblock(), blocks, charged }
    }

    /// Checks the equations of kept runs.
    ///
    /// # Errors
    /// The first one that does not hold.
    pub fn validate(&self) -> Result<(), &'static str> {
        let kept = self.kept.lock();
        let runs = &kept.runs[..kept.count];
        if runs.iter().map(|kept| bytes_of(kept.run.blocks)).sum::<usize>() != kept.bytes {
            return Err("kept_bytes != sum of kept runs");
        }
        if kept.bytes > KEPT_BYTES || kept.bytes != self.kept_bytes() {
            return Err("kept_bytes exceeds its bound, or is published wrongly");
        }
        if runs.iter().any(|kept| kept.run.charged > kept.run.blocks * PAGEBLOCK_FRAMES) {
            return Err("a kept run is charged for more frames than it has");
        }
        if !runs.is_sorted_by_key(|kept| kept.number) {
            return Err("kept runs are not in the order in which they came");
        }
        Ok(())
    }

    /// Frees the mapping that starts at `pfn`.
    pub fn free(&self, pages: &PageAllocator, pfn: Pfn) {
        let run = self.run_of(pages, pfn);
        pages.frames().set_kind(pfn, 1, Kind::NONE);
        self.live.fetch_sub(1, Ordering::Relaxed);
        if bytes_of(run.blocks) > KEPT_BYTES {
            release(pages, run);
            return;
        }
        loop {
            let mut kept = self.kept.lock();
            if kept.has_room_for(run) {
                kept.put(run);
                self.publish(&kept);
                return;
            }
            let oldest = kept.take_oldest();
            self.publish(&kept);
            drop(kept);
            release(pages, oldest);
        }
    }

    /// Changes the mapping that starts at `pfn` to `frames` frames, in place or by moving its
    /// pages; `None` where neither is possible, and then nothing has changed.
    pub fn resize(&self, pages: &PageAllocator, pfn: Pfn, frames: u32) -> Option<Pfn> {
        let old = self.run_of(pages, pfn);
        let blocks = blocks_of(frames);
        if blocks < old.blocks {
            let kept = old.charged.min(blocks * PAGEBLOCK_FRAMES);
            let first = PageblockIndex(old.first.0 + blocks);
            let (rest, charged) = (old.blocks - blocks, old.charged - kept);
            release(pages, Run { first, blocks: rest, charged });
            describe(pages, frames, Run { blocks, charged: kept, ..old });
            return Some(pfn);
        }
        // Only what comes on top is charged: also where the pages move, they are never held twice.
        let more = frames.saturating_sub(old.charged);
        if !self.charge(pages, more) {
            return None;
        }
        let charged = old.charged + more;
        let new = if blocks == old.blocks || self.extend(pages, old, blocks) {
            Some(Run { blocks, charged, ..old })
        } else {
            self.relocate(pages, old, blocks).map(|new| Run { charged, ..new })
        };
        match new {
            Some(new) => describe(pages, frames, new),
            None => pages.uncharge(more),
        }
        new.map(|new| new.first.first())
    }

    /// Takes the pageblocks behind a run, if they are free.
    fn extend(&self, pages: &PageAllocator, old: Run, blocks: u32) -> bool {
        let first = PageblockIndex(old.first.0 + old.blocks);
        let more = blocks - old.blocks;
        pages.arena().take_at(pages.frames(), first, more).is_ok()
            && commit(pages, Run { first, blocks: more, charged: 0 })
    }

    /// Moves the pages to a new run: page-table work instead of copying.
    fn relocate(&self, pages: &PageAllocator, old: Run, blocks: u32) -> Option<Run> {
        let run = self.take_run(pages, blocks, 1)?;
        let arena = pages.arena();
        let (from, to) = (old.first.first(), run.first.first());
        let bytes = bytes_of(old.blocks);
        if arena.os().move_pages(arena.address(from), arena.address(to), bytes).is_err() {
            unmap(pages, run);
            return None;
        }
        pages.frames().set_kind(from, 1, Kind::NONE);
        unmap(pages, old);
        Some(run)
    }

    /// Gives the memory of all freed mappings back; returns the bytes.
    pub fn release_kept(&self, pages: &PageAllocator) -> usize {
        self.release_unused_since(pages, u64::MAX)
    }

    /// Runs kept so far, those included that have been reused or released since.
    #[must_use]
    pub fn kept_so_far(&self) -> u64 {
        self.kept.lock().so_far
    }

    /// Gives the memory of those freed mappings back that have been kept since fewer than `number`
    /// runs had been kept; returns the bytes.
    pub fn release_unused_since(&self, pages: &PageAllocator, number: u64) -> usize {
        let mut bytes = 0;
        loop {
            let mut kept = self.kept.lock();
            if kept.count == 0 || kept.runs[0].number >= number {
                return bytes;
            }
            let run = kept.take_oldest();
            self.publish(&kept);
            drop(kept);
            bytes += bytes_of(run.blocks);
            release(pages, run);
        }
    }

    /// Bytes of freed mappings kept.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.kept_bytes.load(Ordering::Relaxed)
    }

    fn publish(&self, kept: &Kept) {
        self.kept_bytes.store(kept.bytes, Ordering::Relaxed);
    }

    /// Counters of the lock.
    #[must_use]
    pub fn lock_stats(&self) -> LockStats {
        self.kept.stats()
    }

    /// Takes the lock before `fork`.
    pub fn lock_for_fork(&self) {
        self.kept.lock_for_fork();
    }

    /// Releases it on either side of `fork`.
    ///
    /// # Safety
    /// The calling thread took it by [`lock_for_fork`](Self::lock_for_fork).
    pub unsafe fn unlock_after_fork(&self) {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.kept.unlock_after_fork() };
    }
}

impl Default for Mappings {
    fn default() -> Self {
        Self::new()
    }
}

impl Kept {
    /// The smallest kept run of at least `blocks` that wastes at most a quarter.
    fn take(&mut self, blocks: u32, is_aligned: impl Fn(&Run) -> bool) -> Option<Run> {
        let fits = |run: &Run| {
            run.blocks >= blocks && run.blocks - blocks <= blocks / 4 && is_aligned(run)
        };
        let best = (0..self.count)
            .filter(|index| fits(&self.runs[*index].run))
            .min_by_key(|index| self.runs[*index].run.blocks)?;
        Some(self.remove(best))
    }

    fn take_oldest(&mut self) -> Run {
        self.remove(0)
    }

    fn remove(&mut self, index: usize) -> Run {
        let run = self.runs[index].run;
        self.runs.copy_within(index + 1..self.count, index);
        self.count -= 1;
        self.bytes -= bytes_of(run.blocks);
        run
    }

    fn has_room_for(&self, run: Run) -> bool {
        self.count < KEPT_RUNS && self.bytes + bytes_of(run.blocks) <= KEPT_BYTES
    }

    fn put(&mut self, run: Run) {
        self.runs[self.count] = KeptRun { run, number: self.so_far };
        self.so_far += 1;
        self.count += 1;
        self.bytes += bytes_of(run.blocks);
    }
}

fn describe(pages: &PageAllocator, frames: u32, run: Run) {
    debug_assert!(frames <= run.charged && run.charged <= run.blocks * PAGEBLOCK_FRAMES);
    let pfn = run.first.first();
    pages.frames().set_link(pfn, frames);
    pages.frames().set_link(pfn.plus(1), run.blocks);
    pages.frames().set_link(pfn.plus(2), run.charged);
    pages.frames().set_kind(pfn, 1, Kind::MAPPING);
}

/// Makes a run accessible, or gives it back.
fn commit(pages: &PageAllocator, run: Run) -> bool {
    let arena = pages.arena();
    let done = arena.commit(run.first, run.blocks).is_ok();
    if !done {
        arena.give_back(run.first, run.blocks);
    }
    done
}

/// Purges a run and gives its address space back. Where the OS refuses to purge (locked memory),
/// the run stays taken: its contents are unknown, and a mapping promises zeroes.
fn unmap(pages: &PageAllocator, run: Run) {
    let arena = pages.arena();
    if arena.os().purge(arena.address(run.first.first()), bytes_of(run.blocks)).is_ok() {
        arena.give_back(run.first, run.blocks);
    }
}

/// Gives a charged run back.
fn release(pages: &PageAllocator, run: Run) {
    unmap(pages, run);
    pages.uncharge(run.charged);
}
