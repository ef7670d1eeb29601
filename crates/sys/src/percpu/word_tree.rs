//! A tree of words that sequences walk, while another thread changes it under a lock of its own.
//!
//! ```text
//! root word   0: empty | a leaf, for the index 0 | the head's address + its shift
//! node        64 words at its address, which is a multiple of 64; each of them
//!             0: empty | a leaf | the address of a node + 2
//! leaf        ..01: what it holds is the owner's
//! ```
//!
//! A node with the shift `s` has what belongs to the index `i` at place `(i >> s) % 64`. The nodes
//! below it have the shift `s - 6`, those with the shift 0 have leaves. Shifts are even, so one bit
//! tells a leaf from a head, and another one a node from everything else below it.
//!
//! A walk goes down until a word is no node. A node that left the tree may be used elsewhere while
//! a walk is in it, in another tree or at another height: then the walk ends at a leaf of that tree
//! (its owner can tell) or at an empty word.

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
    /// Set in the word of a leaf.
    pub const IS_LEAF: u64 = 1;
    /// Set in the word of a node below another one, and not in that of a leaf.
    pub const IS_NODE: u64 = 2;
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

    #[cfg(quarry_model)]
    pub(super) fn root(&self) -> &AtomicU64 {
        &self.root
    }
}
