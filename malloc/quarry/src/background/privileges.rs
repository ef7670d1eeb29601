//! Gives up, in the background thread, rights that the main thread gave up: rights are per thread.
//!
//! Changes of user and group need no work here: the C library repeats them in every thread, and
//! ends the process if one thread fails to (`nptl_setxid.c`). So that they succeed here, this
//! thread must never have fewer rights than the main thread may still use. So it copies the main
//! thread's *permitted* set of capabilities, not the effective one.

use quarry_sys::primitive::{AtomicBool, Ordering};
use quarry_sys::system_call::{filled, process_id};

/// `_LINUX_CAPABILITY_VERSION_3`, `include/uapi/linux/capability.h`, Linux 2.6.26.
const VERSION_3: u32 = 0x2008_0522;

/// `struct __user_cap_header_struct` (same place).
#[repr(C)]
struct Header {
    version: u32,
    thread: u32,
}

/// `struct __user_cap_data_struct` (same place), of 32 capabilities.
#[repr(C)]
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Sets {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

type Capabilities = [Sets; 2];

/// True if the thread has no rights left to give up.
static HAS_NONE: AtomicBool = AtomicBool::new(false);
static HAS_VOWED: AtomicBool = AtomicBool::new(false);

/// Called by a new thread, which has the rights of its creator.
pub(super) fn begin() {
    HAS_NONE.store(false, Ordering::Relaxed);
    HAS_VOWED.store(false, Ordering::Relaxed);
}

/// Gives up what the main thread has given up, also the right to gain rights by `exec`.
pub(super) fn follow_main(no_new_privileges: bool) {
    if !HAS_NONE.load(Ordering::Relaxed) {
        give_up();
    }
    if no_new_privileges && !HAS_VOWED.swap(true, Ordering::Relaxed) {
        // SAFETY: takes numbers only.
        unsafe { libc::syscall(libc::SYS_prctl, libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    }
}

fn give_up() {
    let both = (capabilities(0), capabilities(process_id()));
    let (Some(own), Some(of_main)) = both else { return };
    let mut kept = own;
    for (kept, of_main) in kept.iter_mut().zip(of_main) {
        kept.effective &= of_main.permitted;
        kept.permitted &= of_main.permitted;
        kept.inheritable &= of_main.inheritable | of_main.permitted;
    }
    if kept != own {
        let header = Header { version: VERSION_3, thread: 0 };
        // SAFETY: the kernel reads the header and both structures.
        unsafe { libc::syscall(libc::SYS_capset, &raw const header, kept.as_ptr()) };
    }
    HAS_NONE.store(kept == Capabilities::default(), Ordering::Relaxed);
}

/// The capabilities of a thread of this process; 0 is the calling thread.
fn capabilities(thread: u32) -> Option<Capabilities> {
    let mut header = Header { version: VERSION_3, thread };
    // SAFETY: the kernel writes the version and, where it succeeds, both structures.
    unsafe { filled(|found| libc::syscall(libc::SYS_capget, &raw mut header, found)) }.ok()
}
