//! The functions that jemalloc has beside malloc's (`jemalloc(3)` of 5.3), for the programs that
//! call them: redis, Valkey and BIND among those of Debian.
//!
//! Such a program is linked with jemalloc. Without these functions, with Quarry in front, it would
//! get a part of its memory from jemalloc, and statistics of a heap that it hardly uses. Libraries
//! that look for jemalloc and then read `thread.allocatedp` (folly, RocksDB) do not find it here,
//! because Quarry counts nothing per thread; they go on without jemalloc's functions.

use crate::abi::fast_path::{free_within, malloc_within};
use crate::abi::malloc::{
    calloc_slow, free_of_size, malloc_usable_size, memalign_within, realloc_within,
};
use crate::jemalloc_bins as bins;
use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use quarry::process::{self, Mode, STACK, ensure_ready};
use quarry::{Quarry, process::print_stats_to};
use quarry_mm::frame::FRAME_BYTES;
use quarry_mm::heap::{LARGEST_REQUEST, classes};
use quarry_mm::stack::{Entry, MIN_ALIGN, StackStats};
use quarry_sys::errno::KeepErrno;
use quarry_sys::own_stack;
use quarry_sys::primitive::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Flags of a request: log2 of the alignment, zeroed memory, and no cache of a thread.
const ALIGN: c_int = 0x3f;
const ZERO: c_int = 0x40;
const CACHE: c_int = 0xf_ff00;
pub(crate) const NO_CACHE: c_int = 0x100;

fn align_of(flags: c_int) -> usize {
    1 << (flags & ALIGN)
}

/// Returns whether a request goes past the caches: of CPUs, here, and in `libquarry-full.so`.
fn is_past_caches(flags: c_int) -> bool {
    cfg!(feature = "full") && flags & CACHE == NO_CACHE
}

/// Like malloc, with an alignment and zeroed memory by `flags`: all usable bytes are zeroed. In
/// `libquarry-full.so` a request past the caches gets an object from the fullest slab, as a program
/// that defragments its memory wants. Quarry has no arenas, and ignores their numbers.
#[unsafe(no_mangle)]
pub extern "C" fn mallocx(size: usize, flags: c_int) -> *mut c_void {
    let (align, is_zeroed) = (align_of(flags), flags & ZERO != 0);
    let (pointer, zeroed) = if is_zeroed && align <= MIN_ALIGN {
        (calloc_slow(1, size), size)
    } else {
        let dense = is_past_caches(flags).then(|| process::alloc_dense(size, align)).flatten();
        let pointer = match dense {
            Some(object) => object.as_ptr().cast(),
            None if align <= MIN_ALIGN => malloc_within(size),
            None => memalign_within(align, size),
        };
        (pointer, 0)
    };
    if is_zeroed && !pointer.is_null() {
        // SAFETY: the allocation is live, and has more than `zeroed` bytes.
        unsafe { pointer.byte_add(zeroed).write_bytes(0, malloc_usable_size(pointer) - zeroed) };
    }
    pointer
}

/// Like realloc, but with `flags`; also the new bytes are zeroed then. A size of 0 counts as 1.
///
/// # Safety
/// Same as realloc, and `pointer` is not null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rallocx(pointer: *mut c_void, size: usize, flags: c_int) -> *mut c_void {
    // SAFETY: the caller's promise is passed on.
    let old = unsafe { malloc_usable_size(pointer) };
    let resized = if align_of(flags) <= MIN_ALIGN {
        // SAFETY: as above.
        unsafe { realloc_within(pointer, size.max(1)) }
    } else {
        let resized = memalign_within(align_of(flags), size);
        if !resized.is_null() {
            // SAFETY: both allocations have as many bytes, and are apart; the old one is given up.
            unsafe {
                resized.copy_from_nonoverlapping(pointer, old.min(malloc_usable_size(resized)));
                free_within(pointer);
            }
        }
        resized
    };
    if flags & ZERO != 0 && !resized.is_null() {
        // SAFETY: `resized` is live, and the bytes from `old` to its end are within it.
        unsafe {
            let more = malloc_usable_size(resized).saturating_sub(old);
            resized.byte_add(old).write_bytes(0, more);
        }
    }
    resized
}

