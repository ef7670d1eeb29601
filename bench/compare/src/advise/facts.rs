//! Facts about the machine and the program before a comparison, as document 002 uses them.

use crate::first_look::FirstLook;
use crate::reach::Probe;
use quarry_harness::affinity;
use quarry_harness::table::counted;
use serde::Serialize;
use std::fs;
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Facts {
    pub(super) cpus: usize,
    pub(super) nodes: usize,
    /// Maximum number of threads of one process at once, as far as the supervisor saw them.
    pub(super) threads: u64,
    pub(super) allocations: u64,
    /// Mean number of bytes that an allocating call requests.
    pub(super) mean_bytes: u64,
    pub(super) calls_per_second: f64,
    pub(super) influence: f64,
    pub(super) peak_bytes: u64,
    pub(super) held_bytes: u64,
    pub(super) wall_ns: u64,
    /// How long the threads of that run waited for a CPU, if the kernel tells.
    pub(super) cpu_delay_ns: Option<u64>,
    /// True if processes live on after the work, so that their idle memory is measured.
    pub(super) idles: bool,
}

impl Facts {
    pub(super) fn of(look: &FirstLook) -> Self {
        let Probe { calls, cpu_ns, wall_ns, delay_ns, threads, peak_bytes, .. } = look.probe;
        Self {
            cpus: affinity::allowed().len().max(1),
            nodes: nodes(),
            threads,
            allocations: calls.allocations,
            mean_bytes: calls.bytes / calls.allocations.max(1),
            calls_per_second: calls.allocations as f64 * 1e9 / cpu_ns.max(1) as f64,
            influence: look.probe.influence().min(1.0),
            peak_bytes,
            held_bytes: calls.held,
            wall_ns,
            cpu_delay_ns: delay_ns,
            idles: look.idles,
        }
    }

    /// Returns whether the memory never freed is at least 8 MiB and at least a quarter of the peak.
    pub(super) fn hold_much(&self) -> bool {
        self.held_bytes >= (8 << 20).max(self.peak_bytes / 4)
    }

    /// Words for the time in which it waited for a CPU, if that is a tenth of a run or more.
    pub(super) fn delay(&self) -> String {
        let delay = self.cpu_delay_ns.filter(|it| *it >= self.wall_ns / 10);
        delay.map_or(String::new(), |delay| {
            let seconds = Duration::from_nanos(delay).as_secs_f64();
            format!(", of which it waited {seconds:.3} s for a CPU")
        })
    }

    pub(super) fn threads_per_cpu(&self) -> f64 {
        self.threads as f64 / self.cpus as f64
    }

    pub(super) fn line(&self) -> String {
        format!(
            "{}, {}; the program runs for {:.3} s with up to {}, asks for memory {} ({:.0} \
             times per second of CPU time, {} bytes on average), and an allocator has an influence \
             on about {:.1} % of its CPU time",
            counted(self.cpus, "CPU"),
            counted(self.nodes, "NUMA node"),
            Duration::from_nanos(self.wall_ns).as_secs_f64(),
            counted(self.threads.max(1), "thread"),
            counted(self.allocations, "time"),
            self.calls_per_second,
            self.mean_bytes,
            self.influence * 100.0,
        )
    }
}

fn nodes() -> usize {
    let text = fs::read_to_string("/sys/devices/system/node/has_memory").unwrap_or_default();
    affinity::parse_list(&text).len().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_counted() {
        assert!(nodes() >= 1);
    }
}
