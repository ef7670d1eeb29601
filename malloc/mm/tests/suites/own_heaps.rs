//! Own heaps beside a naive model: a map from each heap to what lives in it. Random sequences of
//! requests, frees by `free` and by `realloc`, resets, destructions and limits; failures of the
//! system at each call; misuse.

use crate::support::{Backing, Bed, Oracle, VirtualConfig, check, on_cpu, pattern, small};
use proptest::prelude::*;
use quarry_mm::frame::FRAME_BYTES;
use quarry_mm::heap::LARGEST_BLOCK;
use quarry_mm::heap::options::StackOptions;
use quarry_mm::own_heap::{Missed, OwnHeapId, Use};
use quarry_mm::slab::Sheaf;
use quarry_mm::stack::{Request, StackHost};
use quarry_mm::zone::{GroupId, Name};
use std::collections::BTreeSet;
use std::sync::Barrier;

type HeapBed = Bed<VirtualConfig<Sheaf>>;

const NO_LIMIT: u32 = u32::MAX;
const OF_ROOT: (GroupId, Use) = (GroupId::ROOT, Use::Program);
/// Heaps of a random sequence; a live allocation's mark is the index of its heap.
const HEAPS: usize = 4;
/// The mark of an allocation of `malloc`.
const MALLOC: usize = HEAPS;

fn options() -> StackOptions<quarry_mm::pcp::V6_18> {
    let mut options = StackOptions { heap: true, ..small() };
    options.pages.reserve_bytes = 256 << 20;
    options
}

fn bed(backing: Backing) -> HeapBed {
    HeapBed::new(backing, 4096, 2, &options())
}

fn create(bed: &HeapBed, limit: u32) -> OwnHeapId {
    bed.stack
        .own
        .create(Name::of("heap"), OF_ROOT, limit, bed.stack.metadata())
        .expect("there is memory for a record")
}

/// Takes all live allocations with this mark out of the oracle, after a look at their contents.
fn forget_all(oracle: &mut Oracle, mark: usize) {
    let mut number = 0;
    while let Some(live) = oracle.pick(number).filter(|_| number < oracle.len()) {
        if live.mark == mark {
            oracle.check(&live, live.bytes);
            oracle.forget(&live);
        } else {
            number += 1;
        }
    }
}

fn bytes_of(oracle: &Oracle, mark: usize) -> usize {
    let all = (0..oracle.len()).filter_map(|number| oracle.pick(number));
    all.filter(|live| live.mark == mark).map(|live| live.bytes).sum()
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Alloc { heap: usize, size: usize, align: u32, zeroed: bool },
    Malloc { size: usize },
    Free { number: usize, cpu: u32 },
    Resize { number: usize, size: usize },
    Reset { heap: usize },
    Destroy { heap: usize, limit: u32 },
    Trim,
}

fn sizes() -> impl Strategy<Value = usize> {
    prop_oneof![
        8 => 0..300usize,
        4 => 300..9000usize,
        2 => 9000..200_000usize,
        1 => Just(LARGEST_BLOCK + 5000),
    ]
}

