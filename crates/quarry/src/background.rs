//! The thread that gives memory back while the program is idle.
//!
//! It starts when there are 32 MiB to give back and not before, because a second thread is seen by
//! programs: `unshare(CLONE_NEWUSER)` refuses them, CPython warns at fork. It sleeps on a futex
//! when there is nothing left to do. A forked child has none until it has as much to give back
//! itself.
//!
//! The C library calls `free` under locks that `pthread_create` takes as well: with the list of
//! stacks locked it frees the thread-local storage of ended threads. So `free` starts the thread
//! only in a process without other threads, where nobody holds such a lock. One with several (which
//! is not surprised by one more) gets it from an allocation, as soon as its heap has grown to those
//! 32 MiB; under that lock nothing is allocated (glibc 2.36, `nptl/nptl-stack.c`). Where the heap
//! has grown before, with one thread, that is the allocation of `pthread_create` itself: it says
//! that the process has several threads and then asks `calloc` for the new one's table of
//! thread-local storage, no lock held. Only a stack of an earlier thread needs none, so the one
//! exception is the child of a fork that starts its first thread on a stack which its parent's
//! threads have left.
//!
//! Where no thread may be started or none can be had, whoever frees does the looks instead, a
//! bounded step at a time, and a program that is idle keeps what it has.
//!
//! States: `NONE -> STARTING -> RUNNING <-> ASLEEP`; `fork` leads back to `NONE` in the child.

use crate::limits;
use crate::process::STACK;
use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::ptr::{null, null_mut};
use quarry_core::frame::FRAME_BYTES;
use quarry_core::stack::ReclaimState;
use quarry_sys::clock::monotonic_ns;
use quarry_sys::glibc::is_single_threaded;
use quarry_sys::lock::CountedLock;
use quarry_sys::primitive::{AtomicBool, AtomicI64, AtomicU32, Ordering};

/// Bytes to give back that are worth a thread.
const START_BYTES: usize = 32 << 20;
const START_FRAMES: u32 = (START_BYTES / FRAME_BYTES) as u32;
/// Looks without anything to give back after which the thread goes to sleep.
const QUIET_LOOKS: u32 = 8;
/// Bytes of the thread's stack: `ReclaimState` and a few batches, four times over.
const STACK_BYTES: usize = 64 << 10;

const NONE: u32 = 0;
const STARTING: u32 = 1;
const RUNNING: u32 = 2;
const ASLEEP: u32 = 3;

static STATE: AtomicU32 = AtomicU32::new(NONE);
static ALLOWED: AtomicBool = AtomicBool::new(true);
static DELAY_MS: AtomicI64 = AtomicI64::new(500);

/// Looks by those who free, where there is no thread.
struct Inline {
    state: ReclaimState,
    /// When the next look is due, on the monotonic clock.
    next_ns: u64,
}

static INLINE: CountedLock<Inline> =
    CountedLock::new(Inline { state: ReclaimState::new(), next_ns: 0 });

/// Takes over the settings: whether a thread may be started, and for how long freed memory is kept
/// (0 = not at all, negative = for ever).
pub(crate) fn configure(allowed: bool, delay_ms: i64) {
    ALLOWED.store(allowed, Ordering::Relaxed);
    DELAY_MS.store(delay_ms, Ordering::Relaxed);
}

/// Takes the lock before `fork`, before those of the stack.
pub(crate) fn lock_for_fork() {
    INLINE.lock_for_fork();
}

/// Releases it on either side of `fork`. In the child, the thread is the parent's.
///
/// # Safety
/// The calling thread took it by [`lock_for_fork`].
pub(crate) unsafe fn unlock_after_fork(in_child: bool) {
    if in_child {
        STATE.store(NONE, Ordering::Relaxed);
    }
    // SAFETY: the caller's promise is passed on.
    unsafe { INLINE.unlock_after_fork() };
}

/// Called at the end of slow frees, with no lock held. O(nodes); starts or wakes the thread where
/// there is enough to give back.
pub(crate) fn poke() {
    let delay = DELAY_MS.load(Ordering::Relaxed);
    let bytes = STACK.freeable_bytes() + STACK.parked_bytes();
    if delay < 0 || bytes < START_BYTES && delay != 0 {
        return;
    }
    if delay == 0 {
        STACK.purge_free();
        return;
    }
    match STATE.load(Ordering::Relaxed) {
        NONE if ALLOWED.load(Ordering::Relaxed) && is_single_threaded() => start(),
        NONE => step(delay),
        ASLEEP if moves(ASLEEP, RUNNING) => futex(libc::FUTEX_WAKE, 1, null()),
        _ => {}
    }
}

