//! The instance of the process, which is built by the first allocation.
//!
//! Not for programs, which use [`Quarry`](crate::Quarry): any version may change this module.

#[cfg(feature = "heaps")]
use crate::at_limit::tell;
use crate::balancer::{Balancer, Cache};
use crate::error::{Error, accept};
#[cfg(feature = "heaps")]
use crate::inside;
use crate::instance::{BUILDING, DISABLED, READY, STATE, UNTOUCHED, is_ready, zones};
use crate::settings::{self, confine_if_asked, settings, stack_options};
use crate::{background, fork, gate, heap_profile, limits, record, statistics};
use core::ptr::NonNull;
use quarry_mm::frame::{FRAME_BYTES, Kind};
use quarry_mm::heap::{LARGEST_BLOCK, classes};
#[cfg(feature = "heaps")]
use quarry_mm::own_heap::{Missed, OwnHeapId};
use quarry_mm::slab::{CacheId, SlabStats};
#[cfg(feature = "heaps")]
use quarry_mm::stack::Instrument;
#[cfg(doc)]
use quarry_mm::stack::Stack;
use quarry_mm::stack::{
    CachedPages, Entry, HeapUse, MIN_ALIGN, NotFreed, Request, StackHost, StackStats, Watch, stays,
    stays_after_all, with_headroom,
};
#[cfg(feature = "heaps")]
use quarry_mm::zone::GroupId;
use quarry_sys::clear::clear;
use quarry_sys::confined::is_confined;
use quarry_sys::errno::KeepErrno;
use quarry_sys::object;
use quarry_sys::os::{Linux, Os};
use quarry_sys::own_stack;
use quarry_sys::percpu::{self, Object, PerCpu};
use quarry_sys::primitive::{AtomicUsize, Ordering, relax, task};
use quarry_sys::report::warn;
use quarry_sys::statm::anonymous_bytes;
use quarry_sys::system_call::process_id;
use quarry_sys::topology;

pub use crate::instance::{ProcessConfig, STACK};
pub use crate::statistics::print_stats_to;

/// Objects up to this many bytes are cleared without a call of `clear`.
const FEW_BYTES: usize = 64;

static BUILDER: AtomicUsize = AtomicUsize::new(0);

/// The allocator that serves the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The instance serves.
    Ready,
    /// The C library serves, because of `QUARRY_DISABLE=1`, or without [`percpu::has_place`].
    Disabled,
    /// The operating system refused the first window, or the caller runs during the construction of
    /// the instance itself; a later call may succeed.
    Unavailable,
}

/// Sets the maximum number of bytes that the heap may hold, in place of `QUARRY_LIMIT`.
///
/// # Errors
/// Same as [`serving`].
pub fn set_limit(bytes: usize) -> Result<(), Error> {
    serving()?;
    accept("the limit", bytes, FRAME_BYTES..=usize::MAX)?;
    limits::set_own(bytes);
    Cache::want(true);
    Ok(())
}

/// Returns whether `dlopen` may leave `RTLD_DEEPBIND` set: if the C library serves anyway, or with
/// `QUARRY_DEEPBIND=1`. With that flag an object binds the C library's `malloc` and `free`.
#[must_use]
pub fn allows_deepbind() -> bool {
    ensure_ready() == Mode::Disabled || settings::known().is_some_and(|settings| settings.deepbind)
}

/// Like [`ensure_ready`], but returns a result.
///
/// # Errors
/// [`Error::Disabled`], or [`Error::NoMemory`] if the instance cannot be built yet.
pub fn serving() -> Result<(), Error> {
    match ensure_ready() {
        Mode::Ready => Ok(()),
        Mode::Disabled => Err(Error::Disabled),
        Mode::Unavailable => Err(Error::NoMemory),
    }
}

/// Builds the instance at the first call. Other threads wait for the thread that builds it.
#[inline]
pub fn ensure_ready() -> Mode {
    match STATE.load(Ordering::Acquire) {
        READY => Mode::Ready,
        DISABLED => Mode::Disabled,
        _ => make_ready(),
    }
}

