//! The heap profile of the process: allocations by call site, and the part that is in use.
//!
//! ```
//! #[global_allocator]
//! static A: quarry::Quarry = quarry::Quarry;
//!
//! # fn main() -> std::io::Result<()> {
//! quarry::profile::start(quarry::profile::DEFAULT_MEAN_BYTES)?;
//! let kept: Vec<Vec<u8>> = (0..1000).map(|_| vec![1; 4096]).collect();
//! quarry::profile::stop();
//! quarry::profile::write_to(std::fs::File::create("/dev/null")?)?;
//! # drop(kept);
//! # Ok(())
//! # }
//! ```
//!
//! The written profile is raw: the command `quarry profile FILE` turns it into a profile for pprof,
//! a flame graph or a text. `quarry profile --pid N` profiles a process from outside.
//!
//! The profile is off, and costs nothing, until [`start`], that command or `QUARRY_PROFILE` starts
//! it. While it is on, every request takes a slower path, which counts its bytes; about one request
//! per 512 KiB becomes a sample, recorded with its callers. A forked child has no profile, unless
//! the name in `QUARRY_PROFILE` differs for each process (`%p`).

mod at_exit;
mod bell;
mod output;
mod switch;

pub(crate) use at_exit::{prepare, start_if_asked};
pub(crate) use bell::look;
#[cfg(feature = "std")]
pub use output::write_to;
#[cfg(feature = "internals")]
pub use output::write_to_descriptor;
pub(crate) use switch::visit_locks;
pub use switch::{DEFAULT_MEAN_BYTES, start, start_with_frees, stop};

/// Called in the child of a fork, after the parent's locks were released.
pub(crate) fn adopt_in_child() {
    bell::forget();
    if switch::adopt_in_child() {
        at_exit::start_in_child();
    }
}
