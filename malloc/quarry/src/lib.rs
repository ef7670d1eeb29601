//! A memory allocator that is the Linux kernel's memory management for one process: zones with a
//! buddy allocator, per-CPU lists of free blocks, slab caches.
//!
//! ```
//! #[global_allocator]
//! static A: quarry::Quarry = quarry::Quarry;
//!
//! fn main() {
//!     let numbers: Vec<u64> = (0..1000).collect();
//!     assert_eq!(numbers.iter().sum::<u64>(), 499_500);
//!     assert!(quarry::Quarry::owns(numbers.as_ptr().cast()));
//! }
//! ```
//!
//! When the program starts, Quarry reads its settings from `QUARRY_*` variables, as `libquarry.so`
//! does; a wrong name or value prints one line, and the program continues. With `QUARRY_DISABLE=1`
//! the C library serves every request.
//!
//! Features: `page-cache` adds `PageCache`, `Budget`, groups and shrinkers; `heaps` adds `Heap`;
//! `allocator-api2` makes `Quarry` and `&Heap` an `Allocator` of that crate; `profile` adds the
//! module `profile` and `QUARRY_PROFILE`; `guard` adds `QUARRY_GUARD`; `checks` adds `QUARRY_DEBUG`
//! and `QUARRY_HARDEN` as well; `override` serves the C and C++ code of the program, too, which
//! stays on the C library's `malloc` without it; `std`, the default, adds files and conversions
//! from and to `std::io::Error`.
//!
//! `docs/api-examples.md` in the repository has examples for each part of the API.
#![no_std]
#![cfg_attr(
    not(feature = "internals"),
    expect(dead_code, unreachable_pub, reason = "for what sees `internals`")
)]
#![cfg_attr(
    not(any(feature = "internals", feature = "override")),
    expect(unused_imports, reason = "for what sees `internals`, and for `abi`")
)]

// Each file uses only files above it; `system` stands alone.
//
//     error, instance
//     gate, file_name, heap_pressure
//     balancer, written
//     limits, heap_profile, statistics
//     settings
//     record
//     background, pressure
//     fork
//     signal
//     process, resize
//     profile
//     at_load
//     checks, raw_cache, raw_heap, pages
//     raw_reserve
//     cache
//     constructed, heap, allocator
//     page_cache, abi, dlopen
#[cfg(feature = "std")]
extern crate std;

// The files of `abi` are a module of other crates, too, and name this one.
#[cfg(feature = "override")]
extern crate self as quarry;

#[cfg(feature = "override")]
#[expect(unreachable_pub, reason = "exported to C by their names")]
mod abi;
#[cfg(feature = "allocator-api2")]
mod allocator;
#[cfg(feature = "heaps")]
mod at_limit;
mod at_load;
mod background;
mod balancer;
mod cache;
#[cfg(feature = "guard")]
mod checks;
mod constructed;
// A static program has no loader.
#[cfg(all(feature = "override", not(target_feature = "crt-static")))]
#[path = "abi/dlopen.rs"]
mod dlopen;
mod error;
mod file_name;
mod fork;
mod gate;
#[cfg(any(feature = "heaps", feature = "page-cache"))]
mod group;
#[cfg(feature = "heaps")]
mod groups;
#[cfg(feature = "heaps")]
mod heap;
#[cfg_attr(not(feature = "profile"), path = "no_heap_profile.rs")]
mod heap_profile;
#[cfg(feature = "heaps")]
mod inside;
mod instance;
mod limits;
#[cfg(feature = "page-cache")]
mod page_cache;
mod pages;
mod pressure;
// Only `libquarry.so` and `quarry-sqlite` use this module.
#[cfg(feature = "internals")]
pub mod process;
#[cfg(not(feature = "internals"))]
mod process;
#[cfg(feature = "profile")]
pub mod profile;
mod raw_cache;
#[cfg(feature = "heaps")]
mod raw_heap;
mod raw_reserve;
mod record;
mod resize;
mod settings;
mod signal;
mod statistics;
mod system;
mod watcher;
mod written;

