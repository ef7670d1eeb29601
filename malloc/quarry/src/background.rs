//! The background thread: gives memory back while the program is idle, and balances the budget.
//!
//! Programs notice a second thread: `unshare(CLONE_NEWUSER)` fails, and CPython warns at fork. So
//! in a process with one thread the background thread starts only when 4 MiB can be given back, is
//! none that the C library knows, and ends soon (see [`brief`]). In a process with several threads
//! it stays, and sleeps on a futex while it has nothing to do. The child of a fork has no
//! background thread until it meets the condition itself.
//!
//! The C library calls `free` under locks that `pthread_create` takes too: it locks its list of
//! threads' stacks while it frees the storage of ended threads. So `free` starts the thread only in
//! a process without other threads, where no thread can hold such a lock. In a process with several
//! threads an allocation starts it, once the heap has grown to 4 MiB: the C library does not
//! allocate under that lock (glibc 2.36, `nptl/nptl-stack.c`). If the heap has grown before there
//! is a second thread, the first `pthread_create` makes the allocation: it marks the process as
//! having several threads, and then, holding no lock, calls `calloc` for the new thread's TLS
//! table. A thread that reuses an ended thread's stack needs no table. So in one case the
//! background thread starts later: the first thread of a fork's child reuses a stack of the parent.
//!
//! If the settings or the system allow no background thread, the threads that free memory do the
//! background thread's work, in bounded steps, and an idle program keeps its memory.
//!
//! Stopping the sequences of other CPUs takes a system call (membarrier) that the C library's
//! `malloc` does not make. A seccomp filter that the program has installed in its own threads may
//! kill a thread that makes it. So in a process with several threads only the background thread
//! makes the call. Another thread that needs the objects parked on other CPUs asks the background
//! thread, and waits for a moment; without a background thread these objects stay parked.
//!
//! A request that leaves the budget below its low mark wakes the thread, which then reclaims cached
//! pages and calls shrinkers (see `Balancer`). Registering the first shrinker starts the thread.
//!
//! The thread must not keep a process alive, or keep rights that the program has given up. Each
//! time it looks for memory to give back, and once a second while it sleeps, it checks whether it
//! is the last thread, and gives up the rights that the main thread has given up.
//!
//! States: `NONE -> STARTING -> RUNNING <-> ASLEEP`; `fork` leads back to `NONE` in the child. A
//! brief thread: `NONE -> STARTING -> BRIEF -> NONE`.

mod brief;
mod privileges;
mod state;
mod thread;

pub(crate) use brief::dismiss;
pub(crate) use state::ring;
pub(crate) use thread::look_up;

use brief::state;
use state::{
    ALLOWED, ASLEEP, AT_ONCE, BELL, BRIEF, DELAY_MS, FORKS, HAS_NEWS, INLINE, LEFT, NEXT_START_NS,
    NONE, NS_PER_MS, RUNNING, STARTING, STATE, USUAL_MS, is_quiet, moves, note_left, parked,
    start_not_before,
};

use crate::balancer::{Balancer, Cache};
use crate::instance::{STACK, is_ready, zones};
use crate::{gate, heap_profile, limits, pressure, record};
use core::ffi::c_void;
use quarry_mm::frame::FRAME_BYTES;
use quarry_mm::stack::{ReclaimState, Reclaimed, StackHost, Watch};
use quarry_sys::clock::coarse_ns;
use quarry_sys::glibc::is_single_threaded;
use quarry_sys::locks::Visit;
use quarry_sys::own_stack;
use quarry_sys::percpu::PerCpu;
use quarry_sys::primitive::{AtomicU32, AtomicU64, Ordering, futex, task};
use quarry_sys::seccomp::may_have_new_filter;
use quarry_sys::watchers;

/// The thread starts when this many bytes can be given back, and in a process with several threads
/// when as many are in use.
const START_BYTES: usize = 4 << 20;
const START_FRAMES: u32 = (START_BYTES / FRAME_BYTES) as u32;
/// The thread sleeps after this many searches in a row (*looks*) that find no memory to give back.
const QUIET_LOOKS: usize = 8;
/// Longest time between two calls of `watch_process`, which checks the main thread.
const WATCH_MS: i64 = 1000;
/// Longest time that `malloc_trim` waits until all slots are empty: 100 times what emptying takes.
const TRIM_WAIT_MS: i64 = 200;
/// Longest wait of a request without memory for empty slots; shortest time between two such waits.
const REQUEST_WAIT_MS: i64 = 20;
const REQUEST_INTERVAL_NS: u64 = 200_000_000;
/// Shortest time between two attempts to start the thread where a look shows that it must not be.
const LOOK_NS: u64 = 1_000_000_000;
/// True where the C library shows whether the process has several threads.
const KNOWS_THREADS: bool = cfg!(target_env = "gnu");

