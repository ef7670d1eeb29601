//! One sample of a replay, taken in a process of its own.

use super::spec::{Row, Spec};
use crate::replay::kernels::{Cast, Scenario};
use crate::replay::memory::KernelMemory;
use crate::replay::solo::{Solo, Space, Timed};
use crate::replay::stack::{Policies, Replay};
use crate::replay::stage::{Replayed, Scale};
use crate::replay::timed::TimedPages;
use anyhow::{Result, anyhow, bail};
use quarry_harness::launch::{self, Work};
use quarry_harness::results::Measurement;
use serde::{Deserialize, Serialize};
use std::panic;
use std::process;
use std::time::Duration;

/// The parameters of a sample.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ReplaySample {
    /// Names of the experiment and of its row.
    pub(super) experiment: String,
    pub(super) row: String,
    /// The policies of the stack.
    pub(super) policies: Policies,
    /// CPUs that the kernel's formulas are told of.
    pub(super) declared_cpus: u32,
    /// Number of tasks.
    pub(super) tasks: u32,
    /// Amount of work at a time.
    pub(super) amount: u32,
    /// Length of the measured window in milliseconds.
    pub(super) millis: u64,
    /// CPUs of the threads, in turn.
    pub(super) cpus: Vec<usize>,
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

impl Replay for OnStack<'_> {
    /// The measurement, with nanoseconds in the page allocator where they were asked for.
    type Output = Result<(Replayed, Option<u64>), String>;

    fn on<M: KernelMemory>(self, memory: &M) -> Self::Output {
        let sample = self.sample;
        let scale = Scale {
            tasks: sample.tasks as usize,
            cpus: &sample.cpus,
            warm_up: Duration::from_micros(sample.millis * 250),
            measured: Duration::from_millis(sample.millis),
        };
        let measured = if sample.timed {
            let timed = TimedPages::new(memory);
            // Nothing but what is measured may enter the sum.
            let replayed = self.scenario.run(&timed, Scale { warm_up: Duration::ZERO, ..scale });
            (replayed, Some(timed.page_ns()))
        } else {
            (self.scenario.run(memory, scale), None)
        };
        memory.check_at_end()?;
        Ok(measured)
    }
}

impl Work for ReplaySample {
    const NAME: &'static str = "replay";

    fn measure(self) -> Result<Measurement> {
        end_with_the_first_panic();
        let row = Spec::find(&self.experiment)?.row(&self.row)?;
        let mut scenario = row.scenario(self.amount);
        if self.bare {
            scenario.path.work = Default::default();
        }
        if self.alone {
            scenario = alone(scenario);
        }
        let run = OnStack { sample: &self, scenario };
        let replayed = self.policies.replay(self.declared_cpus, run)?;
        let (replayed, page_ns) =
            replayed.map_err(|fault| anyhow!("{}, at the end: {fault}", self.policies))?;
        let page_ns = page_ns.map(|ns| ("page_ns", ns));
        Ok(self.measurement(&replayed, &row).with(page_ns.as_slice()))
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

    fn measurement(&self, replayed: &Replayed, row: &Row) -> Measurement {
        let Replayed { sent, verified, wall_ns, cpu_ns, .. } = *replayed;
        let bits = row.bits() * if row.received { verified } else { sent };
        // Time of one task per operation of its own.
        let time_ns = wall_ns * u64::from(self.tasks);
        let served_by = self.policies.to_string();
        let mut measurement = Measurement::of_window(sent, time_ns, wall_ns, cpu_ns, &served_by)
            .with(&replayed.counters.named())
            .with(&[("bits", bits)]);
        measurement.verified = verified;
        let latencies = latencies(&replayed.latencies);
        measurement.figures.extend(latencies.map(|(name, value)| (name.to_owned(), value)));
        measurement
    }
}

/// A scenario for one thread that goes round by itself.
fn alone(scenario: Scenario) -> Scenario {
    let round = match scenario.cast {
        Cast::Crew(crew) => crew.burst,
        Cast::Solo(solo) => solo.round,
    };
    let cast = Cast::Solo(Solo { round, timed: Timed::Both, space: Space::None });
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
        let alone = alone(row.scenario(0));
        assert_eq!((alone.path.pieces.len(), alone.path.work.sender), (2, 15 << 10));
        let solo = Solo { round: 30, timed: Timed::Both, space: Space::None };
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
