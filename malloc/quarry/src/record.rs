//! The statistics page of the process, by which other processes read its statistics.
//!
//! The process makes the page at its first publication, so that a process that ends earlier does
//! not pay for it: a memfd adds 13 us to the start and the end of a process. By then the program
//! may have installed a seccomp filter that ends the process for making a memfd. So Quarry first
//! checks in a file of `/proc` that no filter is in force; opening a file is no new risk, because
//! Quarry opens files on the program's threads anyway (`limits.rs`). If a filter is in force from
//! the start, as in a container, that file does not show later filters. In this case, and if
//! `QUARRY_RECORD` requests it, Quarry makes the page when the object that contains Quarry is
//! loaded. Then it uses only the mapped memory: the program may close or reuse the descriptor.
//!
//! The process publishes at the end of slow paths except `free`, from the background thread, and at
//! exit if `QUARRY_RECORD` requests that; at most once in [`INTERVAL_NS`]. The first publication
//! comes [`FIRST_NS`] after the first slow path of a process, or as soon as the heap has grown to
//! [`GROWN_FRAMES`]. The fast path reads no clock and never publishes. So the record of a process
//! that takes no slow path grows old, unless its background thread wakes; readers print its age.
//! A publication takes a hundred thousand steps of a debugger. So a thread that is known to be
//! stepped leaves it to others for [`LONGEST_NS`], and after a slow publication the next one is
//! further away. With `QUARRY_RECORD=live` the background thread runs from the start, also in the
//! child of a fork, and publishes every 100 ms.

use crate::instance::{STACK, is_ready, zones};
use crate::settings::{Wish, settings};
use crate::{gate, heap_profile, pressure, statistics, watcher};
use core::ptr::null_mut;
use quarry_mm::frame::FRAME_BYTES;
use quarry_mm::stack::StackHost;
use quarry_record::{About, LEAST_DESCRIPTOR, MEMFD_NAME, Name, PAGE_BYTES, flags};
use quarry_sys::clock::coarse_ns;
use quarry_sys::confined::is_confined;
use quarry_sys::errno::KeepErrno;
use quarry_sys::memfd::map_sealed;
use quarry_sys::own_stack;
use quarry_sys::percpu::PerCpu;
use quarry_sys::primitive::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering::Relaxed};
use quarry_sys::record_page::{Published, Publisher, RecordPage};
use quarry_sys::seccomp;
use quarry_sys::system_call::process_id;

/// Time from one publication to the next: 100 ms. A publication takes some ten thousandths of this.
const INTERVAL_NS: u64 = 100_000_000;
const INTERVAL_MS: i64 = (INTERVAL_NS / 1_000_000) as i64;
/// Time from the first slow path of a process to its first publication: 25 ms, more than
/// `bash -c :` and `python3 -c pass` take.
const FIRST_NS: u64 = 25_000_000;
/// The longest wait for a publication while a debugger steps the threads that should make it: 30 s.
const LONGEST_NS: u64 = 300 * INTERVAL_NS;
/// A publication that took longer than a tick of the coarse clock delays the next one by this many
/// times as long.
const TIMES_AS_LONG: u64 = 10;
/// Frames in use (4 MiB) from which on the first publication does not wait for [`FIRST_NS`].
const GROWN_FRAMES: u32 = ((4 << 20) / FRAME_BYTES) as u32;
/// The lowest descriptor of a page that is not made at the start: programs expect lower numbers.
const LATE_DESCRIPTOR: i32 = 100;
/// Value of [`NEXT_NS`] until the first slow path, which sets the time of the publication.
const AT_FIRST: u64 = 1;
/// Value of [`NEXT_NS`] if there is no page and none will be made.
const NEVER: u64 = u64::MAX;