/// Number of requests so far to empty the slots of all CPUs; and the number of those fulfilled.
static WISHES: AtomicU32 = AtomicU32::new(0);
static FULFILLED: AtomicU32 = AtomicU32::new(0);
/// Time from which a request may wait again, by the coarse clock.
static NEXT_WAIT_NS: AtomicU64 = AtomicU64::new(0);

/// Returns whether the thread runs or sleeps, so that it fulfils requests.
pub(crate) fn is_at_work() -> bool {
    matches!(STATE.load(Ordering::Acquire), RUNNING | ASLEEP)
}

/// Returns whether the thread exists, or is being started.
#[cfg(feature = "page-cache")]
pub(crate) fn has_thread() -> bool {
    !matches!(STATE.load(Ordering::Acquire), NONE | BRIEF)
}

/// Calls `visit` with each lock of the process's instance.
pub(crate) fn visit_locks(visit: &mut Visit<'_>) {
    state::visit_locks(visit);
    Cache::visit_process_locks(visit);
    heap_profile::visit_locks(visit);
    if is_ready() {
        STACK.visit_locks(visit);
    }
}

/// Returns true only if the running thread holds no lock, and is not changing a table that others
/// read without a lock. For signal handlers: they may have interrupted a thread that does.
pub(crate) fn is_at_rest() -> bool {
    if !is_ready() {
        return true;
    }
    let Some(_inside) = gate::try_enter() else { return false };
    let mut are_free = true;
    visit_locks(&mut |_, lock| are_free &= lock.is_free());
    are_free
}

/// Stores whether a thread may be started, and how long freed memory is kept (negative: for ever).
pub(crate) fn configure(allowed: bool, delay_ms: i64) {
    ALLOWED.store(allowed, Ordering::Relaxed);
    keep_for(delay_ms);
}

pub(crate) fn keeps_all() -> bool {
    DELAY_MS.load(Ordering::Relaxed) < 0
}

/// Stores how long freed memory is kept.
pub(crate) fn keep_for(delay_ms: i64) {
    AT_ONCE.store(delay_ms == 0, Ordering::Relaxed);
    pressure::keep_all(delay_ms < 0);
    DELAY_MS.store(if delay_ms == 0 { USUAL_MS } else { delay_ms }, Ordering::Relaxed);
    if delay_ms < 0 {
        dismiss();
        own_stack::keep();
    }
}

/// Ends a brief thread, and starts none until the fork that begins has ended: then the process has
/// the threads that the handlers of `fork` have seen, and its child has none that they forget.
pub(crate) fn begin_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    dismiss();
}

/// Called in the parent, and in the child after [`forget_thread`]. `are_all_over`: the caller is a
/// child, where the forks of other threads do not end. (Handlers of the same thread may fork, too.)
pub(crate) fn end_fork(are_all_over: bool) {
    if are_all_over {
        FORKS.store(0, Ordering::Relaxed);
    } else {
        FORKS.fetch_sub(1, Ordering::Relaxed);
    }
}

pub(crate) fn forget_thread() {
    // Stores only a new value, because the kernel copies each page to which the child writes.
    if STATE.load(Ordering::Relaxed) != NONE {
        STATE.store(NONE, Ordering::Relaxed);
        STACK.percpu().leave_barrier_to(None);
        record::note_background(false);
        pressure::note_thread(false);
        brief::forget();
    }
    // Only parents look for threads after a fork.
    if NEXT_START_NS.load(Ordering::Relaxed) != 0 {
        start_not_before(0);
    }
}

/// Starts the thread, if allowed, to run callbacks. The caller is not inside `malloc` or `free`.
#[cfg(feature = "page-cache")]
pub(crate) fn start_for_callbacks() {
    let is_allowed = ALLOWED.load(Ordering::Relaxed) && DELAY_MS.load(Ordering::Relaxed) >= 0;
    dismiss();
    if STATE.load(Ordering::Relaxed) == NONE && is_allowed {
        start();
    }
}

