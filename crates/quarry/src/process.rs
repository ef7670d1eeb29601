//! The process-wide instance: built at the first allocation, asked by everybody.

use crate::{background, environment, fork, limits, statistics};
use core::ffi::{CStr, c_char};
use core::fmt::Write;
use quarry_core::heap::LARGEST_BLOCK;
use quarry_core::heap::options::StackOptions;
use quarry_core::slab::{Line, Registered, SLAB_POLICIES, line_of};
use quarry_core::stack::{HeapUse, MIN_ALIGN, Stack, StackConfig, print_stats};
use quarry_sys::clear::clear;
use quarry_sys::confined::{self, Confined, is_confined};
use quarry_sys::object;
use quarry_sys::os::{Linux, Os};
use quarry_sys::percpu::{self, NativeSlots, Object, PerCpu};
use quarry_sys::primitive::{AtomicU32, AtomicUsize, Ordering, relax};
use quarry_sys::report::FdWriter;
use quarry_sys::thread::thread_pointer;
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

/// What the process may use.
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

/// Keeps `errno` as it was: what the operating system says to the allocator is not the caller's.
pub struct KeepErrno(i32);

impl KeepErrno {
    /// Remembers it.
    #[must_use]
    pub fn new() -> Self {
        // SAFETY: __errno_location returns this thread's own errno.
        Self(unsafe { *libc::__errno_location() })
    }
}

impl KeepErrno {
    /// Says what the caller is to find instead.
    pub fn set(&mut self, value: i32) {
        self.0 = value;
    }
}

