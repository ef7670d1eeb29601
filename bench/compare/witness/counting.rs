//! malloc and related functions that count calls and pass them on to glibc's own. glibc exports its
//! functions under second names, so nothing has to be looked up and nothing can recurse.

use crate::layout;
use core::ffi::{c_int, c_long, c_void};
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

#[repr(C)]
struct TimeSpec {
    seconds: i64,
    nanoseconds: c_long,
}

unsafe extern "C" {
    fn __libc_malloc(size: usize) -> *mut c_void;
    fn __libc_calloc(count: usize, size: usize) -> *mut c_void;
    fn __libc_realloc(block: *mut c_void, size: usize) -> *mut c_void;
    fn __libc_memalign(alignment: usize, size: usize) -> *mut c_void;
    fn __libc_free(block: *mut c_void);
    fn clock_gettime(clock: c_int, time: *mut TimeSpec) -> c_int;
}

const CLOCK_MONOTONIC: c_int = 1;
const ENOMEM: c_int = 12;
const EINVAL: c_int = 22;

/// Counters of this process; null until it has a slot.
static COUNTERS: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());
/// Ticks that reading the clock takes.
static OVERHEAD: AtomicU64 = AtomicU64::new(0);

/// Maximum number of ticks of a counted call: a longer one was most likely interrupted.
static LONGEST: AtomicU64 = AtomicU64::new(u64::MAX);
const LONGEST_NS: u64 = 200_000;

/// Time for which the clock of [`ticks`] is compared with the system's clock.
const CALIBRATION_NS: u64 = 500_000;

/// Begins to count.
///
/// # Safety
/// `slot` is a slot of a mapped file.
pub(crate) unsafe fn start(slot: *mut u8) {
    let overhead = (0..64).map(|_| ticks().abs_diff(ticks())).min().unwrap_or(0);
    OVERHEAD.store(overhead, Ordering::Relaxed);
    let (from_ns, from) = (now_ns(), ticks());
    let mut to_ns = from_ns;
    while to_ns - from_ns < CALIBRATION_NS {
        to_ns = now_ns();
    }
    let per_ms = ticks().wrapping_sub(from) * 1_000_000 / (to_ns - from_ns);
    LONGEST.store(per_ms * LONGEST_NS / 1_000_000, Ordering::Relaxed);
    // SAFETY: both places lie in the slot that the caller promises, and are aligned.
    unsafe {
        slot.add(layout::TICKS_PER_MS).cast::<u64>().write(per_ms);
        COUNTERS.store(slot.add(layout::COUNTERS), Ordering::Release);
    }
}

fn now_ns() -> u64 {
    let mut time = TimeSpec { seconds: 0, nanoseconds: 0 };
    // SAFETY: `time` is writable.
    unsafe { clock_gettime(CLOCK_MONOTONIC, &mut time) };
    time.seconds as u64 * 1_000_000_000 + time.nanoseconds as u64
}

#[cfg(target_arch = "x86_64")]
fn ticks() -> u64 {
    // SAFETY: every x86-64 CPU has this instruction, and Linux lets programs use it.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(target_arch = "aarch64")]
fn ticks() -> u64 {
    let ticks;
    // SAFETY: reads the virtual counter, which Linux lets programs read.
    unsafe { core::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack)) };
    ticks
}

/// Runs `call`. Counts it as `kind`, and its ticks and `bytes`, in the stripe of this thread.
#[inline(always)]
fn counted<T>(kind: usize, bytes: usize, call: impl FnOnce() -> T) -> T {
    let counters = COUNTERS.load(Ordering::Acquire);
    if counters.is_null() {
        return call();
    }
    let before = ticks();
    let result = call();
    let spent = ticks().wrapping_sub(before).saturating_sub(OVERHEAD.load(Ordering::Relaxed));
    let spent = spent.min(LONGEST.load(Ordering::Relaxed));
    for (field, amount) in [(kind, 1), (layout::TICKS, spent), (layout::BYTES, bytes as u64)] {
        add(field, amount);
    }
    result
}

