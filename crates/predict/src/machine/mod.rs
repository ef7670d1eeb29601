//! A simulated machine: CPUs, cache lines, memory and a scheduler in simulated time.
//!
//! ```text
//! settings  what a machine is, and what things take on it
//! lines     who holds which cache line
//! engine    tasks on CPUs
//! ```

mod engine;
mod lines;
mod settings;

pub(crate) use engine::Engine;
pub(crate) use settings::MachineFile;
