//! The nodes of an index: 64 words and 64 bytes of header, like `struct xa_node` of the kernel
//! (`include/linux/xarray.h`, Linux 6.12), which has the same 576 bytes.
//!
//! Access:
//! * the words: written under the lock of the index; walks read them at any time
//! * `next`, `previous`, `is_listed`: under the lock of the list that the node is on, or by the
//!   only owner of a node that is in no index
//! * other fields of the header: under the lock of the index
//!
//! Equations: bit `i` of `used` is set iff word `i` is not 0; `count` is the number of these bits,
//! and not 0 in an index; `shadows` is the number of words that are shadow entries; bit `i` of a
//! tag is set only if word `i` is a page, or a node with that tag; `is_listed` iff every used word
//! is a shadow entry.

use super::entry::{Entry, Tag, is_leaf};
use core::cell::Cell;
use core::ops::Deref;
use core::ptr::NonNull;
use quarry_mm::frame::NodeId;
use quarry_sys::percpu::{Object, WordTree};
use quarry_sys::primitive::{AtomicU64, Ordering};

/// Words of a node (`XA_CHUNK_SIZE`, `include/linux/xarray.h`, Linux 6.12).
pub const NODE_SLOTS: usize = WordTree::FAN_OUT;
/// Bytes of a node.
pub const NODE_BYTES: usize = 576;
/// The alignment of a node.
pub const NODE_ALIGN: usize = WordTree::NODE_ALIGN;

/// Bits of an index that select a word at one level.
pub(super) const LEVEL_BITS: u32 = WordTree::LEVEL_BITS;

#[repr(C, align(64))]
pub(super) struct Node {
    words: [AtomicU64; NODE_SLOTS],
    pub(super) used: Cell<u64>,
    pub(super) tags: [Cell<u64>; 2],
    pub(super) parent: Cell<Option<NodeRef>>,
    pub(super) next: Cell<Option<NodeRef>>,
    pub(super) previous: Cell<Option<NodeRef>>,
    /// The number of the index's owner, for the shrinker.
    pub(super) owner: Cell<u32>,
    /// Number of index bits below this node's words: 0 in a node of leaves.
    pub(super) shift: Cell<u8>,
    /// The node's place in its parent.
    pub(super) offset: Cell<u8>,
    count: Cell<u8>,
    pub(super) shadows: Cell<u8>,
    pub(super) is_listed: Cell<bool>,
    memory: Cell<u8>,
}

