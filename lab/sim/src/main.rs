//! The command `quarry-sim`: Quarry on a simulated machine. The command `quarry` starts it.

#[cfg(not(quarry_sim))]
compile_error!("quarry-sim needs RUSTFLAGS=\"--cfg quarry_sim\", as `make lab` sets it");

use quarry_sim::{Costs, Placement, Simulation, Topology, task};
use quarry_sys::lock::CountedLock;
use quarry_sys::primitive::Access;
use std::time::Instant;

/// Runs of each machine. The fastest counts: other programs may have had the CPU in slower runs.
const RUNS: usize = 3;

fn main() -> std::process::ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["bench"] => bench(),
        ["simulate"] => simulate(),
        _ => Err(anyhow::anyhow!("usage: quarry-sim bench|simulate")),
    };
    match result {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("quarry-sim: {error:#}");
            std::process::ExitCode::FAILURE
        }
    }
}

/// Answers the question on standard input: JSON in, JSON out.
fn simulate() -> anyhow::Result<()> {
    let question = serde_json::from_reader(std::io::stdin().lock())?;
    let answer = quarry_sim::simulate::answer(&question)?;
    Ok(serde_json::to_writer(std::io::stdout().lock(), &answer)?)
}

/// Runs tasks that compute, use a shared line, and take one of 8 locks. Returns the event count.
fn events(topology: &Topology, rounds: u32) -> u64 {
    let locks: Vec<_> = (0..8).map(|_| CountedLock::new(0u64)).collect();
    let mut simulation = Simulation::new(topology.clone(), Costs::default(), 1);
    for cpu in 0..topology.cpus() {
        let locks = &locks;
        simulation.spawn(Placement::Cpu(cpu), move || {
            for round in 0..rounds {
                task::compute(task::random() % 2_000);
                task::shared_line((cpu + round) % 64, Access::Update);
                *locks[(task::random() % 8) as usize].lock() += 1;
            }
        });
    }
    simulation.run().expect("no task waits for ever").events
}

/// Prints how many events per second the simulated machine handles, a line for each topology.
fn bench() -> anyhow::Result<()> {
    for (name, sockets, cores, threads) in [
        ("two", 1, 2, 1),
        ("44-threads", 2, 11, 2),
        ("160-threads", 4, 20, 2),
        ("2x64x2", 2, 64, 2),
    ] {
        let topology = Topology { threads, ..Topology::new(sockets, cores) };
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
