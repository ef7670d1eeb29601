//! `slub` through whole stacks: against a naive oracle on virtual CPUs, and with real threads.

use proptest::prelude::*;
use quarry_core::frame::MetadataKind;
use quarry_core::heap::options::StackOptions;
use quarry_core::slab::slub::{LockedSlub, Slub};
use quarry_core::slab::{CacheId, CacheParams, SlabPolicy};
use quarry_core::stack::{Stack, StackConfig, print_stats};
use quarry_sys::os::FakeOs;
use quarry_sys::percpu::{NativeSlots, Object, PerCpu, VirtualSlots};
use std::cell::Cell;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::sync::{Barrier, Mutex};

thread_local! {
    static CPU: Cell<u32> = const { Cell::new(0) };
}

/// Policies `S` over slots `P`.
struct Policies<P, S>(PhantomData<(P, S)>);

impl<P: PerCpu + 'static, S: SlabPolicy<P> + 'static> StackConfig for Policies<P, S> {
    type PerCpu = P;
    type Slab = S;
}

type Virtual<S> = Stack<Policies<VirtualSlots, S>>;
type Native = Stack<Policies<NativeSlots, Slub>>;

fn options(declared_cpus: u32) -> StackOptions {
    let mut options = StackOptions { heap: false, ..StackOptions::default() };
    options.pages.reserve_bytes = 128 << 20;
    options.pages.declared_cpus = declared_cpus;
    options
}

fn fake_os() -> &'static FakeOs {
    Box::leak(Box::new(FakeOs::new(4096)))
}

fn virtual_stack<S: SlabPolicy<VirtualSlots> + 'static>(slots: u32) -> &'static Virtual<S> {
    let stack: &'static Virtual<S> = Box::leak(Box::new(Stack::new()));
    stack.percpu().choice().declare(slots, || CPU.get());
    stack.init(fake_os(), &options(16)).expect("the fake OS refuses nothing");
    stack
}

fn cache<C: StackConfig>(stack: &Stack<C>, size: usize) -> CacheId {
    stack.create_cache("test", &CacheParams { size, align: 16 }).expect("there is room")
}

/// Words of an object that carry its owner's mark.
fn marked(object: Object, stride: usize) -> impl Iterator<Item = *mut u64> {
    let words = object.cast::<u64>().as_ptr();
    // SAFETY: objects have `stride` bytes, a multiple of 16.
    [0, stride / 16, stride / 8 - 1].into_iter().map(move |word| unsafe { words.add(word) })
}

fn mark(object: Object, stride: usize, with: u64) {
    // SAFETY: the caller has been given the object.
    marked(object, stride).for_each(|word| unsafe { word.write(with) });
}

fn assert_marked(object: Object, stride: usize, with: u64) {
    // SAFETY: the caller still has the object.
    let intact = marked(object, stride).all(|word| unsafe { word.read() } == with);
    assert!(intact, "{object:p}: somebody else wrote to it");
}

#[derive(Clone, Debug)]
enum Step {
    Alloc,
    Free(usize),
    AllocBulk(usize),
    FreeBulk(usize, usize),
    MoveTo(u32),
    Shrink,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => Just(Step::Alloc),
        6 => any::<usize>().prop_map(Step::Free),
        2 => (1usize..100).prop_map(Step::AllocBulk),
        3 => (any::<usize>(), 1usize..150).prop_map(|(at, count)| Step::FreeBulk(at, count)),
        6 => any::<u32>().prop_map(Step::MoveTo),
        1 => Just(Step::Shrink),
    ];
    prop::collection::vec(step, 1..250)
}

/// What callers hold: the naive oracle. Objects must be distinct, aligned and undisturbed.
struct Held {
    stride: usize,
    objects: Vec<(Object, u64)>,
    next_mark: u64,
}

impl Held {
    fn take(&mut self, object: Object) {
        let address = object.as_ptr() as usize;
        assert_eq!(address % 16, 0);
        let overlaps = |other: &Object| (other.as_ptr() as usize).abs_diff(address) < self.stride;
        assert!(!self.objects.iter().any(|(other, _)| overlaps(other)), "handed out twice");
        self.next_mark += 1;
        mark(object, self.stride, self.next_mark);
        self.objects.push((object, self.next_mark));
    }

    fn give(&mut self, at: usize) -> Option<Object> {
        if self.objects.is_empty() {
            return None;
        }
        let (object, with) = self.objects.swap_remove(at % self.objects.len());
        assert_marked(object, self.stride, with);
        Some(object)
    }
}

