//! The changes that the heap profile makes to requests.
//!
//! While a profile is on, every request takes its slow path, which counts its bytes. A request that
//! is not a sample then gets an object of its class's array, as on the fast path. A sample up to 1
//! MiB gets its own block, of kind `SAMPLED`, whose link word holds the number of its record. A
//! larger sample is a mapping like all others, with that number next to its length. So the free of
//! a sample finds the record in O(1), even after the profile has ended.
//!
//! A sample in an own heap is a block or mapping of that heap, whose descriptor has the number.
//!
//! To the program a sample of `malloc` is like any other object of its size: `malloc_usable_size`
//! returns the same, and `realloc` leaves it in place in the same cases. An object that `realloc`
//! moves or resizes counts as freed and allocated again, and so may become a sample or cease to be
//! one.

use super::profile::{HeapProfile, NO_RECORD, Sampled};
use quarry_mm::frame::{FRAME_BYTES, FRAME_SHIFT, Kind, MigrateType, Order, Pfn};
use quarry_mm::heap::{LARGEST_BLOCK, classes, frames_of};
use quarry_mm::slab::SlabPolicy;
use quarry_mm::stack::{
    Claimant, Instrument, MIN_ALIGN, Request, SampledBlock, Stack, StackConfig, StackHost, Watch,
};
use quarry_sys::clear::clear;
use quarry_sys::percpu::{Object, PerCpu};

/// Bytes that the program may use of an allocation that it requested, unless that is a mapping.
fn usable(size: usize, align: usize) -> usize {
    match classes::of_aligned(size, align) {
        Some(class) => classes::SIZES[class.index()] as usize,
        None => size.max(1).next_multiple_of(FRAME_BYTES),
    }
}

impl<C: StackConfig> Watch<C> for HeapProfile {
    const NEW: Self = Self::new();

    fn alloc(
        &self,
        stack: &Stack<C>,
        request: Request,
        next: impl FnOnce() -> Option<Object>,
    ) -> Option<Object> {
        let points = self.points_of(stack, request.size);
        if points == 0 {
            let object = next()?;
            if self.has_pins() {
                self.unpin(object);
            }
            return Some(object);
        }
        if self.has_pins() && classes::of_aligned(request.size, request.align).is_some() {
            let object = next()?;
            self.unpin(object);
            self.pin(object, request.size);
            return Some(object);
        }
        let sampled = self.alloc_sampled(stack, request, points);
        if sampled.is_some() {
            return sampled;
        }
        let object = next()?;
        if let Some(pfn) = stack.pages().arena().pfn(object.as_ptr())
            && stack.pages().frames().kind(pfn) == Kind::MAPPING
        {
            self.sample_mapping(stack, pfn, request.size, points);
        }
        Some(object)
    }

    /// Returns an object of the running CPU's array, if the profile is the only instrument that is
    /// on, the array has an object, and the request is not a sample.
    #[inline]
    fn alloc_outside(&self, stack: &Stack<C>, size: usize, zeroed: bool) -> Option<Object> {
        if self.has_pins()
            || !stack.instruments.is_only(Instrument::Profile)
            || size > classes::LARGEST
            || !stack.has_classes()
        {
            return None;
        }
        let passing = self.passing(stack.percpu().current().index(), size.max(1))?;
        let object = C::Slab::alloc_fast(stack.percpu(), classes::of(size))?;
        passing.pass();
        if zeroed {
            // SAFETY: the object has at least `size` bytes, and no other code knows it yet.
            unsafe { clear(object, size) };
        }
        Some(object)
    }

    #[inline]
    fn sampled(&self, stack: &Stack<C>, pfn: Pfn) -> Option<SampledBlock> {
        let sampled =
            self.read(stack.pages().frames().link(pfn)).filter(|sampled| sampled.pfn == pfn)?;
        Some(SampledBlock { frames: sampled.frames, usable: sampled.usable })
    }

