//! One sample of a replay, taken in a process of its own.

use super::row::Row;
use super::spec::Spec;
use super::{profile, slabinfo};
use anyhow::{Result, anyhow, bail};
use quarry_harness::launch::{self, Work};
use quarry_harness::results::Measurement;
use quarry_replay::costs::Costs;
use quarry_replay::crew::Place;
use quarry_replay::file_cache::FileCache;
use quarry_replay::file_loads::{FileLoad, Loaded};
use quarry_replay::kernels::{Cast, Scenario};
use quarry_replay::memory::{CacheCounts, Footprint};
use quarry_replay::policies::Policies;
use quarry_replay::solo::Solo;
use quarry_replay::stack::{Machine, Replay};
use quarry_replay::stage::{Replayed, Scale};
use quarry_replay::timed::TimedPages;
use serde::{Deserialize, Serialize};
use std::panic;
use std::process;
use std::time::Duration;

/// The figure, and the series, of the time of each operation in whole microseconds.
const EACH_US: &str = "each_us";

/// The parameters of a sample.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ReplaySample {
    /// Names of the experiment and of its row.
    pub(super) experiment: String,
    pub(super) row: String,
    /// The policies of the stack.
    pub(super) policies: Policies,
    /// The machine that the kernel's formulas are told of.
    pub(super) machine: Machine,
    /// CPUs of senders and receivers, where they are asked for.
    pub(super) place: Option<Place>,
    /// Number of tasks.
    pub(super) tasks: u32,
    /// Amount of work at a time.
    pub(super) amount: u32,
    /// Length of the measured window in milliseconds.
    pub(super) millis: u64,
    /// CPUs of the threads, in turn.
    pub(super) cpus: Vec<usize>,
    /// Counts each cache apart, and measures what calls cost.
    pub(super) profiled: bool,
    /// For calibration: there is no work outside of the allocator.
    pub(super) bare: bool,
    /// For calibration: one thread walks the path by itself.
    pub(super) alone: bool,
    /// For calibration: times the calls to the page allocator.
    pub(super) timed: bool,
}

/// A scenario on its way to a stack.
struct OnStack<'a> {
    sample: &'a ReplaySample,
    scenario: Scenario,
}

/// A load of file systems on its way to a stack.
struct LoadOnStack<'a> {
    sample: &'a ReplaySample,
    load: FileLoad,
}

/// All that is known after a replay.
struct Observed {
    replayed: Replayed,
    /// Nanoseconds in the page allocator, where they were asked for.
    page_ns: Option<u64>,
    footprint: Footprint,
    /// The caches and the costs of calls, where they were asked for.
    profile: Option<(Vec<CacheCounts>, Costs)>,
}

impl Replay for OnStack<'_> {
    type Output = Result<Observed, String>;

    fn on<M: FileCache>(self, memory: &M) -> Self::Output {
        let (sample, scale) = (self.sample, self.sample.scale());
        let (replayed, page_ns) = if sample.timed {
            let timed = TimedPages::new(memory);
            // Nothing but what is measured may enter the sum.
            let replayed = self.scenario.run(&timed, Scale { warm_up: Duration::ZERO, ..scale });
            (replayed, Some(timed.page_ns()))
        } else {
            (self.scenario.run(memory, scale), None)
        };
        let footprint = memory.footprint();
        // The caches first: measuring costs counts, too.
        let profile = sample.profiled.then(|| (memory.caches(), Costs::measure(memory)));
        memory.check_at_end()?;
        Ok(Observed { replayed, page_ns, footprint, profile })
    }
}

impl Replay for LoadOnStack<'_> {
    type Output = Result<Loaded, String>;

    fn on<M: FileCache>(self, memory: &M) -> Self::Output {
        let loaded = self.load.run(memory, self.sample.scale(), self.sample.amount);
        memory.check_at_end()?;
        Ok(loaded)
    }
}

impl Work for ReplaySample {
    const NAME: &'static str = "replay";

    fn measure(self) -> Result<Measurement> {
        end_with_the_first_panic();
        let row = Spec::find(&self.experiment)?.row(&self.row)?;
        let failed = |fault: String| anyhow!("{}, at the end: {fault}", self.policies);
        let Some(mut scenario) = row.scenario(self.amount, self.place) else {
            let load = row.load().expect("a row has a path or a load");
            let run = LoadOnStack { sample: &self, load };
            let loaded = self.policies.replay(self.machine, run)?.map_err(failed)?;
            return Ok(self.of_load(loaded));
        };
        if self.bare {
            scenario.path.work = Default::default();
        }
        if self.alone {
            scenario = alone(scenario);
        }
        let run = OnStack { sample: &self, scenario };
        let observed = self.policies.replay(self.machine, run)?.map_err(failed)?;
        Ok(self.measurement(&observed, &row))
    }
}

