//! One suite for every backend: an oracle checks random operations, and each promise of the traits
//! has a test of its own.

use crate::oracle::{Oracle, any_op};
use crate::support::{
    A, B, Backend, CAPACITY_A, LIST, Objects, Slots, Virtual, list_usage, number, tag,
};
use proptest::prelude::*;
use quarry_sys::percpu::{
    ArrayId, Arrays, LOOKED_AT, Limits, LockedSlots, MAX_ARRAYS, NativeSlots, PerCpu, Push,
    ThreadStripe, WIDE_OBJECTS, WIDE_PLACES,
};
use quarry_sys::primitive::Ordering;
use std::collections::BTreeSet;

fn follows_the_oracle<S: Backend>() {
    let programs = proptest::collection::vec(any_op(), 1..300);
    let usual = ProptestConfig::default();
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: (usual.cases / 8).max(1),
        failure_persistence: None,
        ..usual
    });
    let result = runner.run(&programs, |ops| {
        let slots = Slots::<S>::new();
        let mut oracle = Oracle::new(&slots);
        ops.iter().for_each(|op| oracle.step(op));
        Ok(())
    });
    result.unwrap_or_else(|failure| panic!("{failure}"));
}

/// Pushes and pops are refused before `prepare`, or without `define`.
fn closed_until_prepared<S: Backend>() {
    let slots = Slots::<S>::new();
    let never_defined = ArrayId::new(50);
    slots.prepare(never_defined).expect("preparing what is not defined does nothing");
    for array in [A, never_defined] {
        assert_eq!(slots.put(array, tag(1)), Push::Refused);
        assert_eq!(slots.take(array), None);
        assert!(!slots.push_batch(array, &[tag(1)]));
        assert_eq!(slots.take_batch(array, 1), None);
        assert_eq!(slots.usage(array), Default::default());
        assert_eq!(slots.drained(array), []);
    }
}

/// A push does not compare its object with words below the array's bottom, whatever they hold.
fn a_neighbours_top_is_no_duplicate<S: Backend>() {
    let slots = Slots::<S>::new();
    fill(&slots, A, CAPACITY_A);
    slots.prepare(B).expect("memory");
    for depth in 1..=CAPACITY_A.min(3) {
        assert_ne!(slots.put(B, tag(CAPACITY_A - depth)), Push::Duplicate);
        let _ = slots.take(B);
    }
}

fn fill<S: Backend>(slots: &Slots<S>, array: ArrayId, count: usize) {
    for object in 0..count {
        // The thread may migrate to a CPU whose slot has not been prepared.
        while slots.put(array, tag(object)) == Push::Refused {
            slots.prepare(array).expect("memory");
        }
    }
}

fn empty_batches_succeed<S: Backend>() {
    let slots = Slots::<S>::new();
    for array in [A, B] {
        assert_eq!(slots.take_batch(array, 0), Some(vec![]));
        assert!(slots.push_batch(array, &[]));
    }
    fill(&slots, A, 1);
    assert_eq!(slots.take_batch(A, 0), Some(vec![]));
    assert!(slots.push_batch(A, &[]));
    assert_eq!(slots.usage(A).level, 1);
}

/// Batches larger than any array are refused, even if 16 bits cannot count their objects.
fn huge_batches_are_refused<S: Backend>() {
    let slots = Slots::<S>::new();
    fill(&slots, A, 2);
    for count in [CAPACITY_A + 1, 0xffff, 0x1_0000, 0x1_0001, 0x2_0002] {
        let batch = vec![tag(9); count];
        assert!(!slots.push_batch(A, &batch), "{count} objects");
        assert_eq!(slots.take_batch(A, count), None, "{count} objects");
    }
    assert_eq!(slots.usage(A).level, 2);
}

