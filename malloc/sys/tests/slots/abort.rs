//! The real assembly, interrupted at each of its instructions.
//!
//! A child prepares its slot, performs one operation between two markers, checks the result, and
//! starts over. The tracer steps into the operation's sequence, one instruction further in each
//! round. There it disturbs the thread in one of several ways before the kernel restarts the
//! sequence. Whatever the disturbance, the operation has to happen exactly once.

use crate::support::{Backend, Objects, Slots, number, tag};
use crate::threads::{allowed_cpus, pin, pin_thread};
use crate::tracer::{Sequence, Stand, Tracee, marker, shared_memory};
use quarry_sys::percpu::{ArrayId, Arrays, Lists, Object, PerCpu, Push, RseqSlots, SlotIndex};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

const ARRAY: ArrayId = ArrayId::new(7);
const CAPACITY: usize = 6;
/// Capacity of the array in its wide place.
const WIDE: usize = 9;
const LIST: ArrayId = ArrayId::new(8);
/// The guard of the list, which is also the bound of a bounded push.
const GUARD: u64 = 5;

/// A disturbance of a thread inside a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
enum Disturbance {
    /// Nothing but the stop itself, as if preempted with no other thread on the CPU.
    Preemption = 1,
    /// A signal whose handler changes the same cell.
    Signal,
    /// The thread continues on another CPU.
    Migration,
    /// During the stop, another thread changes the same cell on the same CPU.
    Intruder,
    /// During the stop, another thread drains the cell.
    Drain,
    /// A stop at each instruction of the operation.
    Steps,
}

/// The disturbances at one instruction.
const DISTURBANCES: [Disturbance; 5] = [
    Disturbance::Preemption,
    Disturbance::Signal,
    Disturbance::Migration,
    Disturbance::Intruder,
    Disturbance::Drain,
];

/// Far more steps than an operation takes that restarts some tens of times.
const STEPS: usize = 30_000;

/// The operation between the markers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Pop,
    PopEmpty,
    Push,
    PushFull,
    PushAgain,
    PushBelowAgain,
    PopBatch,
    PopBatchShort,
    PushBatch,
    PushBatchFull,
    ListPop,
    ListPopEmpty,
    ListPush,
    ListPushOther,
    ListPushAgain,
    ListPushBelow,
    ListPushBelowFull,
    ListPushBelowAgain,
    CompareStore,
    CompareStoreOther,
    Widen,
}

const OPERATIONS: [Operation; 21] = [
    Operation::Pop,
    Operation::PopEmpty,
    Operation::Push,
    Operation::PushFull,
    Operation::PushAgain,
    Operation::PushBelowAgain,
    Operation::PopBatch,
    Operation::PopBatchShort,
    Operation::PushBatch,
    Operation::PushBatchFull,
    Operation::ListPop,
    Operation::ListPopEmpty,
    Operation::ListPush,
    Operation::ListPushOther,
    Operation::ListPushAgain,
    Operation::ListPushBelow,
    Operation::ListPushBelowFull,
    Operation::ListPushBelowAgain,
    Operation::CompareStore,
    Operation::CompareStoreOther,
    Operation::Widen,
];

impl Operation {
    /// Objects in the cell before the operation.
    fn level(self) -> usize {
        match self {
            Self::PopEmpty | Self::ListPopEmpty => 0,
            Self::PopBatchShort => 2,
            Self::PushFull => CAPACITY,
            Self::PushBatchFull => CAPACITY - 2,
            Self::ListPushBelowFull => GUARD as usize,
            _ => 3,
        }
    }

    fn is_on_list(self) -> bool {
        use Operation as O;
        matches!(self, O::ListPop | O::ListPopEmpty | O::ListPush | O::ListPushOther)
            || matches!(self, O::ListPushAgain | O::CompareStore | O::CompareStoreOther)
            || matches!(self, O::ListPushBelow | O::ListPushBelowFull | O::ListPushBelowAgain)
    }

    /// The depth in the array (1: the top) of the object that the operation pushes again.
    fn again(self) -> Option<usize> {
        match self {
            Self::PushAgain => Some(1),
            Self::PushBelowAgain => Some(2),
            _ => None,
        }
    }

