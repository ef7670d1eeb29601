//! A stack of Quarry's own, for rare work that needs more stack than a caller may have.
//!
//! Coroutines call `malloc` with 8 KiB of stack, and signal handlers with less on their alternate
//! stacks. So rare work that needs more than a kibibyte or two (the start, growth, reading of
//! limits, publications, prints, reports) runs on a stack of the object that contains Quarry, whose
//! pages it gives back, or while another thread does, on memory that is mapped and then unmapped.
//! So one thread needs no mapping, and growth can have the last one (`vm.max_map_count`).
//!
//! During such work, signals are blocked, except those that the running instructions raise:
//!
//! * a handler would find less stack than the program has reserved for it;
//! * if a handler on the alternate stack has called `malloc`, the thread has left that stack. So
//!   the kernel would start the next handler at that stack's top, over the first handler's frames;
//! * garbage collectors stop threads by a signal, and scan the thread's stack for pointers.
//!
//! A [confined](crate::confined) process blocks no signals, because that takes a system call.

use crate::confined::is_confined;
use crate::primitive::{AtomicBool, AtomicUsize, Ordering};
use crate::system_call::{advise, map, unmap};
use core::cell::UnsafeCell;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ptr::NonNull;

/// Bytes of the stack. The loader, which the start may call, takes most of them. (A caller near the
/// top of the first thread's stack need not have that room: a coroutine's stack may lie there.)
const BYTES: usize = 64 << 10;

/// Runs `work` on a stack of Quarry's own; on the caller's if none can be mapped. May set `errno`.
#[inline]
pub fn run<F: FnOnce() -> R, R>(work: F) -> R {
    run_with(Signals::hold_back, work)
}

/// [`run`] without blocking signals, for work that starts a thread. The new thread would inherit
/// the mask. If a mask blocks the C library's own signals, `setuid` in any thread never returns.
#[inline]
pub fn run_with_signals<F: FnOnce() -> R, R>(work: F) -> R {
    run_with(|| Signals(None), work)
}

#[inline]
fn run_with<F: FnOnce() -> R, R>(signals: fn() -> Signals, work: F) -> R {
    let mut job = Job { work: ManuallyDrop::new(work), result: MaybeUninit::uninit() };
    run_elsewhere((&raw mut job).cast(), begin::<F, R>, signals);
    // SAFETY: the job has run, once.
    unsafe { job.result.assume_init() }
}

struct Job<F, R> {
    work: ManuallyDrop<F>,
    result: MaybeUninit<R>,
}

/// The first function on the other stack; its argument is the address of a job.
type Begin = unsafe extern "C" fn(*mut u8);

/// # Safety
/// `job` is the address of a [`Job`] of these types, has not run, and is used by no other code.
unsafe extern "C" fn begin<F: FnOnce() -> R, R>(job: *mut u8) {
    // SAFETY: the caller's promise; the work is taken once.
    unsafe {
        let job = &mut *job.cast::<Job<F, R>>();
        job.result.write(ManuallyDrop::take(&mut job.work)());
    }
}

/// Calls `begin` with `job`; `begin` is the function for this type of job.
#[inline(never)]
fn run_elsewhere(job: *mut u8, begin: Begin, signals: fn() -> Signals) {
    if OURS.has_room_below(core::ptr::from_ref(&job).addr()) {
        let _signals = signals();
        // SAFETY: the job is that of `run_with`, which has not called it.
        return unsafe { begin(job) };
    }
    let Some(stack) = Stack::take() else {
        // SAFETY: as above.
        return unsafe { begin(job) };
    };
    let signals = signals();
    // SAFETY: as above; the memory is writable, ours alone, and its end aligned as the ABIs demand.
    unsafe { switch(job, begin, stack.0.as_ptr().add(BYTES)) };
    drop(signals);
}

/// Set if stacks stay mapped for the next work.
static KEEPS: AtomicBool = AtomicBool::new(false);
/// The addresses of stacks that stay and are not in use; 0: none.
static KEPT: [AtomicUsize; 4] = [const { AtomicUsize::new(0) }; 4];

/// From now on some stacks stay mapped, so that later work takes no page faults.
pub fn keep() {
    KEEPS.store(true, Ordering::Relaxed);
    let _stacks = KEPT.each_ref().map(|_| Stack::take());
}

/// Takes the stack at this place, if there is one.
fn take_kept(place: &AtomicUsize) -> Option<NonNull<u8>> {
    NonNull::new(place.swap(0, Ordering::Acquire) as *mut u8)
}

/// The stack that needs no mapping.
static OURS: Ours = Ours { bytes: UnsafeCell::new([0; BYTES]), is_taken: AtomicBool::new(false) };

#[repr(C, align(4096))]
struct Ours {
    bytes: UnsafeCell<[u8; BYTES]>,
    is_taken: AtomicBool,
}

// SAFETY: only the thread that has set `is_taken` uses the bytes.
unsafe impl Sync for Ours {}

impl Ours {
    fn start(&self) -> NonNull<u8> {
        NonNull::from(&self.bytes).cast()
    }

    /// Returns whether a frame lies in this stack, and more than half of the stack is below it.
    fn has_room_below(&self, frame: usize) -> bool {
        (BYTES / 2..BYTES).contains(&frame.wrapping_sub(self.start().addr().get()))
    }
}

struct Stack(NonNull<u8>);