fn against_the_oracle<S: SlabPolicy<VirtualSlots> + 'static>(
    slots: u32,
    size: usize,
    steps: &[Step],
) {
    let stack = virtual_stack::<S>(slots);
    let id = cache(stack, size);
    let stride = stack.cache(id).stride();
    let mut held = Held { stride, objects: Vec::new(), next_mark: 0 };
    CPU.set(0);
    for step in steps {
        match *step {
            Step::Alloc => held.take(stack.cache_alloc(id).expect("memory is not short")),
            Step::Free(at) => {
                if let Some(object) = held.give(at) {
                    // SAFETY: allocated from this cache, and `held` has forgotten it.
                    unsafe { stack.cache_free(id, object) };
                }
            }
            Step::AllocBulk(count) => {
                let mut out = vec![MaybeUninit::uninit(); count];
                assert_eq!(stack.cache_alloc_bulk(id, &mut out), count);
                // SAFETY: all of them were written.
                out.iter().for_each(|object| held.take(unsafe { object.assume_init() }));
            }
            Step::FreeBulk(at, count) => {
                let objects: Vec<_> = (0..count).map_while(|_| held.give(at)).collect();
                // SAFETY: as above; all differ.
                unsafe { stack.cache_free_bulk(id, &objects) };
            }
            Step::MoveTo(cpu) => CPU.set(cpu % slots),
            Step::Shrink => {
                stack.trim();
            }
        }
        let stats = stack.cache_stats(id);
        let used = stats.active_objects - stats.parked_objects;
        assert_eq!(used, held.objects.len() as u64, "objects in use, after {step:?}");
    }
    stack.validate().expect("every equation holds");
    while let Some(object) = held.give(0) {
        // SAFETY: as above.
        unsafe { stack.cache_free(id, object) };
    }
    stack.trim();
    stack.validate().expect("every equation holds");
    let stats = stack.cache_stats(id);
    assert_eq!((stats.total_slabs, stats.active_objects), (0, 0), "all slabs are given back");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn objects_are_conserved_on_1_2_and_64_slots(
        slots in prop_oneof![Just(1u32), Just(2), Just(64)],
        size in prop_oneof![Just(16usize), Just(64), Just(200), Just(256), Just(1024), Just(4096),
            Just(20_000), Just(70_000)],
        steps in steps(),
    ) {
        against_the_oracle::<Slub>(slots, size, &steps);
    }

    #[test]
    fn objects_are_conserved_with_the_list_lock_in_every_slow_free(
        slots in prop_oneof![Just(1u32), Just(2), Just(64)],
        size in prop_oneof![Just(16usize), Just(256), Just(4096)],
        steps in steps(),
    ) {
        against_the_oracle::<LockedSlub>(slots, size, &steps);
    }
}

/// Every thread allocates, marks, hands over to the others, and frees what it is handed.
#[test]
fn threads_that_free_each_others_objects_lose_none() {
    const THREADS: usize = 4;
    const ROUNDS: u64 = 300;
    let stack: &'static Native = Box::leak(Box::new(Stack::new()));
    stack.init(fake_os(), &options(16)).expect("the fake OS refuses nothing");
    let ids = [32, 256, 3000].map(|size| cache(stack, size));
    let inboxes: Vec<Mutex<Vec<(usize, usize, u64)>>> =
        (0..THREADS).map(|_| Mutex::new(Vec::new())).collect();
    let barrier = Barrier::new(THREADS);
    let work = |me: usize| {
        barrier.wait();
        for round in 0..ROUNDS {
            for step in 0..60usize {
                let which = (round as usize + step) % ids.len();
                let object = stack.cache_alloc(ids[which]).expect("memory is not short");
                let with = (me as u64) << 32 | round << 8 | step as u64;
                mark(object, stack.cache(ids[which]).stride(), with);
                let to = (me + step) % THREADS;
                inboxes[to].lock().unwrap().push((which, object.as_ptr() as usize, with));
            }
            let mine = std::mem::take(&mut *inboxes[me].lock().unwrap());
            let keep = if round % 3 == 0 { mine.len() / 2 } else { 0 };
            for (at, &(which, address, with)) in mine.iter().enumerate() {
                if at < keep {
                    inboxes[me].lock().unwrap().push((which, address, with));
                    continue;
                }
                let object = Object::new(address as *mut u8).expect("objects are not null");
                assert_marked(object, stack.cache(ids[which]).stride(), with);
                // SAFETY: handed over to this thread, which forgets it.
                unsafe { stack.cache_free(ids[which], object) };
            }
            if me == 0 && round % 50 == 49 {
                stack.trim();
            }
        }
    };
    std::thread::scope(|scope| {
        (0..THREADS).for_each(|me| drop(scope.spawn(move || work(me))));
    });
    for (which, address, with) in inboxes.iter().flat_map(|inbox| inbox.lock().unwrap().clone()) {
        let object = Object::new(address as *mut u8).expect("objects are not null");
        assert_marked(object, stack.cache(ids[which]).stride(), with);
        // SAFETY: no thread is left that could use it.
        unsafe { stack.cache_free(ids[which], object) };
    }
    stack.validate().expect("every equation holds");
    stack.trim();
    stack.validate().expect("every equation holds");
    for id in ids {
        let stats = stack.cache_stats(id);
        assert_eq!((stats.active_objects, stats.total_slabs), (0, 0), "nothing is lost");
        assert!(stats.alloc_fast > stats.alloc_slow, "the per-CPU list serves most");
    }
}

