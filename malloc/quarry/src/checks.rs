//! Hooks of debugging: a check of all objects at exit, and a SIGSEGV handler that reports the
//! object at the faulting address.

use crate::gate;
use crate::instance::{HAS_RECORDS, STACK, checks};
use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use quarry_mm::heap::{CheckOptions, Sampling};
use quarry_sys::fault;

/// The previous action of SIGSEGV.
struct Before(UnsafeCell<MaybeUninit<libc::sigaction>>);

// SAFETY: written once, by `start`, before the handler that reads it is installed.
unsafe impl Sync for Before {}

static BEFORE: Before = Before(UnsafeCell::new(MaybeUninit::uninit()));

/// Installs the hooks that the options need. Called once, when the instance is ready.
pub(crate) fn start(options: CheckOptions) {
    if HAS_RECORDS && options.have_records() {
        // SAFETY: the object that the function is in is never unloaded.
        unsafe { libc::atexit(at_exit) };
    }
    if options.have_records() || options.guard != Sampling::Off {
        handle_faults();
    }
}

extern "C" fn at_exit() {
    gate::with_all_outside(|| checks().look_at_all(&STACK));
}

fn handle_faults() {
    // SAFETY: the action is filled before it is used, its handler has the type that SA_SIGINFO
    // requires, and only this call writes BEFORE.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = on_fault as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigaction(libc::SIGSEGV, &raw const action, (*BEFORE.0.get()).as_mut_ptr());
    }
}

/// Reports an access to memory that the checks have made inaccessible. Any other fault is repeated,
/// with the previous action of SIGSEGV.
extern "C" fn on_fault(_: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel gives both to a handler with SA_SIGINFO.
    let (address, is_write) = unsafe { ((*info).si_addr() as usize, fault::is_write(context)) };
    let access = match is_write {
        Some(true) => "write to",
        Some(false) => "read of",
        None => "access to",
    };
    checks().report_fault(&STACK, address, access);
    // SAFETY: BEFORE was filled when this handler was installed.
    unsafe {
        libc::sigaction(libc::SIGSEGV, (*BEFORE.0.get()).as_ptr(), core::ptr::null_mut());
        // A signal sent by a process is not repeated by itself, unlike a fault.
        if (*info).si_code <= 0 {
            libc::raise(libc::SIGSEGV);
        }
    }
}
