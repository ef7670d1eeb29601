//! Truncation: all pages from an index on leave their mapping, by the steps of document 001.
//!
//! | policy | lock of the index | shadow entries | add batch drained | pages freed |
//! |---|---|---|---|---|
//! | `vanilla` | once per page | one by one | per 14 entries | one by one |
//! | `jan` | once per 14 entries | one by one | per 14 entries | one by one |
//! | `oneirq` | once per 14 entries | one by one | per 14 entries | one list per section |
//! | `mel` | once per 14 entries | with the pages | once per truncation | one list per section |
//!
//! The first pass waits for nothing and leaves pages that are latched or being written. The second
//! pass waits for them (`truncate_inode_pages_range`, Linux 4.14 and 4.15). Pinned pages leave the
//! mapping in either pass, and are freed with their last pin.

use super::cache::PageCacheRef;
use super::counters::Event;
use super::host::Host;
use super::index::{BATCH, Entry, GRACE_BATCH};
use super::mapping::{LockedMapping, MappingId};
use super::outcome::TruncationPolicy;
use super::release::Releases;
use crate::lru::{Few, PageNo, State};
use quarry_mm::zone::GroupId;

/// Pages that were taken out of the index, latched and pinned by the truncation, by their indexes.
type Taken = Few<(u64, PageNo), BATCH>;

struct Truncation<'a, H: Host> {
    cache: PageCacheRef<'a, H>,
    mapping: MappingId,
    policy: TruncationPolicy,
    is_drained: bool,
    dropped: u64,
}

/// Flags of a busy page: the first pass leaves it, and the second pass waits until none is set.
const BUSY: u64 = State::EXCLUSIVE | State::SHARED | State::WRITEBACK;

impl<H: Host> PageCacheRef<'_, H> {
    /// Calls `during` while this task holds a mapping's lock, as a truncation does: for tests of
    /// what meets one. Returns false if there is no such mapping.
    #[doc(hidden)]
    pub fn while_locked(self, mapping: MappingId, during: impl FnOnce()) -> bool {
        let locked = self.tables.mappings.lock(&self.tables.nodes, mapping);
        let is_live = locked.is_some();
        during();
        is_live
    }

    /// Truncates a mapping to nothing, and gives up its number. No page enters it during the call.
    /// Pinned pages are freed with their last pin. Returns false if there is no such mapping.
    pub fn destroy_mapping(self, mapping: MappingId) -> bool {
        let tables = self.tables;
        let Some(mut locked) = tables.mappings.lock(&tables.nodes, mapping) else { return false };
        *locked.tree.value() = false;
        let group = GroupId(locked.mapping.group());
        let allows_overread = locked.mapping.allows_overread();
        drop(locked);
        self.truncate(mapping, 0);
        if group != GroupId::ROOT {
            // Pages that wait in add batches are charged to the group.
            self.drain_batches();
        }
        if allows_overread {
            tables.tail_blocks.release(self.host);
        }
        tables.mappings.give_up(mapping);
        self.groups().leave(group);
        true
    }

    /// Drops all pages from index `from` on, also dirty and held pages, by the
    /// [`TruncationPolicy`]; returns how many. Waits for latches and writeback, so the caller must
    /// hold no latch of such a page. Pinned pages are freed with their last pin. O(pages); locks
    /// the mapping for 14 at a time.
    pub fn truncate(self, mapping: MappingId, from: u64) -> u64 {
        let policy = self.tables.options.truncation;
        let mut truncation =
            Truncation { cache: self, mapping, policy, is_drained: false, dropped: 0 };
        truncation.first_pass(from);
        truncation.second_pass(from);
        self.tables.nodes.grace.release(self.host, GRACE_BATCH);
        self.tables.counters.add(self.slot(), Event::Truncated, truncation.dropped);
        truncation.dropped
    }
}

