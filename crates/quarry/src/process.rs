//! The process-wide instance: built at the first allocation.
//!
//! This module is for `libquarry.so`, which stands on the halves of each request, and may change
//! with any version. Programs use [`Quarry`](crate::Quarry).

use crate::{background, environment, fork, limits, statistics};
use core::ffi::{CStr, c_char};
use core::fmt::Write;
use quarry_core::heap::LARGEST_BLOCK;
use quarry_core::heap::options::StackOptions;
use quarry_core::slab::{Line, Registered, SLAB_POLICIES, line_of};
use quarry_core::stack::{MIN_ALIGN, Request, Section, Stack, StackConfig, StackStats};
use quarry_sys::broken::Broken;
use quarry_sys::confined::{self, is_confined};
use quarry_sys::errno::KeepErrno;
use quarry_sys::object;
use quarry_sys::os::{Confined, Linux, Os};
use quarry_sys::percpu::{self, NativeSlots, Object, PerCpu};
use quarry_sys::primitive::{AtomicU32, AtomicUsize, Ordering, relax, task};
use quarry_sys::report::FdWriter;
use quarry_sys::topology;

/// The slab policy that is compiled in: what `QUARRY_BUILD_SLAB` names while this crate is built.
pub(crate) const SLAB: &str = match option_env!("QUARRY_BUILD_SLAB") {
    Some(name) => name,
    None => SLAB_POLICIES[0].name,
};

/// The policies of the process-wide instance.
pub struct ProcessConfig;

impl StackConfig for ProcessConfig {
    type PerCpu = NativeSlots;
    type Slab = <Line<{ line_of(SLAB) }> as Registered>::Policy;
}

/// The instance. Its fast paths refuse everything until [`ensure_ready`] has built it.
pub static STACK: Stack<ProcessConfig> = Stack::new();

unsafe extern "C" {
    /// glibc's name of the program without its directory.
    static program_invocation_short_name: *const c_char;
}

const UNTOUCHED: u32 = 0;
const BUILDING: u32 = 1;
const READY: u32 = 2;
const DISABLED: u32 = 3;

static STATE: AtomicU32 = AtomicU32::new(UNTOUCHED);
static BUILDER: AtomicUsize = AtomicUsize::new(0);

/// The allocator that serves the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The instance serves.
    Ready,
    /// `QUARRY_DISABLE=1`: the C library serves.
    Disabled,
    /// The operating system refused the first window, or the caller is inside the building of
    /// the instance itself; a later call may succeed.
    Unavailable,
}

/// Returns whether the instance has been built.
pub(crate) fn is_ready() -> bool {
    STATE.load(Ordering::Acquire) == READY
}

/// Sets the most bytes that the heap may hold, in place of the option; false where the C library
/// serves, or the instance cannot be built yet.
pub fn set_limit(bytes: usize) -> bool {
    let is_served = ensure_ready() == Mode::Ready;
    if is_served {
        limits::set_own(bytes);
    }
    is_served
}

/// Most bytes that the heap may hold now; `None` where there is no limit.
#[must_use]
pub fn limit() -> Option<usize> {
    (ensure_ready() == Mode::Ready).then(limits::effective)?
}

/// Returns whether an object may be opened so that it binds the C library's `malloc` and `free`:
/// where the C library serves the program as well, and where `QUARRY_DEEPBIND=1` asks for it.
#[must_use]
pub fn allows_deepbind() -> bool {
    ensure_ready() == Mode::Disabled || environment::keeps_deepbind()
}

/// Builds the instance at the first call. Threads that come meanwhile wait for the builder.
pub fn ensure_ready() -> Mode {
    match STATE.load(Ordering::Acquire) {
        READY => return Mode::Ready,
        DISABLED => return Mode::Disabled,
        _ => {}
    }
    // A child never sees an instance that another thread was about to build.
    let _inside = fork::enter();
    loop {
        match STATE.compare_exchange(UNTOUCHED, BUILDING, Ordering::Acquire, Ordering::Acquire) {
            Ok(_) => return build(),
            Err(READY) => return Mode::Ready,
            Err(DISABLED) => return Mode::Disabled,
            Err(_) if BUILDER.load(Ordering::Relaxed) == task::current() => {
                return Mode::Unavailable;
            }
            Err(_) => relax(),
        }
    }
}