pub use cache::{Cache, CacheBox, Reserve};
pub use constructed::{CacheGuard, ConstructedCache};
use core::alloc::{GlobalAlloc, Layout};
pub use error::{Error, OsError};
#[cfg(any(feature = "heaps", feature = "page-cache"))]
pub use group::{Group, GroupEntry, GroupOptions, GroupUse};
#[cfg(feature = "heaps")]
pub use group::{Inside, Scope};
#[cfg(feature = "heaps")]
pub use heap::{Heap, HeapBox};
use instance::{STACK, is_ready, zones};
#[cfg(feature = "page-cache")]
pub use page_cache::{
    Access, Backing, Budget, Effort, FileBacking, Flusher, Invalidate, Invalidated, Mapping,
    MappingBuilder, MappingOptions, NewPage, PageCache, PageCacheStats, PageRead, PageRef,
    PageSlot, PageWrite, RawMapping, RawPage, RawSlot, ReadOnly, ReadWrite, Registration,
};
pub use pages::{PageFlags, PagePool, Pages};
#[cfg(feature = "internals")]
pub use pages::{alloc_pages, free_pages};
use process::Mode;
#[cfg(feature = "page-cache")]
/// ```
/// use quarry::{Budget, Count, Scanned, ShrinkControl, Shrinker, ShrinkerOptions};
/// use std::sync::{Arc, Mutex};
///
/// struct Results(Mutex<Vec<String>>);
///
/// impl Shrinker for Results {
///     fn count(&self, _: &ShrinkControl) -> Count {
///         Count::Objects(self.0.lock().unwrap().len() as u64)
///     }
///     fn scan(&self, control: &ShrinkControl) -> Scanned {
///         let mut results = self.0.lock().unwrap();
///         let left = results.len().saturating_sub(control.objects as usize);
///         let freed = results.split_off(left).len() as u64;
///         Scanned::Objects { freed, scanned: freed }
///     }
/// }
///
/// let budget = Budget::get().expect("Quarry serves");
/// let results = Arc::new(Results(Mutex::new(vec!["x".repeat(1000); 10_000])));
/// let registered = budget.register_shrinker(results.clone(), ShrinkerOptions::default())?;
/// budget.reclaim(1 << 20);
/// assert!(results.0.lock().unwrap().len() < 10_000);
/// drop(registered);
/// # Ok::<(), quarry::Error>(())
/// ```
#[doc(inline)]
pub use quarry_cache::Shrinker;
#[cfg(feature = "page-cache")]
pub use quarry_cache::{Count, ReclaimCaller, Scanned, ShrinkControl, ShrinkerOptions};
pub use quarry_mm::frame::{MetadataKind, Order};
pub use quarry_mm::pcp::PcpCounters;
pub use quarry_mm::slab::{
    BarnStats, CacheId, CacheOptions, CacheParams, Constructor, Occupancy, Remaining, SlabStats,
};
pub use quarry_mm::stack::{
    BalanceStats, BudgetStats, DirectNs, HeapUse, LargeStats, MemoryHeld, Pressure, ServedBy,
    SlotUse, StackStats,
};
use quarry_mm::stack::{NotFreed, Request};
#[cfg(any(feature = "heaps", feature = "page-cache"))]
pub use quarry_mm::zone::GroupId;
pub use quarry_sys::broken::Broken;
pub use quarry_sys::lock::LockStats;
use quarry_sys::own_stack;
use quarry_sys::percpu::Object;
pub use raw_cache::RawCache;
#[cfg(feature = "heaps")]
pub use raw_heap::HeapStats;
#[cfg(feature = "heaps")]
#[cfg(feature = "internals")]
pub use raw_heap::RawHeap;
pub use raw_reserve::RawReserve;
pub use resize::{Progress, Resize};

/// Leaves out items that only a shared object without the standard library defines. A feature
/// cannot decide this, because cargo gives every crate of one build the same features.
#[cfg(all(feature = "internals", feature = "std"))]
#[doc(hidden)]
#[macro_export]
macro_rules! without_std {
    ($($item:item)*) => {};
}
/// Empty here: see the other definition.
#[cfg(all(feature = "internals", not(feature = "std")))]
#[doc(hidden)]
#[macro_export]
macro_rules! without_std {
    ($($item:item)*) => { $($item)* };
}

/// The process-wide allocator, for `#[global_allocator]`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quarry;

impl Quarry {
    /// Returns whether `address` lies in memory that Quarry manages. O(1).
    #[must_use]
    pub fn owns(address: *const u8) -> bool {
        is_ready() && zones().arena().pfn(address).is_some()
    }

