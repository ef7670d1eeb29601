//! Restartable sequences on x86-64: the object fast path.
//!
//! The slot is chosen by `mm_cid` where the kernel keeps it, else by `cpu_id`. A negative `cpu_id`
//! (a thread without registration) is rejected inside the sequence.
//!
//! Shape of every sequence, `t` = the slot's address:
//!
//! ```text
//! 2: rseq_cs = descriptor        ; from here the kernel sends an interrupted thread to 88
//! 3: t = slots + (cid << 17)     ; the sequence proper begins
//!    if cpu_id < 0, or the bounds refuse: leave
//!    ...                         ; loads, and stores to memory that nobody reads yet
//!    [t + cell] = new word       ; the committing store
//! 5:                             ; past the end: it has happened
//! 88: jmp 2b                     ; abort handler, behind the signature that glibc registered
//! ```
//!
//! What commits falls through; what leaves does so by a label operand, or, where the sequence has a
//! result (which Rust does not combine with labels), by way of 6, which lies out of line.
//!
//! Bounds are loaded before the header: see `SlotArea::open`. An array's `begin` is stored
//! complemented, so `top + !begin` carries out of 16 bits exactly where `top > begin`.
//!
//! A header is loaded and stored through one plain register, because the next sequence on the cell
//! loads what this one stores: an Intel Xeon of family 6, model 207 (Emerald Rapids) forwards such
//! a store early only to a load without an index register in its address.
//!
//! A sequence that was restarted begins again at 2 with the registers that it has by then: one that
//! it is given is never written between 2 and 5, also not by an `add` that saves an instruction.

use super::registration::{self, CPU_ID};
use super::sequenced::{Sequenced, Sequences};
use super::slot::{CELL_SHIFT, SLOT_SHIFT};
use super::{ArrayId, Object, Push, SlotArea, SlotIndex};
use crate::primitive::{AtomicIsize, Ordering};
use core::arch::asm;
use core::mem::{MaybeUninit, offset_of};

/// Slots of CPUs under restartable sequences, with locked stripes for threads without registration.
pub type RseqSlots = Sequenced<Rseq>;

const _: () = assert!(super::LOOKED_AT == 2, "a push compares the object with as many");
const _: () = assert!(SLOT_SHIFT == 17, "`enter` carries it as an immediate");

/// Where a thread's registration lies; the sequences themselves are its methods.
pub struct Rseq {
    /// Offset of the thread's `struct rseq` from the thread pointer.
    rseq: AtomicIsize,
    /// Offset of the field that numbers the slot.
    index: AtomicIsize,
}

/// Descriptor and abort handler shared by all sequences (labels 2, 3, 5 are the caller's), with
/// more code out of line.
///
/// Public for the entry points that put a sequence into code of their own.
#[macro_export]
macro_rules! rseq_descriptor {
    () => {
        $crate::rseq_descriptor!("")
    };
    ($out_of_line:expr) => {
        concat!(
            ".pushsection __rseq_cs, \"aw\"\n",
            ".balign 32\n",
            "77: .long 0, 0\n",
            ".quad 3b, 5b-3b, 88f\n",
            ".popsection\n",
            ".pushsection .text.quarry_rseq_abort, \"ax\"\n",
            // ud1 with the signature as its operand, so that disassemblers stay in step.
            ".byte 0x0f, 0xb9, 0x3d\n",
            ".long 0x53053053\n",
            "88: jmp 2b\n",
            $out_of_line,
            ".popsection"
        )
    };
}

/// What a sequence with a result does where it has none: the null object.
macro_rules! nothing {
    () => {
        "6: xor {r:e}, {r:e}\n jmp 7f\n"
    };
}

/// Opens a sequence: arms the descriptor, finds the slot's address in `t`, or leaves.
macro_rules! enter {
    ($leave:literal) => {
        concat!(
            "2:\n",
            "lea {t}, [rip + 77f]\n",
            "mov qword ptr fs:[{rseq} + 8], {t}\n",
            "3:\n",
            "cmp dword ptr fs:[{rseq} + 4], 0\n",
            "jl ",
            $leave,
            "\n",
            "mov {t:e}, dword ptr fs:[{index}]\n",
            "shl {t}, 17\n",
            "add {t}, {slots}"
        )
    };
}

