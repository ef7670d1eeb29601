//! The fast paths' sequences as assembler text with registers as parameters: in `rseq` the compiler
//! chooses the registers, in the entry points of the shared object they are fixed. Only this file
//! writes the layout of a slot as text; the asserts below compare the text with `layout`.
//!
//! Shape of every sequence; `slot` is the address of the running CPU's slot:
//!
//! ```text
//! 2: rseq_cs = descriptor           ; from here the kernel sends an interrupted thread to 88
//! 3: if cpu_id < 0: leave           ; the sequence proper begins
//!    slot = slots + (number << 18)
//!    cell = slot + offset of the cell
//!    if the bounds refuse: leave
//!    ...                            ; loads, and stores to memory that no thread reads yet
//!    [cell] = new header            ; the committing store
//! 5:                                ; past the end: it has happened
//! 88: jmp 89                        ; abort handler, after the signature that is registered
//! 89: count the abort
//!    if the thread has patience: start again at 2
//!    leave
//! ```
//!
//! A thread that a debugger steps is interrupted in each sequence. So each thread has a number of
//! aborts, its *patience* (see `patience`), after which sequences leave as if they refused: the
//! slow path serves the request.
//!
//! A walk (`WordTree`) commits nothing: it only loads, and an interrupted thread walks again.
//!
//! All sequences keep three rules. `malloc/preload/tests/sequences.rs` checks the machine code of
//! the libraries for the second and the third.
//!
//! * Bounds are loaded before the header: see `SlotArea::give_room`. An array's `begin` is stored
//!   complemented, so that `top + !begin` carries out of 16 bits exactly where `top > begin`.
//! * A committed word is loaded and stored through one plain register, because the next sequence on
//!   the cell loads what this one stores: an Intel Xeon of family 6, model 207 (Emerald Rapids)
//!   forwards such a store early only to a load without an index register in its address.
//! * A restarted sequence begins again at 2, with its registers as the aborted attempt left them,
//!   and the slow path needs its inputs. So between 2 and 5 it never writes an input register, even
//!   where that would save a `mov`.

use super::layout::{CELL_SHIFT, LOOKED_AT, SLOT_SHIFT};

/// The name of a register in 64, 32 or 16 bits: `rax`, or `[name]` for an operand of `asm!`.
#[doc(hidden)]
#[macro_export]
macro_rules! register {
    (64 [$operand:ident]) => {
        concat!("{", stringify!($operand), "}")
    };
    (32 [$operand:ident]) => {
        concat!("{", stringify!($operand), ":e}")
    };
    (16 [$operand:ident]) => {
        concat!("{", stringify!($operand), ":x}")
    };
    (32 rax) => {
        "eax"
    };
    (32 rcx) => {
        "ecx"
    };
    (16 rax) => {
        "ax"
    };
    (64 $name:ident) => {
        stringify!($name)
    };
    (32 $name:ident) => {
        concat!(stringify!($name), "d")
    };
    (16 $name:ident) => {
        concat!(stringify!($name), "w")
    };
}

/// A number of a slot's layout as text.
#[doc(hidden)]
#[macro_export]
macro_rules! slot_layout {
    (slot_shift) => {
        "18"
    };
    (cell_shift) => {
        "5"
    };
    (begin) => {
        "8"
    };
    (end) => {
        "10"
    };
    (one_pop) => {
        "0xffff"
    };
    (one_push) => {
        "0x10001"
    };
    // Bytes of a cell, divided by 16.
    (cells_of_16) => {
        "2"
    };
}

const fn number(text: &str) -> usize {
    let (bytes, mut value, mut at) = (text.as_bytes(), 0, 0);
    let is_hexadecimal = bytes.len() > 2 && bytes[1] == b'x';
    let base = if is_hexadecimal { 16 } else { 10 };
    if is_hexadecimal {
        at = 2;
    }
    while at < bytes.len() {
        let digit = match bytes[at] {
            digit @ b'0'..=b'9' => digit - b'0',
            digit => digit - b'a' + 10,
        };
        value = value * base + digit as usize;
        at += 1;
    }
    value
}

const _: () = {
    assert!(number(slot_layout!(slot_shift)) == SLOT_SHIFT as usize);
    assert!(number(slot_layout!(cell_shift)) == CELL_SHIFT as usize);
    assert!(number(slot_layout!(cells_of_16)) * 16 == 1 << CELL_SHIFT);
    // Word 1 is `{end : 16 | !begin : 16}`, little-endian.
    assert!(number(slot_layout!(begin)) == 8 && number(slot_layout!(end)) == 10);
    // Word 0 is `{operations : 48 | top : 16}`: a pop adds one operation and takes one object.
    assert!(number(slot_layout!(one_pop)) == (1 << 16) - 1);
    assert!(number(slot_layout!(one_push)) == (1 << 16) + 1);
    assert!(LOOKED_AT == 2, "a push compares the object with as many");
};

