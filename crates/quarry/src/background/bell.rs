//! The state of the background thread, whether it may start, and the bell that wakes it.

use quarry_sys::primitive::{AtomicBool, AtomicI64, AtomicU32, Ordering, futex};

pub(super) const NONE: u32 = 0;
pub(super) const STARTING: u32 = 1;
pub(super) const RUNNING: u32 = 2;
pub(super) const ASLEEP: u32 = 3;

pub(super) static STATE: AtomicU32 = AtomicU32::new(NONE);
pub(super) static ALLOWED: AtomicBool = AtomicBool::new(true);
pub(super) static DELAY_MS: AtomicI64 = AtomicI64::new(500);
pub(super) static BELL: AtomicU32 = AtomicU32::new(0);

pub(super) fn moves(from: u32, to: u32) -> bool {
    STATE.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

pub(crate) fn ring() {
    BELL.fetch_add(1, Ordering::AcqRel);
    futex::wake_all(&BELL);
}

#[cfg(feature = "page-cache")]
pub(super) fn is_allowed() -> bool {
    ALLOWED.load(Ordering::Relaxed) && DELAY_MS.load(Ordering::Relaxed) >= 0
}

/// Returns whether the thread runs or sleeps, so that it fulfils requests.
pub(crate) fn is_at_work() -> bool {
    matches!(STATE.load(Ordering::Acquire), RUNNING | ASLEEP)
}

/// Returns whether the thread exists, or is being started.
#[cfg(feature = "page-cache")]
pub(crate) fn has_thread() -> bool {
    STATE.load(Ordering::Acquire) != NONE
}
