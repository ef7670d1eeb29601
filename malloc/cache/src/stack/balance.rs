//! Balances the budget: below the low mark the background thread reclaims up to the high mark
//! (`balance_pgdat` of kswapd, Linux 6.x), and programs can ask for reclaim.
//!
//! A balance first lets shrinkers free what they owe the page cache (see `debt.rs`). Then it makes
//! at most 64 passes. A pass looks at one in `1 << priority` pages and objects. The
//! priority falls from 12 (one in 4,096) to 0 (all of them). Each pass
//!
//! 1. takes back Quarry's stashes: cached mappings, barns (first pass only), and from priority 9 on
//!    all parked objects (once, and once more each time a shrinker has freed objects);
//! 2. scans cached pages: `pages >> priority`, in the background down to the floor of `evict.rs`;
//! 3. asks each shrinker: `count >> priority * 4 / seeks`.
//!
//! `cost.rs` divides the work between steps 2 and 3, so that pages and each shrinker's objects
//! become fewer in proportion. Step 3 asks for one object where step 2 evicts a page of the same
//! part of all, and for a quarter of one where it keeps a page (the first look at a used page only
//! clears the mark of its use): else the objects would go while the scan looks at each page once.
//! If step 2 ends early, because it has evicted all that is missing, step 3 asks for the same part
//! less. (Otherwise a program that uses the memory of freed objects at once loses all objects and
//! keeps its pages: no frame leaves the budget, so passes go on.) A pass waits if it finds more
//! pages of mappings that another task has locked than it evicts: that task may be a request that
//! reclaims, and was preempted.
//!
//! If a pass frees less than an eighth of the missing frames, the next pass has the next lower
//! priority. (kswapd decides by the number of scanned pages. Quarry cannot, because a scanned
//! object need not free a page.)
//!
//! Shrinkers are functions of the program. They run outside of the caller's gate, with no lock of
//! the stack held, while the task is marked as reclaiming (`Reclaimers`).

use super::caching::{PageCaching, add};
use super::cost::Share;
use super::debt::{listed_pages, pay};
use super::evict::spare_frames;
use super::pressure::level_of;
use super::shrinkers::{Ask, ReclaimCaller, Shrunk, objects_in};
use crate::lru::LruPolicy;
use crate::page_cache::{Event, ScanFor, ScanRequest};
use quarry_mm::frame::FRAME_BYTES;
use quarry_mm::stack::{Pressure, StackHost, Stash, nap};
use quarry_mm::zone::{Budget, Entry, InReclaim, Mark, Reclaiming, Zones};
use quarry_sys::percpu::PerCpu;

/// The priority of a first pass (`DEF_PRIORITY`, Linux 2.6 to 6.18).
const FIRST_PRIORITY: u32 = 12;
/// From this priority on, Quarry takes back parked objects.
const PARKED_PRIORITY: u32 = 9;
const MOST_PASSES: u32 = 64;
/// Maximum number of nodes of shadow entries that a pass frees for each NUMA node.
const SHADOW_NODES: usize = 128;
/// So many kept pages cost the shrinkers as much as one evicted page.
const KEPT_FOR_EVICTED: u64 = 4;
/// A pass keeps its priority if it frees at least `1 / ENOUGH` of the missing frames.
const ENOUGH: u32 = 8;

/// The goal of a balance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// The high mark of the budget is reached, and the request that waits finds its frames free.
    HighMark,
    /// No more frames than these are in use.
    Used(u32),
    /// One pass at this priority was made, whatever it has freed.
    OnePass(u32),
}

impl Goal {
    /// Frames above the high mark, or above this goal, that no request is about to take.
    pub(super) fn spare(self, budget: &Budget) -> u32 {
        let needed = budget.marks().high.saturating_add(budget.reclaimers().lacking());
        let spare = budget.free().saturating_sub(needed);
        match self {
            Self::Used(frames) => spare.min(frames.saturating_sub(budget.used())),
            Self::HighMark | Self::OnePass(_) => spare,
        }
    }
}