/// Called when the process starts, before its threads and its filters of system calls: asks what
/// the first allocation will need to know, and where the C library keeps what the background thread
/// needs. A process that never allocates pays for no more than that.
pub fn start() {
    let _errno = KeepErrno::new();
    background::find_least_stack();
    if !is_ready() {
        confine_if_asked();
        ask_the_system();
    }
}

fn confine_if_asked() {
    if environment::asks_for_confinement() {
        confined::confine();
    }
}

/// Asks the system what `malloc` of the C library does not ask.
fn ask_the_system() {
    if !is_confined() {
        topology::ask();
        percpu::ask();
        limits::ask_machine();
    }
}

#[cold]
fn build() -> Mode {
    let _errno = KeepErrno::new();
    BUILDER.store(task::current(), Ordering::Relaxed);
    confine_if_asked();
    ask_the_system();
    let mut options = StackOptions::default();
    let settings = environment::apply(&mut options);
    if settings.disable {
        STATE.store(DISABLED, Ordering::Release);
        return Mode::Disabled;
    }
    let os: &dyn Os = if is_confined() { &Confined } else { &Linux };
    background::configure(settings.background, settings.purge_delay_ms);
    limits::configure(settings.cgroup, options.pages.limit_frames);
    // From the first second thread on, the barrier is the background thread's.
    STACK.percpu().leave_barrier_to(None);
    if STACK.init(os, &options).is_err() {
        // Or this thread would take another's attempt for its own.
        BUILDER.store(0, Ordering::Relaxed);
        STATE.store(UNTOUCHED, Ordering::Release);
        return Mode::Unavailable;
    }
    STATE.store(READY, Ordering::Release);
    // From here on the instance serves, also what these calls may allocate.
    fork::register_handlers();
    statistics::register();
    object::pin();
    Mode::Ready
}

/// Prints the statistics to a file descriptor; what cannot be written is dropped.
pub fn print_stats_to(fd: i32) {
    let _ = write_stats(fd);
}

/// Writes the statistics to a file descriptor; `errno` says why that failed.
pub(crate) fn write_stats(fd: i32) -> core::fmt::Result {
    let mut out = FdWriter(fd);
    // SAFETY: getpid has no preconditions; glibc sets the short name before any constructor runs,
    // and it stays a NUL-terminated string.
    let (pid, name) = unsafe { (libc::getpid(), CStr::from_ptr(program_invocation_short_name)) };
    let name = name.to_str().unwrap_or("?");
    write!(out, "quarry {}: {name}[{pid}]", env!("CARGO_PKG_VERSION"))?;
    match STATE.load(Ordering::Acquire) {
        READY => {}
        DISABLED => return out.write_str(": QUARRY_DISABLE=1, the C library serves\n"),
        _ => return out.write_str(": nothing was asked of it\n"),
    }
    let _inside = fork::enter();
    out.write_str("\n")?;
    write!(out, "{}", STACK.report(Section::ALL))
}

/// As [`Stack::alloc`], building the instance first where needed.
#[inline]
pub fn alloc(request: Request) -> Option<Object> {
    let is_plain = request.align <= MIN_ALIGN;
    let object = match request.zeroed {
        false if is_plain => STACK.halves().alloc_fast(request.size),
        true if is_plain => alloc_zeroed_fast(request.size),
        _ => None,
    };
    match object {
        Some(object) => Some(object),
        None => alloc_slow(request),
    }
}

/// [`alloc`] where the fast path refuses. Keeps `errno`, as do all functions that follow.
#[cold]
#[inline(never)]
pub fn alloc_slow(request: Request) -> Option<Object> {
    serve(request.size, || STACK.halves().alloc_slow(request))
}

/// The fast path of an allocation that is all zero: `None` means [`alloc_slow`].
#[inline(always)]
pub fn alloc_zeroed_fast(size: usize) -> Option<Object> {
    let object = STACK.halves().alloc_zeroed_fast(size)?;
    // This is how `pthread_create` allocates a table, maybe in a program that has grown without
    // threads.
    if size > 64 && background::may_be_due() {
        start_thread();
    }
    Some(object)
}

