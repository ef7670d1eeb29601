//! Guards: frames after objects, at which linear writes and reads past these objects fault.
//!
//! A guard's frames are in use, so no request gets them, but they have no memory, and the budget
//! exempts them. The first has the kind `GUARD` and a link that tells how the system made the
//! guard.

use super::huge;
use super::zones::Zones;
use crate::frame::{FRAME_BYTES, Kind, Pfn, page_bytes};
use quarry_sys::os;

/// The link of a guard that the system has refused, which is no [`os::Guard`]: its frames are
/// accessible.
const REFUSED: u32 = 0;

impl Zones {
    /// Makes `count` frames of one pageblock, which the caller has taken, a guard. Returns false,
    /// and leaves them accessible, if the system refuses, or if they are no whole pages of it.
    pub fn guard(&self, first: Pfn, count: u32) -> bool {
        self.are_pages(first, count) && self.protect(first, count)
    }

    /// As [`guard`](Self::guard), for frames that serve nothing else: if the system refuses, they
    /// lose their memory at least.
    pub fn guard_or_purge(&self, first: Pfn, count: u32) {
        if self.are_pages(first, count)
            && !self.protect(first, count)
            && self.arena().os().purge(self.arena().address(first), bytes_of(count)).is_ok()
        {
            self.note_guard(first, count, REFUSED);
        }
    }

    fn are_pages(&self, first: Pfn, count: u32) -> bool {
        let frames = (page_bytes(self.arena().os()) / FRAME_BYTES) as u32;
        first.0.is_multiple_of(frames) && count.is_multiple_of(frames)
    }

    fn protect(&self, first: Pfn, count: u32) -> bool {
        huge::make_hole(self.memory(), first);
        let made = self.arena().os().guard(self.arena().address(first), bytes_of(count));
        made.is_ok_and(|made| self.note_guard(first, count, made as u32))
    }

    fn note_guard(&self, first: Pfn, count: u32, link: u32) -> bool {
        self.frames().set_link(first, link);
        self.frames().set_kind(first, 1, Kind::GUARD);
        self.budget().exempt(count);
        true
    }

    /// Makes the frames of a guard accessible again, which then go to their zone. Returns false,
    /// and leaves the guard, if the system refuses; no code may use its frames then.
    pub fn unguard(&self, first: Pfn, count: u32) -> bool {
        let (arena, link) = (self.arena(), self.frames().link(first));
        let is_mapped = link == os::Guard::Mapped as u32;
        let made = if is_mapped { os::Guard::Mapped } else { os::Guard::Marked };
        let is_open = link == REFUSED
            || arena.os().unguard(arena.address(first), bytes_of(count), made).is_ok();
        if is_open {
            self.frames().set_kind(first, 1, Kind::NONE);
            self.budget().end_exemption(count);
        }
        is_open
    }
}

fn bytes_of(frames: u32) -> usize {
    frames as usize * FRAME_BYTES
}
