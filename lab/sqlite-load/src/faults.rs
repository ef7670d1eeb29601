//! Lets each allocation of a workload fail in turn, alone or with all later ones, as SQLite's own
//! tests do: the workload must fail with SQLITE_NOMEM, the database stay sound, and no memory leak.

use crate::api::{Api, plain};
use crate::connection::{Connection, SqlError};
use crate::script::answer;
use crate::variant::{Variant, asked, configured, page_cache_methods};
use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::{Args, ValueEnum};
use libsqlite3_sys as ffi;
use serde::Serialize;
use std::ffi::{c_int, c_uint, c_void};
use std::fs;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};

/// The requests that fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// Only one request.
    Transient,
    /// One request and all after it.
    Persistent,
}

#[derive(Args)]
pub(crate) struct Faults {
    /// The page cache.
    #[arg(value_enum)]
    variant: Variant,
    /// Which requests fail.
    #[arg(value_enum)]
    kind: Kind,
    /// An empty folder.
    folder: PathBuf,
    /// SQL that makes a database.
    before: PathBuf,
    /// SQL whose requests for memory are made to fail, one in each run.
    work: PathBuf,
    /// One request in this many is made to fail; all of them by default.
    #[arg(long, default_value = "1")]
    step: u64,
    /// The first request that is failed.
    #[arg(long, default_value = "1")]
    first: u64,
}

#[derive(Serialize)]
pub(crate) struct Figures {
    /// Requests that were made to fail, each in a run of its own.
    failed: u64,
    /// Runs of the workload that ended with SQLITE_NOMEM; in the other runs SQLite could do
    /// without the memory.
    reported: u64,
    /// Checks that found the database sound: one after each run.
    sound: u64,
    /// Bytes of SQLite, and cached pages of Quarry, that remain after SQLite's shutdown: 0 if
    /// nothing leaks.
    bytes_left: i64,
    pages_left: u64,
}

/// Requests until one fails, counting that one; below 1 afterwards. `i64::MAX`: no request fails.
static COUNTDOWN: AtomicI64 = AtomicI64::new(i64::MAX);
static IS_PERSISTENT: AtomicBool = AtomicBool::new(false);

struct Below {
    heap: ffi::sqlite3_mem_methods,
    pages: ffi::sqlite3_pcache_methods2,
}

// SAFETY: methods may be called on any thread.
unsafe impl Send for Below {}
// SAFETY: same as for `Send`.
unsafe impl Sync for Below {}

static BELOW: OnceLock<Below> = OnceLock::new();

fn below() -> &'static Below {
    BELOW.get().expect("the faults are installed")
}

/// Counts a request. Returns whether it has to fail.
fn fails() -> bool {
    if COUNTDOWN.load(Relaxed) == i64::MAX {
        return false;
    }
    let left = COUNTDOWN.fetch_sub(1, Relaxed);
    left == 1 || (left < 1 && IS_PERSISTENT.load(Relaxed))
}

fn arm(request: u64, kind: Kind) {
    IS_PERSISTENT.store(kind == Kind::Persistent, Relaxed);
    COUNTDOWN.store(i64::try_from(request).expect("fewer requests"), Relaxed);
}

/// Ends the faults. Returns whether a request has failed.
fn disarm() -> bool {
    COUNTDOWN.swap(i64::MAX, Relaxed) < 1
}

fn install(api: &Api) -> Result<()> {
    // SAFETY: the option asks for the methods.
    let heap: ffi::sqlite3_mem_methods =
        unsafe { asked(api, ffi::SQLITE_CONFIG_GETMALLOC, "SQLITE_CONFIG_GETMALLOC") }?;
    let pages = page_cache_methods(api)?.0;
    let failing_heap =
        ffi::sqlite3_mem_methods { xMalloc: Some(malloc), xRealloc: Some(realloc), ..heap };
    let failing_pages =
        ffi::sqlite3_pcache_methods2 { xCreate: Some(create), xFetch: Some(fetch), ..pages };
    ensure!(BELOW.set(Below { heap, pages }).is_ok(), "the faults are installed once");
    // SAFETY: the options take methods, which SQLite copies; no part of SQLite is in use.
    let codes = unsafe {
        [
            (api.config)(ffi::SQLITE_CONFIG_MALLOC, &raw const failing_heap),
            (api.config)(ffi::SQLITE_CONFIG_PCACHE2, &raw const failing_pages),
        ]
    };
    ensure!(codes == [ffi::SQLITE_OK; 2], "sqlite3_config: {codes:?}");
    Ok(())
}

unsafe extern "C" fn malloc(bytes: c_int) -> *mut c_void {
    if fails() {
        return null_mut();
    }
    // SAFETY: SQLite's arguments are passed on.
    unsafe { (below().heap.xMalloc.expect("a heap has this method"))(bytes) }
}

