//! The thread that gives memory back while the program is idle.
//!
//! In a process with one thread it starts only when there are 32 MiB to give back, because programs
//! notice a second thread: `unshare(CLONE_NEWUSER)` refuses them, CPython warns at fork. In a
//! process with several threads 4 MiB are enough: otherwise each of twenty workers of a server
//! would keep what its last request freed. The thread sleeps on a futex when there is nothing left
//! to do. A forked child has no such thread until it has as much to give back itself.
//!
//! The C library calls `free` under locks that `pthread_create` takes as well: with the list of
//! stacks locked, it frees the thread-local storage of ended threads. So `free` starts the thread
//! only in a process without other threads, where no thread holds such a lock. In a process with
//! several threads an allocation starts it, as soon as the heap has grown to those 4 MiB; the C
//! library does not allocate under that lock (glibc 2.36, `nptl/nptl-stack.c`). If the heap grew
//! before, with one thread, then `pthread_create` itself makes this allocation: it marks the
//! process as having several threads, and then asks `calloc` for the new thread's table of
//! thread-local storage, with no lock held. Only a thread on the stack of an earlier one needs no
//! table. So the one exception is the child of a fork that starts its first thread on a stack which
//! its parent's threads have left.
//!
//! If no thread may be started, or the system refuses one, the threads that free do the looks
//! instead, a bounded step at a time, and an idle program keeps its memory.
//!
//! In a process with several threads only this thread stops the sequences of other CPUs, by a
//! system call that `malloc` of the C library does not make: a filter of system calls that the
//! program has installed for its own threads may kill a thread for it. A caller that needs the
//! objects parked on other CPUs asks this thread and waits for a moment; without this thread they
//! stay where they are.
//!
//! The same thread balances the budget: a request that leaves less than the low mark wakes it, and
//! it asks cached pages and the program's shrinkers for memory (see `Balancer`). A program that
//! registers a shrinker starts it.
//!
//! The thread must not keep a process alive, or hold rights that the program has given up: at each
//! look, and once a second while it sleeps, it checks whether it is the last thread, and gives up
//! the rights that the main thread has given up.
//!
//! States: `NONE -> STARTING -> RUNNING <-> ASLEEP`; `fork` leads back to `NONE` in the child.

mod bell;
mod privileges;
mod status;
mod thread;

#[cfg(feature = "page-cache")]
pub(crate) use bell::{has_thread, is_at_work, ring};
pub(crate) use thread::find_least_stack;

use crate::balancer::{Balancer, Cache};
use crate::instance::STACK;
use crate::{gate, limits, record};
use bell::{ALLOWED, ASLEEP, BELL, DELAY_MS, NONE, RUNNING, STARTING, STATE, moves};
use core::ffi::c_void;
use quarry_mm::frame::FRAME_BYTES;
use quarry_mm::stack::{ReclaimState, Reclaimed};
use quarry_sys::clock::coarse_ns;
use quarry_sys::glibc::is_single_threaded;
use quarry_sys::lock::CountedLock;
use quarry_sys::locks::Visit;
use quarry_sys::own_stack;
use quarry_sys::percpu::PerCpu;
use quarry_sys::primitive::{AtomicU32, AtomicU64, Ordering, futex, task};

const NS_PER_MS: u64 = 1_000_000;
/// Bytes to give back that make a second thread worth its cost.
const START_BYTES: usize = 32 << 20;
/// The same beside other threads.
const START_BESIDE_BYTES: usize = 4 << 20;
const START_BESIDE_FRAMES: u32 = (START_BESIDE_BYTES / FRAME_BYTES) as u32;
/// The thread sleeps after this many looks without anything to give back.
const QUIET_LOOKS: usize = 8;
/// Longest time without a look at the process itself.
const WATCH_MS: i64 = 1000;
/// Time that `malloc_trim` waits for the slots of other CPUs: a hundred times what emptying takes.
const TRIM_WAIT_MS: i64 = 200;
/// Time that a request waits for them after it found no memory, and time until the next may wait.
const REQUEST_WAIT_MS: i64 = 20;
const REQUEST_INTERVAL_NS: u64 = 200_000_000;

/// Number of requests to empty the slots of all CPUs, and the last one that was fulfilled.
static WISHES: AtomicU32 = AtomicU32::new(0);
static FULFILLED: AtomicU32 = AtomicU32::new(0);
/// Time from which a request may wait again, on the coarse clock.
static NEXT_WAIT_NS: AtomicU64 = AtomicU64::new(0);

/// The looks of freeing threads, if there is no background thread.
struct Inline {
    state: ReclaimState,
    /// Time of the next look, on the monotonic clock.
    next_ns: u64,
}

static INLINE: CountedLock<Inline> =
    CountedLock::new(Inline { state: ReclaimState::new(), next_ns: 0 });

/// Visits the lock of the looks of freeing threads.
pub(crate) fn visit_locks(visit: &mut Visit<'_>) {
    visit("background->inline", &INLINE);
}

