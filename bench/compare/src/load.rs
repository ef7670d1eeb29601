//! The load of the machine when the command begins.

use quarry_harness::affinity;
use quarry_harness::table::counted;
use std::fmt;
use std::fs;

/// A load above this for each CPU makes wall times say little.
const HIGH: f64 = 0.5;

/// How many threads ran or waited for a CPU, on average over the last minute.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Load {
    average: f64,
    cpus: usize,
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a load of {:.1} on {}", self.average, counted(self.cpus, "CPU"))
    }
}

impl Load {
    /// The load now; `None` if the kernel does not tell.
    pub(super) fn now() -> Option<Self> {
        let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
        let cpus = affinity::parse_list(&online).len().max(affinity::allowed().len()).max(1);
        Self::of(&fs::read_to_string("/proc/loadavg").ok()?, cpus)
    }

    fn of(loadavg: &str, cpus: usize) -> Option<Self> {
        Some(Self { average: loadavg.split(' ').next()?.parse().ok()?, cpus })
    }

    pub(super) fn is_high(&self) -> bool {
        self.average > HIGH * self.cpus as f64
    }

    /// The first line of the output on a busy machine.
    pub(super) fn warning(&self) -> Option<String> {
        self.is_high().then(|| {
            format!(
                "warning: other work keeps this machine busy ({self}), so wall times say little: \
                 wait until it is quiet, or go on with --metric cpu --target-ci 2%, and by memory"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_cpu_for_each_is_still_quiet() {
        let of = |text: &str, cpus| Load::of(text, cpus).unwrap().warning();
        assert_eq!(of("1.00 0.5 0.2 1/2 3", 2), None);
        let warning = of("10.24 0.5 0.2 1/2 3", 2).unwrap();
        assert!(
            warning.starts_with(
                "warning: other work keeps this machine busy (a load of 10.2 on 2 CPUs)"
            )
        );
        assert!(of("1.01 0.5 0.2 1/2 3", 2).is_some());
        assert_eq!(Load::of("", 2), None);
        assert!(Load::now().is_some());
    }
}
