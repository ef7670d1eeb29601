//! Reads a copy of a record.
//!
//! A reader copies a record, and passes the copy to [`Snapshot::parse`], which detects by sequence
//! and sum whether the process published during the copy. If it did, the reader copies again.

use crate::body::{
    ABOUT_AT, BUDGET_AT, CACHES, CACHES_AT, EVENTS_AT, LISTS, LISTS_AT, LOCKS, LOCKS_AT, MEMORY_AT,
    ZONES, ZONES_AT,
};
use crate::events;
use crate::field::Field;
use crate::head::{Head, Owner, Sequence};
use crate::rows::{CacheRow, ListRow, LockRow, ZoneRow};
use crate::sections::{About, Budget, Memory};
use crate::sum::sum;
use crate::{MAGIC, RECORD_BYTES, RECORD_WORDS, VERSION};
use core::fmt;

/// The reason why a record cannot be read. Prints as the end of a sentence about the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordError {
    /// There are fewer bytes than a record has.
    Short,
    /// No process has ever written to the record.
    Blank,
    /// The magic number is wrong.
    NotARecord,
    /// The record has another version of the layout.
    OtherVersion {
        /// The record's version.
        version: u32,
    },
    /// No process owns the record.
    Free,
    /// The owner has published nothing yet.
    Unpublished {
        /// The owner.
        owner: Owner,
    },
    /// The owner is publishing, or died while it published.
    BeingWritten {
        /// The owner.
        owner: Owner,
    },
    /// The owner published while the reader copied, or the sum or a count of rows is wrong.
    Torn,
    /// The sum is right, but the name of a cache or of a kind of locks is invalid.
    Malformed,
}

impl fmt::Display for RecordError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short => write!(out, "has fewer than {RECORD_BYTES} bytes"),
            Self::Blank => out.write_str("is not written yet"),
            Self::NotARecord => out.write_str("is not a record of Quarry"),
            Self::OtherVersion { version } => {
                write!(out, "has layout version {version}; this reads version {VERSION}")
            }
            Self::Free => out.write_str("belongs to no process"),
            Self::Unpublished { owner } => {
                write!(out, "of process {} has nothing published yet", owner.pid)
            }
            Self::BeingWritten { owner } => {
                write!(out, "is being written by process {}, or it ended meanwhile", owner.pid)
            }
            Self::Torn => out.write_str("was written while it was read, or is damaged"),
            Self::Malformed => out.write_str("is damaged: a table or a name in it is impossible"),
        }
    }
}

impl core::error::Error for RecordError {}

impl Head {
    /// The head of the record that `bytes` begin with. O(1).
    ///
    /// # Errors
    /// `Short`, `Blank`, `NotARecord` and `OtherVersion`.
    pub fn parse(bytes: &[u8]) -> Result<Self, RecordError> {
        if bytes.len() < RECORD_BYTES {
            return Err(RecordError::Short);
        }
        let head = <Self as Field>::get(bytes).ok_or(RecordError::Short)?;
        if head.magic != MAGIC {
            let is_blank = bytes[..RECORD_BYTES].iter().all(|byte| *byte == 0);
            return Err(if is_blank { RecordError::Blank } else { RecordError::NotARecord });
        }
        if (head.version, head.words as usize) != (VERSION, RECORD_WORDS) {
            return Err(RecordError::OtherVersion { version: head.version });
        }
        Ok(head)
    }
}

/// A publication whose sum and counts are right, with methods for its sections and rows.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    bytes: &'a [u8],
    head: Head,
    about: About,
}

