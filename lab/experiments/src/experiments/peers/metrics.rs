//! Names that the workloads and the targets share, and their metrics.

use super::super::idle_return::HELD;
use super::super::malloc_patterns;
use quarry_harness::results::{Direction, Metric};

pub(super) const EXPERIMENT: &str = "peers";
/// Names of metrics: time of an operation, CPU time of a program, and memory after a burst.
pub(super) const TIME: &str = "time";
pub(super) const CPU: &str = "CPU";
pub(super) const HELD_AFTER: &str = "held after";
pub(super) const STARTS: u32 = 20;

pub(super) fn metrics() -> Vec<Metric> {
    let cpu = Metric::new(CPU, "s of CPU", Direction::Lower, "cpu_ns").times(1e-9).digits(3);
    let held = Metric::new(HELD_AFTER, "MiB", Direction::Lower, HELD).digits(1);
    malloc_patterns::metrics().into_iter().chain([cpu, held]).collect()
}
