//! Restartable sequences on aarch64: the object fast path.
//!
//! They have the shape and keep the rules of the x86-64 sequences (see `assembly.rs`). Constants of
//! the slot's layout are operands here, because only this file contains these sequences.
//!
//! Differences from x86-64:
//! * x86-64 does not reorder loads. Here `ldar` loads the bounds (or the guard), so that the
//!   header, loaded next, is at least as new; see `SlotArea::give_room` and `SlotArea::empty_list`.
//!   A walk loads each word by `ldar`, so that a node is at least as new as the word that names it.
//! * x86-64 does not reorder stores. Here objects, links and headers are stored plainly. They are
//!   read on the same CPU (the kernel executes a barrier before it runs another thread there), or
//!   by a task that has called `Cpus::barrier` since. Only the word that `compare_store` stores may
//!   be read by other CPUs at once: that store is a release.
//! * The thread pointer is read between labels 2 and 3. So a sequence that restarts in another
//!   thread (a handler has moved its coroutine) arms the registration of that thread.
//!
//! A sequence with a result sets it to null first, and refuses by a jump to label 7. The others
//! jump to a label operand. Branches test flags, because `tbz` and `tbnz` reach only 32 KiB.

use super::area::SlotArea;
use super::layout::{ArrayId, CELL_SHIFT, LIST_MAX, SLOT_SHIFT, SlotIndex, TOP_BITS};
use super::object::{Object, Push};
use super::registration::Rseq;
use super::sequences::Sequences;
use super::word_tree::WordTree;
use core::arch::asm;
use core::mem::MaybeUninit;

/// The addend to an array's header per operation, divided by 4,096: a shifted immediate.
const OPERATION: u64 = (1 << TOP_BITS) >> 12;
/// Bits of the count of objects in a list's header; the address of the head is above them.
const HEAD_SHIFT: u32 = LIST_MAX.count_ones();
const _: () = assert!(TOP_BITS == 16, "`uxth` takes as many bits");

/// Arms the sequence's descriptor, with `t` as scratch. If the thread has no registration, jumps to
/// `leave`, or, in a sequence with a `result`, sets the result to null and jumps to label 7.
macro_rules! arm {
    (leave: $leave:literal) => {
        arm!(@text "", $leave)
    };
    (result: $result:literal) => {
        arm!(@text concat!("mov ", $result, ", xzr\n"), "7f")
    };
    (@text $first:expr, $leave:literal) => {
        concat!(
            "2:\n",
            $first,
            "mrs {thread}, tpidr_el0\n",
            "add {own}, {thread}, {rseq}\n",
            "adrp {t}, 77f\n",
            "add {t}, {t}, :lo12:77f\n",
            "str {t}, [{own}, #8]\n",
            "3:\n",
            "ldr {t:w}, [{own}, #4]\n",
            "cmp {t:w}, #0\n",
            "b.lt ",
            $leave,
        )
    };
}

/// Begins a sequence: arms its descriptor, and finds the slot's address in `t`.
macro_rules! enter {
    ($($leave:tt)+) => {
        concat!(
            arm!($($leave)+),
            "\n",
            "ldr {t:w}, [{thread}, {index}]\n",
            "add {t}, {slots}, {t}, lsl #{slot_shift}",
        )
    };
}

/// Ends a sequence after its committing store: its descriptor and its abort handler.
macro_rules! end {
    () => {
        concat!(
            "5:\n",
            ".pushsection __rseq_cs, \"aw\"\n",
            ".balign 32\n",
            "77: .long 0, 0\n",
            ".quad 3b, 5b-3b, 88f\n",
            ".popsection\n",
            ".pushsection .text.quarry_rseq_abort, \"ax\"\n",
            // RSEQ_SIG of glibc 2.35: a trap instruction, so that disassembly stays valid.
            "brk #0x45e0\n",
            "88: b 2b\n",
            ".popsection\n",
            "7:",
        )
    };
}

/// Turns `c` into the address of the array's cell, loads its bounds into `b`, its header into `h`.
macro_rules! load_array {
    () => {
        "add {c}, {t}, {cell}\n\
         add {b}, {c}, #8\n\
         ldar {b}, [{b}]\n\
         ldr {h}, [{c}]"
    };
}

/// Turns `t` into the address of a list's cell, and loads the list's guard into `b`.
macro_rules! load_guard {
    () => {
        "add {t}, {t}, {cell}\n\
         add {b}, {t}, #8\n\
         ldar {b}, [{b}]"
    };
}

