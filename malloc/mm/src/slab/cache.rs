//! A cache: its objects, and how they lie in a slab.

use super::params::{CacheOptions, CacheParams, Constructor, MIN_ALIGN};
use crate::frame::{FRAME_SHIFT, FrameTable, Kind, Order, Pfn};
use core::fmt::Write;
use core::mem::offset_of;
use quarry_sys::os::{OsError, OsResult};
use quarry_sys::percpu::{ArrayId, MAX_ARRAYS, Object};
use quarry_sys::primitive::{AtomicU32, AtomicU64, AtomicUsize, Ordering, task};
use quarry_sys::report::{Line, fatal};

/// Bound of the numbers of caches: they are `1..MAX_CACHES`. Each but the last has a per-CPU array.
pub const MAX_CACHES: usize = MAX_ARRAYS;
/// The number that all loose caches share (see `loose.rs`). No array has it.
pub const LOOSE: usize = MAX_CACHES - 1;
/// False in a build whose stacks have no loose caches: there the code for them is left out.
pub(super) const HAS_LOOSE: bool = cfg!(feature = "loose");
const _: () = assert!(MAX_CACHES <= Kind::LAST_CACHE as usize + 1);

/// The identity of a cache: `{place : 24 | number : 8}`. The number is also the kind of
/// the cache's frames and the number of its per-CPU array; loose caches differ in their place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheId(u32);

impl CacheId {
    /// Cache number `index`; panics unless `0 < index < MAX_CACHES`.
    #[inline(always)]
    #[must_use]
    pub const fn new(index: usize) -> Self {
        assert!(index > 0 && index < MAX_CACHES, "cache numbers are 1..MAX_CACHES");
        Self(index as u32)
    }

    /// Cache number `index`, unchecked: for tables that were checked when they were made.
    ///
    /// # Safety
    /// `0 < index < MAX_CACHES`.
    #[inline(always)]
    #[must_use]
    pub const unsafe fn new_unchecked(index: u8) -> Self {
        Self(index as u32)
    }

    /// The number.
    #[inline(always)]
    #[must_use]
    pub const fn index(self) -> usize {
        (self.0 & 0xff) as usize
    }

    /// The loose cache at `place` of the list.
    pub(crate) const fn loose(place: u32) -> Self {
        Self(place << 8 | LOOSE as u32)
    }

    /// The place of a loose cache in its list; `None` for any other cache.
    #[inline]
    pub(crate) const fn place(self) -> Option<u32> {
        if HAS_LOOSE && self.index() == LOOSE { Some(self.0 >> 8) } else { None }
    }

    /// The per-CPU array of the cache.
    #[inline(always)]
    #[must_use]
    pub const fn array(self) -> ArrayId {
        // SAFETY: cache numbers are array numbers, MAX_CACHES == MAX_ARRAYS.
        unsafe { ArrayId::new_unchecked(self.index()) }
    }

    /// The kind of the cache's frames.
    #[inline(always)]
    #[must_use]
    pub const fn kind(self) -> Kind {
        Kind(self.index() as u8)
    }
}

/// The 32 bits of an id, never 0.
impl From<CacheId> for u32 {
    fn from(id: CacheId) -> Self {
        id.0
    }
}

/// The id with these bits, if a cache can have it.
impl TryFrom<u32> for CacheId {
    type Error = ();

    fn try_from(bits: u32) -> Result<Self, ()> {
        let is_plain = (1..LOOSE as u32).contains(&bits);
        if is_plain || bits & 0xff == LOOSE as u32 { Ok(Self(bits)) } else { Err(()) }
    }
}

/// The cache that owns a frame, if one does. O(1).
#[must_use]
pub fn cache_of(frames: &FrameTable, pfn: Pfn) -> Option<CacheId> {
    let kind = frames.kind(pfn);
    match usize::from(kind.0) {
        LOOSE if HAS_LOOSE => Some(CacheId::loose(frames.link(loose_mark(pfn)))),
        index => kind.is_cache().then(|| CacheId::new(index)),
    }
}

/// The frame whose link is the place of the loose cache that owns `pfn`: frame 4 of each eight.
/// The first four frames of a slab have its descriptor.
pub(super) fn loose_mark(pfn: Pfn) -> Pfn {
    pfn.align_down(LOOSE_ORDER).plus(4)
}

