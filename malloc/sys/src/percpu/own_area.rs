//! The `struct rseq` of a thread that the C library does not register.
//!
//! musl registers no thread, nor does glibc before 2.35 or with `glibc.pthread.rseq=0`. There a
//! thread registers its own area, in this object's thread-local storage, on its first slow path.
//! Until then, and in a process that cannot have sequences, the area shows no CPU, so its sequences
//! refuse without an extra branch: the fast path is the same for all.
//!
//! Sequences find the area of each thread at one offset from the thread pointer. An object that a
//! program opens by `dlopen` may have no storage at one offset: glibc's loader has little space for
//! it, and musl's none. Then only what glibc registers will do.
//!
//! The kernel writes to the area of a running thread, and ends the process where it cannot. glibc
//! frees a thread's storage only after the kernel has ended the thread. But a detached thread of
//! musl unmaps its own: so there the destructor of a key takes the area back from the kernel, and
//! later requests of that thread go to locked slots.
//!
//! A thread whose registration the kernel refuses (another user of rseq in the process has
//! registered its own area, or a filter forbids the call) stays on locked slots, and is counted.
//!
//! Quarry writes no field of an area that the kernel knows but `rseq_cs`: Linux 6.19 ends a process
//! that writes others.

use crate::errno::OsResult;
use crate::known::Known;
use crate::own_stack;
use crate::primitive::{AtomicIsize, AtomicU32, Ordering, task};
use crate::seccomp::may_have_new_filter;
use crate::system_call::checked;
use core::arch::{asm, global_asm};
use core::ffi::c_void;

// Found by its offset from the thread pointer. The texts of sequences have the offset of rseq_cs
// (8). Aligned for kernels that want more than 32.
global_asm!(
    ".pushsection .tdata.quarry_rseq, \"awT\", @progbits",
    ".balign 64",
    ".hidden quarry_rseq",
    ".globl quarry_rseq",
    "quarry_rseq:",
    ".long 0, {unregistered}",
    ".zero {fields} - 8",
    ".long {fresh}, 0",
    ".popsection",
    unregistered = const UNREGISTERED,
    fields = const AREA_BYTES,
    fresh = const FRESH,
);

/// Offset of `cpu_id` in `struct rseq`, `include/uapi/linux/rseq.h`, Linux 6.3.
pub(super) const CPU_ID: isize = 4;
/// The `cpu_id` of a thread without a registration (same header).
const UNREGISTERED: i32 = -1;
/// Bytes of the first version of `struct rseq`, which every kernel accepts (same header).
const FIRST_BYTES: usize = 32;
/// Bytes of the area, and its alignment.
const AREA_BYTES: usize = 56;
const AREA_ALIGN: usize = 64;
/// `RSEQ_FLAG_UNREGISTER` (same header).
const UNREGISTER: i32 = 1;
/// The word in front of each abort handler: the one of glibc 2.35, which other users of rseq share.
pub(super) const SIGNATURE: u32 =
    if cfg!(target_arch = "aarch64") { 0xd428_bc00 } else { 0x5305_3053 };

/// `AT_RSEQ_FEATURE_SIZE` and `AT_RSEQ_ALIGN`, `include/uapi/linux/auxvec.h`, Linux 6.3.
const AT_RSEQ_FEATURE_SIZE: u64 = 27;
const AT_RSEQ_ALIGN: u64 = 28;

/// Instead of an offset, which is a multiple of the alignment: threads have the area at different
/// ones.
pub(super) const NOWHERE: isize = 1;

/// Offset of the word that tells where the thread stands: `FRESH -> REGISTERED -> OVER`, or
/// `FRESH -> OVER` where the kernel refuses.
const STAGE_AT: isize = AREA_BYTES as isize;
/// Offset of [`thread_word`].
const WORD_AT: isize = STAGE_AT + 4;
const FRESH: i32 = 0;
const REGISTERED: i32 = 1;
const OVER: i32 = 2;

/// The length to register; 0 where threads register no areas of their own.
static LENGTH: AtomicU32 = AtomicU32::new(0);
static THREADS: AtomicU32 = AtomicU32::new(0);
static REFUSED: AtomicU32 = AtomicU32::new(0);

/// True where a thread may unmap its own storage at its end.
const UNMAPS_ITSELF: bool = !cfg!(target_env = "gnu");
/// The key whose destructor runs before.
static KEY: AtomicU32 = AtomicU32::new(0);

/// Returns how many threads have registered areas of their own so far, and how many were refused.
pub(super) fn counts() -> (u32, u32) {
    (THREADS.load(Ordering::Relaxed), REFUSED.load(Ordering::Relaxed))
}

/// See [`offset`]; 0 before its first call.
static OFFSET: AtomicIsize = AtomicIsize::new(0);

/// Returns the area's offset from the thread pointer, or [`NOWHERE`].
#[inline(never)]
pub(super) fn offset() -> isize {
    let mut offset = OFFSET.load(Ordering::Relaxed);
    if offset == 0 {
        offset = find().unwrap_or(NOWHERE);
        OFFSET.store(offset, Ordering::Relaxed);
    }
    offset
}

