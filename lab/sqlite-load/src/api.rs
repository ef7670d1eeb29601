//! The functions of SQLite, of either build, as one table.

use libsqlite3_sys as ffi;
use libsqlite3_sys::{sqlite3, sqlite3_destructor_type, sqlite3_stmt, sqlite3_vfs};
use std::ffi::{c_char, c_int, c_uchar, c_void};

/// Receives each row of [`Api::exec`].
type RowCallback =
    Option<unsafe extern "C" fn(*mut c_void, c_int, *mut *mut c_char, *mut *mut c_char) -> c_int>;

macro_rules! api {
    ($($name:ident is $function:ident($($argument:ty),*) -> $result:ty;)*) => {
        /// The functions that the loads call. The fields match `struct quarry_plain_api` in
        /// plain.c.
        #[repr(C)]
        pub(crate) struct Api {
            pub(crate) config: unsafe extern "C" fn(c_int, ...) -> c_int,
            $(pub(crate) $name: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        /// The build with SQLITE_ENABLE_MEMORY_MANAGEMENT, as in rusqlite's `bundled`: all page
        /// caches are one group under one mutex.
        pub(crate) static MANAGED: Api =
            Api { config: ffi::sqlite3_config, $($name: ffi::$function,)* };
    };
}

api! {
    initialize is sqlite3_initialize() -> c_int;
    shutdown is sqlite3_shutdown() -> c_int;
    open_v2 is sqlite3_open_v2(*const c_char, *mut *mut sqlite3, c_int, *const c_char) -> c_int;
    close is sqlite3_close(*mut sqlite3) -> c_int;
    exec is sqlite3_exec(
        *mut sqlite3, *const c_char, RowCallback, *mut c_void, *mut *mut c_char
    ) -> c_int;
    prepare_v2 is sqlite3_prepare_v2(
        *mut sqlite3, *const c_char, c_int, *mut *mut sqlite3_stmt, *mut *const c_char
    ) -> c_int;
    step is sqlite3_step(*mut sqlite3_stmt) -> c_int;
    reset is sqlite3_reset(*mut sqlite3_stmt) -> c_int;
    finalize is sqlite3_finalize(*mut sqlite3_stmt) -> c_int;
    bind_int64 is sqlite3_bind_int64(*mut sqlite3_stmt, c_int, i64) -> c_int;
    bind_blob is sqlite3_bind_blob(
        *mut sqlite3_stmt, c_int, *const c_void, c_int, sqlite3_destructor_type
    ) -> c_int;
    column_count is sqlite3_column_count(*mut sqlite3_stmt) -> c_int;
    column_type is sqlite3_column_type(*mut sqlite3_stmt, c_int) -> c_int;
    column_int64 is sqlite3_column_int64(*mut sqlite3_stmt, c_int) -> i64;
    column_blob is sqlite3_column_blob(*mut sqlite3_stmt, c_int) -> *const c_void;
    column_text is sqlite3_column_text(*mut sqlite3_stmt, c_int) -> *const c_uchar;
    column_bytes is sqlite3_column_bytes(*mut sqlite3_stmt, c_int) -> c_int;
    errmsg is sqlite3_errmsg(*mut sqlite3) -> *const c_char;
    extended_errcode is sqlite3_extended_errcode(*mut sqlite3) -> c_int;
    vfs_find is sqlite3_vfs_find(*const c_char) -> *mut sqlite3_vfs;
    vfs_register is sqlite3_vfs_register(*mut sqlite3_vfs, c_int) -> c_int;
    soft_heap_limit64 is sqlite3_soft_heap_limit64(i64) -> i64;
    memory_used is sqlite3_memory_used() -> i64;
}

unsafe extern "C" {
    /// The build without SQLITE_ENABLE_MEMORY_MANAGEMENT.
    safe static quarry_plain_api: Api;
}

/// The build without SQLITE_ENABLE_MEMORY_MANAGEMENT: SQLite's own default.
pub(crate) fn plain() -> &'static Api {
    &quarry_plain_api
}
