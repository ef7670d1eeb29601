//! Quarry as the page cache and the heap of SQLite.

use std::ffi::c_int;

/// `sqlite3_config`.
pub type ConfigFn = unsafe extern "C" fn(c_int, ...) -> c_int;

/// Not there yet.
///
/// # Errors
/// Never.
///
/// # Safety
/// Nothing of SQLite is in use.
pub unsafe fn install(_config: ConfigFn) -> Result<(), std::io::Error> {
    Ok(())
}

/// Pages.
pub fn pages() -> u64 {
    0
}