impl<'a, H: Host> Truncation<'a, H> {
    fn lock(&self) -> Option<LockedMapping<'a>> {
        let tables = self.cache.tables;
        tables.counters.add(self.cache.slot(), Event::IndexHolds, 1);
        let mapping = tables.mappings.get(self.mapping)?;
        // The mapping need not be live: `destroy_mapping` ends its life first.
        Some(LockedMapping { mapping, tree: mapping.index.lock(&tables.nodes) })
    }

    fn first_pass(&mut self, from: u64) {
        let mut next = Some(from);
        while let Some(from) = next {
            next = match self.policy {
                TruncationPolicy::Vanilla => self.page_by_page(from),
                _ => self.batch(from),
            };
        }
    }

    /// Looks at up to 14 entries; takes the lock again to remove each. Returns the next index.
    fn page_by_page(&mut self, from: u64) -> Option<u64> {
        let mut found = [(0, Entry::Empty); BATCH];
        let pages = &self.cache.tables.pages;
        let mut locked = self.lock()?;
        let count = locked.tree.entries(from..=u64::MAX, &mut found);
        for (_, entry) in &found[..count] {
            if let Entry::Page(page) = entry {
                // The pin keeps the page after the lock is given up.
                let is_pinned = pages.at(*page).state.try_pin_unused();
                debug_assert!(is_pinned, "what an index names is live");
            }
        }
        drop(locked);
        let mut taken = Taken::NONE;
        for (index, entry) in &found[..count] {
            match entry {
                Entry::Page(page) => match self.take_pinned(*index, *page) {
                    true => taken.push((*index, *page)),
                    false => self.cache.unpin(*page),
                },
                _ => self.clear_shadow(*index),
            }
        }
        self.release(&taken);
        found[..count].last().map(|last| last.0 + 1)
    }

    /// Takes out a page that the truncation has pinned, unless it is busy or gone.
    fn take_pinned(&mut self, index: u64, page: PageNo) -> bool {
        let Some(mut locked) = self.lock() else { return false };
        if locked.tree.get(index) != Entry::Page(page) {
            return false;
        }
        let Ok(before) = self.cache.tables.pages.at(page).take_out(BUSY, 0) else {
            return false;
        };
        locked.tree.remove(index);
        locked.publish();
        drop(locked);
        self.note(page, before);
        true
    }

    fn note(&mut self, page: PageNo, before: State) {
        self.dropped += 1;
        self.cache.note_removed(page, before);
    }

    fn clear_shadow(&self, index: u64) {
        if let Some(mut locked) = self.lock() {
            locked.tree.clear_shadows(&[index]);
        }
    }

    /// Removes up to 14 entries in one hold of the lock. Returns the next index.
    fn batch(&mut self, from: u64) -> Option<u64> {
        let mut found = [(0, Entry::Empty); BATCH];
        let (mut taken, mut states) = (Taken::NONE, Few::<State, BATCH>::NONE);
        let mut shadows = Few::<u64, BATCH>::NONE;
        let mut locked = self.lock()?;
        let count = locked.tree.entries(from..=u64::MAX, &mut found);
        for (index, entry) in &found[..count] {
            match entry {
                Entry::Page(page) => {
                    let descriptor = self.cache.tables.pages.at(*page);
                    if let Ok(before) = descriptor.take_out(BUSY, State::PIN) {
                        taken.push((*index, *page));
                        states.push(before);
                    }
                }
                _ => shadows.push(*index),
            }
        }
        locked.tree.remove_batch(&taken);
        if self.policy == TruncationPolicy::BatchedRelease {
            locked.tree.clear_shadows(&shadows);
            shadows.clear();
        }
        locked.publish();
        drop(locked);
        shadows.iter().for_each(|index| self.clear_shadow(*index));
        for ((_, page), before) in taken.iter().zip(&*states) {
            self.note(*page, *before);
        }
        self.release(&taken);
        found[..count].last().map(|last| last.0 + 1)
    }

    fn release(&mut self, taken: &Taken) {
        if taken.is_empty() {
            return;
        }
        let mut releases = self.cache.releases();
        if !(self.policy == TruncationPolicy::BatchedRelease && self.is_drained) {
            self.drain(&mut releases);
        }
        for (_, page) in taken.iter() {
            if self.cache.leave_to(*page) {
                releases.push(*page);
            }
        }
    }

    /// Moves pages from the running CPU's add batch to the lists (`lru_add_drain`). The batch pins
    /// its pages: without this, they would be freed later, one by one.
    fn drain(&mut self, releases: &mut Releases<'a, H>) {
        self.cache.tables.counters.add(self.cache.slot(), Event::Drains, 1);
        self.cache.drain_slot(releases);
        self.is_drained = true;
    }

    /// Waits for each page that is left, and removes it. Starts again until no entry is left.
    fn second_pass(&mut self, from: u64) {
        let mut next = from;
        loop {
            let Some(mut locked) = self.lock() else { return };
            let Some((index, entry)) = locked.tree.next_entry(next) else {
                if next == from {
                    return;
                }
                next = from;
                continue;
            };
            next = index + 1;
            let Entry::Page(page) = entry else {
                locked.tree.clear_shadows(&[index]);
                continue;
            };
            let is_pinned = self.cache.tables.pages.at(page).state.try_pin_unused();
            drop(locked);
            if is_pinned {
                self.dropped += u64::from(self.cache.remove_waiting(page));
                self.cache.unpin(page);
            }
        }
    }
}
