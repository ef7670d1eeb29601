//! `quarry-sim bench`: how many events per second the simulated machine handles.

use quarry_sim::{Costs, Placement, Simulation, Topology, task};
use quarry_sys::lock::CountedLock;
use std::time::Instant;

/// Runs of each machine. The fastest counts: other programs may have had the CPU in slower runs.
const RUNS: usize = 3;

/// Runs tasks that compute, use a shared line, and take one of 8 locks. Returns the event count.
fn events(topology: &Topology, rounds: u32) -> u64 {
    let locks: Vec<_> = (0..8).map(|_| CountedLock::new(0u64)).collect();
    let mut simulation = Simulation::new(topology.clone(), Costs::default(), 1);
    for cpu in 0..topology.cpus() {
        let locks = &locks;
        simulation.spawn(Placement::Cpu(cpu), move || {
            for round in 0..rounds {
                task::compute(task::random() % 2_000);
                task::shared_line((cpu + round) % 64, quarry_sys::primitive::Access::Update);
                *locks[(task::random() % 8) as usize].lock() += 1;
            }
        });
    }
    simulation.run().expect("no task waits for ever").events
}

/// Prints a line for each machine.
pub(crate) fn run() -> anyhow::Result<()> {
    for name in ["two", "44-threads", "160-threads", "2x64x2"] {
        let topology = Topology::preset(name).expect("a preset");
        let rounds = 400_000 / topology.cpus();
        let best = (0..RUNS).map(|_| {
            let start = Instant::now();
            events(&topology, rounds) as f64 / start.elapsed().as_secs_f64()
        });
        let best = best.fold(0.0, f64::max);
        println!("{name:12} {:4} CPUs {:8.2} million events/s", topology.cpus(), best / 1e6);
    }
    Ok(())
}