#[cold]
#[inline(never)]
fn make_ready() -> Mode {
    // A fork waits until the instance is built: in its child no thread would finish building.
    let _inside = gate::enter();
    loop {
        match STATE.compare_exchange(UNTOUCHED, BUILDING, Ordering::Acquire, Ordering::Acquire) {
            Ok(_) => {
                BUILDER.store(task::current(), Ordering::Relaxed);
                // First, because this decides which system calls own_stack::run may make.
                confine_if_asked();
                if !percpu::has_place() {
                    return without_place();
                }
                return own_stack::run(build);
            }
            Err(READY) => return Mode::Ready,
            Err(DISABLED) => return Mode::Disabled,
            Err(_) if BUILDER.load(Ordering::Relaxed) == task::current() => {
                return Mode::Unavailable;
            }
            Err(_) => relax(),
        }
    }
}

/// Called when the process starts, before its threads and its filters of system calls: reads the
/// settings, properties of the system that the first allocation needs, and the addresses of
/// functions of the C library that the background thread needs.
/// Tried as well: to build the instance here. But some programs never allocate (lab/docs/tried.md).
pub fn start() {
    let _errno = KeepErrno::new();
    background::look_up();
    if !is_ready() {
        settings();
        ask_the_system();
    }
}

/// Returns whether this is the process that `quarry run` has turned into by `exec`.
#[must_use]
pub fn is_of_quarry_run() -> bool {
    let pid = settings().run_pid;
    // Only a process with the variable makes the system call.
    pid != 0 && pid == process_id()
}

/// Serves in spite of `QUARRY_DISABLE=1`, because the program has no other `malloc`.
pub fn serve_anyway() {
    if settings().disable.swap(false, Ordering::Relaxed) {
        warn(format_args!(
            "QUARRY_DISABLE=1: this program contains Quarry and no other malloc; Quarry serves"
        ));
        STATE.store(UNTOUCHED, Ordering::Release);
    }
}

/// Reads properties of the system that the C library's `malloc` does not read.
fn ask_the_system() {
    if !is_confined() {
        topology::ask();
        percpu::ask();
        limits::ask_machine();
    }
}

/// Brings in the part of [`STACK`] that a start writes, by one call. Without it half of these pages
/// would be faulted in twice: a start reads them before it writes them. A hint.
fn bring_in_stack() {
    const WRITTEN: usize = 34 << 10;
    let (start, page) = ((&raw const STACK).cast_mut().cast::<u8>(), Linux.page_size());
    let within = start.addr() % page;
    if let Some(first) = NonNull::new(start.wrapping_sub(within)) {
        // If the OS refuses, page faults bring the pages in later.
        let _ = Linux.populate(first, (within + WRITTEN).next_multiple_of(page));
    }
}

/// [`Mode::Disabled`] from now on: a thread's slot cannot be found.
#[cold]
#[inline(never)]
fn without_place() -> Mode {
    warn(format_args!(
        "the loader has no thread-local storage left for an object that is opened so late: the C \
         library's malloc serves it"
    ));
    STATE.store(DISABLED, Ordering::Release);
    Mode::Disabled
}

#[cold]
fn build() -> Mode {
    let _errno = KeepErrno::new();
    ask_the_system();
    let settings = settings();
    let options = stack_options();
    if settings.disable.load(Ordering::Relaxed) {
        STATE.store(DISABLED, Ordering::Release);
        return Mode::Disabled;
    }
    bring_in_stack();
    background::configure(settings.background, settings.purge_delay_ms);
    limits::configure(settings.cgroup, options.pages.limit_frames);
    // Once there are two threads, only the background thread calls membarrier(2).
    STACK.percpu().leave_barrier_to(None);
    if STACK.init(&Linux, &options, &Default::default()).is_err() {
        // Otherwise this thread could mistake another thread's attempt for its own.
        BUILDER.store(0, Ordering::Relaxed);
        STATE.store(UNTOUCHED, Ordering::Release);
        return Mode::Unavailable;
    }
    STATE.store(READY, Ordering::Release);
    // From here on the instance serves requests, including those of the next calls.
    fork::register_handlers();
    gate::GATE.is_of_process();
    statistics::register();
    heap_profile::start_if_asked();
    object::pin();
    #[cfg(feature = "guard")]
    crate::checks::start(options.checks);
    Mode::Ready
}

/// Like [`Stack::alloc`]; builds the instance first if needed.
#[inline]
pub fn alloc(request: Request) -> Option<Object> {
    let is_plain = request.align <= MIN_ALIGN;
    let object = match request.zeroed {
        false if is_plain => STACK.fast.alloc(request.size),
        true if is_plain => alloc_zeroed_fast(request.size),
        _ => None,
    };
    match object {
        Some(object) => Some(object),
        None => alloc_on_process(request),
    }
}

