//! `--aged`: runs whose heap has a past before the program's `main`.
//!
//! A run of its own counts the sizes and lifetimes of the program's blocks
//! (`witness/recording.rs`). From them this module draws a plan, by which the preloaded witness
//! ages the heap of the program (`witness/ageing.rs`).

use super::witness::{ProcessRecord, layout};
use anyhow::{Context, Result, bail};
use quarry_harness::table::counted;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Bounds of the length of a burst: in bytes, as a multiple of the most memory that the program had
/// in use, and in blocks.
const BURST_BYTES: (u64, u64) = (1 << 20, 1 << 30);
const BURST_PEAKS: u64 = 8;
const BURST_BLOCKS: f64 = 5e5;
/// Fewer allocations are no histogram.
const LEAST_ALLOCATIONS: u64 = 100;

/// The sizes and lifetimes of a program's blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Histogram {
    /// Bytes that the program asked for.
    clock: u64,
    /// The most bytes in use.
    peak: u64,
    /// Blocks by class of size.
    born: Vec<u64>,
    /// Of these, those that ended, by class of size and then by class of lifetime.
    died: Vec<u64>,
    /// The smallest and the largest size of each class, where there was one.
    range: Vec<(u64, u64)>,
}

/// The histogram of the program that allocated most, with its executable's path as the witness
/// writes it. `files` are those of the processes of a recorded run.
fn busiest(files: &[PathBuf]) -> Result<(Vec<u8>, Histogram)> {
    let mut programs = BTreeMap::<Vec<u8>, Histogram>::new();
    for file in files {
        let bytes = quarry_wary::read(file, layout::HISTOGRAM_BYTES as u64)
            .with_context(|| file.display().to_string())?;
        let Some((path, one)) = Histogram::read(&bytes) else { continue };
        match programs.get_mut(&path) {
            Some(all) => all.add(&one),
            None => _ = programs.insert(path, one),
        }
    }
    let busiest = programs.into_iter().max_by_key(|(_, it)| it.clock);
    let (path, histogram) = busiest.context("--aged: no process was recorded")?;
    let count = histogram.born.iter().sum::<u64>();
    if count < LEAST_ALLOCATIONS {
        let program = String::from_utf8_lossy(&path).trim_end_matches('\0').to_owned();
        bail!(
            "--aged: {program} asks for memory {}; a heap is aged by the sizes and lifetimes of \
             {LEAST_ALLOCATIONS} blocks or more",
            counted(count, "time")
        );
    }
    Ok((path, histogram))
}

impl Histogram {
    fn read(bytes: &[u8]) -> Option<(Vec<u8>, Self)> {
        let path = bytes.get(..layout::PATH_BYTES)?.to_vec();
        let numbers: Vec<u64> =
            bytes.chunks_exact(8).map(|it| u64::from_ne_bytes(it.try_into().unwrap())).collect();
        let born = numbers.get(layout::BORN..layout::BORN + layout::SIZES)?;
        let died = numbers.get(layout::DIED..layout::DIED + layout::SIZES * layout::AGES)?;
        let ends =
            [layout::SMALLEST, layout::LARGEST].map(|at| numbers.get(at..at + layout::SIZES));
        let [Some(smallest), Some(largest)] = ends else { return None };
        let range = smallest.iter().copied().zip(largest.iter().copied()).collect();
        let (clock, peak) = (*numbers.get(layout::CLOCK)?, *numbers.get(layout::PEAK)?);
        let histogram = Self { clock, peak, born: born.into(), died: died.into(), range };
        (path[0] != 0).then_some((path, histogram))
    }

    fn add(&mut self, other: &Self) {
        for (class, (smallest, largest)) in other.range.iter().enumerate() {
            let range = &mut self.range[class];
            let least = if self.born[class] == 0 { *smallest } else { range.0.min(*smallest) };
            let is_there = other.born[class] > 0;
            *range = if is_there { (least, range.1.max(*largest)) } else { *range };
        }
        self.clock = self.clock.max(other.clock);
        self.peak = self.peak.max(other.peak);
        self.born.iter_mut().zip(&other.born).for_each(|(sum, it)| *sum += it);
        self.died.iter_mut().zip(&other.died).for_each(|(sum, it)| *sum += it);
    }

