//! The running thread's `struct rseq`: finding and reading it, and restarting sequences.
//!
//! glibc (2.35 and later) registers one `struct rseq` per thread, at `__rseq_offset`; Quarry writes
//! only its `rseq_cs` field. A process without registrations uses a stand-in unknown to the kernel.
//!
//! A word of the stand-in is the thread's *patience*. Each abort of a sequence takes one from it. A
//! sequence that is aborted while it is 0 or less does not start again, but leaves. A sequence of a
//! slow path that ends without an abort restores it, so only threads whose sequences are nearly
//! always interrupted lose it: those that a debugger steps, or that a storm of signals hits.

use super::area::SlotArea;
use super::sequenced::Sequenced;
use super::sequences::Cpus;
use crate::glibc::weak_address;
use crate::known::Known;
use crate::primitive::{AtomicIsize, Ordering, task};
use core::arch::{asm, global_asm};
use core::mem::offset_of;

// The stand-in: its cpu_id (offset 4) is -1, so that sequences of a process without rseq refuse
// without an extra branch. It is found by its offset from the thread pointer, because
// `thread_local!` in a shared object calls __tls_get_addr, which may allocate. Sequences write its
// rseq_cs (offset 8), and their abort handlers its patience (offset 16).
global_asm!(
    ".pushsection .tdata.quarry_no_rseq, \"awT\", @progbits",
    ".balign 32",
    ".hidden quarry_no_rseq",
    ".globl quarry_no_rseq",
    "quarry_no_rseq:",
    ".long 0, -1",
    ".quad 0",
    ".long {patience}, 0",
    ".quad 0",
    ".popsection",
    patience = const PATIENCE,
);

/// Aborts before sequences of a thread leave. Preemption aborts a sequence less than once in
/// thousands of calls, so a thread that is not stepped hardly ever has as many in a row.
const PATIENCE: i32 = 32;
/// Offset of the patience in the stand-in. The text of the abort handlers has it, too.
const PATIENCE_AT: isize = 16;

/// Offset of `cpu_id` in `struct rseq`, `include/uapi/linux/rseq.h`, Linux 6.3.
const CPU_ID: isize = 4;
/// Offset of `mm_cid`, a small number of the running thread in its process (same header).
const MM_CID: isize = 24;
/// `AT_RSEQ_FEATURE_SIZE`, `include/uapi/linux/auxvec.h`, Linux 6.3.
const AT_RSEQ_FEATURE_SIZE: u64 = 27;
/// The smallest feature size that includes `mm_cid`.
const FEATURE_SIZE_MM_CID: u64 = 28;

/// Commands of membarrier(2), `include/uapi/linux/membarrier.h`, Linux 5.10.
const MEMBARRIER_PRIVATE_EXPEDITED_RSEQ: i32 = 1 << 7;
const MEMBARRIER_REGISTER_PRIVATE_EXPEDITED_RSEQ: i32 = 1 << 8;

/// The registration of a thread, as sequences find it, and whether sequences can run.
struct Registration {
    offset: isize,
    /// Offset from the thread pointer of the field that holds the slot's number.
    slot_field: isize,
    active: bool,
}

/// Finds glibc's registration, which the kernel needs to restart sequences, and registers for
/// membarrier(2), which stops others' sequences. Returns the stand-in if either fails.
fn find() -> Registration {
    let glibc = glibc_rseq_offset().filter(|_| has_barrier());
    let offset = glibc.unwrap_or_else(stand_in_offset);
    // SAFETY: getauxval has no preconditions.
    let features = unsafe { libc::getauxval(AT_RSEQ_FEATURE_SIZE) };
    let has_mm_cid = glibc.is_some() && features >= FEATURE_SIZE_MM_CID;
    let slot_field = offset + if has_mm_cid { MM_CID } else { CPU_ID };
    Registration { offset, slot_field, active: glibc.is_some() }
}

/// Returns whether the kernel grants the barrier. Asks once, before a seccomp filter may forbid it.
pub(super) fn has_barrier() -> bool {
    static KNOWN: Known = Known::new();
    KNOWN.is_true(|| {
        !crate::confined::is_confined()
            && glibc_rseq_offset().is_some()
            && membarrier(MEMBARRIER_REGISTER_PRIVATE_EXPEDITED_RSEQ)
    })
}

/// `__rseq_offset`, if glibc defines it and has registered this process.
pub(super) fn glibc_rseq_offset() -> Option<isize> {
    // A strong reference would keep the library from loading on older glibc and on musl.
    let offset = weak_address!("__rseq_offset").cast::<isize>();
    let size = weak_address!("__rseq_size").cast::<u32>();
    if offset.is_null() || size.is_null() {
        return None;
    }
    // SAFETY: glibc defines them as const ptrdiff_t and const unsigned int. The size is 20 although
    // glibc 2.36 registers 32 bytes; only 0 (not registered) matters.
    let (offset, size) = unsafe { (offset.read(), size.read()) };
    (size != 0).then_some(offset)
}

fn stand_in_offset() -> isize {
    let offset: isize;
    // SAFETY: loads the initial-exec TLS offset of our own symbol from the GOT.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!("mov {}, qword ptr [rip + quarry_no_rseq@GOTTPOFF]", out(reg) offset,
            options(nostack, preserves_flags, readonly, pure));
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!(
            "adrp {0}, :gottprel:quarry_no_rseq",
            "ldr {0}, [{0}, :gottprel_lo12:quarry_no_rseq]",
            out(reg) offset, options(nostack, preserves_flags, readonly, pure)
        );
    }
    offset
}