/// [`alloc`] after the fast path has refused. Keeps `errno`.
#[cold]
#[inline(never)]
pub fn alloc_on_process(request: Request) -> Option<Object> {
    #[cfg(feature = "heaps")]
    if STACK.instruments.has(Instrument::Groups)
        && let Some(served) = serve_inside(request)
    {
        return served;
    }
    // While no instrument is on, the fast path refuses such a size only if its array is empty.
    let is_miss = request.size <= classes::LARGEST && !STACK.instruments.are_on();
    if !(is_miss || request.align > MIN_ALIGN)
        && let Some(object) = alloc_outside(request.size, request.zeroed)
    {
        return Some(object);
    }
    let (size, again) = (request.size, || STACK.alloc(request));
    let retry = |done: Option<Object>| done.or_else(|| serve_again(size, &again));
    slow_path(size, || STACK.alloc_slow(request), retry)?
}

/// An object of at least `size` bytes, after the fast path has refused because a thread of the
/// process has entered a group: one at hand in the heap of the group that the running thread is
/// inside, or in its CPU's array. After `None`, call [`alloc_on_process`]. Keeps `errno`.
#[inline(always)]
#[must_use]
pub fn alloc_at_hand(_size: usize) -> Option<Object> {
    #[cfg(feature = "heaps")]
    return inside::alloc_at_hand(_size);
    #[cfg(not(feature = "heaps"))]
    None
}

/// Serves a request of a thread inside a group. `None`: it is inside none, and its CPU has no
/// object at hand.
#[cfg(feature = "heaps")]
#[inline(never)]
fn serve_inside(request: Request) -> Option<Option<Object>> {
    let Request { size, align, zeroed } = request;
    if align <= MIN_ALIGN
        && let Some(object) = alloc_at_hand(size)
    {
        if zeroed {
            // SAFETY: the object has at least `size` bytes, and only we know it.
            unsafe { clear(object, size) };
        }
        return Some(Some(object));
    }
    let heap = inside::heap()?;
    Some(alloc_own(heap, request, "malloc"))
}

#[inline(never)]
fn alloc_outside(size: usize, zeroed: bool) -> Option<Object> {
    let watched = STACK.watch.alloc_outside(&STACK, size, zeroed);
    watched.or_else(|| STACK.alloc_listed(size, zeroed))
}

/// Moves a value into memory of the heap, which `free` gives back; `None` if there is no memory.
pub fn boxed<T>(value: T) -> Option<NonNull<T>> {
    let place = alloc(Request::of(size_of::<T>()).aligned(align_of::<T>()))?.cast::<T>();
    // SAFETY: the memory has the size and the alignment of a T, and is ours.
    unsafe { place.write(value) };
    Some(place)
}

