//! Slabs that record their free objects as bits, for policies that move objects in batches.
//!
//! A bit is set iff the object is free *in the slab*: neither in use, nor in a slot, nor in a barn.
//! A free into the slab only sets the bit. It touches no cold object, and finds each double free.
//!
//! The descriptor of a slab lies in the link words of its first four frames (a slab has at least
//! order 2): `link[0]` is the next slab, `link[1]` the previous one, `link[2..4]` one word. If a
//! slab has at most 64 objects, this word is the bits. Else it is
//! `{digest of the bits : 53 | free objects : 11}`, and the bits lie before the first object; or
//! the slab is *folded* (see `word.rs`), until the first change of its bits.
//!
//! A program that writes past the end of the memory before this slab could overwrite the bits, and
//! then an object could get two owners. The slab's unused bytes lie before the bits to absorb short
//! overruns. The bits are compared with their digest when objects are taken, when a free finds its
//! bit set, and when the slab is given back.
//!
//! A slab with free objects is on one of five lists: 0..=3 by how many quarters of its objects are
//! free, 4 if all are (*empty*). Requests take from the fullest slab, so that others become empty.
//!
//! Equations: `free(slab) = popcount(bits)`, `digest(slab) = sum of term(word i of the bits, i)`,
//! `list(slab) = floor(4 * free / objects)` for `free > 0`, no list for `free = 0`,
//! `length(list) = slabs on it`, `nr_free = sum of free(slab)`.

mod sparse;
mod word;

use super::buffer::written;
use super::cache::{Cache, LOOSE_ORDER, SlabLayout, cache_of, loose_mark};
use super::context::{CacheIn, MAX_BATCH, SlabContext};
use super::misuse::{not_in_use, overwritten};
use super::params::{CacheParams, MIN_ALIGN};
use super::populating::Populating;
use super::stats::SlabStats;
use super::table::CacheTable;
use crate::frame::{End, FRAME_BYTES, Kind, Links, List, Order, Pfn};
use crate::pcp::Page;
use crate::zone::Zones;
use core::mem::MaybeUninit;
use quarry_sys::broken::{Broken, Check};
use quarry_sys::lock::CountedLock;
use quarry_sys::locks::Visit;
use quarry_sys::percpu::{Object, PerCpu};
use quarry_sys::prefetch::prefetch;
use quarry_sys::primitive::{AtomicU64, Ordering};
use quarry_sys::report::fatal;
use word::{FOLDABLE_OBJECTS, FREE_BITS, FREE_MASK, Word, all_free};

/// The descriptor takes four link words, so a slab has at least four frames.
const MIN_ORDER: Order = Order::new(2);
const BUCKETS: usize = 5;
const EMPTY: usize = 4;
/// Maximum number of objects (a sheaf of a wide array) or slabs that a critical section gives back.
const SLABS_BATCH: usize = 2 * MAX_BATCH;
/// From this many bytes of slabs on, most of a cache's descriptors and bits miss the CPU's caches.
const FAR_BYTES: u64 = 16 << 20;
const WORD_OBJECTS: u32 = 64;
const _: () = assert!(MIN_ORDER.bytes() / MIN_ALIGN <= FOLDABLE_OBJECTS as usize);

/// The term that word `index` of the bits adds to the digest, shifted to the digest's place. A
/// change within 32 neighbouring bits of one word always changes the digest: multiplication by an
/// odd number is invertible modulo 2^53, and the upper bits are folded onto the lower ones.
fn term(bits: u64, index: u32) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let multiplier = ODD.wrapping_mul(u64::from(2 * index + 1));
    (bits ^ bits >> 32).wrapping_mul(multiplier) << FREE_BITS
}

fn header_bytes(slab_bytes: usize, stride: usize) -> usize {
    let objects = slab_bytes / stride;
    if objects <= WORD_OBJECTS as usize { 0 } else { objects.div_ceil(64) * 8 }
}

