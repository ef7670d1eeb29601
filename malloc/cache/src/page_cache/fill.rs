//! New pages: one task fills a page; other tasks wait until it is up to date.

use super::cache::PageCacheRef;
use super::counters::Event;
use super::host::Host;
use super::index::{Entry, INDEX_LIMIT, InsertError, Preload};
use super::mapping::{LockedMapping, Mapping, MappingId};
use super::outcome::{Effort, Full, ReadError, Slot};
use super::workingset::Evicted;
use crate::lru::{PageNo, State};
use core::ptr::NonNull;
use quarry_mm::zone::GroupId;
use quarry_sys::primitive::Ordering::Relaxed;

enum Inserted {
    /// The page was inserted, in place of this shadow entry if there was one.
    New(Option<u64>),
    /// The index had another page, which is pinned now.
    Other(PageNo, State),
}

impl<H: Host> PageCacheRef<'_, H> {
    /// Pins the page at `index`, or makes a new one there. Waits for a fill that is under way.
    ///
    /// # Errors
    /// If no page is available, `index` is 2^52 or more, or another task's fill failed.
    #[inline]
    pub fn get_or_alloc(
        self,
        mapping: MappingId,
        index: u64,
        effort: Effort,
    ) -> Result<Slot, ReadError> {
        if let Some(found) = self.tables.mappings.numbered(mapping.number)
            && let Some(page) = found.index.walk(self.host, index)
            && self.pin_as(page, found, mapping, index)
        {
            return Ok(Slot::Found(page));
        }
        self.get_or_alloc_slow(mapping, index, effort)
    }

    #[cold]
    #[inline(never)]
    fn get_or_alloc_slow(
        self,
        mapping: MappingId,
        index: u64,
        effort: Effort,
    ) -> Result<Slot, ReadError> {
        // Looks under the lock first: a thread that cannot walk would allocate a page for each hit.
        if let Some((page, state)) = self.pin_unless_evicted(mapping, index)
            && let Some(slot) = self.wait_for_fill(page, state)?
        {
            return Ok(slot);
        }
        loop {
            match self.insert_new(mapping, index, effort, State::EXCLUSIVE)? {
                (page, None) => return Ok(Slot::New(page)),
                (page, Some(state)) => {
                    if let Some(slot) = self.wait_for_fill(page, state)? {
                        return Ok(slot);
                    }
                }
            }
        }
    }

    /// Pins the page at `index` if it is cached; waits while another task fills it.
    ///
    /// # Errors
    /// The code of the fill, if it failed.
    pub fn get_waiting(self, mapping: MappingId, index: u64) -> Result<Option<PageNo>, ReadError> {
        let Some((page, state)) = self.pin_locked(mapping, index) else { return Ok(None) };
        Ok(self.wait_for_fill(page, state)?.map(Slot::page))
    }

    /// Waits until a pinned page is up to date; returns `None` if it was truncated while the caller
    /// waited. On `None` and on an error the caller's pin has ended.
    fn wait_for_fill(self, page: PageNo, state: State) -> Result<Option<Slot>, ReadError> {
        let descriptor = self.tables.pages.at(page);
        let is_filling = |now: State| now.has(State::EXCLUSIVE) && !now.has(State::UPTODATE);
        let state = if is_filling(state) {
            self.tables.counters.add(self.slot(), Event::Waited, 1);
            self.tables.waits.wait_while(page, &descriptor.state, is_filling)
        } else {
            state
        };
        if state.has(State::LIVE | State::UPTODATE) {
            return Ok(Some(Slot::Found(page)));
        }
        let (has_failed, code) = (state.has(State::ERROR), descriptor.error.load(Relaxed) as i32);
        let has_failed = has_failed && !state.has(State::UPTODATE);
        self.unpin(page);
        if has_failed { Err(ReadError::Failed(code)) } else { Ok(None) }
    }

    /// Pins the page at `index`. If it is new, fills it by `fill`; other tasks wait for the fill.
    ///
    /// # Errors
    /// If no page is available; or the code of the failed fill.
    pub fn read(
        self,
        mapping: MappingId,
        index: u64,
        fill: &mut dyn FnMut(NonNull<u8>, usize) -> Result<(), i32>,
    ) -> Result<PageNo, ReadError> {
        let page = match self.get_or_alloc(mapping, index, Effort::Every)? {
            Slot::Found(page) => return Ok(page),
            Slot::New(page) => page,
        };
        match fill(self.address(page), self.bytes(page)) {
            Ok(()) => {
                self.fill_done(page);
                Ok(page)
            }
            Err(code) => {
                self.fill_failed(page, code);
                Err(ReadError::Failed(code))
            }
        }
    }

    /// Ends the fill of a new page, which is up to date then. The caller keeps its pin.
    pub fn fill_done(self, page: PageNo) {
        let kib = self.bytes(page) as u64 >> 10;
        self.tables.counters.add(self.slot(), Event::PagedIn, kib);
        let before = self.tables.pages.at(page).state.unlatch_exclusive(State::UPTODATE);
        self.tables.waits.wake(page, before);
    }

    /// Ends a failed fill: the page leaves the index, waiting tasks get the code, the pin ends.
    pub fn fill_failed(self, page: PageNo, code: i32) {
        let descriptor = self.tables.pages.at(page);
        descriptor.error.store(code as u32, Relaxed);
        descriptor.state.set(State::ERROR);
        self.tables.counters.add(self.slot(), Event::FillFailed, 1);
        self.remove_latched(page);
        self.leave(page);
    }

    /// Inserts a new page, pinned and with the `flags`, at `index` of a mapping, and puts it on its
    /// list. Returns the new page; or the page that is there already, pinned, with its state.
    pub(super) fn insert_new(
        self,
        id: MappingId,
        index: u64,
        effort: Effort,
        flags: u64,
    ) -> Result<(PageNo, Option<State>), Full> {
        if index >= INDEX_LIMIT {
            return Err(Full);
        }
        let tables = self.tables;
        let mapping = tables.mappings.get(id).ok_or(Full)?;
        let page = self.alloc_page(mapping, effort).inspect_err(|_| self.note_full())?;
        let descriptor = tables.pages.at(page);
        descriptor.mapping.store(id.number, Relaxed);
        descriptor.index.store(index, Relaxed);
        let unevictable = if mapping.is_unevictable() { State::UNEVICTABLE } else { 0 };
        descriptor.state.begin(State(State::PIN | State::LIVE | flags | unevictable));
        match self.insert(id, index, page, effort) {
            Ok(Inserted::New(shadow)) => {
                self.note_added(mapping, page, shadow);
                Ok((page, None))
            }
            Ok(Inserted::Other(other, state)) => {
                self.abandon(page);
                Ok((other, Some(state)))
            }
            Err(full) => {
                self.abandon(page);
                self.note_full();
                Err(full)
            }
        }
    }

    fn note_full(self) {
        self.tables.counters.add(self.slot(), Event::Full, 1);
    }

    /// Gives up a page that was in no index. A walk to an earlier page with its number may pin it.
    fn abandon(self, page: PageNo) {
        self.tables.pages.at(page).state.clear(State::LIVE);
        self.leave(page);
    }

    fn insert(
        self,
        id: MappingId,
        index: u64,
        page: PageNo,
        effort: Effort,
    ) -> Result<Inserted, Full> {
        let tables = self.tables;
        let mut preload = Preload::new(self.host, &tables.nodes.grace);
        let mut may_reclaim = effort == Effort::Every;
        loop {
            let mut locked = tables.mappings.lock(&tables.nodes, id).ok_or(Full)?;
            match locked.tree.insert(index, Entry::Page(page), &mut preload) {
                Ok(before) => {
                    locked.publish();
                    let shadow = if let Entry::Shadow(value) = before { Some(value) } else { None };
                    return Ok(Inserted::New(shadow));
                }
                Err(InsertError::Present(other)) => {
                    let pinned = tables.pages.at(other).state.try_pin(State::LIVE).ok_or(Full)?;
                    return Ok(Inserted::Other(other, pinned));
                }
                Err(InsertError::Nodes(count)) => {
                    drop::<LockedMapping<'_>>(locked);
                    if !self.fill_preload(&mut preload, count, &mut may_reclaim) {
                        return Err(Full);
                    }
                }
            }
        }
    }

    fn note_added(self, mapping: &Mapping, page: PageNo, shadow: Option<u64>) {
        let (tables, slot) = (self.tables, self.slot());
        let frames = u64::from(mapping.order().frames());
        tables.counters.add(slot, Event::Added, frames);
        let is_active = shadow.is_some_and(|value| self.note_refault(mapping, page, value));
        if mapping.is_unevictable() {
            return tables.counters.add(slot, Event::UnevictableAdded, frames);
        }
        let mut releases = self.releases();
        tables.lru.add(&tables.pages, slot, page, is_active, &mut |page| releases.push(page));
    }

    fn note_refault(self, mapping: &Mapping, page: PageNo, shadow: u64) -> bool {
        let (tables, slot) = (self.tables, self.slot());
        let evicted = Evicted::unpack(shadow);
        let clock = tables.clocks.at(usize::from(evicted.node.0));
        let sizes = tables.lru.sizes(evicted.node);
        let refault = clock.refault(tables.buckets, evicted, sizes.active);
        if evicted.group == GroupId::ROOT.0 {
            // A group with a limit evicts by a clock, so its refaults do not mean a short list.
            let balance = tables.balances.at(usize::from(evicted.node.0));
            balance.note_refault(sizes, refault.distance, refault.workingset);
            tables.demands.refaulted(&mapping.demand, sizes.inactive + sizes.active);
        }
        tables.counters.add(slot, Event::Refaulted, 1);
        if !refault.activate {
            return false;
        }
        clock.activated(1);
        tables.counters.add(slot, Event::RefaultActivated, 1);
        if refault.workingset {
            tables.pages.at(page).state.set(State::WORKINGSET);
            tables.counters.add(slot, Event::Restored, 1);
        }
        true
    }
}