/// A request for room opens a drained array again. A drain of many objects passes them on in
/// several pieces.
fn drains_in_pieces<S: Backend>() {
    let slots = Slots::<S>::new();
    let wide = ArrayId::new(3);
    slots.area().define(wide, 200).expect("fresh slots have room");
    for round in 0..3 {
        fill(&slots, wide, 150 + round);
        let mut pieces = 0;
        let mut all = Vec::new();
        assert!(slots.drain(wide, &mut |objects| {
            pieces += 1;
            all.extend(objects.iter().map(|object| number(*object)));
        }));
        all.sort_unstable();
        assert_eq!(all, (0..150 + round).collect::<Vec<_>>());
        assert!(pieces >= 3, "pieces hold at most 64 objects");
        assert_eq!(slots.usage(wide).level, 0);
    }
    assert_eq!(slots.usage(wide).operations, 150 + 151 + 152, "drains count no operations");
}

fn layouts_run_out<S: Backend>() {
    let slots = Slots::<S>::new();
    let words = quarry_sys::percpu::SLOT_BYTES / 8 - WIDE_PLACES * (WIDE_OBJECTS + LOOKED_AT);
    assert_eq!(slots.area().define(A, 1).map_err(|error| error.0), Err(libc::EEXIST));
    assert_eq!(slots.area().capacity(A), CAPACITY_A, "a second definition changes nothing");
    let mut left = words;
    let mut defined = 0;
    for index in 10..40 {
        match slots.area().define(ArrayId::new(index), 1000) {
            Ok(()) => {
                defined += 1;
                left -= 1001;
            }
            Err(error) => assert_eq!(error.0, libc::ENOMEM),
        }
    }
    assert!(defined >= 4 && left < 1001 + 600, "{defined} arrays, {left} words left");
    let last = ArrayId::new(9 + defined);
    assert_eq!(slots.area().capacity(last), 1000);
    assert_eq!(slots.area().capacity(ArrayId::new(10 + defined)), 0);
    assert_eq!(
        slots.area().define(ArrayId::new(60), usize::MAX).map_err(|error| error.0),
        Err(libc::ENOMEM)
    );
    // The last word before the wide places is usable.
    fill(&slots, last, 1000);
    assert_eq!(slots.drained(last).len(), 1000);
}

/// An array whose cache was destroyed serves another cache, and takes no further words.
fn defined_again<S: Backend>() {
    let slots = Slots::<S>::new();
    S::enter(0);
    let (array, next) = (ArrayId::new(4), ArrayId::new(5));
    let refused = |capacity| {
        slots.area().define_again(array, capacity).map_err(|error| error.0).expect_err("refused")
    };
    assert_eq!(refused(9), libc::ENOENT, "it was never defined");
    slots.area().define(array, 100).expect("fresh slots have room");
    slots.area().define(next, 10).expect("fresh slots have room");
    for (wanted, capacity) in [(40, 40), (100, 100), (7, 7), (5000, 100)] {
        slots.area().define_again(array, wanted).expect("no slot has room in it");
        assert_eq!(slots.area().capacity(array), capacity);
        slots.prepare(next).expect("memory");
        fill(&slots, array, capacity);
        assert_eq!(slots.put(array, tag(capacity)), Push::Refused);
        assert_eq!(slots.put(next, tag(7)), Push::Stored);
        assert_eq!(refused(9), libc::EBUSY, "a slot has room in it");
        let mut objects: Vec<_> = slots.drained(array).into_iter().map(number).collect();
        objects.sort_unstable();
        assert_eq!(objects, (0..capacity).collect::<Vec<_>>());
        assert_eq!(slots.take(next), Some(tag(7)), "the neighbour has kept its own");
    }
}

/// However many arrays are defined, each can be given a fair part of the words.
fn words_are_shared_out<S: Backend>() {
    let slots = Slots::<S>::new();
    let mut capacities = Vec::new();
    for index in 5..MAX_ARRAYS {
        let capacity = slots.area().fair_capacity(MAX_ARRAYS - 1 - index).min(128);
        slots.area().define(ArrayId::new(index), capacity).expect("there is room for all");
        capacities.push(capacity);
    }
    assert!(capacities.is_sorted_by(|one, next| one >= next), "{capacities:?}");
    assert_eq!((capacities[0], capacities.iter().min()), (128, Some(&8)), "{capacities:?}");
}