    /// Sets the maximum number of bytes that the heap may hold, rounded down to 4 KiB, in place of
    /// `QUARRY_LIMIT`; `usize::MAX` lifts the limit. Memory in use stays in use, and the heap never
    /// exceeds what the control group allows. At the limit, requests fail after one reclaim. In the
    /// background, shrinkers free objects of the program; [`Resize`] shows the progress.
    ///
    /// # Errors
    /// [`Error::Disabled`], [`Error::NoMemory`] before Quarry serves, [`Error::NotAccepted`] below
    /// 4 KiB.
    pub fn set_limit(bytes: usize) -> Result<Resize, Error> {
        process::set_limit(bytes)?;
        Ok(Resize::to(bytes))
    }

    /// A [`Resize`] whose target is the current limit: tells how far the process is from the limit.
    ///
    /// # Errors
    /// [`Error::Disabled`], or [`Error::NoMemory`] if Quarry does not serve yet.
    pub fn resize() -> Result<Resize, Error> {
        process::serving().map(|()| Resize::current())
    }

    /// Maximum number of bytes that the heap may hold now: the limit by `QUARRY_LIMIT` or
    /// [`set_limit`](Self::set_limit), or that of the control group when last read, if it is lower.
    /// `None` if there is no limit. O(1).
    #[must_use]
    pub fn limit() -> Option<usize> {
        (process::ensure_ready() == Mode::Ready).then(limits::effective)?
    }

    /// Returns how full the slab of an object is, which shows whether moving the object would free
    /// memory. The caller keeps the object in use during the call. `None` for an address outside of
    /// slabs (a request above 32 KiB, memory that Quarry does not own), and under a slab policy
    /// that cannot tell. O(1), under the lock of the object's cache.
    ///
    /// ```
    /// use quarry::Quarry;
    /// use std::alloc::Layout;
    ///
    /// #[global_allocator]
    /// static A: Quarry = Quarry;
    ///
    /// /// Moves numbers out of a slab that is emptier than others.
    /// fn move_denser(number: &mut Box<[u64; 20]>) -> bool {
    ///     let place: *const [u64; 20] = &raw const **number;
    ///     if !Quarry::occupancy(place.cast()).is_some_and(|it| it.is_sparse) {
    ///         return false;
    ///     }
    ///     let layout = Layout::new::<[u64; 20]>();
    ///     let new: *mut [u64; 20] = Quarry::alloc_dense(layout).cast();
    ///     assert!(!new.is_null(), "out of memory");
    ///     // SAFETY: `new` is memory of this layout that only we know, which becomes a box. The
    ///     // old box is given up by its layout; its contents need no drop.
    ///     unsafe {
    ///         new.copy_from_nonoverlapping(place, 1);
    ///         let old = Box::into_raw(std::mem::replace(number, Box::from_raw(new)));
    ///         Quarry::dealloc_dense(old.cast(), layout);
    ///     }
    ///     true
    /// }
    ///
    /// let mut numbers: Vec<_> = (0..20_000).map(|it| Box::new([it; 20])).collect();
    /// let mut place = 0;
    /// numbers.retain(|_| {
    ///     place += 1;
    ///     place % 7 == 0
    /// });
    /// let moved = numbers.iter_mut().map(move_denser).filter(|it| *it).count();
    /// assert!(numbers.iter().enumerate().all(|(at, it)| it[19] == at as u64 * 7 + 6));
    /// assert!(moved > 0);
    /// ```
    #[must_use]
    pub fn occupancy(address: *const u8) -> Option<Occupancy> {
        let _inside = gate::enter();
        STACK.occupancy(address.cast_mut())
    }

    /// Takes memory for an object that moves out of a sparse slab. It comes from the fullest slab
    /// with a free object, not from the objects that CPUs hold: these include the ones freed last,
    /// which may lie in sparse slabs. Otherwise like [`GlobalAlloc::alloc`]; null without memory.
    #[must_use]
    pub fn alloc_dense(layout: Layout) -> *mut u8 {
        match process::alloc_dense(layout.size(), layout.align()) {
            Some(object) => object.as_ptr(),
            None => or_system(process::alloc(request(layout)), || system::alloc(layout)),
        }
    }

    /// Frees the old memory of a moved object into its slab at once: the slab may become empty.
    ///
    /// # Safety
    /// Same as [`GlobalAlloc::dealloc`].
    pub unsafe fn dealloc_dense(pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on; the second call frees what the first refused.
        unsafe {
            if !process::free_dense(pointer) {
                Self.dealloc(pointer, layout);
            }
        }
    }