/// The result of a balance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Balanced {
    /// Passes; 0 if there was nothing to do, or the task reclaims already.
    pub passes: u32,
    /// The priority of the last pass.
    pub priority: u32,
    /// Cached pages that scans looked at, and those of them that they evicted.
    pub pages: (u64, u64),
    /// Objects that shrinkers looked at, and objects that they reported as freed.
    pub objects: (u64, u64),
    /// Frames that the goal still lacks.
    pub missing: u32,
}

struct Run<'a, S> {
    stack: &'a S,
    goal: Goal,
    caller: ReclaimCaller,
    priority: u32,
    passes: u32,
    /// Parked objects were taken back, and no shrinker has freed objects since.
    has_drained: bool,
    has_drained_lists: bool,
    shares: (Share, Share),
    /// Of the pages that this pass selected, those that it did not look at, because the pages
    /// before them were enough, and those that do not count: shrinkers are spared the same part.
    unscanned: (u64, u64),
    /// Naps for tasks that hold locks of mappings.
    naps: u32,
    /// Work since the level of pressure was last computed.
    window: Shrunk,
    pages: Shrunk,
    objects: Shrunk,
    _inside: InReclaim<'a>,
    _active: Reclaiming<'a>,
}

/// Reclaims until `goal` is reached or nothing more can be freed. Calls `enter` around each step
/// that works on the stack itself; functions of the program run between two steps. Does nothing
/// inside another reclaim of the same task.
pub fn balance<P: LruPolicy, S: StackHost<Cache = PageCaching<P>>, G>(
    stack: &S,
    caller: ReclaimCaller,
    goal: Goal,
    enter: impl Fn() -> G,
) -> Balanced {
    let (zones, balancing) = (zones(stack), &stack.cached().balancing);
    let Entry::Entered(inside) = zones.budget().reclaimers().enter() else {
        return Balanced::default();
    };
    scan_groups(stack, &enter);
    let used = zones.budget().used();
    let paid = pay(stack, caller, || goal.spare(zones.budget()), &enter);
    if missing(stack, goal) == 0 && paid.scanned == 0 {
        note_relief(stack);
        return Balanced::default();
    }
    zones.note_short(true);
    let mut run = Run {
        stack,
        goal,
        caller,
        priority: if let Goal::OnePass(priority) = goal { priority } else { FIRST_PRIORITY },
        passes: 0,
        has_drained: false,
        has_drained_lists: false,
        shares: shares(stack, &enter),
        unscanned: (0, 0),
        naps: 0,
        window: Shrunk::default(),
        pages: Shrunk::default(),
        objects: paid,
        _inside: inside,
        _active: zones.reclaiming(|_| true),
    };
    let mut level = balancing.pressure.level();
    while run.missing() > 0 && run.pass(&enter) {
        if zones.budget().is_below(Mark::Low) {
            level = level_of(&mut run.window, run.priority, level);
            balancing.pressure.tell(level);
        }
    }
    let missing = if run.most_passes() > 1 { run.missing() } else { 0 };
    if missing > 0 && zones.budget().is_below(Mark::Low) {
        balancing.pressure.tell(Pressure::Critical);
    }
    note_relief(stack);
    let counts = &balancing.counts;
    add(&counts.runs, 1);
    add(&counts.reached, u64::from(missing == 0));
    add(&counts.passes, run.passes.into());
    add(&counts.pages_scanned, run.pages.scanned);
    add(&counts.pages_freed, run.pages.freed);
    add(&counts.objects_scanned, run.objects.scanned);
    add(&counts.objects_freed, run.objects.freed);
    add(&counts.frames_freed, used.saturating_sub(zones.budget().used()).into());
    Balanced {
        passes: run.passes,
        priority: run.priority,
        pages: (run.pages.scanned, run.pages.freed),
        objects: (run.objects.scanned, run.objects.freed),
        missing,
    }
}

