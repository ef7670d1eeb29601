//! The types that SQLite and its page cache share, as in `sqlite3.h` of version 3.54. They have not
//! changed since 3.7.14 (2012).

use std::ffi::{c_int, c_uint, c_void};

/// `sqlite3_config`.
pub type ConfigFn = unsafe extern "C" fn(c_int, ...) -> c_int;

/// `SQLITE_OK`.
pub(crate) const OK: c_int = 0;
/// `SQLITE_MISUSE`: SQLite is in use, and cannot be configured.
pub(crate) const MISUSE: c_int = 21;
/// `SQLITE_CONFIG_MALLOC`.
pub(crate) const CONFIG_MALLOC: c_int = 4;
/// `SQLITE_CONFIG_PCACHE2`.
pub(crate) const CONFIG_PCACHE2: c_int = 18;

/// A cached page as SQLite sees it (`sqlite3_pcache_page`).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PcachePage {
    /// The bytes of the page.
    pub buffer: *mut c_void,
    /// Further bytes that SQLite keeps for the page.
    pub extra: *mut c_void,
}

/// A page cache of one open file (`sqlite3_pcache`); SQLite uses only its address.
#[repr(C)]
pub struct Pcache {
    _opaque: [u8; 0],
}

/// `sqlite3_pcache_methods2`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "sqlite3.h documents the methods")]
pub struct PcacheMethods2 {
    pub version: c_int,
    pub argument: *mut c_void,
    pub init: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
    pub shutdown: Option<unsafe extern "C" fn(*mut c_void)>,
    pub create: Option<unsafe extern "C" fn(c_int, c_int, c_int) -> *mut Pcache>,
    pub cachesize: Option<unsafe extern "C" fn(*mut Pcache, c_int)>,
    pub pagecount: Option<unsafe extern "C" fn(*mut Pcache) -> c_int>,
    pub fetch: Option<unsafe extern "C" fn(*mut Pcache, c_uint, c_int) -> *mut PcachePage>,
    pub unpin: Option<unsafe extern "C" fn(*mut Pcache, *mut PcachePage, c_int)>,
    pub rekey: Option<unsafe extern "C" fn(*mut Pcache, *mut PcachePage, c_uint, c_uint)>,
    pub truncate: Option<unsafe extern "C" fn(*mut Pcache, c_uint)>,
    pub destroy: Option<unsafe extern "C" fn(*mut Pcache)>,
    pub shrink: Option<unsafe extern "C" fn(*mut Pcache)>,
}

/// `sqlite3_mem_methods`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "sqlite3.h documents the methods")]
pub struct MemMethods {
    pub malloc: Option<unsafe extern "C" fn(c_int) -> *mut c_void>,
    pub free: Option<unsafe extern "C" fn(*mut c_void)>,
    pub realloc: Option<unsafe extern "C" fn(*mut c_void, c_int) -> *mut c_void>,
    pub size: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
    pub roundup: Option<unsafe extern "C" fn(c_int) -> c_int>,
    pub init: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
    pub shutdown: Option<unsafe extern "C" fn(*mut c_void)>,
    pub argument: *mut c_void,
}