#[cold]
#[inline(never)]
fn start_thread() {
    let _errno = KeepErrno::new();
    background::start_while_allocating();
}

/// As [`Stack::realloc`].
///
/// # Safety
/// As [`Stack::realloc`].
#[inline]
pub(crate) unsafe fn realloc(object: Object, request: Request) -> Option<Object> {
    if request.align <= MIN_ALIGN && STACK.halves().stays_fast(object.as_ptr(), request.size) {
        return Some(object);
    }
    // SAFETY: the caller's promise is passed on.
    unsafe { realloc_slow(object, request) }
}

/// [`Stack::realloc`] where the object cannot stay on its fast path.
///
/// # Safety
/// As [`Stack::realloc`].
#[inline(never)]
pub unsafe fn realloc_slow(object: Object, request: Request) -> Option<Object> {
    // SAFETY: the caller's promise is passed on; what has moved is freed once.
    unsafe {
        if request.align <= MIN_ALIGN {
            let moved = STACK.halves().move_fast(object, request.size, |object| free(object));
            if moved.is_some() {
                return moved;
            }
            if stays_large(object, request.size) {
                return Some(object);
            }
        }
        serve(request.size, || STACK.halves().realloc_slow(object, request))
    }
}

fn stays_large(object: Object, size: usize) -> bool {
    let _errno = KeepErrno::new();
    let _inside = fork::enter();
    STACK.halves().stays_large(object, size)
}

/// As [`Stack::usable_size`].
#[must_use]
pub fn usable_size(object: Object) -> usize {
    let _errno = KeepErrno::new();
    let _inside = fork::enter();
    STACK.usable_size(object)
}

/// Returns to the operating system what can be returned, and the bytes that this was.
pub fn trim() -> usize {
    if !is_ready() {
        return 0;
    }
    background::empty_slots();
    let _inside = fork::enter();
    STACK.trim()
}

/// As [`Stack::stats`]; `None` where the instance has not been built.
#[must_use]
pub fn stats() -> Option<StackStats> {
    if !is_ready() {
        return None;
    }
    let _inside = fork::enter();
    Some(STACK.stats())
}

/// As [`Stack::validate`], where the instance has been built. Threads on slow paths wait.
///
/// # Errors
/// As there.
pub fn validate() -> Result<(), Broken> {
    if !is_ready() {
        return Ok(());
    }
    fork::with_all_outside(|| STACK.validate())
}

/// Runs `request` of `size` bytes on the instance, if it serves; once more where it has found
/// nothing and the control group has room by now.
fn serve(size: usize, request: impl Fn() -> Option<Object>) -> Option<Object> {
    let _errno = KeepErrno::new();
    if ensure_ready() != Mode::Ready || limits::is_beyond_machine(size) {
        return None;
    }
    let inside = fork::enter();
    limits::before(size);
    let mut object = request().or_else(|| if limits::is_raised() { request() } else { None });
    // A fork must not wait for a thread that waits for another one, or starts one.
    drop(inside);
    if object.is_none() && size <= LARGEST_BLOCK && background::empty_slots_at_limit() {
        // The slots of other CPUs may have had the only free objects.
        let _inside = fork::enter();
        object = request();
    }
    background::start_while_allocating();
    object
}

/// As [`Stack::free`].
///
/// # Safety
/// As [`Stack::free`].
#[inline]
pub(crate) unsafe fn free(object: Object) {
    // SAFETY: the caller's promise is passed on.
    unsafe {
        if !STACK.halves().free_fast(object.as_ptr()) {
            free_slow(object);
        }
    }
}

/// Frees what the fast path refused, and sees to it that memory goes back in time.
///
/// # Safety
/// As [`Stack::free`].
#[cold]
#[inline(never)]
pub unsafe fn free_slow(object: Object) {
    let _errno = KeepErrno::new();
    let inside = fork::enter();
    // SAFETY: the caller's promise is passed on.
    unsafe { STACK.halves().free_slow(object) };
    drop(inside);
    background::wake_reclaimer();
}
