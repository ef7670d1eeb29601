//! The page cache as a part of the budget: which side gives way, groups, and pinned pages.

use crate::support::idle::reclaim;
use crate::support::{Backing, Bed, VirtualConfig, on_cpu, small};
use quarry_cache::lru::PageNo;
use quarry_cache::page_cache::{
    Effort, MappingId, MappingOptions, PageCacheRef, ReadError, ScanFor, ScanRequest,
};
use quarry_cache::{Count, Goal, PageCaching, ReclaimCaller, Scanned, ShrinkControl, Shrinker};
use quarry_mm::frame::FRAME_BYTES;
use quarry_mm::heap::options::StackOptions;
use quarry_mm::slab::Sheaf;
use quarry_mm::stack::{ReclaimState, Stack, StackHost};
use quarry_mm::zone::{GroupId, GroupLimits, Mark, Name};
use quarry_sys::hooks::HookId;
use quarry_sys::percpu::Object;
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::{Barrier, Mutex};

type Config = VirtualConfig<Sheaf>;
type Cache<'a> = PageCacheRef<'a, Stack<Config>>;

const MIB: usize = 1 << 20;
const LIMIT: usize = 32 * MIB;

fn bed() -> Bed<Config> {
    let mut options = StackOptions { heap: true, ..small() };
    options.pages.limit_frames = (LIMIT / FRAME_BYTES) as u32;
    options.pages.reserve_bytes = 256 * MIB;
    on_cpu(0);
    Bed::new(Backing::Linux, 4096, 2, &options)
}

fn group(stack: &Stack<Config>, limits: GroupLimits) -> GroupId {
    stack
        .groups
        .create(GroupId::ROOT, Name::of("job"), limits, stack.metadata())
        .expect("there are few")
}

fn mapping(cache: Cache<'_>, group: GroupId) -> MappingId {
    let options = MappingOptions { group: group.0, ..MappingOptions::default() };
    cache.create_mapping(&options).expect("there is memory")
}

/// Reads a page, and unpins it.
fn touch(cache: Cache<'_>, id: MappingId, index: u64) -> Result<(), ReadError> {
    let page = cache.read(id, index, &mut |_, _| Ok(()))?;
    cache.unpin(page);
    Ok(())
}

fn balance(stack: &Stack<Config>) -> u32 {
    quarry_cache::balance(stack, ReclaimCaller::Background, Goal::HighMark, || ()).missing
}

fn end(bed: &Bed<Config>, cache: Cache<'_>, ids: &[MappingId]) {
    ids.iter().for_each(|id| assert!(cache.destroy_mapping(*id)));
    cache.trim();
    assert_eq!(cache.validate(), Ok(()));
    bed.assert_empty(&[]);
}

#[test]
fn the_high_mark_comes_back_and_what_is_evicted_is_free() {
    let bed = bed();
    let (stack, budget) = (&*bed.stack, bed.stack.pages().zones().budget());
    let cache = PageCaching::open(stack).expect("there is memory");
    let id = mapping(cache, GroupId::ROOT);
    let (mut next, mut freed, mut evicted) = (0, 0, 0);
    for round in 0..40 {
        while !budget.is_below(Mark::Low) {
            touch(cache, id, next).expect("above the low mark");
            next += 1;
        }
        let (used, pages) = (budget.used(), cache.pages_of(id));
        assert_eq!(balance(stack), 0, "round {round}");
        assert!(budget.free() >= budget.marks().high, "round {round}");
        freed += u64::from(used - budget.used());
        evicted += pages - cache.pages_of(id);
        assert!(cache.pages_of(id) > 6000, "no more than it takes: {}", cache.pages_of(id));
    }
    let part = freed as f64 / evicted as f64;
    assert!(part >= 0.9, "{freed} frames freed by {evicted} evictions");
    end(&bed, cache, &[id]);
}

