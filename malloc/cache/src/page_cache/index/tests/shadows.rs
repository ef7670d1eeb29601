//! Nodes that hold only shadow entries, and their shrinker.

use super::{Bed, OWNER, page};
use crate::lru::PageNo;
use crate::page_cache::index::{Entry, Index, NODE_SLOTS, PAGES_PER_SHADOW_NODE_SHIFT, ShadowScan};
use quarry_mm::frame::NodeId;

const MEMORY: NodeId = NodeId(0);
const SLOTS: u64 = NODE_SLOTS as u64;

/// An index with `nodes` nodes of leaves, each of one page and one shadow entry.
fn mixed(bed: &Bed, nodes: u64) -> Index<()> {
    let index = Index::new(OWNER, ());
    for at in 0..nodes {
        bed.put(&index, at * SLOTS, page(at as u32)).expect("there is memory");
        bed.put(&index, at * SLOTS + 1, Entry::Shadow(at)).expect("there is memory");
    }
    index
}

#[test]
fn a_node_is_listed_as_long_as_it_holds_shadow_entries_only() {
    let bed = Bed::default();
    let index = mixed(&bed, 2);
    assert_eq!(bed.nodes.shadow_nodes(MEMORY), 0, "both nodes have a page");
    index.lock(&bed.nodes).replace(SLOTS, Entry::Shadow(9));
    assert_eq!(bed.nodes.shadow_nodes(MEMORY), 1, "the page was evicted");
    bed.put(&index, SLOTS + 2, page(7)).expect("there is memory");
    assert_eq!(bed.nodes.shadow_nodes(MEMORY), 0, "a page came");
    index.lock(&bed.nodes).remove(SLOTS + 2);
    assert_eq!(bed.nodes.shadow_nodes(MEMORY), 1, "and went");
    assert_eq!(index.lock(&bed.nodes).clear_shadows(&[SLOTS, SLOTS + 1]), 2);
    assert_eq!(bed.nodes.shadow_nodes(MEMORY), 0, "the node is gone");
    bed.end(&index);
}

#[test]
fn the_shrinker_takes_the_oldest_nodes_and_no_others() {
    let bed = Bed::default();
    let index = mixed(&bed, 6);
    for at in [3, 1, 4, 0] {
        index.lock(&bed.nodes).replace(at * SLOTS, Entry::Shadow(0));
    }
    assert_eq!(bed.nodes.shadow_nodes(MEMORY), 4);
    let scan = bed.nodes.scan_shadow_nodes(MEMORY, 2, &|owner| (owner == OWNER).then_some(&index));
    assert_eq!(scan, ShadowScan { scanned: 2, freed: 2 });
    let mut locked = index.lock(&bed.nodes);
    for at in [3, 1] {
        assert_eq!(locked.get(at * SLOTS + 1), Entry::Empty, "node {at} is older");
    }
    for at in [4, 0] {
        assert!(locked.get(at * SLOTS + 1).is_shadow(), "node {at} is younger");
    }
    assert_eq!(locked.get(2 * SLOTS), page(2), "pages stay");
    let counts = locked.counts();
    assert_eq!((counts.nodes, counts.pages, counts.shadows), (5, 2, 6));
    drop(locked);
    assert_eq!((bed.nodes.shadow_nodes(MEMORY), bed.nodes.reclaimed()), (2, 2));
    bed.end(&index);
}

#[test]
fn the_shrinker_waits_for_no_lock_of_an_index() {
    let bed = Bed::default();
    let index = mixed(&bed, 2);
    index.lock(&bed.nodes).replace(0, Entry::Shadow(0));
    let guard = index.lock(&bed.nodes);
    let scan = bed.nodes.scan_shadow_nodes(MEMORY, 2, &|_| Some(&index));
    assert_eq!(scan, ShadowScan { scanned: 2, freed: 0 });
    drop(guard);
    let gone = bed.nodes.scan_shadow_nodes(MEMORY, 9, &|_| None::<&Index<()>>);
    assert_eq!(gone, ShadowScan { scanned: 9, freed: 0 }, "an owner that is not found is busy");
    let free = bed.nodes.scan_shadow_nodes(MEMORY, 9, &|_| Some(&index));
    assert_eq!(free, ShadowScan { scanned: 1, freed: 1 });
    bed.end(&index);
}

#[test]
fn an_eighth_as_many_nodes_as_pages_may_stay() {
    let bed = Bed::default();
    let index = mixed(&bed, 5);
    for at in 0..5 {
        index.lock(&bed.nodes).replace(at * SLOTS, Entry::Shadow(0));
    }
    assert_eq!(1 << PAGES_PER_SHADOW_NODE_SHIFT, 8);
    let counts = [0, 7, 8, 39, 40, 1000].map(|pages| bed.nodes.count_shadow_nodes(MEMORY, pages));
    assert_eq!(counts, [5, 5, 4, 1, 0, 0]);
    bed.end(&index);
}

#[test]
fn a_shadow_entry_that_leaves_the_root_is_in_a_listed_node() {
    let bed = Bed::default();
    let index = Index::new(OWNER, ());
    bed.put(&index, 0, Entry::Shadow(1)).expect("it needs no memory");
    bed.put(&index, SLOTS, page(2)).expect("there is memory");
    assert_eq!(bed.nodes.shadow_nodes(MEMORY), 1);
    bed.end(&index);
}

#[test]
fn a_shadow_entry_in_the_root_is_in_no_node() {
    let bed = Bed::default();
    let index = Index::new(OWNER, ());
    bed.put(&index, 0, page(1)).expect("it needs no memory");
    index.lock(&bed.nodes).replace(0, Entry::Shadow(1));
    assert_eq!(bed.nodes.shadow_nodes(MEMORY), 0);
    assert_eq!(index.lock(&bed.nodes).remove_batch(&[(0, PageNo(1))]), 0, "it is no page");
    assert_eq!(index.lock(&bed.nodes).clear_shadows(&[0]), 1);
    bed.end(&index);
}
