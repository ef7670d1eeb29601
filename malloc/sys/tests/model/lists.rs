//! Lists under the model checker: pushes, pops and guards beside drains, which lose nothing.
//!
//! A guard stands for a slab that a CPU has frozen: exactly one drain returns each guard that
//! `compare_store` installs.

use crate::{Slots, all_once, check, expect_failure, until};
use quarry_sys::percpu::{ArrayId, Lists, Object, PerCpu, PlantedBug, Push, SlotIndex, Stepped};
use quarry_sys::primitive::task;
use quarry_sys::primitive::{AtomicU64, Ordering};

const LIST: ArrayId = ArrayId::new(5);

/// An object: the list uses its first word.
#[repr(align(16))]
struct Cell([AtomicU64; 2]);

/// The objects of one run.
struct Objects(Vec<Cell>);

impl Objects {
    fn new(count: usize) -> Self {
        Self((0..count).map(|_| Cell([const { AtomicU64::new(0) }; 2])).collect())
    }

    fn get(&self, index: usize) -> Object {
        std::ptr::NonNull::from(&self.0[index]).cast()
    }

    fn index_of(&self, object: Object) -> usize {
        (object.as_ptr() as usize - self.0.as_ptr() as usize) / size_of::<Cell>()
    }

    fn walk(&self, head: Option<Object>) -> Vec<usize> {
        let mut found = Vec::new();
        let mut next = head;
        while let Some(object) = next {
            let index = self.index_of(object);
            assert!(index < self.0.len() && found.len() < self.0.len(), "a broken list");
            found.push(index);
            next = Object::new(self.0[index].0[0].load(Ordering::Relaxed) as *mut u8);
        }
        found
    }
}

/// The guards and objects that a drain returns.
#[derive(Default)]
struct Drained {
    guards: Vec<u64>,
    objects: Vec<usize>,
}

impl Drained {
    fn drain(&mut self, slots: &Slots, objects: &Objects) -> bool {
        slots.drain_lists(LIST, &mut |guard, head, count| {
            let list = objects.walk(head);
            assert_eq!(list.len(), count, "the list and its count");
            if guard != 0 {
                self.guards.push(guard);
            }
            self.objects.extend(list);
        })
    }
}

/// Two threads install guards of their own where there is none, push with whatever guard they find,
/// and pop; the main thread drains twice.
fn guarded(bug: PlantedBug, cpus: u32) {
    drained_beside(bug, cpus, true);
}

/// Like `guarded`, but no thread may call the barrier while the threads run: the main thread drains
/// only the CPU that it runs on.
fn own_slot(bug: PlantedBug) {
    drained_beside(bug, 2, false);
}

fn drained_beside(bug: PlantedBug, cpus: u32, reaches_all: bool) {
    let slots = Slots::new(cpus, bug);
    if !reaches_all {
        slots.leave_barrier_to(None);
    }
    let objects = Objects::new(4);
    let mut drained = Drained::default();
    let (mut installed, mut hands) = (Vec::new(), Vec::new());
    shuttle::thread::scope(|scope| {
        let workers: Vec<_> = (0..2)
            .map(|index| {
                let (slots, objects) = (&slots, &objects);
                scope.spawn(move || freeze_and_use(slots, objects, index))
            })
            .collect();
        for _ in 0..2 {
            assert_eq!(drained.drain(&slots, &objects), reaches_all);
        }
        for worker in workers {
            let (guards, hand) = worker.join().expect("no panic");
            installed.extend(guards);
            hands.extend(hand);
        }
    });
    slots.leave_barrier_to(Some(task::current()));
    let count =
        |slot| slots.area().word(SlotIndex(slot), LIST, 0).load(Ordering::Relaxed) & 0xf_ffff;
    let level: u64 = (0..slots.area().slots()).map(count).sum();
    let before = drained.objects.len();
    assert!(drained.drain(&slots, &objects));
    assert_eq!(level, (drained.objects.len() - before) as u64);
    hands.extend(drained.objects);
    all_once(hands, 0..4);
    drained.guards.sort_unstable();
    installed.sort_unstable();
    assert_eq!(drained.guards, installed, "each guard comes out once");
}

