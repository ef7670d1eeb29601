//! What the heap profile does to requests.
//!
//! While a profile is on, every request takes its slow entry, which counts its bytes. One that is
//! no sample is served by the array of its class, as on the fast path. A sample up to 1 MiB gets a
//! block of its own, of kind `SAMPLED`, whose link is the number of its record; a larger one is a
//! mapping as all others, and has that number in the fifth link word. So a free of a sample, and no
//! other, finds its record: in O(1), and long after the profile has ended.
//!
//! To the program a sample is as any other object of its size: `malloc_usable_size` says the same,
//! `realloc` leaves it where it is in the same cases. What `realloc` moves, or resizes in place, is
//! counted as freed and allocated anew, and may become a sample by that, or cease to be one.

use super::config::StackConfig;
use super::instance::Stack;
use super::instruments::Instrument;
use crate::frame::{FRAME_BYTES, FRAME_SHIFT, Kind, MigrateType, Order, Pfn};
use crate::heap::{LARGEST_BLOCK, classes, frames_of};
use crate::profile::{Area, Busy, HeapProfile, NO_RECORD, ProfileOptions, Sampled};
use crate::slab::SlabPolicy;
use quarry_sys::clear::clear;
use quarry_sys::os::{Os, OsResult};
use quarry_sys::percpu::{Object, PerCpu};

/// The link word of a mapping that holds the number of its record (`heap/mapping.rs` has those
/// before it).
const RECORD_OF_MAPPING: u32 = 4;

/// Bytes that the program may use of a request that is no mapping.
fn usable(size: usize, align: usize) -> usize {
    match classes::of_aligned(size, align) {
        Some(class) => classes::SIZES[class.index()] as usize,
        None => size.max(1).next_multiple_of(FRAME_BYTES),
    }
}

impl<C: StackConfig> Stack<C> {
    /// The heap profile of this stack.
    #[must_use]
    pub fn profile(&self) -> &HeapProfile {
        &self.profile
    }

    /// Makes the tables of the heap profile, with `area` for its counts: before the first
    /// [`start_profile`](Self::start_profile), and once. One task at a time.
    ///
    /// # Errors
    /// The system's refusal.
    pub fn prepare_profile(&self, os: &'static dyn Os, area: Area) -> OsResult<()> {
        let slots = self.fast.percpu.area().slots();
        let bytes = self.profile.prepare(os, slots as usize, area)?;
        self.inner().metadata.count(crate::frame::MetadataKind::Other, bytes);
        Ok(())
    }

    /// Starts a profile, which forgets the one before. One task at a time; the tables are made.
    ///
    /// # Errors
    /// Where another task is still adding to the one before.
    pub fn start_profile(&self, options: &ProfileOptions) -> Result<(), Busy> {
        self.profile.begin(options)?;
        self.switch_instrument(Instrument::Profile, true);
        Ok(())
    }

    /// Stops the profile; its counts stay where they are. One task at a time.
    pub fn stop_profile(&self) {
        self.switch_instrument(Instrument::Profile, false);
        self.profile.end();
    }

    /// A request while the profile, and no other instrument, is on: an object of the running CPU,
    /// where it has one and the request is no sample; `None` means
    /// [`alloc_refused`](Self::alloc_refused), which counts the request. O(1), no lock.
    #[inline]
    pub(super) fn alloc_counted(&self, size: usize, zeroed: bool) -> Option<Object> {
        if !self.instruments.is_only(Instrument::Profile)
            || size > classes::LARGEST
            || !self.has_classes()
        {
            return None;
        }
        let passing = self.profile.passing(self.fast.percpu.current().index(), size.max(1))?;
        let object = C::Slab::alloc_fast(&self.fast.percpu, classes::of(size))?;
        passing.pass();
        if zeroed {
            // SAFETY: the object has at least `size` bytes, and only we know it.
            unsafe { clear(object, size) };
        }
        Some(object)
    }

    /// Counts a request of `size` bytes, and returns whether it is a sample.
    pub(super) fn is_sample_due(&self, size: usize) -> bool {
        self.instruments.has(Instrument::Profile)
            && self.is_ready()
            && self.profile.is_due(self.fast.percpu.current().index(), size)
    }

