//! The advice to a program that can move its objects, and the results of moving them.

use crate::support::seed::{Dice, seed};
use crate::support::{Backing, Bed, Oracle, VirtualConfig, check, on_cpu, small};
use proptest::prelude::*;
use quarry_mm::heap::options::StackOptions;
use quarry_mm::slab::{Cache, CacheId, CacheOptions, CacheParams, Occupancy, Sheaf, SlabPolicy};
use quarry_mm::stack::StackHost;
use quarry_sys::percpu::{Object, VirtualSlots};
use std::collections::BTreeMap;

const PAGE: usize = 4096;

fn slab_of(cache: &Cache, object: Object) -> usize {
    object.as_ptr() as usize & !(cache.order().bytes() - 1)
}

/// The objects in use, by their slabs.
fn by_slab(cache: &Cache, live: &Oracle) -> BTreeMap<usize, Vec<usize>> {
    let mut slabs = BTreeMap::<usize, Vec<usize>>::new();
    for it in live.iter() {
        slabs.entry(slab_of(cache, it.object)).or_default().push(it.object.as_ptr() as usize);
    }
    slabs
}

/// The occupancy of an object's slab while no CPU and no barn holds objects; without `is_sparse`.
fn naive(cache: &Cache, slabs: &BTreeMap<usize, Vec<usize>>, object: Object) -> Occupancy {
    let (slab, address) = (slab_of(cache, object), object.as_ptr() as usize);
    let stride = cache.stride();
    let pages = |start: usize| start / PAGE..(start + stride).div_ceil(PAGE);
    let total = cache.objects() as usize;
    let neighbours = &slabs[&slab];
    let partial: Vec<_> = slabs.values().map(Vec::len).filter(|live| *live < total).collect();
    let others = || neighbours.iter().filter(|other| **other != address);
    // Some slabs have their bits before the first object.
    let has_bits = |page| cache.header_bytes() > 0 && page * PAGE < slab + cache.first_object();
    let is_free = |page: &usize| !has_bits(*page) && !others().any(|it| pages(*it).contains(page));
    let may_go = cache.order().bytes() / PAGE <= 64;
    let share = |live: usize| PAGE.saturating_sub(live * stride) / live;
    let live_on = |page| neighbours.iter().filter(|it| pages(**it).contains(&page)).count();
    let pinned: usize = match may_go {
        true => pages(address).map(|page| share(live_on(page))).sum(),
        false => (total - neighbours.len()) * stride / neighbours.len(),
    };
    Occupancy {
        pinned: pinned as u64,
        bytes: cache.object_bytes(),
        live: neighbours.len() as u32,
        total: cache.objects(),
        is_sparse: false,
        slabs: slabs.len() as u64,
        partial_slabs: partial.len() as u64,
        partial_live: partial.iter().sum::<usize>() as u64,
        frees_page: neighbours.len() == 1 || may_go && pages(address).any(|page| is_free(&page)),
    }
}

