//! Read-modify-writes that are indivisible on the running CPU only: one instruction without the
//! lock prefix, which no interrupt, signal or other thread of this CPU can split. The kernel's
//! `this_cpu` operations (Linux 6.18) save the same 20 or so cycles. (x86-64 only; else atomics.)

use crate::primitive::{AtomicU64, Ordering, task};

/// Adds to a counter of the running CPU. The count is exact among the threads of one CPU. If the
/// kernel moves the thread after the thread has read its CPU number, an addition by another thread
/// in the same cycle may be lost, as in the kernel's slab statistics. O(1).
#[inline(always)]
pub fn add(counter: &AtomicU64, by: u64) {
    #[cfg(all(target_arch = "x86_64", not(any(miri, quarry_model, quarry_sim))))]
    // SAFETY: an aligned word that lives as long as the reference, changed by one store.
    unsafe {
        core::arch::asm!(
            "add qword ptr [{counter}], {by}",
            counter = in(reg) counter.as_ptr(), by = in(reg) by, options(nostack)
        );
    }
    #[cfg(not(all(target_arch = "x86_64", not(any(miri, quarry_model, quarry_sim)))))]
    counter.fetch_add(by, Ordering::Relaxed);
}

/// Adds to a counter that all CPUs share. The count is exact. O(1).
#[inline(always)]
pub fn add_shared(counter: &AtomicU64, by: u64) {
    if task::is_alone() {
        add(counter, by);
    } else {
        counter.fetch_add(by, Ordering::Relaxed);
    }
}

/// Stores `new` if the word is `old`, with acquire and release ordering; returns whether it was.
/// While the process has one thread, only its signal handlers can interfere, and they cannot
/// interrupt a single instruction, so this uses no lock prefix. O(1).
#[inline(always)]
pub fn compare_exchange(word: &AtomicU64, old: u64, new: u64) -> bool {
    #[cfg(all(target_arch = "x86_64", not(any(miri, quarry_model, quarry_sim))))]
    if task::is_alone() {
        let found: u64;
        // SAFETY: an aligned word that lives as long as the reference; no other thread runs, so the
        // instruction needs no lock prefix.
        unsafe {
            core::arch::asm!(
                "cmpxchg qword ptr [{word}], {new}",
                word = in(reg) word.as_ptr(), new = in(reg) new, inout("rax") old => found,
                options(nostack)
            );
        }
        return found == old;
    }
    word.compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}
