//! The process across `fork`: a thread that works on the instance in several steps is inside a
//! gate, and the handlers of `fork` close it.
//!
//! The first allocation registers the handlers. Handlers that the program registered before run
//! while the gate is closed. They can allocate, because the thread that forks has closed the gate
//! and passes through it.

use crate::balancer::{Balancer, Cache};
use crate::gate::{self, GATE};
use crate::instance::{STACK, is_ready};
use crate::{background, profile, record};
use quarry_sys::errno::KeepErrno;
use quarry_sys::glibc;
use quarry_sys::locks::Visit;
use quarry_sys::primitive::{AtomicBool, AtomicU32, Ordering};

/// True if the last fork began while other threads existed.
static HAD_OTHERS: AtomicBool = AtomicBool::new(false);

/// Number of forks between this process and the one that was started.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// A number that differs from those of all parents and children of this process.
#[cfg(feature = "page-cache")]
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// Visits every lock of the instance.
pub(crate) fn visit_locks(visit: &mut Visit<'_>) {
    background::visit_locks(visit);
    Cache::visit_process_locks(visit);
    profile::visit_locks(visit);
    if is_ready() {
        STACK.upkeep().visit_locks(visit);
    }
}

/// Registers the handlers.
pub(crate) fn register_handlers() {
    // SAFETY: the three handlers are `extern "C"` functions that live as long as the process,
    // because their object is never unloaded.
    unsafe { glibc::at_fork(before, in_parent, in_child) };
}

extern "C" fn before() {
    let others = !glibc::is_single_threaded();
    // A page that is not written is not copied.
    if HAD_OTHERS.load(Ordering::Relaxed) != others {
        HAD_OTHERS.store(others, Ordering::Relaxed);
    }
    if !others {
        return;
    }
    let _errno = KeepErrno::new();
    // `fork` itself takes this lock after all handlers. Its holder may wait for a stream, and the
    // owner of that stream for memory, as in getline. So the lock must come before the gate.
    glibc::lock_streams();
    GATE.close();
}

extern "C" fn in_parent() {
    if HAD_OTHERS.load(Ordering::Relaxed) {
        let _errno = KeepErrno::new();
        GATE.open();
        glibc::unlock_streams();
    }
}

extern "C" fn in_child() {
    // Only if needed, because a page that is not written is not copied.
    if is_ready() && Cache::is_used() {
        GENERATION.fetch_add(1, Ordering::Relaxed);
    }
    background::forget_thread();
    record::adopt_in_child();
    if HAD_OTHERS.load(Ordering::Relaxed) {
        visit_locks(&mut |_, lock| lock.adopt_in_child());
        Cache::forget_threads();
        if is_ready() {
            STACK.upkeep().adopt_in_child();
        }
        GATE.open_in_child();
        glibc::reset_streams();
    }
    profile::adopt_in_child();
    // Not in the middle of work that this fork, in a signal handler, has interrupted.
    if record::wants_thread() && is_ready() && is_at_rest() {
        let _errno = KeepErrno::new();
        background::start_while_allocating();
    }
}

/// Returns whether the running thread holds no lock, and changes no table that others read without
/// one: for callers that may have interrupted it.
pub(crate) fn is_at_rest() -> bool {
    if !is_ready() {
        return true;
    }
    let Some(_inside) = gate::try_enter() else { return false };
    let mut are_free = true;
    visit_locks(&mut |_, lock| are_free &= lock.is_free());
    are_free
}