/// Where a sequence in assembler finds what [`RseqSlots`] knows: offsets of words in it.
#[derive(Clone, Copy)]
pub struct SequenceOffsets {
    /// Offset of the thread's `struct rseq` from the thread pointer.
    pub rseq: usize,
    /// Offset of the field that numbers the slot from the thread pointer.
    pub index: usize,
    /// Address of slot 0.
    pub slots: usize,
}

impl RseqSlots {
    /// See [`SequenceOffsets`].
    pub const OFFSETS: SequenceOffsets = SequenceOffsets {
        rseq: offset_of!(Self, sequences.rseq),
        index: offset_of!(Self, sequences.index),
        slots: offset_of!(Self, area.base),
    };
}

impl Rseq {
    #[inline(always)]
    fn registers(&self, area: &SlotArea) -> (isize, isize, usize) {
        let rseq = self.rseq.load(Ordering::Relaxed);
        debug_assert!(rseq != 0, "per-CPU slots are used before their init");
        (rseq, self.index.load(Ordering::Relaxed), area.base.load(Ordering::Relaxed))
    }
}

// SAFETY: each sequence below arms its descriptor before it finds its slot, so the kernel restarts
// it when its thread is preempted, migrated or signalled before the committing store, and when
// another thread calls `barrier`. Bounds and guards come first, closed ones refuse.
unsafe impl Sequences for Rseq {
    const INERT: Self = Self { rseq: AtomicIsize::new(0), index: AtomicIsize::new(0) };

    fn start(&self) -> bool {
        let found = registration::find();
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
        registration::field(self.rseq.load(Ordering::Relaxed) + CPU_ID) >= 0
    }

    #[inline(always)]
    fn slot(&self) -> u32 {
        registration::field(self.index.load(Ordering::Relaxed)) as u32
    }

    fn barrier(&self) -> bool {
        registration::restart_sequences()
    }

    fn is_alone(&self) -> bool {
        crate::glibc::is_single_threaded()
    }

    #[inline(always)]
    fn pop(&self, area: &SlotArea, array: ArrayId) -> Option<Object> {
        let (rseq, index, slots) = self.registers(area);
        let object: *mut u8;
        // SAFETY: `rseq` is the offset of this thread's registered struct rseq or of the stand-in
        // (init ran before any caller could know an ArrayId). The slot is inside the area because
        // mm_cid and cpu_id are below the size of the kernel's CPU mask; beyond the slots it reads
        // as zero. All stores but the last go to registers; the last commits `top - 1` and one
        // more operation.
        unsafe {
            asm!(
                enter!("6f"),
                "lea {c}, [{t} + {cell}]",
                "movzx {o:e}, word ptr [{c} + 8]",
                "mov {h}, qword ptr [{c}]",
                "movzx {r:e}, {h:x}",
                "add {o:x}, {r:x}",
                "jnc 6f",
                "mov {r}, qword ptr [{t} + {r}*8 - 8]",
                "add {h}, 0xffff",
                "mov qword ptr [{c}], {h}",
                "5:",
                rseq_descriptor!(nothing!()),
                "7:",
                t = out(reg) _, c = out(reg) _, h = out(reg) _, o = out(reg) _,
                r = out(reg) object,
                rseq = in(reg) rseq, index = in(reg) index, slots = in(reg) slots,
                cell = in(reg) array.index() << CELL_SHIFT,
                options(nostack)
            );
        }
        Object::new(object)
    }

