//! The heap profile of the process: allocations by call site, and the part that is in use.
//!
//! ```
//! # #![no_main] // Rust's own start allocates, and here the profile is to be the first call.
//! #[global_allocator]
//! static A: quarry::Quarry = quarry::Quarry;
//!
//! # #[unsafe(no_mangle)]
//! # extern "C" fn main() -> i32 { run().is_err().into() }
//! # fn run() -> std::io::Result<()> {
//! quarry::profile::start(quarry::profile::DEFAULT_MEAN_BYTES)?;
//! let kept: Vec<Vec<u8>> = (0..1000).map(|_| vec![1; 4096]).collect();
//! quarry::profile::stop();
//! quarry::profile::write_to(std::fs::File::create("/dev/null")?)?;
//! quarry::profile::start_with_frees(1 << 20)?; // another one, which also has the callers of frees
//! # drop(kept);
//! # Ok(())
//! # }
//! ```
//!
//! The written profile is raw: the command `quarry profile FILE` turns it into a profile for pprof,
//! a flame graph or a text. `quarry profile --pid N` profiles a process from outside.
//!
//! The profile is off, and costs nothing, until [`start`], `quarry profile --pid` or
//! `QUARRY_PROFILE` starts it. While it is on, every request takes a slower path, which counts its
//! bytes; about one request per 512 KiB becomes a sample, recorded with its callers. A forked child
//! has no profile, unless the name in `QUARRY_PROFILE` differs for each process (`%p`).

use crate::error::Error;
use crate::heap_profile;
pub use crate::heap_profile::*;
use crate::process::serving;
use quarry_watch::profile::ProfileKind;

/// Starts a profile with about one sample per `mean_bytes` requested bytes, and clears the previous
/// one. O(size of the tables), some 100 us; the first start maps about 7 MiB, touched when used.
///
/// # Errors
/// See [`Error`]; then nothing has changed.
pub fn start(mean_bytes: usize) -> Result<(), Error> {
    serving().and_then(|()| heap_profile::begin(mean_bytes, ProfileKind::InUse))
}

/// Like [`start`], but also records the callers of the frees of samples.
///
/// # Errors
/// Same as [`start`].
pub fn start_with_frees(mean_bytes: usize) -> Result<(), Error> {
    serving().and_then(|()| heap_profile::begin(mean_bytes, ProfileKind::Frees))
}
