//! The machine by itself: locks, sleep, slices and placements in simulated time.
#![cfg(quarry_sim)]

use quarry_sim::{Barrier, Costs, Outcome, Placement, Simulation, Topology, Waiting, task};
use quarry_sys::lock::CountedLock;
use quarry_sys::primitive::effort::{self, Effort};
use quarry_sys::primitive::{Access, announce};
use std::cell::RefCell;

fn contend(seed: u64) -> Outcome {
    let lock = CountedLock::new(0u64);
    let mut simulation = Simulation::new(Topology::new(2, 4), Costs::default(), seed);
    for cpu in 0..8 {
        let lock = &lock;
        simulation.spawn(Placement::Cpu(cpu), move || {
            for _ in 0..100 {
                task::compute(task::random() % 600);
                *lock.lock() += 1;
            }
        });
    }
    let outcome = simulation.run().expect("it ends");
    assert_eq!(*lock.lock(), 800);
    assert_eq!(lock.stats().acquisitions, 801);
    assert_eq!(lock.stats().contentions, outcome.locks.contended);
    outcome
}

#[test]
fn the_same_seed_gives_the_same_outcome() {
    let outcome = contend(7);
    assert_eq!(outcome, contend(7));
    assert_ne!(outcome, contend(8));
    let costs = outcome.locks;
    assert_eq!(costs.acquisitions, 800);
    assert!(costs.contended > 0 && costs.waiting_ns > 0, "{costs:?}");
}

#[test]
fn tasks_of_one_cpu_take_turns() {
    let costs = Costs { slice_ns: 1_000, switch_ns: 10, ..Costs::none() };
    let order = RefCell::new(Vec::new());
    let mut simulation = Simulation::new(Topology::new(1, 1), costs, 0);
    for number in 0..2 {
        let order = &order;
        simulation.spawn(Placement::Cpu(0), move || {
            for _ in 0..3 {
                task::compute(1_000);
                task::order();
                order.borrow_mut().push(number);
            }
        });
    }
    let outcome = simulation.run().expect("it ends");
    assert_eq!(outcome.time_ns, 6_000 + outcome.switches * 10);
    assert_eq!(outcome.busy_ns, [outcome.time_ns]);
    assert!(outcome.switches >= 4, "{outcome:?}");
    assert_eq!(order.take().len(), 6);
}

#[test]
fn an_interrupt_comes_before_the_tasks_of_its_cpu() {
    let costs = Costs { switch_ns: 10, ..Costs::none() };
    let times = RefCell::new(Vec::new());
    let mut simulation = Simulation::new(Topology::new(1, 2), costs, 0);
    let times = &times;
    simulation.spawn(Placement::Interrupt(0), move || {
        task::sleep(20_000);
        times.borrow_mut().push(task::now_ns());
        task::compute(5_000);
    });
    for work in [50_000, 1_000] {
        simulation.spawn(Placement::Cpu(0), move || {
            task::compute(work);
            times.borrow_mut().push(task::now_ns());
        });
    }
    simulation.run().expect("it ends");
    let [interrupt, first, second] = times.take()[..] else { panic!("three times") };
    assert!((20_000..=20_520).contains(&interrupt), "{interrupt}: within half a microsecond");
    // The interrupted task goes on before the next one, and without the cost of a switch.
    assert_eq!([first, second], [55_020, 56_030]);
}

#[test]
fn tasks_that_wait_for_each_other_are_reported() {
    let mut simulation = Simulation::new(Topology::new(1, 2), Costs::default(), 0);
    simulation.spawn(Placement::Cpu(0), || task::compute(50));
    simulation.spawn(Placement::Cpu(1), || {
        task::sleep_on(1, None);
    });
    let stuck = simulation.run().expect_err("no task wakes it");
    assert_eq!(stuck.tasks, [1]);
}

#[test]
fn unbound_tasks_spread_and_spawned_ones_run() {
    let seen = RefCell::new(Vec::new());
    let barrier = Barrier::new(4);
    let mut simulation = Simulation::new(Topology::new(2, 2), Costs::none(), 0);
    for _ in 0..4 {
        simulation.spawn(Placement::Unbound, || {
            task::compute(10);
            barrier.wait();
            seen.borrow_mut().push(task::cpu());
            task::spawn(Placement::Cpu(task::cpu() + 1), || task::compute(5));
        });
    }
    assert_eq!(simulation.run().expect("it ends").tasks, 8);
    let mut seen = seen.take();
    seen.sort_unstable();
    assert_eq!(seen, [0, 1, 2, 3]);
}

