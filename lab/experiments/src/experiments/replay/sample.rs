//! One sample of a replay, taken in a process of its own.

use super::profile;
use super::row::Row;
use super::spec::Spec;
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
use std::time::Duration;
use std::{panic, process};

/// Name of a series (each operation's time in whole microseconds) and of a figure (their mean).
const EACH_US: &str = "each_us";

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ReplaySample {
    pub(super) experiment: String,
    pub(super) row: String,
    pub(super) policies: Policies,
    /// The machine that the kernel's formulas assume.
    pub(super) machine: Machine,
    /// CPUs of senders and receivers, if the user gave them.
    pub(super) place: Option<Place>,
    pub(super) tasks: u32,
    pub(super) amount: u32,
    pub(super) millis: u64,
    /// CPUs of the threads, taken in turn.
    pub(super) cpus: Vec<usize>,
    /// True to record the counts of each cache, and to measure the costs of calls.
    pub(super) profiled: bool,
    /// For calibration: no work outside the allocator.
    pub(super) bare: bool,
    /// For calibration: one thread walks the path.
    pub(super) alone: bool,
    /// For calibration: the calls to the page allocator are timed.
    pub(super) timed: bool,
}

struct OnStack<'a> {
    sample: &'a ReplaySample,
    scenario: Scenario,
}

struct LoadOnStack<'a> {
    sample: &'a ReplaySample,
    load: FileLoad,
}

struct Observed {
    replayed: Replayed,
    /// Nanoseconds in the page allocator, if they were timed.
    page_ns: Option<u64>,
    footprint: Footprint,
    /// The caches and the costs of calls, if the sample is profiled.
    profile: Option<(Vec<CacheCounts>, Costs)>,
}

impl Replay for OnStack<'_> {
    type Output = Result<Observed, String>;

    fn on<M: FileCache>(self, memory: &M) -> Self::Output {
        let (sample, scale) = (self.sample, self.sample.scale());
        let (replayed, page_ns) = if sample.timed {
            let timed = TimedPages::new(memory);
            // The sum must not include a warm-up, so none is run.
            let replayed = self.scenario.run(&timed, Scale { warm_up: Duration::ZERO, ..scale });
            (replayed, Some(timed.page_ns()))
        } else {
            (self.scenario.run(memory, scale), None)
        };
        let footprint = memory.footprint();
        // The caches are read first, because measuring the costs would change their counts.
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
    /// Takes the sample in a fresh process, and checks that these policies ran.
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
        let Replayed { sent, verified, wall_ns, cpu_ns, .. } = *replayed;
        let bits = row.bits() * if row.received { verified } else { sent };
        let time_ns = wall_ns * u64::from(self.tasks);
        let served_by = self.policies.to_string();
        let page_ns = page_ns.map(|ns| ("page_ns", ns));
        let mut measurement = Measurement::of_window(sent, time_ns, wall_ns, cpu_ns, &served_by)
            .with(&replayed.counters.named())
            .with(&footprint.named())
            .with(&[("bits", bits)])
            .with(page_ns.as_slice());
        measurement.verified = verified;
        let latencies = latencies(&replayed.latencies);
        measurement.figures.extend(latencies.map(|(name, value)| (name.to_owned(), value)));
        if let Some((caches, costs)) = profile {
            profile::record_caches(caches, &mut measurement);
            profile::record_costs(costs, row.bits() / 8, &mut measurement);
        }
        measurement
    }
}

/// A scenario for one thread that walks both legs.
fn alone(scenario: Scenario) -> Scenario {
    let round = match scenario.cast {
        Cast::Crew(crew) => crew.burst,
        Cast::Card(_) => 1,
        Cast::Solo(solo) => solo.round,
    };
    let cast = Cast::Solo(Solo { round, ..Solo::default() });
    Scenario { cast, ..scenario }
}

/// Ends the process at the first panic, because other threads would wait for the panicked one for
/// ever.
fn end_with_the_first_panic() {
    panic::set_hook(Box::new(|info| {
        eprintln!("{info}");
        process::exit(101);
    }));
}

/// Mean and quantiles of messages' times, in microseconds, from nanoseconds in ascending order;
/// empty without times.
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