/// Called at the end of slow frees, without a lock; starts or wakes the thread if due. O(nodes).
pub(crate) fn wake_reclaimer() {
    let delay = DELAY_MS.load(Ordering::Relaxed);
    if AT_ONCE.load(Ordering::Relaxed) {
        let _inside = gate::enter();
        STACK.mappings.purge_all(zones());
    }
    if delay < 0 || !is_worth_a_thread() && !Cache::is_due() {
        return;
    }
    match state() {
        NONE if ALLOWED.load(Ordering::Relaxed) && is_single_threaded() => start(),
        NONE => step(delay),
        ASLEEP if moves(ASLEEP, RUNNING) => ring(),
        _ if !HAS_NEWS.load(Ordering::Relaxed) => HAS_NEWS.store(true, Ordering::Relaxed),
        _ => {}
    }
}

/// Returns whether enough can be given back to start or wake the thread. O(nodes). If the answer
/// depends on what caches hold, it counts that too, at most a hundred times a second.
fn is_worth_a_thread() -> bool {
    const INTERVAL_NS: u64 = 10_000_000;
    static NEXT_COUNT_NS: AtomicU64 = AtomicU64::new(0);
    let freeable = STACK.mappings.freeable_bytes(zones()) + STACK.limits.barns();
    if freeable >= START_BYTES {
        return true;
    }
    let now = coarse_ns();
    if now < NEXT_COUNT_NS.load(Ordering::Relaxed) {
        return false;
    }
    NEXT_COUNT_NS.store(now + INTERVAL_NS, Ordering::Relaxed);
    let spare = ReclaimState::bound(&STACK);
    let left = LEFT.fetch_min(spare, Ordering::Relaxed).min(spare);
    spare - left >= START_BYTES
}

/// Called at the end of slow allocations, without a lock; starts the thread if it is due. O(1).
#[inline]
pub(crate) fn start_while_allocating() {
    if Cache::is_due() {
        Cache::want(false);
    }
    if may_be_due() && ALLOWED.load(Ordering::Relaxed) && DELAY_MS.load(Ordering::Relaxed) > 0 {
        start();
    }
}

/// Returns whether [`start_while_allocating`] may start the thread. O(1).
#[inline]
pub(crate) fn may_be_due() -> bool {
    match STATE.load(Ordering::Relaxed) {
        NONE | BRIEF => {
            record::wants_thread()
                || brief::is_wanted()
                || !is_single_threaded() && zones().budget().used() >= START_FRAMES
        }
        _ => false,
    }
}

/// Does a step of the thread's work in the caller: reclaims cached pages; purges, or looks if due.
#[cold]
fn step(delay_ms: i64) {
    let _inside = gate::enter();
    let Some(mut inline) = INLINE.try_lock() else { return };
    let inline = &mut *inline;
    if Cache::is_due() {
        // The caller is inside `free`, so callbacks of the program must not run.
        Cache::reclaim_pages();
    }
    if STACK.purge(&mut inline.state, false).is_some() {
        return;
    }
    let now = coarse_ns();
    if now >= inline.next_ns {
        inline.next_ns = now + delay_ms as u64 * NS_PER_MS / 2;
        let delay_ns = delay_ms as u64 * NS_PER_MS;
        own_stack::run(|| STACK.look(&mut inline.state, now, delay_ns));
        limits::look_again();
    }
}

#[cold]
fn start() {
    let now = coarse_ns();
    let is_forking = FORKS.load(Ordering::Relaxed) > 0;
    if state() != NONE || is_forking || now < NEXT_START_NS.load(Ordering::Relaxed) {
        return;
    }
    // A brief thread runs no code of the program, and publishes nothing once it has ended.
    let runs_others = record::wants_thread() || zones().budget().has_reserve();
    let may_be_brief = is_single_threaded() && !runs_others && !watchers::are_there();
    if !KNOWS_THREADS && !runs_others && thread::is_only_one() {
        // A brief thread needs glibc. Another one would be noticed: the threads that free memory do
        // its work, until the process has several.
        start_not_before(now + LOOK_NS);
        return;
    }
    // In a signal handler that has interrupted a slow path, a lock may be held by a plain store.
    if may_be_brief && !is_at_rest() || !moves(NONE, STARTING) {
        return;
    }
    let create = || {
        // A filter that the program has installed itself may kill for starting a thread.
        match may_have_new_filter() {
            true => (NONE, true),
            false if may_be_brief && brief::start() => (BRIEF, false),
            false if thread::create(body) => (RUNNING, false),
            false => (NONE, false),
        }
    };
    #[cfg(feature = "heaps")]
    let create = || crate::inside::outside(create);
    let (created, is_filtered) = own_stack::run_with_signals(create);
    // A handler may have interrupted this and have forked: its child begins with `NONE` again.
    if !moves(STARTING, created) {
        moves(NONE, created);
    }
    if is_filtered && !is_single_threaded() {
        // Another thread may have no filter.
        start_not_before(now + LOOK_NS);
    } else if created == NONE {
        // The system refused a thread, so later frees do not try again.
        ALLOWED.store(false, Ordering::Relaxed);
    }
}

