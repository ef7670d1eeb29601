//! `malloc` and `free` of policy `sheaf` on x86-64, instruction by instruction.
//!
//! The functions run the same sequences, in the same order, as `alloc` and `free` of
//! [`FastPath`](quarry_mm::stack::FastPath), which `portable.rs` calls; the sequences are in
//! `quarry_sys`. A compiler needs five more instructions for `malloc` and eight more for `free`: it
//! does not fold an atomic load into the instruction that uses it, and must keep a sequence's
//! result past the sequence's end. These instructions would take a tenth of a pair's time. If you
//! change this file or `FastPath`, change the other as well; both have the same tests.
//!
//! Plain loads replace acquire loads: on x86-64 every load is an acquire load, and an assembler
//! does not reorder instructions.
//!
//! A pair of malloc and free is a chain of dependences through memory: each call loads the header
//! that the previous call stored (see `percpu/assembly.rs` of `quarry_sys`). The first table has
//! the cycles per pair for variants of this code, on an Intel Xeon of family 6, model 207 (Emerald
//! Rapids). Each column is a pattern of calls: one size; two sizes, nested; two sizes in turn;
//! eight blocks of one size; 1,000 blocks of which a random one is replaced; batches of 100.
//!
//! | header by .. | one | nested | in turn | eight | random | batch |
//! |---|---|---|---|---|---|---|
//! | base and index | 29.0 | 17.6 | 29.4 | 18.2 | 19.3 | 17.2 |
//! | one register | 16.7 | 17.8 | 23.8 | 18.2 | 20.0 | 17.2 |
//! | and the kind found without the base | 16.4 | 17.5 | 22.0 | 18.1 | 19.3 | 17.2 |
//! | and the place in the array by one register | 16.6 | 18.1 | 23.9 | 18.1 | 20.2 | 18.1 |
//! | without that, 16-bit offsets of cells for kinds | 16.1 | 17.2 | 20.5 | 17.1 | 18.7 | 17.1 |
//!
//! With 16-bit offsets for classes too, the cycles were the same. The second table has more
//! variants, on an AMD EPYC of family 26, model 2 (Zen 5), in another loop. Its columns: one size;
//! two blocks of one size; two sizes, nested and in turn; eight blocks of one size; one of eight
//! sizes, drawn at random. Each row adds its change to the row above it; changes with a dash were
//! not kept.
//!
//! | form | one | two | nested | in turn | eight | random |
//! |---|---|---|---|---|---|---|
//! | the kind found without the base | 11.4 | 11.6 | 15.5 | 22.7 | 12.9 | 23.3 |
//! | the geometry by base and index | 11.4 | 11.7 | 15.4 | 22.2 | 12.9 | 23.0 |
//! | kinds in 16 bits, times 16 | 11.3 | 11.4 | 15.2 | 21.8 | 12.9 | 22.2 |
//! | mask and first offset in one load (as here) | 11.0 | 11.1 | 14.8 | 21.2 | 12.9 | 22.2 |
//! | - the place by one register in `malloc` | 11.3 | 11.2 | 14.8 | 21.0 | 13.9 | 22.9 |
//! | - the top loaded beside the header in `malloc` | 11.5 | 12.3 | 14.3 | 21.1 | 12.9 | 21.9 |
//!
//! Three more changes were compared with the first row of the second table, and were not kept:
//! loading the top beside the header in `free` too (in turn 26.7), committing by an `add` to memory
//! (28.0), and checking the object within the sequence (in turn 20.6, but two more instructions,
//! and two sizes at random 23.4).
//!
//! On this EPYC a chain of several sizes waits for the address to which `free` stores the header:
//! the CPU loads the header for the next `malloc` only when that address is known, even if it is in
//! another cell. `free` computes the address from the pointer through the kind, so each cycle of
//! this computation counts, and so does each load that competes with the load of the header. With
//! addresses independent of the pointer, two sizes in turn took 15.5 cycles. With a copy of both
//! functions for each size they took 11.2, but in programs with random sizes the CPU mispredicts
//! the branch that selects a copy.
//!
//! The only branch taken on the fast path is `ret`. The other branches are for sizes and pointers
//! that it does not serve, threads without registration, empty or full arrays, and double frees. A
//! size changes only addresses. So the CPU predicts all branches for any sizes in any order, except
//! when an array runs empty or full.
//!
//! A pair is up to a tenth slower if the word that the program writes has the same offset in its
//! page as a word that these functions load (the thread's registration, the cell). With glibc 2.36
//! this is more frequent for objects of 32 bytes.
//!
//! The alignment directive after a function aligns its section, and so its start, to 64 bytes.

