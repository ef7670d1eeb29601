//! Restartable sequences on x86-64: the object fast path.
//!
//! A sequence chooses its slot by `mm_cid` where the kernel provides that number, else by `cpu_id`.
//! It leaves if `cpu_id` is negative, because then the thread has no registration.
//!
//! `assembly` has the shape and the rules of sequences, and the text of those that are also part of
//! `malloc` and `free`. A committing sequence falls through. A refusing sequence jumps to a label
//! operand, or if it has a result (then Rust allows no label operand) to its label 6, out of line.

use super::area::SlotArea;
use super::layout::{ArrayId, CELL_SHIFT, SLOT_SHIFT, SlotIndex};
use super::object::{Object, Push};
use super::registration::Rseq;
use super::sequences::Sequences;
use super::word_tree::WordTree;
use crate::{arm_sequence, end_sequence, enter_sequence, pop_sequence, push_sequence};
use core::arch::asm;
use core::mem::MaybeUninit;

/// The exit of a sequence that has a result and refuses: it returns the null object.
macro_rules! nothing {
    () => {
        "6: xor {r:e}, {r:e}\n jmp 7f\n"
    };
}

/// Copies `{n}` objects in pairs, an odd one first. Copying them one by one takes twice the time.
macro_rules! copy_objects {
    ($from:literal, $to:literal) => {
        concat!(
            "xor {o:e}, {o:e}\n",
            "test {n:e}, 1\n",
            "jz 8f\n",
            "mov {x}, qword ptr [",
            $from,
            "]\n",
            "mov qword ptr [",
            $to,
            "], {x}\n",
            "inc {o:e}\n",
            "8: cmp {o:e}, {n:e}\n",
            "jae 4f\n",
            "9: movups {pair}, xmmword ptr [",
            $from,
            " + {o}*8]\n",
            "movups xmmword ptr [",
            $to,
            " + {o}*8], {pair}\n",
            "add {o:e}, 2\n",
            "cmp {o:e}, {n:e}\n",
            "jb 9b\n",
            "4:",
        )
    };
}

/// Begins a sequence, with the operands that all sequences here share.
macro_rules! enter {
    ($leave:literal) => {
        enter_sequence!(rseq: [rseq], index: [index], slots: "{slots}", slot: [t], leave: $leave)
    };
}

