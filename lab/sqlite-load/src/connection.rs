//! A connection to a database, in either build of SQLite, and its prepared statements.

use crate::api::Api;
use anyhow::{Result, bail};
use libsqlite3_sys as ffi;
use std::ffi::{CStr, CString};
use std::path::Path;
use std::ptr::{null, null_mut};
use std::slice;

#[derive(Debug, thiserror::Error)]
#[error("SQLite: {message} ({code})")]
pub(crate) struct SqlError {
    pub(crate) code: i32,
    pub(crate) message: String,
}

impl SqlError {
    pub(crate) fn is_no_memory(&self) -> bool {
        // SQLite reports SQLITE_IOERR_NOMEM if a method of a file finds no memory.
        self.code & 0xff == ffi::SQLITE_NOMEM || self.code == ffi::SQLITE_IOERR_NOMEM
    }
}

pub(crate) struct Connection {
    pub(crate) api: &'static Api,
    pub(crate) handle: *mut ffi::sqlite3,
}

// SAFETY: SQLite is in its multi-threaded or serialized mode, in which a connection may move to
// another thread; no code here shares a connection.
unsafe impl Send for Connection {}

impl Connection {
    /// Opens a database, or creates it if `flags` ask for it.
    pub(crate) fn open(api: &'static Api, path: &Path, flags: i32) -> Result<Self, SqlError> {
        let name = CString::new(path.to_string_lossy().as_bytes()).expect("a path has no NUL");
        let mut handle = null_mut();
        // SAFETY: the name ends with a NUL, and the handle is a place for one.
        let code = unsafe {
            (api.open_v2)(name.as_ptr(), &mut handle, flags | ffi::SQLITE_OPEN_NOMUTEX, null())
        };
        // A failed open also gives a handle, which has the reason, unless there was no memory.
        let connection = Self { api, handle };
        if code == ffi::SQLITE_OK { Ok(connection) } else { Err(connection.error(code)) }
    }

    /// Opens an existing database for reading and writing.
    pub(crate) fn existing(api: &'static Api, path: &Path) -> Result<Self, SqlError> {
        Self::open(api, path, ffi::SQLITE_OPEN_READWRITE)
    }

    /// Opens a database for reading and writing, or creates it.
    pub(crate) fn create(api: &'static Api, path: &Path) -> Result<Self, SqlError> {
        Self::open(api, path, ffi::SQLITE_OPEN_READWRITE | ffi::SQLITE_OPEN_CREATE)
    }

    /// Runs statements and ignores their rows.
    pub(crate) fn run(&self, sql: &str) -> Result<(), SqlError> {
        let sql = CString::new(sql).expect("SQL has no NUL");
        // SAFETY: the connection is open, and the text ends with a NUL.
        let code =
            unsafe { (self.api.exec)(self.handle, sql.as_ptr(), None, null_mut(), null_mut()) };
        if code == ffi::SQLITE_OK { Ok(()) } else { Err(self.error(code)) }
    }

    pub(crate) fn prepare(&self, sql: &str) -> Result<Statement<'_>, SqlError> {
        Ok(self.prepare_first(sql)?.0)
    }

    /// Prepares the first statement of `sql`; returns the text after it.
    pub(crate) fn prepare_first<'s>(
        &self,
        sql: &'s str,
    ) -> Result<(Statement<'_>, &'s str), SqlError> {
        let (mut handle, mut tail) = (null_mut(), null());
        let length = i32::try_from(sql.len()).expect("a script is shorter than 2 GiB");
        // SAFETY: the connection is open, and the text has `length` bytes.
        let code = unsafe {
            (self.api.prepare_v2)(self.handle, sql.as_ptr().cast(), length, &mut handle, &mut tail)
        };
        if code != ffi::SQLITE_OK {
            return Err(self.error(code));
        }
        let done = tail.addr() - sql.as_ptr().addr();
        Ok((Statement { connection: self, handle }, &sql[done..]))
    }

    /// Returns the first integer that `sql` selects, or 0.
    pub(crate) fn integer(&self, sql: &str) -> Result<i64, SqlError> {
        let mut statement = self.prepare(sql)?;
        let value = if statement.step()? { statement.integer(0) } else { 0 };
        Ok(value)
    }

    /// Returns the first text that `sql` selects, or an empty one.
    pub(crate) fn text(&self, sql: &str) -> Result<String, SqlError> {
        let mut statement = self.prepare(sql)?;
        Ok(if statement.step()? { statement.text(0) } else { String::new() })
    }

    /// Fails if SQLite finds the database damaged.
    pub(crate) fn check(&self) -> Result<()> {
        match self.text("PRAGMA integrity_check")?.as_str() {
            "ok" => Ok(()),
            fault => bail!("integrity_check: {fault}"),
        }
    }

    fn error(&self, code: i32) -> SqlError {
        if self.handle.is_null() {
            return SqlError { code, message: "no connection".to_owned() };
        }
        // SAFETY: the connection is open, and its message stays a C string until the next call.
        let (code, message) = unsafe {
            let extended = (self.api.extended_errcode)(self.handle);
            (extended, CStr::from_ptr((self.api.errmsg)(self.handle)))
        };
        SqlError { code, message: message.to_string_lossy().into_owned() }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: statements borrow the connection, so none is left.
        unsafe { (self.api.close)(self.handle) };
    }
}

