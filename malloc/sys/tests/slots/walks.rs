//! Walks of trees of words: every backend is compared with a map; and threads walk while another
//! one removes nodes.

use crate::support::{Backend, Slots};
use quarry_sys::percpu::{LockedSlots, NativeSlots, PerCpu, ThreadStripe, WordTree};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A node that contains only its words.
#[repr(align(64))]
pub(crate) struct Node(pub(crate) [AtomicU64; WordTree::FAN_OUT]);

impl Node {
    pub(crate) fn filled(word: u64) -> Box<Self> {
        Box::new(Self(std::array::from_fn(|_| AtomicU64::new(word))))
    }

    pub(crate) fn fill(&self, word: u64) {
        self.0.iter().for_each(|place| place.store(word, Ordering::Release));
    }

    /// The word that refers to this node, for the node above it.
    pub(crate) fn word(&self) -> u64 {
        std::ptr::from_ref(self) as u64 + WordTree::IS_NODE
    }
}

/// The word of a leaf.
pub(crate) const fn leaf(number: u64) -> u64 {
    number << 2 | WordTree::IS_LEAF
}

/// A tree that is built from a map, with its nodes.
pub(crate) struct Forest {
    pub(crate) tree: WordTree,
    #[expect(clippy::vec_box, reason = "nodes know each other by their addresses")]
    pub(crate) nodes: Vec<Box<Node>>,
}

impl Forest {
    pub(crate) fn of(leaves: &BTreeMap<u64, u64>) -> Self {
        let mut forest = Self { tree: WordTree::new(), nodes: Vec::new() };
        let root = match leaves.last_key_value() {
            None => 0,
            Some((0, number)) => leaf(*number),
            Some((last, _)) => {
                let shift = last.ilog2() / WordTree::LEVEL_BITS * WordTree::LEVEL_BITS;
                forest.node(leaves, 0, shift) - WordTree::IS_NODE + u64::from(shift)
            }
        };
        forest.tree.set(root);
        forest
    }

    fn node(&mut self, leaves: &BTreeMap<u64, u64>, base: u64, shift: u32) -> u64 {
        let node = Node::filled(0);
        for (at, place) in node.0.iter().enumerate() {
            let from = base + ((at as u64) << shift);
            let to = from + ((1 << shift) - 1);
            let word = match leaves.range(from..=to).next() {
                None => 0,
                Some((_, number)) if shift == 0 => leaf(*number),
                Some(_) => self.node(leaves, from, shift - WordTree::LEVEL_BITS),
            };
            place.store(word, Ordering::Relaxed);
        }
        let word = node.word();
        self.nodes.push(node);
        word
    }
}

/// Walks to every leaf, to the indexes beside each, and beyond the tree.
fn walks_as_a_map_says<S: Backend>() {
    let slots = Slots::<S>::new();
    let shapes: [&[u64]; 7] = [
        &[],
        &[0],
        &[1],
        &[0, 63],
        &[5, 64, 127, 4095],
        &[0, 4096, 262_143, 262_144],
        &[0, 77, 1 << 20, (1 << 52) - 1],
    ];
    for indexes in shapes {
        let leaves: BTreeMap<u64, u64> = indexes.iter().map(|at| (*at, at ^ 0x55)).collect();
        let forest = Forest::of(&leaves);
        let near = indexes.iter().flat_map(|at| [*at, at + 1, at.saturating_sub(1), at ^ 64]);
        for index in near.chain([0, 1, 64, 1 << 52, 1 << 58, u64::MAX]) {
            // SAFETY: the nodes live as long as the forest.
            let found = unsafe { slots.walk(&forest.tree, index) };
            let wanted = leaves.get(&index).map_or(0, |number| leaf(*number));
            let locked = slots.is_locked() && found == 0;
            assert!(locked || found == wanted, "{index:#x} in {indexes:x?}: {found:#x}");
        }
    }
    assert!(slots.wait_for_walks());
}

#[test]
fn native_slots_walk_as_a_map_says() {
    walks_as_a_map_says::<NativeSlots>();
}

#[test]
fn slots_under_locks_do_not_walk() {
    let slots = LockedSlots::<ThreadStripe>::INERT;
    let forest = Forest::of(&BTreeMap::from([(3, 3)]));
    // SAFETY: the nodes live as long as the forest.
    assert_eq!(unsafe { slots.walk(&forest.tree, 3) }, 0);
    assert!(slots.wait_for_walks(), "there is none to wait for");
}

/// A writer moves the tree from one set of nodes to another, over and over, and overwrites the old
/// nodes after a barrier. No walk may return a word from an overwritten node.
#[test]
fn walks_of_threads_find_no_node_that_was_overwritten_behind_a_barrier() {
    const ROUNDS: u64 = if cfg!(miri) { 3 } else { 2_000 };
    const FREED: u64 = leaf(u64::MAX >> 2);
    let slots = Slots::<NativeSlots>::new();
    let places = [0, 64, 4096 + 5];
    let forest = |round: u64| Forest::of(&places.map(|at| (at, round)).into());
    let freed = Node::filled(FREED);
    let (tree, over) = (WordTree::new(), AtomicBool::new(false));
    let mut old = forest(0);
    tree.set(old.tree.word());
    std::thread::scope(|scope| {
        for at in places {
            let (slots, tree, over) = (&slots, &tree, &over);
            scope.spawn(move || {
                let mut last = 0;
                slots.enroll();
                while !over.load(Ordering::Relaxed) {
                    // SAFETY: a removed node is freed only after several barriers, and the last
                    // nodes after all threads have ended.
                    let found = unsafe { slots.walk(tree, at) };
                    assert_ne!(found, FREED, "a walk in a node that was overwritten");
                    assert!(found == 0 || found >> 2 >= last, "a walk goes back in time");
                    // 0: barriers have aborted the walk again and again, so it refused.
                    last = last.max(found >> 2);
                }
            });
        }
        let mut spent = Vec::new();
        for round in 1..ROUNDS {
            let new = forest(round);
            tree.set(new.tree.word());
            assert!(slots.wait_for_walks());
            let leaves = old.nodes.iter().enumerate();
            for (at, node) in leaves {
                // Leaf nodes, which come first, get leaves; other nodes lead to a freed node.
                let is_leaf = node.0.iter().any(|word| word.load(Ordering::Relaxed) & 1 == 1);
                node.fill(if is_leaf { FREED } else { freed.word() });
                assert!(at < 6);
            }
            spent.push(std::mem::replace(&mut old, new));
            if spent.len() > 4 {
                spent.remove(0);
            }
        }
        over.store(true, Ordering::Relaxed);
    });
}
