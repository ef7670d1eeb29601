//! Random operations on an index, compared with the same operations on a `BTreeMap`.

use super::{Bed, OWNER, page};
use crate::lru::PageNo;
use crate::page_cache::index::{Entry, Index, InsertError, Tag};
use proptest::prelude::*;
use quarry_mm::frame::NodeId;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum Op {
    Insert(u64, Entry),
    Replace(u64, Entry),
    Remove(u64),
    SetTag(u64, bool),
    ClearTag(u64, bool),
    RemoveBatch(u64, u64),
    ClearShadows(u64, u64),
    Entries(u64, u64),
    Tagged(u64, u64, bool),
    Release,
}

fn tag_of(writeback: bool) -> Tag {
    if writeback { Tag::Writeback } else { Tag::Dirty }
}

/// Indexes of all magnitudes, most of them small.
fn indexes() -> impl Strategy<Value = u64> {
    prop_oneof![
        8 => 0..200u64,
        2 => 4000..4200u64,
        1 => (0..52u32, 0..3u64).prop_map(|(bits, near)| (1u64 << bits).saturating_sub(near)),
        1 => Just((1 << 52) - 1),
    ]
}

fn entries() -> impl Strategy<Value = Entry> {
    prop_oneof![
        3 => any::<u32>().prop_map(page),
        1 => (0..1u64 << 61).prop_map(Entry::Shadow),
    ]
}

fn ops() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (indexes(), entries()).prop_map(|(at, entry)| Op::Insert(at, entry)),
        2 => (indexes(), entries()).prop_map(|(at, entry)| Op::Replace(at, entry)),
        3 => indexes().prop_map(Op::Remove),
        3 => (indexes(), any::<bool>()).prop_map(|(at, tag)| Op::SetTag(at, tag)),
        1 => (indexes(), any::<bool>()).prop_map(|(at, tag)| Op::ClearTag(at, tag)),
        1 => (indexes(), 0..100u64).prop_map(|(from, len)| Op::RemoveBatch(from, len)),
        1 => (indexes(), 0..100u64).prop_map(|(from, len)| Op::ClearShadows(from, len)),
        1 => (indexes(), indexes()).prop_map(|(from, to)| Op::Entries(from, to)),
        1 => (indexes(), indexes(), any::<bool>()).prop_map(|(a, b, tag)| Op::Tagged(a, b, tag)),
        1 => Just(Op::Release),
    ]
}

type Oracle = BTreeMap<u64, (Entry, [bool; 2])>;

struct Pair {
    bed: Bed,
    index: Index<()>,
    oracle: Oracle,
}

