//! The page caches to compare. SQLite's page cache belongs to the whole process, so each sample is
//! a new process.

use crate::api::{Api, MANAGED, plain};
use anyhow::{Result, ensure};
use clap::ValueEnum;
use libsqlite3_sys as ffi;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

pub(crate) const PAGE_BYTES: u64 = 4096;

/// The page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Variant {
    /// SQLite's own cache: one for each connection, with an equal share of the budget.
    Separate,
    /// SQLite's own cache with its default size (2,000 KiB), which the budget does not change.
    Default,
    /// SQLite's own cache: one group of all connections, on a buffer with the bytes of the budget
    /// (SQLITE_CONFIG_PAGECACHE). It needs SQLITE_ENABLE_MEMORY_MANAGEMENT and a mutex.
    Shared,
    /// The same group without the flag and without any mutex: for a program with one thread.
    SharedSingle,
    /// SQLite's own cache: one group of all connections. As far as it can,
    /// sqlite3_soft_heap_limit64 keeps what SQLite allocates within the budget.
    SoftLimit,
    /// As `separate`, but built with SQLITE_ENABLE_MEMORY_MANAGEMENT, as rusqlite's `bundled` is.
    Managed,
    /// Quarry's page cache and heap under one budget.
    Quarry,
}

impl Variant {
    pub(crate) fn api(self) -> &'static Api {
        match self {
            Self::Shared | Self::SoftLimit | Self::Managed => &MANAGED,
            _ => plain(),
        }
    }

    /// Sets SQLite up; SQLite must not be in use yet.
    pub(crate) fn set_up(self, budget: u64) -> Result<()> {
        let api = self.api();
        if self != Self::SoftLimit {
            // If SQLite counted allocated bytes, every allocation would take one mutex.
            configured(api, ffi::SQLITE_CONFIG_MEMSTATUS, &[0])?;
        }
        match self {
            Self::Shared => give_buffer(api, budget)?,
            Self::SharedSingle => {
                configured(api, ffi::SQLITE_CONFIG_SINGLETHREAD, &[])?;
                give_buffer(api, budget)?;
            }
            Self::Quarry => {
                // SAFETY: no other thread uses SQLite yet, and no part of it is in use.
                unsafe { quarry_sqlite::install(api.config) }?;
                quarry::Quarry::set_limit(usize::try_from(budget)?)?;
            }
            Self::SoftLimit => {
                // SAFETY: the function only sets a number.
                unsafe { (api.soft_heap_limit64)(i64::try_from(budget)?) };
            }
            Self::Separate | Self::Default | Self::Managed => {}
        }
        Ok(())
    }

    /// `PRAGMA cache_size`, in pages, for each of `connections`; `None` keeps the default.
    pub(crate) fn cache_size(self, budget: u64, connections: u64) -> Option<u64> {
        match self {
            Self::Separate | Self::Managed => Some((budget / PAGE_BYTES / connections).max(1)),
            Self::Shared | Self::SharedSingle | Self::SoftLimit => Some(budget / PAGE_BYTES),
            Self::Default | Self::Quarry => None,
        }
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

/// Gives SQLite a buffer of as many pages as fit into `bytes`.
fn give_buffer(api: &Api, bytes: u64) -> Result<()> {
    // SAFETY: the option asks for a number.
    let header: c_int =
        unsafe { asked(api, ffi::SQLITE_CONFIG_PCACHE_HDRSZ, "SQLITE_CONFIG_PCACHE_HDRSZ") }?;
    let slot = (PAGE_BYTES + u64::try_from(header)?).next_multiple_of(8);
    let slots = bytes / slot;
    let words = vec![0u64; usize::try_from(slots * slot / 8)?];
    let buffer: *mut c_void = Box::leak(words.into_boxed_slice()).as_mut_ptr().cast();
    let (slot, slots) = (c_int::try_from(slot)?, c_int::try_from(slots)?);
    // SAFETY: the buffer has `slot * slots` bytes, is aligned to 8, and is never freed.
    let code = unsafe { (api.config)(ffi::SQLITE_CONFIG_PAGECACHE, buffer, slot, slots) };
    ensure!(code == ffi::SQLITE_OK, "SQLITE_CONFIG_PAGECACHE: {code}");
    Ok(())
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
