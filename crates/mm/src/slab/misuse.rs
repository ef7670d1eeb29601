//! Reports of misuse that slabs find: one line, then abort.
//!
//! An object on a CPU's list may have been freed, or may never have been handed out yet. So an
//! object that is given back where it lies already was freed twice or never allocated; no record
//! distinguishes the two.

use super::cache::{Cache, CacheId};
use super::table::CacheTable;
use crate::frame::{FRAME_SHIFT, Kind, Pfn};
use crate::zone::Zones;
use quarry_sys::percpu::Object;
use quarry_sys::report::fatal;

/// An object was given back that is not in use.
#[cold]
#[inline(never)]
pub fn not_in_use(cache: &Cache, object: Object) -> ! {
    fatal(format_args!(
        "free({object:p}): object of {} bytes is not in use: freed already, or never allocated",
        cache.stride()
    ))
}

/// The bits at `bits` of the slab at `slab` of `cache` were overwritten: the object that ends
/// before the slab, or the slab's first object, was written beyond its bounds.
#[cold]
#[inline(never)]
pub fn overwritten(
    cache: &Cache,
    zones: &Zones,
    caches: &CacheTable,
    slab: Pfn,
    bits: Object,
) -> ! {
    match in_front(zones, caches, slab) {
        Some((what, address, bytes)) => fatal(format_args!(
            "{bits:p}: overwritten, probably past the end of {what} of {bytes} bytes at {address:p}"
        )),
        None => fatal(format_args!(
            "{bits:p}: overwritten, probably in front of an object of {} bytes at {:#x}",
            cache.stride(),
            zones.arena().address(slab).as_ptr() as usize + cache.first_object()
        )),
    }
}

/// The link in a free object of `slub` or `slqb` leads nowhere.
#[cold]
#[inline(never)]
pub fn written_after_free(cache: &Cache, object: Object) -> ! {
    fatal(format_args!(
        "{object:p}: overwritten: the program wrote to an object of {} bytes that is free",
        cache.stride()
    ))
}

/// The object or block that ends where `slab` begins: a word for it, its address, its bytes.
/// O(frames), on the way to an abort.
fn in_front(
    zones: &Zones,
    caches: &CacheTable,
    slab: Pfn,
) -> Option<(&'static str, Object, usize)> {
    let (frames, arena) = (zones.frames(), zones.arena());
    let end = arena.address(slab);
    let last = Pfn(slab.0.checked_sub(1)?);
    let kind = frames.kind(last);
    if kind.is_cache() {
        let bytes = caches.get(CacheId::new(usize::from(kind.0)))?.stride();
        let address = (end.as_ptr() as usize - bytes) as *mut u8;
        return Some(("an object", Object::new(address)?, bytes));
    }
    let head = (0..=last.0).rev().map(Pfn).find(|head| frames.kind(*head) != Kind::NONE)?;
    let is_block = [Kind::PAGES, Kind::MAPPING].contains(&frames.kind(head));
    let length = if is_block { frames.link(head) } else { 0 };
    let reaches = head.0.checked_add(length) == Some(slab.0);
    reaches.then(|| ("a block", arena.address(head), (length as usize) << FRAME_SHIFT))
}