impl Pair {
    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Insert(at, entry) => self.insert(at, entry),
            Op::Replace(at, entry) => self.replace(at, entry),
            Op::Remove(at) => {
                let before = self.oracle.remove(&at).map_or(Entry::Empty, |here| here.0);
                assert_eq!(self.index.lock(&self.bed.nodes).remove(at), before);
            }
            Op::SetTag(at, tag) => {
                let here = self.oracle.get_mut(&at).filter(|here| here.0.page().is_some());
                let is_page = here.is_some();
                if let Some(here) = here {
                    here.1[tag_of(tag) as usize] = true;
                }
                assert_eq!(self.index.lock(&self.bed.nodes).set_tag(at, tag_of(tag)), is_page);
            }
            Op::ClearTag(at, tag) => {
                let here = self.oracle.get_mut(&at);
                let had =
                    here.is_some_and(|here| std::mem::take(&mut here.1[tag_of(tag) as usize]));
                assert_eq!(self.index.lock(&self.bed.nodes).clear_tag(at, tag_of(tag)), had);
            }
            Op::RemoveBatch(from, len) => self.remove_batch(from, len),
            Op::ClearShadows(from, len) => {
                let indexes: Vec<u64> = (from..from + len).collect();
                let before = self.oracle.len();
                self.oracle.retain(|at, here| !indexes.contains(at) || !here.0.is_shadow());
                let cleared = self.index.lock(&self.bed.nodes).clear_shadows(&indexes);
                assert_eq!(cleared, before - self.oracle.len());
            }
            Op::Entries(from, to) if from <= to => {
                let expected: Vec<_> =
                    self.oracle.range(from..=to).map(|(at, here)| (*at, here.0)).take(20).collect();
                let mut found = [(0, Entry::Empty); 20];
                let count = self.index.lock(&self.bed.nodes).entries(from..=to, &mut found);
                assert_eq!(found[..count], expected);
            }
            Op::Tagged(from, to, tag) if from <= to => {
                let tag = tag_of(tag);
                let tagged = self.oracle.range(from..=to).filter(|here| here.1.1[tag as usize]);
                let expected: Vec<_> = tagged
                    .filter_map(|(at, here)| here.0.page().map(|page| (*at, page)))
                    .take(20)
                    .collect();
                let mut locked = self.index.lock(&self.bed.nodes);
                let mut next = from;
                let found = std::iter::from_fn(|| {
                    let found = locked.next_tagged(next, tag).filter(|found| found.0 <= to)?;
                    next = found.0 + 1;
                    Some(found)
                });
                assert_eq!(found.take(20).collect::<Vec<_>>(), expected);
            }
            Op::Release => {
                self.bed.nodes.grace.release(&self.bed.host, 1);
            }
            Op::Entries(..) | Op::Tagged(..) => {}
        }
    }

    fn insert(&mut self, at: u64, entry: Entry) {
        let before = self.oracle.get(&at).map_or(Entry::Empty, |here| here.0);
        let expected = match before {
            Entry::Page(page) => Err(InsertError::Present(page)),
            _ => {
                self.oracle.insert(at, (entry, [false; 2]));
                Ok(before)
            }
        };
        assert_eq!(self.bed.put(&self.index, at, entry), expected);
    }

    fn replace(&mut self, at: u64, entry: Entry) {
        let here = self.oracle.get_mut(&at);
        let before = here.as_ref().map_or(Entry::Empty, |here| here.0);
        if let Some(here) = here {
            let tags = if entry.page().is_some() { here.1 } else { [false; 2] };
            *here = (entry, tags);
        }
        assert_eq!(self.index.lock(&self.bed.nodes).replace(at, entry), before);
    }

    /// Removes a batch of places: some hold the given page, some are empty, some hold another page.
    fn remove_batch(&mut self, from: u64, len: u64) {
        let batch: Vec<(u64, PageNo)> = (from..from + len)
            .filter(|at| at % 7 != 3)
            .map(|at| {
                let here = self.oracle.get(&at).and_then(|here| here.0.page());
                let other = PageNo(here.map_or(1, |page| page.0 ^ 1));
                (at, here.filter(|_| at % 5 != 1).unwrap_or(other))
            })
            .collect();
        let before = self.oracle.len();
        self.oracle
            .retain(|at, here| !batch.iter().any(|(b, p)| b == at && here.0 == Entry::Page(*p)));
        let removed = self.index.lock(&self.bed.nodes).remove_batch(&batch);
        assert_eq!(removed, before - self.oracle.len());
    }

    /// Number of leaf nodes that hold only shadow entries. A tree with only the place 0 has no
    /// node.
    fn nodes_of_shadows(&self) -> u64 {
        let mut has_page = BTreeMap::new();
        for (at, (entry, _)) in &self.oracle {
            *has_page.entry(at / 64).or_insert(false) |= entry.page().is_some();
        }
        let is_in_root = self.oracle.keys().eq(&[0]);
        has_page.values().filter(|has_page| !**has_page && !is_in_root).count() as u64
    }

    fn check(&self) {
        let mut locked = self.index.lock(&self.bed.nodes);
        let mut found = BTreeMap::new();
        locked
            .validate(&mut |at, entry| {
                assert!(found.insert(at, entry).is_none());
                Ok(())
            })
            .expect("the equations hold");
        assert!(found.into_iter().eq(self.oracle.iter().map(|(at, here)| (*at, here.0))));
        for (at, (entry, tags)) in &self.oracle {
            assert_eq!(locked.get(*at), *entry);
            assert_eq!(Tag::ALL.map(|tag| locked.has_tag(*at, tag)), *tags);
        }
        for tag in Tag::ALL {
            let any = self.oracle.values().any(|here| here.1[tag as usize]);
            assert_eq!(locked.is_tagged(tag), any);
        }
        self.bed.nodes.validate().expect("the equations hold");
        assert_eq!(self.bed.nodes.shadow_nodes(NodeId(0)), self.nodes_of_shadows());
    }
}

proptest! {
    #[test]
    fn an_index_does_what_a_map_does(ops in prop::collection::vec(ops(), 1..200)) {
        let mut pair =
            Pair { bed: Bed::default(), index: Index::new(OWNER, ()), oracle: Oracle::new() };
        for op in &ops {
            pair.apply(op);
            pair.check();
        }
        pair.bed.end(&pair.index);
    }
}
