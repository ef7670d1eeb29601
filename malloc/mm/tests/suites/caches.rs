//! The suite creates and destroys caches under every slab policy: numbers that are used again,
//! constructors, objects that were never freed, merging. An oracle checks random operations.

use crate::support::{Backing, Bed, VirtualConfig, check, on_cpu, small};
use proptest::prelude::*;
use quarry_mm::frame::MetadataKind;
use quarry_mm::heap::classes;
use quarry_mm::heap::options::StackOptions;
use quarry_mm::slab::{
    CacheId, CacheOptions, CacheParams, Constructor, LOOSE, MAX_CACHES, PolicyOptions, Remaining,
    Sheaf, SlabPolicy, SlabStats, WithLoose,
};
use quarry_mm::stack::StackHost;
use quarry_sys::percpu::{Object, PerCpu, VirtualSlots};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_void;
use std::mem::MaybeUninit;

/// Makes the tests of the suite for each policy.
macro_rules! stamp {
    ($($name:ident: $text:literal, $policy:ty;)*) => {$(
        mod $name {
            #[test]
            fn caches_that_come_and_go_agree_with_the_oracle() {
                for slots in [1, 3] {
                    super::random_lives::<$policy>(slots);
                }
            }

            #[test]
            fn constructed_objects_stay_as_they_were_left_under_any_traffic() {
                super::traffic::<$policy>();
            }

            #[test]
            fn objects_that_were_never_freed_are_named() {
                super::never_freed::<$policy>();
            }

            #[test]
            fn a_number_that_is_used_again_costs_nothing_more() {
                super::used_again::<$policy>();
            }

            #[test]
            fn there_are_as_many_caches_as_numbers() {
                super::all_numbers::<$policy>();
            }

            #[test]
            fn caches_that_are_merged_go_one_by_one() {
                super::merged::<$policy>();
            }
        }
    )*};
}

slab_policies!(stamp);
stamp! { direct: "direct", crate::support::Direct; }

type PolicyBed<S> = Bed<VirtualConfig<S>>;

thread_local! {
    /// Addresses for which constructors ran on this thread since the last `note_made`.
    static MADE: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// The value of every word of a new object at this address.
fn new_value(address: usize) -> u64 {
    address as u64 ^ 0x5eed_5eed_5eed_5eed
}

/// A constructor of objects of `WORDS` words.
///
/// # Safety
/// `WORDS` words may be written at `object`.
unsafe extern "C" fn make<const WORDS: usize>(object: *mut c_void) {
    let address = object as usize;
    MADE.with_borrow_mut(|made| made.push(address));
    for word in 0..WORDS {
        // SAFETY: the object has `WORDS` words.
        unsafe { object.cast::<u64>().add(word).write(new_value(address)) };
    }
}

/// Sizes of objects in words, with their constructors.
const SHAPES: [(usize, unsafe extern "C" fn(*mut c_void)); 5] =
    [(2, make::<2>), (6, make::<6>), (24, make::<24>), (200, make::<200>), (1500, make::<1500>)];

fn set_words(object: Object, words: usize, value: u64) {
    // SAFETY: the object has `words` words, and only the test uses it.
    (0..words).for_each(|word| unsafe { object.cast::<u64>().add(word).write(value) });
}

fn has_words(object: Object, words: usize, value: u64) -> bool {
    // SAFETY: as for `set_words`; the caller has written these words.
    (0..words).all(|word| unsafe { object.cast::<u64>().add(word).read() } == value)
}

/// A cache as it was requested. Under a policy that merges, several entries may be one cache.
struct Entry {
    id: CacheId,
    words: usize,
    is_constructed: bool,
    live: Vec<Object>,
}

#[derive(Clone, Debug)]
enum Op {
    Create { shape: usize, align: u32, is_constructed: bool, unmerged: bool },
    Destroy { entry: usize },
    Alloc { entry: usize, count: usize },
    AllocBulk { entry: usize, count: usize },
    Free { entry: usize, count: usize },
    FreeBulk { entry: usize, count: usize },
    Shrink { entry: usize },
    Empty { entry: usize },
}

fn step() -> impl Strategy<Value = (u32, Op)> {
    let count = prop_oneof![5 => 0usize..8, 2 => 8usize..70, 1 => 70usize..160];
    let entry = any::<u16>().prop_map(usize::from);
    let some = (entry.clone(), count);
    let flags = (any::<bool>(), any::<bool>());
    let op = prop_oneof![
        4 => (0..SHAPES.len(), 3u32..9, flags).prop_map(|(shape, align, flags)| {
            Op::Create { shape, align, is_constructed: flags.0, unmerged: flags.1 }
        }),
        3 => entry.clone().prop_map(|entry| Op::Destroy { entry }),
        6 => some.clone().prop_map(|(entry, count)| Op::Alloc { entry, count }),
        3 => some.clone().prop_map(|(entry, count)| Op::AllocBulk { entry, count }),
        6 => some.clone().prop_map(|(entry, count)| Op::Free { entry, count }),
        3 => some.prop_map(|(entry, count)| Op::FreeBulk { entry, count }),
        1 => entry.clone().prop_map(|entry| Op::Shrink { entry }),
        3 => entry.prop_map(|entry| Op::Empty { entry }),
    ];
    (0u32..8, op)
}

/// A bed with its caches and their objects.
struct Play<S: SlabPolicy<VirtualSlots> + 'static> {
    bed: PolicyBed<S>,
    entries: Vec<Entry>,
    /// Allocations and frees of each cache.
    counts: BTreeMap<usize, (u64, u64)>,
    /// For each object in use, and each object of a cache with a constructor: the value of its
    /// words, and how many of them a user has written.
    values: BTreeMap<usize, (u64, usize)>,
    next_value: u64,
    constructed: u64,
    /// Objects for which constructors had to run, in slabs of caches that no longer exist.
    of_the_past: u64,
}

