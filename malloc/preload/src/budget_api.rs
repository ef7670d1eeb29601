//! The budget, for C. The documentation in this file also becomes that of `quarry.h`.

use crate::abi::null;
use crate::heap_api::{answer, refused};
use core::ffi::{c_int, c_long, c_uint, c_void};
use core::ptr::{NonNull, null_mut};
use core::time::Duration;
use quarry::process;
use quarry::{
    Budget, Count, Error, Pressure, Quarry, Registration, Scanned, ShrinkControl, Shrinker,
    ShrinkerOptions,
};
use quarry_sys::errno::{self, KeepErrno};
use quarry_sys::own_stack;
use quarry_sys::report::fatal;

/// The value of QUARRY_SHRINK_STOP; `quarry.h` has a definition of its own.
const SHRINK_STOP: usize = usize::MAX;

/// Level of pressure: the high mark is reached.
pub const QUARRY_PRESSURE_NONE: c_int = 0;
/// Level of pressure: below the low mark; memory is being reclaimed.
pub const QUARRY_PRESSURE_LOW: c_int = 1;
/// Level of pressure: most pages and objects that reclaim examines are in use.
pub const QUARRY_PRESSURE_MEDIUM: c_int = 2;
/// Level of pressure: nearly all that reclaim examines is in use, or the high mark is out of reach.
pub const QUARRY_PRESSURE_CRITICAL: c_int = 3;

/// A registration of the program with the budget.
#[repr(C)]
pub struct QuarryRegistration {
    _private: [u8; 0],
}

/// The figures of the budget, in bytes, at one moment.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct QuarryBudget {
    /// The limit; SIZE_MAX without a limit.
    pub limit: usize,
    /// The min mark, in free bytes below the limit: reserved for reclaim itself.
    pub min: usize,
    /// The low mark, in free bytes below the limit: there reclaim starts.
    pub low: usize,
    /// The high mark, in free bytes below the limit: there reclaim ends.
    pub high: usize,
    /// Bytes in use.
    pub used: usize,
    /// Estimate of the bytes that requests could still get.
    pub available: usize,
    /// Bytes in pages of the page cache, including dirty and pinned pages.
    pub file: usize,
    /// Bytes in dirty pages of the page cache.
    pub dirty: usize,
    /// Bytes in pages of the page cache that reclaim cannot take.
    pub pinned: usize,
    /// Objects, slabs and mappings that Quarry keeps for later requests.
    pub slab_reclaimable: usize,
    /// Slabs of objects in use.
    pub slab_unreclaimable: usize,
    /// Bytes that shrinkers have reported as freeable.
    pub shrinkable: usize,
    /// Descriptors of Quarry, which the limit does not count.
    pub metadata: usize,
    /// Memory of the process outside of the budget.
    pub unaccounted: usize,
    /// The time within which 99.9 % of the reclaims inside requests have ended, in nanoseconds.
    pub direct_p999_ns: usize,
    /// One of QUARRY_PRESSURE_.
    pub pressure: c_int,
}

/// A cache of the program that frees objects when memory is short. Both functions run on a thread
/// of Quarry's own, with 192 KiB of stack and every signal blocked, or inside quarry_reclaim and
/// quarry_limit_wait; never inside malloc or free. They may call malloc and free.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct QuarryShrinker {
    /// Returns the number of objects that could be freed.
    pub count: Option<unsafe extern "C" fn(context: *mut c_void) -> usize>,
    /// Examines this many objects, the oldest first, and frees those that can be freed; returns the
    /// number of freed objects. If it has examined fewer, it sets scanned to their number.
    pub scan: Option<
        unsafe extern "C" fn(context: *mut c_void, objects: usize, scanned: *mut usize) -> usize,
    >,
    /// The cost of making an object again, if reading a page costs 2; 0 for almost nothing.
    pub seeks: c_uint,
    /// Objects of one scan; 0 stands for 128.
    pub batch: c_uint,
    /// Bytes of an object; 0 if unknown.
    pub object_bytes: usize,
}