    /// Pairs of size and lifetime, as often as in the histogram. A block that never ended lives
    /// until the end of a burst, or longer.
    fn draws(&self) -> Vec<(u64, u64)> {
        let mut cells = Vec::new();
        for (size, born) in self.born.iter().enumerate() {
            let ages = &self.died[size * layout::AGES..][..layout::AGES];
            let ended: u64 = ages.iter().sum();
            cells.extend(ages.iter().enumerate().map(|(age, count)| (size, Some(age), *count)));
            cells.push((size, None, born.saturating_sub(ended)));
        }
        let total: u64 = cells.iter().map(|(.., count)| count).sum();
        let (mut draws, mut cells) = (Vec::new(), cells.into_iter());
        let (mut cell, mut passed) = ((0, None, 0), 0);
        for index in 0..layout::DRAWS {
            let wanted = (index as f64 + 0.5) / layout::DRAWS as f64 * total as f64;
            while (passed as f64) < wanted {
                let Some(next) = cells.next() else { break };
                (cell, passed) = (next, passed + next.2);
            }
            // Multiples of the golden ratio and of the root of 2 fill the unit interval evenly.
            let [within, later] = [0.618_034, 0.414_214].map(|it| (index as f64 * it).fract());
            let lifetime = cell.1.map_or(u64::MAX, |age| ((age as f64) + later).exp2() as u64);
            let (smallest, largest) = self.range[cell.0];
            let size = smallest + (within * (largest - smallest + 1) as f64) as u64;
            draws.push((size.max(1), lifetime));
        }
        draws
    }

    fn burst_bytes(&self, draws: &[(u64, u64)]) -> u64 {
        let mean = draws.iter().map(|(size, _)| *size as f64).sum::<f64>() / draws.len() as f64;
        let most = (self.peak * BURST_PEAKS).min((mean * BURST_BLOCKS) as u64);
        self.clock.min(most).clamp(BURST_BYTES.0, BURST_BYTES.1)
    }
}

/// Writes a plan from the files of a recorded run, and removes these files.
pub(super) fn write_plan(files: &[PathBuf], plan: &Path) -> Result<()> {
    let found = busiest(files);
    for file in files {
        fs::remove_file(file).with_context(|| file.display().to_string())?;
    }
    let (mut bytes, histogram) = found?;
    let draws = histogram.draws();
    bytes.extend(histogram.burst_bytes(&draws).to_ne_bytes());
    bytes.extend(draws.iter().flat_map(|(size, life)| [*size, *life]).flat_map(u64::to_ne_bytes));
    debug_assert_eq!(bytes.len(), layout::PLAN_BYTES);
    fs::write(plan, bytes).with_context(|| plan.display().to_string())
}

/// The cost of ageing in the processes of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Aged {
    /// Bytes of blocks that stay in use; of several processes, those of the one with most.
    pub(super) kept: u64,
    /// Time in which a process was aged.
    pub(super) wall_ns: u64,
    pub(super) user_ns: u64,
    pub(super) sys_ns: u64,
    pub(super) faults: u64,
    pub(super) switches: u64,
    pub(super) involuntary: u64,
}