    #[inline(always)]
    fn push(&self, area: &SlotArea, array: ArrayId, object: Object) -> Push {
        let (rseq, index, slots) = self.registers(area);
        // SAFETY: as for `pop`; the store into the array lies at `top < end`, above what
        // any reader considers, and the committing store publishes it. `[top - 1]` and `[top - 2]`
        // are elements or the guard words in front of the array.
        unsafe {
            asm!(
                enter!("{refused}"),
                "lea {c}, [{t} + {cell}]",
                "movzx {o:e}, word ptr [{c} + 10]",
                "mov {h}, qword ptr [{c}]",
                "movzx {r:e}, {h:x}",
                "cmp {r:e}, {o:e}",
                "jae {refused}",
                "cmp {object}, qword ptr [{t} + {r}*8 - 8]",
                "je {duplicate}",
                "cmp {object}, qword ptr [{t} + {r}*8 - 16]",
                "je {duplicate}",
                "mov qword ptr [{t} + {r}*8], {object}",
                "add {h}, 0x10001",
                "mov qword ptr [{c}], {h}",
                "5:",
                rseq_descriptor!(),
                t = out(reg) _, c = out(reg) _, h = out(reg) _, o = out(reg) _, r = out(reg) _,
                rseq = in(reg) rseq, index = in(reg) index, slots = in(reg) slots,
                cell = in(reg) array.index() << CELL_SHIFT, object = in(reg) object.as_ptr(),
                refused = label { return Push::Refused },
                duplicate = label { return Push::Duplicate },
                options(nostack)
            );
        }
        Push::Stored
    }

    fn pop_batch(&self, area: &SlotArea, array: ArrayId, out: &mut [MaybeUninit<Object>]) -> bool {
        let (rseq, index, slots) = self.registers(area);
        // SAFETY: as for `pop`; the copy reads `[top - n, top)` of the array and writes
        // the caller's buffer, which is overwritten by the next attempt if this one aborts.
        unsafe {
            asm!(
                enter!("{refused}"),
                "lea {c}, [{t} + {cell}]",
                "movzx {o:e}, word ptr [{c} + 8]",
                "mov {h}, qword ptr [{c}]",
                "movzx {r:e}, {h:x}",
                "lea {o:e}, [{o} + {r} - 0xffff]",
                "cmp {o:e}, {n:e}",
                "jl {refused}",
                "sub {r:e}, {n:e}",
                "lea {r}, [{t} + {r}*8]",
                "xor {o:e}, {o:e}",
                "9:",
                "mov {x}, qword ptr [{r} + {o}*8]",
                "mov qword ptr [{buffer} + {o}*8], {x}",
                "inc {o:e}",
                "cmp {o:e}, {n:e}",
                "jb 9b",
                "sub {h}, {n}",
                "mov qword ptr [{c}], {h}",
                "5:",
                rseq_descriptor!(),
                t = out(reg) _, c = out(reg) _, h = out(reg) _, o = out(reg) _,
                r = out(reg) _, x = out(reg) _,
                rseq = in(reg) rseq, index = in(reg) index, slots = in(reg) slots,
                cell = in(reg) array.index() << CELL_SHIFT,
                n = in(reg) out.len(), buffer = in(reg) out.as_mut_ptr(),
                refused = label { return false },
                options(nostack)
            );
        }
        true
    }

    fn push_batch(&self, area: &SlotArea, array: ArrayId, objects: &[Object]) -> bool {
        let (rseq, index, slots) = self.registers(area);
        // SAFETY: as for `push`; the copy writes `[top, top + n)`, which lies below `end`
        // and above what any reader considers until the committing store.
        unsafe {
            asm!(
                enter!("{refused}"),
                "lea {c}, [{t} + {cell}]",
                "movzx {o:e}, word ptr [{c} + 10]",
                "mov {h}, qword ptr [{c}]",
                "movzx {r:e}, {h:x}",
                "sub {o}, {r}",
                "cmp {o}, {n}",
                "jl {refused}",
                "lea {r}, [{t} + {r}*8]",
                "xor {o:e}, {o:e}",
                "9:",
                "mov {x}, qword ptr [{buffer} + {o}*8]",
                "mov qword ptr [{r} + {o}*8], {x}",
                "inc {o:e}",
                "cmp {o:e}, {n:e}",
                "jb 9b",
                "add {h}, {n}",
                "mov qword ptr [{c}], {h}",
                "5:",
                rseq_descriptor!(),
                t = out(reg) _, c = out(reg) _, h = out(reg) _, o = out(reg) _,
                r = out(reg) _, x = out(reg) _,
                rseq = in(reg) rseq, index = in(reg) index, slots = in(reg) slots,
                cell = in(reg) array.index() << CELL_SHIFT,
                n = in(reg) objects.len(), buffer = in(reg) objects.as_ptr(),
                refused = label { return false },
                options(nostack)
            );
        }
        true
    }