    /// The result if no other thread touches the cell.
    fn answer(self) -> Answer {
        use Operation as O;
        match self {
            O::Pop | O::ListPop => Answer::Objects(vec![2]),
            O::PopBatch => Answer::Objects(vec![0, 1, 2]),
            O::PopEmpty | O::ListPopEmpty | O::PopBatchShort => Answer::Objects(vec![]),
            O::Push | O::ListPush | O::ListPushBelow | O::PushBatch => Answer::Push(Push::Stored),
            O::PushFull | O::PushBatchFull | O::ListPushOther | O::ListPushBelowFull => {
                Answer::Push(Push::Refused)
            }
            O::PushAgain | O::PushBelowAgain | O::ListPushAgain | O::ListPushBelowAgain => {
                Answer::Push(Push::Duplicate)
            }
            O::CompareStore | O::Widen => Answer::Swapped(true),
            O::CompareStoreOther => Answer::Swapped(false),
        }
    }

    /// The result if each attempt is interrupted: the slow path has to serve the request.
    fn refusal(self) -> Answer {
        match self.answer() {
            Answer::Objects(_) => Answer::Objects(vec![]),
            Answer::Push(_) => Answer::Push(Push::Refused),
            Answer::Swapped(_) => Answer::Swapped(false),
        }
    }

    /// Returns whether the operation holds the bounds' lock, for which a drain would wait.
    fn excludes(self, disturbance: Disturbance) -> bool {
        self == Self::Widen && disturbance == Disturbance::Drain
    }

    /// The objects that the operation pushes, if any.
    fn pushed(self) -> Vec<usize> {
        match self {
            Self::PushBatch | Self::PushBatchFull => vec![10, 11, 12],
            Self::Push | Self::PushFull | Self::ListPush | Self::ListPushOther => vec![10],
            Self::ListPushBelow | Self::ListPushBelowFull => vec![10],
            _ => vec![],
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Answer {
    Objects(Vec<usize>),
    Push(Push),
    Swapped(bool),
}

/// Shared memory of tracer and child.
#[derive(Default)]
struct Shared {
    /// The disturbance of this round, once it has happened; 0 before.
    disturbance: AtomicU32,
    /// The tracer's order to the intruder, 0 = none. The intruder clears it when done.
    order: AtomicU32,
    /// Rounds in which the handler or the intruder has changed the cell.
    met: AtomicU32,
    /// The child makes no more rounds.
    over: AtomicU32,
    /// The CPU of child and intruder, and the CPU to which migrations lead.
    home: AtomicU32,
    away: AtomicU32,
}

/// The state that the child shares with its handler and its intruder.
struct Stage {
    slots: Slots<RseqSlots>,
    objects: Objects,
    operation: Operation,
    /// Objects that handler or intruder took and could not put back.
    stolen: [AtomicU32; 16],
    /// Single operations on the array by handler and intruder.
    operations: AtomicU32,
}

static STAGE: AtomicPtr<Stage> = AtomicPtr::new(null_mut());

impl Stage {
    fn object(&self, index: usize) -> Object {
        if self.operation.is_on_list() { self.objects.get(index) } else { tag(index) }
    }

    fn index(&self, object: Object) -> usize {
        if self.operation.is_on_list() { self.objects.index_of(object) } else { number(object) }
    }

    fn pop(&self) -> Option<Object> {
        if self.operation.is_on_list() {
            // SAFETY: LIST holds only objects of the stage.
            unsafe { self.slots.list_pop(LIST) }
        } else {
            let popped = self.slots.pop(ARRAY);
            self.operations.fetch_add(u32::from(popped.is_some()), Ordering::Relaxed);
            popped
        }
    }

    fn push(&self, object: Object) -> bool {
        if self.operation.is_on_list() {
            // SAFETY: the caller has popped it.
            unsafe { self.slots.list_push(LIST, GUARD, object) == Push::Stored }
        } else {
            let stored = self.slots.push(ARRAY, object) == Push::Stored;
            self.operations.fetch_add(u32::from(stored), Ordering::Relaxed);
            stored
        }
    }

    /// Takes two objects and puts one back: the cell has changed, although its top may be the same.
    /// Returns whether there was an object to take. Allocates nothing and does not wait.
    fn interfere(&self) -> bool {
        let (first, second) = (self.pop(), self.pop());
        let put_back = first.is_some_and(|object| self.push(object));
        for object in [first.filter(|_| !put_back), second].into_iter().flatten() {
            self.steal(object);
        }
        first.is_some()
    }

    fn steal(&self, object: Object) {
        let place = self.stolen.iter().find(|place| place.load(Ordering::Relaxed) == 0);
        let index = self.index(object) as u32;
        place.expect("more objects than there are").store(index + 1, Ordering::Relaxed);
    }

    fn drain(&self) {
        assert!(self.slots.drain(ARRAY, &mut |objects| {
            objects.iter().for_each(|object| self.steal(*object));
        }));
        assert!(self.slots.drain_lists(LIST, &mut |_, head, _| {
            self.objects.walk(head).into_iter().for_each(|index| self.steal(self.object(index)));
        }));
    }
}

static SHARED: AtomicPtr<Shared> = AtomicPtr::new(null_mut());

fn shared() -> &'static Shared {
    // SAFETY: set before the first use; the mapping stays.
    unsafe { &*SHARED.load(Ordering::Acquire) }
}

fn stage() -> &'static Stage {
    // SAFETY: as above; the stage is leaked.
    unsafe { &*STAGE.load(Ordering::Acquire) }
}

extern "C" fn handler(_signal: i32) {
    let met = stage().interfere();
    shared().met.fetch_add(u32::from(met), Ordering::Relaxed);
}

/// The intruder's thread: waits for orders, on the child's CPU.
fn intrude() {
    stage().slots.enroll();
    while shared().over.load(Ordering::Acquire) == 0 {
        match shared().order.load(Ordering::Acquire) {
            0 => std::thread::yield_now(),
            order => {
                if order == Disturbance::Drain as u32 {
                    stage().drain();
                } else {
                    let met = stage().interfere();
                    shared().met.fetch_add(u32::from(met), Ordering::Relaxed);
                }
                shared().order.store(0, Ordering::Release);
            }
        }
    }
}

/// The child: repeats an operation until the tracer has stopped at each of its instructions.
fn child(operation: Operation) {
    let stage: &'static Stage = Box::leak(Box::new(Stage {
        slots: Slots::new(),
        objects: Objects::new(16),
        operation,
        stolen: Default::default(),
        operations: AtomicU32::new(0),
    }));
    stage.slots.area().define(ARRAY, CAPACITY).expect("fresh slots have room");
    stage.slots.area().define_wide(ARRAY, WIDE);
    assert!(!stage.slots.is_locked(), "sequences are in use");
    STAGE.store(std::ptr::from_ref(stage).cast_mut(), Ordering::Release);
    // SAFETY: the action is filled in, and the handler is async-signal-safe.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as extern "C" fn(i32) as usize;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &raw const action, null_mut()), 0);
    }
    pin(shared().home.load(Ordering::Relaxed) as usize);
    let intruder = std::thread::spawn(intrude);
    while shared().over.load(Ordering::Acquire) == 0 {
        round(stage);
    }
    intruder.join().expect("no panic");
}

