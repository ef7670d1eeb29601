//! Replaces SQLite's own page cache and heap with Quarry.

use crate::abi::{CONFIG_MALLOC, CONFIG_PCACHE2, ConfigFn, MISUSE, OK};
use crate::heap::heap_methods;
use crate::methods::page_cache_methods;
#[cfg(doc)]
use quarry::Quarry;
use quarry::process::serving;
use std::error::Error;
use std::ffi::c_int;
use std::fmt;

/// The reason why `install` has changed nothing in SQLite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstallError {
    /// Quarry does not serve: `QUARRY_DISABLE=1`, or the system refuses memory.
    Unavailable(quarry::Error),
    /// SQLite is in use: install before the first connection, or after `sqlite3_shutdown`.
    TooLate,
    /// `sqlite3_config` returned this code.
    Refused(c_int),
}

impl fmt::Display for InstallError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable(error) => write!(out, "Quarry does not serve: {error}"),
            Self::TooLate => out.write_str("SQLite is in use: install before the first connection"),
            Self::Refused(code) => write!(out, "sqlite3_config returned {code}"),
        }
    }
}

impl Error for InstallError {}

/// Makes Quarry the page cache and the heap of SQLite. `config` is the `sqlite3_config` of this
/// SQLite, for example `rusqlite::ffi::sqlite3_config`.
///
/// After that `sqlite3_soft_heap_limit64` has no effect; [`Quarry::set_limit`] or `QUARRY_LIMIT`
/// sets the limit.
///
/// # Errors
/// The reason why nothing was changed.
///
/// # Safety
/// `config` is SQLite's function of that name. No other thread uses SQLite during the call, and no
/// memory allocated by SQLite is in use.
pub unsafe fn install(config: ConfigFn) -> Result<(), InstallError> {
    // SAFETY: the caller's promise is passed on.
    unsafe {
        install_heap(config)?;
        install_page_cache(config)
    }
}

/// Makes Quarry the heap of SQLite, and keeps its page cache.
///
/// # Errors
/// Same as [`install`].
///
/// # Safety
/// Same as [`install`].
pub unsafe fn install_heap(config: ConfigFn) -> Result<(), InstallError> {
    available()?;
    let methods = heap_methods();
    // SAFETY: the option takes methods, which SQLite copies; the caller promises the rest.
    outcome(unsafe { config(CONFIG_MALLOC, &raw const methods) })
}

/// Makes Quarry the page cache of SQLite, and keeps its heap.
///
/// # Errors
/// Same as [`install`].
///
/// # Safety
/// Same as [`install`].
pub unsafe fn install_page_cache(config: ConfigFn) -> Result<(), InstallError> {
    available()?;
    let methods = page_cache_methods();
    // SAFETY: the option takes methods, which SQLite copies; the caller promises the rest.
    outcome(unsafe { config(CONFIG_PCACHE2, &raw const methods) })
}

fn available() -> Result<(), InstallError> {
    serving().map_err(InstallError::Unavailable)
}

fn outcome(code: c_int) -> Result<(), InstallError> {
    match code {
        OK => Ok(()),
        MISUSE => Err(InstallError::TooLate),
        code => Err(InstallError::Refused(code)),
    }
}

#[cfg(test)]
mod tests {
    use super::InstallError;

    #[test]
    fn an_error_says_why_quarry_does_not_serve() {
        let text = InstallError::Unavailable(quarry::Error::Disabled).to_string();
        assert!(text.contains("QUARRY_DISABLE=1"), "{text}");
    }
}
