//! Who did something to an object, and when.

use quarry_sys::primitive::{AtomicU64, Ordering::Relaxed};

/// Callers that are kept of a stack, innermost first (`TRACK_ADDRS_COUNT`, Linux 6.18,
/// `mm/slub.c`).
pub const TRACK_FRAMES: usize = 16;

/// The thread that allocated or freed an object, the time, and the calls that led there. All zero
/// where nobody did.
///
/// It may lie beside an object, where a program can write, so it is read with care: nothing that is
/// read here is used as an address.
#[repr(C)]
pub struct Track {
    thread: AtomicU64,
    at_ns: AtomicU64,
    frames: [AtomicU64; TRACK_FRAMES],
}

/// A copy of a [`Track`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tracked {
    /// The kernel's number of the thread.
    pub thread: u32,
    /// On the monotonic clock.
    pub at_ns: u64,
    /// Return addresses, innermost first; 0 behind the last.
    pub frames: [u64; TRACK_FRAMES],
}

impl Track {
    /// Nobody.
    pub const fn new() -> Self {
        Self {
            thread: AtomicU64::new(0),
            at_ns: AtomicU64::new(0),
            frames: [const { AtomicU64::new(0) }; TRACK_FRAMES],
        }
    }

    /// Stores who does it now.
    pub fn set(&self, thread: u32, at_ns: u64, frames: &[u64; TRACK_FRAMES]) {
        self.thread.store(u64::from(thread), Relaxed);
        self.at_ns.store(at_ns, Relaxed);
        for (frame, address) in self.frames.iter().zip(frames) {
            frame.store(*address, Relaxed);
        }
    }

    /// Forgets who did it.
    pub fn clear(&self) {
        self.thread.store(0, Relaxed);
    }

    /// Who did it, if anybody.
    #[must_use]
    pub fn get(&self) -> Option<Tracked> {
        let thread = self.thread.load(Relaxed) as u32;
        (thread != 0).then(|| Tracked {
            thread,
            at_ns: self.at_ns.load(Relaxed),
            frames: self.frames.each_ref().map(|frame| frame.load(Relaxed)),
        })
    }
}

impl Default for Track {
    fn default() -> Self {
        Self::new()
    }
}