/// Turns an array's number into the offset of its cell in a slot, by one instruction.
#[macro_export]
macro_rules! cell_offset {
    ($register:tt) => {
        concat!("shl ", $crate::register!(32 $register), ", ", $crate::slot_layout!(cell_shift))
    };
}

/// The offset of a cell as an addend, from a register that holds 16 times the array's number.
#[macro_export]
macro_rules! cell_offset_of_16 {
    ($register:tt) => {
        concat!($crate::register!(64 $register), "*", $crate::slot_layout!(cells_of_16))
    };
}

/// Begins a sequence: arms its descriptor, with `slot` as scratch, or jumps to `leave` if the
/// thread has no registration.
#[doc(hidden)]
#[macro_export]
macro_rules! arm_sequence {
    (rseq: $rseq:expr, slot: $slot:expr, leave: $leave:expr) => {
        concat!(
            "2:\n",
            "lea ",
            $slot,
            ", [rip + 77f]\n",
            "mov qword ptr fs:[",
            $rseq,
            " + 8], ",
            $slot,
            "\n",
            "3:\n",
            "cmp dword ptr fs:[",
            $rseq,
            " + 4], 0\n",
            "jl ",
            $leave,
            "\n",
        )
    };
}

/// Begins a sequence: arms its descriptor and loads the slot's address into `slot`, or jumps to
/// `leave` if the thread has no registration.
#[doc(hidden)]
#[macro_export]
macro_rules! enter_sequence {
    (rseq: $rseq:tt, index: $index:tt, slots: $slots:expr, slot: $slot:tt, leave: $leave:expr) => {
        $crate::enter_sequence!(@text
            $crate::register!(64 $rseq), $crate::register!(64 $index), $slots,
            $crate::register!(64 $slot), $crate::register!(32 $slot), $leave
        )
    };
    (@text $rseq:expr, $index:expr, $slots:expr, $slot:expr, $slot32:expr, $leave:expr) => {
        concat!(
            $crate::arm_sequence!(rseq: $rseq, slot: $slot, leave: $leave),
            "mov ", $slot32, ", dword ptr fs:[", $index, "]\n",
            "shl ", $slot, ", ", $crate::slot_layout!(slot_shift), "\n",
            "add ", $slot, ", ", $slots, "\n",
        )
    };
}

/// Ends a sequence after its committing store: descriptor, abort handler with `slot` as scratch,
/// and `out_of_line`.
#[doc(hidden)]
#[macro_export]
macro_rules! end_sequence {
    (slot: $slot:tt, leave: $leave:expr, out_of_line: $out_of_line:expr) => {
        $crate::end_sequence!(@text
            $crate::register!(64 $slot), $crate::register!(32 $slot), $leave, $out_of_line
        )
    };
    (@text $slot:expr, $slot32:expr, $leave:expr, $out_of_line:expr) => {
        concat!(
            "5:\n",
            ".pushsection __rseq_cs, \"aw\"\n",
            ".balign 32\n",
            "77: .long 0, 0\n",
            ".quad 3b, 5b-3b, 88f\n",
            ".popsection\n",
            // Only what the kernel reads, and what refusals execute, lies on pages in frequent use.
            ".pushsection .text.quarry_rseq_again, \"ax\"\n",
            "89: imul ",
            $slot32,
            ", dword ptr fs:[0], -0x61c8864f\n",
            "shr ",
            $slot32,
            ", 24\n",
            "add ",
            $slot,
            ", qword ptr [rip + quarry_aborts@GOTPCREL]\n",
            "add byte ptr [",
            $slot,
            "], 4\n",
            "jns 2b\n",
            "jmp ",
            $leave,
            "\n",
            ".popsection\n",
            ".pushsection .text.quarry_rseq_abort, \"ax\"\n",
            // The signature is the operand of a ud1 instruction, so that disassembly stays valid.
            ".byte 0x0f, 0xb9, 0x3d\n",
            ".long 0x53053053\n",
            "88: jmp 89b\n",
            $out_of_line,
            ".popsection\n",
        )
    };
}

