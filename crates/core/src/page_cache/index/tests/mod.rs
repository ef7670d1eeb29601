//! Tests of the index: shapes and counts here, random operations beside a `BTreeMap` in `random`,
//! nodes of shadow entries in `shadows`.

mod random;

use super::*;
use crate::lru::PageNo;
use crate::page_cache::NodeHost;
use quarry_sys::percpu::Object;
use std::alloc::Layout;
use std::cell::{Cell, RefCell};
use std::collections::HashSet;

/// Nodes from the system's allocator, counted, and overwritten when they go back.
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
    fn alloc_node(&self) -> Option<Object> {
        if let Some(left) = self.left.get() {
            self.left.set(Some(left.checked_sub(1)?));
        }
        // SAFETY: the layout is not empty.
        let object = Object::new(unsafe { std::alloc::alloc(LAYOUT) })?;
        // SAFETY: the object has as many bytes.
        unsafe { object.write_bytes(0x5a, NODE_BYTES) };
        assert!(self.out.borrow_mut().insert(object));
        Some(object)
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

/// An index and what it stands on.
#[derive(Default)]
pub(super) struct Bed {
    pub(super) host: Nodes,
    pub(super) nodes: IndexNodes,
}

pub(super) const OWNER: u32 = 7;

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
                    assert!(count > preload.len() && count <= MOST_NODES_PER_INSERT);
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