fn freeze_and_use(slots: &Slots, objects: &Objects, index: usize) -> (Vec<u64>, Vec<usize>) {
    let (mut guards, mut hand) = (Vec::new(), vec![2 * index, 2 * index + 1]);
    for round in 0..2 {
        let slot = slots.current();
        let mine = (10 * (index + 1) + round) as u64;
        if slots.compare_store((slot, LIST, 1), 0, mine) {
            guards.push(mine);
        }
        let guard = slots.area().word(slot, LIST, 1).load(Ordering::Relaxed);
        let usable = guard != 0 && guard != u64::MAX;
        if let Some(object) = usable.then(|| hand.pop()).flatten() {
            // SAFETY: the object is in this hand only; LIST is used as a list.
            match unsafe { slots.list_push(LIST, guard, objects.get(object)) } {
                Push::Stored => {}
                Push::Refused => hand.push(object),
                Push::Duplicate => panic!("{object} is in a hand and on a list"),
            }
        } else {
            hand.extend(popped(slots, objects));
        }
        if round == 1 {
            hand.extend(popped(slots, objects));
        }
    }
    (guards, hand)
}

fn popped(slots: &Slots, objects: &Objects) -> Option<usize> {
    // SAFETY: LIST holds only objects of this run.
    unsafe { slots.list_pop(LIST) }.map(|object| objects.index_of(object))
}

fn on_two_cpus(bug: PlantedBug) {
    guarded(bug, 2);
}

fn on_one_cpu(bug: PlantedBug) {
    guarded(bug, 1);
}

/// One store puts a whole list into word 0, as a slab policy does with a slab's free objects.
/// Another takes the list out, beside pops and a drain.
fn whole_lists(bug: PlantedBug) {
    let slots = Slots::new(1, bug);
    let objects = Objects::new(2);
    let mut found = Vec::new();
    let mut drained = Drained::default();
    let list = {
        let (head, next) = (objects.get(0), objects.get(1));
        objects.0[0].0[0].store(next.as_ptr() as u64, Ordering::Relaxed);
        (head.as_ptr() as u64 >> 4) << 20 | 2
    };
    until(|| slots.compare_store((SlotIndex(0), LIST, 0), 0, list));
    shuttle::thread::scope(|scope| {
        let (slots, objects) = (&slots, &objects);
        let popper = scope.spawn(|| popped(slots, objects));
        let taker = scope.spawn(|| slots.compare_store((SlotIndex(0), LIST, 0), list, 0));
        assert!(drained.drain(slots, objects));
        found.extend(popper.join().expect("no panic"));
        if taker.join().expect("no panic") {
            found.extend([0, 1]);
        }
    });
    assert!(drained.drain(&slots, &objects));
    found.extend(drained.objects);
    all_once(found, 0..2);
}

/// A drain returns each object that was on a list before it began, although other threads exchange
/// the guard and push and pop other objects.
fn complete(bug: PlantedBug) {
    let slots = Slots::new(1, bug);
    let objects = Objects::new(2);
    let push = |object: usize, guard| {
        // SAFETY: the object is in the caller's hand only; LIST is used as a list.
        unsafe { slots.list_push(LIST, guard, objects.get(object)) }
    };
    until(|| slots.compare_store((SlotIndex(0), LIST, 1), 0, 3));
    until(|| push(0, 3) == Push::Stored);
    let mut drained = Drained::default();
    shuttle::thread::scope(|scope| {
        scope.spawn(|| slots.compare_store((SlotIndex(0), LIST, 1), 3, 4));
        scope.spawn(|| push(1, 4));
        assert!(drained.drain(&slots, &objects));
        assert!(drained.objects.contains(&0), "a slot was left out: {:?}", drained.objects);
    });
}

/// Bounded pushes and pops beside drains and beside a thread that sets the bound: objects are
/// conserved, and no list is longer than its bound.
fn bounded(bug: PlantedBug) {
    const BOUND: u64 = 2;
    let slots = Slots::new(2, bug);
    let objects = Objects::new(4);
    let (mut drained, mut hands) = (Drained::default(), Vec::new());
    let drain = |drained: &mut Drained| {
        slots.drain_lists(LIST, &mut |guard, head, count| {
            let list = objects.walk(head);
            assert_eq!(list.len(), count, "the list and its count");
            assert!(count as u64 <= guard, "{count} objects under a bound of {guard}");
            drained.objects.extend(list);
        })
    };
    shuttle::thread::scope(|scope| {
        let workers: Vec<_> = (0..2)
            .map(|index| {
                let (slots, objects) = (&slots, &objects);
                scope.spawn(move || push_bounded(slots, objects, index, BOUND))
            })
            .collect();
        for _ in 0..2 {
            assert!(drain(&mut drained));
        }
        for worker in workers {
            hands.extend(worker.join().expect("no panic"));
        }
    });
    assert!(drain(&mut drained));
    hands.extend(drained.objects);
    all_once(hands, 0..4);
}

