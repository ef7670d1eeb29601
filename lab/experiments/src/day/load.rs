//! The requests for pages, second by second, of an invented server with the packets of document
//! 000. Its rates are chosen, not measured; that is enough, because the experiment compares
//! memories under the same load.
//!
//! | who | orders | how many | for how long |
//! |---|---|---|---|
//! | slabs, unmovable | 0 to 3 | 70 a second | 95 % 30 s, 5 % 10 minutes to a day (Pareto) |
//! | inodes, reclaimable | 0, 1 | 10 a second | until reclaimed |
//! | programs, movable | 0 | one in 30 s, of 1 to 32 MiB | 10 minutes |
//! | files in the page cache, movable | 0 | 1 a second, 8 to 64 pages | until reclaimed |
//! | packets, unmovable, cannot wait | 0 to 3 | 64 at once, each second | the same second |
//! | rings of drivers, unmovable | 4 | 1 a second | a minute |
//! | huge pages, movable | 9 | one in 10 s | 5 minutes |
//!
//! The rates are for 512 MiB. Times are means of exponential distributions, unless the table says
//! otherwise. Each second, the oldest files and inodes are reclaimed until a twentieth of the
//! memory is free; one file or inode in eight is spared once. If a request that may wait finds no
//! block, it reclaims until twice its size more is free, and tries once more.

use super::memory::{Block, Memory};
use quarry_mm::frame::{FRAME_BYTES, MigrateType};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::{BTreeMap, VecDeque};

/// Frames of the memory that the rates are for: 512 MiB.
const RATED_FRAMES: u32 = (512 << 20) / FRAME_BYTES as u32;
/// Reclaim keeps one frame in this many free.
const KEPT_FREE: u32 = 20;
const COUNTED: usize = 10;

/// Requests of an order, and how many of them were served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Served {
    pub(super) requests: u64,
    pub(super) served: u64,
}

#[derive(Clone, Copy)]
enum Who {
    Slab,
    Program,
    Ring,
    Huge,
}

pub(super) struct Load<'a> {
    memory: &'a Memory,
    random: StdRng,
    frames: u32,
    second: u64,
    /// Blocks by the second in which they are freed.
    due: BTreeMap<u64, Vec<Block>>,
    cached: VecDeque<Cached>,
    pub(super) served: [Served; COUNTED],
    pub(super) given_back: u64,
}

struct Cached {
    blocks: Vec<Block>,
    /// True if reclaim has spared it once already.
    is_old: bool,
}

impl<'a> Load<'a> {
    pub(super) fn new(memory: &'a Memory, frames: u32, seed: u64) -> Self {
        Self {
            memory,
            random: StdRng::seed_from_u64(seed),
            frames,
            second: 0,
            due: BTreeMap::new(),
            cached: VecDeque::new(),
            served: [Served::default(); COUNTED],
            given_back: 0,
        }
    }

    pub(super) fn tick(&mut self) {
        self.second += 1;
        let later = self.due.split_off(&(self.second + 1));
        let over = std::mem::replace(&mut self.due, later);
        over.into_values().flatten().for_each(|block| self.put(block));
        for _ in 0..self.arrivals(70.0) {
            self.slab();
        }
        for _ in 0..self.arrivals(10.0) {
            let order = self.random.random_range(0..=1);
            let inode = self.take(order, MigrateType::Reclaimable, true);
            self.cache(inode.into_iter().collect());
        }
        for _ in 0..self.arrivals(1.0 / 30.0) {
            self.program();
        }
        for _ in 0..self.arrivals(1.0) {
            let pages = self.random.random_range(8..=64);
            let file = (0..pages).map_while(|_| self.take(0, MigrateType::Movable, true));
            let file = file.collect();
            self.cache(file);
        }
        self.packets();
        for _ in 0..self.arrivals(1.0) {
            self.hold(Who::Ring, 4);
        }
        for _ in 0..self.arrivals(0.1) {
            self.hold(Who::Huge, 9);
        }
        self.reclaim(self.frames / KEPT_FREE);
    }

    pub(super) fn end(&mut self) {
        std::mem::take(&mut self.due).into_values().flatten().for_each(|block| self.put(block));
        let cached = std::mem::take(&mut self.cached);
        cached.into_iter().flat_map(|it| it.blocks).for_each(|block| self.put(block));
    }

