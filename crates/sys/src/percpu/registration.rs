//! The running thread's `struct rseq`: finding and reading it, and restarting sequences.
//!
//! glibc (2.35 and later) registers one per thread and says by `__rseq_offset` where it lies; we
//! write its `rseq_cs` field only. Where there is none, a stand-in that no kernel knows takes its
//! place.

use crate::primitive::{AtomicU32, Ordering};
use core::arch::{asm, global_asm};

// The stand-in: cpu_id (offset 4) is -1, so that sequences of a process without rseq refuse without
// a branch of their own. The symbol is read through @GOTTPOFF because `thread_local!` in a shared
// object calls __tls_get_addr, which may allocate.
global_asm!(
    ".pushsection .tdata.quarry_no_rseq, \"awT\", @progbits",
    ".balign 32",
    ".hidden quarry_no_rseq",
    ".globl quarry_no_rseq",
    "quarry_no_rseq:",
    ".long 0, -1",
    ".quad 0, 0, 0",
    ".popsection",
);

/// Offset of `cpu_id` in `struct rseq`, `include/uapi/linux/rseq.h`, Linux 6.3.
pub(super) const CPU_ID: isize = 4;
/// Offset of `mm_cid`, the number of the running thread among the running ones (same place).
const MM_CID: isize = 24;
/// `AT_RSEQ_FEATURE_SIZE`, `include/uapi/linux/auxvec.h`, Linux 6.3.
const AT_RSEQ_FEATURE_SIZE: u64 = 27;
/// The smallest feature size that includes `mm_cid`.
const FEATURE_SIZE_MM_CID: u64 = 28;

/// Commands of membarrier(2), `include/uapi/linux/membarrier.h`, Linux 5.10.
const MEMBARRIER_PRIVATE_EXPEDITED_RSEQ: i32 = 1 << 7;
const MEMBARRIER_REGISTER_PRIVATE_EXPEDITED_RSEQ: i32 = 1 << 8;

/// Where sequences find the registration of their thread, and whether they can run.
pub(super) struct Registration {
    /// Offset of `struct rseq`, or of the stand-in, from the thread pointer.
    pub(super) offset: isize,
    /// Offset of the field that numbers the slot from the thread pointer.
    pub(super) slot_field: isize,
    /// Whether sequences can run.
    pub(super) active: bool,
}

/// Looks for glibc's registration and asks the kernel for its barrier. Without either, sequences
/// could not be stopped or would not be restarted, and the stand-in is returned.
pub(super) fn find() -> Registration {
    let glibc = glibc_rseq_offset().filter(|_| has_barrier());
    let offset = glibc.unwrap_or_else(stand_in_offset);
    // SAFETY: getauxval has no preconditions.
    let features = unsafe { libc::getauxval(AT_RSEQ_FEATURE_SIZE) };
    let has_mm_cid = glibc.is_some() && features >= FEATURE_SIZE_MM_CID;
    let slot_field = offset + if has_mm_cid { MM_CID } else { CPU_ID };
    Registration { offset, slot_field, active: glibc.is_some() }
}

/// Returns whether the kernel grants the barrier. Asks once, while a filter cannot forbid it yet.
pub(super) fn has_barrier() -> bool {
    const GRANTED: u32 = 1;
    const REFUSED: u32 = 2;
    static KNOWN: AtomicU32 = AtomicU32::new(0);
    let known = KNOWN.load(Ordering::Relaxed);
    if known != 0 {
        return known == GRANTED;
    }
    let granted = !crate::confined::is_confined()
        && glibc_rseq_offset().is_some()
        && membarrier(MEMBARRIER_REGISTER_PRIVATE_EXPEDITED_RSEQ);
    KNOWN.store(if granted { GRANTED } else { REFUSED }, Ordering::Relaxed);
    granted
}

/// `__rseq_offset` where glibc defines it and has registered this process.
fn glibc_rseq_offset() -> Option<isize> {
    let (offset, size): (*const isize, *const u32);
    // SAFETY: weak references read through the GOT: null where the symbol is absent. A strong one
    // would keep the library from loading on older glibc and on musl.
    unsafe {
        asm!(
            ".weak __rseq_offset",
            ".weak __rseq_size",
            "mov {0}, qword ptr [rip + __rseq_offset@GOTPCREL]",
            "mov {1}, qword ptr [rip + __rseq_size@GOTPCREL]",
            out(reg) offset, out(reg) size, options(nostack, preserves_flags, readonly, pure)
        );
    }
    if offset.is_null() || size.is_null() {
        return None;
    }
    // SAFETY: glibc defines them as const ptrdiff_t and const unsigned int. The size says 20 where
    // glibc 2.36 registers 32 bytes; only 0 (not registered) means anything.
    let (offset, size) = unsafe { (offset.read(), size.read()) };
    (size != 0).then_some(offset)
}

fn stand_in_offset() -> isize {
    let offset: isize;
    // SAFETY: loads the initial-exec TLS offset of our own symbol from the GOT.
    unsafe {
        asm!("mov {}, qword ptr [rip + quarry_no_rseq@GOTTPOFF]", out(reg) offset,
            options(nostack, preserves_flags, readonly, pure));
    }
    offset
}

fn membarrier(command: i32) -> bool {
    // SAFETY: membarrier reads no memory of ours.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

/// Makes every sequence that runs now in this process start again. Returns false where the kernel
/// refuses.
pub(super) fn restart_sequences() -> bool {
    // The second try is for a transient lack of memory and for a process image that lost its
    // registration (checkpoint and restore).
    membarrier(MEMBARRIER_PRIVATE_EXPEDITED_RSEQ)
        || membarrier(MEMBARRIER_REGISTER_PRIVATE_EXPEDITED_RSEQ)
            && membarrier(MEMBARRIER_PRIVATE_EXPEDITED_RSEQ)
}

/// A 32-bit field at an offset from the thread pointer: one of `struct rseq` or of its stand-in.
#[inline(always)]
pub(super) fn field(offset: isize) -> i32 {
    let value: i32;
    // SAFETY: callers add a field's offset to one that `find` returned, so the load stays inside
    // the thread's struct rseq (32 bytes are registered) or the stand-in (32 bytes).
    unsafe {
        asm!("mov {0:e}, dword ptr fs:[{1}]", out(reg) value, in(reg) offset,
            options(nostack, preserves_flags, readonly));
    }
    value
}