const _: () = {
    assert!(size_of::<Node>() == NODE_BYTES && align_of::<Node>() == NODE_ALIGN);
    assert!(core::mem::offset_of!(Node, words) == 0, "walks find the words at the address");
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeRef(NonNull<Node>);

impl Deref for NodeRef {
    type Target = Node;

    #[inline(always)]
    fn deref(&self) -> &Node {
        // SAFETY: a reference is made from an object of the host that holds a node, and no
        // reference is left when the object goes back: `Preload` and `Grace` own the nodes that
        // they free. No `&mut` to a node exists.
        unsafe { self.0.as_ref() }
    }
}

impl NodeRef {
    /// Makes an empty node of an object.
    ///
    /// # Safety
    /// The caller owns the object, which has [`NODE_BYTES`] bytes and is aligned to [`NODE_ALIGN`].
    pub(super) unsafe fn make(object: Object, memory: NodeId) -> Self {
        let node = object.cast::<Node>();
        debug_assert!(node.is_aligned(), "nodes are aligned to {NODE_ALIGN}");
        // SAFETY: the caller owns the object, which has the size and the alignment of a node.
        unsafe {
            node.write(Node {
                words: [const { AtomicU64::new(0) }; NODE_SLOTS],
                used: Cell::new(0),
                tags: [const { Cell::new(0) }; 2],
                parent: Cell::new(None),
                next: Cell::new(None),
                previous: Cell::new(None),
                owner: Cell::new(0),
                shift: Cell::new(0),
                offset: Cell::new(0),
                count: Cell::new(0),
                shadows: Cell::new(0),
                is_listed: Cell::new(false),
                memory: Cell::new(memory.0),
            });
        }
        Self(node)
    }

    pub(super) fn object(self) -> Object {
        self.0.cast()
    }

    /// The word that stands for this node as the head of a tree, without its shift.
    #[inline]
    pub(super) fn address(self) -> u64 {
        self.0.as_ptr().expose_provenance() as u64
    }

    /// The word that stands for this node in its parent.
    #[inline]
    pub(super) fn as_word(self) -> u64 {
        self.address() + WordTree::IS_NODE
    }

    /// The node that `word`, of the root or of a node, stands for.
    #[inline]
    pub(super) fn from_word(word: u64) -> Option<Self> {
        if is_leaf(word) {
            return None;
        }
        let address = word as usize & !(NODE_ALIGN - 1);
        NonNull::new(core::ptr::with_exposed_provenance_mut(address)).map(Self)
    }
}

impl Node {
    #[inline]
    pub(super) fn word(&self, at: usize) -> u64 {
        self.words[at].load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn child(&self, at: usize) -> Option<NodeRef> {
        NodeRef::from_word(self.word(at))
    }

    #[inline]
    pub(super) fn entry(&self, at: usize) -> Entry {
        Entry::from_word(self.word(at))
    }

    /// Writes a word, and updates `used` and `count`. A release store, for walks.
    #[inline]
    pub(super) fn set_word(&self, at: usize, word: u64) {
        self.words[at].store(word, Ordering::Release);
        let (before, bit) = (self.used.get(), 1 << at);
        let after = if word == 0 { before & !bit } else { before | bit };
        self.used.set(after);
        let change = i8::from(after > before) - i8::from(after < before);
        self.count.set(self.count.get().wrapping_add_signed(change));
    }

    /// Makes a word 0; the caller reports it by [`forget`](Self::forget) later.
    #[inline]
    pub(super) fn take_word(&self, at: usize) {
        self.words[at].store(0, Ordering::Release);
    }

    pub(super) fn forget(&self, places: u64) {
        self.used.set(self.used.get() & !places);
        self.count.set(self.count.get() - places.count_ones() as u8);
    }

    /// Empties the node while walks may still look at it.
    pub(super) fn clear(&self) {
        for word in &self.words {
            word.store(0, Ordering::Relaxed);
        }
        self.used.set(0);
        self.count.set(0);
        self.tags.iter().for_each(|tag| tag.set(0));
        self.shadows.set(0);
        self.parent.set(None);
    }

    #[inline]
    pub(super) fn count(&self) -> u32 {
        self.count.get().into()
    }

    #[inline]
    pub(super) fn holds_shadows_only(&self) -> bool {
        let shadows = self.shadows.get();
        shadows != 0 && shadows == self.count.get()
    }

    #[inline]
    pub(super) fn place(&self, index: u64) -> usize {
        (index >> self.shift.get()) as usize % NODE_SLOTS
    }

    #[inline]
    pub(super) fn has_tag(&self, at: usize, tag: Tag) -> bool {
        self.tags[tag as usize].get() >> at & 1 != 0
    }

    #[inline]
    pub(super) fn memory(&self) -> NodeId {
        NodeId(self.memory.get())
    }
}

/// Nodes that are in no index, linked by `next`. All operations are O(1).
#[derive(Default)]
pub(super) struct Chain {
    head: Option<NodeRef>,
    tail: Option<NodeRef>,
    len: usize,
}

// SAFETY: only the task that has the chain uses its nodes.
unsafe impl Send for Chain {}
// SAFETY: zero bytes are `None` for both ends, and the length 0.
unsafe impl quarry_mm::frame::FreshZero for Chain {}

impl Chain {
    pub(super) const fn new() -> Self {
        Self { head: None, tail: None, len: 0 }
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) fn push(&mut self, node: NodeRef) {
        node.next.set(self.head);
        self.head = Some(node);
        self.tail = self.tail.or(self.head);
        self.len += 1;
    }

    pub(super) fn pop(&mut self) -> Option<NodeRef> {
        let node = self.head?;
        self.head = node.next.replace(None);
        self.tail = self.tail.filter(|_| self.head.is_some());
        self.len -= 1;
        Some(node)
    }

    pub(super) fn append(&mut self, other: &mut Self) {
        let other = core::mem::take(other);
        if let Some(tail) = other.tail {
            tail.next.set(self.head);
            self.head = other.head;
            self.tail = self.tail.or(other.tail);
            self.len += other.len;
        }
    }

    /// The nodes, beginning with the one that was added last.
    pub(super) fn iter(&self) -> impl Iterator<Item = NodeRef> {
        core::iter::successors(self.head, |node| node.next.get())
    }
}