    #[inline(always)]
    unsafe fn list_pop(&self, area: &SlotArea, array: ArrayId) -> Option<Object> {
        let (rseq, index, slots) = self.registers(area);
        let object: *mut u8;
        // SAFETY: as for `pop`; the head's link is read inside the sequence, so nobody on
        // this CPU has taken the object since. The count in word2 may include aborted attempts.
        unsafe {
            asm!(
                enter!("6f"),
                "add {t}, {cell}",
                "cmp qword ptr [{t} + 8], -1",
                "je 6f",
                "mov {h}, qword ptr [{t}]",
                "mov {r}, {h}",
                "shr {r}, 20",
                "jz 6f",
                "shl {r}, 4",
                "and {h:e}, 0xfffff",
                "dec {h:e}",
                "mov {o}, qword ptr [{r}]",
                "shl {o}, 16",
                "or {h}, {o}",
                "inc qword ptr [{t} + 16]",
                "mov qword ptr [{t}], {h}",
                "5:",
                rseq_descriptor!(nothing!()),
                "7:",
                t = out(reg) _, h = out(reg) _, o = out(reg) _, r = out(reg) object,
                rseq = in(reg) rseq, index = in(reg) index, slots = in(reg) slots,
                cell = in(reg) array.index() << CELL_SHIFT,
                options(nostack)
            );
        }
        Object::new(object)
    }

    #[inline(always)]
    unsafe fn list_push(
        &self,
        area: &SlotArea,
        array: ArrayId,
        guard: u64,
        object: Object,
    ) -> Push {
        let (rseq, index, slots) = self.registers(area);
        // SAFETY: as for `push`; the link is stored into the caller's own object.
        unsafe {
            asm!(
                enter!("{refused}"),
                "add {t}, {cell}",
                "cmp {guard}, qword ptr [{t} + 8]",
                "jne {refused}",
                "mov {h}, qword ptr [{t}]",
                "mov {r}, {h}",
                "shr {r}, 20",
                "shl {r}, 4",
                "cmp {r}, {object}",
                "je {duplicate}",
                "and {h:e}, 0xfffff",
                "cmp {h:e}, 0xfffff",
                "je {refused}",
                "mov qword ptr [{object}], {r}",
                "inc {h:e}",
                "mov {r}, {object}",
                "shl {r}, 16",
                "or {h}, {r}",
                "inc qword ptr [{t} + 24]",
                "mov qword ptr [{t}], {h}",
                "5:",
                rseq_descriptor!(),
                t = out(reg) _, h = out(reg) _, r = out(reg) _,
                rseq = in(reg) rseq, index = in(reg) index, slots = in(reg) slots,
                cell = in(reg) array.index() << CELL_SHIFT,
                guard = in(reg) guard, object = in(reg) object.as_ptr(),
                refused = label { return Push::Refused },
                duplicate = label { return Push::Duplicate },
                options(nostack)
            );
        }
        Push::Stored
    }

    fn compare_store(
        &self,
        area: &SlotArea,
        slot: SlotIndex,
        array: ArrayId,
        word: usize,
        expected: u64,
        new: u64,
    ) -> bool {
        let (rseq, index, slots) = self.registers(area);
        // SAFETY: as for `pop`; the slot's address is compared with the wanted one.
        unsafe {
            asm!(
                enter!("{refused}"),
                "cmp {t}, {wanted}",
                "jne {refused}",
                "cmp qword ptr [{t} + {cell} + 8], -1",
                "je {refused}",
                "cmp {expected}, qword ptr [{t} + {word}]",
                "jne {refused}",
                "mov qword ptr [{t} + {word}], {new}",
                "5:",
                rseq_descriptor!(),
                t = out(reg) _,
                rseq = in(reg) rseq, index = in(reg) index, slots = in(reg) slots,
                cell = in(reg) array.index() << CELL_SHIFT,
                word = in(reg) (array.index() << CELL_SHIFT) + word * 8,
                wanted = in(reg) slots + (slot.index() << SLOT_SHIFT),
                expected = in(reg) expected, new = in(reg) new,
                refused = label { return false },
                options(nostack)
            );
        }
        true
    }
}
