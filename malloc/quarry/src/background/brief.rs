//! The background thread of a process that has one thread of its own: it lives only while memory
//! may go back, and the C library does not know it (see [`bare_thread`]).
//!
//! Programs notice a second thread: CPython warns at `fork`, `unshare(CLONE_NEWUSER)` fails, and
//! the C library and `shared_ptr` leave their single-threaded mode for good. So this thread ends
//! after the look that finds nothing more to give back, within about two delays of the last free;
//! `fork` and a trim end it first. After a fork the next slow path starts it again.
//!
//! It runs no function of the program and none of the C library, so it neither calls shrinkers nor
//! looks at the heap profile's bell. While it exists the program's thread locks as one of several.

use super::state::{
    BELL, BRIEF, INLINE, LEAST_BYTES, NONE, STATE, delay_ns, is_quiet, moves, note_left, parked,
    ring, start_not_before,
};
use super::{privileges, thread};
use crate::instance::STACK;
use crate::{gate, limits, record};
use quarry_mm::stack::{ReclaimState, Reclaimed, StackHost, Watch};
use quarry_sys::bare_thread;
use quarry_sys::clock::coarse_ns;
use quarry_sys::errno::KeepErrno;
use quarry_sys::own_stack;
use quarry_sys::percpu::PerCpu;
use quarry_sys::primitive::{AtomicBool, Ordering, futex, task};

/// The thread ends after this many looks in a row that give nothing back.
const QUIET_LOOKS: usize = 2;
/// Longest wait for the end of the thread, in naps of 50 us: it may be in a step of milliseconds.
const MOST_NAPS: u32 = 4000;

/// Shortest time from a dismissal to the next start. What a program frees within this time, before
/// it becomes idle, stays with it.
const REST_NS: u64 = 5_000_000;

static IS_WANTED: AtomicBool = AtomicBool::new(false);
static IS_DISMISSED: AtomicBool = AtomicBool::new(false);

/// Starts the thread; returns whether it exists now. False where this system has no such thread.
/// The caller's process has one thread, which is on no slow path.
pub(super) fn start() -> bool {
    IS_DISMISSED.store(false, Ordering::Relaxed);
    IS_WANTED.store(false, Ordering::Relaxed);
    bare_thread::start(run)
}

/// Returns whether the thread was dismissed before it had given everything back.
#[inline]
pub(super) fn is_wanted() -> bool {
    IS_WANTED.load(Ordering::Relaxed)
}

/// The state of the background thread, after noticing that this thread has ended.
#[inline]
pub(super) fn state() -> u32 {
    match STATE.load(Ordering::Acquire) {
        BRIEF if !bare_thread::is_running() => {
            moves(BRIEF, NONE);
            STATE.load(Ordering::Acquire)
        }
        state => state,
    }
}

/// Ends the thread, and waits for that: then the kernel counts one thread. (If the caller is a
/// signal handler, the thread may wait for a lock that the handler has interrupted, and stay.)
pub(crate) fn dismiss() {
    if state() == BRIEF {
        let _errno = KeepErrno::new();
        IS_DISMISSED.store(true, Ordering::Relaxed);
        ring();
        // A program may look for other threads soon after the fork, as CPython does.
        start_not_before(coarse_ns() + REST_NS);
        IS_WANTED.store(bare_thread::await_end(MOST_NAPS), Ordering::Relaxed);
        state();
    }
}

pub(super) fn forget() {
    bare_thread::forget();
    if is_wanted() {
        IS_WANTED.store(false, Ordering::Relaxed);
    }
}

fn run() {
    thread::name();
    STACK.percpu().leave_barrier_to(Some(task::current()));
    record::note_background(true);
    privileges::begin();
    let identity = thread::identity_of_main();
    let (mut quiet, mut kept) = (0, 1);
    // Memory that the policy retains becomes due after `kept` looks.
    while quiet < QUIET_LOOKS + kept - 1 && wait_for_look() {
        // This thread keeps the user that started it, and the program may be another one now.
        if thread::follow_main() != identity {
            let _inside = gate::enter();
            own_stack::run(|| STACK.trim());
            break;
        }
        let parked = parked();
        let done;
        (done, kept) = look();
        limits::look_again();
        record::publish_idle();
        quiet = if is_quiet(done, parked) { quiet + 1 } else { 0 };
        if ReclaimState::bound(&STACK) < LEAST_BYTES {
            break;
        }
    }
    if !IS_DISMISSED.load(Ordering::Relaxed) {
        note_left();
    }
    record::note_background(false);
    STACK.percpu().leave_barrier_to(None);
}

/// Waits half a delay; returns whether it is time for a look, and not for the thread's end.
fn wait_for_look() -> bool {
    let end = coarse_ns() + delay_ns() / 2;
    loop {
        // Read before the flag, so that no dismissal is missed.
        let heard = BELL.load(Ordering::Acquire);
        let left = end.saturating_sub(coarse_ns());
        if IS_DISMISSED.load(Ordering::Relaxed) || left == 0 {
            return left == 0;
        }
        futex::wait_at_most(&BELL, heard, left);
    }
}

/// Looks once, and does the work that is then due, unless the thread is dismissed. Returns also for
/// how many looks the policy retains memory.
fn look() -> (Reclaimed, usize) {
    let Some(mut inline) = INLINE.try_lock() else { return (Reclaimed::default(), 1) };
    let inside = gate::enter();
    let mut done = STACK.look(&mut inline.state, coarse_ns(), delay_ns());
    STACK.watch.tick(&STACK);
    drop(inside);
    while !IS_DISMISSED.load(Ordering::Relaxed) {
        let _inside = gate::enter();
        let Some(bytes) = STACK.purge(&mut inline.state, true) else { break };
        done.bytes += bytes;
    }
    (done, inline.state.looks_kept())
}
