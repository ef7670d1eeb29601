//! A device with a given time for each page: a file system for SQLite that also counts reads.
//!
//! A benchmark's files are in the kernel's page cache, where a read takes a microsecond. That hides
//! whether a page cache evicts the right pages. So the thread spins after each read of a page until
//! the device's time is over. It does not sleep: the kernel's timers come tens of microseconds
//! late, depending on other load.

use crate::api::Api;
use libsqlite3_sys as ffi;
use std::ffi::{c_int, c_void};
use std::hint;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

/// Shorter reads are of a file's header, which every new transaction reads.
const LEAST_PAGE: c_int = 512;

static PAGE_READS: AtomicU64 = AtomicU64::new(0);
static HEADER_READS: AtomicU64 = AtomicU64::new(0);
static LATENCY_NS: AtomicU64 = AtomicU64::new(0);

type Open = unsafe extern "C" fn(
    *mut ffi::sqlite3_vfs,
    ffi::sqlite3_filename,
    *mut ffi::sqlite3_file,
    c_int,
    *mut c_int,
) -> c_int;
type Read = unsafe extern "C" fn(*mut ffi::sqlite3_file, *mut c_void, c_int, i64) -> c_int;

/// The file system below the device.
struct Below {
    open: Open,
    /// The method tables of files: the address of each, and a copy with the device's `xRead`.
    /// Copies are never freed.
    tables: Mutex<Vec<(usize, &'static ffi::sqlite3_io_methods)>>,
    /// The original `xRead`, which all tables share.
    read: OnceLock<Read>,
}

static BELOW: OnceLock<Below> = OnceLock::new();

/// Reads of pages, and of headers, so far.
pub(crate) fn reads() -> (u64, u64) {
    (PAGE_READS.load(Relaxed), HEADER_READS.load(Relaxed))
}

/// Sets the minimum time that a read of a page takes.
pub(crate) fn set_latency(latency: Duration) {
    LATENCY_NS.store(latency.as_nanos() as u64, Relaxed);
}

/// Puts the device between SQLite and its default file system, before any database is open.
pub(crate) fn install(api: &'static Api) {
    // SAFETY: SQLite's default file system lives as long as the process. A copy of its struct works
    // the same, because its methods use only their argument's `pAppData`. The copy is never freed.
    unsafe {
        let below = (api.vfs_find)(std::ptr::null());
        assert!(!below.is_null(), "SQLite has a default file system");
        let mut copy = Box::new(*below);
        let open = copy.xOpen.expect("a file system opens files");
        BELOW
            .set(Below { open, tables: Mutex::default(), read: OnceLock::new() })
            .unwrap_or_else(|_| panic!("the device is installed once"));
        copy.zName = c"device".as_ptr();
        copy.xOpen = Some(open_counted);
        copy.pNext = std::ptr::null_mut();
        (api.vfs_register)(Box::leak(copy), 1);
    }
}

unsafe extern "C" fn open_counted(
    vfs: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    let below = BELOW.get().expect("the device is installed");
    // SAFETY: SQLite's arguments are passed on. If the file system sets methods, they are a table
    // that lives as long as the process.
    unsafe {
        let code = (below.open)(vfs, name, file, flags, out_flags);
        if code == ffi::SQLITE_OK && !(*file).pMethods.is_null() {
            (*file).pMethods = below.counted(&*(*file).pMethods);
        }
        code
    }
}

impl Below {
    fn counted(&self, methods: &'static ffi::sqlite3_io_methods) -> *const ffi::sqlite3_io_methods {
        let mut tables = self.tables.lock().expect("no thread panics with this lock");
        let key = std::ptr::from_ref(methods).addr();
        if let Some((_, copy)) = tables.iter().find(|(original, _)| *original == key) {
            return *copy;
        }
        let read = methods.xRead.expect("a file can be read");
        let one = *self.read.get_or_init(|| read);
        assert!(std::ptr::fn_addr_eq(one, read), "the files of one file system are read alike");
        let mut copy = *methods;
        copy.xRead = Some(read_counted);
        let copy: &'static ffi::sqlite3_io_methods = Box::leak(Box::new(copy));
        tables.push((key, copy));
        copy
    }
}

unsafe extern "C" fn read_counted(
    file: *mut ffi::sqlite3_file,
    to: *mut c_void,
    bytes: c_int,
    at: i64,
) -> c_int {
    let below = BELOW.get().expect("the device is installed");
    let read = below.read.get().expect("a file was opened");
    let start = Instant::now();
    // SAFETY: SQLite's arguments are passed on to the method that they are meant for.
    let code = unsafe { read(file, to, bytes, at) };
    if bytes < LEAST_PAGE {
        HEADER_READS.fetch_add(1, Relaxed);
        return code;
    }
    PAGE_READS.fetch_add(1, Relaxed);
    let latency = Duration::from_nanos(LATENCY_NS.load(Relaxed));
    while start.elapsed() < latency {
        hint::spin_loop();
    }
    code
}
