//! Switches the profile on while a tracer is attached to the probes of its samples.
//!
//! A tracer needs no other preparation: it attaches, and slow paths see its semaphore. The mean is
//! that of `QUARRY_PROFILE_MEAN`. A profile that is on already serves the tracer, too.

use super::at_exit::mean;
use super::switch::{begin, stop};
use crate::error::Error;
use quarry_sys::primitive::{AtomicBool, Ordering::Relaxed};
use quarry_sys::probe;
use quarry_watch::profile::ProfileKind;

/// The answer of the last look.
static WAS_TRACED: AtomicBool = AtomicBool::new(false);
/// The profile that is on was started for a tracer.
static IS_OURS: AtomicBool = AtomicBool::new(false);

/// Starts or stops a profile if a tracer has come or gone. Called at the end of slow paths, without
/// a lock, outside the gate. O(1) otherwise, three loads.
#[inline]
pub(crate) fn look_for_tracers() {
    let is_traced = probe::is_traced();
    if is_traced != WAS_TRACED.load(Relaxed) {
        switch(is_traced);
    }
}

#[cold]
#[inline(never)]
fn switch(is_traced: bool) {
    if WAS_TRACED.swap(is_traced, Relaxed) == is_traced {
        return;
    }
    if !is_traced {
        if IS_OURS.swap(false, Relaxed) {
            stop();
        }
        return;
    }
    match begin(mean(), ProfileKind::InUse) {
        Ok(()) => IS_OURS.store(true, Relaxed),
        // The next slow path tries again.
        Err(Error::Switching) => WAS_TRACED.store(false, Relaxed),
        Err(_) => {}
    }
}

/// After the end of another profile, or in the child of a fork: the next look starts one anew.
pub(super) fn look_anew() {
    for word in [&WAS_TRACED, &IS_OURS] {
        // Stores only a new value, because the kernel copies each page to which the child writes.
        if word.load(Relaxed) {
            word.store(false, Relaxed);
        }
    }
}
