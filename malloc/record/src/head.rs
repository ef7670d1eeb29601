//! The head of a record: its owner, and the state of its publication.
//!
//! Protocol of the two words that several processes change, `owner` and `sequence`:
//!
//! ```text
//! free            owner = 0
//! claim           owner: 0, or one whose last publication is old -> (generation + 1, pid)
//!                 sequence <- (generation + 1, 0)
//! publish         sequence: (generation, even) -> (generation, odd)     by compare-and-swap
//!                 published_ns, publications, sum and body are written
//!                 sequence: (generation, odd) -> (generation, next even) likewise
//! ```
//! A process that fails to change the sequence has lost the record to another process, and claims
//! another record. Before the first publication the sequence is `(generation, 0)`.

use crate::field::section;
use crate::sum::part;

section! {
    /// The words in front of the body. Quarry writes each as one atomic word.
    pub struct Head {
        /// [`MAGIC`](crate::MAGIC).
        pub magic: u64,
        /// [`VERSION`](crate::VERSION) of the layout.
        pub version: u32,
        /// [`RECORD_WORDS`](crate::RECORD_WORDS).
        pub words: u32,
        /// The process that owns the record; see [`Owner`]. 0 where the record is free.
        pub owner: u64,
        /// See [`Sequence`].
        pub sequence: u64,
        /// When the owner claimed the record: `CLOCK_MONOTONIC`, in nanoseconds.
        pub claimed_ns: u64,
        /// When the last publication began, on the same clock; 0 before the first one.
        pub published_ns: u64,
        /// Number of publications by this owner.
        pub publications: u64,
        /// The sum of the owner and the body ([`sum_for`](Self::sum_for)). By it a reader detects
        /// words that a process wrote after it had lost the record to this owner.
        pub sum: u64,
    }
}

impl Head {
    /// Position of the word with the magic number.
    pub const MAGIC_AT: usize = 0;
    /// Position of the word with version and length.
    pub const VERSION_AT: usize = 1;
    /// Position of the owner's word.
    pub const OWNER_AT: usize = 2;
    /// Position of the sequence's word.
    pub const SEQUENCE_AT: usize = 3;
    /// Position of the word with the time of the claim.
    pub const CLAIMED_AT: usize = 4;
    /// Position of the word with the time of the publication.
    pub const PUBLISHED_AT: usize = 5;
    /// Position of the word with the count of publications.
    pub const PUBLICATIONS_AT: usize = 6;
    /// Position of the sum's word.
    pub const SUM_AT: usize = 7;

    /// Returns the sum for the head of a record in which `owner` publishes a body with sum `body`.
    #[must_use]
    pub fn sum_for(owner: Owner, body: u64) -> u64 {
        body.wrapping_add(part(Self::OWNER_AT, owner.to_word()))
    }

    /// The owner.
    #[must_use]
    pub fn owner(&self) -> Owner {
        Owner::from_word(self.owner)
    }

    /// The sequence.
    #[must_use]
    pub fn sequence(&self) -> Sequence {
        Sequence::from_word(self.sequence)
    }
}

/// The owner of a record, in one word: `generation : 32 | pid : 32`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// How often the record has been claimed, this claim included: from 1 on.
    pub generation: u32,
    /// `getpid()` of the process, in its own pid namespace; 0 if the record has no owner.
    pub pid: u32,
}

impl Owner {
    /// The owner that a word encodes.
    #[must_use]
    pub const fn from_word(word: u64) -> Self {
        Self { generation: (word >> 32) as u32, pid: word as u32 }
    }

    /// The owner as a word.
    #[must_use]
    pub const fn to_word(self) -> u64 {
        (self.generation as u64) << 32 | self.pid as u64
    }

    /// Returns whether the record has no owner.
    #[must_use]
    pub const fn is_vacant(self) -> bool {
        self.pid == 0
    }
}

/// How often an owner has begun or ended a publication, in a word: `generation : 32 | count : 32`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sequence {
    /// The generation of the [`Owner`].
    pub generation: u32,
    /// Odd during a publication; 0 before the owner's first one.
    pub count: u32,
}

impl Sequence {
    /// The sequence that a word encodes.
    #[must_use]
    pub const fn from_word(word: u64) -> Self {
        Self { generation: (word >> 32) as u32, count: word as u32 }
    }

    /// The sequence as a word.
    #[must_use]
    pub const fn to_word(self) -> u64 {
        (self.generation as u64) << 32 | self.count as u64
    }

    /// The next sequence. Its count is never 0, because that means "nothing published".
    #[must_use]
    pub const fn next(self) -> Self {
        let count = match self.count {
            u32::MAX => 2,
            count => count + 1,
        };
        Self { generation: self.generation, count }
    }

    /// Returns whether the owner is writing, or has died while it wrote.
    #[must_use]
    pub const fn is_writing(self) -> bool {
        self.count % 2 == 1
    }
}

const _: () = assert!(Head::WORDS == Head::SUM_AT + 1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_never_returns_to_its_start() {
        let last = Sequence { generation: 7, count: u32::MAX };
        assert!(last.is_writing() && !last.next().is_writing());
        assert_eq!(last.next(), Sequence { generation: 7, count: 2 });
        assert_eq!(Sequence::from_word(last.to_word()), last);
    }
}
