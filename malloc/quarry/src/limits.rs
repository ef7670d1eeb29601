//! Computes the budget's limit, from `QUARRY_LIMIT` or the program and from the control group, and
//! how many CPUs may park objects.
//!
//! Quarry *looks* at the control group's files when the heap has grown by a step, and before a
//! request as large as a step. It also looks, at most every few milliseconds, before it refuses a
//! request because of that group, since other processes may have released memory. A
//! program that stays small never reads the files. Between two looks the budget keeps the heap
//! within the result of the last look:
//!
//! `limit = min(own, held + min(headroom, bound - others - beside - held) / sharers)`
//!
//! * `own`: the limit that was set last, by the option or by the program.
//! * `held`: memory of the heap that is in use, or is free and still holds data.
//! * `bound = control group's limit - margin`, and `headroom = bound - usage` of the group.
//! * `sharers`: processes of the group, counted up to 4. If all of them grow by as much at the same
//!   time, before one sees the growth of another, the group still has room. So a process is refused
//!   large requests earlier than small ones.
//! * `others = usage - resident`: the use of other processes of the group, which may come and go.
//! * `beside`: memory of this process outside of its heap: at least `resident - held`, and at least
//!   7/8 of the last value, because `held` also has memory that is in use but not yet resident.
//!
//! Where many CPUs use the heap, a look also reads the group's quota of CPU time. Under a quota of
//! two CPUs, threads may run on all 64 of a machine; their arrays get the room of four.
//!
//! In a group with several processes, one that has shrunk looks again after the next step, because
//! others may use what it gave back; and what it has free goes back while the group is short.
//!
//! If the files cannot be read, for example because no descriptor is free, the last limit stays.

use crate::instance::{STACK, zones};
use quarry_mm::frame::FRAME_BYTES;
use quarry_mm::heap::LARGEST_BLOCK;
use quarry_mm::stack::StackHost;
use quarry_mm::zone::Zone;
use quarry_sys::cgroup::{MemoryLimit, cpu_quota, memory_limit};
use quarry_sys::clock::coarse_ns;
use quarry_sys::overcommit;
use quarry_sys::own_stack;
use quarry_sys::percpu::PerCpu;
use quarry_sys::primitive::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{Relaxed, SeqCst},
};
use quarry_sys::statm::anonymous_bytes;

/// Growth between two looks: 8 MiB, whose page faults take a hundred times as long as one look.
const STEP_FRAMES: u32 = 2048;
/// The smallest step, used near the limit: 1 MiB.
const SHORT_STEP_FRAMES: u32 = 256;
/// Steps between two looks in a group without a limit, since it may get a limit later.
const STEPS_WITHOUT_LIMIT: u32 = 8;

/// So many CPUs may park objects whatever the quota: most machines never read it.
const CPUS_UNBOUND: usize = 4;
/// CPUs that may park objects, for each whose time the group's quota allows: threads move.
const CPUS_PER_QUOTA: u32 = 2;

/// Least time between two looks before refusals: 5 ms, some thousand times what a look takes.
const REFUSAL_LOOK_NS: u64 = 5_000_000;

/// Bytes of memory and swap of the machine at the start.
static MACHINE: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Time of the last look, by the monotonic clock.
static LOOKED_NS: AtomicU64 = AtomicU64::new(0);
/// Frames held by the heap at which the next look is due.
static NEXT_LOOK: AtomicU32 = AtomicU32::new(STEP_FRAMES);
/// The `beside` of the last look (see above), in frames.
static BESIDE: AtomicU32 = AtomicU32::new(0);
static HEEDED: AtomicBool = AtomicBool::new(true);
/// The limit that the option or later the program set, in frames.
static OWN: AtomicU32 = AtomicU32::new(u32::MAX);
/// The limit that the last look computed, in frames; all bits set if the group has no limit.
static GROUP: AtomicU32 = AtomicU32::new(u32::MAX);
/// Growth until the next look, in frames, as the last look decided.
static STEP: AtomicU32 = AtomicU32::new(STEP_FRAMES);
/// The number of sharers at the last look.
static SHARERS: AtomicU32 = AtomicU32::new(1);

pub(crate) fn configure(heed_group: bool, limit_frames: u32) {
    HEEDED.store(heed_group, Relaxed);
    OWN.store(limit_frames, Relaxed);
}

pub(crate) fn ask_machine() {
    if MACHINE.load(Relaxed) == usize::MAX
        && let Some(bytes) = overcommit::memory_and_swap()
    {
        MACHINE.store(bytes, Relaxed);
    }
}

/// Returns whether the kernel would refuse a request of `size` bytes by its size alone. O(1).
#[inline]
pub(crate) fn is_beyond_machine(size: usize) -> bool {
    size > MACHINE.load(Relaxed) && overcommit::is_guessing()
}

/// Sets the program's own limit in bytes, in place of the option. Memory in use stays in use.
pub(crate) fn set_own(bytes: usize) {
    OWN.store(frames(bytes as u64), SeqCst);
    apply();
}

pub(crate) fn effective() -> Option<usize> {
    let frames = zones().budget().limit();
    (frames != u32::MAX).then(|| frames as usize * FRAME_BYTES)
}

pub(crate) fn lowest() -> u32 {
    OWN.load(SeqCst).min(GROUP.load(SeqCst))
}

fn apply() {
    let mut limit = lowest();
    loop {
        zones().budget().set_limit(limit);
        // Another thread may have changed a limit, and set the budget to it, in between.
        let now = lowest();
        if now == limit {
            return;
        }
        limit = now;
    }
}

