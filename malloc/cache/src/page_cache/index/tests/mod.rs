//! Tests of the index. This file tests shapes, counts and lack of memory. `random` compares random
//! operations with a `BTreeMap`, `shadows` tests nodes of shadow entries, and `grace` tests waiting
//! nodes and walks.

mod grace;
mod random;
mod shadows;

use super::*;
use crate::lru::PageNo;
use crate::page_cache::NodeHost;
use quarry_mm::frame::NodeId;
use quarry_sys::percpu::Object;
use std::alloc::Layout;
use std::cell::{Cell, RefCell};
use std::collections::HashSet;

/// Nodes from the system's allocator, counted, and overwritten when they are freed.
#[derive(Default)]
pub(super) struct Nodes {
    out: RefCell<HashSet<Object>>,
    left: Cell<Option<usize>>,
    refuses_barrier: Cell<bool>,
}

const LAYOUT: Layout = match Layout::from_size_align(NODE_BYTES, NODE_ALIGN) {
    Ok(layout) => layout,
    Err(_) => panic!("a node has a layout"),
};

impl NodeHost for Nodes {
    fn alloc_node(&self) -> Option<(Object, NodeId)> {
        if let Some(left) = self.left.get() {
            self.left.set(Some(left.checked_sub(1)?));
        }
        // SAFETY: the layout is not empty.
        let object = Object::new(unsafe { std::alloc::alloc(LAYOUT) })?;
        // SAFETY: the object has this many bytes.
        unsafe { object.write_bytes(0x5a, NODE_BYTES) };
        assert!(self.out.borrow_mut().insert(object));
        Some((object, NodeId(0)))
    }

    unsafe fn free_nodes(&self, nodes: &[Object]) {
        for node in nodes {
            assert!(self.out.borrow_mut().remove(node), "a node goes back once");
            // SAFETY: it came from `alloc_node`.
            unsafe {
                node.write_bytes(0xa5, NODE_BYTES);
                std::alloc::dealloc(node.as_ptr(), LAYOUT);
            }
        }
    }

    fn wait_for_walks(&self) -> bool {
        !self.refuses_barrier.get()
    }
}

/// An index with the host and the lists that it needs.
#[derive(Default)]
pub(super) struct Bed {
    pub(super) host: Nodes,
    pub(super) nodes: IndexNodes,
}

pub(super) const OWNER: u32 = 7;

/// Maximum number of nodes of an insertion: 9 on the path, 8 for page 0 if it was in the root.
const MOST_NODES_PER_INSERT: usize = 17;

impl Bed {
    pub(super) fn put(
        &self,
        index: &Index<()>,
        at: u64,
        entry: Entry,
    ) -> Result<Entry, InsertError> {
        let mut preload = Preload::new(&self.host, &self.nodes.grace);
        loop {
            let inserted = index.lock(&self.nodes).insert(at, entry, &mut preload);
            match inserted {
                Err(InsertError::Nodes(count)) => {
                    assert!(count > preload.nodes.len() && count <= MOST_NODES_PER_INSERT);
                    if !preload.fill(count) {
                        return inserted;
                    }
                }
                _ => return inserted,
            }
        }
    }

    pub(super) fn end(self, index: &Index<()>) {
        let mut locked = index.lock(&self.nodes);
        locked.validate(&mut |_, _| Ok(())).expect("the equations hold");
        while let Some((at, _)) = locked.next_entry(0) {
            locked.remove(at);
        }
        assert_eq!(IndexCounts { visits: 0, ..locked.counts() }, IndexCounts::default());
        drop(locked);
        self.nodes.grace.release(&self.host, 1);
        assert!(self.host.out.borrow().is_empty(), "every node goes back");
    }
}

pub(super) fn page(number: u32) -> Entry {
    Entry::Page(PageNo(number))
}

#[test]
fn a_file_of_1024_pages_has_17_nodes_and_one_of_one_page_has_none() {
    let (bed, index) = (Bed::default(), Index::new(OWNER, ()));
    assert_eq!(bed.put(&index, 0, page(0)), Ok(Entry::Empty));
    assert_eq!(index.lock(&bed.nodes).counts().nodes, 0);
    for at in 1..1024 {
        assert_eq!(bed.put(&index, at, page(at as u32)), Ok(Entry::Empty));
    }
    let counts = index.lock(&bed.nodes).counts();
    assert_eq!((counts.nodes, counts.pages), (17, 1024));
    assert_eq!(bed.host.out.borrow().len(), 17, "no node is taken in vain");
    bed.end(&index);
}

/// Levels of nodes that a tree needs if it has an entry at this index only.
fn levels(index: u64) -> u64 {
    (0..9).take_while(|level| *level == 0 && index > 0 || index >> (6 * level) > 0).count() as u64
}