fn code_of(level: Pressure) -> c_int {
    match level {
        Pressure::None => QUARRY_PRESSURE_NONE,
        Pressure::Low => QUARRY_PRESSURE_LOW,
        Pressure::Medium => QUARRY_PRESSURE_MEDIUM,
        Pressure::Critical => QUARRY_PRESSURE_CRITICAL,
    }
}

/// The budget; on `None`, errno is ENOTSUP or ENOMEM.
fn budget() -> Option<Budget> {
    process::serving().map_err(|error| errno::set(error.errno())).ok()?;
    Budget::get()
}

/// Writes the figures of the budget to the first `bytes` bytes of `out`: programs with an older
/// quarry.h have fewer figures. Returns 0, or -1 with ENOMEM, or ENOTSUP if QUARRY_DISABLE=1.
///
/// # Safety
/// `out` has room for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quarry_budget_read(out: *mut QuarryBudget, bytes: usize) -> c_int {
    let Some(budget) = budget() else { return -1 };
    let figures = own_stack::run(|| figures(budget));
    let bytes = bytes.min(size_of::<QuarryBudget>());
    // SAFETY: `out` has room for this many bytes (caller's promise), and `figures` is no shorter.
    unsafe {
        core::ptr::copy_nonoverlapping((&raw const figures).cast::<u8>(), out.cast(), bytes);
    }
    0
}

#[inline(never)]
fn figures(budget: Budget) -> QuarryBudget {
    let stats = budget.stats();
    QuarryBudget {
        limit: stats.limit,
        min: stats.min,
        low: stats.low,
        high: stats.high,
        used: stats.used,
        available: stats.available,
        file: stats.file,
        dirty: stats.dirty,
        pinned: stats.pinned,
        slab_reclaimable: stats.slab_reclaimable,
        slab_unreclaimable: stats.slab_unreclaimable,
        shrinkable: stats.shrinkable,
        metadata: stats.metadata,
        unaccounted: stats.unaccounted,
        direct_p999_ns: stats.direct_ns.p999 as usize,
        pressure: code_of(stats.pressure),
    }
}

/// Sets the marks below the limit. min bytes are kept for reclaim itself (SIZE_MAX: a number that
/// grows with the square root of the limit). scale is the gap between the marks in 10,000ths of the
/// limit, 1 to 3,000. Where the high mark would exceed a quarter of the limit, all are lowered in
/// proportion. Returns 0 or -1: EINVAL (also for a min above the limit or 16 TiB), ENOMEM, ENOTSUP.
#[unsafe(no_mangle)]
pub extern "C" fn quarry_set_marks(min: usize, scale: c_uint) -> c_int {
    let Some(budget) = budget() else { return -1 };
    answer(budget.set_marks((min != usize::MAX).then_some(min), scale))
}

/// Waits until use is within the limit of quarry_set_limit, for at most this many milliseconds.
/// Returns 0, or -1 with ETIMEDOUT, ENOMEM or ENOTSUP. The caller must not hold anything that a
/// shrinker needs.
#[unsafe(no_mangle)]
pub extern "C" fn quarry_limit_wait(milliseconds: c_long) -> c_int {
    let most = Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0));
    let progress = {
        let _errno = KeepErrno::new();
        Quarry::resize().map(|resize| resize.wait(most))
    };
    match progress {
        Ok(progress) if progress.is_done() => 0,
        Ok(_) => refused(libc::ETIMEDOUT),
        Err(error) => refused(error.errno()),
    }
}

/// Reclaims until this many bytes fewer are in use, or nothing more can be freed; returns the bytes
/// freed. Calls shrinkers: the caller must not hold anything that they need.
#[unsafe(no_mangle)]
pub extern "C" fn quarry_reclaim(bytes: usize) -> usize {
    budget().map_or(0, |budget| budget.reclaim(bytes))
}

struct OfProgram {
    shrinker: QuarryShrinker,
    context: *mut c_void,
}

// SAFETY: quarry_shrinker_register requires functions that any thread may call.
unsafe impl Send for OfProgram {}
// SAFETY: quarry_shrinker_register requires functions that any thread may call.
unsafe impl Sync for OfProgram {}

