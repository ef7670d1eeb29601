//! How much of what was handed out is really touched: large objects often are not, and bringing
//! them in whole would multiply what a program holds.

use super::{FRAME_BYTES, Memory, PAGEBLOCK_FRAMES, Pfn};
use quarry_sys::os::Os;

/// Frames that slabs had of a range, and those of them that were in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touched {
    /// Frames of slabs.
    pub handed_out: u32,
    /// Of them, those in memory.
    pub touched: u32,
}

impl Touched {
    /// Whether nearly all were in memory: at least 7/8.
    #[must_use]
    pub fn is_dense(self) -> bool {
        self.touched * 8 >= self.handed_out * 7
    }
}

impl Memory {
    /// Looks at up to a pageblock of frames. One system call; `None` where the OS refuses. Of
    /// frames that come and go meanwhile, what is counted is from before or after.
    #[must_use]
    pub fn touched(&self, first: Pfn, count: u32) -> Option<Touched> {
        let os: &dyn Os = self.arena().os();
        let page_frames = os.page_size().div_ceil(FRAME_BYTES) as u32;
        let first = Pfn(first.0 / page_frames * page_frames);
        let count = count.min(PAGEBLOCK_FRAMES).next_multiple_of(page_frames);
        let mut resident = [0; PAGEBLOCK_FRAMES as usize];
        let pages = &mut resident[..(count / page_frames) as usize];
        os.resident(self.arena().address(first), pages).ok()?;
        let mut seen = Touched { handed_out: 0, touched: 0 };
        let of_slabs = (0..count).filter(|at| self.frames().kind(first.plus(*at)).is_cache());
        for at in of_slabs {
            seen.handed_out += 1;
            seen.touched += u32::from(pages[(at / page_frames) as usize] & 1);
        }
        Some(seen)
    }
}