/// All wide places are full; one array finds none until a place becomes free.
fn wide_places_run_out<S: Backend>() {
    let slots = Slots::<S>::new();
    S::enter(0);
    let arrays: Vec<ArrayId> = (10..11 + WIDE_PLACES).map(ArrayId::new).collect();
    for array in &arrays {
        slots.area().define(*array, 3).expect("fresh slots have room");
        slots.area().define_wide(*array, usize::MAX);
    }
    let widen = |array: ArrayId| {
        fill(&slots, array, 3);
        slots.widen(array)
    };
    // A thread that migrates uses several slots, so more arrays may find a place.
    let widened = arrays.iter().filter(|array| widen(**array)).count();
    assert!(widened >= WIDE_PLACES, "{widened} arrays are wide");
    if !S::DECLARED {
        // On another slot the array may be narrow, so the test cannot fill a wide one.
        return;
    }
    assert_eq!(widened, WIDE_PLACES, "the last one found no place");
    for array in &arrays[..WIDE_PLACES] {
        fill(&slots, *array, WIDE_OBJECTS - 3);
    }
    assert_eq!(slots.put(arrays[0], tag(0)), Push::Refused, "a wide array is full too");
    assert_eq!(slots.drained(arrays[1]).len(), WIDE_OBJECTS);
    let [last, neighbour] = [arrays[WIDE_PLACES], arrays[2]];
    assert!(slots.widen(last), "the drained array's place is free again");
    let found: Vec<usize> = slots.drained(neighbour).into_iter().map(number).collect();
    assert_eq!(found.len(), WIDE_OBJECTS);
    assert!(found.starts_with(&[0, 1, 2, 0, 1]), "a neighbour wrote here: {:?}", &found[..8]);
}

/// An array in a wide place gets more of that place, and keeps its objects.
fn wide_places_grow<S: Backend>() {
    let slots = Slots::<S>::new();
    S::enter(0);
    let array = ArrayId::new(10);
    slots.area().define(array, 3).expect("fresh slots have room");
    slots.area().define_wide(array, usize::MAX);
    let eight = Limits { wide: 8, ..Limits::NONE };
    let mut pushed = 0;
    // A thread that migrates uses another slot, where the array may have other room.
    let mut fill_up = || {
        while slots.put(array, tag(pushed)) != Push::Refused {
            pushed += 1;
        }
        pushed
    };
    slots.prepare(array).expect("memory");
    assert!(fill_up() >= 3);
    let is_wide = slots.widen_within(array, &eight);
    let held = fill_up();
    if S::DECLARED {
        assert!(is_wide && held == 8, "{held} objects");
        assert!(!slots.widen_within(array, &eight), "it has that room already");
        assert!(slots.widen(array), "there is more room in its place");
        assert_eq!(fill_up(), WIDE_OBJECTS);
        assert!(!slots.widen(array), "it has the whole place");
    }
    let held_at_last = fill_up();
    let found = slots.drained(array).into_iter().map(number);
    assert_eq!(found.collect::<BTreeSet<_>>(), (0..held_at_last).collect());
}

fn full_lists_refuse<S: Backend>() {
    let slots = Slots::<S>::new();
    let objects = Objects::new(2);
    // Forge a list of 2^20 - 2 objects: a push reads only its head.
    let head = objects.get(0);
    let almost_full = (head.as_ptr() as u64 >> 4) << 20 | 0xf_fffe;
    while !slots.compare_store((slots.current(), LIST, 0), 0, almost_full) {}
    // SAFETY: LIST is a list; its objects are ours.
    unsafe {
        while slots.list_push(LIST, 0, objects.get(1)) != Push::Stored {}
        let level = list_usage(slots.area()).level;
        let again = slots.list_push(LIST, 0, objects.get(0));
        if level == 0xf_ffff {
            assert_eq!(again, Push::Refused, "the count has 20 bits");
        }
    }
}

