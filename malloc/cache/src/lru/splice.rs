//! `splice`: like `batched`, but adds pages as whole lists that are linked outside of the lock
//! (D. Jordan, "splice local lists onto the front of the LRU", January 2018; never merged).
//!
//! The pages of an add batch become up to four *local lists*, one for each list of each node. A
//! local list is one closed batch. One hold of the LRU lock puts it in front, in constant time.
//!
//! `LRU` is set before a page is on a list. A task that finds the flag may read links, tag and
//! role, so the flag is set with release ordering after these, and loaded with acquire ordering.
//! Until the page is on a list, the pin of its add batch keeps other tasks from taking it off.

use super::add_batch::Pages;
use super::batches::{END, INNER, Tags, assign};
use super::page::{DescriptorTable, PageNo};
use super::policy::{ListKind, Setup};
use super::state::State;
use quarry_mm::frame::{List, NodeId, OsArray};
use quarry_sys::os::OsResult;
use quarry_sys::percpu::SlotIndex;
use quarry_sys::primitive::{AtomicU32, Effort, Ordering::Relaxed, effort};

/// Maximum number of local lists of one add batch (`MAX_LRU_SPLICES`).
const MAX_LRU_SPLICES: usize = if cfg!(quarry_model) { 1 } else { 4 };

/// A slot's position in its sequence of tags. Two tasks on one slot may choose the same tag.
#[repr(align(64))]
struct SlotTags(AtomicU32);

/// The positions of all slots.
pub(super) struct Splicer(OsArray<SlotTags>);

/// Pages that go to the same list: a closed batch that is being made.
pub(super) struct Local {
    pub(super) at: (NodeId, ListKind),
    tag: usize,
    pub(super) batch: List<PageNo>,
    pub(super) pages: usize,
}

pub(super) type Locals = [Option<Local>; MAX_LRU_SPLICES];

impl Local {
    fn push(&mut self, table: &DescriptorTable, page: PageNo) {
        effort::spend(Effort::LruPage, 1);
        assign(table.at(page), self.tag, INNER);
        self.batch.push_front(table, page);
        // Counts the page for its own list; the published patch counts it for another list.
        self.pages += 1;
    }

    fn close(&self, table: &DescriptorTable) {
        let ends = [self.batch.first(), self.batch.last()];
        ends.into_iter().flatten().for_each(|end| assign(table.at(end), self.tag, END));
    }

    /// Sets `LRU`, which publishes that the pages are complete.
    fn publish(&self, table: &DescriptorTable) {
        for page in self.batch.members(table) {
            table.at(page).state.set(State::LRU);
        }
    }
}

impl Splicer {
    pub(super) fn build(setup: &Setup) -> OsResult<Self> {
        let tags = OsArray::filled(setup.os, setup.slots, |slot| {
            SlotTags(AtomicU32::new((slot as u32).wrapping_mul(0x9e37_79b9)))
        });
        tags.map(Self)
    }

    fn choose_tag(&self, slot: SlotIndex) -> usize {
        let seed = &self.0.at(slot.0 as usize).0;
        let mut tags = Tags::from(seed.load(Relaxed));
        let tag = tags.choose();
        seed.store(tags.seed(), Relaxed);
        tag
    }

    /// Sorts pages into complete local lists; also returns the pages without a list.
    pub(super) fn sort(
        &self,
        table: &DescriptorTable,
        slot: SlotIndex,
        pages: &[PageNo],
    ) -> (Locals, Pages) {
        let (mut locals, mut singles) = (Locals::default(), Pages::NONE);
        for &page in pages {
            let descriptor = table.at(page);
            let at = (descriptor.node(), ListKind::of(descriptor.state.load()));
            let is_its = |local: &Option<Local>| local.as_ref().is_none_or(|local| local.at == at);
            let Some(place) = locals.iter_mut().find(|local| is_its(local)) else {
                singles.push(page);
                continue;
            };
            let fresh = || Local { at, tag: self.choose_tag(slot), batch: List::new(), pages: 0 };
            place.get_or_insert_with(fresh).push(table, page);
        }
        locals.iter().flatten().for_each(|local| local.close(table));
        locals.iter().flatten().for_each(|local| local.publish(table));
        (locals, singles)
    }
}
