//! Iteration in order of the index: over all entries, pages, or tagged pages.

use super::entry::{Entry, Tag};
use super::node::{LEVEL_BITS, NODE_SLOTS, Node, NodeRef};
use super::tree::{LockedIndex, Place};
use crate::lru::PageNo;
use core::ops::RangeInclusive;

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
    /// Returns the index and the place of the first selected entry from `from` on.
    fn next(&mut self, from: u64, select: Select) -> Option<(u64, Place)> {
        let Some((mut node, shift)) = self.head() else {
            let selected = match select {
                Select::Used => self.is_leaf_only(),
                Select::Tagged(tag) => self.is_tagged(tag),
            };
            return (from == 0 && selected).then_some((0, Place::Root));
        };
        let mut from = from;
        if from >> shift >= NODE_SLOTS as u64 {
            return None;
        }
        loop {
            self.visit();
            let shift = u32::from(node.shift.get());
            let at = node.place(from);
            let rest = select.bits(&node) & u64::MAX << at;
            if rest == 0 {
                (node, from) = behind(node, from)?;
                continue;
            }
            let found = rest.trailing_zeros() as usize;
            if found != at {
                let above = shift + LEVEL_BITS;
                from = from >> above << above | (found as u64) << shift;
            }
            match node.child(found) {
                Some(child) if shift > 0 => node = child,
                _ => return Some((from, Place::Word(node, found))),
            }
        }
    }

    /// The first entry from `from` on. O(height).
    pub fn next_entry(&mut self, from: u64) -> Option<(u64, Entry)> {
        let (index, place) = self.next(from, Select::Used)?;
        Some((index, self.entry_at(place)))
    }

    /// The first page from `from` on that has a tag. O(height).
    pub fn next_tagged(&mut self, from: u64, tag: Tag) -> Option<(u64, PageNo)> {
        let (index, place) = self.next(from, Select::Tagged(tag))?;
        self.entry_at(place).page().map(|page| (index, page))
    }

    /// The last entry. O(height).
    pub fn last_entry(&mut self) -> Option<(u64, Entry)> {
        let Some((mut node, _)) = self.head() else { return self.next_entry(0) };
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

    /// Collects entries of `range` in order into `found`; returns how many. O(found + nodes).
    pub fn entries(&mut self, range: RangeInclusive<u64>, found: &mut [(u64, Entry)]) -> usize {
        self.collect(range, Select::Used, found, Some)
    }

    /// Like [`entries`](Self::entries), for pages that have a tag.
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

    /// Walks down once to each node of leaves, then through its words.
    fn collect<F>(
        &mut self,
        range: RangeInclusive<u64>,
        select: Select,
        found: &mut [F],
        as_found: impl Fn((u64, Entry)) -> Option<F>,
    ) -> usize {
        let (mut from, end, mut count) = (*range.start(), *range.end(), 0);
        while count < found.len() {
            let Some((first, place)) = self.next(from, select) else { break };
            let (base, mut rest) = match place {
                Place::Root => (0, 1),
                Place::Word(node, at) => (first - at as u64, select.bits(&node) & u64::MAX << at),
            };
            while rest != 0 && count < found.len() {
                let at = rest.trailing_zeros();
                rest &= rest - 1;
                let index = base + u64::from(at);
                if index > end {
                    return count;
                }
                self.visit();
                let entry = match place {
                    Place::Root => self.entry_at(place),
                    Place::Word(node, _) => node.entry(at as usize),
                };
                if let Some(wanted) = as_found((index, entry)) {
                    found[count] = wanted;
                    count += 1;
                }
            }
            from = base + NODE_SLOTS as u64;
        }
        count
    }
}

/// The first index after those in a node, and the nearest ancestor that covers this index.
fn behind(node: NodeRef, from: u64) -> Option<(NodeRef, u64)> {
    let above = u32::from(node.shift.get()) + LEVEL_BITS;
    let behind = ((from >> above) + 1) << above;
    let mut node = node;
    loop {
        node = node.parent.get()?;
        let span = u32::from(node.shift.get()) + LEVEL_BITS;
        if behind >> span == from >> span {
            return Some((node, behind));
        }
    }
}
