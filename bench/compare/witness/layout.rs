//! The file in which the processes of a sample record which objects serve them. The witness writes
//! it, and the command reads it. A header comes first, then a *slot* for the record of each program
//! that was executed, in the order of their starts.

/// Variable that names the file. The library would warn of an unknown variable with `QUARRY_`.
pub(crate) const VARIABLE: &core::ffi::CStr = c"QUARRYLAB_WITNESS";

/// Bytes of the header: the number of slots that programs asked for, as a native u32.
pub(crate) const HEADER_BYTES: usize = 64;
/// Maximum number of programs that get a slot; later ones leave no trace.
pub(crate) const SLOTS: usize = 1024;
/// Bytes of the whole file; untouched slots are holes.
pub(crate) const FILE_BYTES: usize = HEADER_BYTES + SLOTS * SLOT_BYTES;

pub(crate) const SLOT_BYTES: usize = 4096;
/// Native u32: the process.
pub(crate) const PID: usize = 0;
/// Native u32: [`COMPLETE`], and [`HAS_PYTHON`] if CPython is in the process; written last.
pub(crate) const FLAGS: usize = 4;
/// Native u64: ticks of the counter's clock in a millisecond.
pub(crate) const TICKS_PER_MS: usize = 8;
/// Native u64: most memory that was resident since the exec, in KiB; 0 if the process did not exit
/// by itself.
pub(crate) const PEAK_KIB: usize = 16;
/// Native u64: how long the main thread waited for a CPU, in ns; 0 if the process did not exit by
/// itself.
pub(crate) const DELAY_NS: usize = 24;
/// NUL-terminated path of the executable.
pub(crate) const EXECUTABLE: usize = 64;
/// NUL-terminated path of the object in which the loader finds `malloc`. An executable at a fixed
/// address that only refers to `malloc` can be that object.
pub(crate) const MALLOC: usize = EXECUTABLE + PATH_BYTES;
/// NUL-terminated path of the object in which the loader finds `malloc` if it leaves the executable
/// out.
pub(crate) const NEXT_MALLOC: usize = MALLOC + PATH_BYTES;
/// Native u64, [`AGED_FIELDS`] of them, of a process whose heap was aged, else 0: the bytes of
/// blocks that stay in use; when ageing began and ended, on the monotonic clock; and its user time,
/// system time, page faults, context switches, and how many of these were involuntary. Times are in
/// ns.
pub(crate) const AGED: usize = NEXT_MALLOC + PATH_BYTES;
pub(crate) const AGED_FIELDS: usize = 8;
/// Bytes of a path with its NUL; longer ones are cut.
pub(crate) const PATH_BYTES: usize = 640;

/// Counters of calls, native u64, in stripes of a cache line: threads mostly use different ones.
pub(crate) const COUNTERS: usize = 2048;
pub(crate) const STRIPES: usize = 16;
pub(crate) const STRIPE_BYTES: usize = 64;
/// In a stripe: calls that allocate.
pub(crate) const ALLOCATIONS: usize = 0;
/// In a stripe: calls that free.
pub(crate) const FREES: usize = 8;
/// In a stripe: ticks spent in calls of both kinds.
pub(crate) const TICKS: usize = 16;
/// In a stripe: bytes asked for.
pub(crate) const BYTES: usize = 24;

/// In a stripe: bytes of blocks that were allocated, less those of blocks that were freed.
pub(crate) const HELD: usize = 32;

/// The slot is filled.
pub(crate) const COMPLETE: u32 = 1;
/// CPython is in the process.
pub(crate) const HAS_PYTHON: u32 = 2;

const _: () = assert!(AGED + 8 * AGED_FIELDS <= COUNTERS);
const _: () = assert!(COUNTERS + STRIPES * STRIPE_BYTES <= SLOT_BYTES);

/// Variable that names the plan by which the heap is aged.
pub(crate) const AGE_VARIABLE: &core::ffi::CStr = c"QUARRYLAB_AGE";
/// The name of a process while its heap is aged.
pub(crate) const AGEING: &core::ffi::CStr = c"quarry-ageing";
/// A plan: the path of the executable that it is for, the bytes of a burst as a native u64, and
/// pairs of a size and a lifetime as native u64, from which ageing draws at random.
pub(crate) const PLAN_BYTES: usize = PATH_BYTES + 8 + 16 * DRAWS;
pub(crate) const DRAWS: usize = 1 << 16;

/// A histogram: the path of the executable, then native u64 at the indices below.
pub(crate) const HISTOGRAM_BYTES: usize = 8 * (LARGEST + SIZES);
/// Bytes that the process has asked for.
pub(crate) const CLOCK: usize = PATH_BYTES / 8;
/// Bytes in use, and their peak.
pub(crate) const LIVE: usize = CLOCK + 1;
pub(crate) const PEAK: usize = CLOCK + 2;
/// Blocks in use that are followed to their end.
pub(crate) const FOLLOWED: usize = CLOCK + 3;
/// Blocks that were allocated, by class of size.
pub(crate) const BORN: usize = CLOCK + 4;
/// Blocks that were freed, by class of size, then of lifetime.
pub(crate) const DIED: usize = BORN + SIZES;
/// The smallest and the largest size of each class that was asked for. The program may ask for one
/// size only, whose neighbours lie in another class of an allocator's.
pub(crate) const SMALLEST: usize = DIED + SIZES * AGES;
pub(crate) const LARGEST: usize = SMALLEST + SIZES;
/// Classes of size: up to 8 bytes, then eight for each power of two.
pub(crate) const SIZES: usize = 1 + 8 * 24;
/// Classes of lifetime: one for each power of two of the bytes that are asked for meanwhile.
pub(crate) const AGES: usize = 64;

/// The class of a request. A class ends at a multiple of a power of two and contains it, as those
/// of allocators do.
pub(crate) fn size_class(bytes: u64) -> usize {
    let Some(above) = bytes.checked_sub(1).filter(|it| *it >= 8) else { return 0 };
    let power = above.ilog2();
    let class = 1 + (power as usize - 3) * 8 + (above >> (power - 3) & 7) as usize;
    class.min(SIZES - 1)
}

pub(crate) fn age_class(bytes: u64) -> usize {
    bytes.max(1).ilog2() as usize
}
