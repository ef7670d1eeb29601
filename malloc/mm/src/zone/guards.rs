//! Guards: frames after objects, at which linear writes and reads past these objects fault.
//!
//! A guard's frames are in use, so no request gets them, but they have no memory, and the budget
//! exempts them. The first has the kind `GUARD` and a link that tells how the system made the
//! guard.

use super::huge;
use super::zones::Zones;
use crate::frame::{FRAME_BYTES, Kind, Pfn, page_bytes};
use quarry_sys::os;

impl Zones {
    /// Makes `count` frames of one pageblock, which the caller has taken, a guard. Returns false,
    /// and leaves them accessible, if the system refuses, or if they are no whole pages of it.
    pub fn guard(&self, first: Pfn, count: u32) -> bool {
        let arena = self.arena();
        let frames = (page_bytes(arena.os()) / FRAME_BYTES) as u32;
        if !first.0.is_multiple_of(frames) || !count.is_multiple_of(frames) {
            return false;
        }
        huge::make_hole(self.memory(), first);
        let made = arena.os().guard(arena.address(first), count as usize * FRAME_BYTES);
        if let Ok(made) = made {
            self.frames().set_link(first, made as u32);
            self.frames().set_kind(first, 1, Kind::GUARD);
            self.budget().exempt(count);
        }
        made.is_ok()
    }

    /// Makes the frames of a guard accessible again, which then go to their zone. Returns false,
    /// and leaves the guard, if the system refuses; no code may use its frames then.
    pub fn unguard(&self, first: Pfn, count: u32) -> bool {
        let (arena, is_mapped) =
            (self.arena(), self.frames().link(first) == os::Guard::Mapped as u32);
        let made = if is_mapped { os::Guard::Mapped } else { os::Guard::Marked };
        let bytes = count as usize * FRAME_BYTES;
        let is_open = arena.os().unguard(arena.address(first), bytes, made).is_ok();
        if is_open {
            self.frames().set_kind(first, 1, Kind::NONE);
            self.budget().end_exemption(count);
        }
        is_open
    }
}
