//! Invalidation: unused pages of a range leave their mapping.

use super::cache::PageCacheRef;
use super::counters::Event;
use super::host::Host;
use super::index::{BATCH, Entry, GRACE_BATCH};
use super::mapping::MappingId;
use super::outcome::{Invalidate, Invalidated};
use crate::lru::{Few, PageNo, State};
use core::ops::Range;

impl<H: Host> PageCacheRef<'_, H> {
    /// Drops shadow entries of a range, and those pages of kind `which` that no task pins, latches
    /// or writes. Waits for nothing. O(pages); holds the mapping's lock for 14 at a time.
    pub fn invalidate(
        self,
        mapping: MappingId,
        range: Range<u64>,
        which: Invalidate,
    ) -> Invalidated {
        if range.is_empty() {
            return Invalidated::default();
        }
        // An add batch pins its pages, so none of them could leave.
        self.drain_batches();
        let mut done = Invalidated::default();
        let mut next = Some(range.start);
        while let Some(from) = next.filter(|from| *from < range.end) {
            next = self.invalidate_batch(mapping, from..range.end, which, &mut done);
        }
        self.tables.nodes.grace.release(self.host, GRACE_BATCH);
        let (counters, slot) = (&self.tables.counters, self.slot());
        counters.add(slot, Event::Truncated, done.dropped);
        counters.add(slot, Event::InvalidationBusy, done.busy);
        done
    }

    fn invalidate_batch(
        self,
        mapping: MappingId,
        range: Range<u64>,
        which: Invalidate,
        done: &mut Invalidated,
    ) -> Option<u64> {
        let dirty = if which == Invalidate::CleanOnly { State::DIRTY } else { 0 };
        let busy = State::PINS | State::SHARED | State::EXCLUSIVE | State::WRITEBACK | dirty;
        let mut found = [(0, Entry::Empty); BATCH];
        let mut removed = Few::<(u64, PageNo), BATCH>::NONE;
        let mut states = Few::<State, BATCH>::NONE;
        let tables = self.tables;
        tables.counters.add(self.slot(), Event::IndexHolds, 1);
        let mut locked = tables.mappings.lock(&tables.nodes, mapping)?;
        let count = locked.tree.entries(range.start..=range.end - 1, &mut found);
        for (index, entry) in &found[..count] {
            let Entry::Page(page) = entry else {
                locked.tree.clear_shadows(&[*index]);
                continue;
            };
            match tables.pages.at(*page).take_out(busy, State::PIN) {
                Ok(before) => {
                    removed.push((*index, *page));
                    states.push(before);
                }
                Err(_) => done.busy += 1,
            }
        }
        locked.tree.remove_batch(&removed);
        locked.publish();
        drop(locked);
        done.dropped += removed.len() as u64;
        let mut releases = self.releases();
        for ((_, page), before) in removed.iter().zip(&*states) {
            self.note_removed(*page, *before);
            if self.leave_to(*page) {
                releases.push(*page);
            }
        }
        found[..count].last().map(|last| last.0 + 1)
    }
}
