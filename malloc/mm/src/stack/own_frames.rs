//! The frames of own heaps: which allocation an address in them belongs to, and how they go back to
//! the page allocator.

use super::call::Misuse;
use super::instance::{Stack, StackConfig, Watch};
use crate::frame::{FRAME_BYTES, Kind, Order, Pfn};
use crate::own_heap::Contents;
use crate::slab::SlabPages;
use quarry_sys::percpu::PerCpu;

impl<C: StackConfig> Stack<C> {
    /// Gives frames back that no heap has any more.
    pub(super) fn own_free_frames(&self, (first, count): (Pfn, u32), contents: Contents) {
        match contents {
            Contents::Objects(_) => {
                let slot = self.fast.percpu.current();
                self.built().free(slot, first, Order::covering(count));
            }
            Contents::Block => self.free_block(first, count),
            Contents::Mapping => {
                self.frames().set_link(first, count);
                self.frames().set_kind(first, 1, Kind::MAPPING);
                self.mappings.free(self.pages().zones(), first);
            }
        }
    }

    /// Gives the frames of a descriptor back that is in no heap any more.
    pub(super) fn own_release(&self, at: u32) {
        let Some(slab) = self.own.slab(at) else { return };
        let (frames, contents) = ((slab.first(), slab.frames()), slab.contents());
        let owned = if matches!(contents, Contents::Objects(_)) { frames.1 } else { 1 };
        let sample = slab.sample();
        if sample != 0 {
            self.watch.end_own_sample(self, sample);
        }
        self.frames().set_kind(frames.0, owned, Kind::NONE);
        self.own.forget(at);
        self.own_free_frames(frames, contents);
        match contents {
            Contents::Objects(_) => {}
            Contents::Block => self.large.blocks.note_freed(),
            Contents::Mapping => self.large.mappings.note_freed(),
        }
    }

    pub(super) fn own_release_chain(&self, first: u32) {
        let mut at = first;
        while at != 0 {
            let next = self.own.next_detached(at);
            self.own_release(at);
            at = next;
        }
    }

    /// Gives gone slabs back until at most so many frames are gone.
    pub(super) fn own_release_gone(&self, most: u32) {
        while let Some(at) = self.own.take_gone(most) {
            self.own_release(at);
        }
    }

    /// The descriptor that a frame of the kind `OWN` names, and the address's offset in the frame.
    #[inline]
    pub(super) fn own_place(&self, pfn: Pfn, address: *mut u8) -> (u32, Pfn, usize) {
        (self.frames().link(pfn), pfn, address as usize & (FRAME_BYTES - 1))
    }

    /// The owner of an address in a frame of the kind `OWN`: the frame, or why no allocation in use
    /// starts there.
    pub(super) fn own_find(&self, pfn: Pfn, address: *mut u8) -> Result<Pfn, Misuse> {
        let (at, pfn, offset) = self.own_place(pfn, address);
        let Some(slab) = self.own.slab(at) else { return Err(Misuse::NothingInUse) };
        let number = slab.heap();
        match self.own.heap(number) {
            None => Err(Misuse::NothingInUse),
            Some(heap) if !heap.is_live() => Err(Misuse::HeapGone(number)),
            Some(_) => match self.own.look(at, (pfn, offset), address as usize) {
                Some(true) => Ok(pfn),
                Some(false) => Err(Misuse::NotInUseInHeap(number, slab.object_bytes())),
                None => Err(Misuse::InsideObjectOfHeap(number, slab.object_bytes())),
            },
        }
    }

    /// Frames of the slab, block or mapping that begins with a frame of the kind `OWN`, and whether
    /// it is a mapping; 0 for another frame of a slab.
    pub(super) fn own_frames(&self, pfn: Pfn) -> (u32, bool) {
        let slab = self.own.slab(self.frames().link(pfn)).filter(|slab| slab.first() == pfn);
        slab.map_or((0, false), |slab| (slab.frames(), slab.contents() == Contents::Mapping))
    }

    pub(super) fn own_bytes(&self, pfn: Pfn) -> usize {
        self.own.slab(self.frames().link(pfn)).map_or(0, |slab| slab.object_bytes())
    }
}