impl Default for KeepErrno {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for KeepErrno {
    fn drop(&mut self) {
        // SAFETY: as in `new`.
        unsafe { *libc::__errno_location() = self.0 };
    }
}

/// Whether the instance has been built.
#[must_use]
pub fn is_ready() -> bool {
    STATE.load(Ordering::Acquire) == READY
}

/// Sets the most bytes that the heap may hold, in place of the option; false where the C library
/// serves, or nobody can yet.
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

/// Whether an object may be opened so that it binds the C library's `malloc` and `free`: where the
/// C library serves the program as well, and where `QUARRY_DEEPBIND=1` asks for it.
#[must_use]
pub fn allows_deepbind() -> bool {
    ensure_ready() == Mode::Disabled || environment::keeps_deepbind()
}

/// Builds the instance if nobody has. Threads that come meanwhile wait for the builder.
pub fn ensure_ready() -> Mode {
    match STATE.load(Ordering::Acquire) {
        READY => return Mode::Ready,
        DISABLED => return Mode::Disabled,
        _ => {}
    }
    // A child never sees an instance that somebody else was about to build.
    let _inside = fork::enter();
    loop {
        match STATE.compare_exchange(UNTOUCHED, BUILDING, Ordering::Acquire, Ordering::Acquire) {
            Ok(_) => return build(),
            Err(READY) => return Mode::Ready,
            Err(DISABLED) => return Mode::Disabled,
            Err(_) if BUILDER.load(Ordering::Relaxed) == thread_pointer() => {
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

/// What `malloc` of the C library does not ask.
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
    BUILDER.store(thread_pointer(), Ordering::Relaxed);
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
    print_stats(&STACK, &mut out)
}

/// As [`Stack::alloc`], building the instance first where needed.
#[inline]
pub fn alloc(size: usize) -> Option<Object> {
    match STACK.alloc_fast(size) {
        Some(object) => Some(object),
        None => alloc_slow(size),
    }
}

/// What [`alloc`] does where the fast path refuses. Keeps `errno`, as do all that follow.
#[cold]
#[inline(never)]
pub fn alloc_slow(size: usize) -> Option<Object> {
    serve(size, || STACK.alloc_slow(size))
}

/// As [`Stack::alloc_aligned`], building the instance first where needed.
pub fn alloc_aligned(size: usize, align: usize) -> Option<Object> {
    serve(size, || STACK.alloc_aligned(size, align))
}

/// As [`Stack::alloc_zeroed`], building the instance first where needed.
#[inline]
pub fn alloc_zeroed(size: usize) -> Option<Object> {
    match alloc_zeroed_fast(size) {
        Some(object) => Some(object),
        None => alloc_zeroed_slow(size),
    }
}

/// The fast path of [`alloc_zeroed`]: `None` means [`alloc_zeroed_slow`].
#[inline(always)]
pub fn alloc_zeroed_fast(size: usize) -> Option<Object> {
    let object = STACK.alloc_fast(size)?;
    let start = object.as_ptr();
    if size <= 64 {
        // Without a call, and in whole words of 16: 4 ns with the free for 16 and 48 bytes where
        // memset takes 6.6.
        // SAFETY: the object has at least `size` bytes, is a multiple of 16 of them, and nobody
        // else knows it.
        unsafe {
            start.write_bytes(0, 16);
            if size > 32 {
                start.add(16).write_bytes(0, 32);
            }
            start.add(size.saturating_sub(1) & !15).write_bytes(0, 16);
        }
        return Some(object);
    }
    // This is how `pthread_create` allocates, maybe in a program that has grown without threads.
    if background::may_be_due() {
        // SAFETY: as above.
        return Some(unsafe { clear_slow(object, size) });
    }
    // SAFETY: as above.
    unsafe { clear(object, size) };
    Some(object)
}

/// # Safety
/// `object` has at least `size` bytes and nobody else knows it.
#[cold]
#[inline(never)]
unsafe fn clear_slow(object: Object, size: usize) -> Object {
    let _errno = KeepErrno::new();
    background::start_while_allocating();
    // SAFETY: the caller's promise.
    unsafe { clear(object, size) };
    object
}

/// What [`alloc_zeroed`] does where the fast path refuses.
#[cold]
#[inline(never)]
pub fn alloc_zeroed_slow(size: usize) -> Option<Object> {
    serve(size, || STACK.alloc_zeroed(size))
}

/// As [`Stack::alloc_zeroed_aligned`], building the instance first where needed.
pub fn alloc_zeroed_aligned(size: usize, align: usize) -> Option<Object> {
    serve(size, || STACK.alloc_zeroed_aligned(size, align))
}

/// As [`Stack::realloc_aligned`].
///
/// # Safety
/// As [`Stack::realloc_aligned`].
pub unsafe fn realloc_aligned(object: Object, size: usize, align: usize) -> Option<Object> {
    // SAFETY: the caller's promise is passed on.
    serve(size, || unsafe { STACK.realloc_aligned(object, size, align) })
}

/// As [`Stack::realloc`].
///
/// # Safety
/// As [`Stack::realloc`].
#[inline]
pub unsafe fn realloc(object: Object, size: usize) -> Option<Object> {
    if STACK.stays_fast(object.as_ptr(), size) {
        return Some(object);
    }
    // SAFETY: the caller's promise is passed on.
    unsafe { realloc_moving(object, size) }
}

/// What [`realloc`] does where the object cannot stay on its fast path.
///
/// # Safety
/// As [`Stack::realloc`].
#[inline(never)]
pub unsafe fn realloc_moving(object: Object, size: usize) -> Option<Object> {
    // SAFETY: the caller's promise is passed on; what was copied is used no more.
    unsafe {
        if let Some(new) = STACK.copy_fast(object, size) {
            free(object);
            return Some(new);
        }
        if stays_large(object, size) {
            return Some(object);
        }
        serve(size, || STACK.realloc_aligned(object, size, MIN_ALIGN))
    }
}

fn stays_large(object: Object, size: usize) -> bool {
    let _errno = KeepErrno::new();
    let _inside = fork::enter();
    STACK.stays_large(object, size)
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

/// As [`Stack::heap_use`]; nothing where the instance has not been built.
#[must_use]
pub fn heap_use() -> HeapUse {
    if !is_ready() {
        return HeapUse::default();
    }
    let _inside = fork::enter();
    STACK.heap_use()
}

/// As [`Stack::validate`], where the instance has been built. Whoever is on a slow path waits.
///
/// # Errors
/// As there.
///
/// # Panics
/// As there.
pub fn validate() -> Result<(), &'static str> {
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
    // Neither who waits for another thread nor who starts one is waited for by a fork.
    drop(inside);
    if object.is_none() && size <= LARGEST_BLOCK && background::empty_slots_at_limit() {
        // What was found nowhere else may have been in the slots of other CPUs.
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
pub unsafe fn free(object: Object) {
    // SAFETY: the caller's promise is passed on.
    unsafe {
        if !STACK.free_fast(object.as_ptr()) {
            free_slow(object);
        }
    }
}

/// # Safety
/// As [`Stack::free`].
#[cold]
#[inline(never)]
unsafe fn free_slow(object: Object) {
    let _errno = KeepErrno::new();
    let inside = fork::enter();
    // SAFETY: the caller's promise is passed on.
    unsafe { STACK.free_slow(object) };
    drop(inside);
    background::wake_reclaimer();
}

/// Frees what the fast path refused, and sees to it that memory goes back in time.
///
/// # Safety
/// As [`Stack::free`].
pub unsafe fn free_refused(object: Object) {
    // SAFETY: the caller's promise is passed on.
    unsafe { free_slow(object) };
}