/// Lets the background thread empty the slots of all CPUs, unless the caller may do it itself.
pub(crate) fn empty_slots() {
    dismiss();
    if !STACK.percpu().reaches_every_slot() {
        wish(TRIM_WAIT_MS);
    }
}

/// Like [`empty_slots`], for a request that found no memory; returns whether the request should try
/// again. It waits for the background thread, but at most once in `REQUEST_INTERVAL_NS`.
#[inline(never)]
#[cold]
pub(crate) fn empty_slots_at_limit() -> bool {
    if STACK.percpu().reaches_every_slot() || zones().budget().reclaimers().is_in() {
        return false;
    }
    dismiss();
    if STACK.percpu().reaches_every_slot() {
        return true;
    }
    let (now, next) = (coarse_ns(), NEXT_WAIT_NS.load(Ordering::Relaxed));
    let relaxed = Ordering::Relaxed;
    let is_due = now >= next
        && NEXT_WAIT_NS.compare_exchange(next, now + REQUEST_INTERVAL_NS, relaxed, relaxed).is_ok();
    is_due && wish(REQUEST_WAIT_MS)
}

/// Requests empty slots and waits; returns whether the request was fulfilled in time.
fn wish(wait_ms: i64) -> bool {
    if !is_at_work() {
        return false;
    }
    let mine = WISHES.fetch_add(1, Ordering::AcqRel).wrapping_add(1);
    ring();
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

extern "C" fn body(_: *mut c_void) -> *mut c_void {
    thread::begin();
    run()
}

fn run() -> ! {
    STACK.percpu().leave_barrier_to(Some(task::current()));
    record::note_background(true);
    pressure::note_thread(true);
    record::publish_if_due();
    let mut state = ReclaimState::new();
    let mut quiet = 0usize;
    loop {
        let delay_ms = DELAY_MS.load(Ordering::Relaxed);
        if delay_ms < 0 {
            sleep();
            continue;
        }
        pause(delay_ms);
        let parked = parked();
        let done = reclaim(&mut state, delay_ms);
        limits::look_again();
        quiet = if is_quiet(done, parked) { quiet + 1 } else { 0 };
        // Memory that the policy retains becomes due after `looks_kept` more looks.
        if quiet >= QUIET_LOOKS + state.looks_kept() {
            sleep();
            quiet = 0;
        }
    }
}

/// Looks once, and does all the work that is then due. A fork waits for at most one step of this.
fn reclaim(state: &mut ReclaimState, delay_ms: i64) -> Reclaimed {
    let delay_ns = delay_ms.max(0) as u64 * NS_PER_MS;
    let inside = gate::enter();
    let mut done = STACK.look(state, coarse_ns(), delay_ns);
    drop(inside);
    loop {
        let _inside = gate::enter();
        let Some(bytes) = STACK.purge(state, true) else { return done };
        done.bytes += bytes;
    }
}

/// Waits half the delay, so memory goes back between half a delay and a delay after its last use.
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
    note_left();
    if !moves(RUNNING, ASLEEP) {
        return;
    }
    while STATE.load(Ordering::Acquire) == ASLEEP {
        attend(WATCH_MS);
    }
}

/// Fulfils requests, waits for the bell or until the time is over, and checks the process.
fn attend(milliseconds: i64) {
    let heard = BELL.load(Ordering::Acquire);
    let wished = WISHES.load(Ordering::Acquire);
    if wished != FULFILLED.load(Ordering::Relaxed) {
        let inside = gate::enter();
        STACK.shrink_all();
        drop(inside);
        FULFILLED.store(wished, Ordering::Release);
        futex::wake_all(&FULFILLED);
    }
    Cache::work();
    // Does not wait if the bell has rung since it was read, so no request is missed.
    wait(&BELL, heard, record::longest_wait(milliseconds));
    record::publish_if_due();
    pressure::look_in_thread();
    let inside = gate::enter();
    STACK.watch.tick(&STACK);
    drop(inside);
    thread::watch_process();
}

fn wait(word: &AtomicU32, seen: u32, milliseconds: i64) {
    futex::wait_at_most(word, seen, milliseconds as u64 * NS_PER_MS);
}