impl Shrinker for OfProgram {
    fn count(&self, _: &ShrinkControl) -> Count {
        let Some(count) = self.shrinker.count else { return Count::Unknown };
        // SAFETY: the program registered the function with this context.
        match unsafe { count(self.context) } {
            SHRINK_STOP => Count::Unknown,
            0 => Count::Empty,
            count => Count::Objects(count as u64),
        }
    }

    fn scan(&self, control: &ShrinkControl) -> Scanned {
        let Some(scan) = self.shrinker.scan else { return Scanned::Stop };
        let mut scanned = control.objects as usize;
        // SAFETY: the program registered the function with this context.
        match unsafe { scan(self.context, control.objects as usize, &raw mut scanned) } {
            SHRINK_STOP => Scanned::Stop,
            freed => Scanned::Objects { freed: freed as u64, scanned: scanned as u64 },
        }
    }
}

fn handle(registered: Result<Registration, Error>) -> *mut QuarryRegistration {
    registered.map_or_else(|error| null(error.errno()), |it| it.into_raw().cast().as_ptr())
}

/// Registers a shrinker, whose functions get `context`. Returns NULL with EINVAL (a function is
/// NULL), ENOSPC (64 are registered), ENOMEM, or ENOTSUP if QUARRY_DISABLE=1.
///
/// # Safety
/// Any thread may call the functions with the context, until quarry_unregister has returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quarry_shrinker_register(
    shrinker: *const QuarryShrinker,
    context: *mut c_void,
) -> *mut QuarryRegistration {
    // SAFETY: NULL, or a shrinker (caller's promise).
    let shrinker = unsafe { shrinker.as_ref() };
    let Some(&shrinker) = shrinker.filter(|one| one.count.is_some() && one.scan.is_some()) else {
        return null(libc::EINVAL);
    };
    let Some(budget) = budget() else { return null_mut() };
    let QuarryShrinker { seeks, batch, object_bytes, .. } = shrinker;
    let options = ShrinkerOptions { seeks, batch, object_bytes };
    handle(budget.register_shrinker(OfProgram { shrinker, context }, options))
}

struct Context(*mut c_void);

// SAFETY: quarry_pressure_register requires a function that any thread may call.
unsafe impl Send for Context {}
// SAFETY: quarry_pressure_register requires a function that any thread may call.
unsafe impl Sync for Context {}

impl Context {
    fn get(&self) -> *mut c_void {
        self.0
    }
}

/// Calls a function with one of QUARRY_PRESSURE_ when the pressure changes, on the threads that
/// call shrinkers. Returns NULL with EINVAL (no function), ENOSPC (16 are registered), ENOMEM, or
/// ENOTSUP if QUARRY_DISABLE=1.
///
/// # Safety
/// Any thread may call the function with the context, until quarry_unregister has returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quarry_pressure_register(
    tell: Option<unsafe extern "C" fn(context: *mut c_void, level: c_int)>,
    context: *mut c_void,
) -> *mut QuarryRegistration {
    let Some(tell) = tell else {
        return null(libc::EINVAL);
    };
    let Some(budget) = budget() else { return null_mut() };
    let context = Context(context);
    handle(budget.on_pressure(move |level: Pressure| {
        // SAFETY: the program registered the function with this context.
        unsafe { tell(context.get(), code_of(level)) };
    }))
}

/// Removes a registration, and waits until no call of its functions runs; NULL is ignored. The
/// caller must not hold anything that such a call needs, and must not be inside one. Prints a line
/// and aborts if there is no registration.
///
/// # Safety
/// The handle came from a registration, and no code uses it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quarry_unregister(registration: *mut QuarryRegistration) {
    if let Some(address) = NonNull::new(registration.cast::<u8>()) {
        if !Registration::is_at(address) {
            fatal(format_args!("quarry_unregister({registration:p}): nothing is registered there"));
        }
        // SAFETY: the caller's promise is passed on.
        drop(unsafe { Registration::from_raw(address) });
    }
}
