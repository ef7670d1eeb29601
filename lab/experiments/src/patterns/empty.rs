//! Patterns without an allocator: they measure the cost of the harness.

use super::heap::Heap;
use super::window::{self, Budget, Done, Window, process_cpu_ns};
use anyhow::Result;
use quarry_harness::nearest;
use serde::{Deserialize, Serialize};
use std::hint::black_box;
use std::time::Instant;

/// Steps, or pairs of calls, per chunk.
const CHUNK: u64 = 8192;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum EmptyWork {
    /// Steps of a linear congruential generator; each depends on the one before.
    Steps,
    /// Pairs of calls of functions that hand out and take back the same block.
    Calls,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Timing {
    /// The window of all patterns, which reads the clock after each chunk.
    Window,
    /// The clocks are read once before and once after about as many chunks as in the window.
    Bare,
}

impl EmptyWork {
    pub(crate) const ALL: [(Self, &str); 2] = [(Self::Steps, "steps"), (Self::Calls, "calls")];

    pub(crate) fn run(self, budget: Budget, timing: Timing) -> Window {
        match self {
            Self::Steps => {
                let mut generator = Generator::default();
                let mut window = timing.run(budget, &mut || {
                    let first = generator.steps;
                    (0..CHUNK).for_each(|_| generator.step());
                    Done { operations: generator.steps - first, verified: 0 }
                });
                // The state after that many steps is known: either all steps count or none.
                let is_right = generator.state == after(generator.steps);
                window.verified = if is_right { window.operations } else { 0 };
                window
            }
            Self::Calls => {
                let heap = Heap::of_one_block();
                timing.run(budget, &mut || {
                    let mut verified = 0;
                    for mark in 0..CHUNK {
                        let block = heap.allocate(64, mark);
                        heap.free(block, mark);
                        verified += 1;
                    }
                    Done { operations: CHUNK, verified }
                })
            }
        }
    }
}

impl Timing {
    /// The timing of this name.
    pub(crate) fn find(name: &str) -> Result<Self> {
        match name {
            "window" => Ok(Self::Window),
            "bare" => Ok(Self::Bare),
            _ => Err(nearest::unknown("timing", name, &["window", "bare"])),
        }
    }

    /// This function is not generic, so that both timings run the same instructions at the same
    /// addresses. The times of two copies of one loop differed by 6 %, because of their addresses.
    fn run(self, budget: Budget, chunk: &mut dyn FnMut() -> Done) -> Window {
        if self == Self::Window {
            return window::measure(budget, chunk);
        }
        let warm_up = window::measure(Budget { measured: budget.warm_up, ..budget }, &mut *chunk);
        let chunk_ns = warm_up.wall_ns * CHUNK / warm_up.operations;
        let chunks = (budget.measured.as_nanos() as u64).div_ceil(chunk_ns.max(1));
        let (cpu_before, start) = (process_cpu_ns(), Instant::now());
        let mut done = Done::default();
        for _ in 0..chunks {
            let Done { operations, verified } = chunk();
            done.operations += operations;
            done.verified += verified;
        }
        let wall_ns = start.elapsed().as_nanos() as u64;
        let cpu_ns = process_cpu_ns() - cpu_before;
        Window { operations: done.operations, verified: done.verified, wall_ns, cpu_ns }
    }
}

/// Knuth's MMIX generator.
const FACTOR: u64 = 6_364_136_223_846_793_005;
const INCREMENT: u64 = 1_442_695_040_888_963_407;

#[derive(Default)]
struct Generator {
    state: u64,
    steps: u64,
}

impl Generator {
    #[inline(always)]
    fn step(&mut self) {
        self.state = black_box(self.state).wrapping_mul(FACTOR).wrapping_add(INCREMENT);
        self.steps += 1;
    }
}

/// Returns the state after `steps` steps from 0, in O(log steps).
fn after(steps: u64) -> u64 {
    let (mut state, mut factor, mut increment, mut rest) = (0u64, FACTOR, INCREMENT, steps);
    while rest > 0 {
        if rest % 2 == 1 {
            state = state.wrapping_mul(factor).wrapping_add(increment);
        }
        increment = increment.wrapping_mul(factor).wrapping_add(increment);
        factor = factor.wrapping_mul(factor);
        rest /= 2;
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn every_step_is_accounted_for() {
        let budget =
            Budget { warm_up: Duration::from_micros(50), measured: Duration::from_micros(200) };
        for (work, name) in EmptyWork::ALL {
            for timing in [Timing::Window, Timing::Bare] {
                let window = work.run(budget, timing);
                assert!(window.operations >= CHUNK && window.wall_ns > 0, "{name} {timing:?}");
                assert_eq!(window.verified, window.operations, "{name} {timing:?}");
            }
        }
    }

    #[test]
    fn states_are_known_without_taking_the_steps() {
        let mut generator = Generator::default();
        for steps in 0..100 {
            assert_eq!(after(steps), generator.state);
            generator.step();
        }
    }

    #[test]
    fn names_lead_back() {
        assert_eq!(Timing::find("bare").unwrap(), Timing::Bare);
        assert!(Timing::find("bear").unwrap_err().to_string().contains("did you mean bare"));
    }
}
