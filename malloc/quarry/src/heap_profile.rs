//! The heap profile, beneath the public module `profile`, which builds the instance first.

mod at_exit;
mod bell;
mod output;
#[cfg(feature = "std")]
mod pprof;
mod probes;
mod switch;

pub(crate) use at_exit::{prepare, set_mean, start_if_asked};
pub(crate) use bell::look;
#[cfg(feature = "std")]
pub use output::write_to;
#[cfg(feature = "internals")]
pub use output::write_to_descriptor;
#[cfg(feature = "std")]
pub use pprof::pprof;
pub(crate) use probes::look_for_tracers;
pub use switch::{DEFAULT_MEAN_BYTES, stop};
pub(crate) use switch::{begin, visit_locks};

/// Called in the child of a fork, after the parent's locks were released.
pub(crate) fn adopt_in_child() {
    bell::forget();
    probes::look_anew();
    if switch::adopt_in_child() {
        at_exit::start_in_child();
    }
}
