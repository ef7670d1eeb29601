//! Measures the noise of the machine.

use super::patient::Measured;
use crate::statistics::{self, mmtests::Sorted};
use procfs::{CpuTime, CurrentSI, KernelStats};
use std::hint::black_box;
use std::time::{Duration, Instant};

const WATCH: Duration = Duration::from_secs(1);
const LOOP: Duration = Duration::from_micros(100);
const LOOPS: usize = 3000;

/// Measures this machine for a little more than a second; `None` without `/proc/stat`.
pub(super) fn measure() -> Option<Measured> {
    let before = KernelStats::current().ok()?;
    std::thread::sleep(WATCH);
    let (steal, busy) = spent(&before, &KernelStats::current().ok()?)?;
    let durations = loops();
    let (variation, worst) = spread(&durations)?;
    Some(Measured { steal, busy, clock_step_ns: clock_step(), variation, worst })
}

/// The share of CPU time that was stolen between two readings, and the number of busy CPUs.
fn spent(before: &KernelStats, after: &KernelStats) -> Option<(f64, f64)> {
    let (was, is) = (&before.total, &after.total);
    let between = |before: Option<u64>, after: Option<u64>| {
        after.unwrap_or(0).saturating_sub(before.unwrap_or(0)) as f64
    };
    // The kernel counts the time of guest machines as user time, too.
    let busy = |it: &CpuTime| {
        it.user + it.nice + it.system + it.irq.unwrap_or(0) + it.softirq.unwrap_or(0)
    };
    let steal = between(was.steal, is.steal);
    let busy = between(Some(busy(was)), Some(busy(is)));
    let idle = between(Some(was.idle), Some(is.idle)) + between(was.iowait, is.iowait);
    let all = busy + idle + steal;
    let cpus = after.cpu_time.len() as f64;
    (all > 0.0).then(|| (steal / all, busy / all * cpus))
}

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
    use procfs::FromBufReadSI;

    #[test]
    fn time_is_attributed() {
        let stat = |total: &str| {
            let text =
                format!("cpu  {total}\ncpu0 1 0 0 0\ncpu1 1 0 0 0\nctxt 1\nbtime 1\nprocesses 1\n");
            KernelStats::from_buf_read(text.as_bytes(), procfs::current_system_info()).unwrap()
        };
        let (before, after) =
            (stat("100 0 100 1000 0 0 0 10 0 0"), stat("150 0 100 1130 0 0 0 30 0 0"));
        assert_eq!(spent(&before, &after), Some((0.1, 0.5)));
        assert_eq!(spent(&before, &before), None, "no time has passed");
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
