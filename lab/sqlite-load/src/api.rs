//! The functions of SQLite, of either build, as one table.

use libsqlite3_sys as ffi;
use std::ffi::{c_char, c_int, c_uchar, c_void};

/// Receives each row of [`Api::exec`].
type RowCallback =
    Option<unsafe extern "C" fn(*mut c_void, c_int, *mut *mut c_char, *mut *mut c_char) -> c_int>;

/// The functions that the loads call. The fields match `struct quarry_plain_api` in plain.c.
#[repr(C)]
pub(crate) struct Api {
    pub(crate) config: unsafe extern "C" fn(c_int, ...) -> c_int,
    pub(crate) initialize: unsafe extern "C" fn() -> c_int,
    pub(crate) shutdown: unsafe extern "C" fn() -> c_int,
    pub(crate) open_v2:
        unsafe extern "C" fn(*const c_char, *mut *mut ffi::sqlite3, c_int, *const c_char) -> c_int,
    pub(crate) close: unsafe extern "C" fn(*mut ffi::sqlite3) -> c_int,
    pub(crate) exec: unsafe extern "C" fn(
        *mut ffi::sqlite3,
        *const c_char,
        RowCallback,
        *mut c_void,
        *mut *mut c_char,
    ) -> c_int,
    pub(crate) prepare_v2: unsafe extern "C" fn(
        *mut ffi::sqlite3,
        *const c_char,
        c_int,
        *mut *mut ffi::sqlite3_stmt,
        *mut *const c_char,
    ) -> c_int,
    pub(crate) step: unsafe extern "C" fn(*mut ffi::sqlite3_stmt) -> c_int,
    pub(crate) reset: unsafe extern "C" fn(*mut ffi::sqlite3_stmt) -> c_int,
    pub(crate) finalize: unsafe extern "C" fn(*mut ffi::sqlite3_stmt) -> c_int,
    pub(crate) bind_int64: unsafe extern "C" fn(*mut ffi::sqlite3_stmt, c_int, i64) -> c_int,
    pub(crate) bind_blob: unsafe extern "C" fn(
        *mut ffi::sqlite3_stmt,
        c_int,
        *const c_void,
        c_int,
        ffi::sqlite3_destructor_type,
    ) -> c_int,
    pub(crate) column_count: unsafe extern "C" fn(*mut ffi::sqlite3_stmt) -> c_int,
    pub(crate) column_type: unsafe extern "C" fn(*mut ffi::sqlite3_stmt, c_int) -> c_int,
    pub(crate) column_int64: unsafe extern "C" fn(*mut ffi::sqlite3_stmt, c_int) -> i64,
    pub(crate) column_blob: unsafe extern "C" fn(*mut ffi::sqlite3_stmt, c_int) -> *const c_void,
    pub(crate) column_text: unsafe extern "C" fn(*mut ffi::sqlite3_stmt, c_int) -> *const c_uchar,
    pub(crate) column_bytes: unsafe extern "C" fn(*mut ffi::sqlite3_stmt, c_int) -> c_int,
    pub(crate) errmsg: unsafe extern "C" fn(*mut ffi::sqlite3) -> *const c_char,
    pub(crate) extended_errcode: unsafe extern "C" fn(*mut ffi::sqlite3) -> c_int,
    pub(crate) vfs_find: unsafe extern "C" fn(*const c_char) -> *mut ffi::sqlite3_vfs,
    pub(crate) vfs_register: unsafe extern "C" fn(*mut ffi::sqlite3_vfs, c_int) -> c_int,
    pub(crate) soft_heap_limit64: unsafe extern "C" fn(i64) -> i64,
    pub(crate) memory_used: unsafe extern "C" fn() -> i64,
    pub(crate) db_release_memory: unsafe extern "C" fn(*mut ffi::sqlite3) -> c_int,
}

unsafe extern "C" {
    /// The build without SQLITE_ENABLE_MEMORY_MANAGEMENT.
    safe static quarry_plain_api: Api;
}

/// The build without SQLITE_ENABLE_MEMORY_MANAGEMENT: SQLite's own default.
pub(crate) fn plain() -> &'static Api {
    &quarry_plain_api
}

/// The build with SQLITE_ENABLE_MEMORY_MANAGEMENT, as in rusqlite's `bundled`: all page caches are
/// one group under one mutex.
pub(crate) static MANAGED: Api = Api {
    config: ffi::sqlite3_config,
    initialize: ffi::sqlite3_initialize,
    shutdown: ffi::sqlite3_shutdown,
    open_v2: ffi::sqlite3_open_v2,
    close: ffi::sqlite3_close,
    exec: ffi::sqlite3_exec,
    prepare_v2: ffi::sqlite3_prepare_v2,
    step: ffi::sqlite3_step,
    reset: ffi::sqlite3_reset,
    finalize: ffi::sqlite3_finalize,
    bind_int64: ffi::sqlite3_bind_int64,
    bind_blob: ffi::sqlite3_bind_blob,
    column_count: ffi::sqlite3_column_count,
    column_type: ffi::sqlite3_column_type,
    column_int64: ffi::sqlite3_column_int64,
    column_blob: ffi::sqlite3_column_blob,
    column_text: ffi::sqlite3_column_text,
    column_bytes: ffi::sqlite3_column_bytes,
    errmsg: ffi::sqlite3_errmsg,
    extended_errcode: ffi::sqlite3_extended_errcode,
    vfs_find: ffi::sqlite3_vfs_find,
    vfs_register: ffi::sqlite3_vfs_register,
    soft_heap_limit64: ffi::sqlite3_soft_heap_limit64,
    memory_used: ffi::sqlite3_memory_used,
    db_release_memory: ffi::sqlite3_db_release_memory,
};
