//! What identifies the running thread without a call into libc, and how it waits.

/// The thread pointer: unique among live threads of this process, never 0. O(1), one load.
///
/// It serves as an owner mark in locks and as the hash that spreads threads over striped slots; it
/// is never dereferenced.
#[inline(always)]
#[must_use]
pub fn thread_pointer() -> usize {
    #[cfg(quarry_model)]
    {
        // Threads of a model share one thread of the OS.
        shuttle::current::try_get_current_task().map_or(64, |task| 64 * (usize::from(task) + 2))
    }
    #[cfg(all(target_arch = "x86_64", not(any(miri, quarry_model))))]
    {
        let pointer: usize;
        // SAFETY: on x86-64 Linux the first word of the thread control block is its own address
        // (System V ABI, "Thread-Local Storage"); the load has no side effect.
        unsafe {
            core::arch::asm!("mov {}, fs:[0]", out(reg) pointer,
                options(nostack, preserves_flags, readonly, pure));
        }
        pointer
    }
    #[cfg(all(target_arch = "aarch64", not(any(miri, quarry_model))))]
    {
        let pointer: usize;
        // SAFETY: reading TPIDR_EL0 is allowed in user mode and has no side effect.
        unsafe {
            core::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer,
                options(nostack, preserves_flags, nomem, pure));
        }
        pointer
    }
    #[cfg(all(
        not(quarry_model),
        any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64")))
    ))]
    {
        // SAFETY: pthread_self has no preconditions.
        unsafe { libc::pthread_self() as usize }
    }
}

/// Sleeps for about 50 us: for the rare wait on a thread that was preempted in a section of a few
/// dozen instructions. Spinning would keep the CPU from it (forever, under a real-time scheduler).
pub fn nap() {
    #[cfg(not(quarry_model))]
    {
        // By the call that locks make as well: filters that allow what `malloc` of the C library
        // needs allow it. And libc's nanosleep is a cancellation point: a cancelled thread would
        // vanish here, with the locks of its caller held.
        static NEVER: crate::primitive::AtomicU32 = crate::primitive::AtomicU32::new(0);
        // Nobody changes the word or wakes its waiters, so the wait ends with its time.
        crate::lock::futex::wait_at_most(&NEVER, 0, 50_000);
    }
    #[cfg(quarry_model)]
    crate::primitive::relax();
}