/// The least order of the slabs of loose caches.
pub(super) const LOOSE_ORDER: Order = Order::new(3);

/// How a policy lays out a slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlabLayout {
    /// Order of the slab.
    pub order: Order,
    /// Bytes that the policy uses before the first object.
    pub header_bytes: usize,
}

/// The places of objects in a slab, for the check of `free` on its fast path.
///
/// An object starts at offset `o` of a slab iff `o >= first` and `stride` divides `o - first`. With
/// `magic = ceil(2^64 / stride)` the second condition is `(o - first) * magic mod 2^64 < magic`
/// (Lemire, Kaser, Kurz 2019), exact while `(o - first) * stride < 2^64`. The first condition needs
/// its own test: below `first` the product wraps to values on either side of `magic`. `magic == 0`
/// (no cache) refuses every offset.
#[derive(Default)]
pub struct Geometry {
    magic: AtomicU64,
    mask: AtomicU32,
    first: AtomicU32,
}

/// The offsets of the words of a [`Geometry`], for assembler.
#[derive(Clone, Copy)]
pub struct GeometryOffsets {
    /// The multiplier: 64 bits.
    pub magic: usize,
    /// The mask that leaves an offset within its slab: 32 bits.
    pub mask: usize,
    /// The first object's offset: 32 bits.
    pub first: usize,
}

impl Geometry {
    /// See [`GeometryOffsets`].
    pub const OFFSETS: GeometryOffsets = GeometryOffsets {
        magic: offset_of!(Self, magic),
        mask: offset_of!(Self, mask),
        first: offset_of!(Self, first),
    };

    /// The geometry of no cache: refuses every offset.
    #[must_use]
    pub const fn none() -> Self {
        Self { magic: AtomicU64::new(0), mask: AtomicU32::new(0), first: AtomicU32::new(0) }
    }

    /// Makes this the geometry of `cache`.
    pub fn set(&self, cache: &Cache) {
        self.mask.store(cache.order.bytes() as u32 - 1, Ordering::Relaxed);
        self.first.store(cache.first_object as u32, Ordering::Relaxed);
        self.magic.store(cache.magic, Ordering::Release);
    }

    /// Makes this the geometry of no cache again.
    pub fn clear(&self) {
        self.magic.store(0, Ordering::Relaxed);
    }

    /// Returns whether this is the geometry of a cache; if so, the slots are ready to be used.
    #[inline(always)]
    pub fn is_set(&self) -> bool {
        self.magic.load(Ordering::Acquire) != 0
    }

    /// Returns whether an object starts at `offset` from the start of the window.
    #[inline(always)]
    pub fn is_object(&self, offset: usize) -> bool {
        let magic = self.magic.load(Ordering::Relaxed);
        let in_slab = offset as u64 & u64::from(self.mask.load(Ordering::Relaxed));
        match in_slab.checked_sub(u64::from(self.first.load(Ordering::Relaxed))) {
            Some(within) => within.wrapping_mul(magic) < magic,
            None => false,
        }
    }

    /// The first frame of the slab that contains `offset`.
    #[inline(always)]
    pub fn slab(&self, offset: usize) -> Pfn {
        Pfn(((offset & !(self.mask.load(Ordering::Relaxed) as usize)) >> FRAME_SHIFT) as u32)
    }
}

/// The number of a new cache, and the history of that number.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// The number of the cache.
    pub id: CacheId,
    /// Number of caches that the table has ever had, this one included.
    pub generation: u32,
    /// True if another cache had this number.
    pub is_reused: bool,
}

/// A cache. After its creation only `aliases` and `constructing` change.
///
/// Some policies link free objects through themselves. In a cache with a constructor the link would
/// destroy what the constructor has written, so there each object begins with room for the link.
/// Callers never see it: they get the address `link_bytes` after the object's start. (The kernel
/// puts its free pointer after the object instead.)
pub struct Cache {
    identity: Identity,
    name: Line<24>,
    object_bytes: usize,
    pub(super) options: CacheOptions,
    link_bytes: usize,
    stride: usize,
    order: Order,
    header: usize,
    first_object: usize,
    objects: u32,
    magic: u64,
    pub(super) aliases: AtomicU32,
    /// The last task that began to construct a slab's objects; 0 once that task has finished.
    constructing: AtomicUsize,
}

