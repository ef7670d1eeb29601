//! One sample of a workload as system calls, in a process of its own.

use super::gate;
use super::knob::Knob;
use super::readings::Readings;
use super::tracepoints::{Counts, Events};
use super::work::Calls;
use crate::patterns::watched::minor_faults;
use crate::patterns::window::Window;
use anyhow::Result;
use quarry_harness::launch::Work;
use quarry_harness::results::Measurement;
use quarry_replay::crew::Place;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct KernelSample {
    pub(crate) calls: Calls,
    pub(crate) tasks: u32,
    pub(crate) operations: u64,
    /// CPUs of the threads, taken in turn.
    pub(crate) cpus: Vec<usize>,
    /// CPUs of the two sides of a pair.
    pub(crate) place: Place,
    /// The empty folder for files, for workloads with files.
    pub(crate) folder: Option<PathBuf>,
    /// The events to count; `None`: no counts.
    pub(crate) events: Option<Events>,
    /// A setting of the kernel during the sample.
    pub(crate) setting: Option<(PathBuf, String)>,
}

/// Stands for the kernel where other samples name the shared object that served them.
pub(crate) const KERNEL: &str = "kernel";

/// The name of the count of page faults that needed no disk.
pub(crate) const FAULTS: &str = "minor faults";

impl Work for KernelSample {
    const NAME: &'static str = "kernel";

    fn measure(self) -> Result<Measurement> {
        let Self { calls, tasks, operations, ref cpus, place, ref folder, ref events, .. } = self;
        let set = |(file, value): &(PathBuf, String)| Knob::set(file, value);
        let _knob = self.setting.as_ref().map(set).transpose()?;
        // Opened before threads start, because threads inherit the counters.
        let counts = events.as_ref().map(Events::open).transpose()?;
        let threads = calls.threads(tasks, operations, cpus, place, folder.as_deref())?;
        let mut counted: Vec<(&str, u64)> = Vec::new();
        let open = move || {
            let mut counts = counts;
            let before = (Readings::now(), minor_faults()?);
            if let Some(counts) = &mut counts {
                counts.start()?;
            }
            Ok((before, counts))
        };
        let close = |((before, faults), counts): ((Readings, u64), Option<Counts>)| {
            let Some(mut counts) = counts else { return Ok(()) };
            counts.stop()?;
            counted.push((FAULTS, minor_faults()? - faults));
            counted.extend(counts.read()?);
            counted.extend(Readings::now().since(&before));
            Ok(())
        };
        let (window, each_ns) = gate::run(threads, open, close)?;
        let Window { operations, verified, wall_ns, cpu_ns } = window;
        let bits = calls.bytes() * 8 * operations;
        let time_ns = wall_ns * u64::from(tasks);
        let measurement = Measurement::of_window(operations, time_ns, wall_ns, cpu_ns, KERNEL);
        let mut measurement = measurement.with(&counted).with(&[("bits", bits)]);
        if !each_ns.is_empty() {
            let mean = each_ns.iter().sum::<u64>() as f64 / each_ns.len() as f64 / 1000.0;
            measurement.figures.insert("each_us".to_owned(), mean);
        }
        Ok(Measurement { verified, ..measurement })
    }
}
