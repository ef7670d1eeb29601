//! The limit of frames that may be in use at once.
//!
//! The budget counts frames where they leave the buddy allocator and where they come back; the
//! heap charges its mappings itself. Free memory is not in the budget: purging gives it back to
//! the operating system.
//!
//! Invariant: `used <= limit` whenever a charge succeeds;
//! `used` = sum over zones of frames outside their free lists + `mapped`.

use quarry_sys::primitive::{AtomicU32, Ordering::Relaxed};

/// The frames in use, and their limit.
pub struct Budget {
    used: AtomicU32,
    mapped: AtomicU32,
    limit: AtomicU32,
}

impl Budget {
    /// An empty budget of `limit` frames.
    #[must_use]
    pub const fn new(limit: u32) -> Self {
        Self { used: AtomicU32::new(0), mapped: AtomicU32::new(0), limit: AtomicU32::new(limit) }
    }

    /// Charges `count` blocks of `frames` frames, or those of them that fit; returns how many.
    #[inline]
    pub(super) fn charge_blocks(&self, count: u32, frames: u32) -> u32 {
        let mut used = self.used.load(Relaxed);
        loop {
            let room = self.limit.load(Relaxed).saturating_sub(used) / frames;
            let fit = count.min(room);
            if fit == 0 {
                return 0;
            }
            match self.used.compare_exchange_weak(used, used + fit * frames, Relaxed, Relaxed) {
                Ok(_) => return fit,
                Err(now) => used = now,
            }
        }
    }

    /// Takes frames out of the budget.
    #[inline]
    pub(super) fn uncharge(&self, frames: u32) {
        let before = self.used.fetch_sub(frames, Relaxed);
        debug_assert!(before >= frames, "more frames uncharged than were charged");
    }

    /// Charges a mapping; `false` where it does not fit, and then nothing is charged.
    #[must_use]
    pub fn charge_mapping(&self, frames: u32) -> bool {
        let fits = frames == 0 || self.charge_blocks(1, frames) == 1;
        if fits {
            self.mapped.fetch_add(frames, Relaxed);
        }
        fits
    }

    /// Takes (part of) a mapping out of the budget.
    pub fn uncharge_mapping(&self, frames: u32) {
        self.mapped.fetch_sub(frames, Relaxed);
        self.uncharge(frames);
    }

    /// Frames in use, per-CPU lists and mappings included.
    #[must_use]
    pub fn used(&self) -> u32 {
        self.used.load(Relaxed)
    }

    /// Frames of mappings.
    #[must_use]
    pub fn mapped(&self) -> u32 {
        self.mapped.load(Relaxed)
    }

    /// The most frames that may be in use.
    #[must_use]
    pub fn limit(&self) -> u32 {
        self.limit.load(Relaxed)
    }

    /// Changes the limit. Frames in use stay in use, even beyond it.
    pub fn set_limit(&self, limit: u32) {
        self.limit.store(limit, Relaxed);
    }
}
