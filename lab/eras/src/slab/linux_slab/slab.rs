//! One slab: which of its objects are in use, and which free one is next.
//!
//! Free objects are taken last in, first out, by their numbers; nothing is written into the
//! objects. A slab of objects below 512 bytes has a number for each object in front of the first
//! object, as in the kernel (`kmem_bufctl_t`): the next free object, `END`, or `IN_USE`. A program
//! can overwrite these numbers, so each is *sealed*: half of its 32 bits are a hash of slab, object
//! and number. A slab of larger objects has at most 15 objects, whose numbers of 4 bits fit into
//! the slab's word.
//!
//! | word of a slab | bits |
//! |---|---|
//! | of small objects | `{- : 32 \| first free : 16 \| in use : 16}` |
//! | of large objects | `{numbers of free objects : 60 \| in use : 4}` |
//!
//! Equation: `in use + length of the free list = objects`.

use super::estimate::{INDEX_BYTES, is_off_slab};
use crate::slab::one_cache::no_start;
use crate::slab::records::{self, SlabLinks};
use quarry_mm::frame::Pfn;
use quarry_mm::slab::{Cache, CacheTable, SlabContext, not_in_use, overwritten};
use quarry_mm::zone::Zones;
use quarry_sys::broken::{Broken, Check};
use quarry_sys::percpu::{Object, PerCpu};
use quarry_sys::primitive::{AtomicU32, AtomicU64, Ordering};

/// The words of slabs, outside the slabs, where a program cannot overwrite them.
pub(super) type Records = records::Records<AtomicU64>;

/// Stored for the last free object, which no other free object follows (`BUFCTL_END`).
const END: u16 = u16::MAX;
const IN_USE: u16 = u16::MAX - 1;
const NUMBER_BITS: u32 = 4;
const NUMBER_MASK: u64 = (1 << NUMBER_BITS) - 1;

#[derive(Clone, Copy)]
pub(super) struct Slabs<'a> {
    zones: &'a Zones,
    caches: &'a CacheTable,
    cache: &'a Cache,
    records: &'a Records,
}

impl<'a> Slabs<'a> {
    pub(super) fn new<P: PerCpu>(
        context: &SlabContext<'a, P>,
        cache: &'a Cache,
        records: &'a Records,
    ) -> Self {
        Self { zones: context.zones, caches: context.caches, cache, records }
    }

    pub(super) fn cache(&self) -> &'a Cache {
        self.cache
    }

    pub(super) fn links(&self) -> SlabLinks<'a> {
        self.records.links(self.zones.frames())
    }

    pub(super) fn at(&self, pfn: Pfn) -> Slab<'a> {
        Slab { slabs: *self, pfn, address: self.zones.arena().address(pfn) }
    }

    /// The slab that an object lies in. Aborts if that slab is gone: the object was parked twice.
    pub(super) fn of(&self, object: Object) -> Slab<'a> {
        let base = self.zones.arena().base().as_ptr() as usize;
        let frame = (object.as_ptr() as usize - base) >> quarry_mm::frame::FRAME_SHIFT;
        let slab = Pfn(frame as u32).align_down(self.cache.order());
        if self.zones.frames().kind(slab) != self.cache.id().kind() {
            not_in_use(self.cache, object);
        }
        self.at(slab)
    }
}

/// One slab. Its words change under its node's list lock, or before other tasks can reach it.
pub(super) struct Slab<'a> {
    slabs: Slabs<'a>,
    pub(super) pfn: Pfn,
    address: Object,
}

fn sealed(slab: Pfn, object: u32, number: u16) -> u32 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let all = u64::from(slab.0) << 32 | u64::from(object) << 16 | u64::from(number);
    let seal = ((all ^ ODD).wrapping_mul(ODD) >> 48) as u32;
    seal << 16 | u32::from(number)
}

