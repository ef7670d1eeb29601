//! One slab: its descriptor and its bits.

use super::word::{FREE_BITS, FREE_MASK, Word, all_free};
use crate::frame::{FrameState, FrameTable, Pfn};
use crate::slab::cache::Cache;
use crate::slab::misuse::{not_in_use, overwritten};
use crate::slab::table::CacheTable;
use crate::zone::Zones;
use core::mem::MaybeUninit;
use quarry_sys::percpu::Object;
use quarry_sys::prefetch::prefetch;
use quarry_sys::primitive::{AtomicU64, Ordering};
use quarry_sys::report::fatal;

/// The term that word `index` of the bits adds to the digest, shifted to the digest's place. A
/// change within 32 neighbouring bits of one word always changes the digest: multiplication by an
/// odd number is invertible modulo 2^53, and the upper bits are folded onto the lower ones.
fn term(bits: u64, index: u32) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let multiplier = ODD.wrapping_mul(u64::from(2 * index + 1));
    (bits ^ bits >> 32).wrapping_mul(multiplier) << FREE_BITS
}

pub(super) struct Slab<'a> {
    pub(super) zones: &'a Zones,
    pub(super) caches: &'a CacheTable,
    pub(super) frames: &'a FrameTable,
    pub(super) cache: &'a Cache,
    pub(super) pfn: Pfn,
    pub(super) address: Object,
}

/// Word `index` of a slab's bits while objects leave or enter it. Most objects of a batch share a
/// word, so it is stored and digested once: doing this for each object took twice as long.
pub(super) struct OpenWord {
    pub(super) index: u32,
    pub(super) before: u64,
    pub(super) now: u64,
}

impl OpenWord {
    pub(super) fn set(&mut self, bit: u32) -> bool {
        let was_clear = self.now >> bit & 1 == 0;
        self.now |= 1 << bit;
        was_clear
    }
}

