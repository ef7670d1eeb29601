//! Random programs of computing, sleeping and locks, compared with a naive simulator that has no
//! coroutines, no heap and no shortcuts: it searches all tasks for the earliest step.
#![cfg(quarry_sim)]

use proptest::prelude::*;
use quarry_sim::{Costs, Placement, Simulation, Topology, task};
use quarry_sys::lock::{CountedLock, Guard};
use std::cell::RefCell;

const LOCKS: usize = 3;
/// Each program has its own CPU.
const MOST_TASKS: usize = 5;

#[derive(Clone, Copy, Debug)]
enum Step {
    Compute(u64),
    Sleep(u64),
    /// Takes the lock, computes, gives it back.
    Section(usize, u64),
    /// Does the same if the lock is free; notes whether it was.
    Try(usize, u64),
}

/// The events of all tasks: time, task, number of its step, and whether it got a lock.
type Log = Vec<(u64, usize, usize, bool)>;

fn simulated(programs: &[Vec<Step>]) -> (Log, u64) {
    let locks: [_; LOCKS] = std::array::from_fn(|_| CountedLock::new(()));
    let log = RefCell::new(Vec::new());
    let machine = Topology::new(1, MOST_TASKS as u32);
    let mut simulation = Simulation::new(machine, Costs::none(), 0);
    for (number, program) in programs.iter().enumerate() {
        let (locks, log) = (&locks, &log);
        simulation.spawn(Placement::Cpu(number as u32), move || {
            let hold = |step, held: Option<Guard<'_, ()>>, ns| {
                log.borrow_mut().push((task::now_ns(), number, step, held.is_some()));
                if held.is_some() {
                    task::compute(ns);
                }
                drop(held);
            };
            for (step, what) in program.iter().enumerate() {
                match *what {
                    Step::Compute(ns) => task::compute(ns),
                    Step::Sleep(ns) => task::sleep(ns),
                    Step::Section(lock, ns) => hold(step, Some(locks[lock].lock()), ns),
                    Step::Try(lock, ns) => hold(step, locks[lock].try_lock(), ns),
                }
            }
        });
    }
    let outcome = simulation.run().expect("sections do not nest");
    let mut log = log.take();
    log.sort_unstable();
    (log, outcome.time_ns)
}

#[derive(Clone, Copy, PartialEq)]
enum At {
    /// Will take its next step at this time.
    Step(u64),
    /// Holds the lock until this time.
    Holds(usize, u64),
    /// Waits for the lock, at this place in the queue.
    Waits(usize, u64),
}

/// Runs the programs. `None` if two tasks act at the same time, because either may be first.
fn naive(programs: &[Vec<Step>]) -> Option<(Log, u64)> {
    let mut log = Vec::new();
    let mut tasks = vec![(At::Step(0), 0usize); programs.len()];
    let (mut arrivals, mut end_ns) = (0, 0);
    let mut last = (u64::MAX, 0);
    loop {
        // Finds the earliest event.
        let due = |(at, step): &(At, usize), task: usize| match at {
            At::Step(ns) => (*step < programs[task].len()).then_some(*ns),
            At::Holds(_, ns) => Some(*ns),
            At::Waits(..) => None,
        };
        let next = (0..tasks.len()).filter_map(|task| Some((due(&tasks[task], task)?, task))).min();
        let Some((now, task)) = next else { break };
        // At time 0 all tasks begin, and all compute first.
        if now > 0 && last.0 == now && last.1 != task {
            return None;
        }
        last = (now, task);
        let step = tasks[task].1;
        if let At::Holds(lock, _) = tasks[task].0 {
            tasks[task] = (At::Step(now), step + 1);
            end_ns = end_ns.max(now);
            let place = |other: &usize| match tasks[*other].0 {
                At::Waits(on, place) if on == lock => Some(place),
                _ => None,
            };
            let first = (0..tasks.len()).filter(|other| place(other).is_some()).min_by_key(place);
            if let Some(first) = first {
                let Step::Section(_, ns) = programs[first][tasks[first].1] else { unreachable!() };
                log.push((now, first, tasks[first].1, true));
                tasks[first].0 = At::Holds(lock, now + ns);
            }
            continue;
        }
        let is_held =
            |lock| tasks.iter().any(|(at, _)| matches!(at, At::Holds(on, _) if *on == lock));
        tasks[task] = match programs[task][step] {
            Step::Compute(ns) | Step::Sleep(ns) => (At::Step(now + ns), step + 1),
            Step::Section(lock, _) if is_held(lock) => {
                arrivals += 1;
                (At::Waits(lock, arrivals), step)
            }
            Step::Try(lock, _) if is_held(lock) => {
                log.push((now, task, step, false));
                (At::Step(now), step + 1)
            }
            Step::Section(lock, ns) | Step::Try(lock, ns) => {
                log.push((now, task, step, true));
                (At::Holds(lock, now + ns), step)
            }
        };
        if let At::Step(ns) = tasks[task].0 {
            end_ns = end_ns.max(ns);
        }
    }
    log.sort_unstable();
    Some((log, end_ns))
}

/// A program whose events seldom coincide with those of others, so that few cases are lost.
fn program(task: u64) -> impl Strategy<Value = Vec<Step>> {
    let ns = || 1u64..20_000;
    let step = prop_oneof![
        ns().prop_map(Step::Compute),
        ns().prop_map(Step::Sleep),
        (0..LOCKS, ns()).prop_map(|(lock, ns)| Step::Section(lock, ns)),
        (0..LOCKS, ns()).prop_map(|(lock, ns)| Step::Try(lock, ns)),
    ];
    proptest::collection::vec(step, 0..40).prop_map(move |steps| {
        let mut apart = vec![Step::Compute(task + 1)];
        for (number, step) in steps.into_iter().enumerate() {
            apart.push(step);
            // Ensures that the next owner of a lock does not begin when the one before ends.
            apart.push(Step::Compute((number as u64 * 5 + task) % 211 + 1));
        }
        apart
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn random_programs_run_as_in_the_naive_simulator(
        programs in (
            program(0), program(1), program(2), program(3), program(4)
        ).prop_map(|(a, b, c, d, e)| vec![a, b, c, d, e])
    ) {
        let expected = naive(&programs);
        prop_assume!(expected.is_some());
        prop_assert_eq!(Some(simulated(&programs)), expected);
    }
}
