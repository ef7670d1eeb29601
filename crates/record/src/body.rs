//! Where the sections and tables of a body are, in words from the start of the record, and the sum
//! that covers them.
//!
//! Equation: each begins where the one before it ends; the last ends within the record.

use crate::events::EVENTS;
use crate::head::Head;
use crate::rows::{CacheRow, ListRow, LockRow, ZoneRow};
use crate::sections::{About, Budget, Memory};
use crate::{NAME_BYTES, RECORD_WORDS};

/// Rows of the table of zones.
pub const ZONES: usize = 4;
/// Rows of the table of kinds of locks.
pub const LOCKS: usize = 28;
/// Rows of the table of per-CPU page lists.
pub const LISTS: usize = 48;
/// Rows of the table of caches.
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

/// The part that the word at `at` has in the sum of a body: it depends on its place, so that words
/// that have changed places are found. Zero has no part, wherever it is.
#[must_use]
pub const fn part(at: usize, word: u64) -> u64 {
    // The multipliers of SplitMix64 (Steele, Lea, Flood 2014).
    let place = (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mixed = word.wrapping_mul(place);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// The sum over all words of a body that count: its sections, and the rows that are filled. Wraps;
/// the words may come in any order.
#[must_use]
pub fn sum(words: impl IntoIterator<Item = (usize, u64)>) -> u64 {
    words.into_iter().fold(0, |sum, (at, word)| sum.wrapping_add(part(at, word)))
}
