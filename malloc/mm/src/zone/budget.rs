//! The budget: the limit of frames that may be in use at once, and the marks below it.
//!
//! Zones charge frames that leave their free lists and uncharge those that come back; the heap
//! charges its mappings. Free memory does not count, because purging gives it back to the system.
//!
//! The marks are computed as in the kernel (see `watermark`), with the limit instead of the managed
//! frames: `min` grows with the square root of the limit, the gaps grow with the limit. The marks
//! are compared with `free = limit - used`:
//!
//! * below `low` the reclaim thread works, until `free` reaches `high`;
//! * the frames below `min` are a reserve for tasks that reclaim, once the program has a shrinker
//!   or page cache ([`keep_reserve`](Budget::keep_reserve)); without these the program can use the
//!   whole limit.
//!
//! Invariants: `used <= limit` whenever a charge succeeds, and `used <= ceiling` unless the task
//! that charges reclaims; `used + exempt` = sum over zones of frames outside their free lists +
//! `mapped` + frames of claims (see `reclaimers`); `min <= low <= high <= limit`, all 0 if there is
//! no limit;
//! `ceiling = limit - min` if there is a reserve, else `limit`.

use super::reclaimers::{Entry, InReclaim, Reclaimers};
use super::watermark::{Mark, Marks, SCALE_FACTOR, SharedMarks};
use quarry_sys::broken::{Broken, Check};
use quarry_sys::primitive::{
    AtomicBool, AtomicU32,
    Ordering::{Relaxed, SeqCst},
};

/// The high mark is at most the limit divided by this; else `min` would exceed a small limit.
const MOST_OF_LIMIT: u32 = 4;

/// The options that, together with the limit, determine the marks of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkOptions {
    /// Frames of the min mark (`vm.min_free_kbytes`); `None` leaves it to the kernel's formula.
    pub min: Option<u32>,
    /// The gaps between the marks, in units of 1/10,000 of the limit (`vm.watermark_scale_factor`,
    /// 1 to 3,000).
    pub scale: u32,
}

impl Default for MarkOptions {
    fn default() -> Self {
        Self { min: None, scale: SCALE_FACTOR }
    }
}

/// In a cache line of its own: all CPUs write it, and read the other fields under a zone's lock. On
/// 26 simulated cores, requests for blocks of 2 MiB take less than half as long because of this.
#[repr(align(64))]
struct Used(AtomicU32);

/// The frames in use, their limit, and the marks of that limit.
pub struct Budget {
    used: Used,
    mapped: AtomicU32,
    exempt: AtomicU32,
    limit: AtomicU32,
    ceiling: AtomicU32,
    /// The ceiling for batches: `limit - low` if there is a reserve, else `limit`.
    batch_ceiling: AtomicU32,
    marks: SharedMarks,
    /// The min mark that the options set; all ones if the formula determines it.
    chosen_min: AtomicU32,
    scale: AtomicU32,
    has_reserve: AtomicBool,
    reclaimers: Reclaimers,
}

impl Budget {
    /// A budget of `limit` frames, none of them in use.
    #[must_use]
    pub fn new(limit: u32) -> Self {
        let budget = Self {
            used: Used(AtomicU32::new(0)),
            mapped: AtomicU32::new(0),
            exempt: AtomicU32::new(0),
            limit: AtomicU32::new(limit),
            ceiling: AtomicU32::new(limit),
            batch_ceiling: AtomicU32::new(limit),
            marks: SharedMarks::default(),
            chosen_min: AtomicU32::new(u32::MAX),
            scale: AtomicU32::new(SCALE_FACTOR),
            has_reserve: AtomicBool::new(false),
            reclaimers: Reclaimers::new(),
        };
        budget.refresh();
        budget
    }

    /// Charges `count` blocks of `frames` frames, or as many of them as fit; returns how many.
    #[inline]
    pub(super) fn charge_blocks(&self, count: u32, frames: u32) -> u32 {
        if count == 1 {
            return self.charge_one(frames);
        }
        // A batch for a CPU's list does not take `free` below the low mark: it would wake the
        // reclaim thread for pages that the program has not requested. A single block may.
        match self.charge_below(&self.batch_ceiling, count, frames) {
            0 if count > 0 => self.charge_one(frames),
            fit => fit,
        }
    }

    #[inline]
    fn charge_one(&self, frames: u32) -> u32 {
        match self.charge_below(&self.ceiling, 1, frames) {
            0 => self.charge_reserve(frames),
            fit => fit,
        }
    }