/// Adds to a field of the stripe of this thread, if this process has counters.
#[inline(always)]
fn add(field: usize, amount: u64) {
    let counters = COUNTERS.load(Ordering::Acquire);
    if counters.is_null() {
        return;
    }
    // The address of a local variable picks the stripe: threads' stacks lie megabytes apart.
    let stripe = (&raw const counters as usize >> 20) % layout::STRIPES * layout::STRIPE_BYTES;
    // SAFETY: the field lies in the slot, is aligned, and is only ever used atomically.
    let field = unsafe { AtomicU64::from_ptr(counters.add(stripe + field).cast()) };
    field.fetch_add(amount, Ordering::Relaxed);
}

/// Adds the bytes of a block, which may be null, to those held, and returns the block. `size` is
/// what was asked for.
fn held(block: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: null, or a block of glibc's.
    let bytes = unsafe { bytes_of(block) };
    add(layout::HELD, bytes);
    #[cfg(recording)]
    crate::recording::born(block, size as u64, bytes);
    #[cfg(not(recording))]
    let _ = size;
    block
}

/// Takes the bytes of a block, which may be null, from those held.
///
/// # Safety
/// `block` is null, or a block of glibc's.
unsafe fn let_go(block: *mut c_void) {
    // SAFETY: the promise of the caller.
    let bytes = unsafe { bytes_of(block) };
    add(layout::HELD, bytes.wrapping_neg());
    #[cfg(recording)]
    crate::recording::died(block, bytes);
}

/// The bytes of a block and its header. The word in front of the block has them, with flags in its
/// low three bits (glibc 2.0 to 2.42, `malloc/malloc.c`). `malloc_usable_size` would not do,
/// because it may be the function of another allocator that the program links.
///
/// # Safety
/// `block` is null, or a block of glibc's.
unsafe fn bytes_of(block: *mut c_void) -> u64 {
    if block.is_null() {
        return 0;
    }
    // SAFETY: a block of glibc's (caller's promise) has its header in the word before it.
    unsafe { block.cast::<u64>().sub(1).read() & !7 }
}

#[unsafe(no_mangle)]
extern "C" fn malloc(size: usize) -> *mut c_void {
    // SAFETY: malloc has no preconditions.
    held(counted(layout::ALLOCATIONS, size, || unsafe { __libc_malloc(size) }), size)
}

#[unsafe(no_mangle)]
extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    let bytes = count.saturating_mul(size);
    // SAFETY: calloc has no preconditions.
    held(counted(layout::ALLOCATIONS, bytes, || unsafe { __libc_calloc(count, size) }), bytes)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn realloc(block: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: a caller of realloc passes null, or a block of glibc's that is in use.
    unsafe { let_go(block) };
    // SAFETY: as above.
    let new = counted(layout::ALLOCATIONS, size, || unsafe { __libc_realloc(block, size) });
    if new.is_null() && size != 0 {
        // Nothing has changed. The size that was asked for is forgotten; the block's is near it.
        // SAFETY: as above.
        held(block, unsafe { bytes_of(block) } as usize);
    }
    held(new, size)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn free(block: *mut c_void) {
    // SAFETY: a caller of free passes null, or a block of glibc's that is in use.
    unsafe { let_go(block) };
    // SAFETY: as above.
    counted(layout::FREES, 0, || unsafe { __libc_free(block) });
}

#[unsafe(no_mangle)]
extern "C" fn memalign(alignment: usize, size: usize) -> *mut c_void {
    // SAFETY: memalign has no preconditions.
    held(counted(layout::ALLOCATIONS, size, || unsafe { __libc_memalign(alignment, size) }), size)
}

#[unsafe(no_mangle)]
extern "C" fn aligned_alloc(alignment: usize, size: usize) -> *mut c_void {
    memalign(alignment, size)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn posix_memalign(
    block: *mut *mut c_void,
    alignment: usize,
    size: usize,
) -> c_int {
    if !alignment.is_power_of_two() || alignment < size_of::<usize>() {
        return EINVAL;
    }
    let found = memalign(alignment, size);
    if found.is_null() {
        return ENOMEM;
    }
    // SAFETY: the caller's promise: `block` is writable.
    unsafe { block.write(found) };
    0
}
