//! Noise of the machine, measured in place.

use super::patient::Measured;
use crate::statistics::{self, mmtests::Sorted};
use std::fs;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Time for which CPU time is watched.
const WATCH: Duration = Duration::from_secs(1);
/// Length of a loop, and how many are run.
const LOOP: Duration = Duration::from_micros(100);
const LOOPS: usize = 3000;

/// Looks at this machine for a good second; `None` where it has no `/proc/stat`.
pub(super) fn measure() -> Option<Measured> {
    let read = || fs::read_to_string("/proc/stat").ok();
    let before = read()?;
    std::thread::sleep(WATCH);
    let spent = Spent::between(&before, &read()?)?;
    let durations = loops();
    let (variation, worst) = spread(&durations)?;
    let (steal, busy) = (spent.steal, spent.busy);
    Some(Measured { steal, busy, clock_step_ns: clock_step(), variation, worst })
}

/// Where CPU time went.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Spent {
    /// Share of all CPU time.
    steal: f64,
    /// In CPUs.
    busy: f64,
}

impl Spent {
    /// Between two readings of `/proc/stat`.
    fn between(before: &str, after: &str) -> Option<Self> {
        let (before_ticks, after_ticks) = (ticks(before)?, ticks(after)?);
        let spent: Vec<f64> = before_ticks
            .iter()
            .zip(&after_ticks)
            .map(|(before, after)| after.saturating_sub(*before) as f64)
            .collect();
        // user nice system idle iowait irq softirq steal; guests are counted under user already.
        let [user, nice, system, idle, iowait, irq, softirq, steal] = spent[..] else {
            return None;
        };
        let busy = user + nice + system + irq + softirq;
        let all = busy + idle + iowait + steal;
        let cpus = after.lines().filter(|line| is_cpu(line)).count() as f64;
        (all > 0.0).then(|| Self { steal: steal / all, busy: busy / all * cpus })
    }
}

/// Returns whether a line is about one CPU, and not about all of them.
fn is_cpu(line: &str) -> bool {
    line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|it: char| it.is_ascii_digit()))
}

/// The first eight numbers of the line for all CPUs.
fn ticks(stat: &str) -> Option<Vec<u64>> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let numbers: Option<Vec<u64>> =
        line.split_whitespace().take(8).map(|word| word.parse().ok()).collect();
    numbers.filter(|numbers| numbers.len() == 8)
}

/// Durations of equal loops in ns.
fn loops() -> Vec<f64> {
    let spin = |count: u64| {
        let start = Instant::now();
        let mut sum = 0_u64;
        for number in 0..count {
            sum = black_box(sum.wrapping_add(number));
        }
        black_box(sum);
        start.elapsed()
    };
    let mut count = 1000;
    while spin(count) < LOOP {
        count *= 2;
    }
    (0..LOOPS).map(|_| spin(count).as_nanos() as f64).collect()
}

/// Standard deviation in relation to the mean, and the longest in relation to the median.
fn spread(durations: &[f64]) -> Option<(f64, f64)> {
    let median = statistics::median(durations).filter(|median| *median > 0.0)?;
    let sorted = Sorted::new(durations.to_vec())?;
    Some((sorted.coeff() / 100.0, sorted.max() / median))
}

/// Smallest step between two readings of the clock, in ns.
fn clock_step() -> f64 {
    let step = |_| {
        let start = Instant::now();
        loop {
            let step = start.elapsed();
            if !step.is_zero() {
                return step.as_nanos() as f64;
            }
        }
    };
    (0..1000).map(step).fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_attributed() {
        let before = "cpu  100 0 100 1000 0 0 0 10 0 0\ncpu0 1\ncpu1 1\nintr 5\n";
        let after = "cpu  150 0 100 1130 0 0 0 30 0 0\ncpu0 1\ncpu1 1\nintr 5\n";
        let spent = Spent::between(before, after).unwrap();
        assert_eq!(spent, Spent { steal: 0.1, busy: 0.5 });
        assert_eq!(Spent::between(before, before), None, "no time has passed");
        assert_eq!(Spent::between("", after), None);
        assert_eq!(Spent::between("cpu  1 2 3\n", after), None);
    }

    #[test]
    fn spreads_are_relative() {
        let (variation, worst) = spread(&[100.0, 100.0, 100.0, 300.0]).unwrap();
        assert_eq!(worst, 3.0);
        assert!((variation - 100.0 / 150.0).abs() < 1e-9, "{variation}");
        assert_eq!(spread(&[]), None);
    }

    #[test]
    fn this_machine_can_be_measured() {
        assert!(clock_step() > 0.0);
        let durations = loops();
        assert!(durations.len() == LOOPS && durations.iter().all(|it| *it > 0.0));
    }
}
