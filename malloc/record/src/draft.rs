//! Writes the body of a record.

use crate::body::{
    ABOUT_AT, BUDGET_AT, CACHES, CACHES_AT, EVENTS_AT, LISTS, LISTS_AT, LOCKS, LOCKS_AT, MEMORY_AT,
    ZONES, ZONES_AT,
};
use crate::events::EVENTS;
use crate::name::Name;
use crate::rows::{CacheRow, ListRow, LockRow, ZoneRow};
use crate::sections::{About, Budget, Memory};
use crate::sum::part;
use core::mem::offset_of;

/// The destination of a record's words.
pub trait Sink {
    /// Writes the word number `at`, which is below [`RECORD_WORDS`](crate::RECORD_WORDS).
    fn put(&mut self, at: usize, word: u64);
}

/// The body of a publication while it is being written. Rows that do not fit are only counted. The
/// tables of caches and locks then hold the sums of such rows in their last row.
///
/// ```
/// use quarry_record::{About, Budget, CacheRow, Draft, Memory, RECORD_WORDS, Sink};
///
/// struct Words([u64; RECORD_WORDS]);
/// impl Sink for Words {
///     fn put(&mut self, at: usize, word: u64) {
///         self.0[at] = word;
///     }
/// }
/// let mut words = Words([0; RECORD_WORDS]);
/// let mut draft = Draft::new(&mut words);
/// draft.memory(&Memory::default());
/// draft.budget(&Budget::default());
/// draft.cache(&CacheRow::default());
/// let sum = draft.finish(About::default());
/// # let _ = sum;
/// ```
pub struct Draft<'a> {
    sink: &'a mut dyn Sink,
    sum: u64,
    events: usize,
    counts: About,
    other_caches: [u64; CacheRow::WORDS],
    other_locks: [u64; LockRow::WORDS],
}

/// Name of the row that holds the sums of the rows that do not fit.
const OTHERS: &str = "(others)";

/// Adds the words of `row` from number `first` on, which are counts, to those of `sums`.
fn add(sums: &mut [u64], row: &[u64], first: usize) {
    for (sum, part) in sums.iter_mut().zip(row).skip(first) {
        *sum = sum.saturating_add(*part);
    }
}

impl<'a> Draft<'a> {
    /// An empty body.
    pub fn new(sink: &'a mut dyn Sink) -> Self {
        Self {
            sink,
            sum: 0,
            events: 0,
            counts: About::default(),
            other_caches: CacheRow { name: Name::new(OTHERS), ..CacheRow::default() }.to_words(),
            other_locks: LockRow { name: Name::new(OTHERS), ..LockRow::default() }.to_words(),
        }
    }

    fn put(&mut self, at: usize, words: &[u64]) {
        for (at, word) in (at..).zip(words) {
            self.sum = self.sum.wrapping_add(part(at, *word));
            self.sink.put(at, *word);
        }
    }

    /// Writes the section of memory. To be called once.
    pub fn memory(&mut self, memory: &Memory) {
        self.put(MEMORY_AT, &memory.to_words());
    }

    /// Writes the budget. To be called once.
    pub fn budget(&mut self, budget: &Budget) {
        self.put(BUDGET_AT, &budget.to_words());
    }

    /// Writes the next event or gauge, in the order of [`names`](crate::events::names).
    pub fn event(&mut self, value: u64) {
        debug_assert!(self.events < EVENTS, "more events than a record has");
        if self.events < EVENTS {
            self.put(EVENTS_AT + self.events, &[value]);
            self.events += 1;
        }
    }

    /// Adds a row to the table of zones.
    pub fn zone(&mut self, row: &ZoneRow) {
        if self.counts.zones as usize == ZONES {
            self.counts.zones_beyond += 1;
            return;
        }
        self.put(ZONES_AT + self.counts.zones as usize * ZoneRow::WORDS, &row.to_words());
        self.counts.zones += 1;
    }

    /// Adds a row to the table of pcp lists.
    pub fn list(&mut self, row: &ListRow) {
        if self.counts.lists as usize == LISTS {
            self.counts.lists_beyond += 1;
            return;
        }
        self.put(LISTS_AT + self.counts.lists as usize * ListRow::WORDS, &row.to_words());
        self.counts.lists += 1;
    }

    /// Adds a row to the table of kinds of locks.
    pub fn lock(&mut self, row: &LockRow) {
        if self.counts.locks as usize == LOCKS - 1 {
            self.counts.locks_beyond += 1;
            add(&mut self.other_locks, &row.to_words(), offset_of!(LockRow, locks) / 8);
            return;
        }
        self.put(LOCKS_AT + self.counts.locks as usize * LockRow::WORDS, &row.to_words());
        self.counts.locks += 1;
    }

    /// Adds a row to the table of caches.
    pub fn cache(&mut self, row: &CacheRow) {
        if self.counts.caches as usize == CACHES - 1 {
            self.counts.caches_beyond += 1;
            add(&mut self.other_caches, &row.to_words(), offset_of!(CacheRow, active_objects) / 8);
            return;
        }
        self.put(CACHES_AT + self.counts.caches as usize * CacheRow::WORDS, &row.to_words());
        self.counts.caches += 1;
    }

    /// Writes the rows of sums, then `about`, with the counts of rows filled in. Returns the sum of
    /// the body; see [`Head::sum_for`](crate::Head::sum_for).
    pub fn finish(mut self, about: About) -> u64 {
        // Values that this draft has not written may still be those of an earlier owner.
        while self.events < EVENTS {
            self.event(0);
        }
        if self.counts.caches_beyond > 0 {
            let row = self.other_caches;
            self.put(CACHES_AT + (CACHES - 1) * CacheRow::WORDS, &row);
            self.counts.caches += 1;
        }
        if self.counts.locks_beyond > 0 {
            let row = self.other_locks;
            self.put(LOCKS_AT + (LOCKS - 1) * LockRow::WORDS, &row);
            self.counts.locks += 1;
        }
        let counts = self.counts;
        let about = About {
            caches: counts.caches,
            caches_beyond: counts.caches_beyond,
            zones: counts.zones,
            zones_beyond: counts.zones_beyond,
            lists: counts.lists,
            lists_beyond: counts.lists_beyond,
            locks: counts.locks,
            locks_beyond: counts.locks_beyond,
            ..about
        };
        self.put(ABOUT_AT, &about.to_words());
        self.sum
    }
}
