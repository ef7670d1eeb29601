//! The oracle: a `Vec` per slot and array. It watches the words of every slot to learn in which
//! slot an operation happened, and then computes what the operation should have done.

use crate::support::{
    A, B, Backend, CAPACITY_A, CAPACITY_B, LIST, Objects, Slots, WIDE_A, list_usage, number, tag,
};
use proptest::prelude::*;
use quarry_sys::percpu::{ArrayId, LOOKED_AT, Push, SlotIndex};

/// One operation of a suite.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Enter(u32),
    Prepare(ArrayId),
    Pop(ArrayId),
    Push(ArrayId),
    /// Pushes an object again: the one on top, or the one this far below it.
    PushAgain(ArrayId, usize),
    PopBatch(ArrayId, usize),
    PushBatch(ArrayId, usize),
    Widen(ArrayId),
    Drain(ArrayId),
    /// Sets the list's guard to the number by `compare_store`, which expects the old guard if true.
    SetGuard(bool, u64),
    ListPush(u64),
    ListPushAgain,
    ListPushBelow,
    ListPop,
    DrainLists,
    /// `PushAgain` with the number of the object that `resolve` found in the running CPU's slot.
    Repeat(ArrayId, usize),
    /// `ListPushAgain` with the guard and the head that `resolve` found in that slot.
    ListRepeat(u64, usize),
}

/// A random operation; those that empty everything are rare.
pub(crate) fn any_op() -> impl Strategy<Value = Op> {
    let array = prop_oneof![Just(A), Just(B)];
    prop_oneof![
        3 => (0..64u32).prop_map(Op::Enter),
        2 => array.clone().prop_map(Op::Prepare),
        8 => array.clone().prop_map(Op::Pop),
        12 => array.clone().prop_map(Op::Push),
        2 => (array.clone(), 0..LOOKED_AT).prop_map(|(array, depth)| Op::PushAgain(array, depth)),
        3 => (array.clone(), 0..CAPACITY_B + 2).prop_map(|(array, n)| Op::PopBatch(array, n)),
        5 => (array.clone(), 0..CAPACITY_B + 2).prop_map(|(array, n)| Op::PushBatch(array, n)),
        2 => array.clone().prop_map(Op::Widen),
        1 => array.prop_map(Op::Drain),
        2 => (any::<bool>(), 0..3u64).prop_map(|(right, guard)| Op::SetGuard(right, guard)),
        8 => (0..3u64).prop_map(Op::ListPush),
        2 => Just(Op::ListPushAgain),
        4 => Just(Op::ListPushBelow),
        6 => Just(Op::ListPop),
        1 => Just(Op::DrainLists),
    ]
}

#[derive(Clone, Debug, Default, PartialEq)]
struct ArrayModel {
    /// True if the array has room.
    opened: bool,
    wide: bool,
    stack: Vec<usize>,
    operations: u64,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct ListModel {
    guard: u64,
    /// The objects; the last one is the head.
    stack: Vec<usize>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct SlotModel {
    arrays: [ArrayModel; 2],
    list: ListModel,
}

/// The arrays with the capacities of their narrow and wide places.
const ARRAYS: [(ArrayId, [usize; 2]); 2] =
    [(A, [CAPACITY_A, WIDE_A]), (B, [CAPACITY_B, CAPACITY_B])];

impl SlotModel {
    fn array(&mut self, array: ArrayId) -> (&mut ArrayModel, usize) {
        let place = ARRAYS.iter().position(|(id, _)| *id == array).expect("A or B");
        let model = &mut self.arrays[place];
        let capacity = ARRAYS[place].1[usize::from(model.wide)];
        (model, capacity)
    }
}

/// The result of an operation.
#[derive(Clone, Debug, PartialEq)]
enum Outcome {
    Nothing,
    Taken(Option<usize>),
    Pushed(Push),
    Batch(Option<Vec<usize>>),
    Stored(bool),
}

/// The oracle of one test.
pub(crate) struct Oracle<'a, S: Backend> {
    slots: &'a Slots<S>,
    models: Vec<SlotModel>,
    /// The words from which `models` were read, to detect which slots have changed.
    words: Vec<[u64; 6]>,
    objects: Objects,
    spare: Vec<usize>,
    next_tag: usize,
    /// Operations counted in slots that have lost all their room since.
    asleep: [u64; 2],
}

impl<'a, S: Backend> Oracle<'a, S> {
    pub(crate) fn new(slots: &'a Slots<S>) -> Self {
        let count = 64;
        Self {
            slots,
            models: vec![SlotModel::default(); slots.area().slots() as usize],
            words: vec![[0; 6]; slots.area().slots() as usize],
            objects: Objects::new(count),
            spare: (0..count).collect(),
            next_tag: 0,
            asleep: [0; 2],
        }
    }