/// Resizes in place, if possible, to `size` bytes and at most `extra` more. Returns the usable
/// bytes. Quarry leaves the allocation as it is: realloc alone extends blocks.
///
/// # Safety
/// `pointer` came from this allocator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xallocx(
    pointer: *mut c_void,
    _size: usize,
    _extra: usize,
    _flags: c_int,
) -> usize {
    // SAFETY: the caller's promise is passed on.
    unsafe { malloc_usable_size(pointer) }
}

/// Usable bytes.
///
/// # Safety
/// `pointer` came from this allocator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sallocx(pointer: *const c_void, _flags: c_int) -> usize {
    // SAFETY: the caller's promise is passed on.
    unsafe { malloc_usable_size(pointer.cast_mut()) }
}

/// Like free. Past the caches, the object goes to its slab at once.
///
/// # Safety
/// Same as free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dallocx(pointer: *mut c_void, flags: c_int) {
    // SAFETY: the caller's promise is passed on; the second call frees what the first refused.
    unsafe {
        if !is_past_caches(flags) || !process::free_dense(pointer.cast()) {
            free_within(pointer);
        }
    }
}

/// Like `dallocx`, with the size and the alignment of the request, which are checked.
///
/// # Safety
/// Same as free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sdallocx(pointer: *mut c_void, size: usize, flags: c_int) {
    // SAFETY: the caller's promise is passed on.
    unsafe {
        if is_past_caches(flags) {
            dallocx(pointer, flags);
        } else {
            free_of_size(Entry::FreeSized, pointer, size, align_of(flags));
        }
    }
}

/// Usable bytes of a request, 0 if it is too large.
#[unsafe(no_mangle)]
pub extern "C" fn nallocx(size: usize, flags: c_int) -> usize {
    STACK.size_for(size, align_of(flags)).unwrap_or(0)
}

/// Prints slabinfo, buddyinfo and lock counters to standard error.
#[unsafe(no_mangle)]
pub extern "C" fn malloc_stats_print(
    write: Option<extern "C" fn(*mut c_void, *const c_char)>,
    to: *mut c_void,
    _options: *const c_char,
) {
    let _errno = KeepErrno::new();
    match write {
        Some(write) => write(to, c"Quarry: see quarry_stats_print, or `quarry top`.\n".as_ptr()),
        None if ensure_ready() == Mode::Ready => print_stats_to(2),
        None => {}
    }
}