pub(crate) struct Statement<'c> {
    connection: &'c Connection,
    handle: *mut ffi::sqlite3_stmt,
}

impl Statement<'_> {
    /// Returns whether the text was no statement, only space or comments.
    pub(crate) fn is_empty(&self) -> bool {
        self.handle.is_null()
    }

    pub(crate) fn bind(&self, index: i32, value: i64) {
        // SAFETY: the statement is prepared.
        unsafe { (self.connection.api.bind_int64)(self.handle, index, value) };
    }

    /// Sets parameter `index`, counted from 1, to `bytes`. SQLite copies them.
    pub(crate) fn bind_blob(&self, index: i32, bytes: &[u8]) {
        let length = i32::try_from(bytes.len()).expect("a blob is shorter than 2 GiB");
        let copied = ffi::SQLITE_TRANSIENT();
        // SAFETY: the statement is prepared, and the bytes are copied before the call returns.
        unsafe {
            (self.connection.api.bind_blob)(
                self.handle,
                index,
                bytes.as_ptr().cast(),
                length,
                copied,
            )
        };
    }

    /// Goes to the next row; false after the last one.
    pub(crate) fn step(&mut self) -> Result<bool, SqlError> {
        // SAFETY: the statement is prepared.
        match unsafe { (self.connection.api.step)(self.handle) } {
            ffi::SQLITE_ROW => Ok(true),
            ffi::SQLITE_DONE => Ok(false),
            code => Err(self.connection.error(code)),
        }
    }

    pub(crate) fn reset(&mut self) {
        // SAFETY: the statement is prepared.
        unsafe { (self.connection.api.reset)(self.handle) };
    }

    pub(crate) fn columns(&self) -> i32 {
        // SAFETY: the statement is prepared.
        unsafe { (self.connection.api.column_count)(self.handle) }
    }

    /// The type of a column in the present row: `SQLITE_INTEGER` and so on.
    pub(crate) fn kind(&self, column: i32) -> i32 {
        // SAFETY: the statement stands on a row.
        unsafe { (self.connection.api.column_type)(self.handle, column) }
    }

    pub(crate) fn integer(&self, column: i32) -> i64 {
        // SAFETY: the statement stands on a row.
        unsafe { (self.connection.api.column_int64)(self.handle, column) }
    }

    pub(crate) fn blob(&self, column: i32) -> &[u8] {
        // SAFETY: the statement stands on a row. The bytes live until the next step, which borrows
        // the statement exclusively.
        unsafe {
            let bytes = (self.connection.api.column_blob)(self.handle, column).cast::<u8>();
            let length = (self.connection.api.column_bytes)(self.handle, column);
            if bytes.is_null() {
                return &[];
            }
            slice::from_raw_parts(bytes, usize::try_from(length).expect("a length"))
        }
    }

    pub(crate) fn text(&self, column: i32) -> String {
        // SAFETY: same as in `blob`.
        unsafe {
            let text = (self.connection.api.column_text)(self.handle, column);
            if text.is_null() {
                return String::new();
            }
            CStr::from_ptr(text.cast()).to_string_lossy().into_owned()
        }
    }
}

impl Drop for Statement<'_> {
    fn drop(&mut self) {
        // SAFETY: the statement is prepared, and owned by this value.
        unsafe { (self.connection.api.finalize)(self.handle) };
    }
}