pub(crate) use crate::abi::cxx::new_slow as new_refused;
use crate::abi::malloc::{free_outside, malloc_slow};
use core::ffi::c_void;
use quarry::process::{ProcessConfig, free_inside, free_refused};
use quarry_mm::frame::Kind;
use quarry_mm::heap::classes::Served;
use quarry_mm::slab::{CacheId, Geometry, GeometryOffsets};
use quarry_mm::stack::{NotFreed, Stack, StackOffsets};
use quarry_sys::percpu::{Object, RseqSlots, SequenceOffsets};

pub(crate) const FAST: StackOffsets = Stack::<ProcessConfig>::OFFSETS;
const SLOTS: SequenceOffsets = RseqSlots::OFFSETS;
/// Where [`FAST`] has the words that a sequence needs.
pub(crate) const RSEQ: usize = FAST.percpu + SLOTS.rseq;
pub(crate) const INDEX: usize = FAST.percpu + SLOTS.index;
pub(crate) const AREA: usize = FAST.percpu + SLOTS.slots;
pub(crate) const GEOMETRY: GeometryOffsets = Geometry::OFFSETS;
const _: () = assert!(
    Kind::STEP == 16 && size_of::<Geometry>() == 16 && size_of::<Served>() == 16,
    "the table of kinds has them multiplied by it, for both and for the offset of the cell"
);
const _: () = assert!(
    GEOMETRY.first == GEOMETRY.mask + 4,
    "`free` loads the mask and the first object's offset as one word"
);
const _: () = assert!(
    StackOffsets::is_quiet(FAST.small_end)
        && StackOffsets::is_quiet(FAST.new_end)
        && StackOffsets::is_quiet(FAST.delete_span)
        && StackOffsets::is_quiet(FAST.base)
        && StackOffsets::is_quiet(FAST.span)
        && StackOffsets::is_quiet(FAST.kinds)
        && StackOffsets::is_quiet(RSEQ)
        && StackOffsets::is_quiet(INDEX)
        && StackOffsets::is_quiet(AREA)
        && StackOffsets::is_quiet(FAST.geometry),
    "a word that every call reads lies where programs write most: change the skew of `FastPath`"
);

/// Loads into rsi and `$index` the two offsets from the thread pointer that a sequence needs.
macro_rules! registration {
    ($index:literal) => {
        concat!(
            "mov rsi, qword ptr [rip + {stack} + {rseq}]\n",
            "mov ",
            $index,
            ", qword ptr [rip + {stack} + {index}]"
        )
    };
}
pub(crate) use registration;

