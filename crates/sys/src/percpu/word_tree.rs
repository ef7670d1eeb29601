//! A tree of words that sequences walk, while another thread changes it under a lock of its own.
//!
//! ```text
//! root word   0: empty | odd: a leaf, for the index 0 | the head's address + its shift
//! node        64 words at its address, which is a multiple of 64; each of them
//!             0: empty | odd: a leaf | the address of a node
//! ```
//!
//! A node with the shift `s` has what belongs to the index `i` at place `(i >> s) % 64`. The nodes
//! below it have the shift `s - 6`, those with the shift 0 have leaves.

use crate::primitive::{AtomicU64, Ordering};

/// The root of a tree of words. Zero bytes are an empty tree.
#[derive(Default)]
#[repr(transparent)]
pub struct WordTree {
    root: AtomicU64,
}

impl WordTree {
    /// Index bits per level.
    pub const LEVEL_BITS: u32 = 6;
    /// Words of a node.
    pub const FAN_OUT: usize = 1 << Self::LEVEL_BITS;
    /// The alignment of a node: an address has room for a shift, which is less than 64.
    pub const NODE_ALIGN: usize = 64;

    /// An empty tree.
    #[must_use]
    pub const fn new() -> Self {
        Self { root: AtomicU64::new(0) }
    }

    /// The root word.
    #[inline(always)]
    pub fn word(&self) -> u64 {
        self.root.load(Ordering::Acquire)
    }

    /// Sets the root word. Walks see what the caller wrote to nodes before.
    #[inline]
    pub fn set(&self, word: u64) {
        self.root.store(word, Ordering::Release);
    }
}