/// Policies whose slabs have bits report the exact occupancy after a shrink; before it, parked
/// objects count as in use. Other policies (`tells` is false) report none.
fn occupancy_is_what_callers_hold<S: SlabPolicy<VirtualSlots> + 'static>(tells: bool) {
    let sizes = prop_oneof![16usize..300, 300usize..6_000, 6_000usize..70_000];
    let kept = prop_oneof![Just(2usize), Just(9), Just(70)];
    check(8, (sizes, kept, any::<u64>()), |(size, kept, seed)| {
        let bed = Bed::<VirtualConfig<S>>::new(Backing::Linux, PAGE, 2, &small());
        let params = CacheParams { size, align: 16 };
        let id = bed
            .stack
            .create_cache("moving", &params, &CacheOptions::default())
            .expect("there is room");
        let cache = bed.stack.cache(id);
        let (mut live, mut dice) = (Oracle::default(), Dice::new(seed));
        for number in 0..((4 << 20) / size).min(1_500) {
            on_cpu(number as u32 / 100);
            live.insert(cache.alloc().expect("there is memory"), size, cache.stride(), 16, 0);
        }
        for _ in 0..live.len() - live.len() / kept {
            on_cpu(dice.below(2) as u32);
            let gone = live.remove(dice.below(live.len())).expect("there are some");
            // SAFETY: the object came from this cache, and no other code uses it.
            unsafe { cache.free(gone.object) };
            let answer = bed.stack.occupancy(gone.object.as_ptr());
            assert!(answer.is_none_or(|told| told.live <= told.total), "{answer:?}");
        }
        let told = |object: Object| bed.stack.occupancy(object.as_ptr());
        let slabs = by_slab(&cache, &live);
        for it in live.iter() {
            let naive = naive(&cache, &slabs, it.object);
            assert_eq!(told(it.object).is_some(), tells);
            assert!(told(it.object).is_none_or(|told| told.live >= naive.live), "{naive:?}");
        }
        cache.shrink();
        for it in live.iter().filter(|_| tells) {
            let naive = naive(&cache, &slabs, it.object);
            let told = told(it.object).expect("it is in use");
            assert_eq!(
                Occupancy { is_sparse: false, ..told },
                naive,
                "{size} bytes, {:p}",
                it.object
            );
            assert!(!told.is_sparse || told.live < told.total, "{told:?}");
        }
        while let Some(gone) = live.remove(0) {
            // SAFETY: as above.
            unsafe { cache.free(gone.object) };
            assert_eq!(told(gone.object).map(|told| told.total), tells.then(|| cache.objects()));
        }
        bed.assert_empty(&[id]);
    });
}

#[test]
fn occupancy_is_that_of_an_oracle() {
    macro_rules! each {
        ($($name:ident: $text:literal, $policy:ty;)*) => {
            $({
                let tells = ["sheaf", "sheaf-6.18", "slam"].contains(&$text);
                occupancy_is_what_callers_hold::<$policy>(tells);
            })*
        };
    }
    slab_policies!(each);
}

/// A heap of objects of one size, some of which the program has freed.
struct Sparse<S: SlabPolicy<VirtualSlots> + 'static> {
    bed: Bed<VirtualConfig<S>>,
    live: Oracle,
    size: usize,
}

impl<S: SlabPolicy<VirtualSlots> + 'static> Sparse<S> {
    fn new(size: usize, kept: usize, dice: &mut Dice) -> Self {
        let options = StackOptions { heap: true, ..small() };
        let bed = Bed::new(Backing::Linux, PAGE, 1, &options);
        on_cpu(0);
        let mut it = Self { bed, live: Oracle::default(), size };
        for _ in 0..((16 << 20) / size).min(6_000) {
            let object = it.bed.stack.alloc(size).expect("there is memory");
            it.adopt(object);
        }
        for _ in 0..it.live.len() - it.live.len() / kept {
            let gone = it.live.remove(dice.below(it.live.len())).expect("there are some");
            // SAFETY: the object is live, and no other code uses it.
            unsafe { it.bed.stack.free(gone.object) };
        }
        it
    }

    fn adopt(&mut self, object: Object) {
        let bytes = self.bed.stack.usable_size(object).unwrap();
        self.live.insert(object, self.size, bytes, 16, 0);
    }

    /// Moves each object once if `is_sparse` advises it; returns how many it has moved.
    fn move_all(&mut self) -> usize {
        let objects: Vec<_> = self.live.iter().copied().collect();
        let mut moved = 0;
        for it in objects {
            let Some(told) = self.bed.stack.occupancy(it.object.as_ptr()) else { continue };
            if !told.is_sparse {
                continue;
            }
            let Some(new) = self.bed.stack.alloc_dense(it.bytes, 16) else { continue };
            self.live.check(&it, it.bytes);
            self.live.forget(&it);
            self.adopt(new);
            // SAFETY: the object is live, and no other code uses it.
            assert!(unsafe { self.bed.stack.free_dense(it.object.as_ptr()) });
            moved += 1;
        }
        moved
    }

    /// The number of slabs, and the fewest slabs that could hold the objects.
    fn slabs(&self) -> (u64, u64) {
        let classes = 1..=quarry_mm::heap::classes::COUNT;
        let (mut slabs, mut fewest) = (0, 0);
        for class in classes.map(CacheId::new) {
            let (cache, stride) =
                (self.bed.stack.cache(class), self.bed.stack.cache(class).stride());
            let live = self.live.iter().filter(|it| it.bytes == stride).count() as u64;
            slabs += cache.stats().total_slabs;
            fewest += live.div_ceil(u64::from(cache.objects()));
        }
        (slabs, fewest)
    }

    fn finish(mut self) {
        assert_eq!(self.bed.stack.validate(), Ok(()));
        while let Some(gone) = self.live.remove(0) {
            // SAFETY: the object is live, and no other code uses it.
            unsafe { self.bed.stack.free(gone.object) };
        }
        self.bed.assert_empty(&[]);
    }
}

