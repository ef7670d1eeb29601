//! Several entries in one walk: what truncation removes at once.

use super::entry::Entry;
use super::node::NODE_SLOTS;
use super::tree::{LockedIndex, Place};
use crate::lru::PageNo;

/// Most pages that one batch removes: `PAGEVEC_SIZE` (`include/linux/pagevec.h`, Linux 4.15).
pub const BATCH: usize = 14;

impl<T> LockedIndex<'_, T> {
    /// Takes pages out, which stand in ascending order of their indexes, in one walk: neighbours
    /// are found in the same node (`page_cache_delete_batch`, `mm/filemap.c`, Linux 4.15). A place
    /// that holds anything but its page, a shadow entry for example, stays as it is. Returns how
    /// many were there. O(pages + nodes).
    pub fn remove_batch(&mut self, pages: &[(u64, PageNo)]) -> usize {
        let wanted = pages.iter().map(|(index, page)| (*index, Some(*page)));
        self.remove_each(wanted)
    }

    /// Takes the shadow entries at `indexes`, which ascend, out in one walk; anything else stays
    /// (`truncate_exceptional_pvec_entries`, `mm/truncate.c`, Linux 4.15). Returns how many there
    /// were. O(indexes + nodes).
    pub fn clear_shadows(&mut self, indexes: &[u64]) -> usize {
        self.remove_each(indexes.iter().map(|index| (*index, None)))
    }

    /// Takes out what is at each index, if it is the page or, without a page, a shadow entry.
    fn remove_each(&mut self, wanted: impl Iterator<Item = (u64, Option<PageNo>)>) -> usize {
        let (mut removed, mut last): (usize, Option<(u64, Place)>) = (0, None);
        for (index, page) in wanted {
            let place = match last {
                Some((before, Place::Word(node, _)))
                    if before / NODE_SLOTS as u64 == index / NODE_SLOTS as u64 =>
                {
                    self.visit();
                    Some(Place::Word(node, node.place(index)))
                }
                _ => {
                    if let Some((_, place)) = last.take() {
                        self.tidy(place);
                    }
                    self.find(index)
                }
            };
            let Some(place) = place else { continue };
            last = Some((index, place));
            let is_wanted = match (self.entry_at(place), page) {
                (Entry::Page(here), Some(page)) => here == page,
                (Entry::Shadow(_), None) => true,
                _ => false,
            };
            if is_wanted {
                self.store(place, Entry::Empty);
                removed += 1;
            }
        }
        if let Some((_, place)) = last {
            self.tidy(place);
        }
        removed
    }
}
