//! The index of a file mapping: a radix tree of 64 words per node (`lib/xarray.c`, Linux 6.12).
//!
//! The root is one word that walks read without the lock: 0 if the index is empty, a leaf if only
//! the place 0 is used (a file of one page has no node, as in the kernel), else the address of the
//! *head*, the topmost node, plus its shift. A tree is only as high as its largest index needs.
//!
//! Equations: `nodes`, `pages`, `shadows` count the contents; a head uses more than its first word.

use super::entry::{Entry, Tag, is_leaf};
use super::grace::Preload;
use super::node::{Chain, LEVEL_BITS, NODE_SLOTS, NodeRef};
use super::shadow_nodes::IndexNodes;
use crate::lru::PageNo;
use crate::page_cache::host::NodeHost;
use quarry_mm::frame::FreshZero;
use quarry_sys::counters::add_fields;
use quarry_sys::lock::{CountedLock, Guard};
use quarry_sys::locks::Visit;
use quarry_sys::percpu::WordTree;

/// The first index that no tree holds.
pub const INDEX_LIMIT: u64 = 1 << 52;

/// The index of a file mapping, with the mapping's own `T` under the same lock. Zero bytes are an
/// empty index. The owner empties an index before it drops it: a drop gives no nodes back.
pub struct Index<T> {
    root: WordTree,
    lock: CountedLock<Inner<T>>,
}

// SAFETY: zero bytes are an empty tree, a free lock, and the zero value of a `T`.
unsafe impl<T: FreshZero> FreshZero for Index<T> {}

pub(super) struct Inner<T> {
    pub(super) counts: IndexCounts,
    pub(super) owner: u32,
    /// The tags of the page at 0 while it is in the root: bit `tag` is set iff it has that tag.
    pub(super) root_tags: u8,
    value: T,
}

/// The contents of an index, and the work of finding them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexCounts {
    /// Nodes.
    pub nodes: u64,
    /// Pages.
    pub pages: u64,
    /// Shadow entries.
    pub shadows: u64,
    /// Words that were looked at under the lock so far.
    pub visits: u64,
}

add_fields!(IndexCounts: nodes, pages, shadows, visits);

/// The reason why an entry could not be inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InsertError {
    /// A page is there already.
    Present(PageNo),
    /// The preload needs this many nodes: unlock, fill it, and look again.
    Nodes(usize),
}

impl<T> Index<T> {
    /// An empty index of the owner with this number.
    pub const fn new(owner: u32, value: T) -> Self {
        let counts = IndexCounts { nodes: 0, pages: 0, shadows: 0, visits: 0 };
        Self {
            root: WordTree::new(),
            lock: CountedLock::new(Inner { counts, owner, root_tags: 0, value }),
        }
    }

    /// Takes the lock.
    #[inline]
    pub fn lock<'a>(&'a self, nodes: &'a IndexNodes) -> LockedIndex<'a, T> {
        self.locked(self.lock.lock(), nodes)
    }

    /// Takes the lock if it is free.
    #[inline]
    pub fn try_lock<'a>(&'a self, nodes: &'a IndexNodes) -> Option<LockedIndex<'a, T>> {
        Some(self.locked(self.lock.try_lock()?, nodes))
    }

    #[inline]
    fn locked<'a>(
        &'a self,
        inner: Guard<'a, Inner<T>>,
        nodes: &'a IndexNodes,
    ) -> LockedIndex<'a, T> {
        LockedIndex { root: &self.root, inner, shared: nodes, unlinked: Chain::new() }
    }

    /// Looks a page up without the lock: a hint. The page may have left the index, or belong to
    /// another one: pin it and check its key. After `None`, look under the lock. O(height).
    #[inline(always)]
    pub fn walk<H: NodeHost>(&self, host: &H, index: u64) -> Option<PageNo> {
        self.walk_to(host, index).page()
    }

    /// Returns whether a walk finds a shadow entry: then `index` had no page at some time during
    /// the call. False proves nothing. O(height).
    #[inline]
    pub fn walk_finds_shadow<H: NodeHost>(&self, host: &H, index: u64) -> bool {
        self.walk_to(host, index).is_shadow()
    }

    #[inline(always)]
    fn walk_to<H: NodeHost>(&self, host: &H, index: u64) -> Entry {
        // SAFETY: nodes leave this tree through `Grace`, which gives them back to the host only
        // after `wait_for_walks`, and until then reuses their memory only for nodes.
        Entry::from_word(unsafe { host.walk(&self.root, index) })
    }

    /// Visits the lock.
    pub fn visit_locks(&self, visit: &mut Visit<'_>) {
        visit("mapping->index", &self.lock);
    }
}

