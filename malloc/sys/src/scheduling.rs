//! Makes a thread ordinary that a real-time thread, or one bound to some CPUs, has started.
//!
//! The calls that change a thread's scheduling are those that hardened services do without
//! (`@resources` of `systemd.exec(5)`): their filters kill for them. So a thread first asks whether
//! there is anything to change, by calls that such filters allow, and changes nothing under a
//! filter: there it stays on its creator's CPUs, with its creator's priority.

use crate::seccomp::is_unfiltered;
use crate::system_call::checked;
use crate::topology::{Mask, cpus_at_start};

/// Makes the calling thread an ordinary one, on all CPUs on which the process could run at its
/// start. If the process has lost all of those, the thread may run on all CPUs of its control
/// group.
pub fn become_ordinary() {
    let (is_ordinary, given) = (is_ordinary(), cpus_at_start());
    let is_bound = own_cpus().is_none_or(|own| own != given);
    if is_ordinary && !is_bound || !is_unfiltered() {
        return;
    }
    if !is_ordinary {
        let none = 0i32;
        // SAFETY: the kernel reads one number, the priority.
        unsafe {
            libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_OTHER, &raw const none)
        };
    }
    let masks = [given, [!0; size_of::<Mask>() / 8]];
    // SAFETY: the kernel reads a whole mask.
    let run_on = |mask: &Mask| unsafe {
        libc::syscall(libc::SYS_sched_setaffinity, 0, size_of::<Mask>(), mask.as_ptr()) == 0
    };
    if is_bound {
        masks.iter().any(run_on);
    }
}

fn is_ordinary() -> bool {
    // SAFETY: takes a number; 0 is the calling thread.
    let policy = checked(unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) });
    policy.is_ok_and(|policy| policy as i32 & !libc::SCHED_RESET_ON_FORK == libc::SCHED_OTHER)
}

fn own_cpus() -> Option<Mask> {
    let mut mask: Mask = [0; size_of::<Mask>() / 8];
    let bytes = size_of::<Mask>();
    // SAFETY: the kernel writes at most the mask's bytes.
    let asked =
        checked(unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, bytes, mask.as_mut_ptr()) });
    asked.is_ok().then_some(mask)
}
