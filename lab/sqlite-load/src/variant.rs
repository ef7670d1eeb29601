//! The page caches to compare. SQLite's page cache belongs to the whole process, so each run is a
//! new process.

use crate::api::Api;
use anyhow::{Result, ensure};
use clap::ValueEnum;
use libsqlite3_sys as ffi;
use std::ffi::c_int;
use std::mem::MaybeUninit;

/// The page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Variant {
    /// SQLite's own cache: one for each connection.
    Separate,
    /// Quarry's page cache and heap under one budget.
    Quarry,
}

impl Variant {
    /// Sets SQLite up; SQLite must not be in use yet.
    pub(crate) fn set_up(self, api: &Api, budget: u64) -> Result<()> {
        // If SQLite counted allocated bytes, every allocation would take one mutex.
        configured(api, ffi::SQLITE_CONFIG_MEMSTATUS, &[0])?;
        if self == Self::Quarry {
            // SAFETY: no other thread uses SQLite yet, and no part of it is in use.
            unsafe { quarry_sqlite::install(api.config) }?;
            quarry::Quarry::set_limit(usize::try_from(budget)?)?;
        }
        Ok(())
    }
}

pub(crate) fn configured(api: &Api, option: c_int, numbers: &[c_int]) -> Result<()> {
    // SAFETY: callers pass only options that take exactly these numbers, of type int.
    let code = unsafe {
        match *numbers {
            [] => (api.config)(option),
            [one] => (api.config)(option, one),
            _ => unreachable!("no option that is used takes more"),
        }
    };
    ensure!(code == ffi::SQLITE_OK, "sqlite3_config({option}): {code}");
    Ok(())
}

/// The value that SQLite gives for an option that asks for one.
///
/// # Safety
/// For this option SQLite fills in a `T`.
pub(crate) unsafe fn asked<T>(api: &Api, option: c_int, name: &str) -> Result<T> {
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: the option takes a place for the value (the caller's promise).
    let code = unsafe { (api.config)(option, value.as_mut_ptr()) };
    ensure!(code == ffi::SQLITE_OK, "{name}: {code}");
    // SAFETY: SQLite has filled it in.
    Ok(unsafe { value.assume_init() })
}

#[derive(Clone, Copy)]
pub(crate) struct Methods(pub(crate) ffi::sqlite3_pcache_methods2);

// SAFETY: the methods may be called on any thread, for one cache on one thread at a time. `pArg` is
// not used here.
unsafe impl Send for Methods {}
// SAFETY: same as for `Send`.
unsafe impl Sync for Methods {}

/// The methods of the page cache that SQLite is set up with.
pub(crate) fn page_cache_methods(api: &Api) -> Result<Methods> {
    // SAFETY: the option asks for the methods.
    let methods = unsafe { asked(api, ffi::SQLITE_CONFIG_GETPCACHE2, "SQLITE_CONFIG_GETPCACHE2") }?;
    Ok(Methods(methods))
}
