//! Shadow entries: the data that an index keeps of an evicted page, and the decisions that follow
//! from it at a refault (`mm/workingset.c`, Linux 6.12).
//!
//! The clock of a list pair is its *nonresident age*: it advances by one page at every eviction and
//! every activation. A shadow entry holds the time of the eviction on this clock. At the refault,
//! the time that has passed is the *refault distance*: the number of pages by which the inactive
//! list was too short to keep the page. If the distance is at most the length of the active list,
//! the active pages may be used no more often than this page, which is activated at once.
//!
//! ```text
//! shadow value   | time >> bucket order : 36 | group : 16 | node : 8 | workingset : 1 |
//! ```
//!
//! Equation: `unpack(pack(e)) = e` for times of whole buckets, modulo the range of the field.

use crate::page_cache::index::SHADOW_BITS;
use quarry_mm::frame::{NodeId, fresh_zero};
use quarry_sys::primitive::{AtomicU64, Ordering::Relaxed};

const WORKINGSET_BITS: u32 = 1;
const NODE_BITS: u32 = 8;
const GROUP_BITS: u32 = 16;
const GROUP_SHIFT: u32 = WORKINGSET_BITS + NODE_BITS;
const TIME_SHIFT: u32 = GROUP_SHIFT + GROUP_BITS;
/// Bits of a time in a shadow entry.
pub const TIME_BITS: u32 = SHADOW_BITS - TIME_SHIFT;

/// The contents of a shadow entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evicted {
    /// The clock's time at the eviction, in buckets, modulo `2^TIME_BITS`.
    pub bucket: u64,
    /// The node whose lists the page was on.
    pub node: NodeId,
    /// The group that the page was charged to.
    pub group: u16,
    /// The page was part of the working set.
    pub workingset: bool,
}

impl Evicted {
    /// Returns the value of the shadow entry.
    #[must_use]
    pub const fn pack(self) -> u64 {
        let time = self.bucket & ((1 << TIME_BITS) - 1);
        time << TIME_SHIFT
            | (self.group as u64) << GROUP_SHIFT
            | (self.node.0 as u64) << WORKINGSET_BITS
            | self.workingset as u64
    }

    /// Decodes the value of a shadow entry.
    #[must_use]
    pub const fn unpack(value: u64) -> Self {
        Self {
            bucket: value >> TIME_SHIFT & ((1 << TIME_BITS) - 1),
            group: (value >> GROUP_SHIFT) as u16,
            node: NodeId((value >> WORKINGSET_BITS) as u8),
            workingset: value & 1 != 0,
        }
    }
}

/// Result of a refault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refault {
    /// Pages that were evicted or activated since the page was evicted.
    pub distance: u64,
    /// The page goes to the active list (`workingset_activate_file`); the caller calls
    /// [`Clock::activated`] for it.
    pub activate: bool,
    /// The page was active before (`workingset_restore_file`, if it is activated).
    pub workingset: bool,
}

fresh_zero! {
    /// The clock of the lists of one node. Zero bytes stand for a clock at 0.
    #[derive(Default)]
    pub struct Clock {
        nonresident_age: AtomicU64,
    }
}

impl Clock {
    /// Pages evicted or activated so far.
    #[must_use]
    pub fn age(&self) -> u64 {
        self.nonresident_age.load(Relaxed)
    }

    /// Counts `pages` activated pages (`workingset_age_nonresident`).
    pub fn activated(&self, pages: u64) {
        self.nonresident_age.fetch_add(pages, Relaxed);
    }

    /// Counts an eviction; returns the value of the shadow entry (`workingset_eviction`).
    pub fn evicted(&self, buckets: Buckets, node: NodeId, group: u16, workingset: bool) -> u64 {
        let time = self.nonresident_age.fetch_add(1, Relaxed);
        Evicted { bucket: time >> buckets.order, node, group, workingset }.pack()
    }

    /// Judges the return of a page while `active` pages are active (`workingset_test_recent`; the
    /// kernel adds anonymous pages, which do not exist here). Changes nothing.
    #[must_use]
    pub fn refault(&self, buckets: Buckets, evicted: Evicted, active: u64) -> Refault {
        let stored = evicted.bucket << buckets.order;
        let distance = self.age().wrapping_sub(stored) & buckets.mask();
        Refault { distance, activate: distance <= active, workingset: evicted.workingset }
    }
}

/// The unit of the times in shadow entries, which may have too few bits to count single pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buckets {
    order: u32,
}

impl Buckets {
    /// The unit for a cache of at most `pages` pages, whose clock must not wrap round before all
    /// pages are evicted (`workingset_init`, Linux 6.12). Below 2^44 pages a bucket is one page.
    #[must_use]
    pub const fn for_pages(pages: u64) -> Self {
        Self::with_bits(pages, TIME_BITS)
    }

    const fn with_bits(pages: u64, bits: u32) -> Self {
        let most = u64::BITS - pages.saturating_sub(1).leading_zeros();
        Self { order: most.saturating_sub(bits) }
    }

    /// The mask of the bits in which differences of times are exact.
    const fn mask(self) -> u64 {
        let bits = TIME_BITS + self.order;
        if bits >= u64::BITS { u64::MAX } else { (1 << bits) - 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_shadow_entry_says_what_was_packed(
            bucket in 0..1u64 << TIME_BITS, node in 0..8u8, group: u16, workingset: bool,
        ) {
            let evicted = Evicted { bucket, node: NodeId(node), group, workingset };
            prop_assert!(evicted.pack() >> SHADOW_BITS == 0);
            prop_assert_eq!(Evicted::unpack(evicted.pack()), evicted);
        }

        #[test]
        fn a_distance_is_what_has_passed(
            start: u64, steps in prop::collection::vec((any::<bool>(), 1..40u64), 0..50),
            active in 0..2_000u64,
        ) {
            let clock = Clock { nonresident_age: AtomicU64::new(start) };
            let buckets = Buckets::for_pages(1 << 28);
            let shadow = clock.evicted(buckets, NodeId(1), 2, true);
            let mut passed = 1;
            for (evicts, pages) in steps {
                if evicts {
                    clock.evicted(buckets, NodeId(1), 2, false);
                    passed += 1;
                } else {
                    clock.activated(pages);
                    passed += pages;
                }
            }
            let refault = clock.refault(buckets, Evicted::unpack(shadow), active);
            let activate = passed <= active;
            prop_assert_eq!(refault, Refault { distance: passed, activate, workingset: true });
        }

        /// A coarse time lengthens a distance by less than a bucket, and never shortens it.
        #[test]
        fn a_bucket_only_lengthens_a_distance(
            start in 0..1u64 << 40, passed in 0..1u64 << 20, order in 1..12u32,
        ) {
            let clock = Clock { nonresident_age: AtomicU64::new(start) };
            let buckets = Buckets::with_bits(1 << (10 + order), 10);
            prop_assert_eq!(buckets, Buckets { order });
            let shadow = clock.evicted(buckets, NodeId(0), 0, false);
            clock.activated(passed);
            let distance = clock.refault(buckets, Evicted::unpack(shadow), 0).distance;
            prop_assert!((passed + 1..passed + 1 + (1 << order)).contains(&distance));
        }
    }
}