    #[inline]
    fn charge_below(&self, bound: &AtomicU32, count: u32, frames: u32) -> u32 {
        let mut used = self.used.0.load(Relaxed);
        loop {
            let room = bound.load(Relaxed).saturating_sub(used) / frames;
            let fit = count.min(room);
            if fit == 0 {
                return 0;
            }
            match self.used.0.compare_exchange_weak(used, used + fit * frames, Relaxed, Relaxed) {
                Ok(_) => return fit,
                Err(now) => used = now,
            }
        }
    }

    /// Charges `frames` for a task that reclaims: to its claim, or without a claim to the reserve.
    #[cold]
    fn charge_reserve(&self, frames: u32) -> u32 {
        match self.reclaimers.take(frames) {
            Some(0) => 0,
            Some(held) if held == frames => 1,
            Some(held) => {
                let is_charged = self.charge_below(&self.ceiling, 1, frames - held);
                if is_charged == 0 {
                    self.reclaimers.keep(held);
                }
                is_charged
            }
            None => self.charge_below(&self.limit, 1, frames),
        }
    }

    /// Uncharges frames, except for those that the running task keeps for its claim.
    #[inline]
    pub(super) fn uncharge(&self, frames: u32) {
        self.release(frames - self.reclaimers.keep(frames));
    }

    #[inline]
    fn release(&self, frames: u32) {
        let before = self.used.0.fetch_sub(frames, Relaxed);
        debug_assert!(before >= frames, "more frames uncharged than were charged");
    }

