//! The seam's backend of products: the CPU and the kernel. A function without a comment implements
//! the function of the same name in another file of this folder.

use super::machine::Machine;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// The thread that the C library does not know, or 0. (`bare_thread`)
static BESIDE: AtomicUsize = AtomicUsize::new(0);

/// There is no simulated machine.
#[inline(always)]
pub(super) fn machine() -> Option<&'static dyn Machine> {
    None
}

#[inline(always)]
pub(super) fn unseen<T>(body: impl FnOnce() -> T) -> T {
    body()
}

#[inline(always)]
pub(super) fn relax() {
    core::hint::spin_loop();
}

/// The thread pointer.
#[inline(always)]
pub(super) fn task() -> usize {
    let pointer: usize;
    // SAFETY: on x86-64 Linux the first word of the thread control block is its own address
    // (System V ABI, "Thread-Local Storage"); the load has no side effect.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    unsafe {
        core::arch::asm!("mov {}, fs:[0]", out(reg) pointer,
            options(nostack, preserves_flags, readonly, pure));
    }
    // SAFETY: reading TPIDR_EL0 is allowed in user mode and has no side effect.
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    unsafe {
        core::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer,
            options(nostack, preserves_flags, nomem, pure));
    }
    // SAFETY: pthread_self has no preconditions.
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    unsafe {
        pointer = libc::pthread_self() as usize;
    }
    pointer
}

pub(super) fn task_number() -> u32 {
    // SAFETY: the call has no preconditions.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

#[inline(always)]
pub(super) fn is_alone() -> bool {
    crate::glibc::is_single_threaded() && BESIDE.load(Ordering::Relaxed) == 0
}

#[inline(always)]
pub(super) fn is_known_alone() -> bool {
    crate::glibc::is_single_threaded() && BESIDE.load(Ordering::Relaxed) != task()
}

/// Stores only a new value, because the kernel copies each page to which a forked child writes.
pub(super) fn set_beside(task: usize) {
    if BESIDE.load(Ordering::Relaxed) != task {
        BESIDE.store(task, Ordering::Relaxed);
    }
}

#[inline(always)]
pub(super) fn now_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

#[inline(always)]
pub(super) fn last_tick_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC_COARSE)
}

pub(super) fn wall_ns() -> u64 {
    read(libc::CLOCK_REALTIME)
}

fn read(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid, writable timespec for the duration of the call.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

pub(super) fn wait(word: &AtomicU32, expected: u32, at_most_ns: Option<u64>) {
    let time = at_most_ns.map(|ns| libc::timespec {
        tv_sec: (ns / 1_000_000_000) as _,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    });
    let timeout = time.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word outlives the call, and FUTEX_WAIT only reads it and the timeout, which is
    // null or lives until the end of this function. A spurious EAGAIN changes errno, which the
    // entry point has saved.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, expected, timeout) };
}

pub(super) fn wake(word: &AtomicU32, most: i32) {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: FUTEX_WAKE uses the address only as a key.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, most) };
}

pub(super) fn wake_others(address: usize, most: i32) -> usize {
    // SAFETY: FUTEX_WAKE uses the address only as a key.
    let woken = unsafe { libc::syscall(libc::SYS_futex, address, libc::FUTEX_WAKE, most) };
    usize::try_from(woken).unwrap_or(0)
}

pub(super) fn sleep(ns: u64) {
    // A futex call, as in locks: a filter that allows the calls of the C library's `malloc` allows
    // it. libc's nanosleep is a cancellation point, where a cancelled thread would keep locks.
    static NEVER: AtomicU32 = AtomicU32::new(0);
    // The word never changes and no thread wakes its waiters, so only the timeout ends this.
    wait(&NEVER, 0, Some(ns));
}

#[cfg(not(miri))]
pub(super) fn reads_zero(address: usize) -> Option<bool> {
    // The call needs a second futex: this one, which has no waiters.
    static UNUSED: AtomicU32 = AtomicU32::new(0);
    let operation = libc::FUTEX_CMP_REQUEUE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: with no thread to wake or to move, the call compares the word with 0 and does
    // nothing else; the kernel checks both addresses.
    let found =
        unsafe { libc::syscall(libc::SYS_futex, address, operation, 0, 0, UNUSED.as_ptr(), 0) };
    if found >= 0 {
        return Some(true);
    }
    (crate::errno::last() == libc::EAGAIN).then_some(false)
}

/// Miri lacks the call.
#[cfg(miri)]
pub(super) fn reads_zero(_address: usize) -> Option<bool> {
    None
}