/// Stores the settings: whether a thread may be started, and how long freed memory is kept (0: not
/// at all; negative: for ever).
pub(crate) fn configure(allowed: bool, delay_ms: i64) {
    ALLOWED.store(allowed, Ordering::Relaxed);
    DELAY_MS.store(delay_ms, Ordering::Relaxed);
}

/// In the child of a fork: the thread is the parent's.
pub(crate) fn forget_thread() {
    // A page that is not written is not copied.
    if STATE.load(Ordering::Relaxed) != NONE {
        STATE.store(NONE, Ordering::Relaxed);
        STACK.percpu().leave_barrier_to(None);
        record::note_background(false);
    }
    Cache::forget_work();
}

/// Starts the thread, if it is allowed, for callbacks that only the thread may call. Not for
/// callers inside `malloc` or `free`.
#[cfg(feature = "page-cache")]
pub(crate) fn start_for_callbacks() {
    if STATE.load(Ordering::Relaxed) == NONE && bell::is_allowed() {
        start();
    }
}

/// Called at the end of slow frees, with no lock held. O(nodes); starts or wakes the thread if
/// there is enough to give back.
pub(crate) fn wake_reclaimer() {
    let delay = DELAY_MS.load(Ordering::Relaxed);
    if delay < 0 || delay != 0 && !is_worth_a_thread() && !Cache::is_due() {
        return;
    }
    if delay == 0 {
        let _inside = gate::enter();
        STACK.upkeep().purge_free();
        return;
    }
    match STATE.load(Ordering::Relaxed) {
        NONE if ALLOWED.load(Ordering::Relaxed) && is_single_threaded() => start(),
        NONE => step(delay),
        ASLEEP if moves(ASLEEP, RUNNING) => bell::ring(),
        _ => {}
    }
}

/// Returns whether there is enough to give back. O(nodes), except that it counts what CPUs hold if
/// this decides, at most ten times a second.
fn is_worth_a_thread() -> bool {
    const INTERVAL_NS: u64 = 100_000_000;
    static NEXT_COUNT_NS: AtomicU64 = AtomicU64::new(0);
    let enough = if is_single_threaded() { START_BYTES } else { START_BESIDE_BYTES };
    let freeable = STACK.upkeep().freeable_bytes();
    if freeable + STACK.upkeep().parked_in_barns() >= enough {
        return true;
    }
    if freeable + STACK.upkeep().parked_bytes_at_most() < enough {
        return false;
    }
    let now = coarse_ns();
    if now < NEXT_COUNT_NS.load(Ordering::Relaxed) {
        return false;
    }
    NEXT_COUNT_NS.store(now + INTERVAL_NS, Ordering::Relaxed);
    freeable + STACK.upkeep().parked_bytes() >= enough
}

/// Called at the end of slow allocations, with no lock held. O(1); the module describes which
/// processes get their thread from them.
#[inline]
pub(crate) fn start_while_allocating() {
    if Cache::is_due() {
        Cache::want();
    }
    if may_be_due() && ALLOWED.load(Ordering::Relaxed) && DELAY_MS.load(Ordering::Relaxed) > 0 {
        start();
    }
}

/// Returns whether [`start_while_allocating`] is worth a call: there are several threads, but not
/// the background thread, and enough is in use.
#[inline]
pub(crate) fn may_be_due() -> bool {
    STATE.load(Ordering::Relaxed) == NONE
        && (record::wants_thread()
            || !is_single_threaded()
                && STACK.pages().zones().budget().used() >= START_BESIDE_FRAMES)
}

/// One step of a look by the caller: another round of purging, or if none is due and half a delay
/// has passed, the next look.
#[cold]
fn step(delay_ms: i64) {
    let _inside = gate::enter();
    let Some(mut inline) = INLINE.try_lock() else { return };
    let inline = &mut *inline;
    if Cache::is_due() {
        // Functions of the program never run here.
        Cache::reclaim_pages();
    }
    if STACK.upkeep().purge_due(&mut inline.state).is_some() {
        return;
    }
    let now = coarse_ns();
    if now >= inline.next_ns {
        inline.next_ns = now + delay_ms as u64 * NS_PER_MS / 2;
        let delay_ns = delay_ms as u64 * NS_PER_MS;
        own_stack::run(|| STACK.upkeep().look_at(&mut inline.state, now, delay_ns));
        limits::look_again();
    }
}

#[cold]
fn start() {
    if !moves(NONE, STARTING) {
        return;
    }
    let created = own_stack::run_with_signals(|| thread::create(body));
    let is_new = moves(STARTING, if created { RUNNING } else { NONE });
    debug_assert!(is_new, "only the starter leaves STARTING");
    if !created {
        // The system refuses a thread: do not ask again at every free.
        ALLOWED.store(false, Ordering::Relaxed);
    }
}

