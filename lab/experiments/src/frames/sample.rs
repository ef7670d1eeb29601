//! A sample: a state of the memory, a pattern, and tasks that run the pattern concurrently.

use super::llfree::LlFree;
use super::quarry::{PageLists, ZoneAlone};
use super::{Frames, ORDERS};
use crate::patterns::window::{self, Budget, Done, Window};
use anyhow::{Context, Result, anyhow, ensure};
use quarry_eras::pages::Chosen;
use quarry_harness::affinity;
use quarry_harness::launch::Work;
use quarry_harness::results::Measurement;
use quarry_mm::frame::{FRAME_SHIFT, PAGEBLOCK_ORDER};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
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
                let known = Chosen::named(name);
                let policy = known.with_context(|| format!("no page policy is called {name}"))?;
                self.run(&PageLists::build(policy, frames, self.tasks)?, frames)
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
        let partly = partly_used(&used, frames, order);
        let free = frames as usize - (used.len() << order);
        if self.pattern == Pattern::Random && used.is_empty() {
            used = take(allocator, (frames / 2) >> order, order, tasks)?;
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
        let mut shares = held.chunks(held.len().div_ceil(tasks).max(1)).map(<[u32]>::to_vec);
        let task = |number| {
            let (blocks, random) = (shares.next().unwrap_or_default(), number as u64);
            Task { allocator, number, order, blocks, random }
        };
        let (windows, left) = self.together((0..tasks).map(task).collect(), most)?;
        let left = left.into_iter().flatten();
        left.chain(used).for_each(|first| allocator.put(0, first, order));
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
            return Ok([run(crew.remove(0))?].into_iter().unzip());
        }
        let run = &run;
        let done: Result<Vec<_>> = thread::scope(|scope| {
            let start = |task| scope.spawn(move || run(task));
            let threads: Vec<_> = crew.into_iter().map(start).collect();
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
        let mut window = Window::default();
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

/// Filling leaves one part in this many of the memory free, because page policies do not let the
/// free memory of a zone fall below its watermarks.
const LEFT: u32 = 64;
/// Every sample begins with the same state.
const SEED: u64 = 42;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    /// All frames are free, in the largest possible blocks.
    Fresh,
    /// 63 of 64 parts of the memory were allocated as blocks of the measured order, and a random
    /// half of these was freed, as in LLFree's benchmark `frag`.
    Fragmented,
}

impl State {
    pub(crate) const ALL: [Self; 2] = [Self::Fresh, Self::Fragmented];

    /// Brings `frames` free frames into this state; the `tasks` tasks allocate the blocks in turn.
    /// Returns the blocks that stay in use, in random order.
    fn establish(
        self,
        allocator: &impl Frames,
        frames: u32,
        order: u8,
        tasks: usize,
    ) -> Result<Vec<u32>> {
        if self == Self::Fresh {
            return Ok(Vec::new());
        }
        let mut blocks = take(allocator, (frames - frames / LEFT) >> order, order, tasks)?;
        let free = blocks.len() / 2;
        for (turn, first) in blocks.drain(..free).enumerate() {
            allocator.put(turn % tasks, first, order);
        }
        Ok(blocks)
    }
}

/// Allocates `count` blocks for `tasks` tasks in turn; returns them in random order.
fn take(allocator: &impl Frames, count: u32, order: u8, tasks: usize) -> Result<Vec<u32>> {
    let get = |turn: u32| allocator.get(turn as usize % tasks, order);
    let blocks: Option<Vec<u32>> = (0..count).map(get).collect();
    let mut blocks = blocks.context("the memory has fewer blocks than it should")?;
    blocks.shuffle(&mut StdRng::seed_from_u64(SEED));
    Ok(blocks)
}

/// The share of 2 MiB blocks that are partly in use, if `blocks` of `order` are in use.
fn partly_used(blocks: &[u32], frames: u32, order: u8) -> f64 {
    let mut used = vec![0u32; (frames >> PAGEBLOCK_ORDER) as usize];
    for first in blocks {
        used[(first >> PAGEBLOCK_ORDER) as usize] += 1 << order;
    }
    let partly = used.iter().filter(|used| (1..1 << PAGEBLOCK_ORDER).contains(*used)).count();
    partly as f64 / used.len() as f64
}

#[cfg(test)]
mod tests {
    use super::super::quarry::{PageLists, ZoneAlone};
    use super::*;
    use quarry_eras::pages::PAGE_POLICIES;
    use quarry_mm::frame::{NodeId, PageblockIndex};

    const FRAMES: u32 = 64 << 8;

    fn partly_free(zone: &ZoneAlone) -> usize {
        let pageblocks = zone.zones().memory().pageblocks();
        let all = (0..pageblocks.count()).map(|index| pageblocks.at(PageblockIndex(index)));
        let of_zone = all.filter(|pageblock| pageblock.tag().node().is_some());
        of_zone.filter(|pageblock| (1..1 << PAGEBLOCK_ORDER).contains(&pageblock.free())).count()
    }

    #[test]
    fn half_of_a_fragmented_memory_is_in_use_all_over() {
        for (order, least, most) in
            [(0, 0.97, 1.0), (3, 0.97, 1.0), (6, 0.9, 1.0), (8, 0.3, 0.7), (9, 0.0, 0.0)]
        {
            let zone = ZoneAlone::build(FRAMES).unwrap();
            let blocks = State::Fragmented.establish(&zone, FRAMES, order, 2).unwrap();
            let taken = (FRAMES - FRAMES / LEFT) >> order;
            assert_eq!(blocks.len() as u32, taken - taken / 2);
            let used = (blocks.len() as u32) << order;
            assert_eq!(zone.free_frames(), Ok(u64::from(FRAMES - used)));
            let part = partly_used(&blocks, FRAMES, order);
            assert!((least..=most).contains(&part), "order {order}: {part}");
            let pageblocks = f64::from(FRAMES >> PAGEBLOCK_ORDER);
            assert_eq!(partly_free(&zone), (part * pageblocks).round() as usize, "order {order}");
        }
    }

    #[test]
    fn a_fresh_memory_is_free() {
        let zone = ZoneAlone::build(FRAMES).unwrap();
        assert_eq!(State::Fresh.establish(&zone, FRAMES, 0, 1).unwrap(), [0; 0]);
        assert_eq!(zone.free_frames(), Ok(FRAMES.into()));
        assert_eq!(partly_free(&zone), 0);
        assert_eq!(zone.zones().zone(NodeId(0)).managed(), FRAMES);
    }

    #[test]
    fn every_policy_fills_as_much_of_the_memory() {
        for policy in PAGE_POLICIES {
            for order in [0, 1, 4, 9] {
                let lists = PageLists::build(policy.policy, FRAMES, 2).unwrap();
                let blocks = State::Fragmented.establish(&lists, FRAMES, order, 2).unwrap();
                let used = (blocks.len() as u64) << order;
                let free = lists.free_frames();
                assert_eq!(free, Ok(u64::from(FRAMES) - used), "{} {order}", policy.name);
            }
        }
    }
}
