//! Reports of the misuse that slabs find: each prints one line and aborts.
//!
//! If the program frees an object that lies in an array or a slab, it has freed the object before,
//! or never got it: Quarry keeps nothing that tells these two errors apart.

use super::cache::{Cache, cache_of};
use super::table::CacheTable;
use crate::frame::{FRAME_SHIFT, Kind, Pfn};
use crate::zone::Zones;
use quarry_sys::percpu::Object;
use quarry_sys::report::fatal;

/// Reports the free of an object that is not in use.
#[cold]
#[inline(never)]
pub fn not_in_use(cache: &Cache, object: Object) -> ! {
    fatal(format_args!(
        "free({object:p}): object of {} bytes is not in use: freed already, or never allocated",
        cache.stride()
    ))
}

/// Reports that the `bits` of a slab were overwritten: the program wrote past the end of the object
/// or block before the slab, or before the slab's first object.
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

/// Reports that the program wrote to a free object, whose link or bundle is broken.
#[cold]
#[inline(never)]
pub fn written_after_free(cache: &Cache, object: Object) -> ! {
    fatal(format_args!(
        "{object:p}: overwritten: the program wrote to an object of {} bytes that is free",
        cache.stride()
    ))
}

/// The object or block that ends where `slab` begins: a word for its kind, its address, its bytes.
fn in_front(
    zones: &Zones,
    caches: &CacheTable,
    slab: Pfn,
) -> Option<(&'static str, Object, usize)> {
    let (frames, arena) = (zones.frames(), zones.arena());
    let end = arena.address(slab);
    let last = Pfn(slab.0.checked_sub(1)?);
    if let Some(id) = cache_of(frames, last) {
        let bytes = caches.get(id)?.stride();
        let address = (end.as_ptr() as usize - bytes) as *mut u8;
        return Some(("an object", Object::new(address)?, bytes));
    }
    let head = (0..=last.0).rev().map(Pfn).find(|head| frames.kind(*head) != Kind::NONE)?;
    let is_block = [Kind::PAGES, Kind::BARE, Kind::MAPPING].contains(&frames.kind(head));
    let length = if is_block { frames.link(head) } else { 0 };
    let reaches = head.0.checked_add(length) == Some(slab.0);
    reaches.then(|| ("a block", arena.address(head), (length as usize) << FRAME_SHIFT))
}