macro_rules! controls {
    ($($control:ident: $name:literal)*; full: $($more:ident: $full_name:literal)*) => {
        /// The meaning of a name of mallctl.
        #[derive(Clone, Copy)]
        enum Control {
            $($control,)*
            $(#[cfg(feature = "full")] $more,)*
        }

        impl Control {
            const ALL: &[Self] =
                &[$(Self::$control,)* $(#[cfg(feature = "full")] Self::$more,)*];
            /// The names, in the same order. `#` stands for a number.
            const NAMES: &str = if cfg!(feature = "full") {
                concat!($($name, "\n",)* $($full_name, "\n",)*)
            } else {
                concat!($($name, "\n",)*)
            };
        }
    };
}

controls! {
    Version: "version"
    Epoch: "epoch"
    BackgroundThread: "background_thread"
    Flush: "thread.tcache.flush"
    HasProfile: "config.prof"
    Purge: "arena.#.purge"
    Decay: "arena.#.decay"
    Arenas: "arenas.narenas"
    Page: "arenas.page"
    Quantum: "arenas.quantum"
    Bins: "arenas.nbins"
    BinSize: "arenas.bin.#.size"
    Extents: "arenas.nlextents"
    ExtentSize: "arenas.lextent.#.size"
    Allocated: "stats.allocated"
    Active: "stats.active"
    Metadata: "stats.metadata"
    Resident: "stats.resident"
    Mapped: "stats.mapped"
    Retained: "stats.retained"
    MuzzyPages: "stats.arenas.#.pmuzzy"
    // Those of gperftools.
    CurrentAllocated: "generic.current_allocated_bytes"
    HeapSize: "generic.heap_size"
    Physical: "generic.total_physical_bytes"
    PageHeapFree: "tcmalloc.pageheap_free_bytes"
    PageHeapUnmapped: "tcmalloc.pageheap_unmapped_bytes"
    ThreadCaches: "tcmalloc.current_total_thread_cache_bytes"
    ;
    // By these Valkey defragments its memory, and redis from 8 on starts.
    full:
    CreateArena: "arenas.create"
    CreateCache: "tcache.create"
    FlushCache: "tcache.flush"
    DestroyCache: "tcache.destroy"
    ActivePages: "stats.arenas.#.pactive"
    SmallAllocated: "stats.arenas.#.small.allocated"
    LargeAllocated: "stats.arenas.#.large.allocated"
    BinRegions: "arenas.bin.#.nregs"
    UsedRegions: "stats.arenas.#.bins.#.curregs"
    UsedSlabs: "stats.arenas.#.bins.#.curslabs"
    PartialSlabs: "stats.arenas.#.bins.#.nonfull_slabs"
    Utilization: "experimental.utilization.query"
    Utilizations: "experimental.utilization.batch_query"
}

impl Control {
    /// How many numbers may be in the name: any for that of an arena.
    fn count(self) -> usize {
        match self {
            Self::ExtentSize => EXTENTS,
            Self::BinSize => bins::COUNT,
            #[cfg(feature = "full")]
            Self::BinRegions | Self::UsedRegions | Self::UsedSlabs | Self::PartialSlabs => {
                bins::COUNT
            }
            _ => usize::MAX,
        }
    }
}

/// Maximum number of parts of a name.
const PARTS: usize = 6;
/// The answer to `version`, which programs print.
const VERSION: &CStr =
    match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "-quarry\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => c"quarry",
    };
/// Number of jemalloc's classes above the bins. (Quarry has any number of pages.)
const EXTENTS: usize = 4 * (LARGEST_REQUEST / classes::LARGEST).ilog2() as usize;
/// How often the program has refreshed the statistics. All but those of bins are always fresh.
static EPOCH: AtomicU64 = AtomicU64::new(1);
/// Numbers of arenas and caches that jemalloc's flags have room for.
#[cfg(feature = "full")]
const MOST_CREATED: usize = 0xffe;
/// Number of arenas: Quarry's own, and those that the program has created, in which nothing is.
static ARENAS: AtomicUsize = AtomicUsize::new(1);
/// How many caches of its own the program has created, in which nothing is.
#[cfg(feature = "full")]
static CACHES: AtomicUsize = AtomicUsize::new(0);

/// A name of mallctl as numbers, one for each part: first that of the control, then the numbers
/// in the name, each at its place. (So a program that writes another number there finds that arena
/// or bin, as with jemalloc.)
struct Mib {
    parts: [usize; PARTS],
    length: usize,
}

impl Mib {
    fn of(name: &[u8]) -> Option<Self> {
        let mut lines = Control::NAMES.as_bytes().split(|byte| *byte == b'\n').enumerate();
        lines.find_map(|(control, line)| Self::matching(control, line, name))
    }

    fn matching(control: usize, line: &[u8], name: &[u8]) -> Option<Self> {
        let (mut mib, mut rest) = (Self { parts: [0; PARTS], length: 1 }, name);
        for byte in line {
            let (first, others) = rest.split_first()?;
            rest = others;
            match byte {
                b'#' => {
                    let mut number = usize::from(digit(*first)?);
                    while let Some(next) = rest.first().copied().and_then(digit) {
                        number = number.checked_mul(10)?.checked_add(next.into())?;
                        rest = &rest[1..];
                    }
                    *mib.parts.get_mut(mib.length - 1)? = number;
                }
                _ if first != byte => return None,
                b'.' => mib.length += 1,
                _ => {}
            }
        }
        mib.parts[0] = control;
        (rest.is_empty() && !line.is_empty()).then_some(mib)
    }

    /// The control, and the last number in its name; `None` if there is no bin of that number.
    fn control(&self) -> Option<(Control, usize)> {
        let line = Control::NAMES.as_bytes().split(|byte| *byte == b'\n').nth(self.parts[0])?;
        let (mut length, mut number) = (1, 0);
        for byte in line {
            match byte {
                b'.' => length += 1,
                b'#' => number = *self.parts.get(length - 1)?,
                _ => {}
            }
        }
        let control = *Control::ALL.get(self.parts[0])?;
        (length == self.length && number < control.count()).then_some((control, number))
    }
}

fn digit(byte: u8) -> Option<u8> {
    byte.checked_sub(b'0').filter(|digit| *digit < 10)
}

/// A value as mallctl hands it out, and its length.
struct Value([u8; 8], usize);

impl Value {
    fn size(value: usize) -> Self {
        Self(value.to_ne_bytes(), size_of::<usize>())
    }

    fn uint(value: c_uint) -> Self {
        Self(u64::from(value).to_le_bytes(), size_of::<c_uint>())
    }

    fn flag(value: bool) -> Self {
        Self(u64::from(value).to_le_bytes(), 1)
    }
}

/// Where a call of mallctl wants the old value, and what it gives as the new one.
struct Exchange {
    old: *mut c_void,
    old_length: *mut usize,
    new: *const c_void,
    new_length: usize,
}

impl Exchange {
    /// Hands out a value. The error for another length than the value's comes with its first bytes.
    fn read(&self, value: Value) -> c_int {
        if self.old.is_null() || self.old_length.is_null() {
            return 0;
        }
        let Value(bytes, length) = value;
        // SAFETY: the caller of mallctl vouches for both pointers, and for the room.
        unsafe {
            let wanted = self.old_length.read();
            let copied = wanted.min(length);
            self.old.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), copied);
            self.old_length.write(copied);
            if wanted == length { 0 } else { libc::EINVAL }
        }
    }

    fn read_only(&self, value: Value) -> c_int {
        if self.new.is_null() { self.read(value) } else { libc::EPERM }
    }

    /// Runs a command, which has no value.
    fn command(&self, run: impl FnOnce()) -> c_int {
        if !self.new.is_null() || !self.old.is_null() {
            return libc::EPERM;
        }
        run();
        0
    }

    fn refresh(&self) -> c_int {
        if !self.new.is_null() && self.new_length != size_of::<u64>() {
            return libc::EINVAL;
        }
        let more = u64::from(!self.new.is_null());
        #[cfg(feature = "full")]
        if more != 0 {
            bins::refresh();
        }
        self.read(Value((EPOCH.fetch_add(more, Relaxed) + more).to_ne_bytes(), size_of::<u64>()))
    }
}

