//! The process across `fork`: who works on the instance in several steps is inside a gate, and the
//! handlers of `fork` close it.
//!
//! The handlers are registered at the first allocation. Those of others that were registered before
//! run while the gate is closed, and allocate as ever: the thread that forks has closed it.

use crate::background;
use crate::process::{STACK, is_ready};
use quarry_sys::errno::KeepErrno;
use quarry_sys::gate::{Gate, GateGuard};
use quarry_sys::glibc;
use quarry_sys::percpu::PerCpu;
use quarry_sys::primitive::{AtomicBool, Ordering};

static GATE: Gate = Gate::new();

/// Whether the last fork began beside other threads.
static HAD_OTHERS: AtomicBool = AtomicBool::new(false);

/// Goes in for the work of a slow path; a fork waits until it is over. Does not keep `errno`.
#[inline]
pub(crate) fn enter() -> GateGuard<'static> {
    // Before the instance is ready nobody knows on which CPU he is.
    GATE.enter(|| if is_ready() { STACK.percpu().current().index() } else { 0 })
}

/// Runs `look` while nobody else is inside.
pub(crate) fn with_all_outside<T>(look: impl FnOnce() -> T) -> T {
    GATE.close();
    let seen = look();
    GATE.open();
    seen
}

/// Registers the handlers.
pub(crate) fn register_handlers() {
    // SAFETY: the three handlers are `extern "C"` functions that live as long as the process: the
    // object that they are in is never unloaded.
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
    // `fork` itself takes this lock after all handlers. Whoever holds it may wait for a stream, and
    // the owner of that stream for memory, as getline does: it must come before the gate.
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
    background::forget_thread();
    if HAD_OTHERS.load(Ordering::Relaxed) {
        if is_ready() {
            STACK.upkeep().adopt_in_child();
        }
        GATE.open_in_child();
        glibc::reset_streams();
    }
}
