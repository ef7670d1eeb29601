//! Tracks: which thread allocated or freed an object, and when.

use quarry_sys::primitive::{AtomicU64, Ordering::Relaxed};

/// Callers in a track, innermost first (`TRACK_ADDRS_COUNT`, `mm/slub.c`, Linux 6.18).
pub(crate) const TRACK_FRAMES: usize = 16;

/// The thread that allocated or freed an object, the time, and its callers; the thread is 0 until
/// then. A program may overwrite a track, so readers use no value in it as an address.
#[repr(C)]
pub(crate) struct Track {
    thread: AtomicU64,
    at_ns: AtomicU64,
    frames: [AtomicU64; TRACK_FRAMES],
}

/// A copy of a [`Track`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tracked {
    /// The kernel's thread id.
    pub(crate) thread: u32,
    /// The time, by the monotonic clock.
    pub(crate) at_ns: u64,
    /// Return addresses, innermost first; 0 after the last.
    pub(crate) frames: [u64; TRACK_FRAMES],
}

impl Track {
    pub(crate) fn set(&self, thread: u32, at_ns: u64, frames: &[u64; TRACK_FRAMES]) {
        self.thread.store(u64::from(thread), Relaxed);
        self.at_ns.store(at_ns, Relaxed);
        for (frame, address) in self.frames.iter().zip(frames) {
            frame.store(*address, Relaxed);
        }
    }

    pub(crate) fn clear(&self) {
        self.thread.store(0, Relaxed);
    }

    /// The contents, if the track is not empty.
    pub(crate) fn get(&self) -> Option<Tracked> {
        let thread = self.thread.load(Relaxed) as u32;
        (thread != 0).then(|| Tracked {
            thread,
            at_ns: self.at_ns.load(Relaxed),
            frames: self.frames.each_ref().map(|frame| frame.load(Relaxed)),
        })
    }
}
