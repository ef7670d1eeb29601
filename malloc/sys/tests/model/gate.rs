//! The gate of `fork` under the model checker: while it is closed no thread has unfinished work,
//! and no thread waits forever.

use crate::check;
use quarry_sys::gate::{self, Gate};
use quarry_sys::primitive::{AtomicU32, Ordering::Relaxed, relax};

/// Two numbers that differ while a thread has work unfinished.
#[derive(Default)]
struct Pair {
    first: AtomicU32,
    second: AtomicU32,
}

impl Pair {
    fn new() -> Self {
        Self { first: AtomicU32::new(0), second: AtomicU32::new(0) }
    }

    fn step(&self) {
        self.first.fetch_add(1, Relaxed);
        relax();
        self.second.fetch_add(1, Relaxed);
    }

    fn is_whole(&self) -> bool {
        self.first.load(Relaxed) == self.second.load(Relaxed)
    }
}

/// Three threads and two places: the third thread inside is counted in the crowd.
#[test]
fn no_thread_is_inside_a_closed_gate() {
    check(|| {
        let (gate, pair) = (Gate::new(), Pair::new());
        shuttle::thread::scope(|scope| {
            for hint in 0..3 {
                let (gate, pair) = (&gate, &pair);
                scope.spawn(move || {
                    let _inside = gate.enter(|| hint);
                    pair.step();
                });
            }
            gate.close();
            assert!(pair.is_whole(), "a thread is inside");
            // Like a handler of `fork` that allocates, and a signal handler that forks.
            drop(gate.enter(|| 0));
            gate.close();
            gate.open();
            assert!(pair.is_whole(), "an inner fork has opened the gate");
            gate.open();
        });
        assert_eq!(pair.first.load(Relaxed), 3, "all got in");
    });
}

/// A thread that is inside enters again, although the gate has been closed since.
#[test]
fn inside_twice() {
    check(|| {
        let (gate, pair) = (Gate::new(), Pair::new());
        shuttle::thread::scope(|scope| {
            scope.spawn(|| {
                let _outer = gate.enter(|| 0);
                let _inner = gate.enter(|| 0);
                pair.step();
            });
            gate.close();
            assert!(pair.is_whole(), "a thread is inside");
            gate.open();
        });
    });
}

/// One thread waits inside for work of another thread inside, and a third one closes the gate.
#[test]
fn who_waits_for_another_thread_does_not_keep_it_out() {
    check(|| {
        let (gate, pair) = (&*Box::leak(Box::new(Gate::new())), Pair::new());
        gate.is_of_process();
        let done = AtomicU32::new(0);
        shuttle::thread::scope(|scope| {
            scope.spawn(|| {
                let _inside = gate.enter(|| 0);
                while done.load(Relaxed) == 0 {
                    gate::outside(relax);
                }
                pair.step();
            });
            scope.spawn(|| {
                let _inside = gate.enter(|| 0);
                pair.step();
                done.store(1, Relaxed);
            });
            gate.close();
            assert!(pair.is_whole(), "a thread is inside");
            gate.open();
        });
        assert_eq!(pair.first.load(Relaxed), 2, "both got in");
    });
}

/// Two threads close the gate: each waits for the other.
#[test]
fn two_forks_at_once() {
    check(|| {
        let (gate, closed) = (Gate::new(), AtomicU32::new(0));
        let fork = || {
            gate.close();
            assert_eq!(closed.fetch_add(1, Relaxed), 0, "two have closed the gate");
            relax();
            closed.fetch_sub(1, Relaxed);
            gate.open();
        };
        shuttle::thread::scope(|scope| {
            scope.spawn(fork);
            scope.spawn(|| drop(gate.enter(|| 0)));
            fork();
        });
    });
}
