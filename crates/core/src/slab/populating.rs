//! Which new slabs of a cache are brought into memory whole, by one call, which costs half of what
//! the page faults of their pages would.
//!
//! Objects of up to a page lie in every page of their slab: whoever writes into each of them
//! touches it all. Of larger ones programs often touch only the front, so a cache of such objects
//! leaves a slab to plain faults now and then, the *sample*, looks later how much of it is in
//! memory, and populates as long as the last sample was dense.

use super::Cache;
use crate::frame::{Faults, MaybePfn, Pfn};
use crate::pcp::PageAllocator;
use quarry_sys::os::Os;

/// A cache has this many times as much in slabs as a request brings in: what is then in memory
/// without being used adds an eighth at most.
const SLABS_SHARE: u64 = 8;
/// A sample is looked at when so many slabs more have been made: its objects have been handed out
/// by then, unless another CPU holds them.
const LOOK_AFTER: u32 = 4;
/// While samples are dense, one slab in so many is the next one.
const SAMPLE_EVERY: u32 = 32;

/// What a cache knows of how much of its slabs is touched.
pub(super) struct Populating {
    /// A slab that was left to plain faults and not looked at yet.
    sample: MaybePfn,
    /// Slabs made since then.
    since: u32,
    /// Whether the last sample was dense.
    is_dense: bool,
}

/// What one request does with the slabs that it makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Plan {
    /// Whether slabs are populated where their objects fill their pages.
    is_due: bool,
    /// Whether that needs no evidence.
    fills_pages: bool,
    is_dense: bool,
    wants_sample: bool,
    /// The sample that is to be looked at first.
    look_at: Option<Pfn>,
}

/// What a new slab is to its cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    /// Populated or not, it says nothing.
    Ordinary,
    /// Left to plain faults, so that it can be seen what is touched of it.
    Sample,
}

impl Populating {
    pub(super) const fn new() -> Self {
        Self { sample: MaybePfn::NONE, since: 0, is_dense: false }
    }

    /// What a request for `bytes` of objects does, in a cache that has `slabs` slabs.
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
                None => !self.is_dense || self.since >= SAMPLE_EVERY,
            },
            look_at: self.sample.get().filter(|_| is_ripe),
        }
    }

    /// Takes over what a plan has found out.
    pub(super) fn looked(&mut self, plan: &Plan) {
        self.is_dense = plan.is_dense;
        self.sample = MaybePfn::NONE;
    }

    /// Counts a new slab.
    pub(super) fn made(&mut self, slab: Pfn, role: Role) {
        if role == Role::Sample {
            self.sample = MaybePfn::new(Some(slab));
            self.since = 0;
        } else {
            self.since = self.since.saturating_add(1);
        }
    }

    /// Forgets a slab that goes back to the page allocator.
    pub(super) fn gone(&mut self, slab: Pfn) {
        if self.sample.get() == Some(slab) {
            self.sample = MaybePfn::NONE;
        }
    }
}

impl Plan {
    /// Looks at the sample if it is time. Returns whether there is something to take over. One
    /// system call at most; where it is refused, nothing is dense.
    pub(super) fn look(&mut self, pages: &PageAllocator, cache: &Cache) -> bool {
        if !self.is_due || self.fills_pages {
            return false;
        }
        let Some(sample) = self.look_at.take() else { return false };
        let seen = pages.touched(sample, cache.order());
        self.is_dense = seen.is_some_and(|seen| seen.is_dense());
        self.wants_sample = !self.is_dense;
        true
    }

    /// Brings a fresh slab in, as the plan says, or leaves it to plain faults.
    pub(super) fn bring_in(&mut self, pages: &PageAllocator, cache: &Cache, slab: Pfn) -> Role {
        if !self.is_due {
            return Role::Ordinary;
        }
        let faults = pages.faults(slab);
        let is_whole = self.fills_pages || faults == Faults::Huge;
        if !is_whole && self.wants_sample {
            self.wants_sample = false;
            return Role::Sample;
        }
        if is_whole || self.is_dense && faults == Faults::Plain {
            pages.populate(slab, cache.order().frames());
        }
        Role::Ordinary
    }
}
