//! The head of a record: its owner, and the state of its publication.
//!
//! Protocol of the two words that processes share, `owner` and `sequence`:
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
//! one anew. Before the first publication the sequence is `(generation, 0)`.

use crate::field::section;
use crate::sum::part;

section! {
    /// The words before the body. Quarry writes each as one atomic word.
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
        /// Time of the claim, after the process began: `CLOCK_MONOTONIC`, in nanoseconds.
        pub claimed_ns: u64,
        /// When the last publication began, on the same clock; 0 before the first.
        pub published_ns: u64,
        /// Publications of this owner so far.
        pub publications: u64,
        /// [`sum_for`](Self::sum_for) the owner and the body: it detects words that a process wrote
        /// here after it had lost the record to this owner.
        pub sum: u64,
    }
}

impl Head {
    /// The word of the magic number.
    pub const MAGIC_AT: usize = 0;
    /// The word of version and length.
    pub const VERSION_AT: usize = 1;
    /// The word of the owner.
    pub const OWNER_AT: usize = 2;
    /// The word of the sequence.
    pub const SEQUENCE_AT: usize = 3;
    /// The word of the claim's time.
    pub const CLAIMED_AT: usize = 4;
    /// The word of the publication's time.
    pub const PUBLISHED_AT: usize = 5;
    /// The word of the count of publications.
    pub const PUBLICATIONS_AT: usize = 6;
    /// The word of the sum.
    pub const SUM_AT: usize = 7;

    /// The sum of a publication by `owner`, whose body has the sum `body`.
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
    /// The number of this claim of the record, from 1 on.
    pub generation: u32,
    /// `getpid()` of the process, in its own pid namespace; 0 if the record has no owner.
    pub pid: u32,
}

impl Owner {
    /// The owner that a word names.
    #[must_use]
    pub const fn from_word(word: u64) -> Self {
        Self { generation: (word >> 32) as u32, pid: word as u32 }
    }

    /// As a word.
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

/// Count of begins and ends of an owner's publications, in a word: `generation : 32 | count : 32`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sequence {
    /// The generation of the [`Owner`].
    pub generation: u32,
    /// Odd while the owner writes; 0 before its first publication.
    pub count: u32,
}

impl Sequence {
    /// The sequence in a word.
    #[must_use]
    pub const fn from_word(word: u64) -> Self {
        Self { generation: (word >> 32) as u32, count: word as u32 }
    }

    /// As a word.
    #[must_use]
    pub const fn to_word(self) -> u64 {
        (self.generation as u64) << 32 | self.count as u64
    }

    /// The next sequence. Its count is never 0, which means that nothing was published.
    #[must_use]
    pub const fn next(self) -> Self {
        let count = match self.count {
            u32::MAX => 2,
            count => count + 1,
        };
        Self { generation: self.generation, count }
    }

    /// Returns whether the owner writes, or was stopped for ever while it did.
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
