//! The counts that a zone keeps under its lock.

/// Calls and blocks in one direction: taken, or put back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Critical sections of the zone's lock; each extent that is put back counts as one.
    pub calls: u64,
    /// Blocks and extents moved in them.
    pub blocks: u64,
    /// Frames of those blocks and extents.
    pub frames: u64,
}

impl Traffic {
    #[inline]
    pub(super) fn add(&mut self, blocks: u64, frames: u64) {
        self.calls += 1;
        self.blocks += blocks;
        self.frames += frames;
    }
}

/// Requests that were served from blocks of other migratetypes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FallbackCounts {
    /// Pageblocks claimed: they changed their type.
    pub claimed: u64,
    /// Blocks stolen: their pageblock kept its type.
    pub stolen: u64,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) taken: Traffic,
    pub(super) put: Traffic,
    pub(super) fallbacks: FallbackCounts,
}
