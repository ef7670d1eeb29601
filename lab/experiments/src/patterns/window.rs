//! The measured window of a sample.

use nix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    /// Time before the window, in which caches fill and the heap grows.
    pub(crate) warm_up: Duration,
    pub(crate) measured: Duration,
}

impl Budget {
    /// A sample of `millis` milliseconds, after a warm-up of a quarter of that.
    pub(crate) fn of_millis(millis: u64) -> Self {
        Self {
            warm_up: Duration::from_micros(millis * 250),
            measured: Duration::from_millis(millis),
        }
    }

    pub(super) fn times(self, factor: u32) -> Self {
        Self { warm_up: self.warm_up * factor, measured: self.measured * factor }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) operations: u64,
    /// Number of freed blocks that still had the mark of their allocation.
    pub(crate) verified: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) operations: u64,
    /// Operations that were verified: blocks that kept their mark, or packets that arrived.
    pub(crate) verified: u64,
    pub(crate) wall_ns: u64,
    pub(crate) cpu_ns: u64,
}

/// Calls `chunk`, which returns its counts, until the warm-up and then the measured time are over.
/// The clock is read once per chunk, which should last at least 10 us.
pub(crate) fn measure(budget: Budget, mut chunk: impl FnMut() -> Done) -> Window {
    measure_in_phases(budget, |_| chunk())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    WarmUp,
    Measured,
}

/// [`measure`], but for chunks whose work depends on the phase.
pub(crate) fn measure_in_phases(budget: Budget, mut chunk: impl FnMut(Phase) -> Done) -> Window {
    run_for(budget.warm_up, &mut || chunk(Phase::WarmUp));
    let cpu_before = process_cpu_ns();
    let measured = run_for(budget.measured, &mut || chunk(Phase::Measured));
    let (Done { operations, verified }, wall) = measured;
    let cpu_ns = process_cpu_ns() - cpu_before;
    Window { operations, verified, wall_ns: wall.as_nanos() as u64, cpu_ns }
}

/// One window for tasks that ran at the same time: the sum of their operations, and the times of
/// the longest task. Also returns the sum of the wall-clock times of all tasks.
pub(crate) fn together(windows: &[Window]) -> (Window, u64) {
    let sum = |of: fn(&Window) -> u64| windows.iter().map(of).sum::<u64>();
    let most = |of: fn(&Window) -> u64| windows.iter().map(of).max().unwrap_or(0);
    let window = Window {
        operations: sum(|window| window.operations),
        verified: sum(|window| window.verified),
        wall_ns: most(|window| window.wall_ns),
        cpu_ns: most(|window| window.cpu_ns),
    };
    (window, sum(|window| window.wall_ns))
}

fn run_for(duration: Duration, chunk: &mut impl FnMut() -> Done) -> (Done, Duration) {
    let start = Instant::now();
    let mut done = Done::default();
    loop {
        let Done { operations, verified } = chunk();
        done.operations += operations;
        done.verified += verified;
        let elapsed = start.elapsed();
        if elapsed >= duration {
            return (done, elapsed);
        }
    }
}

pub(crate) fn process_cpu_ns() -> u64 {
    let time =
        clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("every Linux has this clock");
    Duration::from(time).as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_the_window_and_not_the_warm_up() {
        let budget = Budget { warm_up: Duration::ZERO, measured: Duration::ZERO };
        let mut calls = 0;
        let window = measure(budget, || {
            calls += 1;
            Done { operations: 10, verified: 20 }
        });
        assert_eq!((calls, window.operations, window.verified), (2, 10, 20));
    }

    #[test]
    fn chunks_are_told_when_the_window_begins() {
        let budget = Budget { warm_up: Duration::ZERO, measured: Duration::ZERO };
        let mut phases = Vec::new();
        measure_in_phases(budget, |phase| {
            phases.push(phase);
            Done::default()
        });
        assert_eq!(phases, [Phase::WarmUp, Phase::Measured]);
    }
}
