//! The barns of a cache, one for each node (Linux 6.18, `kmem_cache_node.barn`) in each group of
//! CPUs: CPUs of different nodes or groups do not wait for each other, and objects stay near the
//! CPUs that get them.
//!
//! The kernel frees an object of another node's memory directly into its slab. Here the fast path
//! does not check the node. So such objects enter a CPU's array, and that CPU may hand them out
//! again. When a sheaf leaves the CPU, each object goes to the barn of its own node, in the group
//! of that CPU. A CPU whose barn is empty takes a sheaf from another group.
//!
//! Equation: number of a barn `= group * nodes + node`.

use super::barn::Barn;
use super::context::SlabContext;
use super::groups::Groups;
use super::shards::Shards;
use super::stats::{ArrayCounts, BarnStats, Exchanges, SlabStats};
use crate::frame::{FRAME_SHIFT, FreshZero, NodeId, Pfn};
use quarry_sys::broken::Broken;
use quarry_sys::locks::Visit;
use quarry_sys::os::OsResult;
use quarry_sys::percpu::{ArrayUse, Object, PerCpu};
use quarry_sys::primitive::{AtomicU32, Ordering};

/// A barn, and the exchanges of its CPUs that it did not count.
pub(super) struct OfGroup {
    pub(super) barn: Barn,
    pub(super) counts: ArrayCounts,
}

// SAFETY: zero bytes are a free lock and an empty barn without storage, as in `Barn::new`, and
// counts of 0.
unsafe impl FreshZero for OfGroup {}

pub(super) struct Barns {
    first: OfGroup,
    more: Shards<OfGroup>,
    /// The number of nodes less 1: 0 in a new stack.
    more_nodes: AtomicU32,
}

impl Barns {
    pub(super) const fn new() -> Self {
        let first = OfGroup { barn: Barn::new(), counts: ArrayCounts::zero() };
        Self { first, more: Shards::new(), more_nodes: AtomicU32::new(0) }
    }

    /// Makes a barn for each node.
    pub(super) fn make<P: PerCpu>(&self, context: &SlabContext<'_, P>) -> OsResult<()> {
        let nodes = context.zones.all().count();
        if nodes > 1 {
            self.more.make(nodes, context.metadata, |_| {})?;
            self.more_nodes.store(nodes as u32 - 1, Ordering::Release);
        }
        Ok(())
    }

    /// Makes barns for `groups` groups of CPUs, for objects of `stride` bytes.
    pub(super) fn make_shards<P: PerCpu>(
        &self,
        groups: usize,
        stride: usize,
        context: &SlabContext<'_, P>,
    ) -> OsResult<()> {
        let barns = groups * self.nodes();
        self.more.make(barns, context.metadata, |new| new.barn.configure(stride))
    }

    #[inline]
    pub(super) fn nodes(&self) -> usize {
        self.more_nodes.load(Ordering::Acquire) as usize + 1
    }

    pub(super) fn configure(&self, stride: usize) {
        self.all().for_each(|barn| barn.configure(stride));
    }

    /// Resets the counts for a cache whose arrays have counted `operations` already.
    pub(super) fn start(&self, operations: u64) {
        for (number, group) in self.groups().enumerate() {
            group.barn.start();
            group.counts.restart(if number == 0 { operations } else { 0 });
        }
    }

    fn group(&self, number: usize) -> &OfGroup {
        self.more.at(&self.first, number)
    }

    fn groups(&self) -> impl Iterator<Item = &OfGroup> {
        self.more.all(&self.first)
    }

    /// The barn with this number; the first one if there is no such barn.
    #[inline]
    pub(super) fn of(&self, number: usize) -> &Barn {
        &self.group(number).barn
    }

    /// The number of the running CPU's barn, and that barn. A hint: the task may move to another
    /// CPU.
    #[inline]
    pub(super) fn here<P: PerCpu>(
        &self,
        groups: &Groups,
        context: &SlabContext<'_, P>,
    ) -> (usize, &OfGroup) {
        let (nodes, slot) = (self.nodes(), || context.percpu.current());
        let group = groups.of(slot);
        let node = if nodes == 1 { 0 } else { usize::from(context.zones.node_of(slot()).0) };
        let own = group * nodes + node;
        (own, self.group(own))
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Barn> {
        self.groups().map(|group| &group.barn)
    }

    pub(super) fn bytes(&self) -> usize {
        self.all().map(Barn::bytes).sum()
    }

    /// Stores the counts of the barns, and all allocations and frees of the cache. `sum` are the
    /// exchanges that neither barns nor groups counted.
    pub(super) fn fill(&self, arrays: ArrayUse, mut sum: Exchanges, stats: &mut SlabStats) {
        for (number, group) in self.groups().enumerate() {
            let (objects, exchanges) = group.barn.look();
            let lock = group.barn.lock_stats();
            if let Some(node) = stats.barns.get_mut(number % self.nodes()) {
                *node += BarnStats { objects, lock };
            }
            stats.parked_objects += objects;
            stats.barn_lock += lock;
            sum += exchanges;
            if number > 0 {
                group.counts.add_to(&mut sum, stats);
            }
        }
        self.first.counts.fill(arrays, sum, stats);
    }

    pub(super) fn visit_locks(&self, visit: &mut Visit<'_>) {
        self.all().for_each(|barn| barn.visit_locks(visit));
    }

    pub(super) fn validate(&self) -> Result<(), Broken> {
        self.all().try_for_each(Barn::validate)
    }
}

/// The node that an object's memory belongs to.
pub fn home<P: PerCpu>(context: &SlabContext<'_, P>, object: Object) -> NodeId {
    let base = context.zones.arena().base().as_ptr() as usize;
    let pfn = Pfn(((object.as_ptr() as usize - base) >> FRAME_SHIFT) as u32);
    let pageblocks = context.zones.memory().pageblocks();
    pageblocks.of(pfn).tag().node().unwrap_or(NodeId(0))
}