/// Puts `object` at the head of the list at cell `t`; `h` has the list's count, `r` its old head.
macro_rules! link {
    () => {
        "str {r}, [{object}]\n\
         add {h}, {h}, #1\n\
         orr {h}, {h}, {object}, lsl #{link_shift}\n\
         ldr {r}, [{t}, #24]\n\
         add {r}, {r}, #1\n\
         str {r}, [{t}, #24]\n\
         str {h}, [{t}]"
    };
}

// SAFETY: as for x86-64, in `rseq.rs`.
unsafe impl Sequences for Rseq {
    #[inline(always)]
    fn pop(&self, area: &SlotArea, array: ArrayId) -> Option<Object> {
        let (rseq, index, slots) = self.registers(area);
        let object: *mut u8;
        // SAFETY: as in `rseq.rs`. As `begin` is complemented, `top + !begin` carries out of 16
        // bits exactly where `top > begin`.
        unsafe {
            asm!(
                enter!(result: "{r}"),
                load_array!(),
                "lsl {o:w}, {h:w}, #{top_shift}",
                "cmn {o:w}, {b:w}, lsl #{top_shift}",
                "b.cc 7f",
                "lsr {o:w}, {o:w}, #{top_shift}",
                "add {o}, {t}, {o}, lsl #3",
                "ldr {r}, [{o}, #-8]",
                "add {h}, {h}, #{operation}, lsl #12",
                "sub {h}, {h}, #1",
                "str {h}, [{c}]",
                end!(),
                thread = out(reg) _, own = out(reg) _, t = out(reg) _, c = out(reg) _,
                b = out(reg) _, h = out(reg) _, o = out(reg) _, r = out(reg) object,
                rseq = in(reg) rseq, index = in(reg) index, slots = in(reg) slots,
                cell = in(reg) array.index() << CELL_SHIFT,
                slot_shift = const SLOT_SHIFT, top_shift = const 32 - TOP_BITS,
                operation = const OPERATION,
                options(nostack)
            );
        }
        Object::new(object)
    }

    #[inline(always)]
    fn push(&self, area: &SlotArea, array: ArrayId, object: Object) -> Push {
        let (rseq, index, slots) = self.registers(area);
        // SAFETY: as in `rseq.rs`.
        unsafe {
            asm!(
                enter!(leave: "{refused}"),
                load_array!(),
                "and {o:w}, {h:w}, #0xffff",
                "cmp {o:w}, {b:w}, lsr #{top_bits}",
                "b.hs {refused}",
                "add {o}, {t}, {o}, lsl #3",
                "ldp {t}, {b}, [{o}, #-16]",
                "cmp {b}, {object}",
                // Compares the lower object if the upper one differs.
                "ccmp {t}, {object}, #4, ne",
                "b.eq {duplicate}",
                "str {object}, [{o}]",
                "add {h}, {h}, #{operation}, lsl #12",
                "add {h}, {h}, #1",
                "str {h}, [{c}]",
                end!(),
                thread = out(reg) _, own = out(reg) _, t = out(reg) _, c = out(reg) _,
                b = out(reg) _, h = out(reg) _, o = out(reg) _,
                rseq = in(reg) rseq, index = in(reg) index, slots = in(reg) slots,
                cell = in(reg) array.index() << CELL_SHIFT, object = in(reg) object.as_ptr(),
                slot_shift = const SLOT_SHIFT, top_bits = const TOP_BITS,
                operation = const OPERATION,
                refused = label { return Push::Refused },
                duplicate = label { return Push::Duplicate },
                options(nostack)
            );
        }
        Push::Stored
    }

