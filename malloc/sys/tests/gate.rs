//! The gate of `fork` with real forks; `model/gate.rs` checks its interleavings.

use quarry_sys::gate::{self, Gate};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// Runs `child` in a forked child; returns whether it returned true.
fn in_fork(child: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child calls nothing of the harness and leaves by `_exit`.
    let id = unsafe { libc::fork() };
    assert!(id >= 0, "fork fails");
    if id == 0 {
        // SAFETY: ends the child without running anything of the parent's.
        unsafe { libc::_exit(i32::from(!child())) };
    }
    let mut status = 0;
    // SAFETY: `status` is writable.
    assert_eq!(unsafe { libc::waitpid(id, &raw mut status, 0) }, id);
    status == 0
}

/// More threads than places, each inside the gate most of the time.
#[test]
fn a_child_finds_nothing_half_done() {
    const THREADS: usize = 150;
    let (gate, over) = (Gate::new(), AtomicBool::new(false));
    let halves = [const { [const { AtomicU32::new(0) }; 2] }; THREADS];
    let is_whole =
        || halves.iter().all(|[first, second]| first.load(Relaxed) == second.load(Relaxed));
    std::thread::scope(|scope| {
        for (number, [first, second]) in halves.iter().enumerate() {
            let (gate, over) = (&gate, &over);
            scope.spawn(move || {
                while !over.load(Relaxed) {
                    let _inside = gate.enter(|| number);
                    first.fetch_add(1, Relaxed);
                    std::thread::yield_now();
                    second.fetch_add(1, Relaxed);
                }
            });
        }
        for _ in 0..30 {
            gate.close();
            assert!(is_whole(), "a thread is inside a closed gate");
            let passed = in_fork(|| {
                gate.open_in_child();
                let whole = is_whole();
                drop(gate.enter(|| 0));
                gate.close();
                gate.open();
                whole
            });
            gate.open();
            assert!(passed);
        }
        over.store(true, Relaxed);
    });
}

/// A signal handler that has interrupted the allocator's slow path forks. The interrupted work
/// continues in parent and child.
#[test]
fn a_thread_forks_while_it_is_inside() {
    let gate = Gate::new();
    let inside = gate.enter(|| 0);
    gate.close();
    let passed = in_fork(|| {
        gate.open_in_child();
        drop(gate.enter(|| 0));
        true
    });
    gate.open();
    drop(inside);
    assert!(passed);
    // No thread has stayed inside.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            gate.close();
            gate.open();
        });
    });
}

/// Thread A waits inside the gate for thread B. A fork that waits for A does not keep B out.
#[test]
fn a_thread_that_sleeps_is_outside_meanwhile() {
    static GATE: Gate = Gate::new();
    GATE.is_of_process();
    let (asleep, awake) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _outer = GATE.enter(|| 0);
            let _inner = GATE.enter(|| 0);
            gate::outside(|| {
                asleep.store(true, Relaxed);
                while !awake.load(Relaxed) {
                    std::thread::yield_now();
                }
            });
        });
        while !asleep.load(Relaxed) {
            std::thread::yield_now();
        }
        // This call would never return while the other thread is inside.
        GATE.close();
        awake.store(true, Relaxed);
        GATE.open();
    });
    GATE.close();
    GATE.open();
}
