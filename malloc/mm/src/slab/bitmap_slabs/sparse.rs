//! Gives pages of slabs back to the operating system if they hold no object in use.
//!
//! A slab marks a free object by a bit, and no code reads the object's memory, so this memory may
//! become zero at any time. Before pages go back, their free objects are taken out of the slab, as
//! a request would do. So no other task gets them while the system call runs without the list lock.
//! Then the slab goes to the tail of its list, to be used last. A slab that can be folded goes back
//! while the lock is held, a few in one critical section: no task may unfold it during the call.
//!
//! [`occupancy`](SlabsView::occupancy) tells a program which objects it should move.

use super::lists::{BUCKETS, EMPTY, Lists, SlabsView};
use super::slab::Slab;
use super::word::Word;
use crate::frame::{End, FRAME_BYTES, List, Pfn, page_bytes};
use crate::slab::reclaim::SparseWalk;
use crate::slab::stats::Occupancy;
use core::ops::Range;
use quarry_sys::percpu::{Object, PerCpu};
use quarry_sys::primitive::Ordering::Relaxed;

const STEP_SLABS: usize = 16;
/// Maximum number of slabs examined in one critical section, which takes some 20 us.
const STEP_LOOKS: u32 = 128;
/// Maximum number of slabs folded in one critical section, with a system call or two for each.
const STEP_FOLDS: usize = 4;
/// Maximum number of pages of a slab, a bit each. Larger slabs (none in `malloc`) keep theirs.
const MOST_PAGES: usize = u64::BITS as usize;

fn next(walk: &mut SparseWalk, lengths: &[u32; BUCKETS]) -> Option<usize> {
    while walk.left == 0 && walk.list > 0 {
        walk.list = walk.list.min(EMPTY) - 1;
        walk.left = lengths[walk.list];
    }
    walk.left = walk.left.checked_sub(1)?;
    Some(walk.list)
}

#[derive(Clone, Copy)]
struct Held {
    pfn: Pfn,
    pages: u64,
}