/// Returns the offset of `quarry_rseq` from the thread pointer, if all threads have it there.
///
/// By its TLS descriptor, because the loader opens no object that asks for an offset when there is
/// no more space at fixed ones. A descriptor is two words: a function and its argument, which is
/// the offset where that is fixed, else an address (glibc and musl). In programs the linker loads
/// the offset in place of the descriptor's address.
#[cfg(target_arch = "x86_64")]
fn find() -> Option<isize> {
    let found: isize;
    // SAFETY: loads the address of our own symbol's descriptor, or its offset.
    unsafe {
        asm!("lea {}, [rip + quarry_rseq@TLSDESC]", out(reg) found,
            options(nostack, preserves_flags, nomem, pure));
    }
    let is_offset = |word: isize| word < 0; // storage lies below the thread pointer
    if is_offset(found) {
        return Some(found);
    }
    // SAFETY: the second word of the descriptor, which the loader has written.
    let argument = unsafe { *core::ptr::with_exposed_provenance::<isize>(found as usize).add(1) };
    is_offset(argument).then_some(argument)
}

/// As on x86-64, but neither of an offset and an address is negative. So this calls the
/// descriptor's function, which returns the offset for the running thread.
#[cfg(target_arch = "aarch64")]
fn find() -> Option<isize> {
    let (found, offset): (usize, isize);
    // SAFETY: calls the loader's function for our own symbol, which may allocate by the loader's
    // `malloc`; in programs the linker removes the call, and both results are the offset.
    unsafe {
        asm!(
            "adrp x0, :tlsdesc:quarry_rseq",
            "ldr x1, [x0, :tlsdesc_lo12:quarry_rseq]",
            "add x0, x0, :tlsdesc_lo12:quarry_rseq",
            "mov x2, x0",
            ".tlsdesccall quarry_rseq",
            "blr x1",
            out("x2") found, out("x0") offset, clobber_abi("C")
        );
    }
    if found == offset as usize {
        return Some(offset);
    }
    // SAFETY: the second word of the descriptor, which the loader has written.
    let argument = unsafe { *core::ptr::with_exposed_provenance::<isize>(found).add(1) };
    (argument == offset).then_some(offset)
}

/// Loads a 32-bit field of the running thread's area, or of the one that the C library registers,
/// by its offset from the thread pointer.
#[inline(always)]
pub(super) fn field(offset: isize) -> i32 {
    let value: i32;
    // SAFETY: callers add a field's offset to that of an area, so the load stays inside it: the C
    // library registers at least 32 bytes.
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

/// Sets a 32-bit word of an area: see [`field`].
#[inline(never)]
pub(super) fn set(offset: isize, value: i32) {
    // SAFETY: as for `field`; callers name a word that the kernel does not write now.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!("mov dword ptr fs:[{0}], {1:e}", in(reg) offset, in(reg) value,
            options(nostack, preserves_flags));
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!("mrs {thread}, tpidr_el0", "str {value:w}, [{thread}, {offset}]",
            thread = out(reg) _, value = in(reg) value, offset = in(reg) offset,
            options(nostack, preserves_flags));
    }
}

/// The word of the running thread that only `thread_note` uses, if all have it at one offset.
/// `None` before the first [`set_thread_word`], too.
#[inline(always)]
pub(crate) fn thread_word() -> Option<u32> {
    match OFFSET.load(Ordering::Relaxed) {
        0 | NOWHERE => None,
        offset => Some(field(offset + WORD_AT) as u32),
    }
}

/// Sets [`thread_word`], where it is.
pub(crate) fn set_thread_word(number: u32) {
    if offset() != NOWHERE {
        set(offset() + WORD_AT, number as i32);
    }
}

/// The length that a kernel with these features takes, if the area has room for it.
const fn length_for(features: usize, align: usize) -> usize {
    let fits = features > FIRST_BYTES && features <= AREA_BYTES && align <= AREA_ALIGN;
    if fits { features } else { FIRST_BYTES }
}

/// Bytes of `struct rseq` that the kernel fills; 0 before Linux 6.3.
pub(super) fn features() -> usize {
    // SAFETY: getauxval has no preconditions.
    unsafe { libc::getauxval(AT_RSEQ_FEATURE_SIZE) as usize }
}

/// The result of a thread's wish to be registered.
#[derive(PartialEq, Eq)]
enum Answer {
    Registered,
    Refused,
    /// The storage is that of another thread, so it is left alone.
    Borrowed,
}

/// Asks the kernel once for the running thread, which the program has not put under a filter yet.
/// Returns whether threads register areas of their own from now on: false where it refuses.
pub(super) fn begin() -> bool {
    static ANSWER: Known = Known::new();
    offset() != NOWHERE
        && ANSWER.is_true(|| {
            // SAFETY: getauxval has no preconditions.
            let align = unsafe { libc::getauxval(AT_RSEQ_ALIGN) as usize };
            let is_prepared = prepare_end();
            LENGTH.store(length_for(features(), align) as u32, Ordering::Relaxed);
            let has_begun = is_prepared && register(false) != Answer::Refused;
            if !has_begun {
                LENGTH.store(0, Ordering::Relaxed);
            }
            has_begun
        })
}

