//! Gives memory back while the system, or the group of the process, is short of memory.
//!
//! The kernel tells for how long tasks have waited for memory (PSI). Which file is watched, and how
//! much waiting is pressure, systemd may say by `$MEMORY_PRESSURE_WATCH` and
//! `$MEMORY_PRESSURE_WRITE` (its page *Memory Pressure Handling*); else it is the file of the
//! group. `QUARRY_PRESSURE` chooses another file, or none.
//!
//! No thread is made for this. The background thread looks whenever it wakes, at least once a
//! second. Without it slow paths look, at most every 100 ms, once the heap has 4 MiB.
//!
//! Under pressure, free memory goes back at once, an eighth of the cached pages is scanned, and
//! the callbacks for pressure hear `Medium`; from the next look without pressure on, what the
//! budget says. Functions of the program run on the background thread only. A program that keeps
//! all of its memory (`QUARRY_PURGE_DELAY=-1`) keeps it under pressure, too.

use crate::balancer::{Balancer, Cache};
use crate::gate;
use crate::instance::{STACK, is_ready, zones};
use crate::settings::{Pressing, known};
use core::ffi::CStr;
use quarry_mm::frame::FRAME_BYTES;
use quarry_sys::clock::coarse_ns;
use quarry_sys::confined::is_confined;
use quarry_sys::errno::KeepErrno;
use quarry_sys::own_stack;
use quarry_sys::primitive::{AtomicBool, AtomicU64, Ordering::Relaxed};
use quarry_sys::psi::{self, Pipe, Stall, Told, Trigger};

/// Shortest time between two looks: 100 ms.
const INTERVAL_NS: u64 = 100_000_000;
/// Time to the next look where there is no file: 10 s. The process may enter another group.
const ABSENT_NS: u64 = 100 * INTERVAL_NS;
/// Frames in use, or freed and still in memory (4 MiB), from which on slow paths look.
const LEAST_FRAMES: u32 = ((4 << 20) / FRAME_BYTES) as u32;

/// Time from which the next look is due, by the coarse clock.
static NEXT_NS: AtomicU64 = AtomicU64::new(0);
/// The [`Stall`] at which the present window began; all zero before the first look.
static BEGIN: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
/// The callbacks have heard of pressure, and not of its end.
static IS_PRESSED: AtomicBool = AtomicBool::new(false);
static PIPE: Pipe = Pipe::new();
/// The background thread looks.
static HAS_THREAD: AtomicBool = AtomicBool::new(false);
/// No memory goes back by itself.
static KEEPS_ALL: AtomicBool = AtomicBool::new(false);

pub(crate) fn note_thread(is_there: bool) {
    HAS_THREAD.store(is_there, Relaxed);
}

pub(crate) fn keep_all(all: bool) {
    KEEPS_ALL.store(all, Relaxed);
}

/// Returns whether [`look_without_thread`] may be due. O(nodes).
#[inline]
pub(crate) fn is_left_to_slow_paths() -> bool {
    let is_large = || {
        let dirty: u32 = zones().all().map(|zone| zone.dirty()).sum();
        zones().budget().used() + dirty >= LEAST_FRAMES
    };
    !HAS_THREAD.load(Relaxed) && is_ready() && is_large()
}

/// A look by a slow path, outside the gate, at `now`. O(1), except for one look in 100 ms.
#[cold]
#[inline(never)]
pub(crate) fn look_without_thread(now: u64) {
    if is_pressed(now) {
        let _inside = gate::enter();
        own_stack::run(|| {
            Cache::reclaim_pages();
            STACK.relief.note(STACK.trim());
        });
    }
}

/// A look by the background thread, outside the gate.
pub(crate) fn look_in_thread() {
    let now = coarse_ns();
    if now < NEXT_NS.load(Relaxed) || !is_ready() {
        return;
    }
    let is_pressed = is_pressed(now);
    if is_pressed != IS_PRESSED.swap(is_pressed, Relaxed) {
        Cache::note_pressure(is_pressed);
    }
    if is_pressed {
        // Outside the gate: shrinkers are functions of the program.
        Cache::give_way();
        let _inside = gate::enter();
        STACK.relief.note(STACK.trim());
    }
}

/// Looks, unless that is not due; returns whether there has been pressure since the last look.
fn is_pressed(now: u64) -> bool {
    let next = NEXT_NS.load(Relaxed);
    // One thread looks.
    if now < next || NEXT_NS.compare_exchange(next, now + INTERVAL_NS, Relaxed, Relaxed).is_err() {
        return false;
    }
    let _errno = KeepErrno::new();
    let Some(settings) = known() else { return false };
    let is_full = settings.trigger.is_full;
    let told = match &settings.pressure {
        _ if is_confined() || KEEPS_ALL.load(Relaxed) => None,
        Pressing::Off => None,
        Pressing::OwnGroup => own_stack::run(|| psi::of_own_group(is_full)).map(Told::Total),
        Pressing::File(name) => CStr::from_bytes_until_nul(name.as_bytes())
            .ok()
            .and_then(|name| own_stack::run(|| psi::read(name, is_full, &PIPE)).ok()),
    };
    match told {
        Some(Told::Written(is_written)) => is_written,
        Some(Told::Total(total_us)) => {
            has_waited(Stall { total_us, at_us: now / 1000 }, settings.trigger)
        }
        None => {
            NEXT_NS.store(now + ABSENT_NS, Relaxed);
            false
        }
    }
}

fn has_waited(now: Stall, trigger: Trigger) -> bool {
    let [total_us, at_us] = BEGIN.each_ref().map(|word| word.load(Relaxed));
    let (is_pressed, begin) = match at_us {
        0 => (false, now),
        _ => now.since(Stall { total_us, at_us }, trigger),
    };
    BEGIN[0].store(begin.total_us, Relaxed);
    BEGIN[1].store(begin.at_us, Relaxed);
    is_pressed
}
