//! The layout of the statistics page, in which a process on Quarry publishes its state to others.
//!
//! The page is one memfd of [`PAGE_BYTES`] with [`RECORDS`] *records*. The process that made it
//! owns the first record, and each forked child claims another one. Only Quarry writes the page;
//! [`Snapshot::parse`] reads a copy of one record, and trusts nothing in it.
//!
//! A record is a row of native 64-bit words, little endian on every machine that Quarry runs on.
//! Its [`Head`] comes first: the owner, and the sequence, which is odd while the owner writes. The
//! *body* follows: sections of fixed size in the order of [`body`], and tables of fixed length
//! ([`body::CACHES`] rows and so on), whose first rows are filled. A sum in the head covers the
//! owner and every valid word of the body, so no reader accepts a mixture of two publications.
//!
//! Each module uses only modules before it in this list: `sum`, `name`; `json`; `field`; `head`,
//! `sections`, `rows`; `events`; `body`; `draft`, `snapshot`; `json_line`, `page`; on its own,
//! `profile_bell`.
//!
//! A new field or event needs a new `VERSION`, and code in `malloc/mm/src/stack/record.rs` that
//! fills it.
#![no_std]
#![forbid(unsafe_code)]

pub mod body;
mod draft;
pub mod events;
mod field;
mod head;
mod json;
mod json_line;
mod name;
mod page;
pub mod profile_bell;
mod rows;
mod sections;
mod snapshot;
pub mod sum;

pub use draft::{Draft, Sink};
pub use head::{Head, Owner, Sequence};
pub use name::{NAME_BYTES, Name, is_plain};
pub use page::{record_of, records};
pub use rows::{CacheRow, ListRow, LockRow, ZoneRow};
pub use sections::{About, Budget, Memory, flags};
pub use snapshot::{RecordError, Snapshot};

/// First word of each record: `QUARRYRC` as bytes.
pub const MAGIC: u64 = u64::from_le_bytes(*b"QUARRYRC");

/// Version of the layout. It changes with every change of a section, a table or an event.
pub const VERSION: u32 = 3;

/// Number of records in a page.
pub const RECORDS: usize = 16;

/// Bytes of a record: 4 pages of 4 KiB.
pub const RECORD_BYTES: usize = 16 << 10;

/// Words of a record.
pub const RECORD_WORDS: usize = RECORD_BYTES / 8;

/// Bytes of the page: 64 pages of 4 KiB.
pub const PAGE_BYTES: usize = RECORDS * RECORD_BYTES;

/// Name of the memfd, in `/proc/PID/fd` and `/proc/PID/maps`: `/memfd:quarry-record (deleted)`.
pub const MEMFD_NAME: &core::ffi::CStr = c"quarry-record";

/// Least number of the memfd's descriptor: above the numbers that programs expect to get. If the
/// limit of open files is low and may be raised for a moment, the number is the limit itself: a
/// program that closes all numbers below the limit leaves the memfd open. Otherwise it is below 64
/// if possible: a higher one makes the kernel allocate a larger table at the start and every fork.
pub const LEAST_DESCRIPTOR: i32 = 48;

/// Name of the symbol, in `libquarry.so` and in Rust programs, of a word that holds the page's
/// address (or 0).
pub const SYMBOL: &str = "quarry_record";