fn membarrier(command: i32) -> bool {
    // SAFETY: membarrier reads no memory of ours.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

/// Makes every sequence of this process start again. Returns false where the kernel refuses.
fn restart_sequences() -> bool {
    // The second try is for a lack of memory that passes, and for a process that lost its
    // registration when it was checkpointed and restored.
    membarrier(MEMBARRIER_PRIVATE_EXPEDITED_RSEQ)
        || membarrier(MEMBARRIER_REGISTER_PRIVATE_EXPEDITED_RSEQ)
            && membarrier(MEMBARRIER_PRIVATE_EXPEDITED_RSEQ)
}

/// Loads a 32-bit field of `struct rseq` or the stand-in, by its offset from the thread pointer.
#[inline(always)]
fn field(offset: isize) -> i32 {
    let value: i32;
    // SAFETY: callers add a field's offset to one that `find` returned, so the load stays inside
    // the thread's struct rseq (32 bytes are registered) or the stand-in (32 bytes).
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!("mov {0:e}, dword ptr fs:[{1}]", out(reg) value, in(reg) offset,
            options(nostack, preserves_flags, readonly));
    }
    // SAFETY: as above. One `asm!` reads the thread pointer and loads, because the compiler could
    // keep the thread pointer while a coroutine moves to another thread.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!("mrs {thread}, tpidr_el0", "ldr {value:w}, [{thread}, {offset}]",
            thread = out(reg) _, value = lateout(reg) value, offset = in(reg) offset,
            options(nostack, preserves_flags, readonly));
    }
    value
}

/// Sets the running thread's patience.
#[cold]
fn set_patience(patience: i32) {
    let offset = stand_in_offset() + PATIENCE_AT;
    // SAFETY: the word is the thread's own, inside the stand-in.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!("mov dword ptr fs:[{0}], {1:e}", in(reg) offset, in(reg) patience,
            options(nostack, preserves_flags));
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!("mrs {thread}, tpidr_el0", "str {patience:w}, [{thread}, {offset}]",
            thread = out(reg) _, patience = in(reg) patience, offset = in(reg) offset,
            options(nostack, preserves_flags));
    }
}

/// Slots of CPUs under restartable sequences, with locked stripes for threads without registration.
pub type RseqSlots = Sequenced<Rseq>;

/// Offsets, from the thread pointer, of a thread's `struct rseq` and of the field that holds the
/// slot's number. The sequences of each architecture are methods of this type.
pub struct Rseq {
    rseq: AtomicIsize,
    index: AtomicIsize,
}

/// Offsets of three words in [`RseqSlots`], for sequences written in assembler.
#[derive(Clone, Copy)]
pub struct SequenceOffsets {
    /// The word that holds the offset of the thread's `struct rseq` from the thread pointer.
    pub rseq: usize,
    /// The word that holds the offset, from the thread pointer, of the slot number's field.
    pub index: usize,
    /// The word that holds the address of slot 0.
    pub slots: usize,
}

impl RseqSlots {
    /// The offsets of the words that sequences read.
    pub const OFFSETS: SequenceOffsets = SequenceOffsets {
        rseq: offset_of!(Self, sequences.rseq),
        index: offset_of!(Self, sequences.index),
        slots: offset_of!(Self, stripes.area.base),
    };
}

impl Rseq {
    /// Returns the arguments of every sequence: two offsets from the thread pointer (to the
    /// registration, and to the slot's number), and the address of slot 0.
    #[inline(always)]
    pub(super) fn registers(&self, area: &SlotArea) -> (isize, isize, usize) {
        (self.offset(), self.index.load(Ordering::Relaxed), area.base.load(Ordering::Relaxed))
    }

    #[inline(always)]
    pub(super) fn offset(&self) -> isize {
        let rseq = self.rseq.load(Ordering::Relaxed);
        debug_assert!(rseq != 0, "per-CPU slots are used before their init");
        rseq
    }
}

// SAFETY: the kernel restarts a sequence when its thread is preempted, migrated or signalled before
// the end of the sequence, and when another thread calls `barrier`.
unsafe impl Cpus for Rseq {
    const INERT: Self = Self { rseq: AtomicIsize::new(0), index: AtomicIsize::new(0) };

    fn start(&self) -> bool {
        let found = find();
        self.rseq.store(found.offset, Ordering::Relaxed);
        self.index.store(found.slot_field, Ordering::Relaxed);
        found.active
    }

    fn slots(&self) -> u32 {
        crate::topology::cpu_number_limit()
    }

    fn numbers(&self) -> u32 {
        crate::topology::cpu_mask_limit()
    }

    #[inline(always)]
    fn registered(&self) -> bool {
        field(self.rseq.load(Ordering::Relaxed) + CPU_ID) >= 0
    }

    #[inline(always)]
    fn slot(&self) -> u32 {
        field(self.index.load(Ordering::Relaxed)) as u32
    }

    fn barrier(&self) -> bool {
        restart_sequences()
    }

    fn is_alone(&self) -> bool {
        task::is_alone()
    }

    #[inline]
    fn settle(&self, has_ended: bool) -> u64 {
        let patience = field(stand_in_offset() + PATIENCE_AT);
        let restored = if has_ended { PATIENCE } else { patience.max(0) };
        if patience != restored {
            set_patience(restored);
        }
        u64::from(patience.min(0).unsigned_abs())
    }

    fn is_impatient(&self) -> bool {
        field(stand_in_offset() + PATIENCE_AT) <= 0
    }
}