/// The fast path of an allocation that is all zero; after `None`, call [`alloc_on_process`].
#[inline(always)]
pub fn alloc_zeroed_fast(size: usize) -> Option<Object> {
    let object = STACK.fast.alloc(size)?;
    let start = object.as_ptr();
    if size <= FEW_BYTES {
        // Steps of 16 bytes: calloc and free of 16 or 48 bytes take 4 ns; with memset, 6.6 ns.
        // SAFETY: the object is ours alone; its size is a multiple of 16, and at least `size`.
        unsafe {
            start.write_bytes(0, 16);
            if size > 32 {
                start.add(16).write_bytes(0, 32);
            }
            start.add(size.saturating_sub(1) & !15).write_bytes(0, 16);
        }
        return Some(object);
    }
    // SAFETY: the object has at least `size` bytes, and only we know it.
    unsafe { clear(object, size) };
    // `pthread_create` allocates a table this way: see `background`.
    if background::may_be_due() {
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

/// # Safety
/// Same as [`Stack::realloc`].
#[inline]
pub(crate) unsafe fn realloc(object: Object, size: usize, align: usize) -> Option<Object> {
    // SAFETY: the caller's promise is passed on.
    let done = if align <= MIN_ALIGN { unsafe { realloc_fast(object, size) } } else { None };
    // SAFETY: as above; the fast paths have refused.
    done.or_else(|| unsafe { realloc_slow(object, size, align) })
}

/// [`Stack::realloc`] of an object that the fast paths can resize; after `None`, call
/// [`realloc_slow`].
///
/// # Safety
/// Same as [`Stack::realloc`].
#[inline(always)]
pub unsafe fn realloc_fast(object: Object, size: usize) -> Option<Object> {
    let old = STACK.fast.stride(object.as_ptr())?;
    // SAFETY: the caller's promise is passed on, and the object has `old` bytes.
    if stays(old, size) { Some(object) } else { unsafe { relocate(object, size, old) } }
}

/// # Safety
/// Same as [`Stack::realloc`], and the object has `old` bytes.
#[cold]
#[inline(never)]
unsafe fn relocate(object: Object, size: usize, old: usize) -> Option<Object> {
    if stays_after_all(old, size) {
        return Some(object);
    }
    let new = if size == 0 { None } else { STACK.fast.alloc(with_headroom(old, size)) }?;
    // SAFETY: two objects of at least `min(old, size)` bytes; the caller gives up the old one.
    unsafe {
        core::ptr::copy_nonoverlapping(object.as_ptr(), new.as_ptr(), old.min(size));
        free(object);
    }
    Some(new)
}

/// [`Stack::realloc`], after the fast paths have refused.
///
/// # Safety
/// Same as [`Stack::realloc`].
#[cold]
#[inline(never)]
pub unsafe fn realloc_slow(object: Object, size: usize, align: usize) -> Option<Object> {
    if align <= MIN_ALIGN && STACK.large_stays(object, size) {
        return Some(object);
    }
    #[cfg(feature = "heaps")]
    if let Some(heap) = STACK.own_heap_at(object.as_ptr()) {
        let request = Request::of(size).aligned(align);
        // SAFETY: the caller's promise is passed on; after a success comes no further attempt.
        return serve_own(heap, size, "realloc", || unsafe { STACK.own_realloc(object, request) });
    }
    // SAFETY: the caller's promise is passed on.
    serve(size, || unsafe { STACK.realloc(object, Request::of(size).aligned(align)) })
}

/// Serves a request from an own heap after [`Stack::own_take`]. `entry` is for reports.
#[cfg(feature = "heaps")]
#[cold]
#[inline(never)]
pub(crate) fn alloc_own(heap: OwnHeapId, request: Request, entry: &str) -> Option<Object> {
    serve_own(heap, request.size, entry, || STACK.own_alloc(heap, request))
}

/// Makes attempts, which need up to `size` bytes, until one succeeds or no more may help: at the
/// limit of the heap, once more after the program was told.
#[cfg(feature = "heaps")]
#[cold]
#[inline(never)]
fn serve_own(
    heap: OwnHeapId,
    size: usize,
    entry: &str,
    attempt: impl Fn() -> Result<Object, Missed>,
) -> Option<Object> {
    let once = || on_instance(size, &attempt).unwrap_or(Err(Missed::NoMemory));
    let record = || STACK.own.heap(heap.number);
    let mut done = once();
    if let Err(Missed::GroupLimit(group)) = done
        && make_room(group, size)
    {
        done = once();
    }
    let told = match done {
        Err(Missed::Limit) => record().map(|it| &it.telling),
        Err(Missed::GroupLimit(group)) => STACK.groups.get(group).map(|it| &it.telling),
        _ => None,
    };
    if told.is_some_and(|it| tell(it, size)) {
        done = once();
    }
    match done {
        Ok(object) => Some(object),
        Err(Missed::Dead) => STACK.own.no_heap(entry, heap),
        Err(Missed::Limit) => {
            record()?.note_refused();
            None
        }
        Err(Missed::GroupLimit(group)) => {
            STACK.groups.get(group)?.note_refusal();
            None
        }
        Err(_) => serve_again(size, &|| attempt().ok()),
    }
}

/// Makes room in a group that a request for `size` bytes has met the max limit of; returns whether
/// the request may have room now.
#[cfg(feature = "heaps")]
fn make_room(id: GroupId, size: usize) -> bool {
    let used = || STACK.groups.get(id).map_or(0, |group| group.used());
    let before = used();
    on_instance(size, || {
        STACK.own_make_room_in(id);
        let mut missing = size.div_ceil(FRAME_BYTES);
        while missing > 0 {
            let freed = Cache::reclaim_group(id);
            missing = if freed == 0 { 0 } else { missing.saturating_sub(freed) };
        }
    });
    used() < before
}

/// Same as [`Stack::usable_size`], but aborts if no allocation starts there.
#[must_use]
pub fn usable_size(object: Object) -> usize {
    let _errno = KeepErrno::new();
    let _inside = gate::enter();
    let misuse = |misuse| STACK.misuse(Entry::UsableSize, object.as_ptr(), misuse);
    STACK.usable_size(object).unwrap_or_else(misuse)
}

/// Same as [`Stack::usable_size`]; `None` if no allocation starts there.
#[must_use]
pub fn find_usable_size(object: Object) -> Option<usize> {
    let _inside = gate::enter();
    STACK.usable_size(object).ok()
}

/// Same as [`Stack::alloc_dense`]; after `None`, call [`alloc`].
pub fn alloc_dense(size: usize, align: usize) -> Option<Object> {
    #[cfg(feature = "heaps")]
    if let Some(heap) = inside::heap() {
        return alloc_own(heap, Request::of(size).aligned(align.max(MIN_ALIGN)), "mallocx");
    }
    on_instance(size, || STACK.alloc_dense(size, align))?
}

/// Same as [`Stack::free_dense`]; after false, call [`free`].
///
/// # Safety
/// Same as [`Stack::free_dense`].
pub unsafe fn free_dense(address: *mut u8) -> bool {
    // SAFETY: the caller's promise is passed on.
    is_ready() && giving_back(|| unsafe { STACK.free_dense(address) })
}

/// The counts of a cache. O(slots).
#[must_use]
pub fn cache_stats(id: CacheId) -> SlabStats {
    let _inside = gate::enter();
    STACK.cache(id).stats()
}

/// Same as [`Stack::stats`]; `None` if the instance has not been built.
fn counts() -> Option<StackStats> {
    if !is_ready() {
        return None;
    }
    let _inside = gate::enter();
    Some(STACK.stats())
}

/// The counts, with the memory that only the system knows of.
#[must_use]
pub fn stats() -> Option<StackStats> {
    let mut stats = counts()?;
    let (budget, resident) = (&mut stats.budget, anonymous_bytes().unwrap_or(0) as usize);
    budget.beside = resident.saturating_sub(budget.used);
    budget.unaccounted = budget.beside.saturating_sub(budget.metadata + budget.free_dirty);
    Some(stats)
}

/// From now on keeps all freed memory until a trim, as `QUARRY_PURGE_DELAY=-1` does; or, if `keeps`
/// is false, gives memory back again as the settings say. Returns whether the heap does so, and
/// was not told in vain: what was never switched on cannot be switched off.
#[must_use]
pub fn keep_all(keeps: bool) -> bool {
    if !is_ready() || !keeps && !background::keeps_all() {
        return false;
    }
    background::keep_for(if keeps { -1 } else { own_stack::run(|| settings().purge_delay_ms) });
    let keeps_now = background::keeps_all();
    let _inside = gate::enter();
    own_stack::run(|| STACK.mappings.keep_all(zones(), keeps_now));
    keeps_now == keeps
}

/// Used and free memory of the heap; all zero if there is no heap.
#[must_use]
pub fn heap_use() -> HeapUse {
    own_stack::run(|| counts().unwrap_or_default().heap)
}

/// Runs `request` of `size` bytes if the instance serves, and repeats it if that may help.
pub(crate) fn serve(size: usize, request: impl Fn() -> Option<Object>) -> Option<Object> {
    slow_path(size, &request, |object| object.or_else(|| serve_again(size, &request)))?
}

/// Runs `work` of about `size` bytes as one slow path of the instance, if it serves.
pub(crate) fn on_instance<T>(size: usize, work: impl FnOnce() -> T) -> Option<T> {
    slow_path(size, work, |done| done)
}

/// Runs `work` inside the gate, and `then` with its result outside, if the instance serves.
#[inline(always)]
fn slow_path<T>(size: usize, work: impl FnOnce() -> T, then: impl FnOnce(T) -> T) -> Option<T> {
    let _errno = KeepErrno::new();
    if ensure_ready() != Mode::Ready || limits::is_beyond_machine(size) {
        return None;
    }
    let inside = gate::enter();
    limits::before(size);
    Cache::foresee(size);
    let done = work();
    // Leaves the gate: a fork must not wait for a thread that waits for another, or starts one.
    drop(inside);
    let done = then(done);
    background::start_while_allocating();
    record::publish_if_due();
    Some(done)
}

/// Runs `request` again: first if the control group has room now, then after the slots of other
/// CPUs were emptied, and then after balances by the background thread, which may call functions
/// that this thread must not. Takes a `dyn`, because each of four generic copies would be large.
#[cold]
#[inline(never)]
fn serve_again(size: usize, request: &dyn Fn() -> Option<Object>) -> Option<Object> {
    let attempt = || {
        let _inside = gate::enter();
        request()
    };
    let mut object = {
        let _inside = gate::enter();
        if limits::is_raised() { request() } else { None }
    };
    if object.is_none() && size <= LARGEST_BLOCK && background::empty_slots_at_limit() {
        object = attempt();
    }
    let mut wait = <Cache as Balancer>::Wait::from(size);
    while object.is_none() && Cache::has_balanced(&mut wait) {
        object = attempt();
    }
    if object.is_none() {
        <Cache as CachedPages>::note_refusal(&STACK, size.div_ceil(FRAME_BYTES));
    }
    object
}

/// Runs `work` that frees memory as one slow path of the instance, which is ready.
pub(crate) fn giving_back<T>(work: impl FnOnce() -> T) -> T {
    let _errno = KeepErrno::new();
    let inside = gate::enter();
    let done = work();
    drop(inside);
    background::wake_reclaimer();
    record::publish_if_due();
    done
}

/// Ends Quarry's own thread in a process that has one thread of its own, before a call that the
/// kernel refuses to a process with several.
pub fn end_brief_thread() {
    background::dismiss();
}

/// Runs `work` while no other thread is on a slow path, so that a drain reaches every slot.
pub(crate) fn exclusively<T>(work: impl FnOnce() -> T) -> T {
    let _errno = KeepErrno::new();
    if is_confined() {
        background::empty_slots();
        return gate::with_all_outside(work);
    }
    gate::with_all_outside(|| STACK.percpu().lending_barrier(work))
}

/// Frees an object.
///
/// # Safety
/// Same as [`Stack::free`].
#[inline]
pub unsafe fn free(object: Object) {
    // SAFETY: the caller's promise is passed on.
    unsafe {
        if let Err(refusal) = STACK.fast.free(object.as_ptr()) {
            free_refused(object, refusal);
        }
    }
}

/// Frees an object that the fast path has just refused for this reason.
///
/// # Safety
/// Same as [`Stack::free_refused`].
#[cold]
#[inline(never)]
pub unsafe fn free_refused(object: Object, refusal: NotFreed) {
    #[cfg(feature = "heaps")]
    if refusal == NotFreed::Kind(Kind::OWN)
        // SAFETY: the caller's promise is passed on.
        && unsafe { free_own(object) }
    {
        return;
    }
    // SAFETY: the caller's promise is passed on.
    unsafe {
        if refusal != NotFreed::Kind(Kind::PAGES) || !STACK.free_listed(object.as_ptr()) {
            free_inside(object, refusal);
        }
    }
}

#[cfg(feature = "heaps")]
#[cold]
#[inline(never)]
fn trim_own(emptied: u32) {
    giving_back(|| STACK.own_trim(emptied));
}

/// Frees an object of an own heap's slab outside the gate; returns false, and does nothing, if it
/// is not one, or not in use. Keeps `errno`.
///
/// # Safety
/// Same as [`Stack::free`].
#[cfg(feature = "heaps")]
#[inline(always)]
unsafe fn free_own(object: Object) -> bool {
    // SAFETY: the caller's promise is passed on.
    match unsafe { STACK.own_give(object.as_ptr()) } {
        None => false,
        Some(0) => true,
        Some(emptied) => {
            trim_own(emptied);
            true
        }
    }
}

/// Frees an object that the fast path has refused as [`NotFreed::Outside`], if an instrument can do
/// so outside the gate; after false, call [`free_inside`]. Keeps `errno`.
///
/// # Safety
/// Same as [`Stack::free_refused`].
#[inline]
pub unsafe fn free_watched(object: Object) -> bool {
    // SAFETY: the caller's promise is passed on.
    let freed = unsafe { STACK.watch.free_outside(&STACK, object) };
    if freed == Some(true) {
        let _errno = KeepErrno::new();
        background::wake_reclaimer();
    }
    freed.is_some()
}

/// The part of [`free_refused`] inside the gate.
///
/// # Safety
/// Same as [`Stack::free_refused`].
#[inline(never)]
pub unsafe fn free_inside(object: Object, refusal: NotFreed) {
    let _errno = KeepErrno::new();
    let inside = gate::enter();
    // SAFETY: the caller's promise is passed on.
    unsafe { STACK.free_refused(object, refusal) };
    drop(inside);
    background::wake_reclaimer();
}
