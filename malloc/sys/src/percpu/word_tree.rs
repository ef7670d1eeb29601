//! A tree of words that sequences walk while another thread changes it under its owner's lock.
//!
//! ```text
//! root word   0: empty | a leaf, for the index 0 | the head's address + its shift
//! node        64 words at its address, which is a multiple of 64; each of them
//!             0: empty | a leaf | the address of a node + 2
//! leaf        ..01: the other bits belong to the owner
//! ```
//!
//! A node with the shift `s` has the word for index `i` at place `(i >> s) % 64`. Nodes below it
//! have the shift `s - 6`; those with shift 0 have leaves. In the root word, bit 0 is 1 for a leaf,
//! and 0 for a head (shifts are even). A word of a node has bit 1 set only if it names a node.
//!
//! A walk descends until a word names no node. A node that is removed during a walk may join
//! another tree, or the same one at another height. The walk then ends at an empty word, or at a
//! wrong leaf. The tree's owner detects a wrong leaf by its contents.

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
    /// Set in the word of a node below another node, and not in the word of a leaf.
    pub const IS_NODE: u64 = 2;
    /// The alignment of a node: its low bits hold a shift, which is below 64.
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

    /// Sets the root word. A walk that reads it also sees the caller's earlier writes to nodes.
    #[inline]
    pub fn set(&self, word: u64) {
        self.root.store(word, Ordering::Release);
    }

    #[cfg(quarry_model)]
    pub(super) fn root(&self) -> &AtomicU64 {
        &self.root
    }
}
