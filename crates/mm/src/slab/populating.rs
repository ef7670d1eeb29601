//! The choice of new slabs that are brought into memory whole, by one call. It costs half of what
//! the page faults of their pages would, or nine tenths where the kernel spends most of the time on
//! finding and clearing a page. There, wider calls save little more: on a virtual machine (Zen 5) a
//! page took 1,430 ns by a fault, 1,370 in calls of 16 KiB, 1,260 of 64 KiB, 1,230 of 2 MiB, and
//! 180 in a huge page that its host had backed before.
//!
//! Objects of up to a page lie in every page of their slab: a program that writes into each of them
//! touches all of it. Of larger objects programs often touch only the front. So a cache of such
//! objects leaves a slab to plain faults now and then, the *sample*, checks later in how many of
//! its pages something was written, and populates as long as the last sample was dense. Pages that
//! hold the start of an object count as written; of the others, which were zero when they were
//! handed out, a few words are read. A program that writes only zeros there counts as one that does
//! not touch them, and pays plain faults.

use super::cache::Cache;
use crate::frame::{Faults, Link, Pfn};
use crate::zone::Zones;
use quarry_sys::os::Os;
use quarry_sys::peek;

/// Slabs are populated once the cache has this many times as much in slabs as the request brings
/// in: memory that is never used then adds an eighth at most.
const SLABS_SHARE: u64 = 8;
/// A sample is looked at once this many more slabs have been made: its objects have been handed out
/// by then, unless another CPU holds them.
const LOOK_AFTER: u32 = 4;
/// While samples are dense, one slab in this many becomes the next sample;
const SAMPLE_EVERY: u32 = 32;
/// while they are not, one in this many: a look at an absent page makes the kernel map it.
const SPARSE_SAMPLE_EVERY: u32 = 16;

/// The places of a page to look at, in bytes after the first of them.
const PLACES: [usize; 4] = [0, 64, 1024, 2560];

/// A cache's knowledge of how much of its slabs is touched.
pub(super) struct Populating {
    /// A slab that was left to plain faults and not looked at yet.
    sample: Link<Pfn>,
    /// Slabs made since that sample.
    since: u32,
    /// True if the last sample was dense.
    is_dense: bool,
    /// True once a sample has been looked at.
    has_looked: bool,
}

/// The treatment of the slabs that one request makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Plan {
    /// Slabs are populated where their objects fill their pages.
    is_due: bool,
    /// Objects lie in every page, so no sample is needed.
    fills_pages: bool,
    is_dense: bool,
    wants_sample: bool,
    /// The sample to look at first.
    look_at: Option<Pfn>,
}

/// The use of a new slab to its cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    /// No sample: populated or not, it shows nothing.
    Ordinary,
    /// Left to plain faults, to show how much of it is touched.
    Sample,
}

impl Populating {
    pub(super) const fn new() -> Self {
        Self { sample: Link::NONE, since: 0, is_dense: false, has_looked: false }
    }

    /// The plan of a request for `bytes` of objects, in a cache that has `slabs` slabs.
    pub(super) fn plan(&self, os: &dyn Os, cache: &Cache, slabs: u64, bytes: usize) -> Plan {
        let slab_bytes = cache.order().bytes();
        let brings_in = bytes.max(slab_bytes) as u64;
        let is_ripe = self.since >= LOOK_AFTER;
        Plan {
            is_due: slabs * slab_bytes as u64 >= SLABS_SHARE * brings_in,
            fills_pages: cache.stride() <= os.page_size(),
            is_dense: self.is_dense,
            wants_sample: match self.sample.get() {
                Some(_) => is_ripe,
                None if self.is_dense => self.since >= SAMPLE_EVERY,
                None => !self.has_looked || self.since >= SPARSE_SAMPLE_EVERY,
            },
            look_at: self.sample.get().filter(|_| is_ripe),
        }
    }

    /// Records the findings of a plan.
    pub(super) fn looked(&mut self, plan: &Plan) {
        self.is_dense = plan.is_dense;
        self.has_looked = true;
        self.sample = Link::NONE;
    }

    /// Counts a new slab.
    pub(super) fn made(&mut self, slab: Pfn, role: Role) {
        if role == Role::Sample {
            self.sample = Link::to(slab);
            self.since = 0;
        } else {
            self.since = self.since.saturating_add(1);
        }
    }

    /// Forgets a slab that goes back to the page allocator.
    pub(super) fn gone(&mut self, slab: Pfn) {
        if self.sample.get() == Some(slab) {
            self.sample = Link::NONE;
        }
    }
}

impl Plan {
    /// Looks at the sample if it is time. Returns whether the caller should record the findings. A
    /// few system calls per page; where they are refused, nothing is dense.
    pub(super) fn look(&mut self, zones: &Zones, cache: &Cache) -> bool {
        if !self.is_due || self.fills_pages {
            return false;
        }
        let Some(sample) = self.look_at.take() else { return false };
        self.is_dense = is_dense(zones, cache, sample);
        zones.note_touched(cache.id().kind(), self.is_dense);
        self.wants_sample = false;
        true
    }

    /// Brings a fresh slab in by the plan, or leaves it to plain faults.
    pub(super) fn bring_in(&mut self, zones: &Zones, cache: &Cache, slab: Pfn) -> Role {
        if !self.is_due {
            return Role::Ordinary;
        }
        let faults = zones.faults(slab);
        if faults == Faults::Whole {
            return Role::Ordinary;
        }
        let is_whole = self.fills_pages || faults == Faults::Huge;
        if !is_whole && self.wants_sample {
            self.wants_sample = false;
            return Role::Sample;
        }
        if is_whole || self.is_dense && matches!(faults, Faults::Plain | Faults::Small) {
            zones.populate(slab, cache.order().frames());
        }
        Role::Ordinary
    }
}

/// Returns whether at least 7/8 of the pages of a slab have been written, as far as can be seen.
fn is_dense(zones: &Zones, cache: &Cache, slab: Pfn) -> bool {
    let arena = zones.arena();
    let (start, page) = (arena.address(slab).as_ptr() as usize, arena.os().page_size());
    let most_blank = cache.order().bytes() / page / 8;
    let mut blank = 0;
    for number in 0..cache.objects() as usize {
        let object = start + cache.first_object() + number * cache.stride();
        let end = object + cache.stride();
        // Pages that lie wholly inside of it; on the others an object starts.
        let inside = (object / page + 1..end / page).map(|index| index * page);
        blank += inside.filter(|at| !is_written(object, *at)).count();
        if blank > most_blank {
            return false;
        }
    }
    true
}

/// Returns whether something other than zeros was found in the page at `page` inside of `object`.
/// Looks at multiples of 64 bytes into the object, as large data is aligned so.
fn is_written(object: usize, page: usize) -> bool {
    let first = object + (page - object).next_multiple_of(64);
    PLACES.iter().any(|offset| peek::is_zero(first + offset) == Some(false))
}