fn round(stage: &Stage) {
    pin(shared().home.load(Ordering::Relaxed) as usize);
    let slot = set_up(stage);
    let operations_before = stage.slots.usage(ARRAY).operations;
    let interrupted_before = stage.slots.area().interrupted();
    stage.operations.store(0, Ordering::Relaxed);
    let answer = perform(stage, slot);
    let stayed = slot == stage.slots.current();
    let disturbance = shared().disturbance.swap(0, Ordering::AcqRel);
    if shared().over.load(Ordering::Acquire) == 0 {
        if disturbance == Disturbance::Steps as u32 {
            assert_eq!(answer, stage.operation.refusal(), "{:?}, stepped", stage.operation);
            set_up(stage);
            let interrupted = stage.slots.area().interrupted() - interrupted_before;
            assert!(interrupted > 0, "{:?} is not counted", stage.operation);
            return;
        }
        let alone = disturbance == Disturbance::Preemption as u32;
        check(stage, &answer, stayed && alone, operations_before);
    }
}

/// Empties all slots, and fills the running CPU's cell as the operation needs it.
fn set_up(stage: &Stage) -> SlotIndex {
    stage.drain();
    stage.stolen.iter().for_each(|place| place.store(0, Ordering::Relaxed));
    loop {
        let slot = stage.slots.current();
        stage.slots.prepare(ARRAY).expect("memory");
        let guarded = stage.slots.compare_store((slot, LIST, 1), 0, GUARD);
        let filled =
            guarded && (0..stage.operation.level()).all(|index| stage.push(stage.object(index)));
        if filled && slot == stage.slots.current() {
            return slot;
        }
        stage.drain();
        stage.stolen.iter().for_each(|place| place.store(0, Ordering::Relaxed));
    }
}

