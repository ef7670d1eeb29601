//! The positions of a body's sections and tables, in words from the start of the record.
//!
//! Equation: each section or table begins where the one before ends; the last ends in the record.

use crate::events::EVENTS;
use crate::head::Head;
use crate::rows::{CacheRow, ListRow, LockRow, ZoneRow};
use crate::sections::{About, Budget, Memory};
use crate::{NAME_BYTES, RECORD_WORDS};

/// Maximum number of rows in the table of zones.
pub const ZONES: usize = 4;
/// Maximum number of rows in the table of kinds of locks.
pub const LOCKS: usize = 28;
/// Maximum number of rows in the table of pcp lists.
pub const LISTS: usize = 48;
/// Maximum number of rows in the table of caches.
pub const CACHES: usize = 56;

/// The first word of the body.
pub const START: usize = 32;

pub(crate) const ABOUT_AT: usize = START;
pub(crate) const MEMORY_AT: usize = ABOUT_AT + About::WORDS;
pub(crate) const BUDGET_AT: usize = MEMORY_AT + Memory::WORDS;
pub(crate) const EVENTS_AT: usize = BUDGET_AT + Budget::WORDS;
pub(crate) const ZONES_AT: usize = EVENTS_AT + EVENTS;
pub(crate) const LOCKS_AT: usize = ZONES_AT + ZONES * ZoneRow::WORDS;
pub(crate) const LISTS_AT: usize = LOCKS_AT + LOCKS * LockRow::WORDS;
pub(crate) const CACHES_AT: usize = LISTS_AT + LISTS * ListRow::WORDS;
const END: usize = CACHES_AT + CACHES * CacheRow::WORDS;

const _: () = assert!(Head::WORDS <= START && END <= RECORD_WORDS && NAME_BYTES.is_multiple_of(8));