    /// Marks the running task as reclaiming, with a claim for a request of `frames` frames.
    pub(crate) fn claim(&self, frames: u32) -> Entry<Claim<'_>> {
        match self.reclaimers.enter_for(frames.max(1)) {
            Entry::Entered(inside) => Entry::Entered(Claim { budget: self, inside }),
            Entry::Already => Entry::Already,
            Entry::Crowded => Entry::Crowded,
        }
    }

    pub(crate) fn claimed(&self) -> u32 {
        self.reclaimers.held()
    }

    /// In the child of a fork: releases the claims of the parent's other tasks.
    pub fn adopt_in_child(&self) {
        self.release(self.reclaimers.keep_only_current());
    }

    /// Charges a mapping; returns `false` and charges nothing if it does not fit.
    #[must_use]
    pub(crate) fn charge_mapping(&self, frames: u32) -> bool {
        let fits = frames == 0 || self.charge_blocks(1, frames) == 1;
        if fits {
            self.mapped.fetch_add(frames, Relaxed);
        }
        fits
    }

    pub(crate) fn uncharge_mapping(&self, frames: u32) {
        self.mapped.fetch_sub(frames, Relaxed);
        self.uncharge(frames);
    }

    /// Exempts frames that stay outside the zones, but are inaccessible and so need no memory.
    pub(crate) fn exempt(&self, frames: u32) {
        self.exempt.fetch_add(frames, Relaxed);
        self.release(frames);
    }

    /// Charges exempt frames again: they go back to their zone at once, so no limit holds them up.
    pub(crate) fn end_exemption(&self, frames: u32) {
        self.used.0.fetch_add(frames, Relaxed);
        self.exempt.fetch_sub(frames, Relaxed);
    }

    /// Frames outside the zones that are not charged.
    pub(crate) fn exempted(&self) -> u32 {
        self.exempt.load(Relaxed)
    }

    /// Frames in use, including those on pcp lists and in mappings.
    #[must_use]
    pub fn used(&self) -> u32 {
        self.used.0.load(Relaxed)
    }

    /// Frames of mappings.
    #[must_use]
    pub fn mapped(&self) -> u32 {
        self.mapped.load(Relaxed)
    }

    /// The maximum number of frames that may be in use.
    #[inline]
    #[must_use]
    pub fn limit(&self) -> u32 {
        self.limit.load(Relaxed)
    }

    /// Changes the limit and the marks. Frames in use stay in use, even if they exceed the limit.
    pub fn set_limit(&self, limit: u32) {
        self.limit.store(limit, SeqCst);
        self.refresh();
    }

    /// Chooses how the marks follow from the limit.
    pub fn set_marks(&self, options: MarkOptions) {
        self.chosen_min.store(options.min.unwrap_or(u32::MAX), SeqCst);
        self.scale.store(options.scale.clamp(1, 3000), SeqCst);
        self.refresh();
    }

    /// Keeps the frames below the min mark for tasks that reclaim, from now on.
    pub fn keep_reserve(&self) {
        if !self.has_reserve.swap(true, SeqCst) {
            self.refresh();
        }
    }

    /// Returns whether the frames below the min mark are a reserve.
    #[inline]
    #[must_use]
    pub fn has_reserve(&self) -> bool {
        self.has_reserve.load(Relaxed)
    }

    /// Computes marks and ceilings, again if another task changed an input during the computation.
    fn refresh(&self) {
        let inputs = || {
            let chosen = (self.chosen_min.load(SeqCst), self.scale.load(SeqCst));
            (chosen, self.limit.load(SeqCst), self.has_reserve.load(SeqCst))
        };
        loop {
            let read = inputs();
            let (chosen, limit, has_reserve) = read;
            let marks = marks_of(limit, chosen);
            self.marks.set(marks, SeqCst);
            let (min, low) = if has_reserve { (marks.min, marks.low) } else { (0, 0) };
            self.ceiling.store(limit - min, SeqCst);
            self.batch_ceiling.store(limit - low, SeqCst);
            if inputs() == read {
                return;
            }
        }
    }

    /// The marks, as numbers of free frames (`limit - used`).
    #[must_use]
    pub fn marks(&self) -> Marks {
        self.marks.get()
    }

    /// Frames of the limit that are not in use; 0 if more than the limit are in use.
    #[inline]
    #[must_use]
    pub fn free(&self) -> u32 {
        self.limit().saturating_sub(self.used())
    }

    /// Frames that a task may still take if it does not reclaim.
    #[inline]
    #[must_use]
    pub fn room(&self) -> u32 {
        self.ceiling.load(Relaxed).saturating_sub(self.used())
    }

    /// Returns whether fewer frames than the mark are free; false if there is no limit.
    #[inline]
    #[must_use]
    pub fn is_below(&self, mark: Mark) -> bool {
        self.missing(mark) > 0
    }

    /// Frames to free until the mark is reached, including frames beyond the limit.
    #[inline]
    #[must_use]
    pub fn missing(&self, mark: Mark) -> u32 {
        let bound = self.limit().saturating_sub(self.marks.at(mark));
        self.used().saturating_sub(bound)
    }

    /// The tasks that reclaim now.
    #[must_use]
    pub fn reclaimers(&self) -> &Reclaimers {
        &self.reclaimers
    }

    /// Checks the marks, while no task changes the limit. Returns the first wrong equation.
    pub fn validate(&self) -> Result<(), Broken> {
        let (check, limit, marks) = (Check::of("budget"), self.limit(), self.marks());
        let ordered = marks.min <= marks.low && marks.low <= marks.high && marks.high <= limit;
        check.that(ordered, "min <= low <= high <= limit")?;
        let reserve = if self.has_reserve() { marks.min } else { 0 };
        check.equal(self.ceiling.load(Relaxed), limit - reserve, "ceiling = limit - reserve")
    }
}

/// The frames that a request has collected so far: see `reclaimers`. The drop uncharges them.
pub(crate) struct Claim<'a> {
    budget: &'a Budget,
    inside: InReclaim<'a>,
}

impl Claim<'_> {
    pub(crate) fn missing(&self) -> u32 {
        self.inside.missing()
    }

    /// Charges the frames that the claim still lacks, as far as the ceiling allows; returns whether
    /// the claim is complete now.
    pub(crate) fn collect(&self) -> bool {
        self.inside.give(self.budget.charge_below(&self.budget.ceiling, self.missing(), 1));
        self.missing() == 0
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.budget.release(self.inside.take_all());
    }
}