#[test]
fn caches_that_lie_equally_are_one() {
    let stack = virtual_stack::<Slub>(2);
    let create = |name, size, align| {
        stack.create_cache(name, &CacheParams { size, align }).expect("there is room")
    };
    let heads = create("skbuff_head_cache", 232, 64);
    let other = create("kmalloc-256", 256, 16);
    let small = create("kmalloc-192", 192, 16);
    assert_eq!(heads, other, "both are 256 bytes apart");
    assert_ne!(heads, small);
    assert_eq!(stack.cache(heads).aliases(), 1);
    assert_eq!(stack.cache(heads).label().as_bytes(), b":0000256");
    assert_eq!(stack.cache(small).label().as_bytes(), b"kmalloc-192");
    assert_eq!(stack.cache(heads).order().get(), 1, "document 003: slabs of two pages");
}

#[test]
fn classes_of_the_heap_are_nobodys_aliases() {
    let stack: &'static Virtual<Slub> = Box::leak(Box::new(Stack::new()));
    stack.percpu().choice().declare(1, || 0);
    let options = StackOptions { heap: true, ..options(16) };
    stack.init(fake_os(), &options).expect("the fake OS refuses nothing");
    let (first, second) = (cache(stack, 64), cache(stack, 64));
    assert_eq!(first.index(), quarry_core::heap::classes::COUNT + 1);
    assert_eq!(first, second);
}

#[test]
fn its_metadata_is_counted_where_it_is_used() {
    let stack = virtual_stack::<Slub>(2);
    assert_eq!(stack.metadata_bytes(MetadataKind::SlabHeaders), 0);
    let id = cache(stack, 256);
    assert_eq!(stack.metadata_bytes(MetadataKind::SlabHeaders), 0, "no slab yet");
    assert!(stack.metadata_bytes(MetadataKind::CpuSlabs) > 0);
    let object = stack.cache_alloc(id).expect("memory is not short");
    let section = 16 * 1024 * <Slub as SlabPolicy<VirtualSlots>>::BYTES_PER_FRAME;
    assert_eq!(stack.metadata_bytes(MetadataKind::SlabHeaders), section);
    // SAFETY: just allocated.
    unsafe { stack.cache_free(id, object) };
    let mut text = String::new();
    print_stats(stack, &mut text).expect("a String takes everything");
    assert!(text.contains("slab policy 12.000 bytes per committed 4 KiB frame"), "{text}");
}

/// Every call to the OS fails once: nothing breaks, and what can be served later is.
#[test]
fn a_refusal_of_the_os_is_survived_wherever_it_comes() {
    for nth in 1.. {
        let os = fake_os();
        let stack: &'static Virtual<Slub> = Box::leak(Box::new(Stack::new()));
        stack.percpu().choice().declare(2, || 0);
        stack.init(os, &options(16)).expect("nothing fails yet");
        let before = os.calls();
        os.fail_nth(nth);
        let params = CacheParams { size: 512, align: 16 };
        let id =
            stack.create_cache("test", &params).or_else(|_| stack.create_cache("test", &params));
        let id = id.expect("only one call fails");
        let mut objects = Vec::new();
        let mut refused = 0;
        for _ in 0..200 {
            match stack.cache_alloc(id) {
                Some(object) => objects.push(object),
                None => refused += 1,
            }
        }
        assert!(refused <= 1, "only one call fails");
        stack.validate().expect("every equation holds");
        // SAFETY: all were allocated here and differ.
        objects.iter().for_each(|object| unsafe { stack.cache_free(id, *object) });
        stack.trim();
        stack.validate().expect("every equation holds");
        assert_eq!(stack.cache_stats(id).total_slabs, 0);
        if os.calls() - before < nth {
            return;
        }
    }
}

/// Frees to a slab that no CPU owns take no lock, or the list lock, as the variant says.
#[test]
fn only_the_locked_slow_path_takes_the_list_lock() {
    fn locks_of_remote_frees<S: SlabPolicy<VirtualSlots> + 'static>() -> (u64, u64) {
        let stack = virtual_stack::<S>(2);
        let id = cache(stack, 256);
        CPU.set(0);
        let objects: Vec<_> = (0..320).filter_map(|_| stack.cache_alloc(id)).collect();
        let before = stack.cache_stats(id);
        CPU.set(1);
        // One object of each slab stays, so that none becomes empty.
        let per_slab = stack.cache(id).objects() as usize;
        for (at, object) in objects.iter().enumerate() {
            if at % per_slab != 0 {
                // SAFETY: allocated above, freed once.
                unsafe { stack.cache_free(id, *object) };
            }
        }
        stack.validate().expect("every equation holds");
        let after = stack.cache_stats(id);
        // The statistics themselves take the lock once.
        let locks = after.list_lock.acquisitions - before.list_lock.acquisitions - 1;
        (locks, after.free_slow - before.free_slow)
    }
    let (lockless, frees) = locks_of_remote_frees::<Slub>();
    let (locked, locked_frees) = locks_of_remote_frees::<LockedSlub>();
    assert_eq!(frees, 310);
    assert_eq!(locked_frees, frees);
    assert!(locked >= frees, "{locked} locks for {frees} frees");
    assert!(lockless < frees / 20, "{lockless} locks for {frees} frees");
}