/// Frames in use beyond a goal. O(1).
#[inline]
#[must_use]
pub fn missing<P: LruPolicy, S: StackHost<Cache = PageCaching<P>>>(stack: &S, goal: Goal) -> u32 {
    let budget = zones(stack).budget();
    match goal {
        Goal::HighMark => {
            let bound = budget.limit().saturating_sub(budget.marks().high);
            budget.used().saturating_add(budget.reclaimers().awaited()).saturating_sub(bound)
        }
        Goal::Used(frames) => budget.used().saturating_sub(frames),
        Goal::OnePass(_) => budget.used(),
    }
}

fn zones<P: LruPolicy, S: StackHost<Cache = PageCaching<P>>>(stack: &S) -> &Zones {
    stack.pages().zones()
}

/// If the high mark is reached, records and reports the shortage's end. O(1) if reported already.
pub fn note_relief<P: LruPolicy, S: StackHost<Cache = PageCaching<P>>>(stack: &S) {
    if zones(stack).budget().is_below(Mark::High) {
        return;
    }
    zones(stack).note_short(false);
    if stack.cached().pressure().level() != Pressure::None {
        stack.cached().pressure().tell(Pressure::None);
    }
}

/// Tells the callbacks whether the system is short of memory, outside of this stack's budget.
pub fn note_pressure<P: LruPolicy, S: StackHost<Cache = PageCaching<P>>>(
    stack: &S,
    is_pressed: bool,
) {
    let level = if is_pressed { Pressure::Medium } else { Pressure::None };
    stack.cached().pressure().note_outside(level);
    note_relief(stack);
}

/// The current shortage: the level of the last balance, corrected by the present marks. O(1).
#[must_use]
pub fn pressure<P: LruPolicy, S: StackHost<Cache = PageCaching<P>>>(stack: &S) -> Pressure {
    let (budget, level) = (zones(stack).budget(), stack.cached().pressure().level());
    match budget.is_below(Mark::High) {
        false => stack.cached().pressure().outside(),
        true if budget.is_below(Mark::Low) => level.max(Pressure::Low),
        true => level,
    }
}

fn shares<P: LruPolicy, S: StackHost<Cache = PageCaching<P>>, G>(
    stack: &S,
    enter: &impl Fn() -> G,
) -> (Share, Share) {
    // Calls functions of the program, so not inside the gate.
    let objects = stack.cached().shrinkers().refaults();
    let _inside = enter();
    let cache = PageCaching::opened(stack);
    let pages = cache.map_or(0, |cache| cache.events()[Event::Restored]);
    let listed = cache.map_or(0, |cache| listed_pages(stack, cache));
    let mut costs = stack.cached().balancing.costs.lock();
    costs.note(pages, objects, listed);
    (costs.of_pages(), costs.of_objects())
}

/// Reclaims the frames that groups have above their high limits.
fn scan_groups<P: LruPolicy, S: StackHost<Cache = PageCaching<P>>, G>(
    stack: &S,
    enter: &impl Fn() -> G,
) {
    let (Some(cache), groups) = (PageCaching::opened(stack), stack.groups()) else {
        return;
    };
    if !groups.is_any_above_high() {
        return;
    }
    for (id, group) in groups.iter() {
        let above = group.above_high() as usize;
        if above == 0 {
            continue;
        }
        let _inside = enter();
        let (who, most_scanned) = (ScanFor::Background, 2 * group.used() as usize);
        let until_ns = u64::MAX;
        let request = ScanRequest { who, most: above, most_scanned, until_ns, spares_low: false };
        cache.reclaim_group(id, &request);
    }
}

