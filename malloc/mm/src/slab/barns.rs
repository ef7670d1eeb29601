//! The barns of a cache, one for each node (Linux 6.18, `kmem_cache_node.barn`): CPUs of different
//! nodes do not wait for each other, and objects stay near the CPUs that get them.
//!
//! The first node's barn lies in the cache's own state. The barns of further nodes are allocated
//! when the cache is created, if the allocator has zones for such nodes.
//!
//! The kernel frees an object of another node's memory directly into its slab. Here the fast path
//! does not check the node. So such objects enter a CPU's array, and that CPU may hand them out
//! again. When a sheaf leaves the CPU, each object goes to the barn of its own node.

use super::barn::Barn;
use super::context::SlabContext;
use super::stats::{BarnStats, Exchanges, SlabStats};
use crate::frame::{FRAME_SHIFT, MetadataKind, NodeId, Pfn};
use core::ptr::NonNull;
use quarry_sys::broken::Broken;
use quarry_sys::locks::Visit;
use quarry_sys::os::OsResult;
use quarry_sys::percpu::{Object, PerCpu};
use quarry_sys::primitive::{AtomicPtr, AtomicU32, Ordering};

pub(super) struct Barns {
    first: Barn,
    others: AtomicPtr<Barn>,
    /// The number of `others`; 0 in a new stack.
    more_nodes: AtomicU32,
}

impl Barns {
    pub(super) const fn new() -> Self {
        Self {
            first: Barn::new(),
            others: AtomicPtr::new(core::ptr::null_mut()),
            more_nodes: AtomicU32::new(0),
        }
    }

    pub(super) fn make<P: PerCpu>(&self, context: &SlabContext<'_, P>) -> OsResult<()> {
        let nodes = context.zones.all().count();
        if nodes > 1 && self.others.load(Ordering::Relaxed).is_null() {
            let bytes = (nodes - 1) * size_of::<Barn>();
            let kind = MetadataKind::CpuSlabs;
            let others: NonNull<Barn> =
                context.metadata.alloc(bytes, align_of::<Barn>(), kind)?.cast();
            for node in 0..nodes - 1 {
                // SAFETY: the memory is ours, aligned, and has room for `nodes - 1` barns.
                unsafe { others.add(node).write(Barn::new()) };
            }
            self.others.store(others.as_ptr(), Ordering::Release);
            self.more_nodes.store(nodes as u32 - 1, Ordering::Release);
        }
        Ok(())
    }

    pub(super) fn configure(&self, stride: usize) {
        self.all().for_each(|barn| barn.configure(stride));
    }

    pub(super) fn start(&self) {
        self.all().for_each(Barn::start);
    }

    pub(super) fn nodes(&self) -> usize {
        self.more_nodes.load(Ordering::Acquire) as usize + 1
    }

    /// The barn of a node; the first node's barn if the stack has no such node.
    #[inline]
    pub(super) fn of(&self, node: NodeId) -> &Barn {
        let node = usize::from(node.0);
        if node == 0 || node >= self.nodes() {
            return &self.first;
        }
        // SAFETY: `others` has `more_nodes` barns, which were written before `more_nodes` was set,
        // in memory that is never given back.
        unsafe { &*self.others.load(Ordering::Acquire).add(node - 1) }
    }

    /// The running CPU's node, and the barn of that node. A hint: the task may move to another CPU.
    #[inline]
    pub(super) fn here<P: PerCpu>(&self, context: &SlabContext<'_, P>) -> (NodeId, &Barn) {
        if self.nodes() == 1 {
            return (NodeId(0), &self.first);
        }
        let node = context.zones.node_of(context.percpu.current());
        (node, self.of(node))
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Barn> {
        (0..self.nodes()).map(|node| self.of(NodeId(node as u8)))
    }

    pub(super) fn bytes(&self) -> usize {
        self.all().map(Barn::bytes).sum()
    }

    pub(super) fn add_stats(&self, mut sum: Exchanges, stats: &mut SlabStats) -> Exchanges {
        for (barn, node) in self.all().zip(&mut stats.barns) {
            let (objects, exchanges) = barn.look();
            *node = BarnStats { objects, lock: barn.lock_stats() };
            stats.parked_objects += objects;
            stats.barn_lock += node.lock;
            sum += exchanges;
        }
        sum
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
