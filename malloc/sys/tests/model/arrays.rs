//! Arrays under the model checker: single and batch operations beside drains, opening, threads
//! without a registration, and a refused barrier. Each run conserves objects and counts operations.

use crate::{Slots, all_once, check, expect_failure, number, tag, until};
use quarry_sys::percpu::Stepped;
use quarry_sys::percpu::{ArrayId, Arrays, Limits, Object, PerCpu, PlantedBug, Push, SlotIndex};
use std::mem::MaybeUninit;
use std::sync::Mutex;

const ARRAY: ArrayId = ArrayId::new(1);

fn slots_of(cpus: u32, capacity: usize, bug: PlantedBug) -> Slots {
    let slots = Slots::new(cpus, bug);
    slots.area().define(ARRAY, capacity).expect("fresh slots have room");
    slots
}

/// The objects that one thread holds, and the number of single operations that it has done.
#[derive(Default)]
struct Hand {
    objects: Vec<usize>,
    operations: u64,
}

impl Hand {
    fn push(&mut self, slots: &Slots) {
        let Some(object) = self.objects.pop() else { return };
        let mut push = slots.push(ARRAY, tag(object));
        if push == Push::Refused {
            push = slots.push_unregistered(ARRAY, tag(object));
        }
        match push {
            Push::Stored => self.operations += 1,
            Push::Refused => {
                slots.prepare(ARRAY).expect("memory");
                self.objects.push(object);
            }
            Push::Duplicate => panic!("{object} is in a hand and in a slot"),
        }
    }

    fn pop(&mut self, slots: &Slots) {
        let popped = slots.pop(ARRAY).or_else(|| slots.pop_unregistered(ARRAY));
        self.operations += u64::from(popped.is_some());
        self.objects.extend(popped.iter().map(number));
    }

    fn push_pair(&mut self, slots: &Slots) {
        if self.objects.len() >= 2 {
            let rest = self.objects.len() - 2;
            let pair: Vec<Object> =
                self.objects[rest..].iter().map(|object| tag(*object)).collect();
            if slots.push_batch(ARRAY, &pair) {
                self.objects.truncate(rest);
            } else {
                slots.prepare(ARRAY).expect("memory");
            }
        }
    }

    fn pop_pair(&mut self, slots: &Slots) {
        let mut out = [MaybeUninit::uninit(); 2];
        if slots.pop_batch(ARRAY, &mut out) {
            // SAFETY: a batch that succeeds writes every element.
            self.objects
                .extend(out.iter().map(|object| number(unsafe { object.assume_init_ref() })));
        }
    }
}

/// Two threads with two objects each run `work` while the main thread drains.
fn against_drain(bug: PlantedBug, cpus: u32, work: fn(usize, &mut Hand, &Slots)) {
    let slots = slots_of(cpus, 3, bug);
    let mut found = Vec::new();
    let mut operations = 0;
    shuttle::thread::scope(|scope| {
        let workers: Vec<_> = (0..2)
            .map(|index| {
                let slots = &slots;
                scope.spawn(move || {
                    let mut hand = Hand::default();
                    hand.objects.extend([2 * index, 2 * index + 1]);
                    work(index, &mut hand, slots);
                    hand
                })
            })
            .collect();
        for _ in 0..2 {
            found.extend(slots.drained(ARRAY));
        }
        for worker in workers {
            let hand = worker.join().expect("no panic");
            found.extend(hand.objects);
            operations += hand.operations;
        }
    });
    let usage = slots.usage(ARRAY);
    let rest = slots.drained(ARRAY);
    assert_eq!((usage.level, usage.operations), (rest.len() as u64, operations));
    found.extend(rest);
    all_once(found, 0..4);
}

fn singles(bug: PlantedBug) {
    against_drain(bug, 2, |_, hand, slots| {
        for _ in 0..2 {
            hand.push(slots);
            hand.push(slots);
            hand.pop(slots);
        }
    });
}

fn batches(bug: PlantedBug) {
    against_drain(bug, 2, |_, hand, slots| {
        hand.push_pair(slots);
        hand.push_pair(slots);
        hand.pop_pair(slots);
        hand.push(slots);
    });
}

/// Both threads on one CPU: only preemption disturbs a sequence.
fn one_cpu(bug: PlantedBug) {
    against_drain(bug, 1, |_, hand, slots| {
        hand.push(slots);
        hand.push_pair(slots);
        hand.pop(slots);
        hand.pop_pair(slots);
    });
}

/// One of the threads has no registration.
fn mixed(bug: PlantedBug) {
    against_drain(bug, 1, |index, hand, slots| {
        if index == 0 {
            Stepped::unregister();
        }
        hand.push(slots);
        hand.push(slots);
        hand.pop(slots);
        hand.push_pair(slots);
        hand.pop_pair(slots);
    });
}