    /// The number of arrivals in a second, at `rate` per 512 MiB: Poisson (Knuth, volume 2, 3.4.1).
    fn arrivals(&mut self, rate: f64) -> u32 {
        let rate = rate * f64::from(self.frames) / f64::from(RATED_FRAMES);
        let limit = (-rate).exp();
        let (mut count, mut product) = (0, self.random.random::<f64>());
        while product > limit {
            count += 1;
            product *= self.random.random::<f64>();
        }
        count
    }

    fn exponential(&mut self, mean: f64) -> u64 {
        (-(1.0 - self.random.random::<f64>()).ln() * mean) as u64
    }

    fn lifetime(&mut self, who: Who) -> u64 {
        match who {
            // Pareto with exponent 1.2, from 10 minutes.
            Who::Slab if self.random.random::<f64>() < 0.05 => {
                let longer = (1.0 - self.random.random::<f64>()).powf(-1.0 / 1.2);
                (600.0 * longer).min(86_400.0) as u64
            }
            Who::Slab => self.exponential(30.0),
            Who::Ring => self.exponential(60.0),
            Who::Huge => self.exponential(300.0),
            Who::Program => self.exponential(600.0),
        }
    }

    fn take(&mut self, order: u8, of: MigrateType, waits: bool) -> Option<Block> {
        let mut block = self.memory.take(order, of, waits);
        if block.is_none() && waits {
            self.reclaim(self.memory.free() + 2 * (1 << order));
            block = self.memory.take(order, of, waits);
        }
        let counts = &mut self.served[usize::from(order)];
        counts.requests += 1;
        counts.served += u64::from(block.is_some());
        block
    }

    fn put(&mut self, block: Block) {
        self.memory.put(block);
        self.given_back += 1;
    }

    /// Keeps blocks for a random lifetime of their kind.
    fn keep(&mut self, who: Who, blocks: Vec<Block>) {
        let until = self.second + 1 + self.lifetime(who);
        self.due.entry(until).or_default().extend(blocks);
    }

    fn hold(&mut self, who: Who, order: u8) {
        let of =
            if matches!(who, Who::Huge) { MigrateType::Movable } else { MigrateType::Unmovable };
        if let Some(block) = self.take(order, of, true) {
            self.keep(who, vec![block]);
        }
    }

    fn slab(&mut self) {
        let order = match self.random.random_range(0..20) {
            0..14 => 0,
            14..17 => 1,
            17..19 => 2,
            _ => 3,
        };
        self.hold(Who::Slab, order);
    }

    fn program(&mut self) {
        let pages = (256.0 * 32f64.powf(self.random.random::<f64>())) as u32;
        let blocks: Vec<Block> =
            (0..pages).map_while(|_| self.take(0, MigrateType::Movable, true)).collect();
        self.keep(Who::Program, blocks);
    }

    /// Packets of 64 bytes to 16 KiB, all of which are in use at once.
    fn packets(&mut self) {
        let mut on_their_way = Vec::new();
        for _ in 0..self.arrivals(64.0) {
            let order = match self.random.random_range(0..10) {
                0..3 => 0,
                3..5 => 1,
                5..7 => 2,
                _ => 3,
            };
            on_their_way.extend(self.take(order, MigrateType::Unmovable, false));
        }
        on_their_way.into_iter().for_each(|block| self.put(block));
    }

    fn cache(&mut self, blocks: Vec<Block>) {
        if !blocks.is_empty() {
            self.cached.push_back(Cached { blocks, is_old: false });
        }
    }

    /// Frees files and inodes, oldest first, until `wanted` frames are free or all are freed.
    fn reclaim(&mut self, wanted: u32) {
        let mut free = self.memory.free();
        while free < wanted
            && let Some(oldest) = self.cached.pop_front()
        {
            if !oldest.is_old && self.random.random_range(0..8) == 0 {
                self.cached.push_back(Cached { is_old: true, ..oldest });
                continue;
            }
            for block in oldest.blocks {
                free += block.frames();
                self.put(block);
            }
        }
    }
}