/// The heap grows, and the page cache makes room for it; then the cache gets the memory back.
#[test]
fn the_heap_takes_what_the_cache_has_and_gives_it_back() {
    let bed = bed();
    let stack = &*bed.stack;
    let cache = PageCaching::open(stack).expect("there is memory");
    let id = mapping(cache, GroupId::ROOT);
    let pages = (LIMIT / FRAME_BYTES) as u64;
    let mut looks = ReclaimState::new();
    for round in 0..3 {
        // The idle heap gives back what it has parked, as the background would make it do.
        for _ in 0..2 {
            reclaim(stack, &mut looks);
        }
        for index in 0..pages {
            touch(cache, id, index).expect("clean pages make room");
        }
        assert!(cache.pages_of(id) > pages * 8 / 10, "{} pages", cache.pages_of(id));
        for size in [1000, 20_000, 300_000, 4 * MIB] {
            let objects: Vec<_> = (0..LIMIT / 2 / size)
                .map(|_| stack.alloc(size))
                .take_while(Option::is_some)
                .collect();
            let got = objects.len() * size;
            assert!(got >= LIMIT * 4 / 10, "round {round}: {got} bytes in objects of {size}");
            for object in objects.into_iter().flatten() {
                // SAFETY: the object was just allocated, and no other code uses it.
                unsafe { stack.free(object) };
            }
        }
    }
    let stats = stack.stats().budget;
    assert!(stats.direct_reclaims > 0 && stats.direct_ns.p999 > 0, "{stats:?}");
    end(&bed, cache, &[id]);
}

/// Objects of the program, the oldest first, that a shrinker frees.
struct Objects<'a>(&'a Stack<Config>, Mutex<VecDeque<usize>>);

impl Objects<'_> {
    const SIZE: usize = 2000;

    fn add(&self) -> bool {
        let object = self.0.alloc(Self::SIZE).map(|object| object.as_ptr() as usize);
        object.map(|object| self.1.lock().unwrap().push_back(object)).is_some()
    }

    fn free(&self, most: u64) -> u64 {
        let mut objects = self.1.lock().unwrap();
        let count = objects.len().min(most as usize);
        for object in objects.drain(..count) {
            // SAFETY: `add` allocated the object, and only the list knew it.
            unsafe { self.0.free(Object::new(object as *mut u8).unwrap()) };
        }
        count as u64
    }

    fn len(&self) -> usize {
        self.1.lock().unwrap().len()
    }
}

/// Registers a shrinker, which its test removes.
fn register<S: Shrinker>(stack: &Stack<Config>, shrinker: &S) -> HookId {
    // SAFETY: the shrinker lives on in the test, which removes it before its end.
    unsafe { stack.cached().shrinkers().add(shrinker, Default::default()) }.expect("a place")
}

/// Makes 10 MiB of objects, and reads pages down to the low mark; returns how many of each exist.
fn fill_to_low(cache: Cache<'_>, id: MappingId, objects: &Objects<'_>) -> (u64, usize) {
    while objects.len() * Objects::SIZE < 10 * MIB {
        assert!(objects.add());
    }
    let budget = objects.0.pages().zones().budget();
    for index in (0..).take_while(|_| !budget.is_below(Mark::Low)) {
        touch(cache, id, index).expect("above the low mark");
    }
    (cache.pages_of(id), objects.len())
}

impl Shrinker for Objects<'_> {
    fn count(&self, _: &ShrinkControl) -> Count {
        Count::Objects(self.len() as u64)
    }

    fn scan(&self, control: &ShrinkControl) -> Scanned {
        let freed = self.free(control.objects);
        Scanned::Objects { freed, scanned: freed }
    }
}

