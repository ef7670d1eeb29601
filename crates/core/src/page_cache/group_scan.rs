//! The scan of one group, which has reached its limit: a clock over the pages of its mappings.
//!
//! The lists of the LRU hold the pages of all groups. A scan for one would pass those of others, or
//! make them younger; so this one goes through the indexes of the group's mappings instead, from
//! where it stopped the last time. A page that was used since the hand passed it last stays for
//! another round.

use super::cache::PageCacheRef;
use super::counters::Event;
use super::host::Host;
use super::index::{Entry, GRACE_BATCH};
use super::mapping::{LockedMapping, Mapping};
use super::outcome::Scanned;
use crate::frame::fresh_zero;
use crate::lru::{PageNo, State};
use crate::zone::GroupId;
use quarry_sys::primitive::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Pages that are looked at in one hold of a mapping's lock, and released together.
const CLUSTER: usize = 32;

fresh_zero! {
    /// Where the scan of a group goes on: two hints, which tasks may mix.
    pub(super) struct Hand {
        mapping: AtomicU32,
        index: AtomicU64,
    }
}

impl<H: Host> PageCacheRef<'_, H> {
    /// Evicts up to `most` clean and unused pages of a group. Takes locks of mappings only where
    /// they are free. O(pages of the group + mappings).
    pub fn reclaim_group(self, group: GroupId, most: usize) -> Scanned {
        let (hand, mappings) = (self.tables.hands.at(usize::from(group.0)), &self.tables.mappings);
        let mut done = Scanned::default();
        let count = mappings.numbers();
        if count == 0 {
            return done;
        }
        let mut from = hand.index.load(Relaxed);
        let start = hand.mapping.load(Relaxed).clamp(1, count);
        // Twice around: what was used is passed the first time.
        for step in 0..2 * count + 1 {
            let number = 1 + (start - 1 + step) % count;
            let of_group = mappings.numbered(number).filter(|mapping| mapping.group() == group);
            if let Some(mapping) = of_group.filter(|mapping| !mapping.is_unevictable()) {
                while (done.freed as usize) < most
                    && let Some(next) = self.pass(mapping, from, most, &mut done)
                {
                    from = next;
                }
            }
            if done.freed as usize >= most {
                hand.mapping.store(number, Relaxed);
                hand.index.store(from, Relaxed);
                break;
            }
            from = 0;
        }
        self.tables.counters.add(self.host.slot(), Event::ScannedDirect, done.scanned);
        self.tables.counters.add(self.host.slot(), Event::StolenDirect, done.freed);
        self.tables.nodes.grace.release(self.host, GRACE_BATCH);
        done
    }

    /// Looks at up to 32 pages of a mapping from `from` on; returns where to go on.
    fn pass(self, mapping: &Mapping, from: u64, most: usize, done: &mut Scanned) -> Option<u64> {
        let tables = self.tables;
        let tree = mapping.index.try_lock(&tables.nodes)?;
        let mut locked = LockedMapping { mapping, tree };
        let mut found = [(0, Entry::Empty); CLUSTER];
        let count = locked.tree.entries(from..=u64::MAX, &mut found);
        let (mut evicted, mut evicted_count) = ([PageNo(0); CLUSTER], 0);
        let mut next = found[..count].last().map(|last| last.0 + 1);
        for (index, entry) in &found[..count] {
            let Entry::Page(page) = entry else { continue };
            if done.freed as usize >= most {
                next = Some(*index);
                break;
            }
            done.scanned += 1;
            if self.evict_of_group(&mut locked, *index, *page, done) {
                evicted[evicted_count] = *page;
                evicted_count += 1;
                done.freed += 1;
            }
        }
        locked.publish();
        drop(locked);
        let mut releases = self.releases();
        let evicted = &evicted[..evicted_count];
        let frames = evicted.iter().map(|page| self.frames(*page)).sum();
        tables.counters.add(self.host.slot(), Event::Removed, frames);
        evicted.iter().for_each(|page| releases.push(*page));
        next
    }

    /// Evicts a page that the locked index names, if nobody uses it; the caller owns it then.
    fn evict_of_group(
        self,
        locked: &mut LockedMapping<'_>,
        index: u64,
        page: PageNo,
        done: &mut Scanned,
    ) -> bool {
        let descriptor = self.tables.pages.at(page);
        let now = descriptor.state.load();
        if now.has(State::REFERENCED) {
            descriptor.state.clear(State::REFERENCED);
            return false;
        }
        if now.has(State::DIRTY) || now.has(State::WRITEBACK) {
            done.dirty += 1;
            return false;
        }
        if now.pins() > 0 || !descriptor.state.try_pin_unused() {
            return false;
        }
        if !descriptor.state.try_evict() {
            // The index names the page as long as its lock is held, so this pin is not the last.
            let is_last = descriptor.state.unpin();
            debug_assert!(!is_last, "what an index names is live");
            return false;
        }
        let (node, group) = (descriptor.node(), descriptor.group.load(Relaxed));
        let is_workingset = now.has(State::WORKINGSET) || now.has(State::ACTIVE);
        let clock = self.tables.clocks.at(usize::from(node.0));
        let shadow = clock.evicted(self.tables.buckets, node, group, is_workingset);
        locked.tree.replace(index, Entry::Shadow(shadow));
        true
    }
}