#[test]
fn try_locks_see_who_holds_the_lock() {
    for waiting in [Waiting::Ticket, Waiting::Queued, Waiting::Futex] {
        let lock = CountedLock::new(());
        let costs = Costs { waiting, ..Costs::none() };
        let mut simulation = Simulation::new(Topology::new(1, 2), costs, 0);
        simulation.spawn(Placement::Cpu(0), || {
            let held = lock.lock();
            task::compute(100);
            drop(held);
        });
        simulation.spawn(Placement::Cpu(1), || {
            for (until, is_free) in [(50, false), (99, false), (101, true)] {
                task::compute(until - task::now_ns());
                assert_eq!(lock.try_lock().is_some(), is_free, "{waiting:?} at {until}");
            }
        });
        simulation.run().expect("it ends");
    }
}

/// Four tasks on two cores of two threads: at first two CPUs are busy, then four.
#[test]
fn work_takes_longer_where_clocks_fall_and_threads_share_a_core() {
    let topology = Topology { threads: 2, ..Topology::new(1, 2) };
    let costs = Costs { ghz: vec![4.0, 2.0], smt_slowdown: 1.5, ..Costs::none() };
    let time_of = |cpus: &[u32]| {
        let mut simulation = Simulation::new(topology.clone(), costs.clone(), 0);
        for cpu in cpus {
            simulation.spawn(Placement::Cpu(*cpu), || task::compute(1_000));
        }
        simulation.run().expect("it ends").time_ns
    };
    assert_eq!(time_of(&[0]), 1_000);
    assert_eq!(time_of(&[0, 1]), 2_000, "half the clock");
    assert_eq!(time_of(&[0, 2]), 3_000, "half the clock, and one core");
    assert_eq!(time_of(&[0, 1, 2, 3]), 3_000);
}

#[test]
fn threads_of_a_core_share_its_way_to_memory_and_spin_at_no_cost_to_each_other() {
    let topology = Topology { threads: 2, ..Topology::new(1, 1) };
    let costs = Costs { core_bytes_per_ns: 1.0, smt_slowdown: 2.0, ..Costs::none() };
    let mut simulation = Simulation::new(topology.clone(), costs.clone(), 0);
    (0..2).for_each(|cpu| simulation.spawn(Placement::Cpu(cpu), || task::memory(1_000)));
    assert_eq!(simulation.run().expect("it ends").time_ns, 2_000);
    let lock = CountedLock::new(());
    let mut simulation = Simulation::new(topology, costs, 0);
    for cpu in 0..2 {
        let lock = &lock;
        simulation.spawn(Placement::Cpu(cpu), move || {
            let _held = lock.lock();
            task::order();
            task::compute(1_000);
        });
    }
    assert_eq!(simulation.run().expect("it ends").time_ns, 2_000, "one after the other");
}

#[test]
fn a_core_that_was_idle_for_long_wakes_late() {
    let costs = Costs { idle_states: vec![[100, 10], [1_000, 300]], wake_ns: 5, ..Costs::none() };
    for (idle_ns, late_ns) in [(50, 5), (500, 15), (1_500, 305)] {
        let mut simulation = Simulation::new(Topology::new(1, 2), costs.clone(), 0);
        simulation.spawn(Placement::Cpu(0), move || {
            task::sleep_on(1, None);
            assert_eq!(task::now_ns(), idle_ns + late_ns);
        });
        simulation.spawn(Placement::Cpu(1), move || {
            task::compute(idle_ns);
            task::wake(1, 1);
        });
        simulation.run().expect("it ends");
    }
}

