//! Counts and rates of replays on one and two simulated CPUs, for comparison with real CPUs.

use crate::machine::MachineFile;
use crate::run::Run;
use anyhow::Result;
use quarry_replay::kernels::{Scenario, Setting};
use serde::Serialize;
use std::collections::BTreeMap;

/// The machine's file.
pub(crate) const MACHINE: &str = "two-cpus";

/// A replay that is compared: the experiment of the lab, the variant, the path, the bytes of a
/// message, and the amount of work at a time.
pub(crate) type Compared = (&'static str, &'static str, &'static str, usize, u32);

pub(crate) const REPLAYS: [Compared; 10] = [
    ("page-fault1", "slub-4.9+order0+single", "page-fault", 0, 4_096),
    ("page-fault1", "slub-4.9+order0-310+single", "page-fault", 0, 4_096),
    ("page-fault1", "slub-4.9+order0-310+batched", "page-fault", 0, 4_096),
    ("page-fault1", "slub-4.9+order0-310+splice", "page-fault", 0, 4_096),
    ("netperf-udp-stream", "slub-4.9+order0", "udp-linux-4-9", 16384, 0),
    ("netperf-udp-stream", "slub-4.9+v2016", "udp-linux-4-9", 16384, 0),
    ("udp-u-4k", "slub-2.6.29+order0", "udp-linux-2-6-29", 4096, 0),
    ("udp-u-4k", "slqb+order0", "udp-linux-2-6-29", 4096, 0),
    ("page-fault1", "sheaf-6.18+v6.18+splice", "page-fault", 0, 32_768),
    ("netperf-udp-stream", "sheaf-6.18+v6.18+splice", "udp-linux-4-9", 4096, 0),
];

/// The result of one replay: counts per message, and the messages per second of all tasks together.
#[derive(Debug, Serialize)]
pub(crate) struct Counted {
    experiment: &'static str,
    variant: &'static str,
    bytes: usize,
    tasks: usize,
    per_second: f64,
    per_message: BTreeMap<&'static str, f64>,
}

pub(crate) const MEASURED_US: u64 = 100_000;

/// Runs each replay for `us` microseconds with one task and with two.
pub(crate) fn count(machine: &MachineFile, replays: &[Compared], us: u64) -> Result<Vec<Counted>> {
    let counted = |(compared, tasks): (Compared, usize)| {
        let (experiment, variant, path, bytes, amount) = compared;
        let setting = Setting { bytes, amount, ..Setting::default() };
        let run = Run {
            machine,
            policies: variant,
            scenario: Scenario::of(path, &setting),
            tasks,
            cpus: vec![0, 1],
            warm_up_us: us / 10,
            measured_us: us,
        };
        let replayed = run.replay()?;
        let messages = replayed.sent as f64;
        let named = replayed.counters.named().into_iter().filter(|(_, count)| *count > 0);
        let per_message = named.map(|(name, count)| (name, count as f64 / messages)).collect();
        let per_second = (messages * 1e9 / replayed.wall_ns as f64).round();
        Ok(Counted { experiment, variant, bytes, tasks, per_second, per_message })
    };
    replays.iter().flat_map(|replay| [(*replay, 1), (*replay, 2)]).map(counted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two runs give equal counts: nothing depends on addresses or on the time of day.
    #[test]
    fn the_same_replays_count_the_same() {
        let machine = MachineFile::named(MACHINE);
        let one = [("page-fault1", "slub-4.9+order0+single", "page-fault", 0, 256)];
        let print = || serde_json::to_string(&count(&machine, &one, 1_000).unwrap()).unwrap();
        assert_eq!(print(), print());
    }
}