/// A burst of the heap evicts pages before a balance runs. The balance takes from the shrinkers
/// what lets the cache come back to the part that the shrinkers kept. The last burst is a request
/// for which all pages do not suffice, so it waits for the balance.
#[test]
fn shrinkers_pay_for_a_burst_that_took_pages() {
    for (objects_mib, burst_mib, size) in
        [(10, 9, 20_000), (3, 12, 300_000), (20, 6, 1000), (10, 9, 9 * MIB), (16, 16, 16 * MIB)]
    {
        let bed = bed();
        let (stack, budget) = (&*bed.stack, bed.stack.pages().zones().budget());
        let cache = PageCaching::open(stack).expect("there is memory");
        let id = mapping(cache, GroupId::ROOT);
        let objects = Objects(stack, Mutex::default());
        let shrinker = register(stack, &objects);
        while objects.len() * Objects::SIZE < objects_mib * MIB {
            assert!(objects.add());
        }
        let mut read = 0;
        while budget.free() > budget.marks().high + 64 {
            touch(cache, id, read).expect("there is memory");
            read += 1;
        }
        let (pages, all) = (cache.pages_of(id), objects.len());
        let requests = burst_mib * MIB / size;
        let mut burst: Vec<_> = (0..requests).map_while(|_| stack.alloc(size)).collect();
        assert!(burst.len() == requests || size == 16 * MIB, "clean pages make room");
        assert!(cache.pages_of(id) < pages, "the burst took pages");
        assert_eq!(objects.len(), all, "a request calls no shrinker");
        budget.reclaimers().begin_wait(((requests - burst.len()) * size / FRAME_BYTES) as u32);
        assert_eq!(balance(stack), 0);
        burst.extend((burst.len()..requests).map(|_| stack.alloc(size).expect("there is room")));
        budget.reclaimers().end_wait();
        let spare = u64::from(budget.free() - budget.marks().high);
        (read..read + spare).for_each(|page| touch(cache, id, page).expect("there is memory"));
        let part = |now: f64, before: f64| now / before;
        let kept = part(cache.pages_of(id) as f64, pages as f64);
        let kept_objects = part(objects.len() as f64, all as f64);
        // The balance drains page lists of about a megabyte, which reads fill again.
        let fair = 0.65..1.54;
        assert!(kept_objects < 0.95, "{kept_objects} of the objects are left");
        let both = (kept, kept_objects);
        assert!(fair.contains(&(kept / kept_objects)), "{burst_mib} MiB of {size}: {both:?}");
        for object in burst {
            // SAFETY: the object was just allocated, and no other code uses it.
            unsafe { stack.free(object) };
        }
        let before = objects.len();
        assert_eq!((balance(stack), objects.len()), (0, before), "nothing is owed twice");
        assert!(stack.cached().shrinkers().remove(shrinker));
        objects.free(u64::MAX);
        end(&bed, cache, &[id]);
    }
}

/// Objects whose memory another thread takes at once, and that of evicted pages as well, so that
/// hardly a frame leaves the budget while its burst goes on.
struct Taken<'a> {
    objects: Objects<'a>,
    takers: Objects<'a>,
}

impl Taken<'_> {
    const BURST: usize = 12 * MIB;

    fn has_room(&self) -> bool {
        self.takers.len() < Self::BURST / Objects::SIZE
    }
}

impl Shrinker for Taken<'_> {
    fn count(&self, control: &ShrinkControl) -> Count {
        self.objects.count(control)
    }

    fn scan(&self, control: &ShrinkControl) -> Scanned {
        let freed = self.objects.free(control.objects);
        let left = (Self::BURST / Objects::SIZE).saturating_sub(self.takers.len());
        (0..left.min(freed as usize + 100)).take_while(|_| self.takers.add()).count();
        Scanned::Objects { freed, scanned: freed }
    }
}

/// A program that takes the memory of freed objects at once loses about the same part of them as of
/// pages, although no number of freed objects helps.
#[test]
fn objects_whose_memory_is_taken_at_once_go_with_the_pages() {
    let bed = bed();
    let (stack, budget) = (&*bed.stack, bed.stack.pages().zones().budget());
    let cache = PageCaching::open(stack).expect("there is memory");
    let id = mapping(cache, GroupId::ROOT);
    let taken = Taken {
        objects: Objects(stack, Mutex::default()),
        takers: Objects(stack, Mutex::default()),
    };
    let shrinker = register(stack, &taken);
    let (pages, all) = fill_to_low(cache, id, &taken.objects);
    while taken.has_room() {
        while !budget.is_below(Mark::Low) && taken.has_room() {
            assert!(taken.takers.add());
        }
        balance(stack);
    }
    let kept = cache.pages_of(id) as f64 / pages as f64;
    let kept_objects = taken.objects.len() as f64 / all as f64;
    assert!(kept < 0.9 && kept_objects < 0.95, "both give: {kept} {kept_objects}");
    assert!((0.8..1.25).contains(&(kept / kept_objects)), "{kept} {kept_objects}");
    assert!(stack.cached().shrinkers().remove(shrinker));
    taken.objects.free(u64::MAX);
    taken.takers.free(u64::MAX);
    end(&bed, cache, &[id]);
}

