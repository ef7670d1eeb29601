//! A sample: a state of the memory, a pattern, and tasks that run the pattern concurrently.

use super::llfree::LlFree;
use super::quarry::{PageLists, ZoneAlone};
use super::state::{self, State};
use super::{Frames, ORDERS};
use crate::patterns::window::{self, Budget, Done, Window};
use anyhow::{Context, Result, anyhow, ensure};
use quarry_eras::pages::PAGE_POLICIES;
use quarry_harness::affinity;
use quarry_harness::launch::Work;
use quarry_harness::results::Measurement;
use quarry_mm::frame::FRAME_SHIFT;
use serde::{Deserialize, Serialize};
use std::hint::black_box;
use std::path::PathBuf;
use std::sync::Barrier;
use std::thread;

/// Operations between two reads of the clock, for patterns other than `bulk`.
const CHUNK: u64 = 1024;

/// The pattern of all tasks. An operation is a block allocated and a block freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Pattern {
    Pair,
    /// All tasks together allocate half of the free memory and free it, the last block first.
    Bulk,
    /// A random block in use is freed, and another block is allocated. Half of the memory is in
    /// use, shared among the tasks.
    Random,
}

impl Pattern {
    pub(crate) const ALL: [Self; 3] = [Self::Pair, Self::Bulk, Self::Random];
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Variant {
    Zone,
    Lists(String),
    LlFree(PathBuf),
}

impl Variant {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Zone => "zone",
            Self::Lists(policy) => policy,
            Self::LlFree(_) => "llfree",
        }
    }
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FramesSample {
    pub(crate) variant: Variant,
    pub(crate) state: State,
    pub(crate) pattern: Pattern,
    pub(crate) order: u8,
    /// Number of tasks; they are placed on the CPUs of `cpus` in turn.
    pub(crate) tasks: u32,
    pub(crate) cpus: Vec<usize>,
    pub(crate) mib: u32,
    pub(crate) millis: u64,
    /// If set, each task makes this many operations without a warm-up, and `millis` has no effect.
    /// For tools that count instructions.
    pub(crate) operations: Option<u64>,
}

impl Work for FramesSample {
    const NAME: &'static str = "zone";

    fn measure(self) -> Result<Measurement> {
        ensure!(self.order < ORDERS, "orders are 0 to {}, not {}", ORDERS - 1, self.order);
        let frames = self.mib << (20 - FRAME_SHIFT);
        match &self.variant {
            Variant::Zone => self.run(&ZoneAlone::build(frames)?, frames),
            Variant::Lists(name) => {
                let known = PAGE_POLICIES.iter().find(|it| it.name == *name);
                let policy = known.with_context(|| format!("no page policy is called {name}"))?;
                self.run(&PageLists::build(policy.policy, frames, self.tasks)?, frames)
            }
            Variant::LlFree(object) => {
                let loaded = LlFree::load(object, frames, self.tasks);
                let loaded = loaded.with_context(|| format!("LLFree {}", object.display()))?;
                self.run(&loaded, frames)
            }
        }
    }
}

impl FramesSample {
    /// Establishes the state of the memory, runs the tasks, and checks that every frame comes back.
    fn run<F: Frames>(&self, allocator: &F, frames: u32) -> Result<Measurement> {
        let (order, tasks) = (self.order, self.tasks as usize);
        let mut used = self.state.establish(allocator, frames, order, tasks)?;
        let partly = state::partly_used(&used, frames, order);
        let free = frames as usize - (used.len() << order);
        if self.pattern == Pattern::Random && used.is_empty() {
            used = state::take(allocator, (frames / 2) >> order, order, tasks)?;
        }
        let held = used.split_off(match self.pattern {
            Pattern::Random => 0,
            Pattern::Pair | Pattern::Bulk => used.len(),
        });
        let most = (free / 2 / tasks) >> order;
        ensure!(
            most > 0 && (self.pattern != Pattern::Random || held.len() >= tasks),
            "{} MiB are too few for order {order}",
            self.mib
        );
        let shares = held.chunks(held.len().div_ceil(tasks).max(1)).map(<[u32]>::to_vec);
        let mut shares: Vec<Vec<u32>> = shares.collect();
        shares.resize_with(tasks, Vec::new);
        let crew: Vec<Task<'_, F>> = shares
            .into_iter()
            .enumerate()
            .map(|(number, blocks)| Task {
                allocator,
                number,
                order,
                blocks,
                random: number as u64,
            })
            .collect();
        let (windows, left) = self.together(crew, most)?;
        for blocks in left {
            blocks.into_iter().for_each(|first| allocator.put(0, first, order));
        }
        used.into_iter().for_each(|first| allocator.put(0, first, order));
        let back = allocator.free_frames().map_err(|broken| anyhow!(broken))?;
        ensure!(back == u64::from(frames), "{back} of {frames} frames came back");
        let (window, time_ns) = window::together(&windows);
        let Window { operations, verified, wall_ns, cpu_ns } = window;
        let name = self.variant.name();
        let measurement = Measurement::of_window(operations, time_ns, wall_ns, cpu_ns, name);
        let figures = [("partly used".to_owned(), partly)].into();
        Ok(Measurement { verified, figures, ..measurement })
    }