impl<S: SlabPolicy<VirtualSlots> + 'static> Play<S> {
    fn new(slots: u32) -> Self {
        MADE.with_borrow_mut(Vec::clear);
        Self {
            bed: PolicyBed::<S>::new(Backing::Fake, 4096, slots, &small()),
            entries: Vec::new(),
            counts: BTreeMap::new(),
            values: BTreeMap::new(),
            next_value: 0,
            constructed: 0,
            of_the_past: 0,
        }
    }

    fn stats(&self, id: CacheId) -> SlabStats {
        self.bed.stack.cache(id).stats()
    }

    fn live_of(&self, id: CacheId) -> BTreeSet<usize> {
        let of_cache = self.entries.iter().filter(|entry| entry.id == id);
        of_cache.flat_map(|entry| &entry.live).map(|object| object.as_ptr() as usize).collect()
    }

    /// Notes the objects that constructors have made since the last call.
    fn note_made(&mut self) {
        for address in MADE.with_borrow_mut(std::mem::take) {
            let is_live =
                |entry: &Entry| entry.live.iter().any(|object| object.as_ptr() as usize == address);
            assert!(!self.entries.iter().any(is_live), "{address:#x} is made while it is in use");
            self.values.insert(address, (new_value(address), 0));
            self.constructed += 1;
        }
    }

    fn create(&mut self, shape: usize, align: u32, is_constructed: bool, unmerged: bool) {
        let (words, constructor) = SHAPES[shape];
        if self.entries.len() > 12 {
            return;
        }
        let params = CacheParams { size: words * 8, align: 1 << align };
        // SAFETY: the constructor writes as many words as the object has.
        let constructor = is_constructed.then(|| unsafe { Constructor::new(constructor) });
        let options = CacheOptions { constructor, unmerged, ..CacheOptions::default() };
        let id = self.bed.stack.create_cache("comes", &params, &options);
        let id = id.expect("there is room");
        let cache = self.bed.stack.cache(id);
        assert_eq!(cache.has_constructor(), is_constructed);
        if self.entries.iter().any(|entry| entry.id == id) {
            assert!(
                S::merges(PolicyOptions::default()) && !is_constructed && !unmerged,
                "this cache is nobody else's"
            );
        } else {
            let stats = cache.stats();
            let counts = [stats.allocs(), stats.frees(), stats.total_slabs, stats.slabs_allocated];
            assert_eq!(counts, [0; 4], "a new cache has counted nothing: {stats:?}");
            self.counts.insert(id.index(), (0, 0));
        }
        self.entries.push(Entry { id, words, is_constructed, live: Vec::new() });
    }

    fn destroy(&mut self, number: usize) {
        let id = self.entries[number].id;
        let is_shared = self.entries.iter().filter(|entry| entry.id == id).count() > 1;
        let (stats, objects) = (self.stats(id), self.bed.stack.cache(id).objects());
        // SAFETY: the test has one thread, and uses no cache that is gone.
        let done = unsafe { self.bed.stack.destroy_cache(id) };
        if is_shared {
            assert_eq!(done, Ok(()), "others share it");
            let gone = self.entries.swap_remove(number);
            let heir = self.entries.iter_mut().find(|entry| entry.id == id);
            return heir.expect("it is shared").live.extend(gone.live);
        }
        let live = self.live_of(id);
        if live.is_empty() {
            assert_eq!(done, Ok(()));
            let gone = self.entries.swap_remove(number);
            if gone.is_constructed {
                self.of_the_past += stats.slabs_allocated * u64::from(objects);
            }
            assert!(self.bed.stack.caches.get(id).is_none());
        } else {
            self.is_named(done, &live);
        }
    }

    fn is_named(&self, done: Result<(), Remaining>, live: &BTreeSet<usize>) {
        let remaining = done.expect_err("objects are in use");
        assert_eq!(remaining.objects(), live.len() as u64, "{remaining}");
        let named: Vec<usize> = remaining.named().map(|object| object.as_ptr() as usize).collect();
        assert!(named.iter().eq(live.iter().take(8)), "{named:x?} of {live:x?}");
    }

    fn adopt(&mut self, number: usize, object: Object) {
        self.note_made();
        let entry = &mut self.entries[number];
        let address = object.as_ptr() as usize;
        assert!(address.is_multiple_of(16));
        if entry.is_constructed {
            let (value, _) = self.values.get(&address).expect("it was constructed");
            assert!(has_words(object, entry.words, *value), "{object:p} is not as it was left");
        }
        self.next_value += 1;
        set_words(object, entry.words, self.next_value);
        self.values.insert(address, (self.next_value, entry.words));
        entry.live.push(object);
        self.counts.entry(entry.id.index()).or_default().0 += 1;
    }

    fn give_up(&mut self, number: usize, count: usize) -> Vec<Object> {
        let entry = &mut self.entries[number];
        let kept = entry.live.len().saturating_sub(count);
        // From the middle: objects that were allocated together are not always freed together.
        let start = kept / 2;
        let given: Vec<Object> = entry.live.drain(start..start + entry.live.len() - kept).collect();
        for object in &given {
            let (value, words) = self.values[&(object.as_ptr() as usize)];
            assert!(has_words(*object, words, value), "{object:p} has changed");
        }
        self.counts.entry(entry.id.index()).or_default().1 += given.len() as u64;
        given
    }

    fn alloc(&mut self, number: usize, count: usize) {
        for _ in 0..count {
            let object = self.bed.stack.cache(self.entries[number].id).alloc();
            self.adopt(number, object.expect("there is memory"));
        }
    }

    fn alloc_bulk(&mut self, number: usize, count: usize) {
        let mut out = vec![MaybeUninit::uninit(); count];
        let taken = self.bed.stack.cache(self.entries[number].id).alloc_bulk(&mut out);
        assert_eq!(taken, count);
        for object in out {
            // SAFETY: `alloc_bulk` has written this element.
            self.adopt(number, unsafe { object.assume_init() });
        }
    }

    fn free(&mut self, number: usize, count: usize, in_bulk: bool) {
        let given = self.give_up(number, count);
        let cache = self.bed.stack.cache(self.entries[number].id);
        // SAFETY: the objects were live, and the test has forgotten them.
        unsafe {
            match in_bulk {
                true => self.bed.stack.free_objects(cache.id(), &given),
                false => given.into_iter().for_each(|object| cache.free(object)),
            }
        }
    }

    fn run(&mut self, op: &Op) {
        let entries = self.entries.len();
        let pick = |entry: usize| entry.checked_rem(entries);
        match *op {
            Op::Create { shape, align, is_constructed, unmerged } => {
                self.create(shape, align, is_constructed, unmerged);
            }
            Op::Destroy { entry }
            | Op::Alloc { entry, .. }
            | Op::AllocBulk { entry, .. }
            | Op::Free { entry, .. }
            | Op::FreeBulk { entry, .. }
            | Op::Shrink { entry }
            | Op::Empty { entry } => {
                let Some(number) = pick(entry) else { return };
                match *op {
                    Op::Destroy { .. } => self.destroy(number),
                    Op::Alloc { count, .. } => self.alloc(number, count),
                    Op::AllocBulk { count, .. } => self.alloc_bulk(number, count),
                    Op::Free { count, .. } => self.free(number, count, false),
                    Op::FreeBulk { count, .. } => self.free(number, count, true),
                    Op::Shrink { .. } => self.bed.stack.cache(self.entries[number].id).shrink(),
                    _ => {
                        self.free(number, usize::MAX, false);
                        self.destroy(number);
                    }
                }
            }
        }
        self.note_made();
    }

    fn check(&self) {
        let mut owed = self.of_the_past;
        for entry in &self.entries {
            let (stats, cache) = (self.stats(entry.id), self.bed.stack.cache(entry.id));
            let (allocs, frees) = self.counts[&entry.id.index()];
            assert_eq!((stats.allocs(), stats.frees()), (allocs, frees), "{stats:?}");
            let in_use = stats.active_objects - stats.parked_objects;
            assert_eq!(in_use, self.live_of(entry.id).len() as u64, "{stats:?}");
            if entry.is_constructed {
                owed += stats.slabs_allocated * u64::from(cache.objects());
            }
        }
        assert_eq!(self.constructed, owed, "an object is constructed once in each slab");
        assert_eq!(self.bed.stack.validate(), Ok(()));
    }

    fn finish(mut self) {
        while !self.entries.is_empty() {
            on_cpu(self.entries.len() as u32);
            self.free(0, usize::MAX, true);
            self.destroy(0);
        }
        self.check();
        self.bed.assert_empty(&[]);
    }
}

