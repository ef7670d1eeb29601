//! A machine that the kernel's formulas assume instead of the running one.

use quarry_mm::frame::{MAX_NODES, NodeId};
use quarry_mm::pcp::{CACHE_SLICE_BYTES, PageConfig, SizeInputs};
use quarry_mm::zone::Marks;
use quarry_sys::percpu::SlotIndex;

/// The declared machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Its CPUs, at least 1.
    pub cpus: u32,
    /// Its memory, in frames of all nodes together; 0 = as many as zones have.
    pub frames: u32,
    /// Its NUMA nodes, 1..=[`MAX_NODES`].
    pub nodes: u8,
}

/// Deals slots to declared nodes in turn.
fn dealt<const NODES: u32>(slot: SlotIndex) -> NodeId {
    NodeId((slot.0 % NODES) as u8)
}

const DEALT: [fn(SlotIndex) -> NodeId; MAX_NODES] = [
    dealt::<1>, dealt::<2>, dealt::<3>, dealt::<4>, dealt::<5>, dealt::<6>, dealt::<7>, dealt::<8>,
];

impl Machine {
    /// Lets the kernel's formulas assume this machine. If it has another number of nodes, nodes
    /// become fake: each has a zone, slots are assigned to them in turn, and the system does not
    /// know them.
    ///
    /// # Panics
    /// If the machine has no CPU, or not 1 to [`MAX_NODES`] nodes.
    pub fn declare<P>(self, config: &mut PageConfig<P>) {
        let Self { cpus, frames, nodes } = self;
        assert!(cpus > 0, "a machine has CPUs");
        assert!(
            (1..=MAX_NODES).contains(&usize::from(nodes)),
            "a machine has 1 to {MAX_NODES} nodes, not {nodes}"
        );
        config.declared_cpus = cpus;
        config.declared = (frames > 0).then(|| self.size_inputs());
        if nodes != config.nodes {
            config.nodes = nodes;
            config.node_of_slot = DEALT[usize::from(nodes) - 1];
        }
    }

    /// The inputs for the zone of one of its equal nodes.
    pub(crate) fn size_inputs(self) -> SizeInputs {
        let managed = self.frames / u32::from(self.nodes);
        SizeInputs {
            managed,
            low: Marks::of(managed, self.frames).low,
            cpus: (self.cpus / u32::from(self.nodes)).max(1),
            declared: true,
            cache_slice_bytes: CACHE_SLICE_BYTES,
        }
    }
}
