//! Which pages the cache evicts: its misses, compared with those of exact LRU with as many pages.
//! All choices are pseudo-random from a fixed seed, and none depends on the time.

use crate::support::seed::Dice;
use crate::support::{Backing, Bed, VirtualConfig, small};
use quarry_cache::PageCaching;
use quarry_cache::page_cache::{MappingId, MappingOptions, PageCacheRef, ScanFor, ScanRequest};
use quarry_mm::frame::NodeId;
use quarry_mm::slab::Sheaf;
use quarry_mm::stack::Stack;
use std::collections::{BTreeMap, HashMap};

type CacheBed = Bed<VirtualConfig<Sheaf>>;

/// Pages that each of the two caches may hold.
const CAPACITY: u64 = 2048;
/// Pages that a reclaim frees at a time.
const TOGETHER: u64 = 32;

/// Exact LRU.
struct Lru {
    capacity: usize,
    now: u64,
    by_time: BTreeMap<u64, (usize, u64)>,
    times: HashMap<(usize, u64), u64>,
}

impl Lru {
    /// Looks a page up; returns whether it was there.
    fn look_up(&mut self, page: (usize, u64)) -> bool {
        self.now += 1;
        let before = self.times.insert(page, self.now);
        match before {
            Some(time) => drop(self.by_time.remove(&time)),
            None if self.times.len() > self.capacity => {
                let (_, oldest) = self.by_time.pop_first().expect("it is full");
                self.times.remove(&oldest);
            }
            None => {}
        }
        self.by_time.insert(self.now, page);
        before.is_some()
    }
}

/// The page cache and exact LRU, and the misses of each.
struct Pair<'a> {
    cache: PageCacheRef<'a, Stack<VirtualConfig<Sheaf>>>,
    mappings: Vec<MappingId>,
    lru: Lru,
    misses: [u64; 2],
}

impl<'a> Pair<'a> {
    fn new(bed: &'a CacheBed, mappings: usize) -> Self {
        let cache = PageCaching::open(&*bed.stack).unwrap();
        let create = |_| cache.create_mapping(&MappingOptions::default()).unwrap();
        // LRU has as many pages as the page cache has on average between two reclaims.
        let capacity = (CAPACITY - TOGETHER / 2) as usize;
        let (by_time, times) = (BTreeMap::new(), HashMap::new());
        let lru = Lru { capacity, now: 0, by_time, times };
        Self { cache, mappings: (0..mappings).map(create).collect(), lru, misses: [0; 2] }
    }

    fn look_up(&mut self, mapping: usize, index: u64) {
        self.misses[1] += u64::from(!self.lru.look_up((mapping, index)));
        let id = self.mappings[mapping];
        if let Some(page) = self.cache.get(id, index) {
            return self.cache.unpin(page);
        }
        self.misses[0] += 1;
        let page = self.cache.read(id, index, &mut |_, _| Ok(())).unwrap();
        self.cache.unpin(page);
        if self.cache.events().pages() >= CAPACITY {
            let request = ScanRequest {
                who: ScanFor::Background,
                most: TOGETHER as usize,
                most_scanned: 2 * CAPACITY as usize,
                until_ns: u64::MAX,
                spares_low: true,
            };
            assert_eq!(self.cache.reclaim(NodeId(0), &request).freed, TOGETHER);
        }
    }

    /// Forgets the misses so far.
    fn begin(&mut self) {
        self.misses = [0; 2];
    }

    /// Misses of the page cache divided by those of LRU.
    fn end(self) -> f64 {
        assert_eq!(self.cache.validate(), Ok(()));
        self.mappings.iter().for_each(|id| assert!(self.cache.destroy_mapping(*id)));
        println!("misses: {:?}, {:?}", self.misses[0], self.misses[1]);
        self.misses[0] as f64 / self.misses[1] as f64
    }
}

fn bed() -> CacheBed {
    CacheBed::new(Backing::Linux, 8192, 1, &small())
}

/// A rank below `ranks`; rank `r` has a weight of about `1 / (r + 1)`.
fn rank(dice: &mut Dice, ranks: usize) -> usize {
    let unit = dice.below(1 << 20) as f64 / f64::from(1 << 20);
    ((ranks as f64 + 1.0).powf(unit) - 1.0) as usize
}

#[test]
fn where_other_files_become_hot_no_more_is_missed_than_by_lru() {
    const FILES: usize = 64;
    let bed = bed();
    let (mut pair, mut dice) = (Pair::new(&bed, FILES), Dice::new(1));
    let mut order: Vec<usize> = (0..FILES).collect();
    for phase in 0..6 {
        for last in (1..FILES).rev() {
            order.swap(last, dice.below(last + 1));
        }
        for _ in 0..6 * CAPACITY {
            let file = order[rank(&mut dice, FILES)];
            pair.look_up(file, dice.below(256) as u64);
        }
        if phase == 1 {
            pair.begin();
        }
    }
    let ratio = pair.end();
    assert!(ratio <= 1.0, "{ratio}");
    bed.assert_empty(&[]);
}

#[test]
fn what_stays_hot_stays_in_memory_beside_a_file_that_is_read_once() {
    let bed = bed();
    let (mut pair, mut dice) = (Pair::new(&bed, 2), Dice::new(2));
    for turn in 0..20 * CAPACITY {
        pair.look_up(0, rank(&mut dice, CAPACITY as usize) as u64);
        pair.look_up(1, turn);
        if turn == 5 * CAPACITY {
            pair.begin();
        }
    }
    let ratio = pair.end();
    assert!(ratio <= 0.97, "{ratio}");
    bed.assert_empty(&[]);
}

#[test]
fn pages_of_one_file_by_popularity_are_missed_less_often_than_by_lru() {
    let bed = bed();
    let (mut pair, mut dice) = (Pair::new(&bed, 1), Dice::new(3));
    for turn in 0..40 * CAPACITY {
        pair.look_up(0, rank(&mut dice, 16 * CAPACITY as usize) as u64);
        if turn == 10 * CAPACITY {
            pair.begin();
        }
    }
    let ratio = pair.end();
    assert!(ratio <= 0.98, "{ratio}");
    bed.assert_empty(&[]);
}