fn random_lives<S: SlabPolicy<VirtualSlots> + 'static>(slots: u32) {
    let steps = prop::collection::vec(step(), 1..150);
    check(32, (steps,), |(steps,)| {
        let mut play = Play::<S>::new(slots);
        for (number, (cpu, op)) in steps.iter().enumerate() {
            on_cpu(*cpu);
            play.run(op);
            if number % 8 == 0 {
                play.check();
            }
        }
        play.check();
        play.finish();
    });
}

/// Long bursts, and objects that another CPU frees: traffic that makes policies change their modes.
fn traffic<S: SlabPolicy<VirtualSlots> + 'static>() {
    for shape in [0, 2] {
        let mut play = Play::<S>::new(2);
        play.create(shape, 4, true, false);
        for round in 0..10 {
            on_cpu(0);
            play.alloc(0, 4000);
            on_cpu(round / 4 % 2);
            play.free(0, usize::MAX, false);
        }
        play.check();
        play.finish();
    }
}

fn never_freed<S: SlabPolicy<VirtualSlots> + 'static>() {
    let mut play = Play::<S>::new(2);
    play.create(0, 4, false, true);
    let id = play.entries[0].id;
    for kept in [1usize, 2, 8, 9, 400] {
        play.alloc(0, 1000);
        play.free(0, 1000 - kept, false);
        // SAFETY: the test has one thread.
        let done = unsafe { play.bed.stack.destroy_cache(id) };
        play.is_named(done, &play.live_of(id));
        let text = done.expect_err("objects are in use").to_string();
        let start = if kept == 1 { "1 object is" } else { &format!("{kept} objects are") };
        assert!(text.starts_with(&format!("{start} still in use: 0x")), "{text}");
        assert_eq!(text.ends_with(&format!(" and {} more", kept.saturating_sub(8))), kept > 8);
        // The cache has not changed.
        play.alloc(0, 10);
        play.free(0, usize::MAX, false);
        play.check();
    }
    play.finish();
}

