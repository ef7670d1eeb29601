//! The probes by which a tracer outside of the process sees samples of the heap.
//!
//! They follow the contract of OpenTelemetry's eBPF profiler for allocators (its design document
//! 00003 of 2026, *USDT contract*):
//!
//! | probe | arguments |
//! |---|---|
//! | `otel_memory:alloc` | address, bytes requested, bytes that the sample stands for |
//! | `otel_memory:free` | address |
//!
//! A probe is an instruction that does nothing, and a note in the ELF file, which names it and says
//! where its arguments are: in the registers of a function's arguments, because the profiler reads
//! them there. The note's form is that of SystemTap's `sys/sdt.h`, version 3. Who attaches to a
//! probe also raises its *semaphore*, a counter in the memory of the process that the note names.

use crate::percpu::Object;
use core::cell::UnsafeCell;

/// How many tracers are attached to a probe. The kernel writes it, or a debugger.
#[repr(transparent)]
struct Semaphore(UnsafeCell<u16>);

// SAFETY: the process only reads the counter, and by volatile loads of 2 aligned bytes.
unsafe impl Sync for Semaphore {}

impl Semaphore {
    #[inline]
    fn is_raised(&self) -> bool {
        // SAFETY: the counter is always readable; no code of the process writes it.
        unsafe { self.0.get().read_volatile() != 0 }
    }
}

// A semaphore needs a place in the file, by which the kernel finds it, so not one in `.bss`.
#[unsafe(link_section = ".probes")]
static ALLOC: Semaphore = Semaphore(UnsafeCell::new(0));
#[unsafe(link_section = ".probes")]
static FREE: Semaphore = Semaphore(UnsafeCell::new(0));

/// Returns whether a tracer is attached to a probe. O(1), two loads.
#[inline]
#[must_use]
pub fn is_traced() -> bool {
    ALLOC.is_raised() || FREE.is_raised()
}

/// Tells tracers of an allocation of `size` bytes, a sample that stands for `weight` bytes.
#[inline]
pub fn alloc(object: Object, size: u64, weight: u64) {
    if ALLOC.is_raised() {
        alloc_site(object.as_ptr() as u64, size, weight);
    }
}

/// Tells tracers that an allocation is about to be freed of which [`alloc`] has told them.
#[inline]
pub fn free(object: Object) {
    if FREE.is_raised() {
        free_site(object.as_ptr() as u64);
    }
}

/// The directives for a probe's instruction and its note. With `operands` for the asm block.
#[cfg(not(any(miri, quarry_model, quarry_sim)))]
macro_rules! site {
    ($name:literal, $arguments:literal, $semaphore:ident, $($operands:tt)*) => {
        // SAFETY: the instruction does nothing, and the rest describes it in sections that no code
        // uses. A tracer that replaces the instruction leaves registers and memory as they are.
        unsafe {
            core::arch::asm!(
                "990: nop",
                ".pushsection .note.stapsdt, \"\", \"note\"",
                ".balign 4",
                ".4byte 992f - 991f, 994f - 993f, 3",
                "991: .asciz \"stapsdt\"",
                "992: .balign 4",
                // Without a base: no tool has moved the file's addresses.
                "993: .8byte 990b, 0, {semaphore}",
                ".asciz \"otel_memory\"",
                concat!(".asciz \"", $name, "\""),
                concat!(".asciz \"", $arguments, "\""),
                "994: .balign 4",
                ".popsection",
                semaphore = sym $semaphore,
                $($operands)*
                options(nostack, preserves_flags)
            );
        }
    };
}

// One function each, so that each probe has one place.
#[cold]
#[inline(never)]
#[cfg_attr(any(miri, quarry_model, quarry_sim), allow(unused_variables))]
fn alloc_site(object: u64, size: u64, weight: u64) {
    #[cfg(all(target_arch = "x86_64", not(any(miri, quarry_model, quarry_sim))))]
    site!("alloc", "8@%rdi 8@%rsi 8@%rdx", ALLOC,
        in("rdi") object, in("rsi") size, in("rdx") weight,);
    #[cfg(all(target_arch = "aarch64", not(any(miri, quarry_model, quarry_sim))))]
    site!("alloc", "8@x0 8@x1 8@x2", ALLOC, in("x0") object, in("x1") size, in("x2") weight,);
}

#[cold]
#[inline(never)]
#[cfg_attr(any(miri, quarry_model, quarry_sim), allow(unused_variables))]
fn free_site(object: u64) {
    #[cfg(all(target_arch = "x86_64", not(any(miri, quarry_model, quarry_sim))))]
    site!("free", "8@%rdi", FREE, in("rdi") object,);
    #[cfg(all(target_arch = "aarch64", not(any(miri, quarry_model, quarry_sim))))]
    site!("free", "8@x0", FREE, in("x0") object,);
}
