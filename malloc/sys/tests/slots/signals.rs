//! Many timer signals, whose handler uses the slots that its thread is using.
//!
//! Every signal inside a sequence makes the kernel restart the sequence, after the handler has
//! changed the very words that the sequence had loaded.

use crate::support::{A, B, CAPACITY_A, CAPACITY_B, LIST, Objects, Slots, number, tag};
use crate::threads::{Dice, all_once};
use quarry_sys::percpu::{Arrays, Lists, NativeSlots, PerCpu, Push};
use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

const THREADS: usize = 3;
const OBJECTS: usize = 60;
const INTERVAL_NS: i64 = 30_000;
/// Number of signals for which each thread waits.
const SIGNALS: u64 = 1_500;
const ROUNDS: usize = 50_000;

/// The slots that the handler uses; null unless a test runs.
static SLOTS: AtomicPtr<Slots<NativeSlots>> = AtomicPtr::new(null_mut());
/// Objects that the handler could not put back.
static STASH: [AtomicPtr<u8>; OBJECTS] = [const { AtomicPtr::new(null_mut()) }; OBJECTS];
/// Single operations that handlers have done.
static HANDLER_OPERATIONS: AtomicU64 = AtomicU64::new(0);
/// Only one of these tests runs at a time.
static EXCLUSIVE: std::sync::Mutex<()> = std::sync::Mutex::new(());

std::thread_local! {
    static SIGNALS_SEEN: Cell<u64> = const { Cell::new(0) };
}