struct Lists {
    slabs: [List<Pfn>; BUCKETS],
    lengths: [u32; BUCKETS],
    nr_slabs: u64,
    nr_free: u64,
    slabs_allocated: u64,
    populating: Populating,
}

/// The slabs of one cache, under one counted lock.
pub struct BitmapSlabs {
    lists: CountedLock<Lists>,
    /// Objects that are not free in a slab, and those that are, for readers without the lock.
    outside: AtomicU64,
    inside: AtomicU64,
}

/// The slabs of a cache, together with what an operation needs.
pub struct SlabsView<'a, P: PerCpu> {
    context: &'a SlabContext<'a, P>,
    cache: &'a Cache,
    slabs: &'a BitmapSlabs,
}

struct Slab<'a> {
    zones: &'a Zones,
    caches: &'a CacheTable,
    frames: &'a crate::frame::FrameTable,
    cache: &'a Cache,
    pfn: Pfn,
    address: Object,
}

/// Word `index` of a slab's bits while objects leave or enter it. Most objects of a batch share a
/// word, so it is stored and digested once: doing this for each object took twice as long.
struct OpenWord {
    index: u32,
    before: u64,
    now: u64,
}

impl OpenWord {
    fn set(&mut self, bit: u32) -> bool {
        let was_clear = self.now >> bit & 1 == 0;
        self.now |= 1 << bit;
        was_clear
    }
}