/// Two threads on one CPU each open an array, while the main thread pops from and pushes to the
/// first of these arrays.
fn opening(bug: PlantedBug) {
    let slots = slots_of(1, 1, bug);
    let neighbour = ArrayId::new(2);
    slots.area().define(neighbour, 1).expect("fresh slots have room");
    let mut hand = Hand { objects: vec![0], operations: 0 };
    shuttle::thread::scope(|scope| {
        scope.spawn(|| slots.prepare(ARRAY).expect("memory"));
        scope.spawn(|| slots.prepare(neighbour).expect("memory"));
        hand.pop(&slots);
        let stored = slots.push(ARRAY, tag(0)) == Push::Stored;
        if stored {
            hand.objects.clear();
        }
    });
    let control = slots.area().word(SlotIndex(0), neighbour, 0);
    assert_eq!(slots.usage(neighbour).level, 0, "{control:?}");
    hand.objects.extend(slots.drained(ARRAY));
    all_once(hand.objects, [0]);
}

/// One thread widens its CPU's array, another one pushes and pops, and a drain narrows it.
fn widening(bug: PlantedBug) {
    let slots = slots_of(1, 1, bug);
    slots.area().define_wide(ARRAY, 3);
    slots.prepare(ARRAY).expect("memory");
    let mut found = Vec::new();
    shuttle::thread::scope(|scope| {
        let worker = scope.spawn(|| push_and_pop(&slots));
        scope.spawn(|| {
            // A drain takes the room of the array, and stops the array for a while.
            if !slots.widen(ARRAY) {
                slots.prepare(ARRAY).expect("memory");
                slots.widen(ARRAY);
            }
        });
        found.extend(slots.drained(ARRAY));
        found.extend(worker.join().expect("no panic"));
    });
    found.extend(slots.drained(ARRAY));
    assert!(!slots.area().is_wide(SlotIndex(0), ARRAY), "a drain narrows");
    all_once(found, 0..3);
}

/// Like `widening`, but the array gets its wide place in two steps.
fn growing(bug: PlantedBug) {
    let slots = slots_of(1, 1, bug);
    slots.area().define_wide(ARRAY, 3);
    slots.prepare(ARRAY).expect("memory");
    let mut found = Vec::new();
    shuttle::thread::scope(|scope| {
        let worker = scope.spawn(|| push_and_pop(&slots));
        scope.spawn(|| {
            slots.widen_within(ARRAY, &Limits { wide: 2, ..Limits::NONE });
            slots.widen(ARRAY);
        });
        scope.spawn(|| slots.widen(ARRAY));
        found.extend(slots.drained(ARRAY));
        found.extend(worker.join().expect("no panic"));
    });
    found.extend(slots.drained(ARRAY));
    assert!(!slots.area().is_wide(SlotIndex(0), ARRAY), "a drain narrows");
    assert_eq!(slots.area().all_room(), 0, "a drain takes all room");
    all_once(found, 0..3);
}

/// A thread that migrates between two CPUs widens the array of one of them.
fn widening_while_moved(bug: PlantedBug) {
    let slots = slots_of(2, 1, bug);
    slots.area().define_wide(ARRAY, 3);
    let mut found = Vec::new();
    shuttle::thread::scope(|scope| {
        let worker = scope.spawn(|| push_and_pop(&slots));
        scope.spawn(|| {
            slots.prepare(ARRAY).expect("memory");
            slots.widen(ARRAY);
        });
        found.extend(worker.join().expect("no panic"));
    });
    let is_wide = |cpu| slots.area().is_wide(SlotIndex(cpu), ARRAY);
    assert!(!is_wide(0) || !is_wide(1), "both are wide");
    found.extend(slots.drained(ARRAY));
    assert!(!is_wide(0) && !is_wide(1), "a drain narrows");
    all_once(found, 0..3);
}

/// Two threads with an array each, on one CPU or on two, share room for few objects. A thread whose
/// array misses takes the other array's room, even while it is used. A drain takes all room.
fn sharing_room(bug: PlantedBug, cpus: u32) {
    const LIMITS: Limits = Limits { slot: 2, all: 3, least: 1, ..Limits::NONE };
    let slots = slots_of(cpus, 2, bug);
    let other = ArrayId::new(2);
    slots.area().define(other, 2).expect("fresh slots have room");
    let taken = Mutex::new(Vec::new());
    let take = |_, objects: &[Object]| taken.lock().unwrap().extend(objects.iter().map(number));
    let mut found = Vec::new();
    shuttle::thread::scope(|scope| {
        let workers = [(ARRAY, 0), (other, 2)].map(|(array, first)| {
            let (slots, mut take) = (&slots, &take);
            scope.spawn(move || {
                let mut objects = vec![first, first + 1];
                for _ in 0..3 {
                    let Some(object) = objects.pop() else { break };
                    if slots.push(array, tag(object)) == Push::Refused {
                        objects.push(object);
                        slots.make_room(array, &LIMITS, &mut take);
                    }
                    objects.extend(slots.pop(array).iter().map(number));
                }
                objects
            })
        });
        slots.drain_where(&|_, _| true, &mut { take });
        for worker in workers {
            found.extend(worker.join().expect("no panic"));
        }
    });
    assert_eq!(slots.area().validate_room(LIMITS.slot), Ok(()));
    assert!(slots.area().all_room() <= LIMITS.all + cpus as usize * LIMITS.least);
    slots.drain_where(&|_, _| true, &mut { take });
    assert_eq!((slots.area().all_room(), slots.area().awake().count()), (0, 0));
    found.extend(taken.into_inner().unwrap());
    all_once(found, 0..4);
}

