//! Reports misuse of a pointer: prints one line and aborts.

use super::call::Entry;
use super::instance::{Stack, StackConfig};
use crate::frame::{Kind, Order, Pfn};
use crate::slab::CacheId;
use quarry_sys::report::fatal;

/// The fault of the pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misuse {
    /// The object was freed already, or never allocated.
    NotInUse(CacheId),
    /// No allocation in use starts there: it was freed already, or never allocated.
    NothingInUse,
    /// No request of the claimed size gets such an allocation.
    WrongSize {
        /// Bytes that the program claims.
        claimed: usize,
        /// Bytes that the allocation has.
        bytes: usize,
    },
    /// The program passed an object of one cache to another cache.
    OtherCache {
        /// The object's cache.
        of: CacheId,
        /// The cache to which it was passed.
        given: CacheId,
    },
    /// The program passed a block to a cache.
    NoObject(CacheId),
    /// No block of this order starts there.
    NoPages(Order),
    /// The pointer lies inside an object.
    InsideObject(CacheId),
    /// The pointer lies inside a block of pages or a mapping.
    InsideBlock,
    /// The pointer never came from this stack.
    Foreign,
}

impl<C: StackConfig> Stack<C> {
    /// Reports and aborts.
    #[cold]
    #[inline(never)]
    pub fn misuse(&self, entry: Entry, address: *mut u8, misuse: Misuse) -> ! {
        let stride = |id| self.known_cache(id).stride();
        match misuse {
            Misuse::NotInUse(id) => fatal(format_args!(
                "{entry}({address:p}): object of {} bytes is not in use: freed already, or never \
                 allocated",
                stride(id)
            )),
            Misuse::NothingInUse => fatal(format_args!(
                "{entry}({address:p}): no block in use starts there: freed already, or never \
                 allocated"
            )),
            Misuse::WrongSize { claimed, bytes } => fatal(format_args!(
                "{entry}({address:p}): {claimed} bytes is the wrong size for an allocation of \
                 {bytes}"
            )),
            Misuse::OtherCache { of, given } => fatal(format_args!(
                "{entry}({address:p}): object of cache {} was given to cache {}",
                self.known_cache(of).name(),
                self.known_cache(given).name()
            )),
            Misuse::NoObject(id) => fatal(format_args!(
                "{entry}({address:p}): the block is no object of cache {}",
                self.known_cache(id).name()
            )),
            Misuse::NoPages(order) => fatal(format_args!(
                "{entry}({address:p}): no block of {} pages in use starts there",
                order.frames()
            )),
            Misuse::InsideObject(id) => fatal(format_args!(
                "{entry}({address:p}): pointer into the middle of an object of {} bytes",
                stride(id)
            )),
            Misuse::InsideBlock => {
                fatal(format_args!("{entry}({address:p}): pointer into the middle of a block"))
            }
            Misuse::Foreign => {
                fatal(format_args!("{entry}({address:p}): pointer was not allocated by quarry"))
            }
        }
    }

    /// The misuse of a frame in which no allocation starts: not ours, inside a block, or free.
    pub fn unowned(&self, pfn: Pfn) -> Misuse {
        let frames = self.frames();
        if self.arena().is_excluded(pfn.pageblock()) {
            return Misuse::Foreign;
        }
        let head = (0..=pfn.0).rev().map(Pfn).find(|head| frames.kind(*head) != Kind::NONE);
        let is_inside = head.is_some_and(|head| {
            let length = match frames.kind(head) {
                Kind::PAGES | Kind::MAPPING | Kind::SAMPLED => self.frames_of_block(head),
                _ => 0,
            };
            head.0.saturating_add(length) > pfn.0
        });
        if is_inside { Misuse::InsideBlock } else { Misuse::NothingInUse }
    }
}