impl ReplaySample {
    /// Takes it in a fresh process, and checks that these policies ran.
    ///
    /// # Errors
    /// Why there is no measurement.
    pub(super) fn take(&self) -> Result<Measurement> {
        let measurement = launch::sample(&self.order(), None, &[])?;
        if measurement.served_by != self.policies.to_string() {
            bail!("was meant for {}, but ran {}", self.policies, measurement.served_by);
        }
        Ok(measurement)
    }

    fn scale(&self) -> Scale<'_> {
        Scale {
            tasks: self.tasks as usize,
            cpus: &self.cpus,
            warm_up: Duration::from_micros(self.millis * 250),
            measured: Duration::from_millis(self.millis),
        }
    }

    /// The measurement of a load: one operation is what the load counts as one.
    fn of_load(&self, loaded: Loaded) -> Measurement {
        let Loaded { tally, wall_ns, cpu_ns, counters } = loaded;
        let time_ns = wall_ns * u64::from(self.tasks);
        let served_by = self.policies.to_string();
        let operations = tally.operations;
        let mut measurement =
            Measurement::of_window(operations, time_ns, wall_ns, cpu_ns, &served_by)
                .with(&counters.named());
        measurement.verified = tally.verified;
        if !tally.each_us.is_empty() {
            let mean = tally.each_us.iter().sum::<u64>() as f64 / tally.each_us.len() as f64;
            measurement.figures.insert(EACH_US.to_owned(), mean);
            measurement.series.insert(EACH_US.to_owned(), tally.each_us);
        }
        measurement
    }

    fn measurement(&self, observed: &Observed, row: &Row) -> Measurement {
        let Observed { replayed, page_ns, footprint, profile } = observed;
        let Replayed { sent, verified, lost, wall_ns, cpu_ns, .. } = *replayed;
        let bits = row.bits() * if row.received { verified } else { sent };
        // Time of one task per operation of its own.
        let time_ns = wall_ns * u64::from(self.tasks);
        let served_by = self.policies.to_string();
        let page_ns = page_ns.map(|ns| ("page_ns", ns));
        let mut measurement = Measurement::of_window(sent, time_ns, wall_ns, cpu_ns, &served_by)
            .with(&replayed.counters.named())
            .with(&footprint.named())
            .with(&[("bits", bits), ("lost", lost)])
            .with(page_ns.as_slice());
        // A lost message counts as verified: its loss was seen.
        measurement.verified = verified + lost;
        let latencies = latencies(&replayed.latencies);
        measurement.figures.extend(latencies.map(|(name, value)| (name.to_owned(), value)));
        if let Some((caches, costs)) = profile {
            slabinfo::record(caches, &mut measurement);
            profile::record(costs, row.bits() / 8, &mut measurement);
        }
        measurement
    }
}

/// A scenario for one thread that goes round by itself.
fn alone(scenario: Scenario) -> Scenario {
    let round = match scenario.cast {
        Cast::Crew(crew) => crew.burst,
        Cast::Solo(solo) => solo.round,
    };
    let cast = Cast::Solo(Solo { round, ..Solo::default() });
    Scenario { cast, ..scenario }
}

/// Threads that wait for one that panicked would wait for ever.
fn end_with_the_first_panic() {
    panic::set_hook(Box::new(|info| {
        eprintln!("{info}");
        process::exit(101);
    }));
}

/// Sums up how long messages took, in microseconds: of nanoseconds in ascending order; nothing of
/// none.
fn latencies(ascending: &[u64]) -> impl Iterator<Item = (&'static str, f64)> {
    let micros = |ns: u64| ns as f64 / 1000.0;
    let figures = ascending.len().checked_sub(1).map(|last| {
        let quantile = |q: f64| micros(ascending[(last as f64 * q).round() as usize]);
        [
            ("latency_mean", micros(ascending.iter().sum()) / ascending.len() as f64),
            ("latency_p50", quantile(0.5)),
            ("latency_p99", quantile(0.99)),
            ("latency_p999", quantile(0.999)),
        ]
    });
    figures.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_walks_in_the_same_bursts() {
        let row = Spec::find("udp-u-4k").unwrap().row("stream").unwrap();
        let alone = alone(row.scenario(0, None).unwrap());
        assert_eq!(alone.path.pieces.len(), 2);
        assert!(alone.path.work.sender > 0);
        let solo = Solo { round: 30, ..Solo::default() };
        assert!(matches!(alone.cast, Cast::Solo(cast) if cast == solo));
    }

    #[test]
    fn latencies_are_summed_up_in_microseconds() {
        let ascending: Vec<u64> = (0..=1000).map(|n| n * 1000).collect();
        let figures: Vec<f64> = latencies(&ascending).map(|(_, figure)| figure).collect();
        assert_eq!(figures, [500.0, 500.0, 990.0, 999.0]);
        assert_eq!(latencies(&[]).count(), 0);
    }
}
