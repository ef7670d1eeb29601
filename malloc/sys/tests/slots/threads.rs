//! Conservation: whatever threads do with the slots, every object comes out exactly once.
//!
//! Objects are numbers. Each thread starts with some of its own, pushes and pops them, and keeps
//! those it has popped. At the end the threads' hands and the slots hold each number once.

use crate::support::{
    A, B, Backend, CAPACITY_A, CAPACITY_B, LIST, Objects, Slots, Virtual, list_usage, number, tag,
};
use quarry_sys::percpu::{ArrayId, Limits, LockedSlots, NativeSlots, Object, Push, ThreadStripe};
use quarry_sys::primitive::Ordering;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Barrier, Mutex};

const OBJECTS_EACH: usize = 12;
/// Operations of all threads of a run together, if the slots use sequences.
const ROUNDS: usize = 1_000_000;
/// Drains of such a run.
const DRAINS: usize = 5_000;
/// Runs on locked slots show bugs sooner, and make only one in this many of the operations.
const LOCKED_SHARE: usize = 20;

/// The threads of a run.
#[derive(Clone, Copy)]
struct Run {
    /// Threads that push and pop.
    threads: usize,
    /// Threads move from CPU to CPU (or from slot to declared slot) all the time.
    hop: bool,
    /// A thread of its own drains the slots all the time.
    drain: bool,
}

/// Limits too small for both arrays: each takes room from the other one.
const LIMITS: Limits = Limits { slot: (CAPACITY_A + CAPACITY_B) * 3 / 4, ..Limits::NONE };

const RUNS: [Run; 4] = [
    Run { threads: 4, hop: false, drain: false },
    Run { threads: 4, hop: true, drain: false },
    // One thread beside the draining one: on two CPUs both run all the time.
    Run { threads: 1, hop: false, drain: true },
    Run { threads: 3, hop: true, drain: true },
];

/// A generator of random decisions, the same in every run (splitmix64).
pub(crate) struct Dice(u64);

impl Dice {
    /// The generator of thread `index`.
    pub(crate) fn new(index: usize) -> Self {
        Self(index as u64 + 1)
    }

    pub(crate) fn throw(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed >> 32) as u32
    }
}

/// The CPUs that the process may run on.
pub(crate) fn allowed_cpus() -> Vec<usize> {
    // SAFETY: the mask has the size that the call is told.
    unsafe {
        let mut allowed: libc::cpu_set_t = std::mem::zeroed();
        let size = size_of::<libc::cpu_set_t>();
        assert_eq!(libc::sched_getaffinity(libc::getpid(), size, &raw mut allowed), 0);
        (0..libc::CPU_SETSIZE as usize).filter(|cpu| libc::CPU_ISSET(*cpu, &allowed)).collect()
    }
}

/// Lets the running thread run on one CPU only.
pub(crate) fn pin(cpu: usize) {
    pin_thread(0, cpu);
}

/// Lets a thread run on one CPU only.
pub(crate) fn pin_thread(thread: libc::pid_t, cpu: usize) {
    // SAFETY: the mask has the size that the call is told.
    unsafe {
        let mut one: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut one);
        let size = size_of::<libc::cpu_set_t>();
        assert_eq!(libc::sched_setaffinity(thread, size, &raw const one), 0);
    }
}

/// Moves the running thread to the allowed CPU that `hint` selects.
pub(crate) fn hop(hint: u32) {
    let cpus = allowed_cpus();
    pin(cpus[hint as usize % cpus.len()]);
}

pub(crate) fn all_once(mut found: Vec<usize>, count: usize) {
    found.sort_unstable();
    let twice: Vec<_> = found.windows(2).filter(|pair| pair[0] == pair[1]).collect();
    assert!(twice.is_empty(), "came out twice: {twice:?}");
    assert_eq!(found, (0..count).collect::<Vec<_>>(), "lost, or never pushed");
}

/// The objects with which thread `index` starts.
fn own_objects(index: usize) -> Vec<usize> {
    (index * OBJECTS_EACH..(index + 1) * OBJECTS_EACH).collect()
}

/// Moves the running thread to another CPU now and then.
fn disturb<S: Backend>(round: usize, throw: u32) {
    if round.is_multiple_of(64) {
        S::enter(throw >> 8);
        if !S::DECLARED {
            hop(throw >> 8);
        }
    }
}

/// One thread's random walk over arrays A and B.
fn array_walk<S: Backend>(
    slots: &Slots<S>,
    index: usize,
    run: Run,
    pace: &Pace,
    drained: &Mutex<Vec<usize>>,
) -> Vec<usize> {
    let mut hand = own_objects(index);
    let mut dice = Dice::new(index);
    S::enter(index as u32);
    for round in pace.rounds() {
        let throw = dice.throw();
        if run.hop {
            disturb::<S>(round, throw);
        }
        if hand.is_empty() {
            hand.append(&mut drained.lock().expect("no panic"));
        }
        let array = if throw & 1 == 0 { A } else { B };
        let asks_for_room = move_some(slots, array, throw >> 1, &mut hand);
        if asks_for_room {
            slots.make_room(array, &LIMITS, &mut |_, objects| {
                let objects = objects.iter().map(|object| number(*object));
                drained.lock().expect("no panic").extend(objects);
            });
        }
    }
    hand
}

