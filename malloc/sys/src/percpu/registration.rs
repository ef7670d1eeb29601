//! The running thread's `struct rseq`: finding and reading it, and restarting sequences.
//!
//! glibc (2.35 and later) registers one `struct rseq` per thread, at `__rseq_offset`. Elsewhere
//! threads register their own (`own_area`). Quarry writes only the field `rseq_cs` of either.

use super::area::SlotArea;
use super::own_area::{self, CPU_ID, NOWHERE, field};
use super::patience;
use super::sequenced::Sequenced;
use super::sequences::Cpus;
use crate::glibc::weak_address;
use crate::known::Known;
use crate::primitive::{AtomicIsize, Ordering, task};
use crate::topology::memory_node_limit;
use core::mem::offset_of;

/// Offset of `mm_cid`, a small number of the running thread in its process
/// (`include/uapi/linux/rseq.h`, Linux 6.3).
const MM_CID: isize = 24;
/// The smallest feature size that includes `mm_cid`.
const FEATURE_SIZE_MM_CID: usize = 28;

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

/// Finds the area of glibc's registration, or of the thread's own, and registers for membarrier(2),
/// which stops others' sequences. Where the kernel refuses either, no thread is registered there.
fn find() -> Registration {
    let glibc = glibc_rseq_offset().filter(|_| has_barrier());
    let offset = glibc.unwrap_or_else(own_area::offset);
    let active = glibc.is_some() || begin_own();
    // An `mm_cid` moves between nodes: a slot chosen by it would hold objects of several.
    let has_mm_cid =
        active && own_area::features() >= FEATURE_SIZE_MM_CID && memory_node_limit() == 1;
    let slot_field = offset + if has_mm_cid { MM_CID } else { CPU_ID };
    Registration { offset, slot_field, active }
}

/// Registers the running thread's own area where glibc registers none; returns whether the process
/// has sequences by it. Asks once, as [`has_barrier`] does.
fn begin_own() -> bool {
    glibc_rseq_offset().is_none() && has_barrier() && own_area::begin()
}

/// See [`super::has_place`].
#[inline(never)]
pub(super) fn has_place() -> bool {
    glibc_rseq_offset().is_some() && has_barrier() || own_area::offset() != NOWHERE
}

/// Makes the calls that a seccomp filter may forbid later.
pub(super) fn ask() {
    let _ = has_barrier() && begin_own();
}

/// Returns whether the kernel grants the barrier. Asks once, before a seccomp filter may forbid it.
fn has_barrier() -> bool {
    static KNOWN: Known = Known::new();
    KNOWN.is_true(|| {
        !crate::confined::is_confined() && membarrier(MEMBARRIER_REGISTER_PRIVATE_EXPEDITED_RSEQ)
    })
}

/// See [`super::begin_bare_thread`].
#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
pub(super) fn begin_bare_thread() {
    own_area::begin_bare_thread(glibc_rseq_offset());
}

/// `__rseq_offset`, if glibc defines it and has registered this process.
fn glibc_rseq_offset() -> Option<isize> {
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

    fn enroll(&self) -> bool {
        own_area::enroll()
    }

    fn barrier(&self) -> bool {
        restart_sequences()
    }

    fn is_alone(&self) -> bool {
        task::is_alone()
    }

    #[inline]
    fn settle(&self, has_ended: bool) -> u64 {
        patience::settle(has_ended)
    }

    fn is_impatient(&self) -> bool {
        patience::is_over()
    }
}