static PUBLISHER: Publisher = Publisher::new();
/// True while the page is still to be made, at the first publication.
static IS_AWAITED: AtomicBool = AtomicBool::new(false);
/// Time of the next publication, by the coarse clock.
static NEXT_NS: AtomicU64 = AtomicU64::new(NEVER);
/// The pid of the process at its start. A child of `vfork` shares its parent's memory, and so the
/// parent's record: the child must not publish under its own pid.
static PID: AtomicU32 = AtomicU32::new(0);
static HAS_BACKGROUND: AtomicBool = AtomicBool::new(false);
/// A signal handler has requested a publication and statistics.
static IS_WISHED: AtomicBool = AtomicBool::new(false);
/// The background thread should publish even if the process is idle.
static IS_LIVE: AtomicBool = AtomicBool::new(false);
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// The address of the statistics page, or 0: readers of core files find the page by this symbol.
#[unsafe(no_mangle)]
pub(crate) static quarry_record: AtomicPtr<RecordPage> = AtomicPtr::new(null_mut());

// If a process loads two shared objects with Quarry inside, each uses its own `quarry_record`.
core::arch::global_asm!(".protected quarry_record");

/// Makes the page, or defers this to the first publication. Called once, when the object is loaded.
pub(crate) fn begin() {
    let _errno = KeepErrno::new();
    let is_free = !is_confined() && !seccomp::may_be_filtered();
    let wish = settings().record;
    if wish == Wish::None {
        return;
    }
    note_pid();
    if wish == Wish::OnDemand && is_free {
        IS_AWAITED.store(true, Relaxed);
    } else if !make(LEAST_DESCRIPTOR) {
        return;
    }
    IS_LIVE.store(wish == Wish::Live, Relaxed);
    let is_at_once = matches!(wish, Wish::UntilExit | Wish::Live);
    NEXT_NS.store(if is_at_once { 0 } else { AT_FIRST }, Relaxed);
    if wish == Wish::UntilExit {
        // SAFETY: the object that the function is in is never unloaded.
        unsafe { libc::atexit(publish_at_exit) };
    }
}

/// Makes the page, with a descriptor of at least this number, and sends it to a watcher, if any.
fn make(least_descriptor: i32) -> bool {
    let Ok((memory, number)) = map_sealed(MEMFD_NAME, PAGE_BYTES, least_descriptor) else {
        return false;
    };
    let watcher = settings().watcher.as_bytes();
    if !watcher.is_empty() {
        watcher::tell(watcher, number);
    }
    let page = memory.as_ptr().cast::<RecordPage>();
    // SAFETY: a fresh mapping, all zero, that is never unmapped. Its size is sealed. Other
    // processes that inherit it write it only through the same code.
    unsafe { PUBLISHER.open(page) };
    quarry_record.store(page, Relaxed);
    true
}

/// Makes the page if that was deferred and no filter is in force. A fork waits for this.
fn make_if_awaited() {
    let _inside = gate::enter();
    // A child of `vfork` shares its parent's memory, but not its new descriptors.
    if process_id() == PID.load(Relaxed)
        && IS_AWAITED.swap(false, Relaxed)
        && seccomp::is_unfiltered()
        && make(LATE_DESCRIPTOR)
    {
        // Another thread may have found no page before, and have stored `NEVER`.
        NEXT_NS.store(coarse_ns() + INTERVAL_NS, Relaxed);
    }
}

/// Requests a publication now, and statistics as `QUARRY_STATS` says. May be called in a signal
/// handler; the next thread that ends a slow path fulfils the request.
pub(crate) fn wish() {
    IS_WISHED.store(true, Relaxed);
    NEXT_NS.store(0, Relaxed);
}

fn note_pid() {
    PID.store(process_id(), Relaxed);
}

/// Returns whether the background thread should publish all the time. False until the object is
/// loaded, because the first requests of a process may come from the loader.
pub(crate) fn wants_thread() -> bool {
    IS_LIVE.load(Relaxed)
}

/// Shortens the background thread's next wait so that it publishes in time; in milliseconds.
pub(crate) fn longest_wait(milliseconds: i64) -> i64 {
    if IS_LIVE.load(Relaxed) { milliseconds.min(INTERVAL_MS) } else { milliseconds }
}

pub(crate) fn note_background(is_there: bool) {
    HAS_BACKGROUND.store(is_there, Relaxed);
}

/// Called at the end of slow paths other than `free` (reading the clock is 1 % of the shortest
/// path), with no lock held, outside the gate. O(1), except for one publication in 100 ms.
#[inline]
pub(crate) fn publish_if_due() {
    publish_from(NEXT_NS.load(Relaxed));
}

