//! Walks of a tree of words beside a task that removes nodes and frees them after a barrier, or
//! uses them again at once.

use crate::{Slots, check, expect_failure};
use quarry_sys::percpu::{PerCpu, PlantedBug, WordTree};
use quarry_sys::primitive::{AtomicU64, Ordering};

const FIRST: u64 = 4 * 10 + 1;
const SECOND: u64 = 4 * 20 + 1;
const ELSEWHERE: u64 = 4 * 30 + 1;
const FREED: u64 = 4 * 50 + 1;

/// The index of the leaf in the second node of leaves.
const AT_SECOND: u64 = WordTree::FAN_OUT as u64;

#[repr(align(64))]
struct Node([AtomicU64; WordTree::FAN_OUT]);

impl Node {
    fn new(first: u64) -> Self {
        let node = Self([const { AtomicU64::new(0) }; WordTree::FAN_OUT]);
        node.set(0, first);
        node
    }

    fn set(&self, at: usize, word: u64) {
        self.0[at].store(word, Ordering::Release);
    }

    fn address(&self) -> u64 {
        std::ptr::from_ref(self) as u64
    }

    /// The word that refers to this node, for the node above it.
    fn word(&self) -> u64 {
        self.address() + WordTree::IS_NODE
    }
}

/// A head with two leaf nodes, and a node whose only leaf marks memory that was freed.
struct Trees {
    slots: Slots,
    tree: WordTree,
    head: Node,
    leaves: [Node; 2],
    freed: Node,
}

impl Trees {
    fn new(bug: PlantedBug) -> Box<Self> {
        let trees = Box::new(Self {
            slots: Slots::new(2, bug),
            tree: WordTree::new(),
            head: Node::new(0),
            leaves: [Node::new(FIRST), Node::new(SECOND)],
            freed: Node::new(FREED),
        });
        trees.head.set(0, trees.leaves[0].word());
        trees.head.set(1, trees.leaves[1].word());
        trees.tree.set(trees.head.address() + u64::from(WordTree::LEVEL_BITS));
        trees
    }

    fn walk(&self, index: u64) -> u64 {
        // SAFETY: all nodes live as long as the trees.
        unsafe { self.slots.walk(&self.tree, index) }
    }

    /// Runs `changes`, while each of two readers walks to both leaves.
    fn read_beside(&self, changes: impl FnOnce(), may_be_first: &[u64], may_be_second: &[u64]) {
        shuttle::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..2 {
                        let (first, second) = (self.walk(0), self.walk(AT_SECOND));
                        // 0: the walk was interrupted too often.
                        assert!([may_be_first, &[0]].concat().contains(&first), "{first} at 0");
                        assert!(
                            [may_be_second, &[0]].concat().contains(&second),
                            "{second} at {AT_SECOND}"
                        );
                    }
                });
            }
            changes();
        });
    }
}

/// Removes the second leaf node, and then the head; frees each, after a barrier if `waits`.
fn freed_after_barrier(bug: PlantedBug, waits: bool) {
    let trees = Trees::new(bug);
    let free = |node: &Node, at: usize, word: u64| {
        assert!(!waits || trees.slots.wait_for_walks());
        node.set(at, word);
    };
    let changes = || {
        trees.head.set(1, 0);
        free(&trees.leaves[1], 0, FREED);
        trees.tree.set(trees.leaves[0].address());
        free(&trees.head, 0, trees.freed.word());
    };
    trees.read_beside(changes, &[FIRST], &[SECOND, 0]);
}

/// Removes the head, and uses it at once as a leaf node of another tree whose head is the first
/// leaf node. Walks that are in one of these nodes still end.
fn used_again() {
    let trees = Trees::new(PlantedBug::None);
    let changes = || {
        trees.tree.set(0);
        trees.head.set(1, 0);
        trees.head.set(0, ELSEWHERE);
        trees.leaves[0].set(0, trees.head.word());
    };
    trees.read_beside(changes, &[FIRST, ELSEWHERE, 0], &[SECOND, 0]);
}

#[test]
fn no_walk_is_in_a_node_that_was_freed_after_a_barrier() {
    check(|| freed_after_barrier(PlantedBug::None, true));
}

#[test]
fn a_walk_in_a_node_that_is_used_again_ends_there() {
    check(used_again);
}

#[test]
fn freeing_without_a_barrier_is_noticed() {
    expect_failure(|| freed_after_barrier(PlantedBug::None, false));
}

#[test]
fn a_barrier_that_restarts_no_walk_is_noticed() {
    expect_failure(|| freed_after_barrier(PlantedBug::BarrierDoesNothing, true));
}

#[test]
fn a_walk_that_goes_on_after_preemption_is_noticed() {
    expect_failure(|| freed_after_barrier(PlantedBug::CommitsAfterPreemption, true));
}