fn marks_of(limit: u32, (min, scale): (u32, u32)) -> Marks {
    if limit == u32::MAX {
        return Marks::default();
    }
    let min = (min != u32::MAX).then_some(min);
    let marks = Marks::scaled(limit, limit, min, scale);
    let most = limit / MOST_OF_LIMIT;
    if marks.high <= most {
        return marks;
    }
    let part = |mark: u32| (u64::from(mark) * u64::from(most) / u64::from(marks.high)) as u32;
    Marks { min: part(marks.min), low: part(marks.low), high: most }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zone::Entry;

    const MIB: u32 = 256;

    #[test]
    fn marks_grow_with_the_limit() {
        let high = |limit: u32| Budget::new(limit).marks().high;
        assert_eq!(Budget::new(u32::MAX).marks(), Marks::default());
        // min = sqrt(16 * 1048576 kB) = 4096 kB = 1024 frames; the gap is max(min / 4, 262) frames.
        let marks = Budget::new(1024 * MIB).marks();
        assert_eq!((marks.min, marks.low, marks.high), (1024, 1286, 1548));
        assert!(high(512 * 1024 * MIB) > 256 * MIB, "at 512 GiB more than 256 MiB");
        for limit in [0, 1, 31, 100, 256, 2048, 1 << 20, u32::MAX - 1] {
            let budget = Budget::new(limit);
            assert_eq!(budget.validate(), Ok(()), "limit {limit}");
            assert!(budget.marks().high <= limit / 4);
            budget.keep_reserve();
            assert_eq!(budget.validate(), Ok(()), "limit {limit}");
        }
    }

    #[test]
    fn marks_can_be_chosen() {
        let budget = Budget::new(1000 * MIB);
        budget.set_marks(MarkOptions { min: Some(4 * MIB), scale: 100 });
        // A gap is 1 % of the limit, which is more than a quarter of min.
        assert_eq!(budget.marks(), Marks { min: 4 * MIB, low: 14 * MIB, high: 24 * MIB });
        budget.set_limit(100 * MIB);
        assert_eq!(budget.marks(), Marks { min: 4 * MIB, low: 5 * MIB, high: 6 * MIB });
        budget.set_limit(u32::MAX);
        assert_eq!(budget.marks(), Marks::default());
        assert!(!budget.is_below(Mark::High));
    }

    #[test]
    fn the_reserve_is_for_tasks_that_reclaim() {
        let budget = Budget::new(64 * MIB);
        let all = budget.limit();
        assert_eq!(budget.charge_blocks(all, 1), all, "without a reserve all of the limit");
        budget.uncharge(all);
        assert_eq!(budget.charge_blocks(0, 1), 0);
        budget.keep_reserve();
        let min = budget.marks().min;
        assert_eq!(budget.charge_blocks(all, 1), all - budget.marks().low, "a batch");
        for _ in min..budget.marks().low {
            assert_eq!(budget.charge_blocks(all, 1), 1, "one by one");
        }
        assert_eq!(budget.charge_blocks(1, 1), 0);
        assert_eq!((budget.room(), budget.free()), (0, min));
        {
            let Entry::Entered(_inside) = budget.reclaimers().enter() else { panic!("nobody is") };
            assert_eq!(budget.charge_blocks(1, 1), 1);
            let rest = (0..all).take_while(|_| budget.charge_blocks(1, 1) == 1).count();
            assert_eq!(rest as u32, min - 1, "and no more than the limit");
        }
        assert_eq!(budget.missing(Mark::High), budget.marks().high);
        assert_eq!(budget.missing(Mark::Min), min);
        budget.set_limit(all / 2);
        assert_eq!(budget.missing(Mark::Min), all - (all / 2 - budget.marks().min));
    }

    #[test]
    fn what_a_claim_has_freed_is_its_own() {
        let budget = Budget::new(64 * MIB);
        budget.keep_reserve();
        while budget.charge_blocks(1, 1) == 1 {}
        let used = budget.used();
        let Entry::Entered(claim) = budget.claim(100) else { panic!("nobody reclaims") };
        assert!(matches!(budget.claim(1), Entry::Already));
        assert!(!claim.collect(), "there is no room");
        budget.uncharge(60);
        assert_eq!((claim.missing(), budget.claimed(), budget.used()), (40, 60, used));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert_eq!(budget.charge_blocks(1, 1), 0, "the claim has it");
                budget.uncharge(10);
                assert_eq!(budget.charge_blocks(1, 1), 1, "who has no claim frees for all");
            });
        });
        assert!(!claim.collect(), "9 frames were free");
        assert_eq!(budget.charge_blocks(1, 70), 0, "neither the claim nor the reserve has so many");
        assert_eq!((claim.missing(), budget.claimed()), (31, 69));
        assert_eq!(budget.charge_blocks(1, 50), 1);
        budget.uncharge(200);
        assert!(claim.collect() && claim.missing() == 0);
        drop(claim);
        // 50 of the frames came out of the claim.
        assert_eq!((budget.claimed(), budget.used()), (0, used - 60 - 9 + 50 - 200));
    }
}
