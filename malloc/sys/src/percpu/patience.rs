//! The *patience* of threads: how many aborts a sequence takes before it leaves.
//!
//! Each abort of a sequence adds to a byte of its thread. Where that sets the byte's top bit, the
//! sequence does not start again, but leaves. A sequence of a slow path that ends without an abort
//! clears the byte, so only threads whose sequences are nearly always interrupted lose patience:
//! those that a debugger steps, or that a storm of signals hits.
//!
//! The bytes lie in a table, and the thread pointer chooses one. So they need no thread-local
//! storage at a fixed offset, which the loader may not have for a shared object that a program
//! opens. Where threads share a byte, one may only leave too early or too late.

use crate::primitive::{AtomicU8, Ordering, task};
use core::arch::global_asm;

// The texts of abort handlers refer to the table.
global_asm!(
    ".pushsection .bss.quarry_aborts, \"aw\", @nobits",
    ".hidden quarry_aborts",
    ".globl quarry_aborts",
    "quarry_aborts:",
    ".zero {bytes}",
    ".popsection",
    bytes = const BYTES,
);

unsafe extern "C" {
    #[link_name = "quarry_aborts"]
    static ABORTS: [AtomicU8; BYTES];
}

const BYTES: usize = 256;
/// The multiplier of Fibonacci hashing, for 32 bits. Thread pointers differ by the sizes of stacks,
/// so only a product spreads them. The texts of abort handlers have it, too.
const MULTIPLIER: u32 = 0x9e37_79b1;
/// The addend of an abort; abort handlers have it, too.
const ABORT: u8 = 4;
/// A byte with this bit lets an aborted sequence leave, after 32 aborts. Preemption aborts a
/// sequence less than once in thousands of calls, so a thread that is not stepped hardly ever has
/// as many in a row.
const LEAVES: u8 = 1 << 7;
/// The byte of a thread whose next abort is the last.
const IMPATIENT: u8 = LEAVES - ABORT;

/// The byte of the running thread.
fn aborts() -> &'static AtomicU8 {
    let product = (task::current() as u32).wrapping_mul(MULTIPLIER);
    // SAFETY: the table above, of zeros at first; all its values are valid, and it is never
    // borrowed otherwise. The index is below 256.
    unsafe { &ABORTS[(product >> 24) as usize] }
}

/// Called after a sequence of a slow path of the running thread: its patience is restored if that
/// sequence `has_ended` as it should. Returns how many sequences have left since the last call.
#[inline(never)]
pub(super) fn settle(has_ended: bool) -> u64 {
    let byte = aborts();
    let seen = byte.load(Ordering::Relaxed);
    let settled = if has_ended { 0 } else { seen.min(IMPATIENT) };
    if seen != settled {
        byte.store(settled, Ordering::Relaxed);
    }
    u64::from(seen.saturating_sub(IMPATIENT)) / u64::from(ABORT)
}

/// Returns whether the running thread's next sequence leaves as soon as it is aborted.
#[inline(never)]
pub(super) fn is_over() -> bool {
    aborts().load(Ordering::Relaxed) >= IMPATIENT
}
