//! A window: a range of addresses, pieces of which are mapped as they are needed.

use core::ptr::NonNull;
use quarry_sys::os::{Os, OsResult};

/// The addresses, which a drop gives up; everything mapped in them must be unmapped before.
pub struct Window {
    os: &'static dyn Os,
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the start never changes, and serves for arithmetic only.
unsafe impl Sync for Window {}
// SAFETY: as for Sync.
unsafe impl Send for Window {}

impl Window {
    /// Chooses addresses at a multiple of `align` where hardly any other mapping lies; fails if
    /// there are no such addresses.
    pub fn choose(os: &'static dyn Os, bytes: usize, align: usize) -> OsResult<Self> {
        Ok(Self { os, start: os.window(bytes, align)?, bytes })
    }

    /// The address `offset` bytes after the start; panics outside the window.
    #[must_use]
    pub fn at(&self, offset: usize) -> NonNull<u8> {
        assert!(offset < self.bytes, "an address outside the window");
        // SAFETY: inside the window.
        unsafe { self.start.add(offset) }
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.os.close_window(self.start, self.bytes);
    }
}
