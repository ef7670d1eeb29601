//! On which NUMA node the system takes memory of the heap.

use crate::own_stack;
use crate::primitive::{AtomicU8, Ordering};
use crate::seccomp::is_unfiltered;
use crate::topology::{MEMORY_NODES, MemoryNodes, NO_NODES, allowed_memory_nodes};
use crate::topology::{current_node, memory_node_limit};
use core::ptr::NonNull;

/// Where the system takes memory on a machine with several nodes (`QUARRY_NUMA`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Placement {
    /// On the node of the thread for which Quarry maps it, even if another one touches it first.
    Local = 1,
    /// Page by page on all nodes in turn.
    Interleave,
}

/// 0 where the system places memory as that of any program.
static CHOSEN: AtomicU8 = AtomicU8::new(0);

/// Chooses where memory lies that is mapped from now on, if the machine has several nodes.
pub fn choose(placement: Placement) {
    if memory_node_limit() > 1 {
        CHOSEN.store(placement as u8, Ordering::Relaxed);
    }
}

/// Tells the system where memory lies that was just mapped. If it refuses, the memory lies as that
/// of any program. Under a filter, which may kill for the call, Quarry does not make it.
pub(crate) fn place(address: NonNull<u8>, bytes: usize) {
    let chosen = CHOSEN.load(Ordering::Relaxed);
    if chosen != 0 {
        // It reads files, which takes more stack than a request may.
        own_stack::run(|| place_as(chosen, address, bytes));
    }
}

#[cold]
#[inline(never)]
fn place_as(chosen: u8, address: NonNull<u8>, bytes: usize) {
    /// `include/uapi/linux/mempolicy.h`.
    const MPOL_PREFERRED: i32 = 1;
    const MPOL_INTERLEAVE: i32 = 3;
    if !is_unfiltered() {
        return;
    }
    let (mode, nodes) = match chosen == Placement::Interleave as u8 {
        true => (MPOL_INTERLEAVE, allowed_memory_nodes()),
        false => (MPOL_PREFERRED, only(current_node())),
    };
    let Some(nodes) = nodes else { return };
    // SAFETY: the call changes no byte of the memory, and reads MEMORY_NODES bits of the mask.
    unsafe {
        libc::syscall(libc::SYS_mbind, address, bytes, mode, nodes.as_ptr(), MEMORY_NODES, 0);
    }
}

fn only(node: u32) -> Option<MemoryNodes> {
    let mut nodes = NO_NODES;
    *nodes.get_mut((node / libc::c_ulong::BITS) as usize)? = 1 << (node % libc::c_ulong::BITS);
    Some(nodes)
}