#[cfg(feature = "full")]
impl Exchange {
    /// Takes the number of a cache. Quarry has nothing to do with it.
    fn take_number(&self) -> c_int {
        if !self.old.is_null() || !self.old_length.is_null() {
            return libc::EPERM;
        }
        let is_number = !self.new.is_null() && self.new_length == size_of::<c_uint>();
        if is_number { 0 } else { libc::EINVAL }
    }

    /// Hands out the utilization of each pointer that is given: what the query of a single one
    /// tells, or three words of it for each of a batch.
    fn utilization(&self, is_batch: bool) -> c_int {
        let (first, words) = if is_batch { (1, 3) } else { (0, 6) };
        let count = self.new_length / size_of::<*mut u8>();
        let is_whole = count * size_of::<*mut u8>() == self.new_length;
        let is_allowed = is_whole && count > 0 && (is_batch || count == 1);
        if !is_allowed || self.new.is_null() || self.old.is_null() || self.old_length.is_null() {
            return libc::EINVAL;
        }
        let (pointers, out) = (self.new.cast::<*mut u8>(), self.old.cast::<usize>());
        // SAFETY: the caller of mallctl vouches for all pointers, and for as much room as the
        // length says, which is that of all answers. An answer has six words.
        unsafe {
            if self.old_length.read() != count * words * size_of::<usize>() {
                return libc::EINVAL;
            }
            for number in 0..count {
                let told = bins::utilization(pointers.add(number).read_unaligned());
                out.add(number * words).copy_from_nonoverlapping(told.as_ptr().add(first), words);
            }
        }
        0
    }
}

