//! The limit that the control group sets, carried over to the budget of the stack.
//!
//! The files are read when the heap has grown by another step, and before a request that would be
//! such a step by itself; a program that stays small never reads them. Between two looks the budget
//! keeps the heap within what the last look found:
//!
//! `limit = min(option, used + headroom, group limit - margin)`, `headroom = group limit - margin -
//! group usage`, so that memory of others in the group counts as much as our own.

use crate::process::STACK;
use quarry_core::frame::FRAME_BYTES;
use quarry_sys::cgroup::memory_limit;
use quarry_sys::primitive::{AtomicBool, AtomicU32, Ordering};

/// Growth between two looks: 8 MiB, whose page faults take a hundred times as long as a look.
const STEP_FRAMES: u32 = 2048;

/// Frames in use at which the files are read again.
static NEXT_LOOK: AtomicU32 = AtomicU32::new(STEP_FRAMES);
static HEEDED: AtomicBool = AtomicBool::new(true);
/// The limit that options have set, in frames.
static OPTION: AtomicU32 = AtomicU32::new(u32::MAX);

/// Takes over the settings.
pub(crate) fn configure(heed_group: bool, limit_frames: u32) {
    HEEDED.store(heed_group, Ordering::Relaxed);
    OPTION.store(limit_frames, Ordering::Relaxed);
}

/// Called before a request of `size` bytes that the straight path could not serve. O(1) but for
/// one look per step of growth.
#[inline]
pub(crate) fn before(size: usize) {
    let wanted = u32::try_from(size / FRAME_BYTES).unwrap_or(u32::MAX);
    let used = STACK.pages().zones().budget().used();
    if used.saturating_add(wanted) >= NEXT_LOOK.load(Ordering::Relaxed) {
        look(used);
    }
}

#[cold]
fn look(used: u32) {
    NEXT_LOOK.store(used.saturating_add(STEP_FRAMES), Ordering::Relaxed);
    if !HEEDED.load(Ordering::Relaxed) {
        return;
    }
    let Some(group) = memory_limit() else {
        // Limits may be set later; a process without one looks eight times more rarely.
        NEXT_LOOK.store(used.saturating_add(8 * STEP_FRAMES), Ordering::Relaxed);
        return;
    };
    let frames = |bytes: u64| u32::try_from(bytes / FRAME_BYTES as u64).unwrap_or(u32::MAX);
    // For the program's own pages and what the kernel keeps for it: 1/32, at least 2 MiB.
    let margin = frames(group.limit / 32).max(512);
    let bound = frames(group.limit).saturating_sub(margin);
    let headroom = bound.saturating_sub(frames(group.usage));
    let limit = bound.min(used.saturating_add(headroom)).min(OPTION.load(Ordering::Relaxed));
    STACK.pages().zones().budget().set_limit(limit);
    // Free memory that still holds data counts in the group but not in the budget.
    if STACK.freeable_bytes() / FRAME_BYTES > headroom as usize / 2 {
        STACK.purge_free();
    }
}
