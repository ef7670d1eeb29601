//! Removal of several entries in one walk, for truncation.

use super::entry::{Entry, Tag};
use super::node::{NODE_SLOTS, NodeRef};
use super::tree::{LockedIndex, Place};
use crate::lru::PageNo;

/// Maximum number of pages in a batch: `PAGEVEC_SIZE` (`include/linux/pagevec.h`, Linux 4.15).
pub const BATCH: usize = 14;

impl<T> LockedIndex<'_, T> {
    /// Takes out pages, in ascending order of their indexes, in one walk
    /// (`page_cache_delete_batch`, Linux 4.15). Skips a place that now has another entry. Returns
    /// how many it took out. O(pages + nodes).
    pub fn remove_batch(&mut self, pages: &[(u64, PageNo)]) -> usize {
        self.remove_each(pages, |page| page.0, |page, here| here == Entry::Page(page.1))
    }

    /// Takes out the shadow entries at ascending `indexes` in one walk; returns how many
    /// (`truncate_exceptional_pvec_entries`, Linux 4.15). O(indexes + nodes).
    pub fn clear_shadows(&mut self, indexes: &[u64]) -> usize {
        self.remove_each(indexes, |index| *index, |_, here| here.is_shadow())
    }

    fn remove_each<W>(
        &mut self,
        all: &[W],
        index_of: impl Fn(&W) -> u64,
        is_wanted: impl Fn(&W, Entry) -> bool,
    ) -> usize {
        let node_of = |one: &W| index_of(one) / NODE_SLOTS as u64;
        let mut removed = 0;
        for neighbours in all.chunk_by(|one, next| node_of(one) == node_of(next)) {
            match self.find(index_of(&neighbours[0])) {
                Some(Place::Word(node, _)) => {
                    let mut gone = Gone::default();
                    for one in neighbours {
                        self.visit();
                        let at = node.place(index_of(one));
                        let here = node.entry(at);
                        if is_wanted(one, here) {
                            gone.take(node, at, here);
                        }
                    }
                    removed += self.note_gone(node, gone);
                }
                Some(Place::Root) if is_wanted(&neighbours[0], self.entry_at(Place::Root)) => {
                    self.store(Place::Root, Entry::Empty);
                    removed += 1;
                }
                Some(Place::Root) | None => {}
            }
        }
        removed
    }

    /// Updates counts and tags after removals; unlinks an empty node. Returns the number removed.
    fn note_gone(&mut self, node: NodeRef, gone: Gone) -> usize {
        if gone.places == 0 {
            return 0;
        }
        let count = u64::from(gone.places.count_ones());
        let shadows = u64::from(gone.shadows);
        self.inner.counts.shadows -= shadows;
        self.inner.counts.pages -= count - shadows;
        for tag in Tag::ALL {
            let tags = &node.tags[tag as usize];
            let had_any = tags.get() & gone.places != 0;
            tags.set(tags.get() & !gone.places);
            if let Some(parent) = node.parent.get().filter(|_| had_any && tags.get() == 0) {
                self.untag(Place::Word(parent, node.offset.get() as usize), tag);
            }
        }
        node.forget(gone.places);
        node.shadows.set(node.shadows.get() - gone.shadows);
        self.shared.update(node);
        self.prune(Place::Word(node, 0));
        count as usize
    }
}

#[derive(Default)]
struct Gone {
    places: u64,
    shadows: u8,
}

impl Gone {
    fn take(&mut self, node: NodeRef, at: usize, entry: Entry) {
        node.take_word(at);
        self.places |= 1 << at;
        self.shadows += u8::from(entry.is_shadow());
    }
}
