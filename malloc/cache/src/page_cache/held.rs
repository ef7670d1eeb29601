//! Holds pages for owners that do not count their requests (SQLite's `xFetch` and `xUnpin`): a held
//! page has one pin, however often its owner asks for it.
//!
//! One task at a time uses a mapping in this way, and only this task truncates the mapping and
//! moves its pages. So only this task writes `held`, by plain stores, once it has pinned the page
//! and checked its key. A held page keeps its pin, so a repeated request writes nothing. Holding a
//! cached page costs one atomic operation, and ending the holding costs another.

use super::cache::PageCacheRef;
use super::host::Host;
use super::mapping::MappingId;
use super::outcome::{Effort, Full, Slot};
use crate::lru::{Descriptor, PageNo, State};
use quarry_mm::stack::StackHost;
use quarry_sys::prefetch::{LINE, prefetch};
use quarry_sys::primitive::Ordering::Relaxed;

/// Cache lines of a private object that are prefetched: 48 bytes of a `Record` of `quarry_sqlite`,
/// 80 of a `PgHdr`, and the first half of SQLite's `MemPage`. (A fifth line was no faster.)
const PREFETCHED: usize = 4;

impl<H: Host> PageCacheRef<'_, H> {
    /// Holds the page at `index` by one pin, however often its owner asks for it. With an `effort`,
    /// makes a new page if none is cached: up to date, not latched, and with the private word 0.
    /// One task at a time holds pages of a mapping, and no task fills them.
    ///
    /// # Errors
    /// If no page is available.
    #[inline]
    pub fn hold(
        self,
        mapping: MappingId,
        index: u64,
        effort: Option<Effort>,
    ) -> Result<Option<Slot>, Full> {
        match self.hold_present(mapping, index) {
            Some(page) => Ok(Some(Slot::Found(page))),
            None => self.hold_slow(mapping, index, effort),
        }
    }

    /// The first try of [`hold`](Self::hold): a walk, which may miss a page. O(depth of the index).
    #[inline]
    pub fn hold_present(self, mapping: MappingId, index: u64) -> Option<PageNo> {
        let found = self.tables.mappings.numbered(mapping.number)?;
        let page = found.index.walk(self.host, index)?;
        let descriptor = self.tables.pages.at(page);
        let is_held = descriptor.is_held()
            && descriptor.mapping.load(Relaxed) == mapping.number
            && descriptor.index.load(Relaxed) == index
            && found.generation() == mapping.generation;
        if is_held {
            return Some(page);
        }
        self.prefetch(descriptor);
        if !self.pin_as(page, found, mapping, index) {
            return None;
        }
        // Only this task changes `held`, and it has just seen that the page is not held.
        descriptor.set_held(true);
        Some(page)
    }

    /// Prefetches, for the owner, the start of the page and the object in its private word. Called
    /// before the page is pinned: loads after an atomic operation wait for that operation.
    #[inline(always)]
    fn prefetch(self, descriptor: &Descriptor) {
        let private = descriptor.private.load(Relaxed) as *const u8;
        (0..PREFETCHED).for_each(|line| prefetch(private.wrapping_add(line * LINE)));
        prefetch(self.host.stack().pages().arena().address(descriptor.pfn()).as_ptr());
    }

    /// Keeps the caller's pin as the pin of the owner; gives it up if the page is held already.
    #[inline]
    fn keep_one_pin(self, page: PageNo) {
        let descriptor = self.tables.pages.at(page);
        if descriptor.is_held() {
            self.unpin(page);
        } else {
            descriptor.set_held(true);
        }
    }

    #[cold]
    #[inline(never)]
    fn hold_slow(
        self,
        mapping: MappingId,
        index: u64,
        effort: Option<Effort>,
    ) -> Result<Option<Slot>, Full> {
        let found = match effort {
            Some(_) => self.pin_unless_evicted(mapping, index),
            None => self.pin_locked(mapping, index),
        };
        if let Some((page, _)) = found {
            self.keep_one_pin(page);
            return Ok(Some(Slot::Found(page)));
        }
        let Some(effort) = effort else { return Ok(None) };
        match self.insert_new(mapping, index, effort, State::UPTODATE)? {
            (page, None) => {
                self.tables.pages.at(page).set_held(true);
                Ok(Some(Slot::New(page)))
            }
            (page, Some(_)) => {
                self.keep_one_pin(page);
                Ok(Some(Slot::Found(page)))
            }
        }
    }

    /// Ends the holding of a page; with `discard`, the page leaves the mapping as well. Does
    /// nothing if a truncation has ended the holding already. A caller that cannot exclude this
    /// needs a second pin: without any pin the page may have been freed and reused.
    #[inline]
    pub fn unhold(self, page: PageNo, discard: bool) {
        if discard {
            return self.discard_held(page);
        }
        if self.unhold_last(page) {
            self.release_one(page);
        }
    }

    /// Ends the holding of a page. Returns whether this was the last pin of a page in no mapping:
    /// then the caller owns the page, and calls [`release_one`](Self::release_one).
    #[inline]
    #[must_use]
    pub fn unhold_last(self, page: PageNo) -> bool {
        let descriptor = self.tables.pages.at(page);
        if !descriptor.is_held() {
            return false;
        }
        descriptor.set_held(false);
        descriptor.state.unpin()
    }

    #[cold]
    #[inline(never)]
    fn discard_held(self, page: PageNo) {
        // The removal gives up the owner's pin; this second pin keeps the page until `unpin`.
        self.pin_again(page);
        self.remove_waiting(page);
        self.unpin(page);
    }
}