/// A bounded push obeys the lower half of the guard, and refuses if the guard is 0 or the list is
/// stopped.
fn bounded_lists_refuse<S: Backend>() {
    let slots = Slots::<S>::new();
    S::enter(0);
    let objects = Objects::new(8);
    // SAFETY: LIST is a list; its objects are ours, and each is pushed once.
    let push = |index: usize| unsafe { slots.list_push_below(LIST, objects.get(index)) };
    assert_eq!(push(0), Push::Refused, "fresh memory has no bound");
    let bound = |slot| slots.compare_store((slot, LIST, 1), 0, 7 << 32 | 3);
    (0..slots.area().slots()).map(quarry_sys::percpu::SlotIndex).for_each(|slot| {
        bound(slot);
    });
    while slots.area().word(slots.current(), LIST, 1).load(Ordering::Relaxed) == 0 {
        bound(slots.current());
    }
    let pushed: Vec<Push> = (0..4).map(push).collect();
    let level = list_usage(slots.area());
    if S::DECLARED {
        assert_eq!(pushed, [Push::Stored, Push::Stored, Push::Stored, Push::Refused]);
        assert_eq!((level.level, level.pushes), (3, 3));
        assert_eq!(push(2), Push::Duplicate, "a full list still knows its head");
    }
    let mut drained = 0;
    assert!(slots.drain_lists(LIST, &mut |guard, _, count| {
        assert!(guard == 7 << 32 | 3 && count <= 3, "{count} objects under {guard:x}");
        drained += count as u64;
    }));
    assert_eq!(drained, level.level);
    assert_eq!(push(5), Push::Refused, "a drain takes the bound");
}

/// Each call to the OS fails, alone or together with the next one: `init` works nevertheless, or
/// returns an error and can be repeated.
fn init_repeats_and_fails_cleanly<S: Backend>() {
    static FAILING: quarry_sys::os::FakeOs = quarry_sys::os::FakeOs::new(4096);
    let _alone = EXCLUSIVE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut refusals = 0;
    for (nth, count) in [(1, 1), (1, 2), (2, 1), (2, 2)] {
        let slots = S::INERT;
        slots.configure();
        FAILING.fail(nth, count);
        if let Err(error) = slots.init(&FAILING) {
            assert_eq!(error.0, libc::ENOMEM);
            refusals += 1;
        }
        FAILING.fail_nth(0);
        slots.init(&FAILING).expect("nothing fails any more");
        let calls = FAILING.calls();
        slots.init(&FAILING).expect("a second init does nothing");
        assert_eq!(FAILING.calls(), calls);
        slots.area().define(A, 1).expect("fresh slots have room");
        slots.prepare(A).expect("memory");
        assert_eq!(slots.area().word(slots.current(), A, 2).load(Ordering::Relaxed), 0);
        // SAFETY: no other code knows these slots.
        unsafe { slots.area().release(&FAILING) };
    }
    assert!(refusals > 0, "no call of init failed");
}

static EXCLUSIVE: std::sync::Mutex<()> = std::sync::Mutex::new(());

macro_rules! suite {
    ($($name:ident: $backend:ty),+ $(,)?) => {
        $(mod $name {
            use super::*;
            type Backend = $backend;
            suite!(@cases follows_the_oracle closed_until_prepared empty_batches_succeed
                a_neighbours_top_is_no_duplicate huge_batches_are_refused drains_in_pieces
                layouts_run_out wide_places_run_out wide_places_grow defined_again
                words_are_shared_out full_lists_refuse bounded_lists_refuse
                init_repeats_and_fails_cleanly);
        })+
    };
    (@cases $($case:ident)+) => {
        $(#[test] fn $case() { super::$case::<Backend>(); })+
    };
}

suite! {
    native: NativeSlots,
    locked: LockedSlots<ThreadStripe>,
    virtual_1: Virtual<1>,
    virtual_2: Virtual<2>,
    virtual_64: Virtual<64>,
}

#[test]
fn a_declared_slot_is_used_by_each_thread_that_enters_it() {
    let slots = Slots::<Virtual<2>>::new();
    for slot in 0..2 {
        Virtual::<2>::enter(slot);
        assert_eq!(slots.current().0, slot);
        slots.prepare(A).expect("memory");
        assert_eq!(slots.push(A, tag(slot as usize)), Push::Stored);
    }
    Virtual::<2>::enter(0);
    assert_eq!(slots.pop(A), Some(tag(0)));
    assert_eq!(slots.pop(A), None);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            Virtual::<2>::enter(1);
            assert_eq!(slots.pop(A), Some(tag(1)));
        });
    });
}
