//! The seam suffices for a simulated machine: this crate's locks, slots, clock and sleeps run on
//! two virtual CPUs, in simulated time, and every run gives the same result.
//!
//! `scripts/test.sh sim` builds these tests with `--cfg quarry_sim`.
#![cfg(quarry_sim)]

mod machine;

use machine::{CALL_NS, HIT_NS, LINE, Outcome, RELAX_NS, TRANSFER_NS, WAKE_NS, here, run};
use quarry_sys::clock::{coarse_ns, monotonic_ns};
use quarry_sys::lock::{CountedLock, HOLD_SAMPLE};
use quarry_sys::os::FakeOs;
use quarry_sys::percpu::{ArrayId, Arrays, Lists, Object, PerCpu, Push, SlotIndex, VirtualSlots};
use quarry_sys::primitive::touch::{touch, touch_bytes};
use quarry_sys::primitive::{Access, task, timer};
use std::ptr::NonNull;
use std::rc::Rc;

/// A lock that shares its cache lines with no other data, wherever it is allocated.
#[repr(align(128))]
struct Apart(CountedLock<u64>);

/// Both tasks take a lock `rounds` times and hold it for `hold_ns`.
fn contend(rounds: u64, hold_ns: u64) -> (Outcome, Rc<Apart>) {
    let lock = Rc::new(Apart(CountedLock::new(0)));
    let work = |lock: Rc<Apart>| {
        move || {
            for _ in 0..rounds {
                let mut sum = lock.0.lock();
                here().note("takes");
                *sum += 1;
                here().spend(hold_ns);
                here().note("gives back");
                drop(sum);
                here().spend(3 * hold_ns / 2);
            }
        }
    };
    let outcome = run([Box::new(work(lock.clone())), Box::new(work(lock.clone()))]);
    (outcome, lock)
}

/// The events without their times: which task did what.
fn order(outcome: &Outcome) -> Vec<(usize, &'static str)> {
    outcome.events.iter().map(|(_, cpu, what)| (*cpu, *what)).collect()
}

#[test]
fn a_lock_is_contended_in_simulated_time() {
    let (outcome, lock) = contend(3, 400);
    let (again, _) = contend(3, 400);
    assert_eq!(outcome, again, "the same tasks take the same time");
    let turn = |cpu| [(cpu, "takes"), (cpu, "gives back")];
    let expected: Vec<_> = [0, 1, 0, 1, 0, 1].into_iter().flat_map(turn).collect();
    assert_eq!(order(&outcome), expected);
    for pair in outcome.events.windows(2) {
        let [(before, _, what), (after, ..)] = pair else { unreachable!("windows of two") };
        match *what {
            "takes" => assert_eq!(after - before, 400, "a section lasts what it takes"),
            _ => assert!(after > before, "{pair:?}: the lock changes hands in no time"),
        }
    }
    // The waiter spins, and fetches the line once the holder has released the lock.
    let (given, taken) = (outcome.events[1].0, outcome.events[2].0);
    assert!(taken - given < 10 * (TRANSFER_NS + RELAX_NS), "it took {} ns", taken - given);
    assert_eq!(outcome.sleeps, 0, "a short section is not worth a call of the kernel");
    let stats = lock.0.stats();
    assert_eq!(stats.acquisitions, 6);
    assert!(stats.contentions >= 1, "{stats:?}");
}

#[test]
fn a_waiter_sleeps_where_the_section_is_long() {
    let (outcome, lock) = contend(1, 100_000);
    assert_eq!(outcome, contend(1, 100_000).0);
    assert_eq!(outcome.sleeps, 1);
    assert_eq!(lock.0.stats().contentions, 1);
    let (given, taken) = (outcome.events[1].0, outcome.events[2].0);
    assert!(taken - given >= WAKE_NS, "it was woken in {} ns", taken - given);
    assert!(taken - given < WAKE_NS + 10 * TRANSFER_NS + CALL_NS, "{outcome:?}");
    // The waiter came early in the holder's section, and waited for most of it.
    let wait_ns = lock.0.stats().wait_ns;
    assert!((90_000..100_000 + WAKE_NS + CALL_NS).contains(&wait_ns), "it waited {wait_ns} ns");
}

/// Hold times are measured by the machine's clock: each is exactly as long as the section.
#[test]
fn hold_times_are_simulated() {
    let lock = Rc::new(Apart(CountedLock::new(0)));
    let seen = lock.clone();
    let holder = move || {
        for _ in 0..HOLD_SAMPLE {
            let _held = seen.0.lock();
            here().spend(700);
        }
    };
    run([Box::new(holder), Box::new(|| {})]);
    let stats = lock.0.stats();
    assert_eq!(stats.hold_samples, 1);
    assert!((700..700 + 10 * TRANSFER_NS).contains(&stats.hold_ns), "{stats:?}");
}