/// A balance each time that a burst has reached the low mark, as on one CPU: pages and objects go
/// in proportion, although the first look at each page only clears the mark of its use.
#[test]
fn many_small_balances_take_of_pages_and_objects_in_proportion() {
    for size in [1000, 20_000, 300_000] {
        let bed = bed();
        let (stack, budget) = (&*bed.stack, bed.stack.pages().zones().budget());
        let cache = PageCaching::open(stack).expect("there is memory");
        let id = mapping(cache, GroupId::ROOT);
        let objects = Objects(stack, Mutex::default());
        let shrinker = register(stack, &objects);
        let (pages, all) = fill_to_low(cache, id, &objects);
        (0..pages).for_each(|page| touch(cache, id, page).expect("it is cached"));
        let mut burst = Vec::new();
        while burst.len() * size < 12 * MIB {
            burst.push(stack.alloc(size).expect("pages and objects make room"));
            if budget.is_below(Mark::Low) {
                assert_eq!(balance(stack), 0);
            }
        }
        let kept = cache.pages_of(id) as f64 / pages as f64;
        let kept_objects = objects.len() as f64 / all as f64;
        assert!(kept < 0.9 && kept_objects < 0.9, "both give: {kept} {kept_objects}");
        assert!((0.65..1.54).contains(&(kept / kept_objects)), "{size}: {kept} {kept_objects}");
        assert!(stack.cached().shrinkers().remove(shrinker));
        for object in burst {
            // SAFETY: the object was just allocated, and no other code uses it.
            unsafe { stack.free(object) };
        }
        objects.free(u64::MAX);
        end(&bed, cache, &[id]);
    }
}

/// A balance that finds all pages behind the lock of another task waits for it, and does not take
/// the objects instead.
#[test]
fn a_lock_of_another_task_costs_no_objects() {
    let bed = bed();
    let stack = &*bed.stack;
    let cache = PageCaching::open(stack).expect("there is memory");
    let id = mapping(cache, GroupId::ROOT);
    let objects = Objects(stack, Mutex::default());
    let shrinker = register(stack, &objects);
    let (pages, all) = fill_to_low(cache, id, &objects);
    let (is_held, is_over) = (Barrier::new(2), Barrier::new(2));
    let steps = Cell::new(0);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            on_cpu(1);
            assert!(cache.while_locked(id, || {
                is_held.wait();
                is_over.wait();
            }));
            is_over.wait();
        });
        is_held.wait();
        let release = || {
            is_over.wait();
            is_over.wait();
        };
        // More steps than a balance takes from the first priority to the last.
        let enter = || {
            steps.set(steps.get() + 1);
            if steps.get() == 100 {
                release();
            }
        };
        let caller = ReclaimCaller::Background;
        let balanced = quarry_cache::balance(stack, caller, Goal::HighMark, enter);
        if steps.get() < 100 {
            release();
        }
        assert_eq!(balanced.missing, 0);
        assert!(steps.get() >= 100, "the balance did not wait: {balanced:?}");
    });
    let kept = cache.pages_of(id) as f64 / pages as f64;
    let kept_objects = objects.len() as f64 / all as f64;
    assert!((0.8..1.25).contains(&(kept / kept_objects)), "{kept} {kept_objects}");
    assert!(stack.cached().shrinkers().remove(shrinker));
    objects.free(u64::MAX);
    end(&bed, cache, &[id]);
}

/// No shrinker owes what the page cache evicts for its own reads.
#[test]
fn a_cache_that_replaces_its_pages_takes_no_objects() {
    let bed = bed();
    let stack = &*bed.stack;
    let cache = PageCaching::open(stack).expect("there is memory");
    let id = mapping(cache, GroupId::ROOT);
    let objects = Objects(stack, Mutex::default());
    let shrinker = register(stack, &objects);
    (0..5000).for_each(|_| assert!(objects.add()));
    let pages = (LIMIT / FRAME_BYTES) as u64;
    for index in 0..4 * pages {
        touch(cache, id, index).expect("clean pages make room");
    }
    assert!(!quarry_cache::is_owed(stack));
    assert_eq!(balance(stack), 0);
    assert!(objects.len() > 4500, "{} of 5000 objects", objects.len());
    assert!(stack.cached().shrinkers().remove(shrinker));
    objects.free(u64::MAX);
    end(&bed, cache, &[id]);
}

