//! The frames in use when a sample begins.

use super::Frames;
use anyhow::{Context, Result};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};

/// Filling leaves one part in this many of the memory free, because page policies do not let the
/// free memory of a zone fall below its watermarks.
const LEFT: u32 = 64;
/// Every sample begins with the same state.
const SEED: u64 = 42;
const HUGE_ORDER: u8 = 9;

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
    pub(super) fn establish(
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
pub(super) fn take(
    allocator: &impl Frames,
    count: u32,
    order: u8,
    tasks: usize,
) -> Result<Vec<u32>> {
    let get = |turn: u32| allocator.get(turn as usize % tasks, order);
    let blocks: Option<Vec<u32>> = (0..count).map(get).collect();
    let mut blocks = blocks.context("the memory has fewer blocks than it should")?;
    blocks.shuffle(&mut StdRng::seed_from_u64(SEED));
    Ok(blocks)
}

/// The share of 2 MiB blocks that are partly in use, if `blocks` of `order` are in use.
pub(super) fn partly_used(blocks: &[u32], frames: u32, order: u8) -> f64 {
    let mut used = vec![0u32; (frames >> HUGE_ORDER) as usize];
    for first in blocks {
        used[(first >> HUGE_ORDER) as usize] += 1 << order;
    }
    let partly = used.iter().filter(|used| (1..1 << HUGE_ORDER).contains(*used)).count();
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
        of_zone.filter(|pageblock| (1..1 << HUGE_ORDER).contains(&pageblock.free())).count()
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
            let pageblocks = f64::from(FRAMES >> HUGE_ORDER);
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
