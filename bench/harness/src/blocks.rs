//! Randomised complete blocks: in each block one workload runs once on every variant, in a shuffled
//! order. Drift (frequency, neighbours, heat) affects all variants of a block alike, and ratios are
//! taken within blocks. A shard has whole blocks, so one machine measures both sides of a ratio.

use crate::shard::Shard;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use std::time::{SystemTime, UNIX_EPOCH};

/// One sample to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Index of the block: a workload with a number of tasks.
    pub block: usize,
    /// Index of the variant.
    pub variant: usize,
}

/// The parameters that determine the order of a run's samples.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Seed of the order.
    pub seed: u64,
    /// Blocks of a round.
    pub blocks: usize,
    /// Variants, which are the steps of a block.
    pub variants: usize,
    /// Rounds after the warm-up, at most.
    pub rounds: u32,
    /// True if a warm-up round comes first.
    pub warm_up: bool,
    /// The part that this process takes; `None`: the whole run.
    pub shard: Option<Shard>,
}

impl Shape {
    /// The rounds that this process takes. Each round shuffles its blocks, and the shards take the
    /// blocks of all counted rounds in turn. In the warm-up round a shard takes only blocks that it
    /// measures later.
    pub fn schedule(self) -> Schedule {
        let of = |is_warmed: Vec<bool>| Schedule {
            shape: self,
            random: StdRng::seed_from_u64(self.seed),
            next: u32::from(!self.warm_up),
            is_warmed,
        };
        if self.shard.is_none() || !self.warm_up {
            return of(vec![true; self.blocks]);
        }
        // A first pass over the rounds finds out which blocks this shard measures.
        let mut is_measured = vec![false; self.blocks];
        for (_, steps) in of(vec![false; self.blocks]) {
            steps.iter().for_each(|step| is_measured[step.block] = true);
            if is_measured.iter().all(|it| *it) {
                break;
            }
        }
        of(is_measured)
    }

    /// The rounds, blocks and variants of all samples that this process takes, in their order.
    pub fn places(self) -> impl Iterator<Item = (u32, usize, usize)> {
        self.schedule().flat_map(|(round, steps)| {
            steps.into_iter().map(move |Step { block, variant }| (round, block, variant))
        })
    }

    /// Returns the number of samples after the warm-up.
    pub fn counted(self) -> u64 {
        let blocks = u64::from(self.rounds) * self.blocks as u64;
        self.shard.map_or(blocks, |shard| shard.share(blocks)) * self.variants as u64
    }
}

/// The rounds of a run, each with its number (0: warm-up) and its steps. A round in which this
/// shard has no block has no steps.
#[derive(Debug)]
pub struct Schedule {
    shape: Shape,
    random: StdRng,
    next: u32,
    is_warmed: Vec<bool>,
}

impl Iterator for Schedule {
    type Item = (u32, Vec<Step>);

    fn next(&mut self) -> Option<Self::Item> {
        let (number, shape) = (self.next, self.shape);
        if number > shape.rounds {
            return None;
        }
        self.next += 1;
        let steps = round(shape.blocks, shape.variants, &mut self.random);
        let before = u64::from(number.saturating_sub(1)) * shape.blocks as u64;
        let is_wanted = |(place, block): &(usize, &[Step])| match shape.shard {
            None => true,
            Some(_) if number == 0 => self.is_warmed[block[0].block],
            Some(shard) => shard.has(before + *place as u64),
        };
        let blocks = steps.chunks(shape.variants).enumerate().filter(is_wanted);
        Some((number, blocks.flat_map(|(_, block)| block.to_vec()).collect()))
    }
}

/// The order of one round: the blocks shuffled, and in each block the variants shuffled.
pub fn round(blocks: usize, variants: usize, random: &mut StdRng) -> Vec<Step> {
    let mut steps = Vec::with_capacity(blocks * variants);
    for block in shuffled(blocks, random) {
        let order = shuffled(variants, random);
        steps.extend(order.into_iter().map(|variant| Step { block, variant }));
    }
    steps
}

fn shuffled(count: usize, random: &mut StdRng) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.shuffle(random);
    order
}