impl<'a> Snapshot<'a> {
    /// Checks the record at the start of `bytes`, which may contain anything. O(bytes of a record).
    ///
    /// # Errors
    /// See [`RecordError`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, RecordError> {
        let head = Head::parse(bytes)?;
        let (owner, sequence) = (head.owner(), head.sequence());
        if owner.is_vacant() {
            return Err(RecordError::Free);
        }
        if sequence.generation != owner.generation || sequence.count == 0 {
            return Err(RecordError::Unpublished { owner });
        }
        if sequence.is_writing() {
            return Err(RecordError::BeingWritten { owner });
        }
        let about = section::<About>(bytes, ABOUT_AT).ok_or(RecordError::Torn)?;
        let most = [CACHES, ZONES, LISTS, LOCKS];
        let rows = [about.caches, about.zones, about.lists, about.locks];
        if rows.iter().zip(most).any(|(rows, most)| *rows as usize > most) {
            return Err(RecordError::Torn);
        }
        let snapshot = Self { bytes, head, about };
        if !cfg!(fuzzing) && Head::sum_for(owner, snapshot.sum()) != head.sum {
            return Err(RecordError::Torn);
        }
        let has_names = snapshot.rows::<CacheRow>(CACHES_AT, about.caches).all(|it| it.is_some())
            && snapshot.rows::<LockRow>(LOCKS_AT, about.locks).all(|it| it.is_some());
        if has_names { Ok(snapshot) } else { Err(RecordError::Malformed) }
    }

    fn sum(&self) -> u64 {
        let about = &self.about;
        let ranges = [
            (ABOUT_AT, ZONES_AT - ABOUT_AT),
            (ZONES_AT, about.zones as usize * ZoneRow::WORDS),
            (LOCKS_AT, about.locks as usize * LockRow::WORDS),
            (LISTS_AT, about.lists as usize * ListRow::WORDS),
            (CACHES_AT, about.caches as usize * CacheRow::WORDS),
        ];
        let words = ranges.into_iter().flat_map(|(at, words)| at..at + words);
        sum(words.map(|at| (at, word(self.bytes, at))))
    }

    fn rows<T: Field>(&self, at: usize, rows: u32) -> impl Iterator<Item = Option<T>> + use<'a, T> {
        let bytes = self.bytes;
        (0..rows as usize).map(move |row| section(bytes, at + row * (T::BYTES / 8)))
    }

    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The owner of the record.
    #[must_use]
    pub fn owner(&self) -> Owner {
        self.head.owner()
    }

    /// The sequence of the publication; another publication has another sequence.
    #[must_use]
    pub fn sequence(&self) -> Sequence {
        self.head.sequence()
    }

    /// When the owner claimed the record, on `CLOCK_MONOTONIC`, in nanoseconds.
    #[must_use]
    pub fn claimed_ns(&self) -> u64 {
        self.head.claimed_ns
    }

    /// When the publication began, on the same clock.
    #[must_use]
    pub fn published_ns(&self) -> u64 {
        self.head.published_ns
    }

    /// Publications of this owner, this one included.
    #[must_use]
    pub fn publications(&self) -> u64 {
        self.head.publications
    }

    /// The build of Quarry that serves the process.
    #[must_use]
    pub fn about(&self) -> &About {
        &self.about
    }

    /// The uses of the heap's memory.
    #[must_use]
    pub fn memory(&self) -> Memory {
        section(self.bytes, MEMORY_AT).unwrap_or_default()
    }

    /// The budget.
    #[must_use]
    pub fn budget(&self) -> Budget {
        section(self.bytes, BUDGET_AT).unwrap_or_default()
    }

    /// Names and values of all events and gauges.
    pub fn events(&self) -> impl Iterator<Item = (&'static str, u64)> + use<'a> {
        let bytes = self.bytes;
        events::names().enumerate().map(move |(at, name)| (name, word(bytes, EVENTS_AT + at)))
    }

    /// The value of an event or gauge; `None` where no value has this name.
    #[must_use]
    pub fn event(&self, name: &str) -> Option<u64> {
        self.events().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// The slab caches, in the order of their numbers.
    pub fn caches(&self) -> impl Iterator<Item = CacheRow> + use<'a> {
        self.rows(CACHES_AT, self.about.caches).flatten()
    }

    /// The zones, in the order of their nodes.
    pub fn zones(&self) -> impl Iterator<Item = ZoneRow> + use<'a> {
        self.rows(ZONES_AT, self.about.zones).flatten()
    }

    /// The pcp lists, one row for each CPU and node.
    pub fn lists(&self) -> impl Iterator<Item = ListRow> + use<'a> {
        self.rows(LISTS_AT, self.about.lists).flatten()
    }

    /// The kinds of locks.
    pub fn locks(&self) -> impl Iterator<Item = LockRow> + use<'a> {
        self.rows(LOCKS_AT, self.about.locks).flatten()
    }
}

/// The section at the word number `at`; `None` if a name in it is invalid.
fn section<T: Field>(bytes: &[u8], at: usize) -> Option<T> {
    T::get(bytes.get(at * 8..)?)
}

fn word(bytes: &[u8], at: usize) -> u64 {
    section(bytes, at).unwrap_or_default()
}