fn used_again<S: SlabPolicy<VirtualSlots> + 'static>() {
    let mut play = Play::<S>::new(2);
    let metadata = |play: &Play<S>| -> usize {
        let stats = play.bed.stack.stats();
        MetadataKind::ALL.iter().map(|kind| stats.metadata_bytes(*kind)).sum()
    };
    let mut first = 0;
    for round in 0..30 {
        // Small objects follow large ones, and large ones follow small ones.
        for shape in [4, 0, 2] {
            play.create(shape, 4, round % 2 == 0, true);
            assert_eq!(play.entries[0].id.index(), 1, "the lowest free number");
            for cpu in 0..2 {
                on_cpu(cpu);
                play.alloc(0, 150);
                play.free(0, usize::MAX, false);
            }
            play.check();
            play.destroy(0);
        }
        if round == 0 {
            first = metadata(&play);
        }
    }
    assert_eq!(metadata(&play), first, "bytes of metadata after the first round and after all");
    play.finish();
}

fn all_numbers<S: SlabPolicy<VirtualSlots> + 'static>() {
    // First objects of all sizes, then only small objects, which have the longest arrays.
    for step in [48, 0] {
        let options = StackOptions { heap: true, ..small() };
        let bed = PolicyBed::<WithLoose<S>>::new(Backing::Fake, 4096, 2, &options);
        // In the second round, new caches take the numbers of the first round.
        for _ in 0..2 {
            come_and_go(&bed, step);
        }
    }
}

