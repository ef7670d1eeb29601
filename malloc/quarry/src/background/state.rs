//! The states of the background thread, and the words by which other threads reach it.

use crate::instance::STACK;
use quarry_mm::stack::{ReclaimState, Reclaimed, StackHost};
use quarry_sys::lock::CountedLock;
use quarry_sys::locks::Visit;
use quarry_sys::percpu::PerCpu;
use quarry_sys::primitive::{
    AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering, futex,
};

pub(super) const NS_PER_MS: u64 = 1_000_000;

/// Less than this is not worth another look.
pub(super) const LEAST_BYTES: usize = 1 << 20;

pub(super) const NONE: u32 = 0;
pub(super) const STARTING: u32 = 1;
pub(super) const RUNNING: u32 = 2;
pub(super) const ASLEEP: u32 = 3;
/// A brief thread exists, or has ended unnoticed.
pub(super) const BRIEF: u32 = 4;

pub(super) static STATE: AtomicU32 = AtomicU32::new(NONE);
pub(super) static ALLOWED: AtomicBool = AtomicBool::new(true);
pub(super) const USUAL_MS: i64 = 500;
pub(super) static DELAY_MS: AtomicI64 = AtomicI64::new(USUAL_MS);
/// True if `free` gives back at once what it can; the thread then gives back what is parked.
pub(super) static AT_ONCE: AtomicBool = AtomicBool::new(false);
pub(super) static BELL: AtomicU32 = AtomicU32::new(0);
/// The program has freed memory since the thread's last look, and enough can be given back.
pub(super) static HAS_NEWS: AtomicBool = AtomicBool::new(false);

/// Bytes of free memory that the last looks left, or fewer: neighbours in use keep them.
pub(super) static LEFT: AtomicUsize = AtomicUsize::new(0);

/// Number of forks that have begun and not ended. Handlers of the program may allocate then.
pub(super) static FORKS: AtomicU32 = AtomicU32::new(0);

/// Time from which a thread may be started, by the coarse clock.
pub(super) static NEXT_START_NS: AtomicU64 = AtomicU64::new(0);

/// The state of the work if no background thread exists, so that threads that free memory do it.
pub(super) struct Inline {
    pub(super) state: ReclaimState,
    /// Time of the next look for idle memory, by the coarse clock.
    pub(super) next_ns: u64,
}

pub(super) static INLINE: CountedLock<Inline> =
    CountedLock::new(Inline { state: ReclaimState::new(), next_ns: 0 });

pub(super) fn visit_locks(visit: &mut Visit<'_>) {
    visit("background->inline", &INLINE);
}

pub(super) fn moves(from: u32, to: u32) -> bool {
    STATE.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

pub(crate) fn ring() {
    BELL.fetch_add(1, Ordering::AcqRel);
    futex::wake_all(&BELL);
}

pub(super) fn start_not_before(ns: u64) {
    NEXT_START_NS.store(ns, Ordering::Relaxed);
}

/// Notes that looks have given back what they could.
#[inline(never)]
pub(super) fn note_left() {
    LEFT.store(ReclaimState::bound(&STACK), Ordering::Relaxed);
}

/// Bytes that slots and barns hold. O(arrays * slots).
#[inline(never)]
pub(super) fn parked() -> usize {
    STACK.limits.barns() + STACK.percpu().area().held_bytes()
}

/// Returns whether a look gave back next to nothing, of which at most `parked` came out of slots
/// and barns. A program that waits for its timer frees a few objects between two looks.
#[inline(never)]
pub(super) fn is_quiet(done: Reclaimed, parked: usize) -> bool {
    let is_little = done.bytes + if done.shrunk > 0 { parked } else { 0 } < LEAST_BYTES / 8;
    if is_little {
        note_left();
    }
    is_little && !HAS_NEWS.swap(false, Ordering::Relaxed)
}

pub(super) fn delay_ns() -> u64 {
    DELAY_MS.load(Ordering::Relaxed).max(2) as u64 * NS_PER_MS
}