impl Slab<'_> {
    fn objects_on(&self, page: usize, page_bytes: usize) -> Range<u32> {
        let (first, stride) = (self.cache.first_object(), self.cache.stride());
        let start = (page * page_bytes).saturating_sub(first) / stride;
        let end = ((page + 1) * page_bytes).saturating_sub(first).div_ceil(stride) as u32;
        start as u32..end.min(self.cache.objects())
    }

    /// Returns whether a page holds objects, none in use except `leaving`.
    fn is_without_use(&self, page: usize, page_bytes: usize, leaving: Option<u32>) -> bool {
        let objects = self.objects_on(page, page_bytes);
        let free = |index| {
            let own = leaving.filter(|number| number / 64 == index);
            self.bits_now(index) | own.map_or(0, |number| 1 << (number % 64))
        };
        !objects.is_empty() && self.masks(objects).all(|(index, mask)| free(index) & mask == mask)
    }

    /// The same for a page that also has no bits of the slab.
    fn is_unused(&self, page: usize, page_bytes: usize, leaving: Option<u32>) -> bool {
        let has_bits = !self.has_word_bits() && page * page_bytes < self.cache.first_object();
        !has_bits && self.is_without_use(page, page_bytes, leaving)
    }

    /// Returns whether the slab's first page can go back once the slab is folded.
    fn frees_page_by_folding(&self, page_bytes: usize) -> bool {
        !self.has_word_bits()
            && Word(self.word().load(Relaxed)).is_foldable(self.cache.objects())
            && self.cache.first_object() < page_bytes
            && self.is_without_use(0, page_bytes, None)
    }

    fn fold(&self) {
        self.demand_intact();
        let objects = self.cache.objects();
        let is_used = |number: &u32| self.bits_now(number / 64) >> (number % 64) & 1 == 0;
        self.word().store(Word::folded((0..objects).filter(is_used)).0, Relaxed);
    }

    /// Returns whether only object `number` keeps one of its pages, or the slab, from going back.
    fn keeps_page(&self, number: u32, page_bytes: usize) -> bool {
        if self.free() + 1 == self.cache.objects() {
            return true;
        }
        let mut pages = self.pages_of(number, page_bytes);
        !self.is_whole(page_bytes)
            && pages.any(|page| self.is_unused(page, page_bytes, Some(number)))
    }

    /// Returns whether no page of the slab goes back before the slab does.
    fn is_whole(&self, page_bytes: usize) -> bool {
        self.cache.has_constructor() || self.cache.order().bytes() / page_bytes > MOST_PAGES
    }

    fn pages_of(&self, number: u32, page_bytes: usize) -> Range<usize> {
        let start = self.cache.first_object() + number as usize * self.cache.stride();
        start / page_bytes..(start + self.cache.stride()).div_ceil(page_bytes)
    }

    /// See [`Occupancy::pinned`].
    fn pinned_by(&self, number: u32, page_bytes: usize) -> u64 {
        let share = |free: usize, live: u32| (free / live.max(1) as usize) as u64;
        let stride = self.cache.stride();
        if self.is_whole(page_bytes) {
            let (objects, free) = (self.cache.objects(), self.free());
            return share(free as usize * stride, objects - free);
        }
        let of_page = |page: usize| {
            let objects = self.objects_on(page, page_bytes);
            let all = objects.len() as u32;
            let free = self.masks(objects);
            let free = free.map(|(index, mask)| (self.bits_now(index) & mask).count_ones()).sum();
            let live: u32 = all - u32::min(all, free);
            share(page_bytes.saturating_sub(live as usize * stride), live)
        };
        self.pages_of(number, page_bytes).map(of_page).sum()
    }

    fn unused_pages(&self, page_bytes: usize) -> u64 {
        let pages = self.cache.order().bytes() / page_bytes;
        let fills_no_page = (self.free() as usize * self.cache.stride()) < page_bytes;
        if pages > MOST_PAGES || fills_no_page || self.is_folded() {
            return 0;
        }
        self.demand_intact();
        let unused = (0..pages).filter(|page| self.is_unused(*page, page_bytes, None));
        unused.fold(0, |pages, page| pages | 1 << page)
    }

    /// The numbers of the words that hold the bits of `objects`, with a mask for each.
    fn masks(&self, objects: Range<u32>) -> impl Iterator<Item = (u32, u64)> {
        let words = objects.start / 64..objects.end.div_ceil(64);
        words.map(move |index| {
            let start = objects.start.max(index * 64) - index * 64;
            let end = objects.end.min(index * 64 + 64) - index * 64;
            (index, (u64::MAX >> (64 - (end - start))) << start)
        })
    }

    /// Marks the objects of `pages` as free or not; returns how many changed.
    fn mark(&self, pages: u64, page_bytes: usize, free: bool) -> u32 {
        let mut changed = 0;
        for page in (0..MOST_PAGES).filter(|page| pages >> page & 1 == 1) {
            for (index, mask) in self.masks(self.objects_on(page, page_bytes)) {
                let mut word = self.open(index);
                word.now = if free { word.now | mask } else { word.now & !mask };
                let count = (word.before ^ word.now).count_ones();
                let digest = self.close(word);
                let objects = if free { u64::from(count) } else { u64::from(count).wrapping_neg() };
                self.note(digest, objects);
                changed += count;
            }
        }
        changed
    }

    /// Gives back the pages `held`, by one system call for neighbouring pages; returns the bytes.
    fn give_back(&self, held: u64, page_bytes: usize) -> usize {
        let page_frames = (page_bytes / FRAME_BYTES) as u32;
        let (mut pages, mut bytes) = (held, 0);
        while pages != 0 {
            let first = pages.trailing_zeros();
            let count = (pages >> first).trailing_ones();
            let frames = self.pfn.plus(first * page_frames);
            bytes += self.zones.purge_owned(frames, count * page_frames);
            pages &= !((u64::MAX >> (64 - count)) << first);
        }
        bytes
    }
}

impl Lists {
    fn hold(&mut self, slab: &Slab<'_>, pages: u64, page_bytes: usize) {
        let before = slab.free();
        let count = slab.mark(pages, page_bytes, false);
        self.nr_free -= u64::from(count);
        // The slab no longer shows how much the program touches: it is no sample of `Populating`.
        self.populating.gone(slab.pfn);
        self.moved(slab, before, before - count, End::Tail);
    }

    fn let_go(&mut self, slab: &Slab<'_>, pages: u64, page_bytes: usize) {
        let before = slab.free();
        let count = slab.mark(pages, page_bytes, true);
        self.nr_free += u64::from(count);
        self.moved(slab, before, before + count, End::Tail);
    }
}