impl Aged {
    /// Sums up; `None` if no process was aged.
    pub(super) fn of(said: &[ProcessRecord]) -> Option<Self> {
        let aged: Vec<[u64; layout::AGED_FIELDS]> =
            said.iter().map(|one| one.aged).filter(|it| it[2] > 0).collect();
        let mut spans: Vec<(u64, u64)> = aged.iter().map(|it| (it[1], it[2])).collect();
        spans.sort_unstable();
        let (mut wall_ns, mut until) = (0, 0);
        for (from, to) in spans {
            wall_ns += to.saturating_sub(from.max(until));
            until = until.max(to);
        }
        let sum = |field: usize| aged.iter().map(|it| it[field]).sum();
        (!aged.is_empty()).then(|| Self {
            kept: aged.iter().map(|it| it[0]).max().unwrap_or(0),
            wall_ns,
            user_ns: sum(3),
            sys_ns: sum(4),
            faults: sum(5),
            switches: sum(6),
            involuntary: sum(7),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram() -> Histogram {
        let mut one = Histogram {
            clock: 100 << 20,
            peak: 1 << 20,
            born: vec![0; layout::SIZES],
            died: vec![0; layout::SIZES * layout::AGES],
            range: vec![(0, 0); layout::SIZES],
        };
        let (small, large) = (layout::size_class(64), layout::size_class(5000));
        (one.born[small], one.born[large]) = (3000, 1000);
        (one.range[small], one.range[large]) = ((64, 64), (4700, 5000));
        one.died[small * layout::AGES + 10] = 2000;
        one.died[large * layout::AGES + 20] = 1000;
        one
    }

    #[test]
    fn draws_are_as_frequent_as_the_programs_blocks() {
        let draws = histogram().draws();
        let share = |is: &dyn Fn(&(u64, u64)) -> bool| {
            draws.iter().filter(|it| is(it)).count() as f64 / draws.len() as f64
        };
        assert_eq!(draws.len(), layout::DRAWS);
        assert!((share(&|(size, _)| *size == 64) - 0.75).abs() < 0.001);
        assert!((share(&|(size, _)| (4700..=5000).contains(size)) - 0.25).abs() < 0.001);
        assert!((share(&|(_, life)| *life == u64::MAX) - 0.25).abs() < 0.001, "never freed");
        assert!((share(&|(_, life)| (1 << 10..1 << 11).contains(life)) - 0.5).abs() < 0.001);
        assert!((share(&|(_, life)| (1 << 20..1 << 21).contains(life)) - 0.25).abs() < 0.001);
    }

    #[test]
    fn a_burst_is_bounded() {
        let of = |clock, peak| {
            let one = Histogram { clock, peak, ..histogram() };
            one.burst_bytes(&one.draws())
        };
        assert_eq!(of(100, 100), 1 << 20);
        assert_eq!(of(100 << 20, 1 << 20), 8 << 20);
        assert_eq!(of(4 << 20, 4 << 20), 4 << 20);
        let draws = histogram().draws();
        let mean = draws.iter().map(|(size, _)| *size as f64).sum::<f64>() / draws.len() as f64;
        assert_eq!(of(1 << 40, 1 << 40), (mean * BURST_BLOCKS) as u64);
    }

    #[test]
    fn classes_end_at_round_sizes() {
        assert_eq!(layout::size_class(0), layout::size_class(8));
        for bytes in [16, 24, 32, 96, 4096, 5120, 1 << 20] {
            let class = layout::size_class(bytes);
            assert_eq!(layout::size_class(bytes + 1), class + 1, "{bytes}");
            assert!(class < layout::SIZES);
        }
        assert_eq!(layout::size_class(1 << 40), layout::SIZES - 1);
        assert!((0..63).all(|age| layout::age_class(1 << age) == age));
        assert_eq!(layout::age_class(0), 0);
    }

    #[test]
    fn ranges_of_several_processes_are_joined() {
        let (mut one, mut none) = (histogram(), histogram());
        let class = layout::size_class(64);
        none.born[class] = 0;
        none.range[class] = (0, 0);
        let other = none.clone();
        one.add(&other);
        assert_eq!(one.range[class], (64, 64));
        none.add(&one);
        assert_eq!(none.range[class], (64, 64));
    }

    #[test]
    fn what_ran_at_once_is_aged_once() {
        let one =
            |aged: [u64; layout::AGED_FIELDS]| ProcessRecord { aged, ..ProcessRecord::default() };
        let said = [
            one([0; 8]),
            one([10, 100, 200, 1, 2, 3, 4, 5]),
            one([30, 150, 300, 1, 2, 3, 4, 5]),
            one([20, 400, 500, 1, 2, 3, 4, 5]),
        ];
        let aged = Aged::of(&said).unwrap();
        assert_eq!((aged.kept, aged.wall_ns, aged.user_ns, aged.involuntary), (30, 300, 3, 15));
        assert_eq!(Aged::of(&said[..1]), None);
    }
}
