//! A stack as the host of its cache and its instruments.

use super::cached_pages::{CachedPages, StackHost};
use super::call::{Entry, Misuse, Request};
use super::instance::{Stack, StackConfig, Watch};
use super::instruments::Instrument;
use super::miss::{Claimant, Miss};
use super::owner::Owner;
use super::stash::Stash;
use crate::frame::Metadata;
use crate::pcp::PageAllocator;
use crate::slab::{
    CacheId, CacheOptions, CacheParams, MAX_BATCH, Reclaim, SlabPolicy, create_cache,
};
use core::fmt;
use quarry_sys::clear::clear;
use quarry_sys::clock::monotonic_ns;
use quarry_sys::os::OsResult;
use quarry_sys::own_stack;
use quarry_sys::percpu::{Object, PerCpu};
use quarry_sys::primitive::Ordering;
use quarry_sys::report::fatal;

impl<C: StackConfig> StackHost for Stack<C> {
    type Cache = C::Cache;
    type Pages = C::Pages;
    type PerCpu = C::PerCpu;

    #[inline]
    fn cached(&self) -> &C::Cache {
        &self.cache
    }

    fn cache_options(&self) -> &<C::Cache as CachedPages>::Options {
        &self.built().cache
    }

    #[inline]
    fn pages(&self) -> &PageAllocator<C::Pages> {
        &self.built().pages
    }

    fn metadata(&self) -> &Metadata {
        &self.built().metadata
    }

    #[inline]
    fn percpu(&self) -> &C::PerCpu {
        &self.fast.percpu
    }

    fn has_classes(&self) -> bool {
        self.has_classes.load(Ordering::Acquire)
    }

    fn create_cache(
        &self,
        name: &str,
        params: &CacheParams,
        options: &CacheOptions,
    ) -> OsResult<CacheId> {
        let cache = create_cache(&self.context(), &*self.slab, name, params, options)?;
        if cache.id().place().is_some() {
            return Ok(cache.id());
        }
        let number = cache.id().index();
        self.fast.strides[number].store(cache.stride() as u32, Ordering::Relaxed);
        // The test avoids a write, because a page that is not written takes no memory.
        if self.fast.links[number].load(Ordering::Relaxed) != cache.link_bytes() as u32 {
            self.fast.links[number].store(cache.link_bytes() as u32, Ordering::Relaxed);
        }
        self.fast.geometry[number].set(cache);
        if C::Slab::LOOKS_AT_FREES {
            self.fast.is_free_closed.store(self.slab.looks_at_frees(), Ordering::Relaxed);
        }
        Ok(cache.id())
    }

    fn alloc_object(&self, id: CacheId) -> Option<Object> {
        let object = self.fast.alloc_of(id);
        object.or_else(|| self.alloc_of_cache(id).map(|start| self.cache(id).shown(start)))
    }

    unsafe fn free_objects(&self, id: CacheId, objects: &[Object]) {
        let (of, cache) = (self.cache(id), self.known_cache(id));
        let (slab, context) = (&*self.slab, self.context());
        if self.fast.link(id) == 0 {
            // SAFETY: the caller's promise is passed on.
            return unsafe { slab.free_bulk(context.with(cache), objects) };
        }
        let mut starts = [Object::dangling(); MAX_BATCH];
        for piece in objects.chunks(MAX_BATCH) {
            for (start, object) in starts.iter_mut().zip(piece) {
                // SAFETY: it is an object of this cache (caller's promise).
                *start = unsafe { of.start(*object) };
            }
            // SAFETY: the caller's promise is passed on.
            unsafe { slab.free_bulk(context.with(cache), &starts[..piece.len()]) };
        }
    }

    fn slab_frames(&self, cache: CacheId) -> u32 {
        self.known_cache(cache).order().frames()
    }

    fn switch_instrument(&self, instrument: Instrument, on: bool) {
        self.instruments.switch(instrument, on);
        if self.is_ready() {
            self.open_fast_paths();
        }
    }

    fn unseen_bytes(&self, address: *mut u8) -> Option<usize> {
        let found = self.find(address).ok();
        let small = found.filter(|owner| matches!(owner, Owner::Object(_) | Owner::Pages(_)));
        small.map(|owner| self.bytes_of(owner))
    }

    fn alloc_unseen(&self, request: Request) -> Option<Object> {
        if request.is_plain() {
            return self.alloc_from_class(request.size);
        }
        let (object, dirty) = self.alloc_any(request)?;
        if request.zeroed {
            // SAFETY: the allocation has at least `size` bytes, and only we know it.
            unsafe { clear(object, request.size.min(dirty)) };
        }
        Some(object)
    }

