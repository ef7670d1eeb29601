//! Holding pages: one pin however often its owner asks for the page, for owners that do not count
//! (SQLite's `xFetch` and `xUnpin`).
//!
//! One task at a time asks for the pages of a mapping and gives them up. Only it sets `HELD`, once
//! the page is pinned and its key is known to be right; so a page of the mapping that has the flag
//! has the pin as well, and a repeated request writes nothing.

use super::cache::PageCacheRef;
use super::host::Host;
use super::mapping::MappingId;
use super::outcome::{Effort, Full, Slot};
use crate::lru::{PageNo, State};
use quarry_sys::primitive::Ordering::Relaxed;

impl<H: Host> PageCacheRef<'_, H> {
    /// Holds the page at `index`: one pin, however often its owner asks for it. Without an effort
    /// only a page that is there; else a new one, which is up to date at once, is not latched, and
    /// whose private word is 0. One task at a time holds pages of a mapping, and nobody fills them.
    ///
    /// # Errors
    /// Where no page can be had.
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

    /// [`hold`](Self::hold) of a page that is there: takes no lock, and may miss one that is.
    /// O(depth of the index).
    #[inline]
    pub fn hold_present(self, mapping: MappingId, index: u64) -> Option<PageNo> {
        let found = self.tables.mappings.numbered(mapping.number)?;
        let page = found.index.walk(self.host, index)?;
        let descriptor = self.tables.pages.at(page);
        let is_held = descriptor.state.load().has(State::HELD | State::LIVE)
            && descriptor.mapping.load(Relaxed) == mapping.number
            && descriptor.index.load(Relaxed) == index
            && found.generation() == mapping.generation;
        if is_held {
            return Some(page);
        }
        if !self.pin_as(page, found, mapping, index) {
            return None;
        }
        self.keep_one_pin(page);
        Some(page)
    }

    /// Makes the caller's pin that of the holding, or gives it up where the page is held already.
    #[inline]
    fn keep_one_pin(self, page: PageNo) {
        if self.tables.pages.at(page).state.set(State::HELD).has(State::HELD) {
            self.unpin(page);
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
        if let Some((page, _)) = self.pin_locked(mapping, index) {
            self.keep_one_pin(page);
            return Ok(Some(Slot::Found(page)));
        }
        let Some(effort) = effort else { return Ok(None) };
        let flags = State::UPTODATE | State::HELD;
        match self.insert_new(mapping, index, effort, flags)? {
            (page, None) => Ok(Some(Slot::New(page))),
            (page, Some(_)) => {
                self.keep_one_pin(page);
                Ok(Some(Slot::Found(page)))
            }
        }
    }

    /// Ends the holding of a page; with `discard` it leaves the mapping as well. Does nothing where
    /// a truncation has ended it.
    #[inline]
    pub fn unhold(self, page: PageNo, discard: bool) {
        if discard {
            return self.discard_held(page);
        }
        if self.unhold_last(page) {
            self.release_one(page);
        }
    }

    /// Ends the holding of a page. Returns whether that was the last pin of a page that no mapping
    /// has: the caller owns it then, and passes it to [`release_last`](Self::release_last).
    #[inline]
    #[must_use]
    pub fn unhold_last(self, page: PageNo) -> bool {
        let before = self.tables.pages.at(page).state.unhold();
        before.pins() == 1 && !before.has(State::LIVE)
    }

    /// Frees a page that the caller owns: see [`unhold_last`](Self::unhold_last).
    pub fn release_last(self, page: PageNo) {
        self.release_one(page);
    }

    #[cold]
    #[inline(never)]
    fn discard_held(self, page: PageNo) {
        // The pin of the holding keeps the page until its removal has ended it.
        self.pin_again(page);
        self.remove_waiting(page);
        self.unpin(page);
    }
}
