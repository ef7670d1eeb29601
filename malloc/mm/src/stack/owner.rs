//! The owner of an address: the object, block or mapping that starts there, or why none does.

use super::call::{Entry, Misuse};
use super::instance::{Stack, StackConfig, Watch};
use crate::frame::{FRAME_BYTES, FRAME_SHIFT, Kind, Pfn};
use crate::slab::{CacheId, cache_of};
use core::fmt;
use quarry_sys::primitive::Ordering;
use quarry_sys::report::fatal;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Object(CacheId),
    Pages(Pfn),
    Mapping(Pfn),
    Sampled(Pfn),
    /// The frame of an object, a block or a mapping of an own heap.
    #[cfg(feature = "heaps")]
    Own(Pfn),
}

impl<C: StackConfig> Stack<C> {
    /// The allocation that starts at `address`; aborts if none does.
    pub(super) fn owner(&self, entry: Entry, address: *mut u8) -> Owner {
        self.accept(entry, address, self.find(address))
    }

    /// The allocation that was found at an address; aborts if the program owns nothing there.
    pub(super) fn accept(&self, entry: Entry, at: *mut u8, found: Result<Owner, Misuse>) -> Owner {
        found.unwrap_or_else(|misuse| self.misuse(entry, at, misuse))
    }

    /// The allocation that starts at `address`, also while the fast paths are closed, or the reason
    /// why none does. Any address is allowed. O(1).
    #[inline(never)]
    pub(super) fn find(&self, address: *mut u8) -> Result<Owner, Misuse> {
        let pfn = self.is_ready().then(|| self.pfn(address)).flatten().ok_or(Misuse::Foreign)?;
        self.find_in(pfn, self.frames().kind(pfn), address)
    }

    /// [`find`](Self::find) in a frame of this kind, to which the address belongs.
    pub(super) fn find_in(&self, pfn: Pfn, kind: Kind, address: *mut u8) -> Result<Owner, Misuse> {
        if let Some(id) = cache_of(self.frames(), pfn) {
            // If an object has a link, its user only ever gets the address after the link. (An
            // address in the first `link` bytes of a slab becomes one of the slab before, so near
            // its end that no object starts there.)
            let start = address.wrapping_sub(self.fast.link(id));
            let offset = (start as usize).wrapping_sub(self.fast.base.load(Ordering::Relaxed));
            let is_object = match id.place() {
                None => self.fast.geometry[id.index()].is_object(offset),
                Some(_) => self.caches.get(id).is_some_and(|cache| {
                    cache.object_number(offset & (cache.order().bytes() - 1)).is_some()
                }),
            };
            return if is_object { Ok(Owner::Object(id)) } else { Err(Misuse::InsideObject(id)) };
        }
        let is_start = address as usize & (FRAME_BYTES - 1) == 0;
        match kind {
            Kind::PAGES | Kind::BARE if is_start => Ok(Owner::Pages(pfn)),
            Kind::MAPPING if is_start => Ok(Owner::Mapping(pfn)),
            Kind::SAMPLED if is_start && self.watch.sampled(self, pfn).is_some() => {
                Ok(Owner::Sampled(pfn))
            }
            #[cfg(feature = "heaps")]
            Kind::OWN => self.own_find(pfn, address).map(Owner::Own),
            Kind::PAGES | Kind::BARE | Kind::MAPPING | Kind::SAMPLED => Err(Misuse::InsideBlock),
            _ => Err(Misuse::Unowned(pfn)),
        }
    }

    /// The misuse of an [`Unowned`](Misuse::Unowned) frame.
    pub(super) fn unowned(&self, pfn: Pfn) -> Misuse {
        let frames = self.frames();
        if self.arena().is_excluded(pfn.pageblock()) {
            return Misuse::Foreign;
        }
        let head = (0..=pfn.0).rev().map(Pfn).find(|head| frames.kind(*head) != Kind::NONE);
        let is_inside = head.is_some_and(|head| {
            let length = match frames.kind(head) {
                Kind::PAGES | Kind::BARE | Kind::MAPPING | Kind::SAMPLED => {
                    self.frames_of_block(head)
                }
                #[cfg(feature = "heaps")]
                Kind::OWN => self.own_frames(head).0,
                _ => 0,
            };
            head.0.saturating_add(length) > pfn.0
        });
        if is_inside { Misuse::InsideBlock } else { Misuse::NothingInUse }
    }

    /// Number of frames of the block of pages, or of the sampled allocation, at `pfn`.
    #[inline(never)]
    pub(super) fn frames_of_block(&self, pfn: Pfn) -> u32 {
        match self.frames().kind(pfn) {
            Kind::SAMPLED => self.watch.sampled(self, pfn).map_or(0, |sampled| sampled.frames),
            _ => self.frames().link(pfn),
        }
    }

    #[inline(never)]
    pub(super) fn bytes_of(&self, owner: Owner) -> usize {
        match owner {
            Owner::Object(id) => self.known_cache(id).object_bytes(),
            Owner::Pages(pfn) | Owner::Mapping(pfn) => {
                (self.frames().link(pfn) as usize) << FRAME_SHIFT
            }
            Owner::Sampled(pfn) => {
                self.watch.sampled(self, pfn).map_or(0, |sampled| sampled.usable)
            }
            #[cfg(feature = "heaps")]
            Owner::Own(pfn) => self.own_bytes(pfn),
        }
    }

    pub(super) fn unseen_bytes(&self, address: *mut u8) -> Option<usize> {
        let found = self.find(address).ok();
        let small = found.filter(|owner| matches!(owner, Owner::Object(_) | Owner::Pages(_)));
        small.map(|owner| self.bytes_of(owner))
    }

    #[cold]
    #[inline(never)]
    pub(super) fn misuse(&self, entry: Entry, address: *mut u8, misuse: Misuse) -> ! {
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
            #[cfg(feature = "heaps")]
            Misuse::HeapGone(of) => end(format_args!(
                "memory of heap {}, which was destroyed",
                self.own.name(of).as_str()
            )),
            #[cfg(feature = "heaps")]
            Misuse::NotInUseInHeap(of, bytes) => end(format_args!(
                "object of {bytes} bytes of heap {} is not in use: freed already, or never \
                 allocated",
                self.own.name(of).as_str()
            )),
            #[cfg(feature = "heaps")]
            Misuse::InsideObjectOfHeap(of, bytes) => end(format_args!(
                "pointer into the middle of an object of {bytes} bytes of heap {}",
                self.own.name(of).as_str()
            )),
        }
    }
}
