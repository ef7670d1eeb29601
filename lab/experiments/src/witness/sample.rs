//! One sample of a workload as system calls, in a process of its own.

use super::gate;
use super::readings::{PageLists, Vmstat};
use super::tracepoints::{Counts, Events};
use super::work::Calls;
use crate::patterns::window::Window;
use anyhow::Result;
use quarry_harness::launch::Work;
use quarry_harness::results::Measurement;
use quarry_replay::crew::Place;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The parameters of a sample.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct KernelSample {
    /// The workload.
    pub(crate) calls: Calls,
    /// Tasks at once.
    pub(crate) tasks: u32,
    /// Operations of each task.
    pub(crate) operations: u64,
    /// CPUs of the threads, in turn.
    pub(crate) cpus: Vec<usize>,
    /// CPUs of the two sides of a pair.
    pub(crate) place: Place,
    /// The folder for files.
    pub(crate) folder: PathBuf,
    /// The events that are counted; none = nothing watches.
    pub(crate) events: Option<Events>,
}

/// The answer to what served a sample: the kernel's name.
pub(crate) const KERNEL: &str = "kernel";

impl Work for KernelSample {
    const NAME: &'static str = "kernel";

    fn measure(self) -> Result<Measurement> {
        let Self { calls, tasks, operations, ref cpus, place, ref folder, ref events } = self;
        // Before there are threads, which inherit the counters.
        let counts = events.as_ref().map(Events::open).transpose()?;
        let threads = calls.threads(tasks, operations, cpus, place, folder)?;
        let mut counted: Vec<(&str, u64)> = Vec::new();
        let open = move || {
            let mut counts = counts;
            let before = Vmstat::now();
            if let Some(counts) = &mut counts {
                counts.start()?;
            }
            Ok((before, counts))
        };
        let close = |(before, counts): (Vmstat, Option<Counts>)| {
            let Some(mut counts) = counts else { return Ok(()) };
            counts.stop()?;
            counted.extend(counts.read()?);
            counted.extend(Vmstat::now().since(&before));
            counted.extend(PageLists::now().iter().flat_map(PageLists::named));
            Ok(())
        };
        let window = gate::run(threads, open, close)?;
        let Window { operations, verified, wall_ns, cpu_ns } = window;
        let bits = calls.bytes() * 8 * operations;
        let time_ns = wall_ns * u64::from(tasks);
        let measurement = Measurement::of_window(operations, time_ns, wall_ns, cpu_ns, KERNEL);
        let measurement = measurement.with(&counted).with(&[("bits", bits)]);
        Ok(Measurement { verified, ..measurement })
    }
}
