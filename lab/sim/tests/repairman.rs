//! One lock; tasks think, and hold the lock, for exponential times; nothing else costs. This is the
//! machine-repairman model (M/M/1 with a finite population), whose answer is known.
//!
//! With `r = hold / think`, no task is at the lock with probability `p0 = 1 / sum(N! / (N-k)! *
//! r^k, k = 0..N)`; the lock is held for `1 - p0` of the time, which is also acquisitions per mean
//! hold time (L. Kleinrock, "Queueing Systems", volume 1, 1975, section 3.8).
#![cfg(quarry_sim)]

use quarry_sim::{Costs, Placement, Simulation, Topology, Waiting, task};
use quarry_sys::lock::CountedLock;

const THINK_NS: f64 = 200_000.0;
/// About the acquisitions of a run. The standard error of a mean of that many exponential times is
/// 1 / sqrt(60,000), which is 0.4 %.
const ACQUISITIONS: f64 = 60_000.0;

/// A random time with this mean, exponentially distributed.
fn exponential_ns(mean_ns: f64) -> u64 {
    // 53 bits, above 0 and at most 1.
    let uniform = ((task::random() >> 11) + 1) as f64 / (1u64 << 53) as f64;
    (-uniform.ln() * mean_ns).round() as u64
}

/// Share of time for which the lock is held, and mean wait per acquisition in nanoseconds.
fn formula(tasks: u32, hold_ns: f64) -> (f64, f64) {
    let ratio = hold_ns / THINK_NS;
    let (mut term, mut sum) = (1.0, 1.0);
    for k in 0..tasks {
        term *= f64::from(tasks - k) * ratio;
        sum += term;
    }
    let held = 1.0 - 1.0 / sum;
    // The time of a task's round is N / throughput (Little's law). The task waits for that part of
    // its round in which it neither thinks nor holds the lock.
    let round_ns = f64::from(tasks) * hold_ns / held;
    (held, round_ns - THINK_NS - hold_ns)
}

fn simulated(tasks: u32, hold_ns: f64, waiting: Waiting) -> (f64, f64) {
    let lock = CountedLock::new(());
    let costs = Costs { waiting, ..Costs::none() };
    // All tasks run until the end: if some ended early, fewer would compete for a while.
    let until_ns = (ACQUISITIONS * hold_ns / formula(tasks, hold_ns).0) as u64;
    let mut simulation = Simulation::new(Topology::new(1, 64), costs, 42);
    for cpu in 0..tasks {
        let lock = &lock;
        simulation.spawn(Placement::Cpu(cpu), move || {
            while task::now_ns() < until_ns {
                task::compute(exponential_ns(THINK_NS));
                let held = lock.lock();
                task::compute(exponential_ns(hold_ns));
                drop(held);
            }
        });
    }
    let outcome = simulation.run().expect("it ends");
    let costs = outcome.locks;
    let waits_ns = costs.waiting_ns as f64 / costs.acquisitions as f64;
    (costs.holding_ns as f64 / outcome.time_ns as f64, waits_ns)
}

#[test]
fn contention_follows_the_formula() {
    for waiting in [Waiting::Ticket, Waiting::Queued] {
        for tasks in [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64] {
            // More tasks take the lock from idle to saturated.
            let hold_ns = 10_000.0;
            let (held, waits_ns) = simulated(tasks, hold_ns, waiting);
            let (expected, expected_ns) = formula(tasks, hold_ns);
            assert!(
                (held / expected - 1.0).abs() < 0.02,
                "{tasks} tasks, {waiting:?}: held {held:.4} of the time, {expected:.4} expected"
            );
            // A short wait is a small difference of long times. So the bound on its error is 2 % of
            // a round, not of the wait.
            let round_ns = THINK_NS + hold_ns + expected_ns;
            assert!(
                (waits_ns - expected_ns).abs() < 0.02 * round_ns,
                "{tasks} tasks, {waiting:?}: {waits_ns:.0} ns a wait, {expected_ns:.0} expected"
            );
        }
    }
}

#[test]
fn the_formula_knows_what_is_known() {
    let close = |one: f64, other: f64| assert!((one - other).abs() < 1e-9, "{one} {other}");
    let (held, waits_ns) = formula(1, THINK_NS);
    close(held, 0.5);
    assert!(waits_ns.abs() < 1e-6);
    // Two tasks, r = 1: p0 = 1 / (1 + 2 + 2).
    close(formula(2, THINK_NS).0, 0.8);
}