/// A figure of the heap now; `None` if Quarry does not serve the process.
fn figure(of: fn(&StackStats) -> usize) -> Option<usize> {
    own_stack::run(|| process::stats().map(|stats| of(&stats)))
}

fn allocated(stats: &StackStats) -> usize {
    stats.heap.used_bytes + stats.heap.mapped_bytes
}

fn active(stats: &StackStats) -> usize {
    stats.budget.used.saturating_sub(stats.budget.slab_reclaimable).max(allocated(stats))
}

/// Bytes of `allocated` in slabs.
#[cfg(feature = "full")]
fn small(stats: &StackStats) -> usize {
    stats.memory.objects.min(allocated(stats))
}

/// Bytes that may be in memory, without Quarry's descriptors.
fn held(stats: &StackStats) -> usize {
    (stats.budget.used + stats.budget.free_dirty).max(active(stats))
}

/// Bytes of address space that hold no memory.
fn retained(stats: &StackStats) -> usize {
    stats.heap.address_space_bytes.saturating_sub(held(stats))
}

fn control(mib: &Mib, exchange: &Exchange) -> c_int {
    let Some((control, number)) = mib.control() else { return libc::ENOENT };
    let flag = |value| exchange.read_only(Value::flag(value));
    let uint = |value| exchange.read_only(Value::uint(value));
    let size = |value| exchange.read_only(Value::size(value));
    let now = |of| figure(of).map_or(libc::EAGAIN, size);
    match control {
        Control::Version => size(VERSION.as_ptr() as usize),
        Control::Epoch => exchange.refresh(),
        // No thread holds memory, so nothing is left to be flushed.
        Control::Flush => exchange.command(|| {}),
        Control::HasProfile => flag(false),
        Control::BackgroundThread => flag(true),
        Control::Purge | Control::Decay => exchange.command(|| {
            let _ = Quarry::trim();
        }),
        Control::Arenas => uint(ARENAS.load(Relaxed) as c_uint),
        Control::Page => size(FRAME_BYTES),
        Control::Quantum => size(bins::QUANTUM),
        Control::Bins => uint(bins::COUNT as c_uint),
        Control::BinSize => size(bins::size(number)),
        Control::Extents => uint(EXTENTS as c_uint),
        Control::ExtentSize => size(bins::size(bins::COUNT + number)),
        Control::Allocated | Control::CurrentAllocated => now(allocated),
        Control::Active => now(active),
        Control::Metadata => now(|stats| stats.budget.metadata),
        Control::Resident | Control::Physical => now(|stats| held(stats) + stats.budget.metadata),
        Control::Mapped => now(held),
        Control::Retained | Control::PageHeapUnmapped => now(retained),
        Control::MuzzyPages => size(0),
        Control::HeapSize => now(|stats| held(stats) + retained(stats)),
        Control::PageHeapFree => now(|stats| stats.budget.free_dirty),
        Control::ThreadCaches => now(|stats| stats.heap.parked_bytes),
        #[cfg(feature = "full")]
        _ => control_of_full(control, number, mib.parts[2], exchange),
    }
}

