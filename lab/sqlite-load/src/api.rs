//! The functions of SQLite as one table.

use libsqlite3_sys::{sqlite3, sqlite3_destructor_type, sqlite3_stmt};
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
        unsafe extern "C" fn(*const c_char, *mut *mut sqlite3, c_int, *const c_char) -> c_int,
    pub(crate) close: unsafe extern "C" fn(*mut sqlite3) -> c_int,
    pub(crate) exec: unsafe extern "C" fn(
        *mut sqlite3,
        *const c_char,
        RowCallback,
        *mut c_void,
        *mut *mut c_char,
    ) -> c_int,
    pub(crate) prepare_v2: unsafe extern "C" fn(
        *mut sqlite3,
        *const c_char,
        c_int,
        *mut *mut sqlite3_stmt,
        *mut *const c_char,
    ) -> c_int,
    pub(crate) step: unsafe extern "C" fn(*mut sqlite3_stmt) -> c_int,
    pub(crate) reset: unsafe extern "C" fn(*mut sqlite3_stmt) -> c_int,
    pub(crate) finalize: unsafe extern "C" fn(*mut sqlite3_stmt) -> c_int,
    pub(crate) bind_int64: unsafe extern "C" fn(*mut sqlite3_stmt, c_int, i64) -> c_int,
    pub(crate) bind_blob: unsafe extern "C" fn(
        *mut sqlite3_stmt,
        c_int,
        *const c_void,
        c_int,
        sqlite3_destructor_type,
    ) -> c_int,
    pub(crate) column_count: unsafe extern "C" fn(*mut sqlite3_stmt) -> c_int,
    pub(crate) column_type: unsafe extern "C" fn(*mut sqlite3_stmt, c_int) -> c_int,
    pub(crate) column_int64: unsafe extern "C" fn(*mut sqlite3_stmt, c_int) -> i64,
    pub(crate) column_blob: unsafe extern "C" fn(*mut sqlite3_stmt, c_int) -> *const c_void,
    pub(crate) column_text: unsafe extern "C" fn(*mut sqlite3_stmt, c_int) -> *const c_uchar,
    pub(crate) column_bytes: unsafe extern "C" fn(*mut sqlite3_stmt, c_int) -> c_int,
    pub(crate) errmsg: unsafe extern "C" fn(*mut sqlite3) -> *const c_char,
    pub(crate) extended_errcode: unsafe extern "C" fn(*mut sqlite3) -> c_int,
    pub(crate) memory_used: unsafe extern "C" fn() -> i64,
}

unsafe extern "C" {
    safe static quarry_plain_api: Api;
}

/// SQLite as its own build makes it.
pub(crate) fn plain() -> &'static Api {
    &quarry_plain_api
}
