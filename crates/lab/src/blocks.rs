//! Randomised complete blocks: in each block one workload runs once on every variant, in a shuffled
//! order. What drifts (frequency, neighbours, heat) hits all variants of a block alike, and ratios
//! are taken within blocks.

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use std::time::{SystemTime, UNIX_EPOCH};

/// One sample to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// Round 0 is the warm-up: recorded, not counted.
    pub(crate) round: u32,
    /// Index of the workload.
    pub(crate) workload: usize,
    /// Index of the variant.
    pub(crate) variant: usize,
}

/// The order of all samples: a warm-up round, then `rounds` rounds. In each round every workload
/// forms one block; blocks and the variants within each are shuffled.
pub(crate) fn plan(rounds: u32, workloads: usize, variants: usize, seed: u64) -> Vec<Step> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut steps = Vec::with_capacity((rounds as usize + 1) * workloads * variants);
    for round in 0..=rounds {
        for workload in shuffled(workloads, &mut random) {
            let order = shuffled(variants, &mut random);
            steps.extend(order.into_iter().map(|variant| Step { round, workload, variant }));
        }
    }
    steps
}

fn shuffled(count: usize, random: &mut StdRng) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.shuffle(random);
    order
}

/// A seed for runs that do not name one; printed and recorded, so that the order can be repeated.
pub(crate) fn seed_from_clock() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_micros() as u64 & 0xffff_ffff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_is_complete_and_contiguous() {
        let (rounds, workloads, variants) = (3, 4, 5);
        let steps = plan(rounds, workloads, variants, 7);
        assert_eq!(steps.len(), 4 * 4 * 5);
        let mut blocks = Vec::new();
        for block in steps.chunks(variants) {
            assert!(
                block.iter().all(|s| (s.round, s.workload) == (block[0].round, block[0].workload))
            );
            let mut seen: Vec<usize> = block.iter().map(|step| step.variant).collect();
            seen.sort_unstable();
            assert_eq!(seen, [0, 1, 2, 3, 4]);
            blocks.push((block[0].round, block[0].workload));
        }
        blocks.sort_unstable();
        blocks.dedup();
        assert_eq!(blocks.len(), 4 * 4);
    }

    #[test]
    fn the_seed_decides_the_order() {
        assert_eq!(plan(5, 6, 7, 1), plan(5, 6, 7, 1));
        assert_ne!(plan(5, 6, 7, 1), plan(5, 6, 7, 2));
    }
}
