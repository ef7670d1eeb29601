//! The restartable sequences of aarch64, for `rseq`: the object fast path.
//!
//! They have the shape and keep the rules of the x86-64 sequences (see `assembly.rs`).
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

use crate::percpu::layout::{LIST_MAX, SLOT_SHIFT, TOP_BITS};

// `uxth` takes as many bits as `top` has; an operation adds 1 << 16 to the header, as 16 << 12.
const _: () = assert!(SLOT_SHIFT == 18 && TOP_BITS == 16 && LIST_MAX == (1 << 20) - 1);

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
            "add {t}, {slots}, {t}, lsl #18",
        )
    };
}

/// Ends a sequence after its committing store: its descriptor and its abort handler.
macro_rules! end {
    (leave: $leave:literal) => {
        end!(@text "", $leave)
    };
    (result: $result:literal) => {
        end!(@text concat!("mov ", $result, ", xzr\n"), "7f")
    };
    (@text $first:expr, $leave:literal) => {
        concat!(
            "5:\n",
            ".pushsection __rseq_cs, \"aw\"\n",
            ".balign 32\n",
            "77: .long 0, 0\n",
            ".quad 3b, 5b-3b, 88f\n",
            ".popsection\n",
            ".pushsection .text.quarry_rseq_again, \"ax\"\n",
            "89: mrs {thread}, tpidr_el0\n",
            "mov {t:w}, #0x79b1\n",
            "movk {t:w}, #0x9e37, lsl #16\n",
            "mul {t:w}, {thread:w}, {t:w}\n",
            "lsr {t:w}, {t:w}, #24\n",
            "adrp {thread}, quarry_aborts\n",
            "add {thread}, {thread}, :lo12:quarry_aborts\n",
            "add {thread}, {thread}, {t}\n",
            "ldrb {t:w}, [{thread}]\n",
            "add {t:w}, {t:w}, #4\n",
            "strb {t:w}, [{thread}]\n",
            "tst {t:w}, #0x80\n",
            "b.ne 6f\n",
            "b 2b\n",
            "6:\n",
            $first,
            "b ",
            $leave,
            "\n",
            ".popsection\n",
            ".pushsection .text.quarry_rseq_abort, \"ax\"\n",
            // RSEQ_SIG of glibc 2.35: a trap instruction, so that disassembly stays valid.
            "brk #0x45e0\n",
            "88: b 89b\n",
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

/// Loads the count of the list at cell `t` into `h` and its head into `r`. Jumps to `duplicate` if
/// the head is `object`.
macro_rules! load_list {
    () => {
        "ldr {h}, [{t}]\n\
         lsr {r}, {h}, #20\n\
         lsl {r}, {r}, #4\n\
         cmp {r}, {object}\n\
         b.eq {duplicate}\n\
         and {h}, {h}, #0xfffff"
    };
}

/// Puts `object` at the head of the list at cell `t`; `h` has the list's count, `r` its old head.
macro_rules! link {
    () => {
        "str {r}, [{object}]\n\
         add {h}, {h}, #1\n\
         orr {h}, {h}, {object}, lsl #16\n\
         ldr {r}, [{t}, #24]\n\
         add {r}, {r}, #1\n\
         str {r}, [{t}, #24]\n\
         str {h}, [{t}]"
    };
}

/// The sequence of a name: its text, the registers that it writes and its constants, then the
/// `operands` of its caller, `rseq`.
macro_rules! sequence {
    (pop, $($operands:tt)+) => {
        core::arch::asm!(
            enter!(result: "{r}"),
            load_array!(),
            "lsl {o:w}, {h:w}, #16",
            "cmn {o:w}, {b:w}, lsl #16",
            "b.cc 7f",
            "lsr {o:w}, {o:w}, #16",
            "add {o}, {t}, {o}, lsl #3",
            "ldr {r}, [{o}, #-8]",
            "add {h}, {h}, #16, lsl #12",
            "sub {h}, {h}, #1",
            "str {h}, [{c}]",
            end!(result: "{r}"),
            thread = out(reg) _, own = out(reg) _, t = out(reg) _, c = out(reg) _,
            b = out(reg) _, h = out(reg) _, o = out(reg) _,
            $($operands)+
        )
    };
    (push, $($operands:tt)+) => {
        core::arch::asm!(
            enter!(leave: "{refused}"),
            load_array!(),
            "and {o:w}, {h:w}, #0xffff",
            "cmp {o:w}, {b:w}, lsr #16",
            "b.hs {refused}",
            "add {o}, {t}, {o}, lsl #3",
            "ldp {t}, {b}, [{o}, #-16]",
            "cmp {b}, {object}",
            // Compares the lower object if the upper one differs.
            "ccmp {t}, {object}, #4, ne",
            "b.eq {duplicate}",
            "str {object}, [{o}]",
            "add {h}, {h}, #16, lsl #12",
            "add {h}, {h}, #1",
            "str {h}, [{c}]",
            end!(leave: "{refused}"),
            thread = out(reg) _, own = out(reg) _, t = out(reg) _, c = out(reg) _,
            b = out(reg) _, h = out(reg) _, o = out(reg) _,
            $($operands)+
        )
    };
    (pop_batch, $($operands:tt)+) => {
        core::arch::asm!(
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
            end!(leave: "{refused}"),
            thread = out(reg) _, own = out(reg) _, t = out(reg) _, c = out(reg) _,
            b = out(reg) _, h = out(reg) _, o = out(reg) _,
            $($operands)+
        )
    };
    (push_batch, $($operands:tt)+) => {
        core::arch::asm!(
            enter!(leave: "{refused}"),
            load_array!(),
            "and {o:w}, {h:w}, #0xffff",
            "lsr {b:w}, {b:w}, #16",
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
            end!(leave: "{refused}"),
            thread = out(reg) _, own = out(reg) _, t = out(reg) _, c = out(reg) _,
            b = out(reg) _, h = out(reg) _, o = out(reg) _,
            $($operands)+
        )
    };
    (list_pop, $($operands:tt)+) => {
        core::arch::asm!(
            enter!(result: "{r}"),
            load_guard!(),
            "cmn {b}, #1",
            "b.eq 7f",
            "ldr {h}, [{t}]",
            "lsr {o}, {h}, #20",
            "cbz {o}, 7f",
            "lsl {r}, {o}, #4",
            "and {h}, {h}, #0xfffff",
            "sub {h}, {h}, #1",
            "ldr {o}, [{r}]",
            "orr {h}, {h}, {o}, lsl #16",
            "ldr {o}, [{t}, #16]",
            "add {o}, {o}, #1",
            "str {o}, [{t}, #16]",
            "str {h}, [{t}]",
            end!(result: "{r}"),
            thread = out(reg) _, own = out(reg) _, t = out(reg) _, b = out(reg) _,
            h = out(reg) _, o = out(reg) _,
            $($operands)+
        )
    };
    (list_push, $($operands:tt)+) => {
        core::arch::asm!(
            enter!(leave: "{refused}"),
            load_guard!(),
            "cmp {b}, {guard}",
            "b.ne {refused}",
            load_list!(),
            "eor {b}, {h}, #0xfffff",
            "cbz {b}, {refused}",
            link!(),
            end!(leave: "{refused}"),
            thread = out(reg) _, own = out(reg) _, t = out(reg) _, b = out(reg) _,
            h = out(reg) _, r = out(reg) _,
            $($operands)+
        )
    };
    (list_push_below, $($operands:tt)+) => {
        core::arch::asm!(
            enter!(leave: "{refused}"),
            load_guard!(),
            load_list!(),
            "cmp {h:w}, {b:w}",
            "b.ge {refused}",
            link!(),
            end!(leave: "{refused}"),
            thread = out(reg) _, own = out(reg) _, t = out(reg) _, b = out(reg) _,
            h = out(reg) _, r = out(reg) _,
            $($operands)+
        )
    };
    (compare_store, $($operands:tt)+) => {
        core::arch::asm!(
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
            end!(leave: "{refused}"),
            thread = out(reg) _, own = out(reg) _, t = out(reg) _, b = out(reg) _,
            $($operands)+
        )
    };
    (walk, $($operands:tt)+) => {
        core::arch::asm!(
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
            end!(result: "{leaf}"),
            thread = out(reg) _, own = out(reg) _, t = out(reg) _, shift = out(reg) _,
            place = out(reg) _,
            $($operands)+
        )
    };
}