    fn pop_batch(&self, area: &SlotArea, array: ArrayId, out: &mut [MaybeUninit<Object>]) -> bool {
        let (rseq, index, slots) = self.registers(area);
        // SAFETY: as in `rseq.rs`.
        unsafe {
            asm!(
                enter!(leave: "{refused}"),
                load_array!(),
                "and {o:w}, {h:w}, #0xffff",
                "mvn {b:w}, {b:w}",
                "sub {b:w}, {o:w}, {b:w}, uxth",
                "cmp {b:w}, {n:w}",
                "b.lt {refused}",
                "sub {o:w}, {o:w}, {n:w}",
                "add {o}, {t}, {o}, lsl #3",
                "mov {b}, xzr",
                "9:",
                "ldr {t}, [{o}, {b}, lsl #3]",
                "str {t}, [{buffer}, {b}, lsl #3]",
                "add {b}, {b}, #1",
                "cmp {b}, {n}",
                "b.lo 9b",
                "sub {h}, {h}, {n}",
                "str {h}, [{c}]",
                end!(),
                thread = out(reg) _, own = out(reg) _, t = out(reg) _, c = out(reg) _,
                b = out(reg) _, h = out(reg) _, o = out(reg) _,
                rseq = in(reg) rseq, index = in(reg) index, slots = in(reg) slots,
                cell = in(reg) array.index() << CELL_SHIFT,
                n = in(reg) out.len(), buffer = in(reg) out.as_mut_ptr(),
                slot_shift = const SLOT_SHIFT,
                refused = label { return false },
                options(nostack)
            );
        }
        true
    }