#[test]
fn where_all_pages_are_pinned_a_request_fails_once_and_goes_on_after_an_unpin() {
    let bed = bed();
    let stack = &*bed.stack;
    let cache = PageCaching::open(stack).expect("there is memory");
    let id = mapping(cache, GroupId::ROOT);
    let mut pinned: Vec<PageNo> = Vec::new();
    let refused = loop {
        match cache.read(id, pinned.len() as u64, &mut |_, _| Ok(())) {
            Ok(page) => pinned.push(page),
            Err(error) => break error,
        }
    };
    assert_eq!(refused, ReadError::Full);
    assert!(pinned.len() * FRAME_BYTES > LIMIT * 8 / 10);
    // No scan goes on without end: a reclaim looks at each page at most twice.
    let scanned = |cache: Cache<'_>| {
        use quarry_cache::page_cache::Event;
        cache.events()[Event::ScannedDirect]
    };
    let before = scanned(cache);
    assert_eq!(cache.read(id, 1 << 30, &mut |_, _| Ok(())), Err(ReadError::Full));
    let looked = scanned(cache) - before;
    // Two reclaims: each makes 32 scans of 32 pages, and two passes over all pages.
    let most = 2 * 32 * 32 + 4 * pinned.len() as u64;
    assert!(looked <= most, "{looked} looks at {} pages", pinned.len());
    assert_eq!(stack.alloc(MIB), None, "malloc has nothing either");
    assert!(balance(stack) > 0);
    for page in pinned.drain(..64) {
        cache.unpin(page);
    }
    // A reclaim ends after some time, so it may not reach the 64 pages if the thread loses its CPU.
    // The next one begins after the pages that the last one scanned.
    let mut requests = 0..pinned.len();
    assert!(requests.any(|_| touch(cache, id, 1 << 30).is_ok()), "64 pages can go");
    pinned.into_iter().for_each(|page| cache.unpin(page));
    end(&bed, cache, &[id]);
}

#[test]
fn dirty_pages_stay() {
    let bed = bed();
    let stack = &*bed.stack;
    let cache = PageCaching::open(stack).expect("there is memory");
    let id = mapping(cache, GroupId::ROOT);
    let mut dirty = 0;
    while let Ok(page) = cache.read(id, dirty, &mut |_, _| Ok(())) {
        cache.mark_dirty(page);
        cache.unpin(page);
        dirty += 1;
    }
    balance(stack);
    assert_eq!(cache.events().dirty(), dirty);
    assert_eq!(stack.stats().budget.dirty, dirty as usize * FRAME_BYTES);
    assert_eq!(stack.stats().budget.balances.pages_freed, 0);
    end(&bed, cache, &[id]);
}

fn limits(max: usize) -> GroupLimits {
    GroupLimits { max: (max / FRAME_BYTES) as u32, ..GroupLimits::default() }
}

/// The containment of document 002: each job has a limit of its own, and meets it alone.
#[test]
fn a_group_meets_its_limit_alone() {
    let bed = bed();
    let (stack, groups) = (&*bed.stack, bed.stack.groups());
    let cache = PageCaching::open(stack).expect("there is memory");
    let jobs = [4 * MIB, 8 * MIB].map(|max| group(stack, limits(max)));
    let ids = jobs.map(|job| mapping(cache, job));
    for index in 0..2048 {
        touch(cache, ids[1], index).expect("within its limit");
    }
    let quiet = cache.pages_of(ids[1]);
    assert_eq!(quiet, 2048);
    for index in 0..10_000 {
        touch(cache, ids[0], index).expect("clean pages of its own make room");
        assert!(groups.at(jobs[0]).used() <= 1024);
    }
    assert!(cache.pages_of(ids[0]) > 900, "{} pages", cache.pages_of(ids[0]));
    assert_eq!(cache.pages_of(ids[1]), quiet, "the other job has lost nothing");
    // The latest pages are still cached, as far as the LRU approximates the order of use.
    let kept = (9_500..10_000).filter(|index| {
        let page = cache.get(ids[0], *index);
        page.into_iter().for_each(|page| cache.unpin(page));
        page.is_some()
    });
    assert!(kept.count() > 400);
    assert_eq!(cache.validate(), Ok(()));
    end(&bed, cache, &ids);
    jobs.into_iter().for_each(|job| assert!(stack.end_group(job)));
}

#[test]
fn a_group_whose_pages_are_in_use_is_refused_after_one_reclaim() {
    let bed = bed();
    let (stack, groups) = (&*bed.stack, bed.stack.groups());
    let cache = PageCaching::open(stack).expect("there is memory");
    let job = group(stack, limits(MIB));
    let id = mapping(cache, job);
    let pinned: Vec<PageNo> =
        (0..256).map(|index| cache.read(id, index, &mut |_, _| Ok(())).unwrap()).collect();
    let before = groups.at(job).counts();
    assert_eq!(cache.read(id, 300, &mut |_, _| Ok(())), Err(ReadError::Full));
    assert_eq!(groups.at(job).counts(), (before.0 + 1, before.1 + 1), "refusals, reclaims");
    // A request with `Effort::Easy` reclaims nothing.
    assert!(cache.get_or_alloc(id, 300, Effort::Easy).is_err());
    assert_eq!(groups.at(job).counts(), (before.0 + 2, before.1 + 1));
    pinned.into_iter().for_each(|page| cache.unpin(page));
    touch(cache, id, 300).expect("its own pages make room");
    assert!(!stack.end_group(job), "it has a mapping");
    end(&bed, cache, &[id]);
    assert!(stack.end_group(job));
}