/// Creates, uses and destroys more caches than there are numbers, with sizes `step` bytes apart.
fn come_and_go<S: SlabPolicy<VirtualSlots> + 'static>(bed: &PolicyBed<S>, step: usize) {
    let unmerged = CacheOptions { unmerged: true, ..CacheOptions::default() };
    let mut caches = Vec::new();
    for number in 0..MAX_CACHES {
        let params = CacheParams { size: 64 + step * number, align: 16 };
        caches.push(bed.stack.create_cache("many", &params, &unmerged).expect("a cache"));
    }
    let loose = caches.iter().filter(|id| id.index() == LOOSE).count();
    assert_eq!(caches.len() - loose, LOOSE - 1 - classes::COUNT, "those with an array");
    for id in &caches {
        let cache = bed.stack.cache(*id);
        let objects: Vec<_> = (0..100).map(|_| cache.alloc().expect("memory")).collect();
        // SAFETY: the objects were just allocated, and are freed once.
        objects.iter().for_each(|object| unsafe { cache.free(*object) });
        assert_eq!(cache.stats().frees(), 100);
    }
    assert_eq!(bed.stack.validate(), Ok(()));
    for id in caches {
        // SAFETY: the test has one thread, and uses no cache that is gone.
        assert_eq!(unsafe { bed.stack.destroy_cache(id) }, Ok(()));
    }
    assert_eq!(bed.stack.validate(), Ok(()));
}

/// Arrays of `malloc`'s classes have all the room that they want; later caches get only the rest.
#[test]
fn arrays_of_the_classes_have_all_that_they_want() {
    let options = StackOptions { heap: true, ..small() };
    let bed = PolicyBed::<Sheaf>::new(Backing::Fake, 4096, 1, &options);
    for number in 1..=classes::COUNT {
        let cache = bed.stack.cache(CacheId::new(number));
        let wanted = 2 * ((128 << 10) / cache.stride()).clamp(8, 64);
        assert_eq!(bed.stack.percpu().area().capacity(cache.id().array()), wanted);
    }
}

fn merged<S: SlabPolicy<VirtualSlots> + 'static>() {
    let mut play = Play::<S>::new(1);
    play.create(1, 4, false, false);
    play.create(1, 4, false, false);
    play.create(1, 4, false, true);
    play.create(1, 4, true, false);
    let ids: Vec<usize> = play.entries.iter().map(|entry| entry.id.index()).collect();
    match S::merges(PolicyOptions::default()) {
        true => assert_eq!(ids, [1, 1, 2, 3]),
        false => assert_eq!(ids, [1, 2, 3, 4]),
    }
    (0..4).for_each(|number| play.alloc(number, 20));
    play.check();
    let params = CacheParams { size: 48, align: 16 };
    let sized = CacheOptions { capacity: Some(8), ..CacheOptions::default() };
    let of_its_own = play.bed.stack.create_cache("sized", &params, &sized);
    let of_its_own = of_its_own.expect("there is room");
    assert!(!ids.contains(&of_its_own.index()), "who says how much it keeps is not merged");
    assert_eq!(play.bed.stack.cache(of_its_own).capacity(), Some(8));
    // SAFETY: nothing was allocated from it, and the test has one thread.
    assert_eq!(unsafe { play.bed.stack.destroy_cache(of_its_own) }, Ok(()));
    if S::merges(PolicyOptions::default()) {
        // Destroys only an alias of the cache, whose objects stay.
        play.destroy(0);
        assert_eq!(play.entries.len(), 3);
    }
    play.finish();
}