impl Slab<'_> {
    /// The shard that the slab belongs to. It stands in the state of the second frame: its upper
    /// bits are 0, as those of every frame in use.
    pub(super) fn owner(&self) -> usize {
        usize::from(self.frames.state(self.pfn.plus(1)).0)
    }

    pub(super) fn set_owner(&self, shard: usize) {
        if self.owner() != shard {
            self.frames.set_state(self.pfn.plus(1), FrameState(shard as u8));
        }
    }

    pub(super) fn word(&self) -> &AtomicU64 {
        self.frames.link_pair(self.pfn.plus(2))
    }

    pub(super) fn has_word_bits(&self) -> bool {
        self.cache.header_bytes() == 0
    }

    pub(super) fn free(&self) -> u32 {
        let word = self.word().load(Ordering::Relaxed);
        if self.has_word_bits() { word.count_ones() } else { Word(word).free(self.cache.objects()) }
    }

    pub(super) fn bits(&self, index: u32) -> &AtomicU64 {
        if self.has_word_bits() {
            return self.word();
        }
        debug_assert!(index < self.words());
        // SAFETY: the `words()` words right before the slab's first object belong to no object, and
        // are aligned, because the first object is aligned to 16.
        unsafe { self.first_bits().cast::<AtomicU64>().add(index as usize).as_ref() }
    }

    pub(super) fn is_folded(&self) -> bool {
        !self.has_word_bits() && Word(self.word().load(Ordering::Relaxed)).is_folded()
    }

    /// Word `index` of the bits, of a folded slab as well.
    pub(super) fn bits_now(&self, index: u32) -> u64 {
        if self.is_folded() {
            Word(self.word().load(Ordering::Relaxed)).bits(self.cache.objects(), index)
        } else {
            self.bits(index).load(Ordering::Relaxed)
        }
    }

    /// Writes the bits of a folded slab. Every change of the bits begins with this.
    #[inline]
    pub(super) fn unfold(&self) {
        if self.is_folded() {
            self.write_bits();
        }
    }

    #[cold]
    pub(super) fn write_bits(&self) {
        let free = u64::from(self.free());
        for index in 0..self.words() {
            self.bits(index).store(self.bits_now(index), Ordering::Relaxed);
        }
        self.word().store(self.digest() | free, Ordering::Relaxed);
    }

    pub(super) fn first_bits(&self) -> Object {
        let behind = self.cache.first_object() - self.words() as usize * size_of::<u64>();
        // SAFETY: the header has room for the bits, so the address is in the slab.
        unsafe { self.address.add(behind) }
    }

    /// Prefetches the descriptor and the bits.
    pub(super) fn prefetch(&self) {
        self.frames.prefetch(self.pfn);
        if !self.has_word_bits() {
            prefetch(self.first_bits().as_ptr());
        }
    }

    pub(super) fn words(&self) -> u32 {
        self.cache.objects().div_ceil(64)
    }

    pub(super) fn digest(&self) -> u64 {
        (0..self.words())
            .map(|index| term(self.bits(index).load(Ordering::Relaxed), index))
            .fold(0, u64::wrapping_add)
    }

    /// Returns whether the bits match their digest; if not, the program has overwritten them.
    pub(super) fn is_intact(&self) -> bool {
        self.has_word_bits()
            || self.is_folded()
            || self.digest() == self.word().load(Ordering::Relaxed) & !FREE_MASK
    }

    pub(super) fn demand_intact(&self) {
        if !self.is_intact() {
            overwritten(self.cache, self.zones, self.caches, self.pfn, self.first_bits());
        }
    }

    pub(super) fn reset(&self) {
        for index in 0..self.words() {
            self.bits(index).store(all_free(self.cache.objects(), index), Ordering::Relaxed);
        }
        if !self.has_word_bits() {
            let free = u64::from(self.cache.objects());
            self.word().store(self.digest() | free, Ordering::Relaxed);
        }
    }

    /// Fills `out` in rising order from below the `left` highest; `out.len() + left <= free(slab)`.
    pub(super) fn take(&self, out: &mut [MaybeUninit<Object>], mut left: u32) {
        self.unfold();
        self.demand_intact();
        let (mut rest, mut digest, mut index) = (out.len(), 0u64, self.words());
        while rest > 0 {
            index -= 1;
            let mut word = self.open(index);
            if let Some(less) = left.checked_sub(word.now.count_ones()) {
                left = less;
                continue;
            }
            let mut free = (0..left).fold(word.now, |free, _| free ^ 1 << free.ilog2());
            left = 0;
            word.now ^= free;
            while free != 0 && rest > 0 {
                let bit = free.ilog2();
                (free, rest) = (free ^ 1 << bit, rest - 1);
                // SAFETY: `address` is a slab of this cache and only objects have bits.
                out[rest].write(unsafe { self.cache.object_at(self.address, index * 64 + bit) });
            }
            word.now |= free;
            digest = digest.wrapping_add(self.close(word));
        }
        self.note(digest, (out.len() as u64).wrapping_neg());
    }

    /// Frees the objects at the front of `objects` that lie in this slab; returns their number.
    pub(super) fn put_batch(&self, objects: &[Object]) -> usize {
        let start = self.address.as_ptr() as usize;
        let bytes = self.cache.order().bytes();
        let is_inside = |object: &&Object| (object.as_ptr() as usize).wrapping_sub(start) < bytes;
        let Some(first) = objects.first() else { return 0 };
        self.unfold();
        let mut word = self.open(self.number(*first) / 64);
        let (mut count, mut digest) = (0, 0u64);
        for object in objects.iter().take_while(is_inside) {
            let number = self.number(*object);
            if number / 64 != word.index {
                digest = digest.wrapping_add(self.close(word));
                word = self.open(number / 64);
            }
            if !word.set(number % 64) {
                // The digest includes this call's changes, so a difference comes from the program.
                self.note(digest.wrapping_add(self.close(word)), count as u64);
                self.demand_intact();
                not_in_use(self.cache, *object);
            }
            count += 1;
        }
        self.note(digest.wrapping_add(self.close(word)), count as u64);
        count
    }

    pub(super) fn note(&self, digest: u64, objects: u64) {
        if !self.has_word_bits() {
            let word = self.word().load(Ordering::Relaxed);
            let noted = word.wrapping_add(digest).wrapping_add(objects);
            self.word().store(noted, Ordering::Relaxed);
        }
    }

    /// The number of an object; aborts if no object starts at this address.
    pub(super) fn number(&self, object: Object) -> u32 {
        let offset = object.as_ptr() as usize - self.address.as_ptr() as usize;
        let Some(number) = self.cache.object_number(offset) else {
            fatal(format_args!(
                "free({object:p}): pointer into the middle of an object of {} bytes",
                self.cache.stride()
            ));
        };
        number
    }

    pub(super) fn open(&self, index: u32) -> OpenWord {
        let bits = self.bits(index).load(Ordering::Relaxed);
        OpenWord { index, before: bits, now: bits }
    }

    /// Stores a word; returns the value that this adds to the digest.
    pub(super) fn close(&self, word: OpenWord) -> u64 {
        self.bits(word.index).store(word.now, Ordering::Relaxed);
        if self.has_word_bits() {
            return 0;
        }
        term(word.now, word.index).wrapping_sub(term(word.before, word.index))
    }

    pub(super) fn bucket(&self, free: u32) -> Option<usize> {
        (free > 0).then(|| (free * 4 / self.cache.objects()) as usize)
    }
}