/// Called at the end of slow allocations, with no lock held. O(1); see above for who is started by
/// them.
#[inline]
pub(crate) fn start_while_allocating() {
    if may_be_due() && ALLOWED.load(Ordering::Relaxed) && DELAY_MS.load(Ordering::Relaxed) > 0 {
        start();
    }
}

/// Whether [`start_while_allocating`] is worth a call: there are threads, but none of ours, and
/// enough is in use.
#[inline]
pub(crate) fn may_be_due() -> bool {
    STATE.load(Ordering::Relaxed) == NONE
        && !is_single_threaded()
        && STACK.pages().zones().budget().used() >= START_FRAMES
}

/// One step of a look by the caller: another round of purging, or where none is due and half a
/// delay has passed, the next look.
#[cold]
fn step(delay_ms: i64) {
    let Some(mut inline) = INLINE.try_lock() else { return };
    let inline = &mut *inline;
    if STACK.purge_due(&mut inline.state).is_some() {
        return;
    }
    let now = monotonic_ns();
    if now >= inline.next_ns {
        inline.next_ns = now + delay_ms as u64 * 500_000;
        STACK.look(&mut inline.state);
        limits::look_again();
    }
}

/// Changes the state if it is `from`; whether it did.
fn moves(from: u32, to: u32) -> bool {
    STATE.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

#[cold]
fn start() {
    if !moves(NONE, STARTING) {
        return;
    }
    let created = create_thread();
    let is_new = moves(STARTING, if created { RUNNING } else { NONE });
    debug_assert!(is_new, "only the starter leaves STARTING");
    if !created {
        // No thread can be had: do not ask again at every free.
        ALLOWED.store(false, Ordering::Relaxed);
    }
}

/// A detached thread with every signal blocked, so that no handler of the program runs on it.
fn create_thread() -> bool {
    // SAFETY: the attribute object and both signal sets live until the calls are done; the entry
    // point lives as long as the process (the shared object is linked with -z nodelete).
    unsafe {
        let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
        if libc::pthread_attr_init(attributes.as_mut_ptr()) != 0 {
            return false;
        }
        libc::pthread_attr_setdetachstate(attributes.as_mut_ptr(), libc::PTHREAD_CREATE_DETACHED);
        libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), STACK_BYTES);
        let mut every = MaybeUninit::<libc::sigset_t>::uninit();
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigfillset(every.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_BLOCK, every.as_ptr(), before.as_mut_ptr());
        let mut thread = MaybeUninit::<libc::pthread_t>::uninit();
        let result =
            libc::pthread_create(thread.as_mut_ptr(), attributes.as_ptr(), run, null_mut());
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), null_mut());
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        result == 0
    }
}

extern "C" fn run(_: *mut c_void) -> *mut c_void {
    // SAFETY: the name is a NUL-terminated string of at most 16 bytes.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"quarry-reclaim".as_ptr()) };
    let mut state = ReclaimState::new();
    let mut quiet = 0;
    loop {
        pause(DELAY_MS.load(Ordering::Relaxed));
        let done = STACK.reclaim(&mut state);
        limits::look_again();
        quiet = if done.bytes == 0 && done.shrunk == 0 { quiet + 1 } else { 0 };
        if quiet >= QUIET_LOOKS {
            sleep();
            quiet = 0;
        }
    }
}

/// Half the delay: memory goes back between one and two halves after it was last needed.
fn pause(delay_ms: i64) {
    let half = delay_ms.max(2) / 2;
    let time = libc::timespec { tv_sec: half / 1000, tv_nsec: (half % 1000) * 1_000_000 };
    // SAFETY: `time` is a valid timespec; an early return only makes a look early.
    unsafe { libc::nanosleep(&raw const time, null_mut()) };
}

fn sleep() {
    if !moves(RUNNING, ASLEEP) {
        return;
    }
    while STATE.load(Ordering::Acquire) == ASLEEP {
        futex(libc::FUTEX_WAIT, ASLEEP, null());
    }
}

fn futex(operation: i32, value: u32, timeout: *const libc::timespec) {
    // SAFETY: the word is static; FUTEX_WAIT reads it, FUTEX_WAKE uses its address.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            STATE.as_ptr(),
            operation | libc::FUTEX_PRIVATE_FLAG,
            value,
            timeout,
        );
    }
}
