//! The same seed gives the same outcome in every process, wherever the system has put memory.
#![cfg(quarry_sim)]

use quarry_sim::{Costs, Placement, Simulation, Topology, Waiting, task};
use quarry_sys::lock::CountedLock;
use quarry_sys::os::FakeOs;
use quarry_sys::percpu::{ArrayId, Arrays, PerCpu, Push, VirtualSlots};
use std::process::Command;
use std::ptr::NonNull;

static OS: FakeOs = FakeOs::new(4096);
const ARRAY: ArrayId = ArrayId::new(1);
const CPUS: u32 = 12;

/// Uses slots, a lock, plain memory and sleep, in 30 tasks that move between 12 CPUs.
fn outcome() -> String {
    let slots = VirtualSlots::INERT;
    slots.choice().declare(CPUS, task::cpu);
    slots.init(&OS).expect("the fake refuses nothing");
    slots.area().define(ARRAY, 16).expect("fresh slots have room");
    let shared = CountedLock::new(Vec::new());
    let costs = Costs { waiting: Waiting::Ticket, slice_ns: 5_000, ..Costs::default() };
    let topology = Topology { threads: 2, ..Topology::new(2, 3) };
    let mut simulation = Simulation::new(topology, costs, 3);
    for _ in 0..30 {
        let (slots, shared) = (&slots, &shared);
        simulation.spawn(Placement::Unbound, move || {
            for round in 0..50 {
                task::compute(task::random() % 900);
                // Leaked, so that each round has another address.
                let object = NonNull::from(Box::leak(Box::new([round; 8]))).cast();
                if slots.push(ARRAY, object) != Push::Stored && slots.prepare(ARRAY).is_ok() {
                    let _ = slots.push(ARRAY, object);
                }
                if task::random().is_multiple_of(8) {
                    shared.lock().push(object.as_ptr() as usize);
                    task::memory(4_096);
                }
                if task::random().is_multiple_of(16) {
                    task::sleep(700);
                }
                let _ = slots.pop(ARRAY);
            }
        });
    }
    format!("{:?}", simulation.run().expect("it ends"))
}

#[test]
fn processes_agree() {
    if std::env::var_os("QUARRY_SIM_PRINTS").is_some() {
        println!("outcome {}", outcome());
        return;
    }
    let run = |padding: usize| {
        let output = Command::new(std::env::current_exe().expect("this program"))
            .args(["processes_agree", "--exact", "--nocapture"])
            .env("QUARRY_SIM_PRINTS", "x".repeat(padding))
            .output()
            .expect("it starts");
        let text = String::from_utf8(output.stdout).expect("text");
        let line = text.lines().find_map(|line| line.split_once("outcome "));
        line.unwrap_or_else(|| panic!("no outcome in {text:?}")).1.to_owned()
    };
    let first = run(1);
    assert!(first.contains("contended"), "{first}");
    assert_eq!(first, run(5_000));
    assert_eq!(first, run(77));
}