impl Slab<'_> {
    fn word(&self) -> &AtomicU64 {
        self.slabs.records.word(self.pfn)
    }

    fn is_off_slab(&self) -> bool {
        is_off_slab(self.slabs.cache.stride())
    }

    fn objects(&self) -> u32 {
        self.slabs.cache.objects()
    }

    /// Objects in use or parked.
    pub(super) fn inuse(&self) -> u32 {
        let word = self.word().load(Ordering::Relaxed);
        (word & if self.is_off_slab() { NUMBER_MASK } else { 0xffff }) as u32
    }

    /// The sealed number of object `object`, in front of the objects.
    fn index(&self, object: u32) -> &AtomicU32 {
        debug_assert!(!self.is_off_slab() && object < self.objects());
        let behind = (self.objects() - object) as usize * INDEX_BYTES;
        // SAFETY: the slab has room for this many numbers before its first object
        // (`estimate::layout`), and numbers and objects lie at multiples of 4.
        unsafe {
            let index = self.address.add(self.slabs.cache.first_object() - behind);
            index.cast::<AtomicU32>().as_ref()
        }
    }

    fn set_index(&self, object: u32, number: u16) {
        self.index(object).store(sealed(self.pfn, object, number), Ordering::Relaxed);
    }

    /// The number stored for an object; None if the program has overwritten that number.
    fn sealed_index(&self, object: u32) -> Option<u16> {
        let index = self.index(object).load(Ordering::Relaxed);
        let number = index as u16;
        (index == sealed(self.pfn, object, number)).then_some(number)
    }

    /// [`sealed_index`](Self::sealed_index); aborts if the program has overwritten the number.
    fn demand_index(&self, object: u32) -> u16 {
        let Some(number) = self.sealed_index(object) else {
            let Slabs { zones, caches, cache, .. } = self.slabs;
            let index = core::ptr::NonNull::from(self.index(object)).cast();
            overwritten(cache, zones, caches, self.pfn, index);
        };
        number
    }

    /// Makes every object free; the first object will be taken first.
    pub(super) fn start(&self) {
        let objects = self.objects();
        if self.is_off_slab() {
            let numbers =
                (0..objects).rev().fold(0, |all, number| all << NUMBER_BITS | u64::from(number));
            self.word().store(numbers << NUMBER_BITS, Ordering::Relaxed);
            return;
        }
        for object in 0..objects {
            let next = if object + 1 < objects { (object + 1) as u16 } else { END };
            self.set_index(object, next);
        }
        self.word().store(0, Ordering::Relaxed);
    }

    /// Takes the object that was freed last. The slab must have a free object.
    pub(super) fn take(&self) -> Object {
        debug_assert!(self.inuse() < self.objects());
        let word = self.word().load(Ordering::Relaxed);
        let (number, word) = if self.is_off_slab() {
            let numbers = word >> NUMBER_BITS;
            let inuse = (word & NUMBER_MASK) + 1;
            (numbers & NUMBER_MASK, numbers >> NUMBER_BITS << NUMBER_BITS | inuse)
        } else {
            let first = word >> 16;
            let next = self.demand_index(first as u32);
            self.set_index(first as u32, IN_USE);
            (first, u64::from(next) << 16 | ((word & 0xffff) + 1))
        };
        self.word().store(word, Ordering::Relaxed);
        // SAFETY: the slab is one of this cache, and free lists hold numbers of its objects.
        unsafe { self.slabs.cache.object_at(self.address, number as u32) }
    }

    /// Takes an object back. Aborts if the object is free already.
    pub(super) fn put(&self, object: Object) {
        let number = self.number(object);
        let word = self.word().load(Ordering::Relaxed);
        let word = if self.is_off_slab() {
            if self.free_numbers().any(|free| free == number) {
                not_in_use(self.slabs.cache, object);
            }
            let numbers = word >> NUMBER_BITS << NUMBER_BITS | u64::from(number);
            numbers << NUMBER_BITS | ((word & NUMBER_MASK) - 1)
        } else {
            if self.demand_index(number) != IN_USE {
                not_in_use(self.slabs.cache, object);
            }
            self.set_index(number, (word >> 16) as u16);
            u64::from(number) << 16 | ((word & 0xffff) - 1)
        };
        self.word().store(word, Ordering::Relaxed);
    }

    /// The number of an object. Aborts if no object starts at that address.
    fn number(&self, object: Object) -> u32 {
        let offset = object.as_ptr() as usize - self.address.as_ptr() as usize;
        let cache = self.slabs.cache;
        cache.object_number(offset).unwrap_or_else(|| no_start(cache, object))
    }

    /// Numbers of the free objects of a slab of large objects, the last freed first.
    fn free_numbers(&self) -> impl Iterator<Item = u32> {
        let word = self.word().load(Ordering::Relaxed);
        let free = self.objects().saturating_sub((word & NUMBER_MASK) as u32);
        (1..=free).map(move |place| (word >> (place * NUMBER_BITS) & NUMBER_MASK) as u32)
    }

    /// Returns whether an object is free in the slab, or its number is overwritten.
    pub(super) fn is_free(&self, object: Object) -> bool {
        let number = self.number(object);
        match self.is_off_slab() {
            true => self.free_numbers().any(|free| free == number),
            false => self.sealed_index(number) != Some(IN_USE),
        }
    }

    /// Visits the numbers of all free objects, the last freed first. O(objects).
    pub(super) fn visit_free(&self, visit: &mut dyn FnMut(u32)) {
        if self.is_off_slab() {
            return self.free_numbers().for_each(visit);
        }
        let mut next = (self.word().load(Ordering::Relaxed) >> 16) as u16;
        for _ in self.inuse()..self.objects() {
            if u32::from(next) >= self.objects() {
                return;
            }
            visit(u32::from(next));
            next = self.demand_index(u32::from(next));
        }
    }

    pub(super) fn validate(&self) -> Result<(), Broken> {
        let check = Check::of("slab").at(self.pfn.0);
        let mut seen = [0u64; 4];
        let (mut free, mut is_once) = (0, true);
        let is_small = !self.is_off_slab();
        let is_sealed = |object| !is_small || self.sealed_index(object).is_some();
        check.that((0..self.objects()).all(is_sealed), "every index has its seal")?;
        self.visit_free(&mut |number| {
            let bit = 1 << (number % 64);
            is_once &= seen[number as usize / 64] & bit == 0;
            seen[number as usize / 64] |= bit;
            free += 1;
        });
        check.that(is_once, "an object is on the free list once")?;
        check.equal(self.inuse() + free, self.objects(), "in use + free list = objects")?;
        let marked = |object: &u32| self.sealed_index(*object) == Some(IN_USE);
        let inuse =
            if is_small { (0..self.objects()).filter(marked).count() as u32 } else { self.inuse() };
        check.equal(self.inuse(), inuse, "in use = objects whose index says so")
    }
}
