//! Looking at entries in order: all, pages, tagged pages; the first and the last.

use super::entry::{Entry, Tag};
use super::node::{LEVEL_BITS, NODE_SLOTS, Node};
use super::tree::LockedIndex;
use crate::lru::PageNo;
use core::ops::RangeInclusive;

/// Which places a search stops at.
#[derive(Clone, Copy)]
enum Select {
    Used,
    Tagged(Tag),
}

impl Select {
    fn bits(self, node: &Node) -> u64 {
        match self {
            Self::Used => node.used.get(),
            Self::Tagged(tag) => node.tags[tag as usize].get(),
        }
    }
}

impl<T> LockedIndex<'_, T> {
    /// The first place from `from` on that is selected, with its entry.
    fn next(&mut self, from: u64, select: Select) -> Option<(u64, Entry)> {
        let Some((mut node, _)) = self.head() else {
            let selected = match select {
                Select::Used => self.is_leaf_only(),
                Select::Tagged(tag) => self.is_tagged(tag),
            };
            return (from == 0 && selected).then(|| (0, Entry::from_word(self.root.word())));
        };
        let mut from = from;
        if from >> node.shift.get() >= NODE_SLOTS as u64 {
            return None;
        }
        loop {
            self.visit();
            let shift = u32::from(node.shift.get());
            let at = node.place(from);
            let rest = select.bits(&node) & u64::MAX << at;
            if rest == 0 {
                // On to the place behind this node, in the nearest node above that has it.
                let above = shift + LEVEL_BITS;
                let behind = ((from >> above) + 1) << above;
                loop {
                    node = node.parent.get()?;
                    let span = u32::from(node.shift.get()) + LEVEL_BITS;
                    if behind >> span == from >> span {
                        break;
                    }
                }
                from = behind;
                continue;
            }
            let found = rest.trailing_zeros() as usize;
            if found != at {
                let above = shift + LEVEL_BITS;
                from = from >> above << above | (found as u64) << shift;
            }
            match node.child(found) {
                Some(child) if shift > 0 => node = child,
                _ => return Some((from, node.entry(found))),
            }
        }
    }

    /// The first entry from `from` on. O(height).
    pub fn next_entry(&mut self, from: u64) -> Option<(u64, Entry)> {
        self.next(from, Select::Used)
    }

    /// The first page from `from` on that has a tag. O(height).
    pub fn next_tagged(&mut self, from: u64, tag: Tag) -> Option<(u64, PageNo)> {
        let (index, entry) = self.next(from, Select::Tagged(tag))?;
        entry.page().map(|page| (index, page))
    }

    /// The last entry. O(height).
    pub fn last_entry(&mut self) -> Option<(u64, Entry)> {
        let Some((mut node, _)) = self.head() else {
            return self.next(0, Select::Used);
        };
        let mut index = 0;
        loop {
            self.visit();
            let shift = u32::from(node.shift.get());
            let last = node.used.get().checked_ilog2()? as usize;
            index |= (last as u64) << shift;
            match node.child(last) {
                Some(child) if shift > 0 => node = child,
                _ => return Some((index, node.entry(last))),
            }
        }
    }

    /// Collects entries of `range` in order, from its start on, as many as fit into `found`;
    /// returns how many. O(found + height).
    pub fn entries(&mut self, range: RangeInclusive<u64>, found: &mut [(u64, Entry)]) -> usize {
        self.collect(range, Select::Used, found, Some)
    }

    /// Collects pages of `range` that have a tag, as [`entries`](Self::entries).
    pub fn tagged(
        &mut self,
        range: RangeInclusive<u64>,
        tag: Tag,
        found: &mut [(u64, PageNo)],
    ) -> usize {
        self.collect(range, Select::Tagged(tag), found, |(index, entry)| {
            entry.page().map(|page| (index, page))
        })
    }

    fn collect<F>(
        &mut self,
        range: RangeInclusive<u64>,
        select: Select,
        found: &mut [F],
        as_found: impl Fn((u64, Entry)) -> Option<F>,
    ) -> usize {
        let (mut from, mut count) = (*range.start(), 0);
        while count < found.len() {
            let Some(next) = self.next(from, select).filter(|next| next.0 <= *range.end()) else {
                break;
            };
            from = next.0 + 1;
            if let Some(wanted) = as_found(next) {
                found[count] = wanted;
                count += 1;
            }
        }
        count
    }
}