#[test]
fn a_protected_group_keeps_its_pages_while_others_pay() {
    let none = GroupLimits::default();
    for protected in [GroupLimits { min: 2000, ..none }, GroupLimits { low: 2000, ..none }] {
        let bed = bed();
        let stack = &*bed.stack;
        let cache = PageCaching::open(stack).expect("there is memory");
        let job = group(stack, protected);
        // The protection of a group is that of its parts.
        let part = stack
            .groups
            .create(job, Name::of("part"), none, stack.metadata())
            .expect("there are few");
        let kept = mapping(cache, part);
        let other = mapping(cache, GroupId::ROOT);
        for index in 0..1500 {
            touch(cache, kept, index).expect("there is room");
        }
        for index in 0..30_000 {
            touch(cache, other, index).expect("pages of the other make room");
            if stack.pages().zones().budget().is_below(Mark::Low) {
                balance(stack);
            }
        }
        assert_eq!(cache.pages_of(kept), 1500);
        assert!(cache.pages_of(other) > 3000);
        end(&bed, cache, &[kept, other]);
    }
}

/// Where no other memory is left, the low limit of a group gives way, and its min limit does not.
#[test]
fn a_group_within_its_low_limit_pays_if_no_other_can() {
    let none = GroupLimits::default();
    let all = (LIMIT / FRAME_BYTES) as u32;
    for (protected, gives) in
        [(GroupLimits { min: all, ..none }, false), (GroupLimits { low: all, ..none }, true)]
    {
        let bed = bed();
        let stack = &*bed.stack;
        let cache = PageCaching::open(stack).expect("there is memory");
        let kept = mapping(cache, group(stack, protected));
        let is_full = (0..2 * u64::from(all)).any(|index| touch(cache, kept, index).is_err());
        assert_eq!(is_full, !gives);
        end(&bed, cache, &[kept]);
    }
}

#[test]
fn the_background_takes_what_a_group_has_above_its_high_limit() {
    let bed = bed();
    let (stack, groups) = (&*bed.stack, bed.stack.groups());
    let cache = PageCaching::open(stack).expect("there is memory");
    let limits = GroupLimits { high: 1000, ..GroupLimits::default() };
    let job = group(stack, limits);
    let id = mapping(cache, job);
    for index in 0..1500 {
        touch(cache, id, index).expect("there is room");
    }
    assert_eq!(groups.at(job).above_high(), 500);
    assert!(groups.is_any_above_high());
    balance(stack);
    assert_eq!(groups.at(job).above_high(), 0);
    assert!(cache.pages_of(id) > 900, "and no more: {}", cache.pages_of(id));
    assert!(!groups.is_any_above_high());
    end(&bed, cache, &[id]);
}

#[test]
fn a_clock_frees_pages_although_all_of_them_were_used() {
    let bed = bed();
    let (stack, groups) = (&*bed.stack, bed.stack.groups());
    let cache = PageCaching::open(stack).expect("there is memory");
    let job = group(stack, GroupLimits::default());
    let ids = [(); 5].map(|()| mapping(cache, job));
    for index in 0..1000 {
        for id in ids {
            touch(cache, id, index).expect("there is room");
            touch(cache, id, index).expect("it is there");
        }
    }
    let request = ScanRequest {
        who: ScanFor::Direct,
        most: 32,
        most_scanned: 100_000,
        until_ns: u64::MAX,
        spares_low: true,
    };
    for round in 0..100 {
        let done = cache.reclaim_group(job, &request);
        assert_eq!(done.freed, 32, "round {round}");
        assert!(done.scanned <= 512, "round {round}: {done:?}");
        assert_eq!(cache.validate(), Ok(()));
    }
    assert_eq!(groups.at(job).used(), 5000 - 3200);
    end(&bed, cache, &ids);
}