/// Called before a request that the fast path did not serve. O(1), except for one look per step.
#[inline]
pub(crate) fn before(size: usize) {
    // A mapping takes new memory, except what freed mappings have kept.
    let fresh =
        if size > LARGEST_BLOCK { size.saturating_sub(STACK.mappings.cached_bytes()) } else { 0 };
    let (fresh, held, next) = (frames(fresh as u64), held(), NEXT_LOOK.load(Relaxed));
    let reached = held.saturating_add(fresh);
    if reached >= next {
        // A request beyond the limit, or beyond all frames, is refused first.
        let used = zones().budget().used().saturating_add(fresh);
        if used <= lowest() && used != u32::MAX {
            look(reached);
        }
    } else if GROUP.load(Relaxed) != u32::MAX && next - held > 2 * STEP.load(Relaxed) {
        // The heap has shrunk, and other processes may use the memory that it gave back.
        look_after_step();
    }
}

/// Returns whether a refused request may succeed now, because a look has raised the limit.
#[cold]
pub(crate) fn is_raised() -> bool {
    let (group, looked) = (GROUP.load(SeqCst), LOOKED_NS.load(Relaxed));
    if group == u32::MAX || group > OWN.load(SeqCst) {
        return false;
    }
    let now = coarse_ns();
    // Of all requests that are being refused, one looks.
    if now.wrapping_sub(looked) < REFUSAL_LOOK_NS
        || LOOKED_NS.compare_exchange(looked, now, Relaxed, Relaxed).is_err()
    {
        return false;
    }
    look(held());
    GROUP.load(SeqCst) > group
}

/// Called now and then while memory goes back. From now on, growth by a step causes a look again;
/// where others share the group's limit, looks now.
pub(crate) fn look_again() {
    if GROUP.load(Relaxed) != u32::MAX && SHARERS.load(Relaxed) > 1 {
        return look(held());
    }
    look_after_step();
    if HEEDED.load(Relaxed) {
        look_at_quota();
    }
}

fn look_after_step() {
    let next = held().saturating_add(STEP.load(Relaxed));
    if next < NEXT_LOOK.load(Relaxed) {
        NEXT_LOOK.store(next, Relaxed);
    }
}

/// Frames that the heap may have in memory. O(nodes).
fn held() -> u32 {
    let zones = zones();
    zones.budget().used() + zones.all().map(Zone::dirty).sum::<u32>()
}

/// Reads the group's files, and sets the limit. The request makes the heap `reached` frames large.
#[cold]
fn look(reached: u32) {
    // Set before the look: otherwise each pair of a large malloc and free would cause a look.
    NEXT_LOOK.store(reached.saturating_add(STEP.load(Relaxed)), Relaxed);
    if HEEDED.load(Relaxed) {
        look_at_quota();
        own_stack::run(|| look_at_group(reached));
    }
}

/// Bounds what CPUs park where the group's quota of CPU time is below their number.
#[inline(never)]
fn look_at_quota() {
    if STACK.percpu().area().awake_slots() > CPUS_UNBOUND
        && let Ok(quota) = own_stack::run(cpu_quota)
    {
        let most = |cpus: u32| cpus.saturating_mul(CPUS_PER_QUOTA).max(CPUS_UNBOUND as u32);
        STACK.limits.bound_cpus(quota.map(most));
    }
}

#[inline(never)]
fn look_at_group(reached: u32) {
    LOOKED_NS.store(coarse_ns(), Relaxed);
    let mut group = match memory_limit() {
        Ok(Some(group)) => group,
        Ok(None) => {
            let step = STEPS_WITHOUT_LIMIT * STEP_FRAMES;
            STEP.store(step, Relaxed);
            NEXT_LOOK.store(reached.saturating_add(step), Relaxed);
            return set_group(u32::MAX);
        }
        // The last known limit stays, and the next step looks again.
        Err(_) => return,
    };
    // The group counts free memory that still holds data; the budget does not.
    SHARERS.store(group.processes, Relaxed);
    let room = (headroom(group) / group.processes).min(frames(group.room_below_high));
    if STACK.mappings.freeable_bytes(zones()) / FRAME_BYTES > room as usize / 2 {
        STACK.mappings.purge_all(zones());
        group = memory_limit().ok().flatten().unwrap_or(group);
    }
    if group.limit == u64::MAX {
        return set_group(u32::MAX);
    }
    let held = held();
    let (usage, hidden) = (frames(group.usage), BESIDE.load(Relaxed));
    let resident = anonymous_bytes().map_or(held, frames);
    let beside = resident.saturating_sub(held).max(hidden - hidden / 8);
    BESIDE.store(beside, Relaxed);
    let room = bound(group).saturating_sub(usage.saturating_sub(resident)).saturating_sub(beside);
    let share = room.saturating_sub(held).min(headroom(group)) / group.processes;
    set_group(room.min(held.saturating_add(share)));
    let step = (share / 4).clamp(SHORT_STEP_FRAMES, STEP_FRAMES);
    STEP.store(step, Relaxed);
    NEXT_LOOK.store(held.max(reached.min(lowest())).saturating_add(step), Relaxed);
}

fn set_group(frames: u32) {
    GROUP.store(frames, SeqCst);
    apply();
}

pub(crate) fn frames(bytes: u64) -> u32 {
    u32::try_from(bytes / FRAME_BYTES as u64).unwrap_or(u32::MAX)
}

/// The part of a group's limit that heaps may fill. The rest is for the kernel itself and its
/// per-CPU stocks, 1/32 but at least 2 MiB, and for the last step of each further process.
fn bound(group: MemoryLimit) -> u32 {
    let limit = frames(group.limit);
    let steps = (group.processes - 1) * SHORT_STEP_FRAMES;
    limit.saturating_sub((limit / 32).max(512) + steps.min(limit / 32))
}

fn headroom(group: MemoryLimit) -> u32 {
    bound(group).saturating_sub(frames(group.usage))
}
