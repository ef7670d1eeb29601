//! The seam's backend of a simulator: a machine, contained in the binary, that keeps the time of
//! its CPUs and decides which task runs.
//!
//! The machine uses one OS thread and switches between tasks inside the calls of [`Machine`].
//! Outside [`run_on`] every operation happens at once, as with a single task. A function without a
//! comment implements the function of the same name in another file of this folder.

use super::machine::{Access, Machine};
use core::panic::Location;
use core::sync::atomic::{AtomicU32, Ordering};
use std::cell::Cell;

std::thread_local! {
    static MACHINE: Cell<Option<&'static dyn Machine>> = const { Cell::new(None) };
    /// True while [`unseen`] runs its body.
    static UNSEEN: Cell<bool> = const { Cell::new(false) };
}

/// Dropping this, also in a panic of the body, removes the machine.
struct Behind;

impl Drop for Behind {
    fn drop(&mut self) {
        MACHINE.set(None);
        UNSEEN.set(false);
    }
}

/// Runs `body` with `machine` as the backend of this OS thread.
///
/// # Panics
/// If the thread has a machine already.
pub fn run_on<R>(machine: &dyn Machine, body: impl FnOnce() -> R) -> R {
    assert!(MACHINE.get().is_none(), "one machine at a time");
    // SAFETY: only the lifetime changes. `Behind` takes the reference out of the thread-local
    // before this function returns or unwinds. Code that copies the reference from there uses it
    // only within a call that `body` makes, and `machine` outlives `body`.
    let machine: &'static dyn Machine = unsafe { std::mem::transmute(machine) };
    MACHINE.set(Some(machine));
    let _behind = Behind;
    body()
}

/// The machine of this OS thread.
pub(super) fn machine() -> Option<&'static dyn Machine> {
    MACHINE.get()
}

/// Reports an operation of an atomic before it happens.
#[track_caller]
pub(super) fn before(address: usize, bytes: usize, access: Access) {
    if let Some(machine) = machine().filter(|_| !UNSEEN.get()) {
        machine.comes_from(Location::caller());
        machine.access(address, bytes, access);
    }
}

/// A weak exchange never fails spuriously here.
pub(super) fn fails_weakly() -> bool {
    false
}

pub(super) fn relax() {
    match machine() {
        Some(machine) => machine.relax(),
        None => std::thread::yield_now(),
    }
}

pub(super) fn task() -> usize {
    machine().map_or(1, |machine| machine.task())
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

pub(super) fn now_ns() -> u64 {
    machine().map_or(0, |machine| machine.now_ns())
}

pub(super) fn wall_ns() -> u64 {
    now_ns()
}

pub(super) fn last_tick_ns() -> u64 {
    const TICK_NS: u64 = 4_000_000;
    now_ns() / TICK_NS * TICK_NS
}

fn key(word: &AtomicU32) -> usize {
    std::ptr::from_ref(word) as usize
}

pub(super) fn wait(word: &AtomicU32, expected: u32, at_most_ns: Option<u64>) {
    let Some(machine) = machine() else { return std::thread::yield_now() };
    machine.access(key(word), size_of::<AtomicU32>(), Access::Read);
    if word.load(Ordering::SeqCst) == expected {
        machine.sleep(key(word), at_most_ns);
    }
}

pub(super) fn wake(word: &AtomicU32, most: i32) {
    if let Some(machine) = machine() {
        machine.wake(key(word), most as usize);
    }
}

pub(super) fn sleep(ns: u64) {
    if let Some(machine) = machine() {
        machine.sleep(0, Some(ns));
    }
}

pub(super) fn wake_others(_address: usize, _most: i32) -> usize {
    0
}

pub(super) fn reads_zero(_address: usize) -> Option<bool> {
    None
}

/// See [`super::announce::unseen`]. No other task runs during `body`.
pub(super) fn unseen<T>(body: impl FnOnce() -> T) -> T {
    let before = UNSEEN.replace(true);
    let result = body();
    UNSEEN.set(before);
    result
}