    /// Runs the tasks concurrently; a single task runs in a process without other threads. Returns
    /// the windows, and the blocks that the tasks hold.
    fn together<F: Frames>(
        &self,
        mut crew: Vec<Task<'_, F>>,
        most: usize,
    ) -> Result<(Vec<Window>, Vec<Vec<u32>>)> {
        let start = Barrier::new(crew.len());
        let run = |mut task: Task<'_, F>| {
            if let Some(cpu) = self.cpus.get(task.number % self.cpus.len().max(1)) {
                affinity::pin(*cpu).with_context(|| format!("cannot run on CPU {cpu}"))?;
            }
            start.wait();
            let window = self.measured(&mut task, most);
            Ok((window, task.blocks))
        };
        if crew.len() == 1 {
            let (window, blocks) = run(crew.remove(0))?;
            return Ok((vec![window], vec![blocks]));
        }
        let run = &run;
        let done: Result<Vec<_>> = thread::scope(|scope| {
            let threads: Vec<_> =
                crew.into_iter().map(|task| scope.spawn(move || run(task))).collect();
            threads.into_iter().map(|it| it.join().expect("a task does not panic")).collect()
        });
        Ok(done?.into_iter().unzip())
    }

    fn measured<F: Frames>(&self, task: &mut Task<'_, F>, most: usize) -> Window {
        let mut chunk = |wanted: u64| match self.pattern {
            Pattern::Pair => task.pairs(wanted),
            Pattern::Bulk => task.bulk(most.min(wanted as usize)),
            Pattern::Random => task.replacements(wanted),
        };
        let usual = if self.pattern == Pattern::Bulk { most as u64 } else { CHUNK };
        let Some(operations) = self.operations else {
            return window::measure(Budget::of_millis(self.millis), || chunk(usual));
        };
        let mut window = Window { operations: 0, verified: 0, wall_ns: 0, cpu_ns: 0 };
        while window.operations < operations {
            let Done { operations, verified } = chunk(usual.min(operations - window.operations));
            window.operations += operations;
            window.verified += verified;
        }
        window
    }
}

struct Task<'a, F> {
    allocator: &'a F,
    number: usize,
    order: u8,
    blocks: Vec<u32>,
    random: u64,
}

impl<F: Frames> Task<'_, F> {
    #[inline]
    fn get(&self, done: &mut Done) -> Option<u32> {
        done.operations += 1;
        let first = self.allocator.get(self.number, self.order)?;
        done.verified += u64::from(first.trailing_zeros() >= self.order.into());
        Some(first)
    }

    fn pairs(&mut self, count: u64) -> Done {
        let mut done = Done::default();
        for _ in 0..count {
            if let Some(first) = self.get(&mut done) {
                self.allocator.put(self.number, black_box(first), self.order);
            }
        }
        done
    }

    fn bulk(&mut self, count: usize) -> Done {
        let mut done = Done::default();
        self.blocks.reserve(count);
        for _ in 0..count {
            let first = self.get(&mut done);
            self.blocks.extend(first);
        }
        while let Some(first) = self.blocks.pop() {
            self.allocator.put(self.number, first, self.order);
        }
        done
    }

    fn replacements(&mut self, count: u64) -> Done {
        let mut done = Done::default();
        for _ in 0..count {
            // Knuth's generator; the upper bits select.
            self.random =
                self.random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let index = (((self.random >> 32) * self.blocks.len() as u64) >> 32) as usize;
            self.allocator.put(self.number, self.blocks[index], self.order);
            match self.get(&mut done) {
                Some(first) => self.blocks[index] = first,
                None => drop(self.blocks.swap_remove(index)),
            }
        }
        done
    }
}