unsafe extern "C" fn realloc(pointer: *mut c_void, bytes: c_int) -> *mut c_void {
    if fails() {
        return null_mut();
    }
    // SAFETY: SQLite's arguments are passed on.
    unsafe { (below().heap.xRealloc.expect("a heap has this method"))(pointer, bytes) }
}

unsafe extern "C" fn create(
    page: c_int,
    extra: c_int,
    purgeable: c_int,
) -> *mut ffi::sqlite3_pcache {
    if fails() {
        return null_mut();
    }
    // SAFETY: SQLite's arguments are passed on.
    unsafe { (below().pages.xCreate.expect("a cache has this method"))(page, extra, purgeable) }
}

unsafe extern "C" fn fetch(
    cache: *mut ffi::sqlite3_pcache,
    key: c_uint,
    create: c_int,
) -> *mut ffi::sqlite3_pcache_page {
    let fetch = below().pages.xFetch.expect("a cache has this method");
    // SAFETY: SQLite's arguments are passed on. The first call has `create` 0, because finding a
    // page that is cached must never fail.
    unsafe {
        let page = fetch(cache, key, 0);
        if !page.is_null() || create == 0 || fails() {
            return page;
        }
        fetch(cache, key, create)
    }
}

impl Faults {
    pub(crate) fn run(self) -> Result<Figures> {
        let api = plain();
        self.variant.set_up(api, 64 << 20)?;
        // SQLite counts its allocated bytes, which shows leaks.
        configured(api, ffi::SQLITE_CONFIG_MEMSTATUS, &[1])?;
        install(api)?;
        let read =
            |file: &PathBuf| fs::read_to_string(file).with_context(|| file.display().to_string());
        let (before, work) = (read(&self.before)?, read(&self.work)?);
        let database = self.folder.join("faults.db");
        let pristine = self.folder.join("pristine.db");
        let _ = fs::remove_file(&pristine);
        Connection::create(api, &pristine)?.run(&before)?;
        let mut expected = Vec::new();
        self.fresh(&pristine, &database)?;
        answer(&Connection::existing(api, &database)?, &work, &mut expected)?;
        // SAFETY: the function only reads a number.
        let resting = || unsafe { (api.memory_used)() };
        let at_rest = resting();
        let mut figures =
            Figures { failed: 0, reported: 0, sound: 0, bytes_left: 0, pages_left: 0 };
        for request in (self.first..).step_by(usize::try_from(self.step)?) {
            self.fresh(&pristine, &database)?;
            arm(request, self.kind);
            let result = work_on(api, &database, &work);
            let is_met = disarm();
            if let Err(error) = &result {
                ensure!(error.is_no_memory(), "request {request}: {error}");
                figures.reported += 1;
            }
            let bytes = resting();
            ensure!(bytes == at_rest, "request {request}: {bytes} bytes left of {at_rest}");
            ensure!(is_met || result.is_ok(), "request {request}: failed without a fault");
            let check = Connection::existing(api, &database)?.check();
            check.with_context(|| format!("after request {request} failed"))?;
            figures.sound += 1;
            if !is_met {
                break;
            }
            figures.failed += 1;
        }
        let mut again = Vec::new();
        self.fresh(&pristine, &database)?;
        answer(&Connection::existing(api, &database)?, &work, &mut again)?;
        if again != expected {
            bail!("the workload answers otherwise after the faults");
        }
        // SAFETY: no connection is open.
        unsafe { (api.shutdown)() };
        figures.bytes_left = resting();
        figures.pages_left = quarry_sqlite::cached_pages();
        ensure!(figures.pages_left == 0, "{} pages are left", figures.pages_left);
        ensure!(quarry_sqlite::open_caches() == 0, "page caches are left");
        quarry::Quarry::validate().map_err(|broken| anyhow!("{broken}"))?;
        Ok(figures)
    }

    /// Replaces `database` by a copy of `pristine`, and removes its journals.
    fn fresh(&self, pristine: &Path, database: &Path) -> Result<()> {
        for suffix in ["-journal", "-wal", "-shm"] {
            let mut name = database.as_os_str().to_owned();
            name.push(suffix);
            let _ = fs::remove_file(name);
        }
        fs::copy(pristine, database)?;
        Ok(())
    }
}

fn work_on(api: &'static Api, database: &Path, work: &str) -> Result<(), SqlError> {
    let connection = Connection::existing(api, database)?;
    let mut rest = work;
    while !rest.trim().is_empty() {
        let (mut statement, after) = connection.prepare_first(rest)?;
        rest = after;
        if !statement.is_empty() {
            while statement.step()? {}
        }
    }
    Ok(())
}
