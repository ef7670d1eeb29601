//! Iteration in order of the index: over all entries, pages, or tagged pages.

use super::entry::{Entry, Tag};
use super::node::{LEVEL_BITS, NODE_SLOTS, Node, NodeRef};
use super::tree::{LockedIndex, Place};
use crate::lru::PageNo;
use core::ops::RangeInclusive;

/// The words of a node that have a tag; without one, the used words.
fn bits(node: &Node, tag: Option<Tag>) -> u64 {
    tag.map_or(node.used.get(), |tag| node.tags[tag as usize].get())
}

impl<T> LockedIndex<'_, T> {
    /// Returns the index and the place of the first entry from `from` on; with a tag, of the first
    /// page that has it.
    fn next(&mut self, from: u64, tag: Option<Tag>) -> Option<(u64, Place)> {
        let Some((mut node, shift)) = self.head() else {
            let is_wanted = tag.map_or(self.is_leaf_only(), |tag| self.is_tagged(tag));
            return (from == 0 && is_wanted).then_some((0, Place::Root));
        };
        let mut from = from;
        if from >> shift >= NODE_SLOTS as u64 {
            return None;
        }
        loop {
            self.visit();
            let shift = u32::from(node.shift.get());
            let at = node.place(from);
            let rest = bits(&node, tag) & u64::MAX << at;
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
        let (index, place) = self.next(from, None)?;
        Some((index, self.entry_at(place)))
    }

    /// The first page from `from` on that has a tag. O(height).
    pub fn next_tagged(&mut self, from: u64, tag: Tag) -> Option<(u64, PageNo)> {
        let (index, place) = self.next(from, Some(tag))?;
        self.entry_at(place).page().map(|page| (index, page))
    }

    /// Collects entries of `range` in order into `found`; returns how many. Walks down once to each
    /// node of leaves, then through its words. O(found + nodes).
    pub fn entries(&mut self, range: RangeInclusive<u64>, found: &mut [(u64, Entry)]) -> usize {
        let (mut from, mut count) = (*range.start(), 0);
        while count < found.len() {
            let Some((first, place)) = self.next(from, None) else { break };
            let (base, mut rest) = match place {
                Place::Root => (0, 1),
                Place::Word(node, at) => (first - at as u64, node.used.get() & u64::MAX << at),
            };
            while rest != 0 && count < found.len() {
                let at = rest.trailing_zeros();
                rest &= rest - 1;
                let index = base + u64::from(at);
                if index > *range.end() {
                    return count;
                }
                self.visit();
                let entry = match place {
                    Place::Root => self.entry_at(place),
                    Place::Word(node, _) => node.entry(at as usize),
                };
                found[count] = (index, entry);
                count += 1;
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