    unsafe fn free_unseen(&self, object: Object) {
        match self.owner(Entry::Free, object.as_ptr()) {
            // SAFETY: an object of this cache starts there and is given up (caller's promise).
            Owner::Object(id) => unsafe { self.cache(id).free(object) },
            Owner::Pages(pfn) => self.free_whole_block(pfn, self.frames().link(pfn)),
            Owner::Sampled(pfn) => {
                let frames = self.frames_of_block(pfn);
                self.watch.forget(self, pfn);
                self.free_whole_block(pfn, frames);
            }
            Owner::Mapping(pfn) => {
                self.watch.forget(self, pfn);
                let built = self.built();
                self.mappings.free(built.pages.zones(), pfn);
                self.large.mappings.note_freed();
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn misuse(&self, entry: Entry, address: *mut u8, misuse: Misuse) -> ! {
        let end = |what: fmt::Arguments<'_>| fatal(format_args!("{entry}({address:p}): {what}"));
        let stride = |id| self.known_cache(id).stride();
        let name = |id| self.known_cache(id).name();
        match misuse {
            Misuse::NotInUse(id) => end(format_args!(
                "object of {} bytes is not in use: freed already, or never allocated",
                stride(id)
            )),
            Misuse::NothingInUse => {
                end(format_args!("no block in use starts there: freed already, or never allocated"))
            }
            Misuse::WrongSize { claimed, bytes } => {
                end(format_args!("{claimed} bytes is the wrong size for an allocation of {bytes}"))
            }
            Misuse::OtherCache { of, given } => {
                end(format_args!("object of cache {} was given to cache {}", name(of), name(given)))
            }
            Misuse::NoObject(id) => {
                end(format_args!("the block is no object of cache {}", name(id)))
            }
            Misuse::NoPages(order) => {
                end(format_args!("no block of {} pages in use starts there", order.frames()))
            }
            Misuse::InsideObject(id) => {
                end(format_args!("pointer into the middle of an object of {} bytes", stride(id)))
            }
            Misuse::InsideBlock => end(format_args!("pointer into the middle of a block")),
            Misuse::Unowned(pfn) => self.misuse(entry, address, self.unowned(pfn)),
            Misuse::Foreign => end(format_args!("pointer was not allocated by quarry")),
        }
    }

    fn reclaim_for(
        &self,
        claimant: Claimant,
        frames: u32,
        attempt: &mut dyn FnMut() -> bool,
    ) -> bool {
        let budget = self.pages().zones().budget();
        let Some(mut miss) = Miss::begin(budget, claimant, frames) else { return false };
        if C::Cache::reclaim_for(self, &mut miss, attempt) {
            return true;
        }
        self.is_reclaim_due(frames) && own_stack::run(|| self.reclaim_parked(attempt))
    }

    fn timed<T>(&self, work: impl FnOnce() -> T) -> T {
        let start = monotonic_ns();
        let done = work();
        self.deferral.took.note(monotonic_ns().saturating_sub(start));
        done
    }

    fn give(&self, stash: Stash, frames: u32) {
        let pages = self.pages();
        match stash {
            Stash::Mappings => {
                self.mappings.shrink_cache(pages.zones(), frames);
            }
            Stash::Barns => self.slab.relieve(&self.context()),
            Stash::Withheld => {
                self.free_withheld();
            }
            Stash::Cache => C::Cache::trim(self),
            Stash::Slabs => {
                self.slab.reclaim(&self.context(), Reclaim::All);
            }
            Stash::Lists => pages.drain_all(),
            Stash::Extents => pages.zones().flush_extents(),
        }
    }

    fn take_in_parts(&self, frames: u32, missing: &dyn Fn() -> u32) -> bool {
        let before = missing();
        for stash in Stash::IN_PARTS {
            if missing() > 0 && self.holds(stash) {
                self.give(stash, frames);
                if stash == Stash::Barns {
                    self.pages().drain_slot(self.fast.percpu.current());
                }
            }
        }
        missing() < before
    }

    fn shrink_all(&self) {
        let _active = self.pages().zones().reclaiming(|_| true);
        for stash in Stash::BY_PRICE.into_iter().skip(Stash::IN_PARTS.len()) {
            self.give(stash, u32::MAX);
        }
    }
}