/// The rest of `control`, for the arena with this number, if it is in the name.
#[cfg(feature = "full")]
fn control_of_full(control: Control, number: usize, arena: usize, exchange: &Exchange) -> c_int {
    let uint = |value: usize| exchange.read_only(Value::uint(value as c_uint));
    let size = |value| exchange.read_only(Value::size(value));
    let is_empty = (1..ARENAS.load(Relaxed)).contains(&arena);
    let now = |of| if is_empty { size(0) } else { figure(of).map_or(libc::EAGAIN, size) };
    let count = |which| size(if is_empty { 0 } else { bins::counts(number)[which] });
    match control {
        Control::CreateArena => {
            let more = |arenas| (arenas < MOST_CREATED).then_some(arenas + 1);
            ARENAS.fetch_update(Relaxed, Relaxed, more).map_or(libc::EAGAIN, uint)
        }
        Control::CreateCache => uint(CACHES.fetch_add(1, Relaxed) % MOST_CREATED),
        Control::ActivePages => now(|stats| active(stats) / FRAME_BYTES),
        Control::SmallAllocated => now(small),
        Control::LargeAllocated => now(|stats| allocated(stats) - small(stats)),
        Control::BinRegions => uint(bins::regions(number)),
        Control::UsedRegions => count(0),
        Control::UsedSlabs => count(1),
        Control::PartialSlabs => count(2),
        Control::Utilization => exchange.utilization(false),
        Control::Utilizations => exchange.utilization(true),
        _ => exchange.take_number(),
    }
}

/// Reads or changes what `name` stands for. Returns 0, or ENOENT for a name without an equal here,
/// EINVAL for a value of another length, EPERM for one that cannot be read or written, EAGAIN if
/// Quarry does not serve the process.
///
/// # Safety
/// `name` is a string; the other pointers are null, or to as many bytes as their lengths say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mallctl(
    name: *const c_char,
    old: *mut c_void,
    old_length: *mut usize,
    new: *const c_void,
    new_length: usize,
) -> c_int {
    let _errno = KeepErrno::new();
    // SAFETY: the caller's promise.
    let Some(mib) = Mib::of(unsafe { CStr::from_ptr(name) }.to_bytes()) else {
        return libc::ENOENT;
    };
    control(&mib, &Exchange { old, old_length, new, new_length })
}

/// Turns a name into numbers for mallctlbymib: one for each part of the name. A program may change
/// those that stand for a number in the name.
///
/// # Safety
/// `name` is a string, and `numbers` has room for as many as `*length` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mallctlnametomib(
    name: *const c_char,
    numbers: *mut usize,
    length: *mut usize,
) -> c_int {
    // SAFETY: the caller's promise.
    let mib = Mib::of(unsafe { CStr::from_ptr(name) }.to_bytes());
    let Some(mib) = mib.filter(|mib| mib.control().is_some()) else { return libc::ENOENT };
    // SAFETY: the caller's promise; no more numbers are written than there is room for.
    unsafe {
        let copied = mib.length.min(length.read());
        numbers.copy_from_nonoverlapping(mib.parts.as_ptr(), copied);
        length.write(copied);
    }
    0
}

/// Like mallctl, by the numbers of mallctlnametomib.
///
/// # Safety
/// As for mallctl; `numbers` has `length` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mallctlbymib(
    numbers: *const usize,
    length: usize,
    old: *mut c_void,
    old_length: *mut usize,
    new: *const c_void,
    new_length: usize,
) -> c_int {
    let _errno = KeepErrno::new();
    let mut mib = Mib { parts: [0; PARTS], length };
    if length == 0 || length > PARTS {
        return libc::ENOENT;
    }
    // SAFETY: the caller's promise, and there is room for so many.
    unsafe { mib.parts.as_mut_ptr().copy_from_nonoverlapping(numbers, length) };
    control(&mib, &Exchange { old, old_length, new, new_length })
}
