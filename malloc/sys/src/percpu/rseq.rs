//! Restartable sequences of the CPU: the object fast path.
//!
//! A sequence chooses its slot by `mm_cid` where the kernel provides that number and the machine
//! has one NUMA node, else by `cpu_id`.
//! It leaves if `cpu_id` is negative, because then the thread has no registration. The file of the
//! architecture has the text of the sequences; this one calls them.

use super::area::SlotArea;
use super::layout::{ArrayId, CELL_SHIFT, CellWord, SLOT_SHIFT};
use super::object::{Object, Push};
use super::registration::Rseq;
use super::sequences::Sequences;
use super::word_tree::WordTree;
use core::mem::MaybeUninit;

#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
#[macro_use]
mod machine;

/// Runs a sequence on the cell of `$array`. The sequence gets the operands that all sequences
/// share, which include the results of `registers`, and then `$operands`.
macro_rules! on_cell {
    ($sequence:ident, $registers:expr, $array:ident, $($operands:tt)+) => {{
        let (rseq, index, slots) = $registers;
        sequence!(
            $sequence,
            rseq = in(reg) rseq, index = in(reg) index, slots = in(reg) slots,
            cell = in(reg) $array.index() << CELL_SHIFT,
            $($operands)+,
            options(nostack)
        )
    }};
}

// SAFETY: each sequence arms its descriptor before it finds its slot, so the kernel restarts it
// when its thread is preempted, migrated or signalled before the committing store, and when another
// thread calls `barrier`. Each loads bounds or guard first; closed ones refuse.
unsafe impl Sequences for Rseq {
    #[inline(always)]
    fn pop(&self, area: &SlotArea, array: ArrayId) -> Option<Object> {
        let object: *mut u8;
        // SAFETY: `rseq` is the offset of this thread's registered struct rseq or of the stand-in
        // (`init` ran before: see `PerCpu::INERT`). The slot is inside the area: mm_cid and cpu_id
        // are below the size of the kernel's CPU mask, and beyond the slots the area reads as zero.
        // The last store commits; before it, only the descriptor is stored.
        unsafe { on_cell!(pop, self.registers(area), array, r = out(reg) object) };
        Object::new(object)
    }

    #[inline(always)]
    fn push(&self, area: &SlotArea, array: ArrayId, object: Object) -> Push {
        // SAFETY: as for `pop`; the store into the array goes to the word at `top`, below `end`. No
        // reader loads it before the committing store raises `top`. `[top - 1]` and `[top - 2]` are
        // elements or the guard words in front of the array.
        unsafe {
            on_cell!(
                push, self.registers(area), array,
                object = in(reg) object.as_ptr(),
                refused = label { return Push::Refused },
                duplicate = label { return Push::Duplicate }
            );
        }
        Push::Stored
    }

    fn pop_batch(&self, area: &SlotArea, array: ArrayId, out: &mut [MaybeUninit<Object>]) -> bool {
        // SAFETY: as for `pop`; the copy reads `[top - n, top)` of the array and writes the
        // caller's buffer, which the next attempt overwrites if this one aborts.
        unsafe {
            on_cell!(
                pop_batch, self.registers(area), array,
                n = in(reg) out.len(), buffer = in(reg) out.as_mut_ptr(),
                refused = label { return false }
            );
        }
        true
    }

    fn push_batch(&self, area: &SlotArea, array: ArrayId, objects: &[Object]) -> bool {
        // SAFETY: as for `push`; the copy writes `[top, top + n)`, which is below `end`. No reader
        // loads these words before the committing store raises `top`.
        unsafe {
            on_cell!(
                push_batch, self.registers(area), array,
                n = in(reg) objects.len(), buffer = in(reg) objects.as_ptr(),
                refused = label { return false }
            );
        }
        true
    }

    #[inline(always)]
    unsafe fn list_pop(&self, area: &SlotArea, array: ArrayId) -> Option<Object> {
        let object: *mut u8;
        // SAFETY: as for `pop`; if another task on this CPU takes the head before its link is read,
        // the sequence restarts. Word 2 also counts aborted attempts.
        unsafe { on_cell!(list_pop, self.registers(area), array, r = out(reg) object) };
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
        // SAFETY: as for `push`; the link is stored into the caller's own object.
        unsafe {
            on_cell!(
                list_push, self.registers(area), array,
                guard = in(reg) guard, object = in(reg) object.as_ptr(),
                refused = label { return Push::Refused },
                duplicate = label { return Push::Duplicate }
            );
        }
        Push::Stored
    }

    #[inline(always)]
    unsafe fn list_push_below(&self, area: &SlotArea, array: ArrayId, object: Object) -> Push {
        // SAFETY: as for `list_push`. The bound is a signed number of 32 bits: a stopped list,
        // whose guard is all ones, has the bound -1 and so refuses.
        unsafe {
            on_cell!(
                list_push_below, self.registers(area), array,
                object = in(reg) object.as_ptr(),
                refused = label { return Push::Refused },
                duplicate = label { return Push::Duplicate }
            );
        }
        Push::Stored
    }

    fn compare_store(&self, area: &SlotArea, at: CellWord, expected: u64, new: u64) -> bool {
        let ((slot, array, word), registers) = (at, self.registers(area));
        let wanted = registers.2 + (slot.index() << SLOT_SHIFT);
        // SAFETY: as for `pop`; the sequence refuses where its slot is not the wanted one.
        unsafe {
            on_cell!(
                compare_store, registers, array,
                word = in(reg) word * 8,
                wanted = in(reg) wanted,
                expected = in(reg) expected, new = in(reg) new,
                refused = label { return false }
            );
        }
        true
    }

    #[inline(always)]
    unsafe fn walk(&self, _area: &SlotArea, tree: &WordTree, index: u64) -> u64 {
        let leaf: u64;
        // SAFETY: the sequence loads only words of nodes that it has found in the tree since it
        // began. Before such a node is freed, a barrier makes the sequence begin again (the
        // caller's promise). A node that was put elsewhere in the tree is still a node, and a place
        // in it is below the fan-out. The sequence stores only its descriptor.
        unsafe {
            sequence!(
                walk, leaf = out(reg) leaf,
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