/// A seed for a run that names none. It is printed and recorded, so that the order can be repeated.
pub fn seed_from_clock() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_micros() as u64 & 0xffff_ffff
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::RngExt;
    use std::collections::BTreeSet;

    fn rounds(count: u32, blocks: usize, variants: usize, seed: u64) -> Vec<Vec<Step>> {
        let mut random = StdRng::seed_from_u64(seed);
        (0..count).map(|_| round(blocks, variants, &mut random)).collect()
    }

    #[test]
    fn every_block_is_complete_and_contiguous() {
        let rounds = rounds(4, 4, 5, 7);
        for steps in &rounds {
            let mut blocks = Vec::new();
            for block in steps.chunks(5) {
                assert!(block.iter().all(|step| step.block == block[0].block));
                let mut seen: Vec<usize> = block.iter().map(|step| step.variant).collect();
                seen.sort_unstable();
                assert_eq!(seen, [0, 1, 2, 3, 4]);
                blocks.push(block[0].block);
            }
            blocks.sort_unstable();
            assert_eq!(blocks, [0, 1, 2, 3]);
        }
        assert!(rounds.windows(2).any(|pair| pair[0] != pair[1]), "rounds differ in their order");
    }

    #[test]
    fn the_seed_decides_the_order() {
        assert_eq!(rounds(5, 6, 7, 1), rounds(5, 6, 7, 1));
        assert_ne!(rounds(5, 6, 7, 1), rounds(5, 6, 7, 2));
    }

    const SHAPE: Shape =
        Shape { seed: 7, blocks: 4, variants: 3, rounds: 5, warm_up: true, shard: None };

    fn steps(shape: Shape) -> Vec<(u32, Step)> {
        let of = |(round, steps): (u32, Vec<Step>)| {
            steps.into_iter().map(move |step| (round, step)).collect::<Vec<_>>()
        };
        shape.schedule().flat_map(of).collect()
    }

    fn counted(shape: Shape) -> Vec<(u32, Step)> {
        steps(shape).into_iter().filter(|(round, _)| *round > 0).collect()
    }

    #[test]
    fn a_whole_schedule_is_its_rounds() {
        let expected = rounds(6, 4, 3, 7);
        let taken: Vec<_> = SHAPE.schedule().collect();
        assert_eq!(taken, (0..6).zip(expected.clone()).collect::<Vec<_>>());
        let cold = Shape { warm_up: false, ..SHAPE };
        assert_eq!(cold.schedule().next(), Some((1, expected[0].clone())), "the order is the same");
    }

    #[test]
    fn every_run_is_in_exactly_one_shard() {
        let mut random = StdRng::seed_from_u64(11);
        for _ in 0..300 {
            let whole = Shape {
                seed: random.random(),
                blocks: random.random_range(1..9),
                variants: random.random_range(1..6),
                rounds: random.random_range(1..12),
                warm_up: random.random(),
                shard: None,
            };
            let of = random.random_range(1..30);
            let expected = counted(whole);
            assert_eq!(expected.len() as u64, whole.counted());
            let mut together = BTreeSet::new();
            let mut total = 0;
            for shard in Shard::all(of) {
                let shape = Shape { shard: Some(shard), ..whole };
                let own = counted(shape);
                assert_eq!(own.len() as u64, shape.counted(), "{shape:?}");
                let mut order = expected.iter();
                assert!(own.iter().all(|it| order.any(|other| other == it)), "order: {shape:?}");
                let key = |(round, step): &(u32, Step)| (*round, step.block, step.variant);
                together.extend(own.iter().map(key));
                total += own.len();
                for block in own.chunks(whole.variants) {
                    let mut seen: Vec<usize> = block.iter().map(|(_, it)| it.variant).collect();
                    seen.sort_unstable();
                    assert!(seen.iter().copied().eq(0..whole.variants), "pairs: {shape:?}");
                    assert!(block.iter().all(|(round, it)| {
                        (*round, it.block) == (block[0].0, block[0].1.block)
                    }));
                }
                let warm_up = steps(shape).into_iter().filter(|(round, _)| *round == 0);
                let warmed: BTreeSet<usize> = warm_up.map(|(_, step)| step.block).collect();
                let measured: BTreeSet<usize> = own.iter().map(|(_, step)| step.block).collect();
                assert_eq!(warmed, if whole.warm_up { measured } else { BTreeSet::new() });
            }
            assert_eq!((together.len(), total), (expected.len(), expected.len()), "{whole:?}");
        }
    }
}