impl Stack {
    fn take() -> Option<Self> {
        if cfg!(any(miri, quarry_model, quarry_sim)) {
            return None;
        }
        if !OURS.is_taken.swap(true, Ordering::Acquire) {
            return Some(Self(OURS.start()));
        }
        if let Some(kept) = KEPT.iter().find_map(take_kept) {
            return Some(Self(kept));
        }
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a fresh mapping at an address that the kernel chooses touches no other memory.
        let memory = unsafe { map(core::ptr::null_mut(), BYTES, access, flags, -1) };
        memory.ok().map(Self)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        let keeps = KEEPS.load(Ordering::Relaxed);
        if self.0 == OURS.start() {
            if !keeps {
                // SAFETY: the work is done, and the stack has pages of its own. Locked ones stay.
                let _ = unsafe { advise(self.0.as_ptr(), BYTES, libc::MADV_DONTNEED) };
            }
            return OURS.is_taken.store(false, Ordering::Release);
        }
        let (address, order) = (self.0.as_ptr() as usize, Ordering::Release);
        let stays = |place: &AtomicUsize| {
            place.compare_exchange(0, address, order, Ordering::Relaxed).is_ok()
        };
        if keeps && KEPT.iter().any(stays) {
            return;
        }
        // SAFETY: we mapped it, and the work is done.
        unsafe { unmap(self.0.as_ptr(), BYTES) };
    }
}

/// The signals that were blocked before. Dropping this restores that mask.
struct Signals(Option<u64>);

/// Signals that the thread's own instructions raise.
const OWN: [libc::c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGSYS];

impl Signals {
    fn hold_back() -> Self {
        let held = OWN.iter().fold(u64::MAX, |held, own| held & !(1 << (own - 1)));
        let mut before = 0u64;
        let is_held = !is_confined() && set_mask(libc::SIG_BLOCK, &raw const held, &raw mut before);
        Self(is_held.then_some(before))
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        if let Some(before) = self.0 {
            set_mask(libc::SIG_SETMASK, &raw const before, core::ptr::null_mut());
        }
    }
}

/// A bare system call: libc's function never blocks the signals by which libc cancels threads.
fn set_mask(how: libc::c_int, mask: *const u64, before: *mut u64) -> bool {
    // SAFETY: the kernel reads and writes the 8 bytes of a set of signals; `before` may be null.
    unsafe { libc::syscall(libc::SYS_rt_sigprocmask, how, mask, before, size_of::<u64>()) == 0 }
}

/// Calls `begin` with `job` on the stack that ends at `end`, and returns.
///
/// # Safety
/// `begin` may be called with `job` on the memory below `end`, which is a multiple of 16.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn switch(job: *mut u8, begin: Begin, end: *mut u8) {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "mov rsp, rdx",
        "call rsi",
        "mov rsp, rbp",
        "pop rbp",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
    )
}

/// The same for aarch64.
///
/// # Safety
/// The same as on x86-64.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
unsafe extern "C" fn switch(job: *mut u8, begin: Begin, end: *mut u8) {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "stp x29, x30, [sp, #-16]!",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset x29, -16",
        ".cfi_offset x30, -8",
        "mov x29, sp",
        ".cfi_def_cfa_register x29",
        "mov sp, x2",
        "blr x1",
        "mov sp, x29",
        ".cfi_def_cfa_register sp",
        "ldp x29, x30, [sp], #16",
        ".cfi_def_cfa_offset 0",
        "ret",
        ".cfi_endproc",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> usize {
        let local = 0u8;
        core::hint::black_box(&raw const local).addr()
    }

    #[test]
    fn work_runs_elsewhere_and_signals_wait() {
        let mut blocked = 0;
        let (caller, work) = (
            here(),
            run(|| {
                set_mask(libc::SIG_BLOCK, core::ptr::null(), &raw mut blocked);
                here()
            }),
        );
        assert!(caller.abs_diff(work) > BYTES, "{caller:#x} and {work:#x}");
        assert_eq!(blocked >> (libc::SIGUSR1 - 1) & 1, 1, "{blocked:#x}");
        assert_eq!(blocked >> (libc::SIGSEGV - 1) & 1, 0, "{blocked:#x}");
        set_mask(libc::SIG_BLOCK, core::ptr::null(), &raw mut blocked);
        assert_eq!(blocked >> (libc::SIGUSR1 - 1) & 1, 0, "{blocked:#x}");
    }

    #[test]
    fn work_may_run_elsewhere_again() {
        /// Uses most of a stack.
        #[inline(never)]
        fn deep() -> (usize, usize) {
            let used = [0u8; BYTES * 3 / 5];
            core::hint::black_box(&used);
            (here(), run(here))
        }
        let (outer, inner) = run(deep);
        assert!(outer.abs_diff(inner) > BYTES / 4, "{outer:#x} and {inner:#x}");
    }

    #[test]
    fn one_thread_at_a_time_has_our_stack() {
        let (start, both) = (OURS.start().addr().get(), AtomicUsize::new(0));
        let is_ours = |place: usize| (start..start + BYTES).contains(&place);
        let work = || {
            run(|| {
                if is_ours(here()) {
                    assert_eq!(both.fetch_add(1, Ordering::SeqCst), 0, "it is taken");
                    let inner = run(here);
                    assert!(is_ours(inner), "there is room for both");
                    both.fetch_sub(1, Ordering::SeqCst);
                }
            });
        };
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| (0..2000).for_each(|_| work()));
            }
        });
    }
}
