//! Room: how much each array gets, within limits.

use crate::support::{Backend, Slots, Virtual, number, tag};
use quarry_sys::percpu::{ArrayId, Arrays, Limits, PerCpu, Push, SlotIndex};

type FourCpus = Virtual<4>;

const X: ArrayId = ArrayId::new(20);
const Y: ArrayId = ArrayId::new(21);
const Z: ArrayId = ArrayId::new(22);
const CAPACITY: usize = 64;
const BYTES: usize = 100;

fn slots() -> Slots<FourCpus> {
    let slots = Slots::<FourCpus>::new();
    for array in [X, Y, Z] {
        slots.area().define(array, CAPACITY).expect("fresh slots have room");
        slots.area().weigh(array, BYTES);
    }
    FourCpus::enter(0);
    slots
}

fn room(slots: &Slots<FourCpus>, array: ArrayId) -> usize {
    slots.area().room(slots.current(), array)
}

/// Asks for room; returns whether it was given, and the objects taken from other arrays for it.
fn ask(slots: &Slots<FourCpus>, array: ArrayId, limits: &Limits) -> (bool, Vec<usize>) {
    let mut taken = Vec::new();
    let has_more = slots.make_room(array, limits, &mut |_, objects| {
        taken.extend(objects.iter().map(|object| number(*object)));
    });
    assert_eq!(slots.area().validate_room(limits.slot), Ok(()));
    (has_more, taken)
}

#[test]
fn an_array_that_goes_on_missing_gets_more() {
    let slots = slots();
    let limits = Limits { slot: 128 * BYTES, all: usize::MAX, least: 0, ..Limits::NONE };
    let mut rooms = Vec::new();
    while ask(&slots, X, &limits).0 {
        rooms.push(room(&slots, X));
    }
    assert_eq!(rooms, [16, 32, 64], "an eighth of what is left, then twice as much");
    assert_eq!(slots.area().slot_room(SlotIndex(0)), CAPACITY * BYTES);
}

#[test]
fn one_slot_and_all_slots_have_limits() {
    let slots = slots();
    let limits = Limits { slot: 100 * BYTES, all: 150 * BYTES, least: 20 * BYTES, ..Limits::NONE };
    for cpu in 0..4 {
        FourCpus::enter(cpu);
        for _ in 0..4 {
            [X, Y, Z].into_iter().for_each(|array| drop(ask(&slots, array, &limits)));
        }
    }
    let area = slots.area();
    let of_slots: Vec<usize> = (0..4).map(|cpu| area.slot_room(SlotIndex(cpu)) / BYTES).collect();
    assert!((70..=100).contains(&of_slots[0]), "{of_slots:?}");
    assert!(of_slots[2..].iter().all(|room| (8..=20).contains(room)), "{of_slots:?}");
    assert!(area.all_room() <= limits.all + 4 * limits.least, "{of_slots:?}");
    assert_eq!(area.all_room(), of_slots.iter().sum::<usize>() * BYTES);
}

/// An array at the limits takes the room and the objects of arrays unused since the last round.
#[test]
fn unused_arrays_make_room() {
    let slots = slots();
    for array in [X, Y] {
        slots.prepare(array).expect("memory");
        assert_eq!(slots.push(array, tag(array.index())), Push::Stored);
    }
    let limits = Limits { slot: 2 * CAPACITY * BYTES, all: usize::MAX, least: 0, ..Limits::NONE };
    assert_eq!(ask(&slots, Z, &limits), (false, vec![]), "both have been used");
    assert_eq!(slots.pop(Y), Some(tag(Y.index())), "Y still is");
    assert_eq!(ask(&slots, Z, &limits), (true, vec![X.index()]));
    assert_eq!((room(&slots, X), room(&slots, Y)), (0, CAPACITY));
    assert!(room(&slots, Z) >= 8);
    assert_eq!(slots.push(X, tag(1)), Push::Refused);
    assert_eq!(slots.usage(X).operations, 1, "what it has counted stays");
}

#[test]
fn large_objects_get_room_for_a_few() {
    let slots = slots();
    let limits = Limits { slot: 8 << 20, all: 32 << 20, least: 0, ..Limits::NONE };
    for (array, bytes) in [(X, 64 << 10), (Y, 1 << 20), (Z, 4 << 20)] {
        slots.area().weigh(array, bytes);
        assert!(ask(&slots, array, &limits).0, "objects of {bytes} bytes have no room");
    }
    assert_eq!(slots.push(Z, tag(1)), Push::Stored);
}

/// A drain of some arrays in some slots does not change the others.
#[test]
fn drains_choose_arrays_and_slots() {
    let slots = slots();
    for cpu in 0..3 {
        FourCpus::enter(cpu);
        for array in [X, Y] {
            slots.prepare(array).expect("memory");
            slots.push(array, tag(10 * cpu as usize + array.index()));
        }
    }
    let mut taken = Vec::new();
    let which = |slot: SlotIndex, array| slot.0 == 2 || slot.0 == 1 && array == Y;
    assert!(slots.drain_where(&which, &mut |array, objects| {
        taken.extend(objects.iter().map(|object| (array, number(*object))));
    }));
    assert_eq!(taken, [(Y, 31), (X, 40), (Y, 41)]);
    assert_eq!(slots.area().awake().map(|slot| slot.0).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(slots.usage(X).operations, 3, "slot 2 is asleep and still counts");
    assert_eq!(slots.area().held_bytes(), 3 * BYTES);
}