impl Cache {
    /// A cache. Calls `layout` only with parameters that an object can have.
    ///
    /// # Errors
    /// `EINVAL` if no slab can hold an object with these parameters.
    pub fn new(
        identity: Identity,
        name: &str,
        (params, options): (&CacheParams, &CacheOptions),
        links: bool,
        layout: impl FnOnce(&CacheParams) -> SlabLayout,
    ) -> OsResult<Self> {
        let needs_link = links && options.constructor.is_some();
        let link_bytes = if needs_link { params.align.max(MIN_ALIGN) } else { 0 };
        let whole = CacheParams { size: params.size.saturating_add(link_bytes), ..*params };
        if !params.is_possible() || !whole.is_possible() {
            return Err(OsError(libc::EINVAL));
        }
        let SlabLayout { order, header_bytes: header } = layout(&whole);
        let stride = whole.stride();
        let objects = order.bytes().saturating_sub(header) / stride;
        if objects == 0 {
            return Err(OsError(libc::EINVAL));
        }
        let mut text = Line::default();
        let _ = text.write_str(name);
        Ok(Self {
            identity,
            name: text,
            object_bytes: stride - link_bytes,
            options: *options,
            link_bytes,
            stride,
            order,
            header,
            // Unused bytes lie first: `Geometry` would take unused bytes at the end for an object.
            first_object: order.bytes() - objects * stride,
            objects: objects as u32,
            magic: (u64::MAX / stride as u64) + 1,
            aliases: AtomicU32::new(0),
            constructing: AtomicUsize::new(0),
        })
    }

    /// The number of the cache.
    #[inline]
    #[must_use]
    pub fn id(&self) -> CacheId {
        self.identity.id
    }

    /// A number that no other cache of the stack has, or had before.
    #[must_use]
    pub fn generation(&self) -> u32 {
        self.identity.generation
    }

    /// Returns whether an earlier cache had this number; the policy then reuses that cache's state.
    #[must_use]
    pub fn is_reused(&self) -> bool {
        self.identity.is_reused
    }

    /// Objects that a CPU should keep, if the creator has set this (`sheaf_capacity`, Linux 6.18).
    #[must_use]
    pub fn capacity(&self) -> Option<u16> {
        self.options.capacity
    }

    /// Returns whether the cache has a constructor.
    #[must_use]
    pub fn has_constructor(&self) -> bool {
        self.options.constructor.is_some()
    }

    /// Bytes from an object's start to the address that callers get: see [`Cache`].
    #[inline]
    pub(crate) fn link_bytes(&self) -> usize {
        self.link_bytes
    }

    /// Runs the constructor, if the cache has one, for the objects of a new slab. A policy calls
    /// this with no lock held, before another thread can find an object of the slab. O(objects).
    ///
    /// # Safety
    /// `slab` is the address of a slab of this cache, which no other thread can find yet.
    pub unsafe fn construct(&self, slab: Object) {
        let Some(Constructor(constructor)) = self.options.constructor else { return };
        let me = task::current();
        if self.constructing.swap(me, Ordering::Relaxed) == me {
            fatal(format_args!(
                "the constructor of cache {} has asked for an object of it",
                self.name()
            ));
        }
        for number in 0..self.objects {
            // SAFETY: the object lies in the slab and has `link_bytes` before the address that the
            // constructor gets; the creator of the cache vouches for the constructor.
            unsafe {
                constructor(self.object_at(slab, number).add(self.link_bytes).as_ptr().cast());
            }
        }
        // If another task has begun since, the field holds that task.
        if self.constructing.load(Ordering::Relaxed) == me {
            self.constructing.store(0, Ordering::Relaxed);
        }
    }

    /// The name of the cache, cut to 24 bytes.
    #[must_use]
    pub fn name(&self) -> &str {
        core::str::from_utf8(self.name.as_bytes()).unwrap_or("?")
    }

    /// Number of caches that were created later and share this one.
    #[must_use]
    pub fn aliases(&self) -> u32 {
        self.aliases.load(Ordering::Relaxed)
    }

