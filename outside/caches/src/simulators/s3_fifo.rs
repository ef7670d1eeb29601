//! S3-FIFO (Yang, Zhang, Qiu, Yue, Rashmi: "FIFO queues are all you need for cache eviction",
//! SOSP 2023): three FIFO queues, a small one, a main one, and one for ghosts (evicted pages).

use super::Simulator;
use super::queue::Queue;

const SMALL_PERCENT: u32 = 10;
/// Maximum number of uses of a page that are counted.
const MOST_USES: u8 = 3;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Nowhere,
    Small,
    Main,
    Ghost,
}

/// New pages enter the small queue. A page enters the main queue only if it is used more than once
/// in the small queue, or looked up again while it is a ghost.
///
/// Invariants: `small.len + main.len <= capacity`; `ghosts.len <= capacity - small's share`.
pub struct S3Fifo {
    capacity: u32,
    small_share: u32,
    place: Vec<Place>,
    uses: Vec<u8>,
    small: Queue,
    main: Queue,
    ghosts: Queue,
}

impl S3Fifo {
    /// A cache for `capacity` of `pages` pages.
    #[must_use]
    pub fn new(capacity: u32, pages: u32) -> Self {
        Self {
            capacity,
            small_share: (capacity * SMALL_PERCENT / 100).max(1),
            place: vec![Place::Nowhere; pages as usize],
            uses: vec![0; pages as usize],
            small: Queue::new(pages),
            main: Queue::new(pages),
            ghosts: Queue::new(pages),
        }
    }

    fn evict(&mut self) {
        if self.small.len() >= self.small_share {
            self.evict_small();
        } else {
            self.evict_main();
        }
    }

    /// Evicts a page from the small queue. Pages used more than once move to the main queue.
    fn evict_small(&mut self) {
        while let Some(page) = self.small.pop() {
            if self.uses[page as usize] <= 1 {
                self.remember(page);
                return;
            }
            self.uses[page as usize] = 0;
            self.place[page as usize] = Place::Main;
            self.main.push(page);
        }
        self.evict_main();
    }

    /// Evicts a page from the main queue. A used page goes round once more for each use.
    fn evict_main(&mut self) {
        while let Some(page) = self.main.pop() {
            if self.uses[page as usize] == 0 {
                self.place[page as usize] = Place::Nowhere;
                return;
            }
            self.uses[page as usize] -= 1;
            self.main.push(page);
        }
        self.evict_small();
    }

    fn remember(&mut self, page: u32) {
        if self.ghosts.len() == self.capacity - self.small_share
            && let Some(oldest) = self.ghosts.pop()
        {
            self.place[oldest as usize] = Place::Nowhere;
        }
        self.place[page as usize] = Place::Ghost;
        self.ghosts.push(page);
    }
}

impl Simulator for S3Fifo {
    fn lookup(&mut self, page: u32) -> bool {
        let at = page as usize;
        if matches!(self.place[at], Place::Small | Place::Main) {
            self.uses[at] = (self.uses[at] + 1).min(MOST_USES);
            return true;
        }
        let is_ghost = self.place[at] == Place::Ghost;
        if is_ghost {
            self.ghosts.remove(page);
            self.place[at] = Place::Nowhere;
        }
        if self.small.len() + self.main.len() == self.capacity {
            self.evict();
        }
        self.uses[at] = 0;
        let (place, queue) = match is_ghost {
            true => (Place::Main, &mut self.main),
            false => (Place::Small, &mut self.small),
        };
        self.place[at] = place;
        queue.push(page);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn pages_that_are_used_once_pass_the_small_queue_only() {
        let mut cache = S3Fifo::new(10, 1000);
        for page in [0, 0, 0, 1, 1, 1] {
            cache.lookup(page);
        }
        for page in 100..200 {
            assert!(!cache.lookup(page));
        }
        assert!(cache.lookup(0) && cache.lookup(1), "used pages moved to the main queue");
        assert!(!cache.lookup(150));
    }

    #[test]
    fn a_page_that_comes_back_soon_gets_into_the_main_queue() {
        let mut cache = S3Fifo::new(10, 1000);
        for page in 0..12 {
            cache.lookup(page);
        }
        assert!(cache.place[0] == Place::Ghost && !cache.lookup(0));
        assert!(cache.place[0] == Place::Main);
    }

    #[test]
    fn it_never_holds_more_than_it_may() {
        let (mut cache, mut random) = (S3Fifo::new(50, 200), Random::new(9));
        for _ in 0..20_000 {
            let skewed = random.below(200).min(random.below(200));
            cache.lookup(skewed);
            assert!(cache.small.len() + cache.main.len() <= 50);
            assert!(cache.ghosts.len() <= 45);
        }
        let cached = cache.place.iter().filter(|it| matches!(it, Place::Small | Place::Main));
        assert_eq!(cached.count(), 50);
    }
}