    /// Runs one operation on the slots and on the oracle, and compares all visible results.
    pub(crate) fn step(&mut self, op: &Op) {
        match op {
            Op::Enter(hint) => S::enter(*hint),
            Op::Drain(array) => self.drain(*array),
            Op::DrainLists => self.drain_lists(),
            _ => self.step_on_one_slot(op),
        }
        if matches!(op, Op::Drain(_) | Op::DrainLists) {
            self.words = (0..self.models.len()).map(|slot| self.words(slot)).collect();
        }
        self.compare_usage();
    }

    /// Runs an operation, finds the slot in which it happened, and checks its effect there.
    fn step_on_one_slot(&mut self, op: &Op) {
        let fresh = [self.next_tag, self.spare.last().copied().unwrap_or(0)];
        if self.spare.is_empty() && matches!(op, Op::ListPush(_) | Op::ListPushBelow) {
            return;
        }
        let before = self.slots.current();
        let resolved = self.resolve(op, before);
        let outcome = self.run(&resolved, before, fresh);
        let after = self.slots.current();
        self.next_tag += CAPACITY_B + 2;
        let pushes = matches!(resolved, Op::ListPush(_) | Op::ListPushBelow);
        if pushes && outcome == Outcome::Pushed(Push::Stored) {
            self.spare.pop();
        }
        if let (Op::ListPop, Outcome::Taken(Some(object))) = (&resolved, &outcome) {
            self.spare.push(*object);
        }
        let changed: Vec<usize> =
            (0..self.models.len()).filter(|slot| self.words(*slot) != self.words[*slot]).collect();
        assert!(changed.len() <= 1, "{resolved:?} changed the slots {changed:?}");
        if S::DECLARED {
            assert!(changed.iter().all(|slot| *slot == before.index()), "not the declared slot");
        }
        // An operation that changed nothing happened in the running CPU's slot, whichever that was.
        let places = match changed.first() {
            Some(slot) => vec![*slot],
            None if before == after => vec![before.index()],
            None => (0..self.models.len()).collect(),
        };
        let right = places.iter().copied().find(|slot| {
            let mut model = self.models[*slot].clone();
            let expected = apply(&mut model, &resolved, *slot == before.index(), fresh);
            expected == outcome && model == self.seen(*slot)
        });
        let Some(slot) = right else {
            let (was, is) = (&self.models[places[0]], self.seen(places[0]));
            panic!("{resolved:?} returned {outcome:?}; slot {}: {was:?} became {is:?}", places[0])
        };
        self.models[slot] = self.seen(slot);
        self.words[slot] = self.words(slot);
    }

    /// Gives a "push again" its object: the one in the running CPU's slot. A list's guard must be
    /// unique: else the thread might migrate and push the object to a second list.
    fn resolve(&mut self, op: &Op, here: SlotIndex) -> Op {
        let guards = self.models.iter().map(|model| model.list.guard);
        let guard = self.models[here.index()].list.guard;
        let is_unique = guards.filter(|other| *other == guard).count() == 1;
        let model = &mut self.models[here.index()];
        match op {
            Op::PushAgain(array, depth) => {
                match model.array(*array).0.stack.iter().nth_back(*depth) {
                    Some(again) => Op::Repeat(*array, *again),
                    None => Op::Push(*array),
                }
            }
            Op::ListPushAgain => match model.list.stack.last() {
                Some(head) if is_unique => Op::ListRepeat(guard, *head),
                _ => Op::ListPop,
            },
            other => other.clone(),
        }
    }