impl<P: PerCpu> SlabsView<'_, P> {
    fn page_bytes(&self) -> usize {
        page_bytes(self.context.zones.arena().os())
    }

    /// The occupancy of the slab in which `object` lies; `None` if its address is in no slab of the
    /// cache, or the object is free in its slab. Holds the list lock for O(1).
    pub fn occupancy(&self, object: Object) -> Option<Occupancy> {
        let (context, cache) = (self.context, self.cache);
        let pfn = context.slab_of(cache, object);
        let (_, lists) = self.lock_owner(object);
        if context.zones.frames().kind(pfn) != cache.id().kind() {
            return None;
        }
        let slab = self.slab(pfn);
        let offset = object.as_ptr() as usize - slab.address.as_ptr() as usize;
        let number = cache.object_number(offset)?;
        if slab.bits_now(number / 64) >> (number % 64) & 1 == 1 {
            return None;
        }
        let live = |pfn| u64::from(cache.objects() - self.slab(pfn).free());
        let (own, empty, partial_slabs) =
            (live(pfn), u64::from(lists.nr_empty()), lists.nr_partial());
        let partial_live = (partial_slabs + empty) * u64::from(cache.objects()) - lists.nr_free;
        // The slab whose objects are taken next; `None` if it is empty or holds `object` itself.
        let dense = lists.slabs[..EMPTY].iter().find_map(List::first).filter(|dense| *dense != pfn);
        let is_sparse = dense.map(live).is_some_and(|dense| {
            // The average excludes `dense`, which may be the emptiest slab while it is filled.
            let (weight, others) = (own * (partial_slabs - 1), partial_live - dense);
            weight <= others || weight <= others * 9 / 8 && own <= dense
        });
        Some(Occupancy {
            bytes: cache.object_bytes(),
            live: own as u32,
            total: cache.objects(),
            slabs: lists.nr_slabs,
            partial_slabs,
            partial_live,
            is_sparse: is_sparse && own < u64::from(cache.objects()),
            frees_page: slab.keeps_page(number, self.page_bytes()),
            pinned: slab.pinned_by(number, self.page_bytes()),
        })
    }

    /// One step of a walk through the partial slabs: gives some of their pages back, and returns
    /// the bytes. Holds the list lock for at most 128 slabs at a time, and not in a system call
    /// unless it folds slabs.
    pub fn purge_sparse(&self, walk: &mut SparseWalk) -> usize {
        let page_bytes = self.page_bytes();
        let may_fold = !self.context.zones.arena().os().runs_others();
        let mut held = [Held { pfn: Pfn(0), pages: 0 }; STEP_SLABS];
        let (mut count, mut folds, mut bytes) = (0, 0, 0);
        let mut lists = self.lock(walk.shard_of(self.slabs.more.count()));
        for _ in 0..STEP_LOOKS {
            if count == held.len() || folds == STEP_FOLDS {
                break;
            }
            let Some(bucket) = next(walk, &lists.lengths) else { break };
            let Some(first) = lists.slabs[bucket].first() else { continue };
            let slab = self.slab(first);
            lists.remove(&slab, bucket);
            lists.add(&slab, bucket, End::Tail);
            let pages = slab.unused_pages(page_bytes);
            if may_fold && slab.frees_page_by_folding(page_bytes) {
                lists.populating.gone(first);
                slab.fold();
                bytes += slab.give_back(pages | 1, page_bytes);
                folds += 1;
            } else if pages != 0 {
                lists.hold(&slab, pages, page_bytes);
                held[count] = Held { pfn: first, pages };
                count += 1;
            }
        }
        drop(lists);
        let held = &held[..count];
        let slab = |it: &Held| self.slab(it.pfn);
        bytes += held.iter().map(|it| slab(it).give_back(it.pages, page_bytes)).sum::<usize>();
        self.let_go(held, page_bytes);
        walk.go_on();
        bytes
    }

    /// Lets requests have the pages `held` again. Another shard may have taken a slab over by now.
    fn let_go(&self, held: &[Held], page_bytes: usize) {
        let mut rest = held.iter().peekable();
        while let Some(first) = rest.peek() {
            let (shard, mut lists) = self.lock_owner(self.slab(first.pfn).address);
            let empty = lists.nr_empty();
            let is_theirs = |it: &&Held| self.slab(it.pfn).owner() == shard;
            while let Some(it) = rest.next_if(is_theirs) {
                lists.let_go(&self.slab(it.pfn), it.pages, page_bytes);
            }
            self.note_empty(shard, &lists, empty);
        }
    }
}
