//! Exact LRU.

use super::Simulator;
use super::queue::Queue;

/// The least recently used page leaves.
pub struct Lru {
    capacity: u32,
    is_cached: Vec<bool>,
    queue: Queue,
}

impl Lru {
    /// A cache for `capacity` of `pages` pages.
    #[must_use]
    pub fn new(capacity: u32, pages: u32) -> Self {
        Self { capacity, is_cached: vec![false; pages as usize], queue: Queue::new(pages) }
    }
}

impl Simulator for Lru {
    fn lookup(&mut self, page: u32) -> bool {
        let is_hit = std::mem::replace(&mut self.is_cached[page as usize], true);
        if is_hit {
            self.queue.remove(page);
        } else if self.queue.len() == self.capacity
            && let Some(oldest) = self.queue.pop()
        {
            self.is_cached[oldest as usize] = false;
        }
        self.queue.push(page);
        is_hit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_page_leaves() {
        let mut lru = Lru::new(2, 10);
        let hits = [1, 2, 1, 3, 1, 2].map(|page| lru.lookup(page));
        assert_eq!(hits, [false, false, true, false, true, false]);
    }
}