/// Defines `malloc` under a name. Its steps: check that the size is below the limit in the word
/// `$end` (0 until the stack is ready, so that every size is refused); find the size's class, and
/// the offset of the class's cell in a slot; then the sequence of `Arrays::pop`. `$label` is a line
/// of assembler at the function's start.
macro_rules! fast_malloc {
    ($(#[$attribute:meta])* $name:ident, $slow:ident, $end:ident $(, $label:expr)?) => {
        $(#[$attribute])*
        #[unsafe(naked)]
        pub extern "C" fn $name(size: usize) -> *mut core::ffi::c_void {
            core::arch::naked_asm!(
                ".cfi_startproc",
                $($label,)?
                "cmp rdi, qword ptr [rip + {stack} + {end}]",
                "jae {slow}",
                "lea eax, [rdi + 15]",
                "shr eax, 4",
                "lea rcx, [rip + {class_of}]",
                "movzx ecx, byte ptr [rcx + rax]",
                quarry_sys::cell_offset!(rcx),
                $crate::abi::fast_path::registration!("rdx"),
                quarry_sys::pop_sequence!(
                    rseq: rsi, index: rdx, slots: "qword ptr [rip + {stack} + {slots}]",
                    offset: "rcx",
                    slot: r8, cell: r11, header: r9, begin: rax, top: r10, object: rax,
                    leave: "{slow}", out_of_line: ""
                ),
                "ret",
                ".cfi_endproc",
                ".p2align 6, 0xcc",
                stack = sym quarry::process::STACK,
                class_of = sym quarry_mm::heap::classes::CLASS_OF,
                slow = sym $slow,
                end = const $crate::abi::fast_path::FAST.$end,
                rseq = const $crate::abi::fast_path::RSEQ,
                index = const $crate::abi::fast_path::INDEX,
                slots = const $crate::abi::fast_path::AREA,
            )
        }
    };
}

pub(crate) use fast_malloc;

/// A second name for the start of a function: a call of an exported name goes through a table.
macro_rules! named_within {
    ($name:literal) => {
        concat!(".globl ", $name, "\n.hidden ", $name, "\n", $name, ":")
    };
}

unsafe extern "C" {
    /// `malloc` for callers in this library.
    #[link_name = "quarry_malloc_within"]
    pub(crate) safe fn malloc_within(size: usize) -> *mut c_void;
    /// `free` for callers in this library.
    #[link_name = "quarry_free_within"]
    pub(crate) fn free_within(pointer: *mut c_void);
}

fast_malloc! {
    /// `malloc` of C11, 7.22.3.4.
    #[unsafe(no_mangle)]
    malloc, malloc_slow, small_end, named_within!("quarry_malloc_within")
}

#[cfg(not(feature = "override"))]
fast_malloc! {
    /// The allocation for every form of `operator new`; null if there is no memory, or if another
    /// object has to serve.
    new_or_null, new_refused, new_end
}

/// Defines exits of `free`: each calls `$by` with a reason. They find the entry of the frame in the
/// table of kinds where `free` has loaded it, in rdx: it is the third argument.
macro_rules! exits {
    ($($name:ident: $by:ident, $why:ident, $of:expr;)*) => {$(
        #[cold]
        #[inline(never)]
        pub(crate) unsafe extern "C" fn $name(pointer: *mut c_void, _size: usize, entry: usize) {
            let kind = Kind::of_entry(entry as u16);
            // SAFETY: the pointer lies in the window, so it is not null; its frame has this kind,
            // which is a cache's number where an object starts. The user has given it up.
            unsafe { $by(Object::new_unchecked(pointer.cast()), NotFreed::$why($of(kind))) };
        }
    )*};
}

exits! {
    free_of_kind: free_refused, Kind, |kind| kind;
    free_full: free_inside, Full, |kind: Kind| CacheId::new_unchecked(kind.0);
    free_twice: free_inside, Duplicate, |kind: Kind| CacheId::new_unchecked(kind.0);
}

/// Defines `free` under a name. Its steps: compute the offset in the window (the word `$span` is 0
/// until the stack is ready, so every pointer is refused, and null always is); load the kind of the
/// frame times 16; check that an object starts there (`Geometry::is_object`); check a further
/// argument if there is one; then the sequence of `Arrays::push`. A pointer outside of the span
/// jumps to `$outside`, one at which no object starts (or none that fits the further argument) to
/// `$refused`.
macro_rules! fast_free {
    (
        $(#[$attribute:meta])* $name:ident $(, $size:ident)?;
        $span:ident, $outside:ident, $refused:ident, [$($look:expr,)*]
        $(, $symbol:ident = $value:path)*
        $(; $label:expr)?
    ) => {
        $(#[$attribute])*
        ///
        /// # Safety
        /// `pointer` came from this allocator and is not used any more; other pointers abort with
        /// one line.
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name(pointer: *mut c_void $(, $size: usize)?) {
            core::arch::naked_asm!(
                ".cfi_startproc",
                $($label,)?
                "mov rcx, rdi",
                "sub rcx, qword ptr [rip + {stack} + {base}]",
                "cmp rcx, qword ptr [rip + {stack} + {span}]",
                "jae {outside}",
                "mov rax, qword ptr [rip + {stack} + {kinds}]",
                "mov rdx, rdi",
                "shr rdx, 12",
                "movzx edx, word ptr [rax + rdx*2]",
                "lea rax, [rip + {stack} + {geometry}]",
                "mov r9, qword ptr [rax + rdx + {mask}]",
                "and ecx, r9d",
                "shr r9, 32",
                "sub ecx, r9d",
                "jb {refused}",
                "mov rax, qword ptr [rax + rdx + {magic}]",
                "imul rcx, rax",
                "cmp rcx, rax",
                "jae {refused}",
                $($look,)*
                $crate::abi::fast_path::registration!("rax"),
                quarry_sys::push_sequence!(
                    rseq: rsi, index: rax, slots: "qword ptr [rip + {stack} + {slots}]",
                    offset: quarry_sys::cell_offset_of_16!(rdx), object: rdi,
                    slot: r8, cell: rcx, header: r9, end: r11, top: r10,
                    leave: "{full}", duplicate: "{twice}"
                ),
                "ret",
                ".cfi_endproc",
                ".p2align 6, 0xcc",
                stack = sym quarry::process::STACK,
                full = sym $crate::abi::fast_path::free_full,
                twice = sym $crate::abi::fast_path::free_twice,
                outside = sym $outside,
                refused = sym $refused,
                $($symbol = sym $value,)*
                base = const $crate::abi::fast_path::FAST.base,
                span = const $crate::abi::fast_path::FAST.$span,
                kinds = const $crate::abi::fast_path::FAST.kinds,
                geometry = const $crate::abi::fast_path::FAST.geometry,
                mask = const $crate::abi::fast_path::GEOMETRY.mask,
                magic = const $crate::abi::fast_path::GEOMETRY.magic,
                rseq = const $crate::abi::fast_path::RSEQ,
                index = const $crate::abi::fast_path::INDEX,
                slots = const $crate::abi::fast_path::AREA,
            )
        }
    };
}
pub(crate) use fast_free;

fast_free! {
    /// `free` of C11, 7.22.3.3. A null pointer is ignored; `errno` does not change.
    #[unsafe(no_mangle)]
    free;
    span, free_outside, free_of_kind, []; named_within!("quarry_free_within")
}

/// Defines `operator delete` with a size: `free`, and a check that a request of this size can get
/// an object of this class (`FastPath::was_asked`). If not, it jumps to `$slow`.
macro_rules! fast_delete {
    ($(#[$attribute:meta])* $name:ident, $slow:ident) => {
        $crate::abi::fast_path::fast_free! {
            $(#[$attribute])*
            $name, size;
            delete_span, $slow, $slow, [
                "lea r9, [rip + {served}]",
                "mov r10, rsi",
                "sub r10, qword ptr [r9 + rdx]",
                "cmp r10, qword ptr [r9 + rdx + 8]",
                "ja {refused}",
            ], served = quarry_mm::heap::classes::SERVED
        }
    };
}
pub(crate) use fast_delete;

/// Defines `operator delete` without a size: `free`, which `$slow` does if the fast path refuses.
macro_rules! fast_delete_unsized {
    ($(#[$attribute:meta])* $name:ident, $slow:ident) => {
        $crate::abi::fast_path::fast_free! {
            $(#[$attribute])*
            $name; delete_span, $slow, $slow, []
        }
    };
}
pub(crate) use fast_delete_unsized;
