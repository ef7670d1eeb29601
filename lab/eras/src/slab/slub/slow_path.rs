//! The slow paths of a version, by the word of its slabs.

use super::cache::SlubCache;
use super::era::Era;
use super::node::Node;
use super::state::{Linked, SlabWord};
use crate::slab::freelist::Freelist;
use crate::slab::records::SlabChain;
use quarry_mm::frame::Pfn;
use quarry_sys::percpu::{Lists, Object, SlotIndex};

/// Operations on slabs that need more than the CPU's cell. `misses` counts compare-and-swaps that
/// failed, or lock bits that another thread held.
pub trait SlowPath<P: Lists, E: Era<Word = Self>>: SlabWord {
    /// Takes the objects that were freed into a slab that a guard named, if the slab is still
    /// frozen and the cache's (`ALLOC_REFILL`).
    fn refill(of: &SlubCache<'_, P, E>, slab: Pfn, misses: &mut u64) -> Option<Linked>;

    /// Takes all free objects of the caller's frozen slab. If it has none, unfreezes it: the slab
    /// is then full, on no list, and without an owner.
    fn deactivate(of: &SlubCache<'_, P, E>, slab: Pfn, misses: &mut u64) -> Option<Linked>;

    /// Lets go of a frozen slab of the caller that did not become a CPU's slab.
    fn let_go(of: &SlubCache<'_, P, E>, slab: Pfn, misses: &mut u64);

    /// Takes the first available slab of a node's list and freezes it. Returns the slab and its
    /// free objects; `None` if the list has at most `keep` slabs.
    fn take_partial(
        of: &SlubCache<'_, P, E>,
        slot: SlotIndex,
        node: &Node,
        keep: u32,
        misses: &mut u64,
    ) -> Option<(Pfn, Freelist)>;

    /// Gives the objects of a chain, of which the tail is the last, back to their slab.
    ///
    /// # Safety
    /// These are allocated objects of this cache in the slab `slab`, and their user has given them
    /// up.
    unsafe fn free_chain(
        of: &SlubCache<'_, P, E>,
        slab: Pfn,
        chain_and_tail: (Linked, Object),
        misses: &mut u64,
    );

    /// Gives frozen slabs of the caller to their nodes. Slabs with free objects go onto the node's
    /// list, full ones onto no list, and empty ones to the page allocator unless the node keeps
    /// them.
    fn unfreeze_chain(of: &SlubCache<'_, P, E>, chain: SlabChain, misses: &mut u64);
}