// SAFETY: each sequence below arms its descriptor before it finds its slot, so the kernel restarts
// it when its thread is preempted, migrated or signalled before the committing store, and when
// another thread calls `barrier`. Each loads bounds or guard first; closed ones refuse.
unsafe impl Sequences for Rseq {
    #[inline(always)]
    fn pop(&self, area: &SlotArea, array: ArrayId) -> Option<Object> {
        let (rseq, index, slots) = self.registers(area);
        let object: *mut u8;
        // SAFETY: `rseq` is the offset of this thread's registered struct rseq or of the stand-in
        // (init ran before any caller could know an ArrayId). The slot is inside the area: mm_cid
        // and cpu_id are below the size of the kernel's CPU mask, and beyond the slots the area
        // reads as zero. All stores but the last go to registers; the last commits.
        unsafe {
            asm!(
                pop_sequence!(
                    rseq: [rseq], index: [index], slots: "{slots}", offset: "{cell}",
                    slot: [t], cell: [c], header: [h], begin: [o], top: [r], object: [r],
                    leave: "6f", out_of_line: nothing!()
                ),
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
        // SAFETY: as for `pop`; the store into the array lies at `top < end`, above `top`, which no
        // reader loads until the committing store publishes it. `[top - 1]` and `[top - 2]` are
        // elements or the guard words in front of the array.
        unsafe {
            asm!(
                push_sequence!(
                    rseq: [rseq], index: [index], slots: "{slots}", offset: "{cell}",
                    object: [object],
                    slot: [t], cell: [c], header: [h], end: [o], top: [r],
                    leave: "{refused}", duplicate: "{duplicate}"
                ),
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
        // SAFETY: as for `pop`; the copy reads `[top - n, top)` of the array and writes the
        // caller's buffer, which the next attempt overwrites if this one aborts.
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
                copy_objects!("{r}", "{buffer}"),
                "sub {h}, {n}",
                "mov qword ptr [{c}], {h}",
                end_sequence!(""),
                t = out(reg) _, c = out(reg) _, h = out(reg) _, o = out(reg) _,
                r = out(reg) _, x = out(reg) _, pair = out(xmm_reg) _,
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
        // SAFETY: as for `push`; the copy writes `[top, top + n)`, which lies below `end` and above
        // `top`, which no reader loads before the committing store.
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
                copy_objects!("{buffer}", "{r}"),
                "add {h}, {n}",
                "mov qword ptr [{c}], {h}",
                end_sequence!(""),
                t = out(reg) _, c = out(reg) _, h = out(reg) _, o = out(reg) _,
                r = out(reg) _, x = out(reg) _, pair = out(xmm_reg) _,
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
        // SAFETY: as for `pop`; the head's link is read inside the sequence, so no other task on
        // this CPU has taken the object since. Word 2 also counts aborted attempts.
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
                end_sequence!(nothing!()),
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
                end_sequence!(""),
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

    #[inline(always)]
    unsafe fn list_push_below(&self, area: &SlotArea, array: ArrayId, object: Object) -> Push {
        let (rseq, index, slots) = self.registers(area);
        // SAFETY: as for `list_push`. The bound is a signed number of 32 bits: a stopped list,
        // whose guard is all ones, has the bound -1 and so refuses.
        unsafe {
            asm!(
                enter!("{refused}"),
                "add {t}, {cell}",
                "mov {o:e}, dword ptr [{t} + 8]",
                "mov {h}, qword ptr [{t}]",
                "mov {r}, {h}",
                "shr {r}, 20",
                "shl {r}, 4",
                "cmp {r}, {object}",
                "je {duplicate}",
                "and {h:e}, 0xfffff",
                "cmp {h:e}, {o:e}",
                "jge {refused}",
                "mov qword ptr [{object}], {r}",
                "inc {h:e}",
                "mov {r}, {object}",
                "shl {r}, 16",
                "or {h}, {r}",
                "inc qword ptr [{t} + 24]",
                "mov qword ptr [{t}], {h}",
                end_sequence!(""),
                t = out(reg) _, h = out(reg) _, r = out(reg) _, o = out(reg) _,
                rseq = in(reg) rseq, index = in(reg) index, slots = in(reg) slots,
                cell = in(reg) array.index() << CELL_SHIFT, object = in(reg) object.as_ptr(),
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
                enter!("{refused}"),
                "cmp {t}, {wanted}",
                "jne {refused}",
                "add {t}, {cell}",
                "cmp qword ptr [{t} + 8], -1",
                "je {refused}",
                "add {t}, {word}",
                "cmp {expected}, qword ptr [{t}]",
                "jne {refused}",
                "mov qword ptr [{t}], {new}",
                end_sequence!(""),
                t = out(reg) _,
                rseq = in(reg) rseq, index = in(reg) index, slots = in(reg) slots,
                cell = in(reg) array.index() << CELL_SHIFT,
                word = in(reg) word * 8,
                wanted = in(reg) slots + (slot.index() << SLOT_SHIFT),
                expected = in(reg) expected, new = in(reg) new,
                refused = label { return false },
                options(nostack)
            );
        }
        true
    }

    #[inline(always)]
    unsafe fn walk(&self, _area: &SlotArea, tree: &WordTree, index: u64) -> u64 {
        let rseq = self.offset();
        let leaf: u64;
        // SAFETY: the sequence loads only words of nodes that it has found in the tree since it
        // began. Before such a node is freed, a barrier makes the sequence begin again (the
        // caller's promise). A node that was put elsewhere in the tree is still a node, and a place
        // in it is below the fan-out. The sequence stores only its descriptor.
        unsafe {
            asm!(
                arm_sequence!(rseq: "{rseq}", slot: "{node}", leave: "6f"),
                "mov rcx, qword ptr [{tree}]",
                "mov {place}, {index}",
                "test cl, {is_leaf}",
                "jnz 4f",
                "mov {node}, rcx",
                "and {node}, {address}",
                "jz 5f",
                "shr {place}, cl",
                "cmp {place}, {last}",
                "ja 6f",
                "add {node}, {is_node}",
                "9:",
                "mov {node}, qword ptr [{node} + {place}*8 - {is_node}]",
                "sub ecx, {level}",
                "mov {place}, {index}",
                "shr {place}, cl",
                "and {place:e}, {last}",
                "test {node:l}, {is_node}",
                "jnz 9b",
                end_sequence!("4: mov {node}, rcx\n test {index}, {index}\n jz 7f\n \
                               6: xor {node:e}, {node:e}\n jmp 7f\n"),
                "7:",
                node = out(reg) leaf, place = out(reg) _, out("rcx") _,
                rseq = in(reg) rseq, tree = in(reg) tree, index = in(reg) index,
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