#[test]
fn a_tree_is_as_high_as_its_largest_index_asks_for() {
    let (bed, index) = (Bed::default(), Index::new(OWNER, ()));
    let nodes = || index.lock(&bed.nodes).counts().nodes;
    for at in [0, 1, 63, 64, 4095, 4096, 1 << 18, 1 << 36, (1 << 48) - 1, 1 << 48, INDEX_LIMIT - 1]
    {
        bed.put(&index, at, page(1)).expect("there is memory");
        assert_eq!(nodes(), levels(at), "{at:#x} alone");
        if at > 0 {
            bed.put(&index, 0, page(2)).expect("there is memory");
            let paths = 2 * levels(at) - 1;
            assert_eq!(nodes(), paths.max(1), "{at:#x} and 0");
            index.lock(&bed.nodes).remove(at);
            assert_eq!(nodes(), 0, "the tree shrinks to its root");
        }
        index.lock(&bed.nodes).remove(0);
    }
    bed.end(&index);
}

#[test]
fn the_largest_step_takes_17_nodes() {
    let (bed, index) = (Bed::default(), Index::new(OWNER, ()));
    bed.put(&index, 0, page(0)).expect("it needs no memory");
    assert_eq!(index.lock(&bed.nodes).missing(INDEX_LIMIT - 1), MOST_NODES_PER_INSERT);
    bed.put(&index, INDEX_LIMIT - 1, page(1)).expect("there is memory");
    assert_eq!(index.lock(&bed.nodes).counts().nodes, MOST_NODES_PER_INSERT as u64);
    bed.end(&index);
}

#[test]
fn without_memory_nothing_changes_and_every_node_goes_back() {
    let (bed, index) = (Bed::default(), Index::new(OWNER, ()));
    bed.put(&index, 0, page(0)).expect("it needs no memory");
    for enough in 0..MOST_NODES_PER_INSERT {
        bed.host.left.set(Some(enough));
        let refused = bed.put(&index, INDEX_LIMIT - 1, page(1));
        assert_eq!(refused, Err(InsertError::Nodes(MOST_NODES_PER_INSERT)));
        let locked = index.lock(&bed.nodes);
        locked.validate(&mut |_, _| Ok(())).expect("the equations hold");
        let counts = locked.counts();
        assert_eq!((counts.nodes, counts.pages), (0, 1));
        drop(locked);
        bed.nodes.grace.release(&bed.host, 1);
        assert!(bed.host.out.borrow().is_empty());
    }
    bed.host.left.set(None);
    bed.end(&index);
}

#[test]
fn a_page_is_not_overwritten_and_a_shadow_entry_is_returned() {
    let (bed, index) = (Bed::default(), Index::new(OWNER, ()));
    for at in [0, 77] {
        assert_eq!(bed.put(&index, at, Entry::Shadow(5)), Ok(Entry::Empty));
        assert_eq!(bed.put(&index, at, page(3)), Ok(Entry::Shadow(5)));
        assert_eq!(bed.put(&index, at, page(4)), Err(InsertError::Present(PageNo(3))));
        assert_eq!(index.lock(&bed.nodes).get(at), page(3));
    }
    bed.end(&index);
}

/// Document 001: removing pages one at a time visits each level once per page; removing 14 at a
/// time visits each level once for all of them.
#[test]
fn a_batch_looks_at_fewer_places_than_its_pages_one_by_one() {
    const PAGES: u64 = 1024;
    let filled = |bed: &Bed, index: &Index<()>| {
        for at in 0..PAGES {
            bed.put(index, at, page(at as u32)).expect("there is memory");
        }
        index.lock(&bed.nodes).counts().visits
    };
    let (bed, index) = (Bed::default(), Index::new(OWNER, ()));
    let before = filled(&bed, &index);
    for at in 0..PAGES {
        assert_eq!(index.lock(&bed.nodes).remove(at), page(at as u32));
    }
    let one_by_one = index.lock(&bed.nodes).counts().visits - before;
    let before = filled(&bed, &index);
    for from in (0..PAGES).step_by(BATCH) {
        let to = (from + BATCH as u64).min(PAGES);
        let batch: Vec<_> = (from..to).map(|at| (at, PageNo(at as u32))).collect();
        assert_eq!(index.lock(&bed.nodes).remove_batch(&batch), batch.len());
    }
    let batched = index.lock(&bed.nodes).counts().visits - before;
    println!("places looked at: {one_by_one} one by one, {batched} in batches of {BATCH}");
    assert!(batched * 5 < one_by_one * 3, "{batched} against {one_by_one}");
    bed.end(&index);
}