#[inline(never)]
fn publish_from(next: u64) {
    heap_profile::look_for_tracers();
    if next == NEVER {
        if pressure::is_left_to_slow_paths() {
            pressure::look_without_thread(coarse_ns());
        }
        return;
    }
    let is_due = is_grown_unseen() || next != AT_FIRST && coarse_ns() >= next;
    if is_due && !is_left_to_others(next) {
        publish();
    } else if next == AT_FIRST {
        // Does not overwrite a request made in between.
        let _ = NEXT_NS.compare_exchange(next, coarse_ns() + FIRST_NS, Relaxed, Relaxed);
    }
}

/// Returns whether a debugger steps this thread, and the publication is not long overdue.
fn is_left_to_others(next: u64) -> bool {
    let is_recent = || next == AT_FIRST || coarse_ns() < next + LONGEST_NS;
    next > 0 && STACK.percpu().is_stepped() && is_recent()
}

fn is_grown_unseen() -> bool {
    IS_AWAITED.load(Relaxed) && zones().budget().used() >= GROWN_FRAMES
}

/// Publishes, looks at the profile's bell, and prints requested statistics. Keeps `errno`.
#[cold]
#[inline(never)]
pub(crate) fn publish() {
    let _errno = KeepErrno::new();
    own_stack::run(publish_here);
}

#[inline(never)]
fn publish_here() {
    let (now, due) = (coarse_ns(), NEXT_NS.load(Relaxed));
    if IS_AWAITED.load(Relaxed) {
        make_if_awaited();
    }
    if pressure::is_left_to_slow_paths() {
        pressure::look_without_thread(now);
    }
    let has_page = PUBLISHER.page().is_some();
    let next = if has_page || IS_AWAITED.load(Relaxed) { now + INTERVAL_NS } else { NEVER };
    // Keeps a request made in between, or the time set by the thread that made the page.
    let _ = NEXT_NS.compare_exchange(due, next, Relaxed, Relaxed);
    if has_page && is_ready() {
        publish_at(now);
        let end = coarse_ns();
        let wait = ((end - now) * TIMES_AS_LONG).clamp(INTERVAL_NS, LONGEST_NS);
        let _ = NEXT_NS.compare_exchange(next, end + wait, Relaxed, Relaxed);
    }
    if IS_WISHED.load(Relaxed) && IS_WISHED.swap(false, Relaxed) {
        statistics::print();
    }
}

/// Publishes if there is a page: for a thread that runs no function of the C library.
pub(crate) fn publish_idle() {
    if PUBLISHER.page().is_some() {
        own_stack::run(|| publish_record(coarse_ns()));
    }
}

fn publish_at(now: u64) {
    publish_record(now);
    if let Some(record) = PUBLISHER.own_record() {
        heap_profile::look(record);
    }
}

fn publish_record(now: u64) {
    let inside = gate::enter();
    let pid = PID.load(Relaxed);
    let publish = || PUBLISHER.publish(now, pid, |sink| STACK.fill_record(sink, about()));
    if publish() == Published::Lost {
        // A forked child that was idle for long may have lost its record, and claims another.
        publish();
    }
    drop(inside);
}

/// The part of a record that describes the process, not the stack.
fn about() -> About {
    let mut flags = 0;
    for (flag, is_set) in [
        (flags::HAS_BACKGROUND, HAS_BACKGROUND.load(Relaxed)),
        (flags::IS_LAST, IS_ENDING.load(Relaxed)),
        (flags::IS_CHILD, PUBLISHER.is_child()),
    ] {
        flags |= if is_set { flag } else { 0 };
    }
    About { quarry: Name::new(env!("CARGO_PKG_VERSION")), flags, ..About::default() }
}

extern "C" fn publish_at_exit() {
    IS_ENDING.store(true, Relaxed);
    publish();
}

/// In the child of a fork: the record is the parent's; the child claims its own when it publishes.
pub(crate) fn adopt_in_child() {
    if NEXT_NS.load(Relaxed) != NEVER {
        PUBLISHER.adopt_in_child();
        note_pid();
        NEXT_NS.store(if wants_thread() { 0 } else { AT_FIRST }, Relaxed);
    }
}