    fn forget(&self, stack: &Stack<C>, pfn: Pfn) {
        let frames = stack.pages().frames();
        match frames.kind(pfn) {
            Kind::SAMPLED => {
                self.end_sample(stack, frames.link(pfn));
                frames.set_kind(pfn, 1, Kind::PAGES);
            }
            Kind::MAPPING => {
                self.end_sample(stack, stack.mappings.sample(stack.pages().zones(), pfn));
                stack.mappings.set_sample(stack.pages().zones(), pfn, NO_RECORD);
            }
            _ => {}
        }
    }

    #[inline]
    fn own_points(&self, stack: &Stack<C>, size: usize) -> u64 {
        self.points_of(stack, size)
    }

    fn begin_own_sample(
        &self,
        stack: &Stack<C>,
        (pfn, frames): (Pfn, u32),
        size: usize,
        points: u64,
    ) -> u32 {
        let usable = frames as usize * FRAME_BYTES;
        self.sample(stack, Sampled::of(size, pfn, frames, usable), points).unwrap_or(NO_RECORD)
    }

    fn end_own_sample(&self, stack: &Stack<C>, record: u32) {
        self.end_sample(stack, record);
    }

    fn count(&self, stack: &Stack<C>, pfn: Pfn, frames: u32, size: usize) {
        let points = self.points_of(stack, size);
        if points == 0 {
            return;
        }
        if stack.pages().frames().kind(pfn) == Kind::MAPPING {
            self.sample_mapping(stack, pfn, size, points);
        } else {
            let usable = frames as usize * FRAME_BYTES;
            self.sample_block(stack, Sampled::of(size, pfn, frames, usable), points);
        }
    }
}

impl HeapProfile {
    /// Counts a request; returns how many points it has, if it shall become a sample, else 0.
    fn points_of<C: StackConfig>(&self, stack: &Stack<C>, size: usize) -> u64 {
        if !stack.instruments.has(Instrument::Profile) || !stack.has_classes() {
            return 0;
        }
        self.count_points(stack.percpu().current().index(), size)
    }

    /// Allocates a block for a sample; `None` above 1 MiB, or if there is no memory or no record.
    #[inline(never)]
    fn alloc_sampled<C: StackConfig>(
        &self,
        stack: &Stack<C>,
        request: Request,
        points: u64,
    ) -> Option<Object> {
        let (size, align) = (request.size, request.align.max(MIN_ALIGN));
        if size > LARGEST_BLOCK || align > LARGEST_BLOCK || !stack.has_classes() {
            return None;
        }
        let usable = usable(size, align);
        let frames = frames_of(usable)?;
        let order = Order::covering((align >> FRAME_SHIFT).max(1) as u32);
        let (pages, slot) = (stack.pages(), stack.percpu().current());
        let take = || pages.alloc_exact(slot, frames, MigrateType::Movable, order);
        let mut page = take();
        if page.is_none() {
            stack.reclaim_for(Claimant::Heap, frames, &mut || {
                page = take();
                page.is_some()
            });
        }
        let page = page?;
        if !self.sample_block(stack, Sampled::of(size, page.pfn, frames, usable), points) {
            pages.free_exact(slot, page.pfn, frames);
            return None;
        }
        stack.large.blocks.note_allocated();
        let object = pages.arena().address(page.pfn);
        if request.zeroed && !page.zeroed {
            // SAFETY: the block has at least `size` bytes, and no other code knows it yet.
            unsafe { clear(object, size) };
        }
        Some(object)
    }

    /// Makes a block a sample; returns false without room for its record.
    fn sample_block<C: StackConfig>(&self, stack: &Stack<C>, block: Sampled, points: u64) -> bool {
        let Some(record) = self.sample(stack, block, points) else { return false };
        stack.pages().frames().set_link(block.pfn, record);
        stack.pages().frames().set_kind(block.pfn, 1, Kind::SAMPLED);
        true
    }

    #[inline(never)]
    fn sample_mapping<C: StackConfig>(&self, stack: &Stack<C>, pfn: Pfn, size: usize, points: u64) {
        if let Some(record) = self.sample(stack, Sampled::of(size, pfn, 0, 0), points) {
            stack.mappings.set_sample(stack.pages().zones(), pfn, record);
        }
    }
}