    fn run(&mut self, op: &Op, here: SlotIndex, fresh: [usize; 2]) -> Outcome {
        let slots = self.slots;
        match op {
            Op::Prepare(array) => {
                slots.prepare(*array).expect("the fake OS refuses nothing");
                Outcome::Nothing
            }
            Op::Widen(array) => Outcome::Stored(slots.widen(*array)),
            Op::Pop(array) => Outcome::Taken(slots.take(*array).map(number)),
            Op::Push(array) => Outcome::Pushed(slots.put(*array, tag(fresh[0]))),
            Op::Repeat(array, object) => Outcome::Pushed(slots.put(*array, tag(*object))),
            Op::PopBatch(array, count) => {
                let batch = slots.take_batch(*array, *count);
                Outcome::Batch(batch.map(|batch| batch.into_iter().map(number).collect()))
            }
            Op::PushBatch(array, count) => {
                let batch: Vec<_> = (0..*count).map(|offset| tag(fresh[0] + offset)).collect();
                Outcome::Stored(slots.push_batch(*array, &batch))
            }
            Op::SetGuard(right, new) => {
                let guard = self.models[here.index()].list.guard;
                let expected = if *right { guard } else { guard + 1 };
                Outcome::Stored(slots.compare_store((here, LIST, 1), expected, *new))
            }
            Op::ListPush(guard) => {
                let object = self.objects.get(fresh[1]);
                // SAFETY: LIST is used as a list, and the object is a spare one of ours.
                Outcome::Pushed(unsafe { slots.list_push(LIST, *guard, object) })
            }
            Op::ListRepeat(guard, head) => {
                let object = self.objects.get(*head);
                // SAFETY: as above; pushing the head of the only list with this guard changes
                // nothing.
                Outcome::Pushed(unsafe { slots.list_push(LIST, *guard, object) })
            }
            Op::ListPushBelow => {
                let object = self.objects.get(fresh[1]);
                // SAFETY: as above.
                Outcome::Pushed(unsafe { slots.list_push_below(LIST, object) })
            }
            Op::ListPop => {
                // SAFETY: LIST holds only objects of ours that were pushed.
                let popped = unsafe { slots.list_pop(LIST) };
                Outcome::Taken(popped.map(|object| self.objects.index_of(object)))
            }
            _ => unreachable!("resolved, and on one slot"),
        }
    }

    fn drain(&mut self, array: ArrayId) {
        let got: Vec<usize> = self.slots.drained(array).into_iter().map(number).collect();
        let mut wanted = Vec::new();
        for slot in &mut self.models {
            let model = slot.array(array).0;
            wanted.append(&mut model.stack);
            model.wide = false;
            model.opened = false;
            // The counts of a slot without room are kept outside the slot.
            if slot.arrays.iter().all(|array| !array.opened) {
                for (array, asleep) in slot.arrays.iter_mut().zip(&mut self.asleep) {
                    *asleep += std::mem::take(&mut array.operations);
                }
            }
        }
        assert_eq!(got, wanted, "drained, slot by slot from the bottom up");
    }

    fn drain_lists(&mut self) {
        let mut got = Vec::new();
        let objects = &self.objects;
        let all = self.slots.drain_lists(LIST, &mut |guard, head, count| {
            let list = objects.walk(head);
            assert_eq!(list.len(), count, "the list and its count");
            got.push((guard, list));
        });
        assert!(all, "nothing refuses the barrier");
        let mut wanted = Vec::new();
        for list in self.models.iter_mut().map(|model| std::mem::take(&mut model.list)) {
            self.spare.extend(&list.stack);
            if list != ListModel::default() {
                wanted.push((list.guard, list.stack.into_iter().rev().collect()));
            }
        }
        assert_eq!(got, wanted, "lists with their guards, slot by slot");
    }

    /// Both words of each cell of a slot.
    fn words(&self, slot: usize) -> [u64; 6] {
        let word = |array, word| {
            let word = self.slots.area().word(SlotIndex(slot as u32), array, word);
            word.load(quarry_sys::primitive::Ordering::Relaxed)
        };
        let [a, b, list] = [A, B, LIST].map(|array| [word(array, 0), word(array, 1)]);
        [a[0], a[1], b[0], b[1], list[0], list[1]]
    }

    /// The contents of a slot, in the oracle's form.
    fn seen(&self, slot: usize) -> SlotModel {
        let words = self.words(slot);
        let mut seen = SlotModel::default();
        for (place, (array, _)) in ARRAYS.into_iter().enumerate() {
            let (header, bounds) = (words[2 * place], words[2 * place + 1]);
            let model = seen.array(array).0;
            let slot_index = SlotIndex(slot as u32);
            model.opened = self.slots.area().room(slot_index, array) > 0;
            let is_closed = bounds >> 16 <= !bounds & 0xffff;
            assert_eq!(model.opened, !is_closed, "bounds {bounds:#x} and the room of the array");
            model.wide = self.slots.area().is_wide(slot_index, array);
            model.operations = header >> 16;
            let begin = !bounds & 0xffff;
            let cells = if bounds == 0 { 0..0 } else { begin..(header & 0xffff).max(begin) };
            let word = self.slots.area().word(SlotIndex(slot as u32), A, 0);
            let base = word.as_ptr() as usize - A.index() * 32;
            for cell in cells {
                let address = base + cell as usize * 8;
                // SAFETY: a word of the area, below the top of an open array; one thread is here.
                let object = unsafe { (address as *const u64).read() };
                model.stack.push(object as usize / 16 - 1);
            }
        }
        let list = words[4];
        seen.list.guard = words[5];
        let head = quarry_sys::percpu::Object::new(((list >> 20) << 4) as *mut u8);
        seen.list.stack = self.objects.walk(head);
        seen.list.stack.reverse();
        assert_eq!(seen.list.stack.len() as u64, list & 0xf_ffff, "the list and its count");
        seen
    }