/// Empties the slots of all CPUs by the background thread, if there is one and the caller may not
/// stop the CPUs itself. Waits until it is done.
pub(crate) fn empty_slots() {
    if !STACK.percpu().reaches_every_slot() {
        wish(TRIM_WAIT_MS);
    }
}

/// The same for a request that has found no memory; returns whether it should try again. Of many
/// requests that fail in a row, only some wait.
#[inline(never)]
#[cold]
pub(crate) fn empty_slots_at_limit() -> bool {
    if STACK.percpu().reaches_every_slot() || STACK.pages().zones().budget().reclaimers().is_in() {
        return false;
    }
    let (now, next) = (coarse_ns(), NEXT_WAIT_NS.load(Ordering::Relaxed));
    let relaxed = Ordering::Relaxed;
    let is_due = now >= next
        && NEXT_WAIT_NS.compare_exchange(next, now + REQUEST_INTERVAL_NS, relaxed, relaxed).is_ok();
    is_due && wish(REQUEST_WAIT_MS)
}

/// Asks for empty slots and waits; returns whether the request was fulfilled in time.
fn wish(wait_ms: i64) -> bool {
    if !bell::is_at_work() {
        return false;
    }
    let mine = WISHES.fetch_add(1, Ordering::AcqRel).wrapping_add(1);
    bell::ring();
    let end = coarse_ns() + wait_ms as u64 * NS_PER_MS;
    loop {
        let fulfilled = FULFILLED.load(Ordering::Acquire);
        if fulfilled.wrapping_sub(mine) as i32 >= 0 {
            return true;
        }
        if coarse_ns() >= end {
            return false;
        }
        wait(&FULFILLED, fulfilled, wait_ms);
    }
}

/// The entry point of the thread.
extern "C" fn body(_: *mut c_void) -> *mut c_void {
    thread::begin();
    run()
}

/// Works until the process ends.
fn run() -> ! {
    STACK.percpu().leave_barrier_to(Some(task::current()));
    record::note_background(true);
    record::publish_if_due();
    let mut state = ReclaimState::new();
    let mut quiet = 0usize;
    loop {
        let delay_ms = DELAY_MS.load(Ordering::Relaxed);
        pause(delay_ms);
        let done = reclaim(&mut state, delay_ms);
        limits::look_again();
        quiet = if done.bytes == 0 && done.shrunk == 0 { quiet + 1 } else { 0 };
        // Memory that is kept longer is due after that many looks.
        if quiet >= QUIET_LOOKS + state.looks_kept() {
            sleep();
            quiet = 0;
        }
    }
}

/// One look, and all the work that it finds due. A fork waits only for a step of it.
fn reclaim(state: &mut ReclaimState, delay_ms: i64) -> Reclaimed {
    let delay_ns = delay_ms.max(0) as u64 * NS_PER_MS;
    let step = |state: &mut ReclaimState| {
        let _inside = gate::enter();
        STACK.upkeep().purge_due(state).or_else(|| STACK.upkeep().purge_sparse(state))
    };
    let mut done = {
        let _inside = gate::enter();
        STACK.upkeep().look_at(state, coarse_ns(), delay_ns)
    };
    while let Some(bytes) = step(state) {
        done.bytes += bytes;
    }
    done
}

/// Waits half the delay: memory goes back between one and two halves after it was last needed.
fn pause(delay_ms: i64) {
    let end = coarse_ns() + delay_ms.max(2) as u64 * NS_PER_MS / 2;
    loop {
        let left = end.saturating_sub(coarse_ns()).div_ceil(NS_PER_MS) as i64;
        if left == 0 {
            return;
        }
        attend(left.min(WATCH_MS));
    }
}

fn sleep() {
    if !moves(RUNNING, ASLEEP) {
        return;
    }
    while STATE.load(Ordering::Acquire) == ASLEEP {
        attend(WATCH_MS);
    }
}

/// Fulfils pending requests, then waits until the time is over or the bell rings, and looks after
/// the process.
fn attend(milliseconds: i64) {
    let heard = BELL.load(Ordering::Acquire);
    let wished = WISHES.load(Ordering::Acquire);
    if wished != FULFILLED.load(Ordering::Relaxed) {
        let inside = gate::enter();
        STACK.upkeep().shrink_all();
        drop(inside);
        FULFILLED.store(wished, Ordering::Release);
        futex::wake_all(&FULFILLED);
    }
    Cache::work();
    // Requests from before the bell was read are fulfilled; if it has rung since, this does not
    // wait.
    wait(&BELL, heard, record::longest_wait(milliseconds));
    record::publish_if_due();
    let inside = gate::enter();
    STACK.upkeep().sample_if_due();
    drop(inside);
    thread::watch_process();
}

/// Waits until the word differs from `seen`, a wake-up comes, or the time is over.
fn wait(word: &AtomicU32, seen: u32, milliseconds: i64) {
    futex::wait_at_most(word, seen, milliseconds as u64 * NS_PER_MS);
}