fn allocs() -> impl Strategy<Value = Step> {
    let choices = (0..HEAPS, sizes(), 0..9u32, any::<bool>());
    choices.prop_map(|(heap, size, align, zeroed)| {
        let align = if align < 6 { 4 } else { 4 + align };
        Step::Alloc { heap, size, align, zeroed }
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let heap = 0..HEAPS;
    let step = prop_oneof![
        20 => allocs(),
        3 => sizes().prop_map(|size| Step::Malloc { size }),
        12 => (any::<usize>(), 0..2u32).prop_map(|(number, cpu)| Step::Free { number, cpu }),
        4 => (any::<usize>(), sizes()).prop_map(|(number, size)| Step::Resize { number, size }),
        1 => heap.clone().prop_map(|heap| Step::Reset { heap }),
        1 => (heap, prop_oneof![Just(NO_LIMIT), 1..300u32])
            .prop_map(|(heap, limit)| Step::Destroy { heap, limit }),
        1 => Just(Step::Trim),
    ];
    proptest::collection::vec(step, 1..300)
}

struct Play {
    bed: HeapBed,
    heaps: [(OwnHeapId, u32); HEAPS],
    oracle: Oracle,
}

impl Play {
    fn new() -> Self {
        let bed = bed(Backing::Fake);
        let heaps = std::array::from_fn(|_| (create(&bed, NO_LIMIT), NO_LIMIT));
        Self { bed, heaps, oracle: Oracle::default() }
    }

    fn insert(&mut self, object: quarry_sys::percpu::Object, size: usize, align: u32, mark: usize) {
        let bytes = self.bed.stack.usable_size(object).unwrap();
        self.oracle.insert(object, size, bytes, 1 << align, mark);
    }

    fn alloc(&mut self, heap: usize, request: Request) {
        let (id, limit) = self.heaps[heap];
        let plain = request.align <= 16 && !request.zeroed;
        let taken = if plain { self.bed.stack.own_take(id, request.size) } else { None };
        match taken.map_or_else(|| self.bed.stack.own_alloc(id, request), Ok) {
            Ok(object) => {
                if request.zeroed {
                    assert!(pattern::is_zero(object, request.size));
                }
                assert_eq!(self.bed.stack.own_heap_at(object.as_ptr()), Some(id));
                self.insert(object, request.size, request.align.ilog2(), heap);
            }
            Err(missed) => {
                assert!(limit < NO_LIMIT && missed == Missed::Limit, "{missed:?} of {request:?}");
            }
        }
    }

    fn resize(&mut self, number: usize, size: usize) {
        let Some(live) = self.oracle.pick(number) else { return };
        // SAFETY: the object is live, and only the oracle knows it.
        let Some(moved) = (unsafe { self.bed.stack.realloc(live.object, size) }) else {
            assert!(live.mark != MALLOC && self.heaps[live.mark].1 < NO_LIMIT);
            return self.oracle.check(&live, live.bytes);
        };
        assert!(pattern::holds(moved, live.bytes.min(size), live.tag), "{live:?} to {size}");
        self.oracle.forget(&live);
        self.insert(moved, size, 4, live.mark);
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Alloc { heap, size, align, zeroed } => {
                let request = Request::of(size).aligned(1 << align);
                self.alloc(heap, if zeroed { request.zeroed() } else { request });
            }
            Step::Malloc { size } => {
                let object = self.bed.stack.alloc(size).expect("there is memory");
                self.insert(object, size, 4, MALLOC);
            }
            Step::Free { number, cpu } => {
                on_cpu(cpu);
                if let Some(live) = self.oracle.remove(number) {
                    // SAFETY: the object was live, and only the oracle knew it.
                    unsafe { self.bed.stack.free(live.object) };
                }
            }
            Step::Resize { number, size } => self.resize(number, size),
            Step::Reset { heap } => {
                forget_all(&mut self.oracle, heap);
                assert_eq!(self.bed.stack.reset_own_heap(self.heaps[heap].0), Ok(()));
            }
            Step::Destroy { heap, limit } => {
                forget_all(&mut self.oracle, heap);
                let id = self.heaps[heap].0;
                assert_eq!(self.bed.stack.destroy_own_heap(id), Ok(()));
                assert_eq!(self.bed.stack.own_take(id, 8), None);
                assert_eq!(self.bed.stack.own_alloc(id, Request::of(8)), Err(Missed::Dead));
                assert_eq!(self.bed.stack.destroy_own_heap(id), Err(Missed::Dead));
                self.heaps[heap] = (create(&self.bed, limit), limit);
            }
            Step::Trim => {
                let _ = self.bed.stack.trim();
            }
        }
    }

    /// Compares the account of each heap with the model, and checks all equations.
    fn look(&self) {
        for (heap, (id, limit)) in self.heaps.iter().enumerate() {
            let stats = self.bed.stack.own.heap(id.number).expect("it lives").stats();
            assert_eq!(stats.used as usize, bytes_of(&self.oracle, heap));
            assert!(stats.charged <= *limit);
            assert!(stats.charged as usize * FRAME_BYTES >= stats.used as usize);
        }
        assert_eq!(self.bed.stack.validate(), Ok(()));
        self.no_page_is_shared();
    }

    fn no_page_is_shared(&self) {
        let mut pages = BTreeSet::new();
        for live in (0..self.oracle.len()).filter_map(|number| self.oracle.pick(number)) {
            let start = live.object.as_ptr() as usize / FRAME_BYTES;
            let end = (live.object.as_ptr() as usize + live.bytes.max(1) - 1) / FRAME_BYTES;
            pages.extend((start..=end).map(|page| (page, live.mark)));
        }
        let shared = pages.iter().zip(pages.iter().skip(1)).find(|(one, other)| one.0 == other.0);
        assert_eq!(shared, None, "a page has objects of two heaps");
    }
}

#[test]
fn a_random_sequence_does_what_the_model_does() {
    check(60, steps(), |steps| {
        let mut play = Play::new();
        for (number, step) in steps.iter().enumerate() {
            play.step(*step);
            if number % 16 == 0 {
                play.look();
            }
        }
        play.look();
        for heap in 0..HEAPS {
            forget_all(&mut play.oracle, heap);
            assert_eq!(play.bed.stack.destroy_own_heap(play.heaps[heap].0), Ok(()));
        }
        while let Some(live) = play.oracle.remove(0) {
            // SAFETY: the object was live, and only the oracle knew it.
            unsafe { play.bed.stack.free(live.object) };
        }
        play.bed.assert_empty(&[]);
    });
}

#[test]
fn a_heap_gives_its_limit_and_no_more() {
    let bed = bed(Backing::Fake);
    for (limit, size) in [(1, 16), (16, 100), (256, 1000), (1024, 5000), (1024, 20_000)] {
        let id = create(&bed, limit);
        let mut objects = Vec::new();
        let refused = loop {
            match bed.stack.own_alloc(id, Request::of(size)) {
                Ok(object) => objects.push(object),
                Err(missed) => break missed,
            }
        };
        assert_eq!(refused, Missed::Limit);
        let heap = bed.stack.own.heap(id.number).expect("it lives");
        let given = objects.len() * size;
        assert!(heap.stats().charged <= limit);
        assert!(given * 10 >= limit as usize * FRAME_BYTES * 7, "{given} of {limit} frames");
        // Freed objects make room for objects of another size.
        for object in objects {
            // SAFETY: the object was live.
            unsafe { bed.stack.free(object) };
        }
        assert_eq!(heap.stats().used, 0);
        assert!(bed.stack.own_alloc(id, Request::of(limit as usize * FRAME_BYTES)).is_ok());
        assert_eq!(bed.stack.validate(), Ok(()));
        assert_eq!(bed.stack.destroy_own_heap(id), Ok(()));
    }
    bed.assert_empty(&[]);
}

#[test]
fn a_heap_hands_out_neighbours_where_nothing_was_freed() {
    let bed = bed(Backing::Fake);
    let id = create(&bed, NO_LIMIT);
    let mut before = 0;
    let mut jumps = 0;
    for _ in 0..10_000 {
        let object = bed.stack.own_alloc(id, Request::of(64)).expect("there is memory");
        let address = object.as_ptr() as usize;
        jumps += usize::from(address != before + 64);
        before = address;
    }
    assert!(jumps <= 10_000 / 64 + 1, "{jumps} jumps");
    assert_eq!(bed.stack.destroy_own_heap(id), Ok(()));
    bed.assert_empty(&[]);
}

#[test]
fn many_heaps_are_cheap() {
    let bed = bed(Backing::Fake);
    let metadata = || bed.stack.stats().metadata_bytes(quarry_mm::frame::MetadataKind::Other);
    let before = metadata();
    let heaps: Vec<OwnHeapId> = (0..10_000).map(|_| create(&bed, NO_LIMIT)).collect();
    assert!((metadata() - before) / heaps.len() <= 1024, "bytes of an empty heap");
    assert_eq!(bed.stack.own.live(), 10_000);
    for id in heaps {
        assert_eq!(bed.stack.destroy_own_heap(id), Ok(()));
    }
    let after = metadata();
    for _ in 0..20_000 {
        assert_eq!(bed.stack.destroy_own_heap(create(&bed, NO_LIMIT)), Ok(()));
    }
    assert_eq!(metadata(), after, "records of dead heaps serve again");
    bed.assert_empty(&[]);
}

#[test]
fn memory_of_a_dead_heap_stays_apart_while_there_is_enough() {
    let bed = bed(Backing::Fake);
    let id = create(&bed, NO_LIMIT);
    let object = bed.stack.own_alloc(id, Request::of(100)).expect("there is memory");
    assert_eq!(bed.stack.destroy_own_heap(id), Ok(()));
    assert_eq!(bed.stack.own.gone_frames(), 1);
    for _ in 0..200 {
        let other = bed.stack.alloc(4000).expect("there is memory");
        assert_ne!(other.as_ptr() as usize / FRAME_BYTES, object.as_ptr() as usize / FRAME_BYTES);
    }
    let _ = bed.stack.trim();
    assert_eq!(bed.stack.own.gone_frames(), 0);
    assert_eq!(bed.stack.validate(), Ok(()));
}

/// Where the limit of the whole stack is reached, what dead heaps had serves.
#[test]
fn a_short_stack_uses_what_dead_heaps_had() {
    let mut options = options();
    options.pages.limit_frames = 2048;
    let bed = HeapBed::new(Backing::Fake, 4096, 2, &options);
    for _ in 0..20 {
        let id = create(&bed, NO_LIMIT);
        for _ in 0..700 {
            assert!(bed.stack.own_alloc(id, Request::of(4096)).is_ok());
        }
        assert_eq!(bed.stack.destroy_own_heap(id), Ok(()));
        let mapping = bed.stack.alloc(5 << 20).expect("the rest is gone memory");
        // SAFETY: it is live.
        unsafe { bed.stack.free(mapping) };
    }
    assert_eq!(bed.stack.validate(), Ok(()));
}

/// Plays a little with two heaps; requests may be refused.
fn play_short(bed: &HeapBed) {
    let stack = &bed.stack;
    let mut objects = Vec::new();
    let heaps: Vec<_> = (0..2)
        .filter_map(|_| {
            stack.own.create(Name::of("short"), OF_ROOT, NO_LIMIT, stack.metadata()).ok()
        })
        .collect();
    for (round, size) in [16, 700, 5000, 30_000, 300_000, LARGEST_BLOCK + 1].iter().enumerate() {
        for id in &heaps {
            let count = if *size < 1000 { 300 } else { 3 };
            let taken = (0..count).filter_map(|_| stack.own_alloc(*id, Request::of(*size)).ok());
            objects.extend(taken.skip(round % 2));
        }
    }
    for (number, object) in objects.into_iter().enumerate().filter(|(number, _)| number % 3 > 0) {
        if number % 7 == 0 {
            // SAFETY: it is live; a refused realloc leaves it so, and it goes with its heap.
            let _ = unsafe { stack.realloc(object, 2 * stack.usable_size(object).unwrap()) };
        } else {
            // SAFETY: it is live.
            unsafe { stack.free(object) };
        }
    }
    assert_eq!(stack.validate(), Ok(()));
    if let Some(id) = heaps.first() {
        assert_eq!(stack.reset_own_heap(*id), Ok(()));
        assert_eq!(stack.validate(), Ok(()));
    }
    for id in heaps {
        assert_eq!(stack.destroy_own_heap(id), Ok(()));
    }
}

#[test]
fn each_call_of_the_system_may_fail() {
    for all in [false, true] {
        for call in 1.. {
            let bed = bed(Backing::Fake);
            let first = bed.os.calls() + call;
            bed.os.fail(call, if all { u64::MAX >> 1 } else { 1 });
            play_short(&bed);
            let was_reached = bed.os.calls() >= first;
            bed.os.succeed();
            play_short(&bed);
            bed.assert_empty(&[]);
            if !was_reached {
                break;
            }
        }
    }
}

#[test]
fn other_threads_free_what_one_takes() {
    const THREADS: usize = 4;
    let bed = bed(Backing::Linux);
    let (stack, barrier) = (&bed.stack, Barrier::new(THREADS));
    let id = create(&bed, NO_LIMIT);
    let (senders, receivers): (Vec<_>, Vec<_>) =
        (0..THREADS).map(|_| std::sync::mpsc::channel::<(usize, usize)>()).unzip();
    std::thread::scope(|scope| {
        for (number, receiver) in receivers.into_iter().enumerate() {
            let (senders, barrier) = (senders.clone(), &barrier);
            scope.spawn(move || {
                on_cpu(number as u32);
                barrier.wait();
                for round in 0..2000usize {
                    let size = 16 + (round * 37 + number * 101) % 3000;
                    let object = stack.own_alloc(id, Request::of(size)).expect("there is memory");
                    pattern::fill(object, size, size as u64);
                    let to = &senders[(number + round) % THREADS];
                    // An object that comes after the last round of a thread goes with the heap.
                    let _ = to.send((object.as_ptr() as usize, size));
                    while let Ok((address, size)) = receiver.try_recv() {
                        let object = quarry_sys::percpu::Object::new(address as *mut u8);
                        let object = object.expect("not null");
                        assert!(pattern::holds(object, size, size as u64));
                        // SAFETY: its owner has given it to this thread.
                        unsafe { stack.free(object) };
                    }
                }
            });
        }
        drop(senders);
    });
    assert_eq!(stack.validate(), Ok(()));
    assert_eq!(stack.destroy_own_heap(id), Ok(()));
    bed.assert_empty(&[]);
}