    /// The name in tables: the stride if the cache has aliases, as `:0000256` (the kernel's way).
    #[must_use]
    pub fn label(&self) -> Line<24> {
        let mut label = Line::default();
        let _ = match self.aliases() {
            0 => label.write_str(self.name()),
            _ => write!(label, ":{:07}", self.stride),
        };
        label
    }

    /// Usable bytes of each object, at least what creator and aliases asked for (the kernel's
    /// `object_size`).
    #[must_use]
    pub fn object_bytes(&self) -> usize {
        self.object_bytes
    }

    /// Bytes from one object to the next.
    #[must_use]
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Order of the cache's slabs.
    #[inline]
    #[must_use]
    pub fn order(&self) -> Order {
        self.order
    }

    /// Number of objects in a slab.
    #[inline]
    #[must_use]
    pub fn objects(&self) -> u32 {
        self.objects
    }

    /// Offset of a slab's first object.
    #[inline]
    #[must_use]
    pub fn first_object(&self) -> usize {
        self.first_object
    }

    /// Bytes that the policy uses at the start of each slab, before the first object.
    #[inline]
    #[must_use]
    pub fn header_bytes(&self) -> usize {
        self.header
    }

    /// The number of the object that starts `offset` bytes into its slab, if any.
    #[inline]
    #[must_use]
    pub fn object_number(&self, offset: usize) -> Option<u32> {
        let within = offset.checked_sub(self.first_object)? as u64;
        let product = u128::from(within) * u128::from(self.magic);
        let number = (product >> 64) as u32;
        ((product as u64) < self.magic && number < self.objects).then_some(number)
    }

    /// Object `number` of the slab at `slab`.
    ///
    /// # Safety
    /// `slab` is the address of a slab of this cache and `number < objects()`.
    #[inline]
    #[must_use]
    pub unsafe fn object_at(&self, slab: Object, number: u32) -> Object {
        // SAFETY: first_object + number * stride lies inside the slab (caller's promise).
        unsafe { slab.add(self.first_object + number as usize * self.stride) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::FRAME_BYTES;

    fn cache(size: usize, align: usize) -> OsResult<Cache> {
        let params = CacheParams { size, align };
        let identity = Identity { id: CacheId::new(1), generation: 1, is_reused: false };
        Cache::new(identity, "test", (&params, &CacheOptions::default()), false, |params| {
            let frames = params.stride().div_ceil(FRAME_BYTES).next_power_of_two() as u32;
            let order = Order::covering(frames).max(Order::new(2));
            let objects = order.bytes() / params.stride();
            let header_bytes = if objects <= 64 { 0 } else { objects.div_ceil(64) * 8 };
            SlabLayout { order, header_bytes }
        })
    }

    #[test]
    fn geometry_knows_exactly_the_objects() {
        let sizes = (1..400).chain([512, 1000, 1024, 1536, 4096, 5000, 20_480, 32_768, 100_000]);
        for size in sizes {
            let cache = cache(size, 16).expect("small enough for a slab");
            let geometry = Geometry::none();
            assert!(!geometry.is_object(cache.first_object()), "no cache, no object");
            geometry.set(&cache);
            let bytes = cache.order().bytes();
            let mut objects = 0;
            for offset in 0..bytes {
                let naive = offset >= cache.first_object()
                    && (offset - cache.first_object()).is_multiple_of(cache.stride());
                let number = naive.then_some(objects);
                assert_eq!(geometry.is_object(offset), naive, "{offset} of stride {}", size);
                assert_eq!(geometry.is_object(7 * bytes + offset), naive, "the eighth slab");
                assert_eq!(cache.object_number(offset), number, "{offset} of stride {}", size);
                objects += u32::from(naive);
            }
            assert_eq!(objects, cache.objects());
        }
    }

    #[test]
    fn impossible_objects_are_refused() {
        let largest = Order::MAX.bytes();
        for (size, align) in [
            (0, 16),
            (16, 0),
            (16, 24),
            (largest + 1, 16),
            (16, 2 * largest),
            (usize::MAX, 16),
            (1, 1 << 63),
        ] {
            let error = cache(size, align).err();
            assert_eq!(error, Some(OsError(libc::EINVAL)), "size {size}, align {align}");
        }
        assert_eq!(cache(largest, largest).map(|cache| cache.objects()), Ok(1));
    }
}
