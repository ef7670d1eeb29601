//! The index of a file mapping. Walks run beside a task that removes pages and frees their nodes;
//! the shrinker of shadow entries runs beside tasks that fill and empty its nodes.

use crate::explore;
use crate::system::{Backing, TestOs};
use quarry_cache::lru::PageNo;
use quarry_cache::page_cache::NodeHost;
use quarry_cache::page_cache::index::{
    Entry, Index, IndexNodes, InsertError, NODE_ALIGN, NODE_BYTES, NODE_SLOTS, Preload,
};
use quarry_mm::frame::NodeId;
use quarry_sys::percpu::{Object, PerCpu, PlantedBug, SteppedSlots, WordTree};
use quarry_sys::primitive::{AtomicU64, Ordering};
use shuttle::scheduler::PctScheduler;
use std::alloc::Layout;
use std::sync::Mutex;

/// The page number in each word of a freed node: it reveals a walk that reads the node.
const FREED: PageNo = PageNo(0x7777);
/// An index whose page lies in the second node of leaves.
const SECOND: u64 = NODE_SLOTS as u64;
const OWNER: u32 = 3;

/// Nodes stay readable until the end of the run; freed nodes hold [`FREED`].
struct Host {
    os: &'static TestOs,
    slots: SteppedSlots,
    waits: bool,
    taken: Mutex<Vec<usize>>,
    given_back: Mutex<Vec<usize>>,
}

const LAYOUT: Layout = match Layout::from_size_align(NODE_BYTES, NODE_ALIGN) {
    Ok(layout) => layout,
    Err(_) => panic!("a node has a layout"),
};

impl Host {
    fn new(bug: PlantedBug, waits: bool) -> Self {
        let os: &'static TestOs = Box::leak(Box::new(TestOs::new(Backing::Fake, 4096)));
        let slots = SteppedSlots::INERT;
        slots.sequences().plant(bug);
        slots.init(os).expect("the fake OS refuses nothing");
        Self { os, slots, waits, taken: Mutex::default(), given_back: Mutex::default() }
    }

    /// Number of nodes that were not given back.
    fn out(&self) -> usize {
        self.taken.lock().unwrap().len() - self.given_back.lock().unwrap().len()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        for node in self.taken.get_mut().unwrap() {
            // SAFETY: the node came from `alloc_node`, and the run is over.
            unsafe { std::alloc::dealloc(*node as *mut u8, LAYOUT) };
        }
        // SAFETY: the run's threads have been joined.
        unsafe { self.slots.area().release(self.os) };
    }
}

impl NodeHost for Host {
    fn alloc_node(&self) -> Option<(Object, NodeId)> {
        // SAFETY: the layout is not empty.
        let object = Object::new(unsafe { std::alloc::alloc_zeroed(LAYOUT) })?;
        self.taken.lock().unwrap().push(object.as_ptr() as usize);
        Some((object, NodeId(0)))
    }

    unsafe fn free_nodes(&self, nodes: &[Object]) {
        for node in nodes {
            self.given_back.lock().unwrap().push(node.as_ptr() as usize);
            for at in 0..NODE_SLOTS {
                // SAFETY: a node begins with `NODE_SLOTS` words.
                let word = unsafe { node.cast::<AtomicU64>().add(at).as_ref() };
                if word.load(Ordering::Relaxed) != 0 || at < 2 {
                    word.store(u64::from(FREED.0) << 3 | 1, Ordering::Relaxed);
                }
            }
        }
    }

    fn wait_for_walks(&self) -> bool {
        !self.waits || self.slots.wait_for_walks()
    }

    unsafe fn walk(&self, tree: &WordTree, index: u64) -> u64 {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.slots.walk(tree, index) }
    }
}

/// An index with its host and the state of its nodes.
struct Bed {
    host: Host,
    nodes: IndexNodes,
    index: Index<()>,
}

impl Bed {
    fn new(bug: PlantedBug, waits: bool) -> Self {
        Self {
            host: Host::new(bug, waits),
            nodes: IndexNodes::default(),
            index: Index::new(OWNER, ()),
        }
    }

    /// Inserts an entry, but replaces no page. Returns the page that stays, or the old entry.
    fn put(&self, at: u64, entry: Entry) -> Entry {
        let mut preload = Preload::new(&self.host, &self.nodes.grace);
        loop {
            let inserted = self.index.lock(&self.nodes).insert(at, entry, &mut preload);
            match inserted {
                Ok(before) => return before,
                Err(InsertError::Present(page)) => return Entry::Page(page),
                Err(InsertError::Nodes(count)) => assert!(preload.fill(count)),
            }
        }
    }