impl Slab<'_> {
    fn word(&self) -> &AtomicU64 {
        self.frames.link_pair(self.pfn.plus(2))
    }

    fn has_word_bits(&self) -> bool {
        self.cache.header_bytes() == 0
    }

    fn free(&self) -> u32 {
        let word = self.word().load(Ordering::Relaxed);
        if self.has_word_bits() { word.count_ones() } else { Word(word).free(self.cache.objects()) }
    }

    fn bits(&self, index: u32) -> &AtomicU64 {
        if self.has_word_bits() {
            return self.word();
        }
        debug_assert!(index < self.words());
        // SAFETY: the `words()` words right before the slab's first object belong to no object, and
        // are aligned, because the first object is aligned to 16.
        unsafe { self.first_bits().cast::<AtomicU64>().add(index as usize).as_ref() }
    }

    fn is_folded(&self) -> bool {
        !self.has_word_bits() && Word(self.word().load(Ordering::Relaxed)).is_folded()
    }

    /// Word `index` of the bits, of a folded slab as well.
    fn bits_now(&self, index: u32) -> u64 {
        if self.is_folded() {
            Word(self.word().load(Ordering::Relaxed)).bits(self.cache.objects(), index)
        } else {
            self.bits(index).load(Ordering::Relaxed)
        }
    }

    /// Writes the bits of a folded slab. Every change of the bits begins with this.
    #[inline]
    fn unfold(&self) {
        if self.is_folded() {
            self.write_bits();
        }
    }

    #[cold]
    fn write_bits(&self) {
        let free = u64::from(self.free());
        for index in 0..self.words() {
            self.bits(index).store(self.bits_now(index), Ordering::Relaxed);
        }
        self.word().store(self.digest() | free, Ordering::Relaxed);
    }

    fn first_bits(&self) -> Object {
        let behind = self.cache.first_object() - self.words() as usize * size_of::<u64>();
        // SAFETY: the header has room for the bits, so the address is in the slab.
        unsafe { self.address.add(behind) }
    }

    /// Prefetches the descriptor and the bits.
    fn prefetch(&self) {
        self.frames.prefetch(self.pfn);
        if !self.has_word_bits() {
            prefetch(self.first_bits().as_ptr());
        }
    }

    fn words(&self) -> u32 {
        self.cache.objects().div_ceil(64)
    }

    fn digest(&self) -> u64 {
        (0..self.words())
            .map(|index| term(self.bits(index).load(Ordering::Relaxed), index))
            .fold(0, u64::wrapping_add)
    }

    /// Returns whether the bits match their digest; if not, the program has overwritten them.
    fn is_intact(&self) -> bool {
        self.has_word_bits()
            || self.is_folded()
            || self.digest() == self.word().load(Ordering::Relaxed) & !FREE_MASK
    }

    fn demand_intact(&self) {
        if !self.is_intact() {
            overwritten(self.cache, self.zones, self.caches, self.pfn, self.first_bits());
        }
    }

    fn reset(&self) {
        for index in 0..self.words() {
            self.bits(index).store(all_free(self.cache.objects(), index), Ordering::Relaxed);
        }
        if !self.has_word_bits() {
            let free = u64::from(self.cache.objects());
            self.word().store(self.digest() | free, Ordering::Relaxed);
        }
    }

    /// Fills `out` in rising order from below the `left` highest; `out.len() + left <= free(slab)`.
    fn take(&self, out: &mut [MaybeUninit<Object>], mut left: u32) {
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
    fn put_batch(&self, objects: &[Object]) -> usize {
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

    fn note(&self, digest: u64, objects: u64) {
        if !self.has_word_bits() {
            let word = self.word().load(Ordering::Relaxed);
            let noted = word.wrapping_add(digest).wrapping_add(objects);
            self.word().store(noted, Ordering::Relaxed);
        }
    }

    /// The number of an object; aborts if no object starts at this address.
    fn number(&self, object: Object) -> u32 {
        let offset = object.as_ptr() as usize - self.address.as_ptr() as usize;
        let Some(number) = self.cache.object_number(offset) else {
            fatal(format_args!(
                "free({object:p}): pointer into the middle of an object of {} bytes",
                self.cache.stride()
            ));
        };
        number
    }

    fn open(&self, index: u32) -> OpenWord {
        let bits = self.bits(index).load(Ordering::Relaxed);
        OpenWord { index, before: bits, now: bits }
    }

    /// Stores a word; returns the value that this adds to the digest.
    fn close(&self, word: OpenWord) -> u64 {
        self.bits(word.index).store(word.now, Ordering::Relaxed);
        if self.has_word_bits() {
            return 0;
        }
        term(word.now, word.index).wrapping_sub(term(word.before, word.index))
    }

    fn bucket(&self, free: u32) -> Option<usize> {
        (free > 0).then(|| (free * 4 / self.cache.objects()) as usize)
    }
}

impl Lists {
    fn nr_empty(&self) -> u32 {
        self.lengths[EMPTY]
    }

    fn nr_partial(&self) -> u64 {
        self.lengths[..EMPTY].iter().copied().map(u64::from).sum()
    }

    fn add(&mut self, slab: &Slab<'_>, bucket: usize, end: End) {
        self.slabs[bucket].add(slab.frames, slab.pfn, end);
        self.lengths[bucket] += 1;
    }

    fn remove(&mut self, slab: &Slab<'_>, bucket: usize) {
        self.slabs[bucket].remove(slab.frames, slab.pfn);
        self.lengths[bucket] -= 1;
    }

    /// Moves a slab from the list for `from` free objects to the list for `to`.
    fn moved(&mut self, slab: &Slab<'_>, from: u32, to: u32, end: End) {
        let (old, new) = (slab.bucket(from), slab.bucket(to));
        if old == new {
            return;
        }
        if let Some(bucket) = old {
            self.remove(slab, bucket);
        }
        if let Some(bucket) = new {
            self.add(slab, bucket, end);
        }
    }

    /// Fills the front of `out` from one slab or several, for a request of `most` objects in all.
    /// (Inlined, its frame would lie under that of the caller's next call, where stacks are small.)
    #[inline(never)]
    fn take<P: PerCpu>(
        &mut self,
        view: &SlabsView<'_, P>,
        out: &mut [MaybeUninit<Object>],
        most: usize,
        from_several: bool,
    ) -> usize {
        let mut taken = 0;
        for bucket in 0..BUCKETS {
            while taken < out.len()
                && (from_several || taken == 0)
                && let Some(head) = self.slabs[bucket].first()
            {
                let slab = view.slab(head);
                if self.nr_slabs * view.cache.order().bytes() as u64 >= FAR_BYTES
                    && let Some(next) = slab.frames.next(head).get()
                {
                    view.slab(next).prefetch();
                }
                let before = slab.free();
                let count = (out.len() - taken).min(before as usize);
                let left = before.saturating_sub((most - taken) as u32);
                slab.take(&mut out[taken..taken + count], left);
                taken += count;
                self.nr_free -= count as u64;
                self.moved(&slab, before, before - count as u32, End::Head);
            }
        }
        taken
    }
}

impl BitmapSlabs {
    /// No slabs.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            outside: AtomicU64::new(0),
            inside: AtomicU64::new(0),
            lists: CountedLock::new(Lists {
                slabs: [const { List::new() }; BUCKETS],
                lengths: [0; BUCKETS],
                nr_slabs: 0,
                nr_free: 0,
                slabs_allocated: 0,
                populating: Populating::new(),
            }),
        }
    }

    /// Resets the counts for a new cache, which has no slab yet.
    pub fn start(&self) {
        let mut lists = self.lists.lock();
        debug_assert!(lists.nr_slabs == 0);
        lists.slabs_allocated = 0;
        lists.populating = Populating::new();
    }

    /// The smallest order from 2 to 5 that holds 8 objects and wastes at most 1/8, else the
    /// smallest that holds 4 objects.
    #[must_use]
    pub fn layout(params: &CacheParams) -> SlabLayout {
        let stride = params.stride();
        let fits = |order: u8| {
            let bytes = Order::new(order).bytes();
            let usable = bytes - header_bytes(bytes, stride).min(bytes);
            usable / stride >= 8 && (bytes - usable / stride * stride) * 8 <= bytes
        };
        let lowest = MIN_ORDER.get();
        let order = (lowest..=5).find(|order| fits(*order)).unwrap_or_else(|| {
            let frames = (stride * 4).div_ceil(FRAME_BYTES) as u32;
            Order::covering(frames.min(Order::MAX.frames())).get().max(lowest)
        });
        let order = Order::new(order);
        SlabLayout { order, header_bytes: header_bytes(order.bytes(), stride) }
    }

    /// The layout for a loose cache: as [`layout`](Self::layout), but the order leaves room for the
    /// cache's place. (A slab of order 3 has at most 2,032 objects, which the digest's word can
    /// count.)
    #[must_use]
    pub fn loose_layout(params: &CacheParams) -> SlabLayout {
        let order = Self::layout(params).order.max(LOOSE_ORDER);
        SlabLayout { order, header_bytes: header_bytes(order.bytes(), params.stride()) }
    }

    /// A view of these slabs, which belong to `cache`.
    #[inline(always)]
    pub fn of<'a, P: PerCpu>(&'a self, cache: CacheIn<'a, P>) -> SlabsView<'a, P> {
        SlabsView { context: cache.context, cache: cache.cache, slabs: self }
    }

    /// Objects that are not free in a slab: in use, or parked. Takes no lock.
    pub(super) fn outside(&self) -> u64 {
        self.outside.load(Ordering::Relaxed)
    }

    /// Objects that are free in a slab. Takes no lock.
    pub(super) fn inside(&self) -> u64 {
        self.inside.load(Ordering::Relaxed)
    }

    /// Visits the list lock.
    pub fn visit_locks(&self, visit: &mut Visit<'_>) {
        visit("slab->list_lock", &self.lists);
    }
}