fn push_bounded(slots: &Slots, objects: &Objects, index: usize, bound: u64) -> Vec<usize> {
    let mut hand = vec![2 * index, 2 * index + 1];
    for round in 0..4 {
        let Some(object) = hand.pop() else { break };
        // SAFETY: the object is in this hand only; LIST is used as a list.
        match unsafe { slots.list_push_below(LIST, objects.get(object)) } {
            Push::Stored if round == 2 => hand.extend(popped(slots, objects)),
            Push::Stored => {}
            Push::Refused => {
                hand.push(object);
                slots.compare_store((slots.current(), LIST, 1), 0, bound);
            }
            Push::Duplicate => panic!("{object} is in a hand and on a list"),
        }
    }
    hand
}

/// The barrier is refused from some point on: drains restore the guards that they replaced.
fn refusal(bug: PlantedBug) {
    let slots = Slots::new(1, bug);
    let objects = Objects::new(1);
    let mut drained = Drained::default();
    let mut hand = vec![0];
    let mut installed = Vec::new();
    shuttle::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let mut guards = Vec::new();
            for guard in [7, 8] {
                if slots.compare_store((SlotIndex(0), LIST, 1), 0, guard) {
                    guards.push(guard);
                }
            }
            guards
        });
        drained.drain(&slots, &objects);
        slots.sequences().refuse_barrier();
        if drained.drain(&slots, &objects) {
            // No list was in use, so the drain needed no barrier.
            assert!(drained.guards.len() <= 1);
        }
        installed = worker.join().expect("no panic");
    });
    Stepped::pin(0);
    // Objects that no drain has taken are still in the cell, and the cell works.
    let guard = slots.area().word(SlotIndex(0), LIST, 1).load(Ordering::Relaxed);
    assert_ne!(guard, u64::MAX, "a mark was left");
    // SAFETY: the object is ours and, until it is stored, on no list.
    until(|| unsafe { slots.list_push(LIST, guard, objects.get(0)) } == Push::Stored);
    hand.clear();
    until(|| {
        hand.extend(popped(&slots, &objects));
        hand == [0]
    });
    drained.guards.extend((guard != 0).then_some(guard));
    drained.guards.sort_unstable();
    assert_eq!(drained.guards, installed, "each guard once");
}

mod holds {
    use super::*;
    #[test]
    fn on_two_cpus() {
        check(|| super::on_two_cpus(PlantedBug::None));
    }
    #[test]
    fn on_one_cpu() {
        check(|| super::on_one_cpu(PlantedBug::None));
    }
    #[test]
    fn own_slot() {
        check(|| super::own_slot(PlantedBug::None));
    }
    #[test]
    fn whole_lists() {
        check(|| super::whole_lists(PlantedBug::None));
    }
    #[test]
    fn bounded() {
        check(|| super::bounded(PlantedBug::None));
    }
    #[test]
    fn complete() {
        check(|| super::complete(PlantedBug::None));
    }
    #[test]
    fn refusal() {
        check(|| super::refusal(PlantedBug::None));
    }
}

mod finds {
    use super::*;
    #[test]
    fn barrier_does_nothing() {
        expect_failure(|| super::whole_lists(PlantedBug::BarrierDoesNothing));
    }
    #[test]
    fn compare_store_ignores_cpu() {
        expect_failure(|| super::own_slot(PlantedBug::CompareStoreIgnoresCpu));
    }
    #[test]
    fn commits_after_preemption() {
        expect_failure(|| super::on_one_cpu(PlantedBug::CommitsAfterPreemption));
    }
    #[test]
    fn compare_store_ignores_stop() {
        expect_failure(|| super::whole_lists(PlantedBug::CompareStoreIgnoresStop));
    }
    #[test]
    fn list_push_below_ignores_stop() {
        expect_failure(|| super::bounded(PlantedBug::ListPushBelowIgnoresStop));
    }
    #[test]
    fn list_pop_ignores_stop() {
        expect_failure(|| super::whole_lists(PlantedBug::ListPopIgnoresStop));
    }
}
