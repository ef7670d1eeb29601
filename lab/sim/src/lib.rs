//! A simulated machine of many CPUs, on one thread of the system and in simulated time, that runs
//! Quarry's stack as it is: the same sources, with this machine as the implementation of
//! `quarry_sys::primitive`.
//!
//! A `Simulation` has a [`Topology`], [`Costs`] and a seed. Its `spawn` puts tasks on CPUs. Tasks
//! are coroutines: they run Quarry, and state their other actions by calling functions of the
//! module `task`. `Simulation::run` returns an [`Outcome`]. The same seed gives the same outcome in
//! every process.
//!
//! The machine exists only in builds with `--cfg quarry_sim`; other builds of this crate have only
//! the descriptions of machines. `lab/docs/simulator.md` says what the machine can show, and what
//! not.
//!
//! Order of the files, each using only those before it: `topology`, `costs`, `outcome`, `random`;
//! `by_address`, `caches`, `line_waits`, `lines`, `locks`, `state`, `machine`, `task`,
//! `simulation`, `simulate`.
//!
//! A new cost is a field of [`Costs`], with its source there and in `lab/docs/simulator.md`. A
//! critical section whose time the machine should know reports an `Effort` of
//! `quarry_sys::primitive`.

pub mod costs;
pub mod outcome;
pub mod simulate;
pub mod topology;

mod random;

#[cfg(quarry_sim)]
mod by_address;
#[cfg(quarry_sim)]
mod caches;
#[cfg(quarry_sim)]
mod line_waits;
#[cfg(quarry_sim)]
mod lines;
#[cfg(quarry_sim)]
mod locks;
#[cfg(quarry_sim)]
mod machine;
#[cfg(quarry_sim)]
mod simulation;
#[cfg(quarry_sim)]
mod state;
#[cfg(quarry_sim)]
pub mod task;

pub use costs::{CacheSizes, Costs, Waiting};
pub use outcome::{LockCosts, Outcome};
#[cfg(quarry_sim)]
pub use simulation::{Placement, Simulation, Stuck};
#[cfg(quarry_sim)]
pub use task::Barrier;
pub use topology::Topology;