    fn end(&self) {
        let mut locked = self.index.lock(&self.nodes);
        locked.validate(&mut |_, _| Ok(())).expect("the equations hold");
        while let Some((at, _)) = locked.next_entry(0) {
            locked.remove(at);
        }
        assert_eq!(locked.counts().nodes, 0);
        drop(locked);
        assert_eq!(self.nodes.shadow_nodes(NodeId(0)), 0);
        self.nodes.grace.release(&self.host, 1);
        assert_eq!(self.host.out(), 0, "every node goes back");
    }
}

/// One task walks to two pages. Meanwhile another task removes the second page, which frees its
/// node and shrinks the tree, and then inserts a page with another number.
fn walks_beside_removal(bug: PlantedBug, waits: bool) {
    let bed = Bed::new(bug, waits);
    for (at, page) in [(0, 1), (SECOND, 2)] {
        bed.put(at, Entry::Page(PageNo(page)));
    }
    shuttle::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..3 {
                let first = bed.index.walk(&bed.host, 0);
                assert!([Some(PageNo(1)), None].contains(&first), "{first:?} at 0");
                let second = bed.index.walk(&bed.host, SECOND);
                let may_be = [Some(PageNo(2)), Some(PageNo(3)), None];
                assert!(may_be.contains(&second), "{second:?} at {SECOND}");
            }
        });
        assert_eq!(bed.index.lock(&bed.nodes).remove(SECOND), Entry::Page(PageNo(2)));
        bed.nodes.grace.release(&bed.host, 1);
        bed.put(SECOND, Entry::Page(PageNo(3)));
        assert_eq!(bed.index.lock(&bed.nodes).remove(SECOND), Entry::Page(PageNo(3)));
        bed.nodes.grace.release(&bed.host, 1);
    });
    bed.end();
}

/// The shrinker runs beside two tasks: one brings a page back into a node of shadow entries, the
/// other one clears another node and frees the nodes that wait.
fn shrinker_beside_refaults() {
    let bed = Bed::new(PlantedBug::None, true);
    for at in [0, SECOND, SECOND + 1] {
        bed.put(at, Entry::Shadow(at));
    }
    shuttle::thread::scope(|scope| {
        scope.spawn(|| {
            let find = |owner| (owner == OWNER).then_some(&bed.index);
            let scan = bed.nodes.scan_shadow_nodes(NodeId(0), 3, &find);
            assert!(scan.freed <= scan.scanned && scan.scanned <= 3);
            bed.nodes.grace.release(&bed.host, 1);
        });
        scope.spawn(|| {
            let before = bed.put(SECOND, Entry::Page(PageNo(5)));
            assert!([Entry::Shadow(SECOND), Entry::Empty].contains(&before));
            let page = bed.index.lock(&bed.nodes).replace(SECOND, Entry::Shadow(9));
            assert_eq!(page, Entry::Page(PageNo(5)), "the shrinker takes no page");
        });
        bed.index.lock(&bed.nodes).clear_shadows(&[0]);
        bed.nodes.grace.release(&bed.host, 1);
    });
    bed.end();
}

/// Expects a scenario to fail, on a separate thread, so that other runs do not meet its remains.
fn expect_failure(scenario: fn()) {
    let failed = std::thread::spawn(move || {
        let mut config = shuttle::Config::new();
        config.failure_persistence = shuttle::FailurePersistence::None;
        shuttle::Runner::new(PctScheduler::new(3, 20_000), config).run(scenario);
    });
    assert!(failed.join().is_err(), "the planted bug went unnoticed");
}

#[test]
fn no_walk_of_an_index_is_in_a_freed_node() {
    explore(2_000, || walks_beside_removal(PlantedBug::None, true));
}

#[test]
fn freeing_a_node_without_a_barrier_is_noticed() {
    expect_failure(|| walks_beside_removal(PlantedBug::None, false));
}

#[test]
fn a_barrier_that_restarts_no_walk_is_noticed() {
    expect_failure(|| walks_beside_removal(PlantedBug::BarrierDoesNothing, true));
}

#[test]
fn the_shrinker_takes_no_page_and_loses_no_node() {
    explore(2_000, shrinker_beside_refaults);
}
