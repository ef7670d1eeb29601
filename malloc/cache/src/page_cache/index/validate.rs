//! The check of a tree.

use super::entry::{Entry, Tag, is_leaf};
use super::node::{LEVEL_BITS, NODE_SLOTS, NodeRef};
use super::tree::{IndexCounts, LockedIndex};
use quarry_sys::broken::{Broken, Check};

impl<T> LockedIndex<'_, T> {
    /// Checks the equations of the tree, and calls `check` for each entry. O(entries).
    ///
    /// # Errors
    /// The first equation that does not hold, or the error of `check`.
    pub fn validate(
        &self,
        check: &mut dyn FnMut(u64, Entry) -> Result<(), Broken>,
    ) -> Result<(), Broken> {
        let tree = Check::of("index");
        let mut found = IndexCounts::default();
        match self.head() {
            Some((head, shift)) => {
                tree.that(head.used.get() != 1, "a head has more than its first word")?;
                tree.that(head.parent.get().is_none(), "a head has no parent")?;
                tree.that(self.inner.root_tags == 0, "tags of the root are those of a leaf")?;
                let root = self.root.word() % 64;
                tree.equal(root, shift, "the root has the shift of its head")?;
                self.validate_node(head, 0, &mut found, check)?;
            }
            None => {
                let entry = Entry::from_word(self.root.word());
                if self.is_leaf_only() {
                    check(0, entry)?;
                }
                let is_page = entry.page().is_some();
                tree.that(is_page || self.inner.root_tags == 0, "only pages have tags")?;
                count(entry, &mut found);
            }
        }
        let counts = self.inner.counts;
        tree.equal(counts.nodes, found.nodes, "nodes = nodes of the tree")?;
        tree.equal(counts.pages, found.pages, "pages = pages of the tree")?;
        tree.equal(counts.shadows, found.shadows, "shadows = shadow entries of the tree")
    }

    fn validate_node(
        &self,
        node: NodeRef,
        base: u64,
        found: &mut IndexCounts,
        check: &mut dyn FnMut(u64, Entry) -> Result<(), Broken>,
    ) -> Result<(), Broken> {
        let of_node = Check::of("index node").at(base);
        let shift = u32::from(node.shift.get());
        let mut shadows = 0;
        found.nodes += 1;
        of_node.that(node.used.get() != 0, "no node is empty")?;
        let used = node.used.get().count_ones();
        of_node.equal(node.count(), used, "count = used places")?;
        of_node.equal(node.owner.get(), self.inner.owner, "a node has the owner of its tree")?;
        for at in 0..NODE_SLOTS {
            let word = node.word(at);
            let is_used = node.used.get() >> at & 1 != 0;
            of_node.that(is_used == (word != 0), "a place is used iff its word is not 0")?;
            let index = base | (at as u64) << shift;
            let mut tags = [false; 2];
            if let Some(child) = node.child(at) {
                of_node.that(shift >= LEVEL_BITS, "nodes lie below nodes with a shift")?;
                let below = u32::from(child.shift.get());
                of_node.equal(below + LEVEL_BITS, shift, "shift of a child + 6 = shift")?;
                of_node.that(child.parent.get() == Some(node), "parent(child) = node")?;
                of_node.equal(child.offset.get(), at as u64, "offset(child) = its place")?;
                tags = Tag::ALL.map(|tag| child.tags[tag as usize].get() != 0);
                self.validate_node(child, index, found, check)?;
            } else if is_leaf(word) {
                of_node.equal(shift, 0u32, "leaves lie in nodes without a shift")?;
                let entry = node.entry(at);
                shadows += u32::from(entry.is_shadow());
                tags = Tag::ALL.map(|tag| entry.page().is_some() && node.has_tag(at, tag));
                count(entry, found);
                check(index, entry)?;
            }
            let kept = Tag::ALL.map(|tag| node.has_tag(at, tag));
            of_node.that(kept == tags, "a place has the tags of what is below it")?;
        }
        of_node.equal(node.shadows.get(), shadows, "shadows = shadow entries of the node")?;
        let shadows_only = node.holds_shadows_only();
        of_node.that(node.is_listed.get() == shadows_only, "listed iff shadow entries only")
    }
}

fn count(entry: Entry, found: &mut IndexCounts) {
    found.pages += u64::from(entry.page().is_some());
    found.shadows += u64::from(entry.is_shadow());
}
