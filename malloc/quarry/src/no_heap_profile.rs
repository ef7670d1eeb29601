//! Stands in for `heap_profile` in a build without that feature.

use quarry_sys::locks::Visit;
use quarry_sys::report::warn;

/// # Errors
/// Always, if a profile is asked for. This prints a line.
pub(crate) fn prepare(value: &str) -> Result<(), ()> {
    if matches!(value, "" | "0") {
        return Ok(());
    }
    warn(format_args!("no heap profile: QUARRY_PROFILE={value}: there is no profile in here"));
    Err(())
}

pub(crate) fn set_mean(_value: &str) {}

pub(crate) fn start_if_asked() {}

pub(crate) fn look(_record: usize) {}

pub(crate) fn look_for_tracers() {}

pub(crate) fn visit_locks(_visit: &mut Visit<'_>) {}

pub(crate) fn adopt_in_child() {}