    /// A block of its own for a sample up to 1 MiB, `align` at least the least alignment; `None`
    /// where there is none, or no record.
    #[inline(never)]
    pub(super) fn alloc_sampled(&self, size: usize, align: usize, zeroed: bool) -> Option<Object> {
        if size > LARGEST_BLOCK || align > LARGEST_BLOCK || !self.has_classes() {
            return None;
        }
        let usable = usable(size, align);
        let frames = frames_of(usable)?;
        let order = Order::covering((align >> FRAME_SHIFT).max(1) as u32);
        let page = self.with_reclaim(frames, || {
            let slot = self.fast.percpu.current();
            self.pages().alloc_exact(slot, frames, MigrateType::Movable, order)
        })?;
        let Some(record) = self.profile.sample(Sampled::of(size, page.pfn, frames, usable)) else {
            self.free_block(page.pfn, frames);
            return None;
        };
        self.frames().set_link(page.pfn, record);
        self.frames().set_kind(page.pfn, 1, Kind::SAMPLED);
        self.large.blocks.note_allocated();
        self.bound_footprint(frames);
        let object = self.address(page.pfn);
        if zeroed && !page.zeroed {
            // SAFETY: the block has at least `size` bytes, and only we know it.
            unsafe { clear(object, size) };
        }
        Some(object)
    }

    /// What is known of the sample whose block begins at `pfn`, a frame of kind `SAMPLED`; `None`
    /// where none does.
    pub(super) fn sampled(&self, pfn: Pfn) -> Option<Sampled> {
        self.profile.read(self.frames().link(pfn)).filter(|sampled| sampled.pfn == pfn)
    }

    /// Frees the sample at `pfn`, the head of one.
    pub(super) fn free_sampled(&self, pfn: Pfn) {
        let record = self.frames().link(pfn);
        let frames = self.sampled(pfn).map_or(0, |sampled| sampled.frames);
        self.profile.forget(record);
        self.frames().set_kind(pfn, 1, Kind::NONE);
        self.free_block(pfn, frames);
        self.large.blocks.note_freed();
    }

    /// The frames of the block of pages, or the sample, at `pfn`.
    pub(super) fn frames_of_block(&self, pfn: Pfn) -> u32 {
        match self.frames().kind(pfn) {
            Kind::SAMPLED => self.sampled(pfn).map_or(0, |sampled| sampled.frames),
            _ => self.frames().link(pfn),
        }
    }

    /// Makes `frames` the length of a block of pages, or a sample, that has got `size` bytes by
    /// `realloc`: it may be a sample from now on, or none.
    pub(super) fn resample_block(&self, pfn: Pfn, frames: u32, size: usize) {
        if self.frames().kind(pfn) == Kind::SAMPLED {
            self.profile.forget(self.frames().link(pfn));
            self.frames().set_kind(pfn, 1, Kind::PAGES);
        }
        self.frames().set_link(pfn, frames);
        if self.is_sample_due(size)
            && let Some(record) =
                self.profile.sample(Sampled::of(size, pfn, frames, frames as usize * FRAME_BYTES))
        {
            self.frames().set_link(pfn, record);
            self.frames().set_kind(pfn, 1, Kind::SAMPLED);
        }
    }

    /// Counts a new mapping of `size` bytes.
    #[inline(never)]
    pub(super) fn sample_mapping(&self, pfn: Pfn, size: usize, is_due: bool) {
        let sample = || self.profile.sample(Sampled::of(size, pfn, 0, 0));
        let record = if is_due { sample() } else { None };
        self.frames().set_link(pfn.plus(RECORD_OF_MAPPING), record.unwrap_or(NO_RECORD));
    }

    /// The record of a mapping, which has none if it is no sample.
    pub(super) fn record_of_mapping(&self, pfn: Pfn) -> u32 {
        self.frames().link(pfn.plus(RECORD_OF_MAPPING))
    }

    /// Counts a mapping that has got `size` bytes by `realloc`, and is at `moved` now.
    pub(super) fn resample_mapping(&self, record: u32, moved: Pfn, size: usize) {
        self.profile.forget(record);
        self.sample_mapping(moved, size, self.is_sample_due(size));
    }
}
