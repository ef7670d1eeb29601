//! The seam's backend of a model: shuttle, which may let another thread run at every scheduling
//! point. Outside a run of the checker every operation happens at once. A function without a
//! comment implements the function of the same name in another file of this folder.

use super::machine::{Access, Machine};
use core::sync::atomic::{AtomicU32, Ordering};
use std::cell::RefCell;
use std::collections::VecDeque;

/// There is no simulated machine.
#[inline(always)]
pub(super) fn machine() -> Option<&'static dyn Machine> {
    None
}

#[inline(always)]
pub(super) fn unseen<T>(body: impl FnOnce() -> T) -> T {
    body()
}

fn is_running() -> bool {
    shuttle::current::try_get_current_task().is_some()
}

/// A place where the model checker may let another thread run. Does nothing outside a model test.
pub fn point() {
    if is_running() {
        // Shuttle's only scheduling point that leaves the running thread's priority as it is.
        shuttle::sync::atomic::AtomicBool::new(false).load(Ordering::SeqCst);
    }
}

/// Reports an operation of an atomic before it happens.
pub(super) fn before(_address: usize, _bytes: usize, _access: Access) {
    point();
}

/// Returns whether a weak exchange is to fail although the value matches.
pub(super) fn fails_weakly() -> bool {
    is_running()
        && shuttle::rand::RngCore::next_u32(&mut shuttle::rand::thread_rng()).is_multiple_of(8)
}

pub(super) fn relax() {
    if is_running() {
        shuttle::thread::yield_now();
    } else {
        std::thread::yield_now();
    }
}

/// See [`super::task::current`]. Not the thread pointer: all tasks share one OS thread.
pub(super) fn task() -> usize {
    shuttle::current::try_get_current_task().map_or(64, |task| 64 * (usize::from(task) + 2))
}

pub(super) fn task_number() -> u32 {
    task() as u32
}

pub(super) fn is_alone() -> bool {
    false
}

pub(super) fn is_known_alone() -> bool {
    false
}

pub(super) fn set_beside(_task: usize) {}

/// The real time, because the model has no time of its own.
pub(super) fn now_ns() -> u64 {
    static START: std::sync::LazyLock<std::time::Instant> =
        std::sync::LazyLock::new(std::time::Instant::now);
    START.elapsed().as_nanos() as u64
}

pub(super) fn wall_ns() -> u64 {
    now_ns()
}

pub(super) fn last_tick_ns() -> u64 {
    now_ns()
}

std::thread_local! {
    // Threads of a model share one OS thread, and no switch happens inside a borrow.
    static SLEEPERS: RefCell<VecDeque<(usize, shuttle::thread::Thread)>> =
        const { RefCell::new(VecDeque::new()) };
}

fn key(word: &AtomicU32) -> usize {
    std::ptr::from_ref(word) as usize
}

/// See [`super::futex::wait_at_most`]. Comparing and queueing are one step, as in the kernel. The
/// checker reports a deadlock if no thread wakes this one. A wait with a timeout may end any time.
pub(super) fn wait(word: &AtomicU32, expected: u32, at_most_ns: Option<u64>) {
    if !is_running() || at_most_ns.is_some() {
        // An early return is allowed: the caller reads the word again.
        return relax();
    }
    point();
    if word.load(Ordering::SeqCst) == expected {
        let me = shuttle::thread::current();
        let id = me.id();
        SLEEPERS.with_borrow_mut(|sleepers| sleepers.push_back((key(word), me)));
        shuttle::thread::park();
        // Shuttle also wakes threads spuriously; a thread that is awake must leave the queue.
        SLEEPERS.with_borrow_mut(|sleepers| sleepers.retain(|(_, thread)| thread.id() != id));
    }
}

pub(super) fn wake(word: &AtomicU32, most: i32) {
    point();
    for _ in 0..most {
        let woken = SLEEPERS.with_borrow_mut(|sleepers| {
            let place = sleepers.iter().position(|(slept_on, _)| *slept_on == key(word))?;
            sleepers.remove(place)
        });
        match woken {
            Some((_, thread)) => thread.unpark(),
            None => return,
        }
    }
}

pub(super) fn sleep(_ns: u64) {
    relax();
}

pub(super) fn wake_others(_address: usize, _most: i32) -> usize {
    0
}

pub(super) fn reads_zero(_address: usize) -> Option<bool> {
    None
}
