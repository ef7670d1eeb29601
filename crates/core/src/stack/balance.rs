//! Balancing the budget: what the background does below the low mark, until the high mark is
//! reached (`balance_pgdat` of kswapd, Linux 6.x), and what a program asks for.
//!
//! A balance makes passes. Each looks at a part of everything that can be freed: at priority 12 at
//! one page in 4,096, and at priority 0 at all of them. A pass
//!
//! 1. takes back what Quarry itself holds: cached mappings, barns, and from priority 9 on, or where
//!    objects have been freed, everything that is parked;
//! 2. scans cached pages: `pages >> priority`, down to the floor that the heap leaves the cache;
//! 3. asks each shrinker: `count >> priority * 4 / seeks`;
//!
//! where 2 and 3 share the work by what it costs to have things again (see `cost`). So pages and
//! the objects of each shrinker become fewer in proportion, and none is emptied before the others
//! are touched. A pass that frees an eighth of what is missing is followed by one of the same
//! priority, any other by one of the next. (kswapd stays where it has looked at as many pages as it
//! wants to free; but an object that was looked at need not be a page less.)
//!
//! Shrinkers are functions of the program. They run outside of the caller's gate, with no lock of
//! the stack held, and while the task is marked as one that reclaims (see `Reclaimers`). A balance
//! ends after 64 passes, whatever they say.

use super::balancing::add;
use super::cost::Share;
use super::instance::{Stack, StackConfig};
use super::pressure::{Pressure, level_of};
use super::shrinkers::{ReclaimCaller, Shrunk, objects_in};
use crate::frame::FRAME_BYTES;
use crate::page_cache::{Event, ScanFor, ScanRequest};
use crate::slab::SlabPolicy;
use crate::zone::{Entry, InReclaim, Mark, Reclaiming};
use quarry_sys::percpu::PerCpu;

/// The priority of a first pass (`DEF_PRIORITY`, Linux 2.6 to 6.18).
const FIRST_PRIORITY: u32 = 12;
/// From here on Quarry takes back what CPUs have parked.
const PARKED_PRIORITY: u32 = 9;
/// Passes of a balance at most.
const MOST_PASSES: u32 = 64;
/// Nodes of shadow entries that a pass frees at most on each node of memory.
const SHADOW_NODES: usize = 128;
/// The part of what is missing that a pass has to free for another one of its priority.
const ENOUGH: u32 = 8;

/// Where a balance ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// The high mark of the budget is reached.
    HighMark,
    /// No more frames than these are in use.
    Used(u32),
}

/// What a balance has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Balanced {
    /// Passes; 0 where there was nothing to do, or the task reclaims already.
    pub passes: u32,
    /// The last priority.
    pub priority: u32,
    /// Pages of the cache that were looked at, and evicted.
    pub pages: (u64, u64),
    /// Objects that shrinkers looked at, and said they had freed.
    pub objects: (u64, u64),
    /// Frames that are still missing.
    pub missing: u32,
}

/// A balance under way.
struct Run<'a> {
    goal: Goal,
    caller: ReclaimCaller,
    priority: u32,
    passes: u32,
    /// What CPUs have parked has been taken back since something was freed.
    has_drained: bool,
    /// What page lists of all CPUs hold has been taken back.
    has_drained_lists: bool,
    shares: (Share, Share),
    /// Since the last level was told.
    window: Shrunk,
    pages: Shrunk,
    objects: Shrunk,
    _inside: InReclaim<'a>,
    _active: Reclaiming<'a>,
}