/// The operation between its markers.
#[inline(never)]
fn perform(stage: &Stage, slot: SlotIndex) -> Answer {
    use Operation as O;
    let slots = &stage.slots;
    let new = stage.object(10);
    let top = stage.object(stage.operation.level().saturating_sub(1));
    let below = stage.object(stage.operation.level().saturating_sub(2));
    let batch: Vec<Object> = (10..13).map(|index| stage.object(index)).collect();
    let list_push = |guard, object| {
        // SAFETY: the object is new, or the head of the list.
        Answer::Push(unsafe { slots.list_push(LIST, guard, object) })
    };
    // SAFETY: as above.
    let list_push_below = |object| Answer::Push(unsafe { slots.list_push_below(LIST, object) });
    marker();
    let answer = match stage.operation {
        O::Pop | O::PopEmpty => Answer::Objects(slots.pop(ARRAY).into_iter().map(number).collect()),
        O::Push | O::PushFull => Answer::Push(slots.push(ARRAY, new)),
        O::PushAgain => Answer::Push(slots.push(ARRAY, top)),
        O::PushBelowAgain => Answer::Push(slots.push(ARRAY, below)),
        O::PopBatch | O::PopBatchShort => {
            let batch = slots.take_batch(ARRAY, 3).unwrap_or_default();
            Answer::Objects(batch.into_iter().map(number).collect())
        }
        O::PushBatch | O::PushBatchFull => {
            let stored = slots.push_batch(ARRAY, &batch);
            Answer::Push(if stored { Push::Stored } else { Push::Refused })
        }
        O::ListPop | O::ListPopEmpty => {
            // SAFETY: LIST holds only objects of the stage.
            let popped = unsafe { slots.list_pop(LIST) };
            Answer::Objects(popped.into_iter().map(|object| stage.index(object)).collect())
        }
        O::ListPush => list_push(GUARD, new),
        O::ListPushOther => list_push(GUARD + 1, new),
        O::ListPushAgain => list_push(GUARD, top),
        O::ListPushBelow | O::ListPushBelowFull => list_push_below(new),
        O::ListPushBelowAgain => list_push_below(top),
        O::CompareStore => Answer::Swapped(slots.compare_store((slot, LIST, 1), GUARD, GUARD + 1)),
        O::CompareStoreOther => Answer::Swapped(slots.compare_store((slot, LIST, 1), 77, 78)),
        O::Widen => Answer::Swapped(slots.widen(ARRAY)),
    };
    marker();
    answer
}

/// Checks that objects are conserved and operations counted. If nothing interfered, also checks the
/// result.
fn check(stage: &Stage, answer: &Answer, alone: bool, operations_before: u64) {
    let operation = stage.operation;
    if alone {
        assert_eq!(*answer, operation.answer(), "{operation:?}");
    }
    let single = matches!(operation, Operation::Pop | Operation::Push);
    let mut done = stage.operations.load(Ordering::Relaxed);
    let mut wanted: Vec<usize> = (0..operation.level()).collect();
    let mut found = Vec::new();
    match answer {
        Answer::Objects(objects) => {
            found.extend(objects);
            done += u32::from(single && !objects.is_empty());
        }
        Answer::Push(Push::Stored) => {
            wanted.extend(operation.pushed());
            done += u32::from(single);
        }
        _ => {}
    }
    let counted = stage.slots.usage(ARRAY).operations - operations_before;
    let others = matches!(operation, Operation::PopEmpty | Operation::PushFull)
        || matches!(operation, Operation::PushAgain | Operation::PushBelowAgain);
    // These pushes and pops succeed only if another task has interfered; then they count, too.
    assert!(
        counted == u64::from(done) || others && counted == u64::from(done) + 1,
        "{operation:?}"
    );
    stage.drain();
    for place in &stage.stolen {
        let index = place.swap(0, Ordering::Relaxed);
        found.extend((index > 0).then(|| index as usize - 1));
    }
    found.sort_unstable();
    if let Some(depth) = operation.again()
        && *answer == Answer::Push(Push::Stored)
    {
        // Another task took the object before, so pushing it again was no double free.
        wanted.push(operation.level() - depth);
        wanted.sort_unstable();
    }
    assert_eq!(found, wanted, "{operation:?} answered {answer:?}");
}