#[test]
fn moved_objects_leave_few_slabs() {
    let mut dice = Dice::new(seed());
    for size in [16, 80, 176, 700, 3_000, 20_000] {
        for kept in [2, 5] {
            let mut heap = Sparse::<Sheaf>::new(size, kept, &mut dice);
            let _ = heap.bed.stack.trim();
            let (before, fewest) = heap.slabs();
            assert!(before * 4 > fewest * 5, "{size} bytes: {before} of {fewest} are not sparse");
            assert!((0..20).any(|_| heap.move_all() == 0), "{size} bytes: it comes to no end");
            heap.live.check_all();
            let _ = heap.bed.stack.trim();
            let (after, fewest) = heap.slabs();
            assert!(after * 10 <= fewest * 11 + 20, "{size} bytes: {after} of {fewest} slabs");
            heap.finish();
        }
    }
}

/// For an address where no object starts, no occupancy is reported and no memory is read.
#[test]
fn other_addresses_have_no_slab() {
    let cold = Bed::<VirtualConfig<Sheaf>>::cold(Backing::Linux, PAGE, 1);
    assert_eq!(cold.stack.occupancy(std::ptr::null_mut()), None, "before there is a heap");
    let options = StackOptions { heap: true, ..small() };
    let bed = Bed::<VirtualConfig<Sheaf>>::new(Backing::Linux, PAGE, 1, &options);
    on_cpu(0);
    let stack = &bed.stack;
    let object = stack.alloc(100).expect("there is memory");
    let block = stack.alloc(100_000).expect("there is memory");
    let mapping = stack.alloc(3 << 20).expect("there is memory");
    let mut local = 0u8;
    let addresses = [
        std::ptr::null_mut(),
        &raw mut local,
        std::ptr::without_provenance_mut(usize::MAX),
        object.as_ptr().wrapping_add(1),
        object.as_ptr().wrapping_add(1 << 40),
        block.as_ptr(),
        block.as_ptr().wrapping_add(PAGE),
        mapping.as_ptr(),
        mapping.as_ptr().wrapping_add(PAGE),
    ];
    for address in addresses {
        assert_eq!(stack.occupancy(address), None, "{address:p}");
        // SAFETY: no object of a slab starts there.
        assert!(!unsafe { stack.free_dense(address) }, "{address:p}");
    }
    for (size, align) in [(100_000, 16), (3 << 20, 16), (16, 1 << 20), (usize::MAX, 16)] {
        assert_eq!(stack.alloc_dense(size, align), None, "{size} bytes, a multiple of {align}");
    }
    assert!(stack.occupancy(object.as_ptr()).is_some_and(|told| told.live >= 1));
    let aligned = stack.alloc_dense(40, 256).expect("there is memory");
    assert!((aligned.as_ptr() as usize).is_multiple_of(256));
    for used in [object, block, mapping, aligned] {
        // SAFETY: no other code uses the allocation any more.
        unsafe { stack.free(used) };
    }
    bed.assert_empty(&[]);
}