/// Pushes or pops; returns whether the array had no room.
fn move_some<S: Backend>(
    slots: &Slots<S>,
    array: ArrayId,
    throw: u32,
    hand: &mut Vec<usize>,
) -> bool {
    let many = 2 + (throw >> 4) as usize % 3;
    match throw % 8 {
        0..=2 => hand.extend(slots.take(array).map(number)),
        3..=5 => {
            if let Some(object) = hand.pop() {
                match slots.put(array, tag(object)) {
                    Push::Stored => {}
                    Push::Refused => {
                        hand.push(object);
                        return true;
                    }
                    Push::Duplicate => panic!("{object} is in a hand and in a slot"),
                }
            }
        }
        6 => hand.extend(slots.take_batch(array, many).into_iter().flatten().map(number)),
        _ if hand.len() >= many => {
            let batch: Vec<_> = hand[hand.len() - many..].iter().map(|n| tag(*n)).collect();
            if slots.push_batch(array, &batch) {
                hand.truncate(hand.len() - many);
            }
        }
        _ => {}
    }
    false
}

/// The length of a run: rounds of all threads together, and drains.
struct Pace {
    rounds: usize,
    drains: usize,
    rounds_done: AtomicUsize,
    over: AtomicBool,
}

impl Pace {
    fn new<S: Backend>(slots: &S, run: Run) -> Self {
        let share = if slots.is_locked() { LOCKED_SHARE } else { 1 };
        Self {
            rounds: ROUNDS / share,
            drains: if run.drain { DRAINS / share } else { 0 },
            rounds_done: AtomicUsize::new(0),
            over: AtomicBool::new(false),
        }
    }

    /// Yields the rounds of one thread.
    fn rounds(&self) -> impl Iterator<Item = usize> {
        (0..).take_while(|round| {
            if !usize::is_multiple_of(*round, 64) {
                return true;
            }
            self.rounds_done.fetch_add(64, Ordering::Relaxed);
            !self.over.load(Ordering::Relaxed)
        })
    }

    /// Drains until the run is over.
    fn drain(&self, drain: impl Fn()) {
        let rounds_missing = || self.rounds_done.load(Ordering::Relaxed) < self.rounds;
        (0..self.drains).for_each(|_| drain());
        while rounds_missing() {
            if self.drains > 0 { drain() } else { std::thread::yield_now() }
        }
        self.over.store(true, Ordering::Relaxed);
    }
}

/// Runs `work` on every thread, and `drain` on this one; returns what the threads hold.
fn run_threads(
    run: Run,
    pace: &Pace,
    drain: impl Fn(),
    work: impl Fn(usize) -> Vec<usize> + Sync,
) -> Vec<usize> {
    let all_here = Barrier::new(run.threads + 1);
    std::thread::scope(|scope| {
        let (work, all_here) = (&work, &all_here);
        let start = |index| {
            scope.spawn(move || {
                all_here.wait();
                work(index)
            })
        };
        let workers: Vec<_> = (0..run.threads).map(start).collect();
        all_here.wait();
        pace.drain(drain);
        workers.into_iter().flat_map(|worker| worker.join().expect("no panic")).collect()
    })
}

fn arrays_conserve<S: Backend>(run: Run) {
    let slots = Slots::<S>::new();
    let drained = Mutex::new(Vec::new());
    let drain = || {
        for array in [A, B] {
            let objects = slots.drained(array);
            drained.lock().expect("no panic").extend(objects.into_iter().map(number));
        }
    };
    let pace = Pace::new::<S>(&slots, run);
    let mut found =
        run_threads(run, &pace, drain, |index| array_walk(&slots, index, run, &pace, &drained));
    found.append(&mut drained.lock().expect("no panic"));
    for array in [A, B] {
        let usage = slots.usage(array);
        let rest = slots.drained(array);
        assert_eq!(usage.level, rest.len() as u64);
        found.extend(rest.into_iter().map(number));
    }
    all_once(found, run.threads * OBJECTS_EACH);
}

