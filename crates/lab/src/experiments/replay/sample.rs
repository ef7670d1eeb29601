//! One sample of a replay, taken in a process of its own.

use super::kinds;
use super::spec::{Row, Settings, Spec};
use crate::replay::crew::Replayed;
use crate::replay::kernels::{Cast, Scale, Scenario};
use crate::replay::memory::KernelMemory;
use crate::replay::solo::{Space, Timed};
use crate::replay::stack::{Policies, Replay};
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
    /// Bytes of work outside of the allocator, per packet.
    pub(super) work: usize,
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
        let spec: &Spec = kinds::find(&self.experiment)?;
        let row = spec.row(&self.row)?;
        let settings = Settings { amount: self.amount, work: self.work };
        let mut scenario = (row.scenario)(&settings);
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
        let bits = row.bits * if row.received { verified } else { sent };
        // Time of one task per operation of its own.
        let time_ns = wall_ns * u64::from(self.tasks);
        let served_by = self.policies.to_string();
        let mut measurement = Measurement::of_window(sent, time_ns, wall_ns, cpu_ns, &served_by)
            .with(&replayed.counters.named())
            .with(&[("bits", bits)]);
        measurement.verified = verified;
        if let Some(latencies) = Latencies::of(&replayed.latencies) {
            measurement.figures.extend(latencies.named());
        }
        measurement
    }
}

/// A scenario for one thread that goes round by itself.
fn alone(scenario: Scenario) -> Scenario {
    let round = match scenario.cast {
        Cast::Crew { burst, .. } => burst,
        Cast::Solo { round, .. } => round,
    };
    let cast = Cast::Solo { round, timed: Timed::Both, space: Space::None };
    Scenario { cast, ..scenario }
}

/// Threads that wait for one that panicked would wait for ever.
fn end_with_the_first_panic() {
    panic::set_hook(Box::new(|info| {
        eprintln!("{info}");
        process::exit(101);
    }));
}

/// A summary of how long messages took, in microseconds.
struct Latencies {
    mean: f64,
    p50: f64,
    p99: f64,
    p999: f64,
}

impl Latencies {
    /// Of nanoseconds in ascending order; `None` of none.
    fn of(ascending: &[u64]) -> Option<Self> {
        let micros = |ns: u64| ns as f64 / 1000.0;
        let last = ascending.len().checked_sub(1)?;
        let quantile = |q: f64| micros(ascending[(last as f64 * q).round() as usize]);
        let mean = micros(ascending.iter().sum()) / ascending.len() as f64;
        let (p50, p99, p999) = (quantile(0.5), quantile(0.99), quantile(0.999));
        Some(Self { mean, p50, p99, p999 })
    }

    fn named(&self) -> [(String, f64); 4] {
        let Self { mean, p50, p99, p999 } = *self;
        [("latency_mean", mean), ("latency_p50", p50), ("latency_p99", p99), ("latency_p999", p999)]
            .map(|(name, value)| (name.to_owned(), value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::kernels::network::LINUX_2_6_29;

    #[test]
    fn one_thread_walks_in_the_same_bursts() {
        let alone = alone(LINUX_2_6_29.udp_stream(4096, None, 100));
        assert_eq!((alone.path.steps.len(), alone.path.work.sender), (4, 100));
        assert!(matches!(alone.cast, Cast::Solo { round: 30, timed: Timed::Both, .. }));
    }

    #[test]
    fn latencies_are_summed_up_in_microseconds() {
        let ascending: Vec<u64> = (0..=1000).map(|n| n * 1000).collect();
        let Latencies { mean, p50, p99, p999 } = Latencies::of(&ascending).unwrap();
        assert_eq!((mean, p50, p99, p999), (500.0, 500.0, 990.0, 999.0));
        assert!(Latencies::of(&[]).is_none());
    }
}