fn sharing_room_of_one_cpu(bug: PlantedBug) {
    sharing_room(bug, 1);
}

fn sharing_room_of_two_cpus(bug: PlantedBug) {
    sharing_room(bug, 2);
}

/// Pushes three objects, two of them as a batch, and pops some; returns the objects that it holds
/// at the end.
fn push_and_pop(slots: &Slots) -> Vec<usize> {
    let mut hand = Hand { objects: vec![0, 1, 2], operations: 0 };
    for _ in 0..2 {
        hand.push(slots);
        hand.push_pair(slots);
        hand.pop(slots);
    }
    hand.objects
}

/// No thread may call the barrier. One thread drains the CPU that it runs on, while another one
/// pushes and pops on that CPU or on the other.
fn own_slot(bug: PlantedBug) {
    let slots = slots_of(2, 2, bug);
    slots.area().define_wide(ARRAY, 3);
    slots.leave_barrier_to(None);
    let mut found = Vec::new();
    let mut take = |objects: &[Object]| found.extend(objects.iter().map(number));
    let left = shuttle::thread::scope(|scope| {
        let worker = scope.spawn(|| push_and_pop(&slots));
        assert!(!slots.reaches_every_slot());
        for _ in 0..2 {
            assert!(!slots.drain(ARRAY, &mut take), "a drain without barrier returns false");
        }
        worker.join().expect("no panic")
    });
    for cpu in 0..2 {
        Stepped::pin(cpu);
        slots.drain(ARRAY, &mut take);
        assert_eq!(slots.pop(ARRAY), None, "the own slot was drained");
    }
    found.extend(left);
    all_once(found, 0..3);
}

/// The kernel refuses the barrier from some point on: drains give up, slots stay usable.
fn refusal(bug: PlantedBug) {
    let slots = slots_of(2, 2, bug);
    slots.area().define_wide(ARRAY, 3);
    let mut found = Vec::new();
    shuttle::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let mut hand = Hand { objects: vec![0, 1], operations: 0 };
            for _ in 0..3 {
                hand.push(&slots);
                hand.push(&slots);
                hand.pop(&slots);
            }
            hand.objects
        });
        let mut take = |objects: &[Object]| found.extend(objects.iter().map(number));
        let first = slots.drain(ARRAY, &mut take);
        slots.sequences().refuse_barrier();
        // Unless an array has room, a drain does not call the barrier.
        slots.prepare(ARRAY).expect("memory");
        let second = slots.drain(ARRAY, &mut take);
        slots.widen(ARRAY);
        assert_eq!((first, second), (true, false));
        found.extend(worker.join().expect("no panic"));
    });
    for cpu in 0..2 {
        Stepped::pin(cpu);
        until(|| {
            found.extend(slots.pop(ARRAY).map(|object| number(&object)));
            slots.area().slot_level(SlotIndex(cpu), ARRAY) == 0
        });
    }
    all_once(found, 0..2);
}

macro_rules! models {
    ($($scenario:ident)+) => {
        $(#[test] fn $scenario() { check(|| super::$scenario(PlantedBug::None)); })+
    };
}

mod holds {
    use super::*;
    models!(singles batches one_cpu mixed opening widening growing widening_while_moved own_slot
        refusal sharing_room_of_one_cpu sharing_room_of_two_cpus);
}

macro_rules! mutations {
    ($($bug:ident is_found_by $scenario:ident as $name:ident;)+) => {
        $(#[test] fn $name() { expect_failure(|| super::$scenario(PlantedBug::$bug)); })+
    };
}

mod finds {
    use super::*;
    mutations! {
        CommitsAfterPreemption is_found_by one_cpu as commits_after_preemption;
        BarrierDoesNothing is_found_by singles as barrier_does_nothing;
        BarrierDoesNothing is_found_by batches as barrier_does_nothing_for_batches;
        CommitsAfterPreemption is_found_by sharing_room_of_one_cpu as commits_while_room_is_taken;
        CompareStoreIgnoresCpu is_found_by sharing_room_of_two_cpus as takes_the_other_cpus_room;
        CommitsAfterPreemption is_found_by widening as commits_while_it_is_widened;
        CommitsAfterPreemption is_found_by growing as commits_while_it_grows;
        CompareStoreIgnoresCpu is_found_by widening_while_moved as closes_the_other_cpus_array;
        CompareStoreIgnoresCpu is_found_by own_slot as drains_the_other_cpus_array;
        HeaderBeforeBounds is_found_by opening as header_before_bounds;
        CommitBeforeBounds is_found_by singles as commit_before_bounds;
        FreshBoundsAdmitPops is_found_by opening as fresh_bounds_admit_pops;
    }
}