/// Registers the running thread, if threads register areas of their own and it has not tried to
/// before. Returns whether it is registered now.
#[cold]
#[inline(never)]
pub(super) fn enroll() -> bool {
    LENGTH.load(Ordering::Relaxed) != 0
        && field(offset() + STAGE_AT) == FRESH
        && register(true) == Answer::Registered
}

/// `looks`: the program may have put the thread under a filter that kills for these calls, because
/// the C library's `malloc` does not make them.
fn register(looks: bool) -> Answer {
    // The caller may be deep in a request, on a small stack.
    if looks && own_stack::run(may_have_new_filter) {
        return refused();
    }
    if !is_own_storage() {
        return Answer::Borrowed;
    }
    expect_end();
    if enter() { Answer::Registered } else { refused() }
}

#[cold]
fn refused() -> Answer {
    set(offset() + STAGE_AT, OVER);
    REFUSED.fetch_add(1, Ordering::Relaxed);
    Answer::Refused
}

/// Returns whether the kernel takes the area.
fn enter() -> bool {
    // A handler of a signal may have been first: then the kernel has the area already.
    let is_in = tell(0).is_ok() || field(offset() + CPU_ID) >= 0;
    if is_in {
        set(offset() + STAGE_AT, REGISTERED);
        THREADS.fetch_add(1, Ordering::Relaxed);
    }
    is_in
}

fn tell(flags: i32) -> OsResult<usize> {
    call(offset(), LENGTH.load(Ordering::Relaxed), flags)
}

/// Lets the kernel use (or forget) the area at `offset` from the running thread's thread pointer.
fn call(offset: isize, length: u32, flags: i32) -> OsResult<usize> {
    let area = task::current().wrapping_add_signed(offset);
    // SAFETY: the area is the running thread's, and stays until the thread has ended or has taken
    // it back; nothing but sequences writes to it meanwhile.
    checked(unsafe { libc::syscall(libc::SYS_rseq, area, length, flags, SIGNATURE) })
}

/// Returns whether the running thread is the one for which the C library has made its storage. The
/// child of a `vfork` is not, nor is a thread of a bare `clone` without storage of its own: what
/// they registered would stay in the storage of a thread that the kernel does not know by it.
fn is_own_storage() -> bool {
    let mut clock = 0;
    // The thread pointer, which even threads have that the C library does not know.
    #[cfg(target_arch = "x86_64")]
    let handle = task::current() as libc::pthread_t;
    #[cfg(not(target_arch = "x86_64"))]
    let handle = task::handle();
    // SAFETY: the C library's handle of the running thread, on x86-64 its thread pointer.
    let failed = unsafe { libc::pthread_getcpuclockid(handle, &raw mut clock) };
    // A thread's clock has the number of the thread (`include/linux/posix-timers_types.h`, Linux
    // 6.18), as the C library knows it.
    failed == 0 && !(clock >> 3) as u32 == task::number()
}

/// Registers a thread that the C library does not know, at the offset where `glibc` registers
/// others, if it does. Another such thread may have had the storage before.
#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
pub(super) fn begin_bare_thread(glibc: Option<isize>) {
    set(glibc.unwrap_or_else(offset) + CPU_ID, UNREGISTERED);
    if let Some(offset) = glibc {
        let _ = call(offset, FIRST_BYTES as u32, 0);
    } else if LENGTH.load(Ordering::Relaxed) != 0 {
        set(offset() + STAGE_AT, FRESH);
        if !enter() {
            refused();
        }
    }
}

/// Makes the key whose destructor [`leave`] is, where threads need it.
fn prepare_end() -> bool {
    if !UNMAPS_ITSELF {
        return true;
    }
    let mut key: libc::pthread_key_t = 0;
    // SAFETY: the destructor lives as long as the process.
    let failed = unsafe { libc::pthread_key_create(&raw mut key, Some(leave)) };
    KEY.store(key, Ordering::Relaxed);
    failed == 0
}

/// Lets the running thread call [`leave`] at its end. musl allocates nothing for this.
fn expect_end() {
    if UNMAPS_ITSELF {
        let value = core::ptr::without_provenance(1);
        // SAFETY: the key exists; the destructor does not use the value.
        unsafe { libc::pthread_setspecific(KEY.load(Ordering::Relaxed), value) };
    }
}

extern "C" fn leave(_: *mut c_void) {
    set(offset() + STAGE_AT, OVER);
    // A filter of the program may kill for a call that not even the C library makes. Without it
    // only a thread that is detached, and preempted as it ends, is in danger.
    if !may_have_new_filter() {
        let _ = tell(UNREGISTER);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_chooses_the_length() {
        for (features, align, length) in [
            (0, 0, 32),
            (20, 32, 32),
            (28, 32, 32),
            (33, 64, 33),
            (56, 64, 56),
            (57, 64, 32),
            (40, 128, 32),
        ] {
            assert_eq!(length_for(features, align), length, "{features}, {align}");
        }
    }
}