/// Batches are long sequences: most drains interrupt one in the middle of its copy.
fn batches_conserve<S: Backend>() {
    const BATCH: usize = 120;
    let slots = Slots::<S>::new();
    let wide = ArrayId::new(3);
    slots.area().define(wide, 2 * BATCH).expect("fresh slots have room");
    let run = Run { threads: 1, hop: false, drain: true };
    let pace = Pace::new::<S>(&slots, run);
    let drained = Mutex::new(Vec::new());
    let drain = || {
        let objects = slots.drained(wide);
        assert!(objects.len().is_multiple_of(BATCH), "half a batch");
        drained.lock().expect("no panic").extend(objects.into_iter().map(number));
    };
    let mut found = run_threads(run, &pace, drain, |_| {
        let mut hand = [0; BATCH].map(|_| MaybeUninit::new(tag(0)));
        let mut full = false;
        *drained.lock().expect("no panic") = (0..BATCH).collect();
        for _ in pace.rounds() {
            // Each round is one batch and nothing else, unless a drain interferes.
            // SAFETY: every element is written, at the start and by every batch.
            let objects = unsafe { &*(&raw const hand).cast::<[Object; BATCH]>() };
            full = if full {
                !slots.push_batch(wide, objects)
            } else {
                slots.pop_batch(wide, &mut hand)
            };
            if !full {
                let mut back = drained.lock().expect("no panic");
                if back.len() == BATCH {
                    hand.iter_mut().zip(back.drain(..)).for_each(|(place, object)| {
                        place.write(tag(object));
                    });
                    full = true;
                    slots.prepare(wide).expect("memory");
                }
            }
        }
        // SAFETY: as above.
        let hand = hand.map(|object| number(unsafe { object.assume_init() }));
        if full { hand.to_vec() } else { Vec::new() }
    });
    found.append(&mut drained.lock().expect("no panic"));
    found.extend(slots.drained(wide).into_iter().map(number));
    all_once(found, BATCH);
}

/// Uses lists whose guard is the slot's number plus one.
fn list_walk<S: Backend>(
    slots: &Slots<S>,
    objects: &Objects,
    index: usize,
    run: Run,
    pace: &Pace,
    drained: &Mutex<Vec<usize>>,
) -> Vec<usize> {
    let mut hand = own_objects(index);
    let mut dice = Dice::new(index);
    S::enter(index as u32);
    for round in pace.rounds() {
        let throw = dice.throw();
        if run.hop {
            disturb::<S>(round, throw);
        }
        let slot = slots.current();
        let guard = u64::from(slot.0) + 1;
        match throw % 8 {
            0..=3 => {
                // SAFETY: only `objects` are on the lists, and an object in no hand is the list's.
                hand.extend(unsafe { slots.list_pop(LIST) }.map(|object| objects.index_of(object)));
            }
            _ => {
                if hand.is_empty() {
                    hand.append(&mut drained.lock().expect("no panic"));
                }
                if let Some(object) = hand.pop() {
                    // SAFETY: an object in a hand is that hand's alone.
                    match unsafe { slots.list_push(LIST, guard, objects.get(object)) } {
                        Push::Stored => {}
                        Push::Refused => {
                            slots.compare_store((slot, LIST, 1), 0, guard);
                            hand.push(object);
                        }
                        Push::Duplicate => panic!("{object} is in a hand and on a list"),
                    }
                }
            }
        }
    }
    hand
}

fn lists_conserve<S: Backend>(run: Run) {
    let slots = Slots::<S>::new();
    let objects = Objects::new(run.threads * OBJECTS_EACH);
    let drain_lists = || {
        let mut found = Vec::new();
        let all = slots.drain_lists(LIST, &mut |guard, head, count| {
            let list = objects.walk(head);
            assert_eq!(list.len(), count);
            assert!(
                guard <= u64::from(slots.area().slots()),
                "a guard that no thread set: {guard}"
            );
            assert!(guard != 0 || list.is_empty(), "objects without a guard");
            found.extend(list);
        });
        assert!(all);
        found
    };
    let drained = Mutex::new(Vec::new());
    let drain = || {
        let mut found = drain_lists();
        drained.lock().expect("no panic").append(&mut found);
    };
    let pace = Pace::new::<S>(&slots, run);
    let mut found = run_threads(run, &pace, drain, |index| {
        list_walk(&slots, &objects, index, run, &pace, &drained)
    });
    found.append(&mut drained.lock().expect("no panic"));
    let usage = list_usage(slots.area());
    let rest = drain_lists();
    assert_eq!(usage.level, rest.len() as u64);
    assert!(usage.pops <= usage.pushes, "{usage:?}");
    found.extend(rest);
    all_once(found, run.threads * OBJECTS_EACH);
}

macro_rules! conservation {
    ($($name:ident: $backend:ty),+ $(,)?) => {
        $(mod $name {
            use super::*;
            #[test]
            fn arrays() {
                RUNS.into_iter().for_each(arrays_conserve::<$backend>);
            }
            #[test]
            fn batches() {
                batches_conserve::<$backend>();
            }
            #[test]
            fn lists() {
                RUNS.into_iter().for_each(lists_conserve::<$backend>);
            }
        })+
    };
}

conservation! {
    native: NativeSlots,
    locked: LockedSlots<ThreadStripe>,
    virtual_1: Virtual<1>,
    virtual_2: Virtual<2>,
    virtual_64: Virtual<64>,
}