    fn compare_usage(&mut self) {
        assert_eq!(self.slots.area().validate_room(usize::MAX), Ok(()));
        for ((array, [_, capacity]), asleep) in ARRAYS.into_iter().zip(self.asleep) {
            let usage = self.slots.usage(array);
            let arrays = self.models.iter_mut().map(|model| model.array(array).0.clone());
            let (mut level, mut operations) = (0, asleep);
            for model in arrays {
                assert!(model.stack.len() <= capacity);
                level += model.stack.len() as u64;
                operations += model.operations;
            }
            assert_eq!((usage.level, usage.operations), (level, operations));
        }
        let level: usize = self.models.iter().map(|model| model.list.stack.len()).sum();
        assert_eq!(list_usage(self.slots.area()).level, level as u64);
    }
}

/// Applies an operation to the model of a slot; `here` is true if the slot was current before.
fn apply(model: &mut SlotModel, op: &Op, here: bool, fresh: [usize; 2]) -> Outcome {
    match op {
        Op::Prepare(array) => {
            model.array(*array).0.opened = true;
            Outcome::Nothing
        }
        Op::Widen(array) => {
            let model = model.array(*array).0;
            let moves = *array == A && model.opened && !model.wide;
            model.wide |= moves;
            Outcome::Stored(moves)
        }
        Op::Pop(array) => {
            let model = model.array(*array).0;
            let popped = model.stack.pop();
            model.operations += u64::from(popped.is_some());
            Outcome::Taken(popped)
        }
        Op::Push(array) => Outcome::Pushed(push(model.array(*array), fresh[0])),
        Op::Repeat(array, object) => Outcome::Pushed(push(model.array(*array), *object)),
        Op::PopBatch(array, count) => {
            let model = model.array(*array).0;
            let enough = *count == 0 || model.opened && model.stack.len() >= *count;
            Outcome::Batch(enough.then(|| model.stack.split_off(model.stack.len() - count)))
        }
        Op::PushBatch(array, count) => {
            let (model, capacity) = model.array(*array);
            let fits = *count == 0 || model.opened && model.stack.len() + count <= capacity;
            if fits {
                model.stack.extend((0..*count).map(|offset| fresh[0] + offset));
            }
            Outcome::Stored(fits)
        }
        Op::SetGuard(right, new) => {
            if *right && here {
                model.list.guard = *new;
            }
            Outcome::Stored(*right && here)
        }
        Op::ListPush(guard) => {
            if *guard == model.list.guard {
                model.list.stack.push(fresh[1]);
                Outcome::Pushed(Push::Stored)
            } else {
                Outcome::Pushed(Push::Refused)
            }
        }
        Op::ListPushBelow if (model.list.stack.len() as u64) < model.list.guard => {
            model.list.stack.push(fresh[1]);
            Outcome::Pushed(Push::Stored)
        }
        Op::ListPushBelow => Outcome::Pushed(Push::Refused),
        Op::ListRepeat(guard, head) => {
            let same = *guard == model.list.guard && model.list.stack.last() == Some(head);
            Outcome::Pushed(if same { Push::Duplicate } else { Push::Refused })
        }
        Op::ListPop => Outcome::Taken(model.list.stack.pop()),
        _ => unreachable!("resolved, and on one slot"),
    }
}

fn push((model, capacity): (&mut ArrayModel, usize), object: usize) -> Push {
    if !model.opened || model.stack.len() == capacity {
        return Push::Refused;
    }
    if model.stack.iter().rev().take(LOOKED_AT).any(|below| *below == object) {
        return Push::Duplicate;
    }
    model.stack.push(object);
    model.operations += 1;
    Push::Stored
}