/// Pops from and pushes to every cell; keeps the objects that it cannot put back. Allocates nothing
/// and does not wait.
extern "C" fn handler(_signal: i32) {
    SIGNALS_SEEN.set(SIGNALS_SEEN.get() + 1);
    // SAFETY: the storm is over, and its threads are joined, before the slots are dropped.
    let Some(slots) = (unsafe { SLOTS.load(Ordering::Acquire).as_ref() }) else { return };
    for array in [A, B] {
        let Some(object) = slots.take(array) else { continue };
        let stored = slots.put(array, object) == Push::Stored;
        HANDLER_OPERATIONS.fetch_add(1 + u64::from(stored), Ordering::Relaxed);
        if !stored {
            let free = STASH.iter().find(|place| {
                let (relaxed, object) = (Ordering::Relaxed, object.as_ptr());
                place.compare_exchange(null_mut(), object, relaxed, relaxed).is_ok()
            });
            assert!(free.is_some(), "more objects than there are");
        }
    }
    // SAFETY: LIST holds only objects that were pushed.
    unsafe {
        if let Some(object) = slots.list_pop(LIST) {
            let guard = guard_here(slots);
            // An object taken from a list can only be put back on the same list.
            if slots.list_push(LIST, guard, object) != Push::Stored {
                LOST_FROM_LISTS.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Objects that a handler took from a list before its thread migrated to another CPU.
static LOST_FROM_LISTS: AtomicU64 = AtomicU64::new(0);

fn guard_here(slots: &Slots<NativeSlots>) -> u64 {
    u64::from(slots.current().0) + 1
}

/// Sends SIGUSR1 to the running thread every `INTERVAL_NS` until dropped.
struct Storm(libc::timer_t);

impl Storm {
    fn start() -> Self {
        // SAFETY: all structures are zeroed or filled, and live through the calls.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as extern "C" fn(i32) as usize;
            action.sa_flags = libc::SA_RESTART;
            assert_eq!(libc::sigaction(libc::SIGUSR1, &raw const action, null_mut()), 0);
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = libc::SIGUSR1;
            event.sigev_notify_thread_id = libc::gettid();
            let mut timer = null_mut();
            assert_eq!(
                libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer),
                0
            );
            let interval = libc::timespec { tv_sec: 0, tv_nsec: INTERVAL_NS };
            let often = libc::itimerspec { it_interval: interval, it_value: interval };
            assert_eq!(libc::timer_settime(timer, 0, &raw const often, null_mut()), 0);
            Self(timer)
        }
    }
}

impl Drop for Storm {
    fn drop(&mut self) {
        // SAFETY: `start` created it. A signal that is still pending finds the handler installed.
        unsafe { libc::timer_delete(self.0) };
    }
}

/// Calls `work` on several threads, with the thread's index. During this, timers send signals to
/// these threads. Returns the results.
fn under_storm<T: Send>(slots: &Slots<NativeSlots>, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    SLOTS.store(std::ptr::from_ref(slots).cast_mut(), Ordering::Release);
    let results = std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..THREADS)
            .map(|index| {
                scope.spawn(move || {
                    let _storm = Storm::start();
                    work(index)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    SLOTS.store(null_mut(), Ordering::Release);
    results
}

fn rounds(index: usize) -> impl Iterator<Item = u32> {
    let mut dice = Dice::new(index);
    (0..)
        .take_while(|round| *round < ROUNDS || SIGNALS_SEEN.get() < SIGNALS)
        .map(move |_| dice.throw())
}

#[test]
fn arrays_survive_a_storm_and_count_right() {
    let _alone = EXCLUSIVE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let slots = Slots::<NativeSlots>::new();
    let each = OBJECTS / THREADS;
    let results = under_storm(&slots, |index| {
        let mut hand: Vec<usize> = (index * each..(index + 1) * each).collect();
        let mut operations = 0;
        for throw in rounds(index) {
            let array = if throw & 1 == 0 { A } else { B };
            match throw >> 1 & 3 {
                0 => {
                    let taken = slots.take(array).map(number);
                    operations += u64::from(taken.is_some());
                    hand.extend(taken);
                }
                1 => hand.extend(slots.take_batch(array, 2).into_iter().flatten().map(number)),
                2 if hand.len() >= 2 => {
                    let pair = [tag(hand[hand.len() - 1]), tag(hand[hand.len() - 2])];
                    if slots.push_batch(array, &pair) {
                        hand.truncate(hand.len() - 2);
                    }
                }
                _ => {
                    let Some(object) = hand.pop() else { continue };
                    if slots.put(array, tag(object)) == Push::Stored {
                        operations += 1;
                    } else {
                        hand.push(object);
                        slots.prepare(array).expect("memory");
                    }
                }
            }
        }
        (hand, operations)
    });
    let operations: u64 = results.iter().map(|(_, operations)| operations).sum();
    let counted = slots.usage(A).operations + slots.usage(B).operations;
    assert_eq!(counted, operations + HANDLER_OPERATIONS.swap(0, Ordering::Relaxed));
    let mut found: Vec<usize> = results.into_iter().flat_map(|(hand, _)| hand).collect();
    for place in &STASH {
        let object = place.swap(null_mut(), Ordering::Relaxed);
        found.extend(quarry_sys::percpu::Object::new(object).map(number));
    }
    for array in [A, B] {
        found.extend(slots.drained(array).into_iter().map(number));
    }
    assert!(each * THREADS > CAPACITY_A + CAPACITY_B, "pushes meet full arrays");
    all_once(found, each * THREADS);
}

#[test]
fn lists_survive_a_storm() {
    let _alone = EXCLUSIVE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    LOST_FROM_LISTS.store(0, Ordering::Relaxed);
    let slots = Slots::<NativeSlots>::new();
    let each = OBJECTS / THREADS;
    let objects = Objects::new(each * THREADS);
    let hands = under_storm(&slots, |index| {
        let mut hand: Vec<usize> = (index * each..(index + 1) * each).collect();
        for throw in rounds(index) {
            if throw & 1 == 0 {
                // SAFETY: LIST holds only objects that were pushed.
                hand.extend(unsafe { slots.list_pop(LIST) }.map(|object| objects.index_of(object)));
            } else if let Some(object) = hand.pop() {
                let (slot, guard) = (slots.current(), guard_here(&slots));
                // SAFETY: the object is in this hand only.
                if unsafe { slots.list_push(LIST, guard, objects.get(object)) } != Push::Stored {
                    hand.push(object);
                    slots.compare_store((slot, LIST, 1), 0, guard);
                }
            }
        }
        hand
    });
    let mut found = hands.concat();
    assert!(slots.drain_lists(LIST, &mut |_, head, count| {
        let list = objects.walk(head);
        assert_eq!(list.len(), count);
        found.extend(list);
    }));
    let lost = LOST_FROM_LISTS.load(Ordering::Relaxed) as usize;
    let before = found.len();
    found.sort_unstable();
    found.dedup();
    assert_eq!(found.len(), before, "an object came out twice");
    assert_eq!(before + lost, each * THREADS, "an object was lost");
}