/// Steps through one operation, disturbs it before instruction `index` of its sequence or at the
/// end of the sequence, and runs on to the second marker. Returns whether the thread was inside the
/// sequence. `arming` is the address of the instruction that arms the sequence, once it is known.
fn interrupt(
    tracee: &Tracee,
    arming: &mut Option<u64>,
    index: usize,
    disturbance: Disturbance,
) -> bool {
    match tracee.step_into(arming, index) {
        Stand::Inside(sequence) => {
            disturb(tracee, sequence, disturbance);
            true
        }
        Stand::AtEnd(sequence) => {
            // After the committing store, an interruption must not restart the sequence.
            disturb(tracee, sequence, disturbance);
            false
        }
        Stand::Left => {
            assert!(tracee.run_to_marker());
            false
        }
    }
}

fn disturb(tracee: &Tracee, sequence: Sequence, disturbance: Disturbance) {
    let inside = sequence.contains(tracee.address());
    tracee.arm(sequence);
    shared().disturbance.store(disturbance as u32, Ordering::Release);
    match disturbance {
        Disturbance::Preemption => {
            // After one more step the thread is in the abort handler, or past the sequence's end.
            let before = tracee.address();
            tracee.step();
            let after = tracee.address();
            let restarts = after == tracee.after_abort(sequence);
            assert_eq!(restarts, inside, "{before:x} -> {after:x} in {sequence:x?}");
            // The thread arms the sequence again, and is interrupted once more near its start. On
            // aarch64 an abort takes more than 16 instructions, which count its patience.
            let mut steps = 0..64;
            while inside && tracee.armed_here() != Some(sequence) {
                assert!(steps.next().is_some(), "a sequence started again unprotected");
                tracee.step();
            }
        }
        Disturbance::Signal => {
            assert!(tracee.run_to_marker_with(libc::SIGUSR1));
            return;
        }
        Disturbance::Migration => {
            pin_thread(tracee.thread(), shared().away.load(Ordering::Relaxed) as usize)
        }
        Disturbance::Steps => unreachable!("a disturbance of the whole operation"),
        Disturbance::Intruder | Disturbance::Drain => {
            shared().order.store(disturbance as u32, Ordering::Release);
            while shared().order.load(Ordering::Acquire) != 0 {
                assert!(!tracee.has_ended(), "the child ended under the intruder");
                std::thread::yield_now();
            }
        }
    }
    assert!(tracee.run_to_marker());
}

/// Each operation has one child: every instruction of its sequence meets every disturbance.
fn every_instruction(operation: Operation) -> usize {
    let tracee = Tracee::start(|| child(operation));
    let (mut instructions, mut arming) = (0, None);
    let possible = DISTURBANCES.into_iter().filter(|kind| !operation.excludes(*kind));
    for disturbance in possible {
        for index in 0.. {
            assert!(tracee.run_to_marker());
            if !interrupt(&tracee, &mut arming, index, disturbance) {
                instructions = instructions.max(index);
                break;
            }
        }
    }
    assert!(tracee.run_to_marker());
    shared().disturbance.store(Disturbance::Steps as u32, Ordering::Release);
    assert!(tracee.step_to_marker(STEPS), "a stepped {operation:?} does not end");
    assert!(tracee.run_to_marker());
    shared().over.store(1, Ordering::Release);
    while tracee.run_to_marker() {}
    instructions
}

#[test]
fn sequences_survive_an_interruption_at_each_instruction() {
    if Slots::<RseqSlots>::new().is_locked() {
        crate::support::skipped("this process has no restartable sequences to interrupt");
        return;
    }
    SHARED.store(std::ptr::from_ref(shared_memory::<Shared>()).cast_mut(), Ordering::Release);
    let cpus = allowed_cpus();
    shared().home.store(cpus[0] as u32, Ordering::Relaxed);
    shared().away.store(cpus[cpus.len() - 1] as u32, Ordering::Relaxed);
    for operation in OPERATIONS {
        shared().over.store(0, Ordering::Release);
        let instructions = every_instruction(operation);
        assert!(instructions >= 6, "{operation:?} has {instructions} instructions");
        println!("{operation:?}: {instructions} instructions");
    }
    let met = shared().met.load(Ordering::Relaxed);
    assert!(met > 50, "handler and intruder met the cell {met} times only");
}