    /// Gives free memory back to the operating system; returns how many bytes it has given back.
    #[must_use]
    pub fn trim() -> usize {
        if !is_ready() {
            return 0;
        }
        background::empty_slots();
        let _inside = gate::enter();
        own_stack::run(|| STACK.trim())
    }

    /// Checks every invariant of the heap, for tests of programs and for error reports. Threads on
    /// slow paths wait while this runs; takes milliseconds per gigabyte.
    ///
    /// # Errors
    /// The first equation that does not hold.
    pub fn validate() -> Result<(), Broken> {
        if !is_ready() {
            return Ok(());
        }
        gate::with_all_outside(|| own_stack::run(|| STACK.validate()))
    }

    /// The counts of the heap and its memory. `None` if the C library serves, or before the first
    /// request. O(size classes * CPUs), and reads a file of `/proc` (not with `QUARRY_SANDBOX=1`).
    #[must_use]
    pub fn stats() -> Option<StackStats> {
        process::stats()
    }
}

#[inline(always)]
const fn request(layout: Layout) -> Request {
    Request::of(layout.size()).aligned(layout.align())
}

/// Memory of the instance, or of the C library with `QUARRY_DISABLE=1`; null if there is none.
#[inline]
fn or_system(object: Option<Object>, system: impl FnOnce() -> *mut u8) -> *mut u8 {
    match object {
        Some(object) => object.as_ptr(),
        None if is_disabled() => system(),
        None => core::ptr::null_mut(),
    }
}

#[cold]
fn is_disabled() -> bool {
    process::ensure_ready() == Mode::Disabled
}

// SAFETY: allocations have at least the layout's size and alignment (classes and blocks round up),
// stay where they are until freed, and belong to one caller. With `QUARRY_DISABLE=1` the C library
// serves from the first request on, so no allocation meets the wrong allocator.
unsafe impl GlobalAlloc for Quarry {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let object = process::alloc(request(layout));
        or_system(object, || system::alloc(layout))
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, _layout: Layout) {
        // SAFETY: the caller gives up what `alloc` gave it.
        unsafe {
            if let Err(refusal) = STACK.fast.free(pointer) {
                free_refused(pointer, refusal);
            }
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let object = process::alloc(request(layout).zeroed());
        or_system(object, || system::alloc_zeroed(layout))
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let Some(object) = Object::new(pointer) else { return core::ptr::null_mut() };
        // SAFETY: on success, the caller gives up what `alloc` gave it, with this alignment.
        let moved = unsafe { process::realloc(object, size, layout.align()) };
        // SAFETY: the same promise; with Quarry disabled the memory came from the C library.
        or_system(moved, || unsafe { system::realloc(pointer, layout, size) })
    }
}

/// # Safety
/// `pointer` is null or came from [`Quarry`], and its user has given it up.
#[cold]
#[inline(never)]
unsafe fn free_refused(pointer: *mut u8, refusal: NotFreed) {
    let Some(object) = Object::new(pointer) else { return };
    if refusal == NotFreed::Outside && is_disabled() {
        // SAFETY: with Quarry disabled from the first request on, the pointer is the C library's.
        return unsafe { system::free(pointer) };
    }
    // SAFETY: the caller's promise is passed on.
    unsafe {
        if refusal != NotFreed::Outside || !process::free_watched(object) {
            process::free_refused(object, refusal);
        }
    }
}

// The documents' examples must compile, because users copy them first.
#[cfg(all(doctest, feature = "page-cache"))]
mod guides {
    #[doc = include_str!("../../../docs/page-cache.md")]
    struct PageCacheGuide;
    #[doc = include_str!("../../../docs/api.md")]
    struct ApiGuide;
    #[doc = include_str!("../../../docs/api-examples.md")]
    struct ApiExamples;
    #[doc = include_str!("../README.md")]
    struct ReadMe;
    #[cfg(feature = "heaps")]
    #[doc = include_str!("../../../docs/heaps.md")]
    struct HeapsGuide;
    #[cfg(feature = "heaps")]
    #[doc = include_str!("../../../docs/tenants.md")]
    struct TenantsGuide;
    #[doc = include_str!("../../../docs/budget.md")]
    struct BudgetGuide;
}