#[test]
fn a_measuring_task_disturbs_no_other() {
    let costs = Costs { ghz: vec![4.0, 2.0], ..Costs::default() };
    let lock = CountedLock::new(0u64);
    let mut seen = Vec::new();
    let mut simulation = Simulation::new(Topology::new(1, 1), costs, 0);
    let (looks, shared) = (&mut seen, &lock);
    simulation.spawn(Placement::Outside, move || {
        for _ in 0..5 {
            task::sleep(10_000);
            looks.push((task::cpu(), task::busy_ns(), shared.stats().acquisitions));
        }
    });
    let shared = &lock;
    simulation.spawn(Placement::Cpu(0), move || {
        for _ in 0..10 {
            task::compute(1_000);
            task::order();
            *shared.lock() += 1;
        }
    });
    let outcome = simulation.run().expect("it ends");
    assert_eq!((task::cpus(), outcome.busy_ns.len()), (1, 1));
    assert!(outcome.busy_ns[0] < 11_500, "full clock, and no line is taken away: {outcome:?}");
    assert!(seen.iter().all(|(cpu, ..)| *cpu == 1), "{seen:?}");
    let (_, busy_ns, acquisitions) = seen[4];
    assert_eq!((busy_ns, acquisitions), (outcome.busy_ns[0], 10));
    assert!(seen.is_sorted_by_key(|(_, busy_ns, _)| *busy_ns), "{seen:?}");
}

#[test]
fn efforts_take_what_the_machine_says() {
    let costs = Costs { zone_block_ns: 2.5, lru_page_ns: 4.0, ..Costs::none() };
    let mut simulation = Simulation::new(Topology::new(1, 1), costs, 0);
    simulation.spawn(Placement::Cpu(0), || {
        effort::spend(Effort::ZoneBlock, 10);
        effort::spend(Effort::LruPage, 3);
        effort::spend(Effort::SlabSlow, 7);
    });
    assert_eq!(simulation.run().expect("it ends").time_ns, 25 + 12);
}

#[test]
fn a_task_that_yields_without_others_sees_time_pass() {
    let costs = Costs { relax_ns: 10, ..Costs::none() };
    let mut simulation = Simulation::new(Topology::new(1, 1), costs, 0);
    simulation.spawn(Placement::Cpu(0), || {
        while task::now_ns() < 1_000 {
            task::yield_cpu();
        }
    });
    assert_eq!(simulation.run().expect("it ends").time_ns, 1_000);
}

/// The time in which a lone task uses 10 lines from memory, one by one, with interrupts off.
fn ten_lines_ns(costs: Costs, announce: impl Fn(usize)) -> u64 {
    let array = [0u64; 80];
    let address = array.as_ptr() as usize;
    let mut simulation = Simulation::new(Topology::new(1, 1), costs, 0);
    let announce = &announce;
    simulation.spawn(Placement::Cpu(0), move || {
        announce(address);
        task::interrupts_off(|| {
            (0..10).for_each(|line| task::lines(address + line * 64, 1, Access::Write));
        });
    });
    simulation.run().expect("it ends").time_ns
}

#[test]
fn a_section_of_a_kernel_overlaps_its_lines() {
    let costs = Costs { memory_ns: 100, ..Costs::none() };
    assert_eq!(ten_lines_ns(costs.clone(), |_| ()), 1_000);
    let costs = Costs { section_overlap: 2.5, ..costs };
    assert_eq!(ten_lines_ns(costs, |_| ()), 400);
}

#[test]
fn arrays_of_frames_are_told_to_the_machine() {
    let costs = Costs { memory_ns: 100, ..Costs::none() };
    let one_frame = |address| announce::frame_array(address, 1, 640, false);
    assert_eq!(ten_lines_ns(costs.clone(), one_frame), 1_000);
    let costs = Costs { frames_have_lines: true, ..costs };
    assert_eq!(ten_lines_ns(costs, one_frame), 100);
}

/// Locks and lines cost nothing inside `watch`, so that observing does not change the result.
#[test]
fn a_watching_task_pays_nothing() {
    let lock = CountedLock::new(0);
    let mut simulation = Simulation::new(Topology::new(1, 2), Costs::default(), 1);
    let lock = &lock;
    simulation.spawn(Placement::Cpu(0), move || {
        let begin_ns = task::now_ns();
        task::watch(|| {
            *lock.lock() += 1;
            task::lines(64, 4_096, Access::Write);
            task::order();
        });
        assert_eq!(task::now_ns(), begin_ns);
        *lock.lock() += 1;
        assert!(task::now_ns() > begin_ns, "the same costs something outside of it");
    });
    let outcome = simulation.run().expect("it ends");
    assert_eq!(outcome.locks.acquisitions, 2);
}