impl<C: StackConfig> Stack<C> {
    /// See [`Upkeep::balance`](super::upkeep::Upkeep::balance).
    pub(super) fn balance<G>(
        &self,
        caller: ReclaimCaller,
        goal: Goal,
        enter: impl Fn() -> G,
    ) -> Balanced {
        let (zones, counts) = (self.pages().zones(), &self.balancing.counts);
        let Entry::Entered(inside) = zones.budget().reclaimers().enter() else {
            return Balanced::default();
        };
        self.scan_groups(&enter);
        if self.missing(goal) == 0 {
            self.note_high();
            return Balanced::default();
        }
        zones.note_short(true);
        let used = zones.budget().used();
        let mut run = Run {
            goal,
            caller,
            priority: FIRST_PRIORITY,
            passes: 0,
            has_drained: false,
            has_drained_lists: false,
            shares: self.shares(&enter),
            window: Shrunk::default(),
            pages: Shrunk::default(),
            objects: Shrunk::default(),
            _inside: inside,
            _active: zones.reclaiming(|_| true),
        };
        let mut level = self.balancing.pressure.level();
        while self.pass(&mut run, &enter) {
            if zones.budget().is_below(Mark::Low) {
                level = level_of(&mut run.window, run.priority, level);
                self.balancing.pressure.tell(level);
            }
        }
        let missing = self.missing(goal);
        if missing > 0 && zones.budget().is_below(Mark::Low) {
            self.balancing.pressure.tell(Pressure::Critical);
        }
        self.note_high();
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

    /// Frames that are in use beyond a goal.
    pub(super) fn missing(&self, goal: Goal) -> u32 {
        let budget = self.pages().zones().budget();
        match goal {
            Goal::HighMark => budget.missing(Mark::High),
            Goal::Used(frames) => budget.used().saturating_sub(frames),
        }
    }

    /// Takes the marks of a shortage away, where the high mark is reached.
    fn note_high(&self) {
        let zones = self.pages().zones();
        if !zones.budget().is_below(Mark::High) {
            zones.note_short(false);
            self.balancing.pressure.tell(Pressure::None);
        }
    }

    /// What pages and objects bear of this balance.
    fn shares<G>(&self, enter: &impl Fn() -> G) -> (Share, Share) {
        // A function of the program.
        let objects = self.balancing.shrinkers.refaults();
        let _inside = enter();
        let pages = self.used_page_cache().map_or(0, |cache| cache.events()[Event::Restored]);
        let mut costs = self.balancing.costs.lock();
        costs.note(pages, objects, self.listed_pages());
        (costs.of_pages(), costs.of_objects())
    }

    /// Takes from groups what they have above their high limits.
    fn scan_groups<G>(&self, enter: &impl Fn() -> G) {
        let (Some(cache), groups) = (self.used_page_cache(), &self.balancing.groups) else {
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
            let request = ScanRequest { who, most: above, most_scanned, until_ns: u64::MAX };
            cache.reclaim_group(id, &request);
        }
    }

    /// Pages on the lists of all nodes. O(nodes).
    pub(super) fn listed_pages(&self) -> u64 {
        let Some(cache) = self.used_page_cache() else { return 0 };
        let nodes = self.pages().zones().all().map(|zone| cache.list_sizes(zone.node()));
        nodes.map(|sizes| sizes.active + sizes.inactive).sum()
    }

    /// One pass; returns whether another one is to follow.
    fn pass<G>(&self, run: &mut Run<'_>, enter: &impl Fn() -> G) -> bool {
        run.passes += 1;
        let before = self.missing(run.goal);
        {
            let _inside = enter();
            self.take_own(run);
            if self.missing(run.goal) == 0 {
                return false;
            }
            self.scan_pages(run);
        }
        self.ask_shrinkers(run);
        let freed = before.saturating_sub(self.missing(run.goal));
        let is_enough = freed > 0 && freed >= before / ENOUGH;
        if self.missing(run.goal) == 0 || run.passes >= MOST_PASSES {
            return false;
        }
        if !is_enough && run.priority == 0 {
            return false;
        }
        run.priority -= u32::from(!is_enough);
        true
    }

    /// What Quarry itself holds.
    fn take_own(&self, run: &mut Run<'_>) {
        let (inner, missing) = (self.inner(), self.missing(run.goal));
        inner.mappings.shrink_cache(inner.pages, missing);
        if run.passes == 1 {
            inner.slab.relieve(&self.context());
        }
        if run.priority <= PARKED_PRIORITY && !run.has_drained && self.missing(run.goal) > 0 {
            run.has_drained = true;
            self.shrink_all();
        }
    }

    fn scan_pages(&self, run: &mut Run<'_>) {
        let Some(cache) = self.used_page_cache() else { return };
        for zone in self.pages().zones().all() {
            let sizes = cache.list_sizes(zone.node());
            let listed = sizes.active + sizes.inactive;
            let most_scanned = run.shares.0.of(listed >> run.priority);
            let missing = u64::from(self.missing(run.goal));
            let missing = match run.caller {
                ReclaimCaller::Background => missing.min(self.spare_frames(cache)),
                ReclaimCaller::Explicit => missing,
            } as usize;
            if most_scanned == 0 || missing == 0 {
                continue;
            }
            let most_scanned = usize::try_from(most_scanned).unwrap_or(usize::MAX);
            let who = ScanFor::Background;
            let request = ScanRequest { who, most: missing, most_scanned, until_ns: u64::MAX };
            let done = cache.reclaim(zone.node(), &request);
            run.note_pages(Shrunk { scanned: done.scanned, freed: done.freed });
            if done.freed > 0 && self.missing(run.goal) > 0 {
                self.drain_lists(run);
            }
            cache.shrink_shadows(zone.node(), SHADOW_NODES);
        }
    }

    /// Takes back what page lists hold: what was freed is on one, where it is still in use for the
    /// budget. The lists of other CPUs only once, because those who use them take it again.
    fn drain_lists(&self, run: &mut Run<'_>) {
        match core::mem::replace(&mut run.has_drained_lists, true) {
            true => self.pages().drain_slot(self.fast.percpu.current()),
            false => self.pages().drain_all(),
        }
    }

    /// Not inside the gate.
    fn ask_shrinkers(&self, run: &mut Run<'_>) {
        let most = objects_in(self.pages().zones().budget().used() as usize * FRAME_BYTES);
        let shrinkers = &self.balancing.shrinkers;
        let done = shrinkers.shrink(run.caller, run.priority, run.shares.1, most);
        run.note_objects(done);
    }
}

impl Run<'_> {
    fn note_pages(&mut self, done: Shrunk) {
        self.pages += done;
        self.window += done;
    }

    fn note_objects(&mut self, done: Shrunk) {
        self.objects += done;
        self.window += done;
        // They are in the arrays of this CPU, and their slabs may be empty by now.
        self.has_drained &= done.freed == 0;
    }
}