impl<P: LruPolicy, S: StackHost<Cache = PageCaching<P>>> Run<'_, S> {
    fn missing(&self) -> u32 {
        missing(self.stack, self.goal)
    }

    fn most_passes(&self) -> u32 {
        if let Goal::OnePass(_) = self.goal { 1 } else { MOST_PASSES }
    }

    fn pass<G>(&mut self, enter: &impl Fn() -> G) -> bool {
        self.passes += 1;
        let before = self.missing();
        let (looked_at, busy) = {
            let _inside = enter();
            self.take_own();
            if self.missing() == 0 {
                return false;
            }
            self.scan_pages()
        };
        self.pages += looked_at;
        if busy > looked_at.freed && nap(&mut self.naps) {
            self.unscanned = (0, 0);
            self.passes -= 1;
            return true;
        }
        self.window += looked_at;
        let kept = looked_at.scanned - looked_at.freed;
        // The whole share of the shrinkers is two objects for each page.
        self.unscanned.0 += looked_at.scanned - (looked_at.freed + kept / KEPT_FOR_EVICTED) / 2;
        self.ask_shrinkers();
        let freed = before.saturating_sub(self.missing());
        let is_enough = freed > 0 && freed >= before / ENOUGH;
        let is_last = self.passes >= self.most_passes() || self.priority == 0 && !is_enough;
        if self.missing() == 0 || is_last {
            return false;
        }
        self.priority -= u32::from(!is_enough);
        true
    }

    fn take_own(&mut self) {
        self.stack.give(Stash::Mappings, self.missing());
        if self.passes == 1 {
            self.stack.give(Stash::Barns, self.missing());
        }
        if self.priority <= PARKED_PRIORITY && !self.has_drained && self.missing() > 0 {
            self.has_drained = true;
            self.stack.shrink_all();
        }
    }

    /// Returns what it did, and the number of pages that it left because of other tasks' locks.
    fn scan_pages(&mut self) -> (Shrunk, u64) {
        let stack = self.stack;
        let Some(cache) = PageCaching::opened(stack) else { return Default::default() };
        let (mut looked_at, mut busy) = (Shrunk::default(), 0);
        for zone in zones(stack).all() {
            let sizes = cache.list_sizes(zone.node());
            let listed = sizes.active + sizes.inactive;
            let most_scanned = self.shares.0.of(listed >> self.priority);
            let missing = u64::from(self.missing());
            let most = match self.caller {
                ReclaimCaller::Background => missing.min(spare_frames(stack, cache)),
                ReclaimCaller::Explicit => missing,
            };
            if most_scanned == 0 || most == 0 {
                continue;
            }
            let most_pages = usize::try_from(most_scanned).unwrap_or(usize::MAX);
            let (who, until_ns) = (ScanFor::Background, u64::MAX);
            let request = ScanRequest {
                who,
                most: most as usize,
                most_scanned: most_pages,
                until_ns,
                spares_low: self.priority > 0,
            };
            let done = cache.reclaim(zone.node(), &request);
            looked_at += Shrunk { scanned: done.scanned, freed: done.freed };
            busy += done.busy;
            // Pages that were kept at the floor are no reason to keep objects.
            if most == missing {
                self.unscanned.0 += most_scanned.saturating_sub(done.scanned);
                self.unscanned.1 += most_scanned;
            }
            if done.freed > 0 && self.missing() > 0 {
                self.drain_lists();
            }
            cache.shrink_shadows(zone.node(), SHADOW_NODES);
        }
        (looked_at, busy)
    }

    /// Drains freed pages from pcp lists, where the budget still counts them as in use. Drains the
    /// lists of other CPUs only once, because their threads soon refill these lists.
    fn drain_lists(&mut self) {
        let lists = self.stack.pages();
        match core::mem::replace(&mut self.has_drained_lists, true) {
            true => lists.drain_slot(self.stack.percpu().current()),
            false => lists.drain_all(),
        }
    }

    /// Runs outside of the gate, because it calls functions of the program.
    fn ask_shrinkers(&mut self) {
        let most = objects_in(zones(self.stack).budget().used() as usize * FRAME_BYTES);
        let shrinkers = self.stack.cached().shrinkers();
        let (left, of) = core::mem::take(&mut self.unscanned);
        let ask = Ask::Share(self.priority, self.shares.1.less(left, of));
        let done = shrinkers.shrink(self.caller, ask, most);
        self.objects += done;
        self.window += done;
        // The freed objects are in the arrays of this CPU, and their slabs may be empty by now.
        self.has_drained &= done.freed == 0;
    }
}