/// The sequence of [`Arrays::pop`](crate::percpu::Arrays::pop). It ends with the object in
/// `object`, or jumps to `leave`, where the registers `slot` to `object` are undefined.
///
/// * `rseq`, `index`: registers with the offsets of the registration and of the number of the slot
///   from the thread pointer; `slots`: an operand with the address of slot 0 (see
///   [`SequenceOffsets`](crate::percpu::SequenceOffsets))
/// * `offset`: the offset of the cell, as an addend in an address ([`cell_offset!`] or like it)
/// * `slot`, `cell`, `header`, `begin`, `top`, `object`: registers that it writes; `object` may be
///   `begin` or `top`, otherwise all differ from each other and from the registers above
/// * `out_of_line`: code after the abort handler
#[macro_export]
macro_rules! pop_sequence {
    (
        rseq: $rseq:tt, index: $index:tt, slots: $slots:expr, offset: $offset:expr,
        slot: $slot:tt, cell: $cell:tt, header: $header:tt, begin: $begin:tt, top: $top:tt,
        object: $object:tt, leave: $leave:expr, out_of_line: $out_of_line:expr $(,)?
    ) => {
        concat!(
            $crate::enter_sequence!(
                rseq: $rseq, index: $index, slots: $slots, slot: $slot, leave: $leave
            ),
            $crate::pop_sequence!(@text
                $offset, $crate::register!(64 $slot), $crate::register!(64 $cell),
                $crate::register!(64 $header), $crate::register!(16 $header),
                $crate::register!(32 $begin), $crate::register!(16 $begin),
                $crate::register!(64 $top), $crate::register!(32 $top),
                $crate::register!(16 $top), $crate::register!(64 $object), $leave
            ),
            $crate::end_sequence!(
                slot: $slot, leave: $leave, out_of_line: $out_of_line
            ),
        )
    };
    (
        @text $offset:expr, $slot:expr, $cell:expr, $header:expr, $header16:expr,
        $begin32:expr, $begin16:expr, $top:expr, $top32:expr, $top16:expr, $object:expr,
        $leave:expr
    ) => {
        concat!(
            "lea ", $cell, ", [", $slot, " + ", $offset, "]\n",
            "movzx ", $begin32, ", word ptr [", $cell, " + ", $crate::slot_layout!(begin), "]\n",
            "mov ", $header, ", qword ptr [", $cell, "]\n",
            "movzx ", $top32, ", ", $header16, "\n",
            "add ", $begin16, ", ", $top16, "\n",
            "jnc ", $leave, "\n",
            "mov ", $object, ", qword ptr [", $slot, " + ", $top, "*8 - 8]\n",
            "add ", $header, ", ", $crate::slot_layout!(one_pop), "\n",
            "mov qword ptr [", $cell, "], ", $header, "\n",
        )
    };
}

/// The sequence of [`Arrays::push`](crate::percpu::Arrays::push). It jumps to `leave` if the array
/// has no room, and to `duplicate` if the object is on top already. Operands as for
/// [`pop_sequence!`]; `object` is an input.
#[macro_export]
macro_rules! push_sequence {
    (
        rseq: $rseq:tt, index: $index:tt, slots: $slots:expr, offset: $offset:expr,
        object: $object:tt,
        slot: $slot:tt, cell: $cell:tt, header: $header:tt, end: $end:tt, top: $top:tt,
        leave: $leave:expr, duplicate: $duplicate:expr $(,)?
    ) => {
        concat!(
            $crate::enter_sequence!(
                rseq: $rseq, index: $index, slots: $slots, slot: $slot, leave: $leave
            ),
            $crate::push_sequence!(@text
                $offset, $crate::register!(64 $object), $crate::register!(64 $slot),
                $crate::register!(64 $cell), $crate::register!(64 $header),
                $crate::register!(16 $header), $crate::register!(32 $end),
                $crate::register!(64 $top), $crate::register!(32 $top), $leave, $duplicate
            ),
            $crate::end_sequence!(
                slot: $slot, leave: $leave, out_of_line: ""
            ),
        )
    };
    (
        @text $offset:expr, $object:expr, $slot:expr, $cell:expr, $header:expr, $header16:expr,
        $end32:expr, $top:expr, $top32:expr, $leave:expr, $duplicate:expr
    ) => {
        concat!(
            "lea ", $cell, ", [", $slot, " + ", $offset, "]\n",
            "movzx ", $end32, ", word ptr [", $cell, " + ", $crate::slot_layout!(end), "]\n",
            "mov ", $header, ", qword ptr [", $cell, "]\n",
            "movzx ", $top32, ", ", $header16, "\n",
            "cmp ", $top32, ", ", $end32, "\n",
            "jae ", $leave, "\n",
            "cmp ", $object, ", qword ptr [", $slot, " + ", $top, "*8 - 8]\n",
            "je ", $duplicate, "\n",
            "cmp ", $object, ", qword ptr [", $slot, " + ", $top, "*8 - 16]\n",
            "je ", $duplicate, "\n",
            "mov qword ptr [", $slot, " + ", $top, "*8], ", $object, "\n",
            "add ", $header, ", ", $crate::slot_layout!(one_push), "\n",
            "mov qword ptr [", $cell, "], ", $header, "\n",
        )
    };
}
