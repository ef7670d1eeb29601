//! The limits that the program, an option and the control group set, as the budget of the stack.
//!
//! The files are read when the heap has grown by another step, and before a request that would be
//! such a step by itself; a program that stays small never reads them. Between two looks the budget
//! keeps the heap within what the last look found:
//!
//! `limit = min(own, held + headroom, bound - others)`, where `own` is what the option or the
//! program itself has set last; where `held` is what the heap may have in memory: what is in use,
//! and free memory that still holds data; where `bound = group limit - margin` and
//! `headroom = bound - group usage`; and where `others` is what the group uses beside this heap: at
//! least `usage - held`, and never much less than it was, because part of what is in use may not
//! have been touched yet and then hides them.

use crate::process::STACK;
use quarry_core::frame::FRAME_BYTES;
use quarry_core::heap::LARGEST_BLOCK;
use quarry_core::zone::Zone;
use quarry_sys::cgroup::{MemoryLimit, memory_limit};
use quarry_sys::primitive::{
    AtomicBool, AtomicU32,
    Ordering::{Relaxed, SeqCst},
};

/// Growth between two looks: 8 MiB, whose page faults take a hundred times as long as a look.
const STEP_FRAMES: u32 = 2048;
/// The smallest step, where headroom is short: 1 MiB.
const SHORT_STEP_FRAMES: u32 = 256;
/// Looks are this many steps apart in a process that has no limit; one may be set later.
const STEPS_WITHOUT_LIMIT: u32 = 8;

/// Frames held at which the files are read again.
static NEXT_LOOK: AtomicU32 = AtomicU32::new(STEP_FRAMES);
/// Frames that the group was last seen to use beside this heap.
static OTHERS: AtomicU32 = AtomicU32::new(0);
static HEEDED: AtomicBool = AtomicBool::new(true);
/// The limit that the option has set, or the program itself since, in frames.
static OWN: AtomicU32 = AtomicU32::new(u32::MAX);
/// What the last look at the group's files allowed, in frames; all ones where there is no limit.
static GROUP: AtomicU32 = AtomicU32::new(u32::MAX);

/// Takes over the settings.
pub(crate) fn configure(heed_group: bool, limit_frames: u32) {
    HEEDED.store(heed_group, Relaxed);
    OWN.store(limit_frames, Relaxed);
}

/// Sets the program's own limit in bytes, rounded down to frames; it takes the option's place. What
/// is in use already stays in use.
pub(crate) fn set_own(bytes: usize) {
    OWN.store(frames(bytes as u64), SeqCst);
    apply();
}

/// The effective limit in bytes, `None` where there is none.
pub(crate) fn effective() -> Option<usize> {
    let frames = STACK.pages().zones().budget().limit();
    (frames != u32::MAX).then(|| frames as usize * FRAME_BYTES)
}

/// The lower of the own limit and the group's.
fn lowest() -> u32 {
    OWN.load(SeqCst).min(GROUP.load(SeqCst))
}

/// Sets the budget to it.
fn apply() {
    let mut limit = lowest();
    loop {
        STACK.pages().zones().budget().set_limit(limit);
        // Another thread may have changed one of them meanwhile, and set the budget before us.
        let now = lowest();
        if now == limit {
            return;
        }
        limit = now;
    }
}

/// Called before a request of `size` bytes that the straight path could not serve. O(1) but for
/// one look per step of growth.
#[inline]
pub(crate) fn before(size: usize) {
    // A mapping takes fresh memory, but for what a freed one may serve.
    let fresh = if size > LARGEST_BLOCK { size.saturating_sub(STACK.kept_bytes()) } else { 0 };
    let (held, next) = (held(), NEXT_LOOK.load(Relaxed));
    let reached = held.saturating_add(frames(fresh as u64));
    if reached >= next {
        look(reached);
    } else if GROUP.load(Relaxed) != u32::MAX && next - held > 4 * STEP_FRAMES {
        // The heap has shrunk, and what it grows by now others may have taken meanwhile.
        look_again();
    }
}

/// Called a few times a second while memory goes back: growth from here on is looked at, though the
/// heap has been larger before.
pub(crate) fn look_again() {
    let next = held().saturating_add(STEP_FRAMES);
    if next < NEXT_LOOK.load(Relaxed) {
        NEXT_LOOK.store(next, Relaxed);
    }
}

/// Frames that the heap may have in memory. O(nodes).
fn held() -> u32 {
    let zones = STACK.pages().zones();
    zones.budget().used() + zones.all().map(Zone::dirty).sum::<u32>()
}

/// Reads the files and sets the budget. `reached` is what a request would bring the heap to.
#[cold]
fn look(reached: u32) {
    // Also where the request itself is a large step, or pairs of large ones would look each time.
    NEXT_LOOK.store(reached.saturating_add(STEP_FRAMES), Relaxed);
    if !HEEDED.load(Relaxed) {
        return;
    }
    let Some(mut group) = memory_limit() else {
        NEXT_LOOK.store(reached.saturating_add(STEPS_WITHOUT_LIMIT * STEP_FRAMES), Relaxed);
        GROUP.store(u32::MAX, SeqCst);
        apply();
        return;
    };
    // Free memory that still holds data counts in the group but not in the budget.
    if STACK.freeable_bytes() / FRAME_BYTES > headroom(group) as usize / 2 {
        STACK.purge_free();
        group = memory_limit().unwrap_or(group);
    }
    let held = held();
    let hidden = OTHERS.load(Relaxed);
    let others = frames(group.usage).saturating_sub(held).max(hidden - hidden / 8);
    OTHERS.store(others, Relaxed);
    let room = bound(group).saturating_sub(others);
    GROUP.store(room.min(held.saturating_add(headroom(group))), SeqCst);
    apply();
    let step = (headroom(group) / 4).clamp(SHORT_STEP_FRAMES, STEP_FRAMES);
    NEXT_LOOK.store(held.max(reached.min(lowest())).saturating_add(step), Relaxed);
}

fn frames(bytes: u64) -> u32 {
    u32::try_from(bytes / FRAME_BYTES as u64).unwrap_or(u32::MAX)
}

/// What heaps may fill: for the kernel's own needs and its stocks per CPU, 1/32 and at least 2 MiB
/// are left.
fn bound(group: MemoryLimit) -> u32 {
    let limit = frames(group.limit);
    limit.saturating_sub((limit / 32).max(512))
}

fn headroom(group: MemoryLimit) -> u32 {
    bound(group).saturating_sub(frames(group.usage))
}
