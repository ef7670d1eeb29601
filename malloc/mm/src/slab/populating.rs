//! Chooses the new slabs that are *populated*: brought into memory whole, by one system call. This
//! costs half as much as the page faults of a slab, or nine tenths as much if the kernel spends
//! most of the time on finding and clearing pages. (On a virtual machine with Zen 5 a page took
//! 1,430 ns by a fault, 1,370 in calls of 16 KiB, 1,260 in calls of 64 KiB, 1,230 in calls of 2
//! MiB, and 180 in a huge page that its host had backed before.)
//!
//! If objects are of at most a page, a program that writes into each of them touches every page of
//! the slab. Of larger objects programs often touch only the front. So a cache of such larger
//! objects sometimes leaves a slab to page faults, as the *sample*. Later it checks how many pages
//! of the sample the program has written. If these are nearly all (the sample is dense), it
//! populates new slabs. Pages in which an object starts count as written. Of the other pages, which
//! were zero when they were handed out, a few words are read; zeros count as not written.

use super::cache::Cache;
use crate::frame::{Faults, Link, Pfn};
use crate::zone::Zones;
use quarry_sys::os::Os;
use quarry_sys::peek;

/// A new slab is populated only if the cache's slabs already have this many times the bytes that a
/// request brings in. So memory that is populated in vain adds at most an eighth.
const SLABS_SHARE: u64 = 8;
/// A sample is checked after this many further slabs, when its objects have been handed out.
const LOOK_AFTER: u32 = 4;
/// One slab in this many becomes a sample while samples are dense.
const SAMPLE_EVERY: u32 = 32;
/// One slab in this many while samples are sparse. A lower number costs memory: checks map pages.
const SPARSE_SAMPLE_EVERY: u32 = 16;

/// Where `is_written` reads: offsets from the page's first byte at a multiple of 64 in its object.
const PLACES: [usize; 4] = [0, 64, 1024, 2560];

pub(super) struct Populating {
    /// A slab that was left to page faults and is not checked yet.
    sample: Link<Pfn>,
    since: u32,
    is_dense: bool,
    /// True once a sample has been checked.
    has_looked: bool,
}

pub(super) struct Plan {
    /// True if the cache is large enough for this request: see [`SLABS_SHARE`].
    is_due: bool,
    /// True if objects are at most a page apart, so that no sample is needed.
    fills_pages: bool,
    is_dense: bool,
    wants_sample: bool,
    look_at: Option<Pfn>,
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

    pub(super) fn looked(&mut self, plan: &Plan) {
        self.is_dense = plan.is_dense;
        self.has_looked = true;
        self.sample = Link::NONE;
    }

    pub(super) fn made(&mut self, slab: Pfn, is_sample: bool) {
        if is_sample {
            self.sample = Link::to(slab);
            self.since = 0;
        } else {
            self.since = self.since.saturating_add(1);
        }
    }

    /// Forgets a slab that is given back or loses pages.
    pub(super) fn gone(&mut self, slab: Pfn) {
        if self.sample.get() == Some(slab) {
            self.sample = Link::NONE;
        }
    }
}

impl Plan {
    /// Checks the sample if this is due; returns whether it did. Makes a few system calls per page.
    /// If the kernel refuses them, the sample does not count as dense.
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

    /// Populates a slab of never touched memory if the plan asks for it. Returns whether the slab
    /// is a sample instead: left to page faults, to show how much of it is touched.
    pub(super) fn bring_in(&self, zones: &Zones, cache: &Cache, slab: Pfn) -> bool {
        let faults = if self.is_due { zones.faults(slab) } else { Faults::Whole };
        if faults == Faults::Whole {
            return false;
        }
        let is_whole = self.fills_pages || faults == Faults::Huge;
        if !is_whole && self.wants_sample {
            return true;
        }
        if is_whole || self.is_dense && matches!(faults, Faults::Plain | Faults::Small) {
            zones.populate(slab, cache.order().frames());
        }
        false
    }
}

/// Returns whether at least 7/8 of the pages of a slab seem to be written.
fn is_dense(zones: &Zones, cache: &Cache, slab: Pfn) -> bool {
    let arena = zones.arena();
    let (start, page) = (arena.address(slab).as_ptr() as usize, arena.os().page_size());
    let most_blank = cache.order().bytes() / page / 8;
    let mut blank = 0;
    for number in 0..cache.objects() as usize {
        let object = start + cache.first_object() + number * cache.stride();
        let end = object + cache.stride();
        // The pages that lie wholly inside the object; on every other page an object starts.
        let inside = (object / page + 1..end / page).map(|index| index * page);
        blank += inside.filter(|at| !is_written(object, *at)).count();
        if blank > most_blank {
            return false;
        }
    }
    true
}

/// Returns whether the page at `page`, inside `object`, is not zero at one of [`PLACES`]. All
/// places are multiples of 64 bytes from the object's start, because programs align large data so.
fn is_written(object: usize, page: usize) -> bool {
    let first = object + (page - object).next_multiple_of(64);
    PLACES.iter().any(|offset| peek::is_zero(first + offset) == Some(false))
}
