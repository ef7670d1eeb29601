//! The handlers of `fork`: they close the gate, so that no other thread is on a slow path, and
//! repair the instance in the child.
//!
//! The first allocation registers the handlers. Handlers that the program had registered earlier
//! run while the gate is closed. They can allocate: the thread that closed the gate may enter.

use crate::background::{self, is_at_rest, visit_locks};
use crate::balancer::{Balancer, Cache};
use crate::gate::GATE;
use crate::instance::{STACK, is_ready, zones};
use crate::{heap_profile, record};
use quarry_mm::stack::CachedPages;
use quarry_sys::errno::KeepErrno;
use quarry_sys::glibc;
use quarry_sys::primitive::{AtomicBool, AtomicU32, Ordering, task};

/// True if the process had other threads when the last fork began.
static HAD_OTHERS: AtomicBool = AtomicBool::new(false);

/// Number of forks between the process that was started and this one, not counting those before the
/// first use of the page cache.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// A number that differs between a process that uses the page cache and its forked children.
#[cfg(feature = "page-cache")]
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

pub(crate) fn register_handlers() {
    // SAFETY: the handlers live as long as the process, because their object is never unloaded.
    unsafe { glibc::at_fork(before, in_parent, in_child) };
}

extern "C" fn before() {
    background::begin_fork();
    let others = !task::is_alone();
    // Stores only a new value: after a fork the kernel copies each page that is written.
    if HAD_OTHERS.load(Ordering::Relaxed) != others {
        HAD_OTHERS.store(others, Ordering::Relaxed);
    }
    if !others {
        return;
    }
    let _errno = KeepErrno::new();
    // Takes the lock of the list of streams before the gate. `fork` would take it later, and its
    // holder may wait for a stream whose owner waits at the gate for memory (getline).
    glibc::lock_streams();
    GATE.close();
}

extern "C" fn in_parent() {
    if HAD_OTHERS.load(Ordering::Relaxed) {
        let _errno = KeepErrno::new();
        GATE.open();
        glibc::unlock_streams();
    }
    background::end_fork(false);
}

extern "C" fn in_child() {
    // Writes only if needed, because the kernel copies each page to which the child writes.
    if is_ready() && Cache::is_used(&STACK) {
        GENERATION.fetch_add(1, Ordering::Relaxed);
    }
    background::forget_thread();
    record::adopt_in_child();
    let had_others = HAD_OTHERS.load(Ordering::Relaxed);
    if had_others {
        visit_locks(&mut |_, lock| lock.adopt_in_child());
        #[cfg(feature = "heaps")]
        crate::inside::adopt_in_child();
        if is_ready() {
            zones().budget().adopt_in_child();
        }
    }
    Cache::forget_parent(had_others);
    if had_others {
        GATE.open_in_child();
        glibc::reset_streams();
    }
    background::end_fork(had_others);
    heap_profile::adopt_in_child();
    // Starts no thread if a signal handler has interrupted work on the instance, and forks.
    if record::wants_thread() && is_ready() && is_at_rest() {
        let _errno = KeepErrno::new();
        background::start_while_allocating();
    }
}