/// Both tasks run on one OS thread. A lock that identified tasks by that thread would take the
/// second task for the first, and report that it entered twice.
#[test]
fn tasks_are_told_apart() {
    let ids = Rc::new(CountedLock::new(Vec::new()));
    let (mine, yours) = (ids.clone(), ids.clone());
    run([
        Box::new(move || mine.lock().push(task::current())),
        Box::new(move || yours.lock().push(task::current())),
    ]);
    assert_eq!(*ids.lock(), [1, 2]);
    assert!(!task::is_alone());
}

#[test]
fn sleeping_lets_time_pass() {
    let outcome = run([
        Box::new(|| {
            let start = monotonic_ns();
            timer::nap();
            // Reading the clock includes one load: whether the process is confined.
            assert_eq!(monotonic_ns() - start, 50_000 + CALL_NS + HIT_NS);
            timer::sleep(9_000_000);
            assert_eq!(coarse_ns(), 8_000_000, "the last tick of 4 ms");
            here().note("awake");
        }),
        Box::new(|| {
            here().spend(60_000);
            here().note("works");
        }),
    ]);
    assert_eq!(order(&outcome), [(1, "works"), (0, "awake")]);
    assert_eq!(outcome.ends, [9_050_000 + 2 * CALL_NS + TRANSFER_NS + HIT_NS, 60_000]);
}

/// Announced plain accesses take time: two CPUs that write a line fetch it from each other.
#[test]
fn plain_lines_move_between_cpus() {
    #[repr(align(64))]
    struct Line(#[expect(dead_code, reason = "it has a size")] [u8; LINE]);
    let line = Rc::new(Line([0; LINE]));
    let work = |line: Rc<Line>, access| {
        move || {
            for _ in 0..5 {
                touch(&*line, access);
                // More than a transfer takes, so that the tasks run in turns.
                here().spend(200);
            }
        }
    };
    let both = |access| {
        run([Box::new(work(line.clone(), access)), Box::new(work(line.clone(), access))]).transfers
    };
    assert_eq!(both(Access::Write), 10, "each write takes it away from the other");
    assert_eq!(both(Access::Read), 2, "readers share it");
}

static OS: FakeOs = FakeOs::new(4096);
const ARRAY: ArrayId = ArrayId::new(1);
const LIST: ArrayId = ArrayId::new(2);

/// An object of one line, leaked.
fn block() -> Object {
    #[repr(align(64))]
    struct Block(#[expect(dead_code, reason = "it has a size")] [u8; LINE]);
    NonNull::from(Box::leak(Box::new(Block([0; LINE])))).cast()
}

/// One CPU fills its array; the other one finds its own empty, and drains both.
#[test]
fn slots_belong_to_virtual_cpus() {
    let slots = Rc::new(VirtualSlots::INERT);
    slots.choice().declare(machine::CPUS as u32, || here().running() as u32);
    slots.init(&OS).expect("the fake OS refuses nothing");
    slots.area().define(ARRAY, 4).expect("fresh slots have room");
    let objects = [0; 3].map(|_| block());
    let (first, second) = (slots.clone(), slots.clone());
    let filler = move || {
        first.prepare(ARRAY).expect("memory");
        for object in objects {
            assert_eq!(first.push(ARRAY, object), Push::Stored);
        }
        here().note("filled");
    };
    let drainer = move || {
        here().spend(100_000);
        assert_eq!(second.current(), SlotIndex(1));
        assert_eq!(second.pop(ARRAY), None, "another CPU's array");
        let mut found = 0;
        assert!(second.drain(ARRAY, &mut |objects| found += objects.len()));
        assert_eq!(found, 3);
        here().note("drained");
    };
    let outcome = run([Box::new(filler), Box::new(drainer)]);
    assert_eq!(order(&outcome), [(0, "filled"), (1, "drained")]);
    // SAFETY: both tasks are over.
    unsafe { slots.area().release(&OS) };
}

/// Links of lists are in plain memory: a CPU that pops an object from a list reads its line.
#[test]
fn links_of_lists_are_seen() {
    let slots = Rc::new(VirtualSlots::INERT);
    slots.choice().declare(1, || 0);
    slots.init(&OS).expect("the fake OS refuses nothing");
    let object = block();
    let first = slots.clone();
    let pusher = move || {
        // SAFETY: LIST is a list, and the object is ours.
        assert_eq!(unsafe { first.list_push(LIST, 0, object) }, Push::Stored);
        touch_bytes(object.as_ptr(), LINE, Access::Write);
        here().spend(10_000);
        here().note("still its line");
        let before = here().transfers();
        touch_bytes(object.as_ptr(), LINE, Access::Write);
        assert_eq!(here().transfers(), before + 1, "the other CPU has read it");
    };
    let second = slots.clone();
    let popper = move || {
        here().spend(5_000);
        // SAFETY: as above.
        assert_eq!(unsafe { second.list_pop(LIST) }, Some(object));
    };
    run([Box::new(pusher), Box::new(popper)]);
    // SAFETY: both tasks are over.
    unsafe { slots.area().release(&OS) };
}