#[inline]
fn largest_below(shift: u32) -> u64 {
    ((NODE_SLOTS as u64) << shift) - 1
}

/// Levels of nodes that a tree needs for an index: 0 for the place 0.
fn levels_for(index: u64) -> u32 {
    (u64::BITS - index.leading_zeros()).div_ceil(LEVEL_BITS)
}

#[derive(Clone, Copy)]
pub(super) enum Place {
    /// In the root: the place 0 of a tree without nodes.
    Root,
    /// A word of a node of leaves.
    Word(NodeRef, usize),
}

/// An index whose lock is held. A drop passes nodes that left the index to [`IndexNodes::grace`].
pub struct LockedIndex<'a, T> {
    pub(super) root: &'a WordTree,
    pub(super) inner: Guard<'a, Inner<T>>,
    pub(super) shared: &'a IndexNodes,
    unlinked: Chain,
}

impl<T> Drop for LockedIndex<'_, T> {
    fn drop(&mut self) {
        self.shared.grace.defer(&mut self.unlinked);
    }
}

impl<T> LockedIndex<'_, T> {
    /// The mapping's own data.
    pub fn value(&mut self) -> &mut T {
        &mut self.inner.value
    }

    /// Sets the number by which the shrinker finds this index. The index has no nodes.
    pub fn set_owner(&mut self, owner: u32) {
        debug_assert!(self.inner.counts.nodes == 0, "nodes know their owner");
        self.inner.owner = owner;
    }

    /// Counts of the index's contents. O(1).
    #[must_use]
    pub fn counts(&self) -> IndexCounts {
        self.inner.counts
    }

    #[inline]
    pub(super) fn head(&self) -> Option<(NodeRef, u32)> {
        let node = NodeRef::from_word(self.root.word())?;
        Some((node, u32::from(node.shift.get())))
    }

    fn set_head(&self, node: NodeRef) {
        self.root.set(node.address() + u64::from(node.shift.get()));
    }

    #[inline]
    pub(super) fn visit(&mut self) {
        self.inner.counts.visits += 1;
    }

    pub(super) fn find(&mut self, index: u64) -> Option<Place> {
        self.visit();
        let Some((mut node, shift)) = self.head() else {
            return (index == 0).then_some(Place::Root);
        };
        if index > largest_below(shift) {
            return None;
        }
        while node.shift.get() > 0 {
            self.visit();
            node = node.child(node.place(index))?;
        }
        self.visit();
        Some(Place::Word(node, node.place(index)))
    }

    #[inline]
    pub(super) fn entry_at(&self, place: Place) -> Entry {
        match place {
            Place::Root => Entry::from_word(self.root.word()),
            Place::Word(node, at) => node.entry(at),
        }
    }

    /// The entry at an index. O(height).
    pub fn get(&mut self, index: u64) -> Entry {
        self.find(index).map_or(Entry::Empty, |place| self.entry_at(place))
    }

    /// Puts `entry`, which is not empty, at an index without a page; returns the shadow entry that
    /// was there, or `Empty`. O(height).
    ///
    /// # Errors
    /// [`InsertError`]; then nothing has changed.
    ///
    /// # Panics
    /// If `index` is [`INDEX_LIMIT`] or more.
    pub fn insert<H: NodeHost>(
        &mut self,
        index: u64,
        entry: Entry,
        preload: &mut Preload<'_, H>,
    ) -> Result<Entry, InsertError> {
        assert!(index < INDEX_LIMIT, "an index is below 2^52");
        debug_assert!(entry != Entry::Empty, "an entry is inserted");
        if let Some(place) = self.find(index) {
            let before = self.entry_at(place);
            return match before {
                Entry::Page(page) => Err(InsertError::Present(page)),
                Entry::Empty | Entry::Shadow(_) => {
                    self.store(place, entry);
                    Ok(before)
                }
            };
        }
        let missing = self.missing(index);
        if preload.nodes.len() < missing {
            return Err(InsertError::Nodes(missing));
        }
        self.grow(index, &mut preload.nodes);
        let place = self.build(index, &mut preload.nodes);
        self.store(place, entry);
        Ok(Entry::Empty)
    }

    /// Number of nodes that [`insert`](Self::insert) needs for an index. O(height).
    #[must_use]
    pub fn missing(&self, index: u64) -> usize {
        let wanted = levels_for(index) as usize;
        let Some((mut node, shift)) = self.head() else {
            // A page at 0 that was in the root needs its own path below the new head.
            let old_path = if self.root.word() == 0 { 0 } else { wanted.saturating_sub(1) };
            return wanted + old_path;
        };
        let levels = (shift / LEVEL_BITS) as usize + 1;
        if wanted > levels {
            return (wanted - levels) + (wanted - 1);
        }
        for missing in (0..levels).rev() {
            match node.child(node.place(index)) {
                Some(child) if missing > 0 => node = child,
                _ => return missing,
            }
        }
        0
    }

    /// Takes a node for this tree; callers have counted it with [`missing`](Self::missing).
    fn take(&mut self, preload: &mut Chain, shift: u32) -> NodeRef {
        let Some(node) = preload.pop() else { unreachable!("a preload has what is missing") };
        node.owner.set(self.inner.owner);
        node.shift.set(shift as u8);
        self.inner.counts.nodes += 1;
        node
    }

    fn grow(&mut self, index: u64, preload: &mut Chain) {
        let wanted = levels_for(index).max(1);
        let mut levels = self.head().map_or(0, |(_, shift)| shift / LEVEL_BITS + 1);
        if self.root.word() == 0 {
            // The tree is empty: the head is made at its final height.
            levels = wanted - 1;
        }
        while levels < wanted {
            let head = self.take(preload, levels * LEVEL_BITS);
            self.put_below(head);
            self.set_head(head);
            levels += 1;
        }
    }

    /// Moves the contents of the root to the first place of a new head.
    fn put_below(&mut self, head: NodeRef) {
        let word = self.root.word();
        if word == 0 {
            return;
        }
        match NodeRef::from_word(word) {
            Some(old) => {
                old.parent.set(Some(head));
                old.offset.set(0);
                head.set_word(0, old.as_word());
                for (tag, below) in head.tags.iter().zip(&old.tags) {
                    tag.set(u64::from(below.get() != 0));
                }
            }
            None => {
                head.set_word(0, word);
                head.shadows.set(u8::from(Entry::from_word(word).is_shadow()));
                for (at, tag) in head.tags.iter().enumerate() {
                    tag.set(u64::from(self.inner.root_tags >> at & 1));
                }
                self.inner.root_tags = 0;
                self.shared.update(head);
            }
        }
    }

    /// Makes the missing nodes on the way to `index`. The head is high enough.
    fn build(&mut self, index: u64, preload: &mut Chain) -> Place {
        let Some((mut node, _)) = self.head() else { return Place::Root };
        while node.shift.get() > 0 {
            let at = node.place(index);
            node = match node.child(at) {
                Some(child) => child,
                None => {
                    let child = self.take(preload, u32::from(node.shift.get()) - LEVEL_BITS);
                    child.parent.set(Some(node));
                    child.offset.set(at as u8);
                    node.set_word(at, child.as_word());
                    child
                }
            };
        }
        Place::Word(node, node.place(index))
    }

    fn count(&mut self, entry: Entry, change: i64) {
        let counts = &mut self.inner.counts;
        match entry {
            Entry::Empty => {}
            Entry::Page(_) => counts.pages = counts.pages.wrapping_add_signed(change),
            Entry::Shadow(_) => counts.shadows = counts.shadows.wrapping_add_signed(change),
        }
    }

    /// Writes an entry, updates the counts, and clears tags unless the entry is a page.
    pub(super) fn store(&mut self, place: Place, entry: Entry) -> Entry {
        let before = self.entry_at(place);
        self.count(before, -1);
        self.count(entry, 1);
        if entry.page().is_none() {
            Tag::ALL.iter().for_each(|tag| self.untag(place, *tag));
        }
        match place {
            Place::Root => self.root.set(entry.word()),
            Place::Word(node, at) => {
                node.set_word(at, entry.word());
                let change = i8::from(entry.is_shadow()) - i8::from(before.is_shadow());
                node.shadows.set(node.shadows.get().wrapping_add_signed(change));
                self.shared.update(node);
            }
        }
        before
    }

    /// Replaces the entry at an index, if there is one; `Empty` removes it. A page that replaces a
    /// page takes over that page's tags. Returns the entry that was there. O(height).
    pub fn replace(&mut self, index: u64, entry: Entry) -> Entry {
        let Some(place) = self.find(index) else { return Entry::Empty };
        if self.entry_at(place) == Entry::Empty {
            return Entry::Empty;
        }
        let before = self.store(place, entry);
        if entry == Entry::Empty {
            self.prune(place);
        }
        before
    }

    /// Takes out an entry; returns it. O(height).
    pub fn remove(&mut self, index: u64) -> Entry {
        self.replace(index, Entry::Empty)
    }

    /// Takes out empty nodes from a place upwards, and makes the tree as low as possible.
    pub(super) fn prune(&mut self, place: Place) {
        let Place::Word(mut node, _) = place else { return };
        if node.used.get() == 0 {
            loop {
                let parent = node.parent.get();
                let at = node.offset.get() as usize;
                self.unlink(node);
                let Some(parent) = parent else { return self.root.set(0) };
                parent.set_word(at, 0);
                if parent.used.get() != 0 {
                    break;
                }
                node = parent;
            }
        }
        self.shrink();
    }

    /// Takes out heads that use only their first word.
    fn shrink(&mut self) {
        while let Some((head, shift)) = self.head() {
            if head.used.get() != 1 {
                return;
            }
            if let (Some(child), true) = (head.child(0), shift > 0) {
                child.parent.set(None);
                self.set_head(child);
            } else {
                let tags = Tag::ALL.iter().filter(|tag| head.has_tag(0, **tag));
                self.inner.root_tags = tags.fold(0, |tags, tag| tags | 1 << *tag as u8);
                self.root.set(head.word(0));
            }
            self.unlink(head);
        }
    }

    /// Subtracts a node from the counts and defers its release. Walks may still read its words.
    fn unlink(&mut self, node: NodeRef) {
        self.shared.forget(node);
        self.inner.counts.nodes -= 1;
        self.unlinked.push(node);
    }

    pub(super) fn remove_shadow_node(&mut self, node: NodeRef) {
        debug_assert!(node.holds_shadows_only(), "the shrinker takes nodes of shadow entries");
        self.inner.counts.shadows -= u64::from(node.shadows.get());
        self.shared.forget(node);
        for at in 0..NODE_SLOTS {
            node.set_word(at, 0);
        }
        node.shadows.set(0);
        self.prune(Place::Word(node, 0));
    }

    pub(super) fn is_tagged_at(&self, place: Place, tag: Tag) -> bool {
        match place {
            Place::Root => self.inner.root_tags >> tag as u8 & 1 != 0,
            Place::Word(node, at) => node.has_tag(at, tag),
        }
    }

    /// Takes a tag from a place, and from the nodes above that had it only for this place.
    pub(super) fn untag(&mut self, place: Place, tag: Tag) {
        match place {
            Place::Root => self.inner.root_tags &= !(1 << tag as u8),
            Place::Word(mut node, mut at) => {
                while node.has_tag(at, tag) {
                    let word = &node.tags[tag as usize];
                    word.set(word.get() & !(1 << at));
                    let Some(parent) = node.parent.get().filter(|_| word.get() == 0) else { break };
                    at = node.offset.get() as usize;
                    node = parent;
                }
            }
        }
    }

    /// Tags the page at an index; returns whether there is one. O(height).
    pub fn set_tag(&mut self, index: u64, tag: Tag) -> bool {
        let Some(place) = self.find(index) else { return false };
        if self.entry_at(place).page().is_none() {
            return false;
        }
        match place {
            Place::Root => self.inner.root_tags |= 1 << tag as u8,
            Place::Word(mut node, mut at) => {
                while !node.has_tag(at, tag) {
                    let word = &node.tags[tag as usize];
                    word.set(word.get() | 1 << at);
                    let Some(parent) = node.parent.get() else { break };
                    at = node.offset.get() as usize;
                    node = parent;
                }
            }
        }
        true
    }

    /// Takes a tag from an index; returns whether the index had it. O(height).
    pub fn clear_tag(&mut self, index: u64, tag: Tag) -> bool {
        let Some(place) = self.find(index) else { return false };
        let had = self.is_tagged_at(place, tag);
        self.untag(place, tag);
        had
    }

    /// Returns whether the page at an index has a tag. O(height).
    pub fn has_tag(&mut self, index: u64, tag: Tag) -> bool {
        self.find(index).is_some_and(|place| self.is_tagged_at(place, tag))
    }

    /// Returns whether any page has a tag. O(1).
    #[must_use]
    pub fn is_tagged(&self, tag: Tag) -> bool {
        match self.head() {
            Some((head, _)) => head.tags[tag as usize].get() != 0,
            None => self.inner.root_tags >> tag as u8 & 1 != 0,
        }
    }

    pub(super) fn is_leaf_only(&self) -> bool {
        is_leaf(self.root.word())
    }
}