impl<'a, P: PerCpu> SlabsView<'a, P> {
    fn slab(&self, pfn: Pfn) -> Slab<'a> {
        let (zones, caches) = (self.context.zones, self.context.caches);
        let address = zones.arena().address(pfn);
        Slab { zones, caches, frames: zones.frames(), cache: self.cache, pfn, address }
    }

    /// Fills the front of `out` from slabs, and makes new slabs where the existing ones do not
    /// suffice. `sheaf`, the number of objects that a CPU keeps, decides whether pages are
    /// populated. Returns the number of objects, and whether never touched memory was taken.
    pub fn alloc(&self, sheaf: usize, out: &mut [MaybeUninit<Object>]) -> (usize, bool) {
        let (mut taken, mut is_fresh) = (self.take(out), false);
        while taken < out.len() {
            let objects = sheaf.max(out.len() - taken);
            let Some(fresh) = self.grow(objects) else { break };
            is_fresh |= fresh;
            taken += self.take(&mut out[taken..]);
        }
        (taken, is_fresh)
    }

    /// Fills the front of `out` from the existing slabs; returns the number of objects.
    #[inline(never)]
    pub fn take(&self, out: &mut [MaybeUninit<Object>]) -> usize {
        let mut lists = self.slabs.lists.lock();
        let empty = lists.nr_empty();
        let taken = lists.take(self, out, out.len(), true);
        self.publish(&lists, empty);
        taken
    }

    /// Takes up to `most` objects of the slabs under one lock, and gives them to `keep` in pieces,
    /// each slab's in falling order, for an array that hands out the last one first. Ends with a
    /// slab if it has half of them then; with `wants_all`, takes nothing if half are not there.
    /// `keep` learns which piece is the last one, and returns how many objects at the front it
    /// refuses: they go back, and the call ends. Returns the objects taken, and whether `keep` took
    /// all.
    #[inline(never)]
    pub(super) fn take_pieces(
        &self,
        most: usize,
        wants_all: bool,
        mut keep: impl FnMut(&[Object], bool) -> usize,
    ) -> (usize, bool) {
        let mut lists = self.slabs.lists.lock();
        if wants_all && lists.nr_free < most.div_ceil(2) as u64 {
            return (0, true);
        }
        let (empty, mut left, mut refused, mut is_last) = (lists.nr_empty(), most, 0, false);
        while refused == 0 && !is_last {
            let mut buffer = [MaybeUninit::uninit(); MAX_BATCH];
            let out = &mut buffer[..left.min(MAX_BATCH)];
            let count = lists.take(self, out, left, 2 * left > most);
            out[..count].reverse();
            left -= count;
            is_last = count < MAX_BATCH || left == 0 || lists.nr_free == 0;
            // SAFETY: the lists wrote the first `count` elements.
            let objects = unsafe { written(out, count) };
            refused = keep(objects, is_last);
            lists.put(self, &objects[..refused]);
        }
        self.publish(&lists, empty);
        (most - left, refused == 0)
    }

    /// Adds a slab for a request of `objects` objects. Other CPUs may take its objects before the
    /// caller does. Returns whether its memory was never touched; `None` if there is no memory.
    #[inline(never)]
    pub fn grow(&self, objects: usize) -> Option<bool> {
        let context = self.context;
        let slot = context.percpu.current();
        let page = context.take_block(slot, context.zones.node_of(slot), self.cache)?;
        self.add_slab(page, objects);
        Some(page.zeroed)
    }

    #[inline(never)]
    fn add_slab(&self, page: Page, objects: usize) {
        let cache = self.cache;
        let is_sample = page.zeroed && self.bring_in(page.pfn, objects);
        let slab = self.slab(page.pfn);
        slab.reset();
        // SAFETY: the block is a slab of this cache, and no other task can find it yet.
        unsafe { cache.construct(slab.address) };
        if let Some(place) = cache.id().place() {
            let eights = (0..cache.order().frames()).step_by(8).map(|frame| page.pfn.plus(frame));
            eights.for_each(|eight| slab.frames.set_link(loose_mark(eight), place));
        }
        slab.frames.set_kind(page.pfn, cache.order().frames(), cache.id().kind());
        let mut lists = self.slabs.lists.lock();
        let empty = lists.nr_empty();
        lists.nr_slabs += 1;
        lists.slabs_allocated += 1;
        lists.populating.made(slab.pfn, is_sample);
        lists.nr_free += u64::from(cache.objects());
        // The new slab goes to the tail, so that neighbouring slabs are used one after the other.
        lists.add(&slab, EMPTY, End::Tail);
        self.publish(&lists, empty);
    }

    /// Populates a slab of never touched memory, or leaves it to page faults. Returns whether it is
    /// a sample (see [`Plan::bring_in`](super::populating::Plan::bring_in)).
    fn bring_in(&self, slab: Pfn, objects: usize) -> bool {
        let (zones, cache) = (self.context.zones, self.cache);
        let (os, bytes) = (zones.arena().os(), objects * cache.stride());
        let mut plan = {
            let lists = self.slabs.lists.lock();
            lists.populating.plan(os, cache, lists.nr_slabs, bytes)
        };
        if plan.look(zones, cache) {
            self.slabs.lists.lock().populating.looked(&plan);
        }
        plan.bring_in(zones, cache, slab)
    }

    /// Gives objects back to their slabs, and empty slabs beyond `keep` to the context.
    pub fn free(&self, objects: &[Object], keep: u32) {
        let context = self.context;
        for piece in objects.chunks(SLABS_BATCH) {
            let keep = if context.limits.is_empty_enough(context.zones) { 0 } else { keep };
            context.add_emptied(self.put(piece, keep), self.cache.order());
        }
    }

    /// Frees objects into their slabs; returns slabs beyond `keep` that became empty.
    #[inline(never)]
    fn put(&self, objects: &[Object], keep: u32) -> List<Pfn> {
        if self.slabs.outside() * self.cache.stride() as u64 >= FAR_BYTES {
            self.prefetch_slabs(objects);
        }
        let mut lists = self.slabs.lists.lock();
        let empty = lists.nr_empty();
        lists.put(self, objects);
        let emptied = lists.nr_empty() - empty;
        let beyond = lists.nr_empty().saturating_sub(keep).min(emptied);
        let detached = lists.detach_empty(self, beyond);
        self.publish(&lists, empty);
        detached
    }

    /// Visits the number of every object that is free in `slab`. O(objects).
    pub fn visit_free(&self, slab: Pfn, visit: &mut dyn FnMut(u32)) {
        let slab = self.slab(slab);
        for index in 0..slab.words() {
            let bits = slab.bits_now(index);
            (0..64).filter(|bit| bits >> bit & 1 != 0).for_each(|bit| visit(index * 64 + bit));
        }
    }

    /// Gives the empty slabs beyond `keep` to the page allocator.
    pub fn trim(&self, keep: u32) {
        let (context, cache) = (self.context, self.cache);
        loop {
            let mut lists = self.slabs.lists.lock();
            let kept = lists.nr_empty();
            if kept <= keep {
                return;
            }
            let most = (kept - keep).min(SLABS_BATCH as u32);
            let detached = lists.detach_empty(self, most);
            self.note_empty(&lists, kept);
            drop(lists);
            context.add_emptied(detached, cache.order());
            context.give_back_emptied();
        }
    }

    /// Publishes the counts at the end of a critical section that began with `empty` empty slabs.
    fn publish(&self, lists: &Lists, empty: u32) {
        let objects = lists.nr_slabs * u64::from(self.cache.objects());
        self.slabs.outside.store(objects - lists.nr_free, Ordering::Relaxed);
        self.note_empty(lists, empty);
    }

    fn note_empty(&self, lists: &Lists, before: u32) {
        self.slabs.inside.store(lists.nr_free, Ordering::Relaxed);
        self.context.limits.empty_changed(self.cache, before, lists.nr_empty());
    }

    fn slab_of(&self, object: Object) -> Slab<'a> {
        let pfn = self.context.slab_of(self.cache, object);
        // The object was freed twice: a slot still held it when its slab was given back.
        if cache_of(self.context.zones.frames(), pfn) != Some(self.cache.id()) {
            not_in_use(self.cache, object);
        }
        self.slab(pfn)
    }

    /// Prefetches the parts of slabs that [`Lists::put`] reads, so that cache misses overlap.
    fn prefetch_slabs(&self, objects: &[Object]) {
        let mut last = None;
        for object in objects {
            let pfn = self.context.slab_of(self.cache, *object);
            if last.replace(pfn) != Some(pfn) {
                self.slab(pfn).prefetch();
            }
        }
    }

    /// Fills in the counts of slabs and objects, and those of the list lock.
    pub fn add_stats(&self, stats: &mut SlabStats) {
        let lists = self.slabs.lists.lock();
        stats.total_slabs = lists.nr_slabs;
        stats.total_objects = lists.nr_slabs * u64::from(self.cache.objects());
        stats.active_objects = stats.total_objects - lists.nr_free;
        stats.active_slabs = lists.nr_slabs - u64::from(lists.nr_empty());
        stats.partial_slabs = lists.nr_partial();
        stats.slabs_allocated = lists.slabs_allocated;
        stats.slabs_freed = lists.slabs_allocated - lists.nr_slabs;
        drop(lists);
        stats.list_lock = self.slabs.lists.stats();
    }

    /// Checks the equations at the top of this file; fails with the first that does not hold.
    /// Returns the bytes of the empty slabs.
    pub fn validate(&self) -> Result<usize, Broken> {
        let frames = self.context.zones.frames();
        let lists = self.slabs.lists.lock();
        let (mut slabs, mut free) = (0, 0);
        for bucket in 0..BUCKETS {
            let mut length = 0u32;
            lists.slabs[bucket].validate(frames, |pfn| {
                length += 1;
                let (slab, check) = (self.slab(pfn), Check::of("slab").at(pfn.0));
                let counted: u32 =
                    (0..slab.words()).map(|index| slab.bits_now(index).count_ones()).sum();
                let is_own = cache_of(frames, pfn) == Some(self.cache.id());
                check.equal(slab.free(), counted, "free(slab) = popcount(bits)")?;
                check.that(slab.is_intact(), "digest(slab) = sum of terms of its bits")?;
                check.that(slab.bucket(counted) == Some(bucket), "list(slab) = its quarter")?;
                check.that(is_own, "kind of a slab's frames = its cache's")?;
                slabs += 1;
                free += u64::from(counted);
                Ok(())
            })?;
            let check = Check::of("list of slabs");
            check.equal(lists.lengths[bucket], length, "length(list) = slabs on it")?;
        }
        let check = Check::of("slabs of a cache");
        check.equal(lists.nr_free, free, "nr_free = sum of free(slab)")?;
        check.that(slabs <= lists.nr_slabs, "slabs on lists <= nr_slabs")?;
        Ok(lists.nr_empty() as usize * self.cache.order().bytes())
    }
}

impl Lists {
    #[inline]
    fn put<P: PerCpu>(&mut self, view: &SlabsView<'_, P>, objects: &[Object]) {
        let mut rest = objects;
        while let Some(&object) = rest.first() {
            let slab = view.slab_of(object);
            let before = slab.free();
            let count = slab.put_batch(rest);
            self.nr_free += count as u64;
            self.moved(&slab, before, before + count as u32, End::Head);
            rest = &rest[count..];
        }
    }

    fn detach_empty<P: PerCpu>(&mut self, view: &SlabsView<'_, P>, most: u32) -> List<Pfn> {
        let mut detached = List::new();
        for _ in 0..most {
            let Some(empty) = self.slabs[EMPTY].first() else { break };
            let slab = view.slab(empty);
            self.detach(&slab);
            detached.push_back(slab.frames, slab.pfn);
        }
        detached
    }

    fn detach(&mut self, slab: &Slab<'_>) {
        slab.demand_intact();
        self.remove(slab, EMPTY);
        self.nr_slabs -= 1;
        self.nr_free -= u64::from(slab.cache.objects());
        self.populating.gone(slab.pfn);
        slab.frames.set_kind(slab.pfn, slab.cache.order().frames(), Kind::NONE);
    }
}
