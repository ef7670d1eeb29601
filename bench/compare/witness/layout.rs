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

const _: () = assert!(NEXT_MALLOC + PATH_BYTES <= COUNTERS);
const _: () = assert!(COUNTERS + STRIPES * STRIPE_BYTES <= SLOT_BYTES);
