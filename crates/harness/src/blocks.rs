//! Randomised complete blocks: in each block one workload runs once on every variant, in a shuffled
//! order. Drift (frequency, neighbours, heat) hits all variants of a block alike, and ratios are
//! taken within blocks.

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

/// The order of one round: every block once, and in it every variant once, both shuffled.
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

/// A seed for runs that do not name one; printed and recorded, so that the order can be repeated.
pub fn seed_from_clock() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_micros() as u64 & 0xffff_ffff
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

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
}