    fn push_batch(&self, area: &SlotArea, array: ArrayId, objects: &[Object]) -> bool {
        let (rseq, index, slots) = self.registers(area);
        // SAFETY: as in `rseq.rs`.
        unsafe {
            asm!(
                enter!(leave: "{refused}"),
                load_array!(),
                "and {o:w}, {h:w}, #0xffff",
                "lsr {b:w}, {b:w}, #{top_bits}",
                "sub {b:w}, {b:w}, {o:w}",
                "cmp {b:w}, {n:w}",
                "b.lt {refused}",
                "add {o}, {t}, {o}, lsl #3",
                "mov {b}, xzr",
                "9:",
                "ldr {t}, [{buffer}, {b}, lsl #3]",
                "str {t}, [{o}, {b}, lsl #3]",
                "add {b}, {b}, #1",
                "cmp {b}, {n}",
                "b.lo 9b",
                "add {h}, {h}, {n}",
                "str {h}, [{c}]",
                end!(),
                thread = out(reg) _, own = out(reg) _, t = out(reg) _, c = out(reg) _,
                b = out(reg) _, h = out(reg) _, o = out(reg) _,
                rseq = in(reg) rseq, index = in(reg) index, slots = in(reg) slots,
                cell = in(reg) array.index() << CELL_SHIFT,
                n = in(reg) objects.len(), buffer = in(reg) objects.as_ptr(),
                slot_shift = const SLOT_SHIFT, top_bits = const TOP_BITS,
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
        // SAFETY: as in `rseq.rs`.
        unsafe {
            asm!(
                enter!(result: "{r}"),
                load_guard!(),
                "cmn {b}, #1",
                "b.eq 7f",
                "ldr {h}, [{t}]",
                "lsr {o}, {h}, #{head_shift}",
                "cbz {o}, 7f",
                "lsl {r}, {o}, #4",
                "and {h}, {h}, #{list_max}",
                "sub {h}, {h}, #1",
                "ldr {o}, [{r}]",
                "orr {h}, {h}, {o}, lsl #{link_shift}",
                "ldr {o}, [{t}, #16]",
                "add {o}, {o}, #1",
                "str {o}, [{t}, #16]",
                "str {h}, [{t}]",
                end!(),
                thread = out(reg) _, own = out(reg) _, t = out(reg) _, b = out(reg) _,
                h = out(reg) _, o = out(reg) _, r = out(reg) object,
                rseq = in(reg) rseq, index = in(reg) index, slots = in(reg) slots,
                cell = in(reg) array.index() << CELL_SHIFT,
                slot_shift = const SLOT_SHIFT, head_shift = const HEAD_SHIFT,
                link_shift = const HEAD_SHIFT - 4, list_max = const LIST_MAX,
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
                enter!(leave: "{refused}"),
                load_guard!(),
                "cmp {b}, {guard}",
                "b.ne {refused}",
                "ldr {h}, [{t}]",
                "lsr {r}, {h}, #{head_shift}",
                "lsl {r}, {r}, #4",
                "cmp {r}, {object}",
                "b.eq {duplicate}",
                "and {h}, {h}, #{list_max}",
                "eor {b}, {h}, #{list_max}",
                "cbz {b}, {refused}",
                link!(),
                end!(),
                thread = out(reg) _, own = out(reg) _, t = out(reg) _, b = out(reg) _,
                h = out(reg) _, r = out(reg) _,
                rseq = in(reg) rseq, index = in(reg) index, slots = in(reg) slots,
                cell = in(reg) array.index() << CELL_SHIFT,
                guard = in(reg) guard, object = in(reg) object.as_ptr(),
                slot_shift = const SLOT_SHIFT, head_shift = const HEAD_SHIFT,
                link_shift = const HEAD_SHIFT - 4, list_max = const LIST_MAX,
                refused = label { return Push::Refused },
                duplicate = label { return Push::Duplicate },
                options(nostack)
            );
        }
        Push::Stored
    }

    #[inline(always)]
    unsafe fn list_push_below(&self, area: &SlotArea, array: ArrayId, object: Object) -> Push {
        let (rseq, index, slots) = self.registers(area);
        // SAFETY: as in `rseq.rs`.
        unsafe {
            asm!(
                enter!(leave: "{refused}"),
                load_guard!(),
                "ldr {h}, [{t}]",
                "lsr {r}, {h}, #{head_shift}",
                "lsl {r}, {r}, #4",
                "cmp {r}, {object}",
                "b.eq {duplicate}",
                "and {h}, {h}, #{list_max}",
                "cmp {h:w}, {b:w}",
                "b.ge {refused}",
                link!(),
                end!(),
                thread = out(reg) _, own = out(reg) _, t = out(reg) _, b = out(reg) _,
                h = out(reg) _, r = out(reg) _,
                rseq = in(reg) rseq, index = in(reg) index, slots = in(reg) slots,
                cell = in(reg) array.index() << CELL_SHIFT, object = in(reg) object.as_ptr(),
                slot_shift = const SLOT_SHIFT, head_shift = const HEAD_SHIFT,
                link_shift = const HEAD_SHIFT - 4, list_max = const LIST_MAX,
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
        // SAFETY: as for `pop`; the sequence refuses where its slot is not the wanted one.
        unsafe {
            asm!(
                enter!(leave: "{refused}"),
                "cmp {t}, {wanted}",
                "b.ne {refused}",
                load_guard!(),
                "cmn {b}, #1",
                "b.eq {refused}",
                "add {t}, {t}, {word}",
                "ldr {b}, [{t}]",
                "cmp {b}, {expected}",
                "b.ne {refused}",
                "stlr {new}, [{t}]",
                end!(),
                thread = out(reg) _, own = out(reg) _, t = out(reg) _, b = out(reg) _,
                rseq = in(reg) rseq, index = in(reg) index, slots = in(reg) slots,
                cell = in(reg) array.index() << CELL_SHIFT,
                word = in(reg) word * 8,
                wanted = in(reg) slots + (slot.index() << SLOT_SHIFT),
                expected = in(reg) expected, new = in(reg) new,
                slot_shift = const SLOT_SHIFT,
                refused = label { return false },
                options(nostack)
            );
        }
        true
    }

    #[inline(always)]
    unsafe fn walk(&self, _area: &SlotArea, tree: &WordTree, index: u64) -> u64 {
        let leaf: u64;
        // SAFETY: as in `rseq.rs`.
        unsafe {
            asm!(
                arm!(result: "{leaf}"),
                "ldar {shift}, [{tree}]",
                "tst {shift}, #{is_leaf}",
                "b.eq 8f",
                "cmp {index}, #0",
                "csel {leaf}, {shift}, xzr, eq",
                "b 7f",
                "8:",
                "and {t}, {shift}, #{address}",
                "cbz {t}, 7f",
                "lsr {place}, {index}, {shift}",
                "cmp {place}, #{last}",
                "b.hi 7f",
                "add {t}, {t}, #{is_node}",
                "9:",
                "add {t}, {t}, {place}, lsl #3",
                "sub {t}, {t}, #{is_node}",
                "ldar {t}, [{t}]",
                "sub {shift:w}, {shift:w}, #{level}",
                "lsr {place}, {index}, {shift}",
                "and {place}, {place}, #{last}",
                "tst {t}, #{is_node}",
                "b.ne 9b",
                "mov {leaf}, {t}",
                end!(),
                thread = out(reg) _, own = out(reg) _, t = out(reg) _, shift = out(reg) _,
                place = out(reg) _, leaf = out(reg) leaf,
                rseq = in(reg) self.offset(), tree = in(reg) tree, index = in(reg) index,
                address = const -(WordTree::NODE_ALIGN as i64),
                last = const WordTree::FAN_OUT - 1,
                level = const WordTree::LEVEL_BITS,
                is_leaf = const WordTree::IS_LEAF, is_node = const WordTree::IS_NODE,
                options(nostack)
            );
        }
        leaf
    }
}
