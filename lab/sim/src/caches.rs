//! Caches of a finite size: which lines those of a core and those of a socket still have.
//!
//! Each is fully associative and forgets the line that was used longest ago: sets would depend on
//! addresses, and no result may. A socket's cache has all lines that the caches of its cores have,
//! as Intel's from Nehalem to Broadwell; what it forgets, its cores forget, too. A hit in the cache
//! of a core is not seen by that of its socket.

use crate::by_address::ByAddress;
use crate::costs::CacheSizes;
use crate::topology::Topology;

/// The caches of a machine.
pub(crate) struct Caches {
    pub(crate) cores: Vec<Recent>,
    pub(crate) sockets: Vec<Recent>,
}

impl Caches {
    pub(crate) fn new(on: &Topology, sizes: CacheSizes) -> Self {
        let all = |count: u32, kib: usize| (0..count).map(|_| Recent::new(kib * 16)).collect();
        Self {
            cores: all(on.all_cores(), sizes.core_kib),
            sockets: all(on.sockets, sizes.socket_kib),
        }
    }
}

/// No place.
const NONE: u32 = u32::MAX;

/// A line between those that were used after it and before it.
struct Place {
    line: usize,
    newer: u32,
    older: u32,
}

/// The lines that were used last, so many at most.
pub(crate) struct Recent {
    most: usize,
    numbers: ByAddress<u32>,
    places: Vec<Place>,
    free: Vec<u32>,
    newest: u32,
    oldest: u32,
}

impl Recent {
    fn new(most: usize) -> Self {
        let (numbers, places, free) = Default::default();
        Self { most: most.max(1), numbers, places, free, newest: NONE, oldest: NONE }
    }

    /// Uses a line, whether it is here or not. Returns the one that has to go for it. O(1).
    pub(crate) fn uses(&mut self, line: usize) -> Option<usize> {
        if let Some(&number) = self.numbers.get(&line) {
            if number != self.newest {
                self.unlink(number);
                self.link(number);
            }
            return None;
        }
        let place = Place { line, newer: NONE, older: NONE };
        let number = self.free.pop().unwrap_or(self.places.len() as u32);
        match self.places.get_mut(number as usize) {
            Some(free) => *free = place,
            None => self.places.push(place),
        }
        self.numbers.insert(line, number);
        self.link(number);
        if self.numbers.len() <= self.most {
            return None;
        }
        let oldest = self.places[self.oldest as usize].line;
        self.forgets(oldest);
        Some(oldest)
    }

    /// A line is no longer here. O(1).
    pub(crate) fn forgets(&mut self, line: usize) {
        if let Some(number) = self.numbers.remove(&line) {
            self.unlink(number);
            self.free.push(number);
        }
    }

    fn link(&mut self, number: u32) {
        let older = std::mem::replace(&mut self.newest, number);
        let place = &mut self.places[number as usize];
        (place.newer, place.older) = (NONE, older);
        match self.places.get_mut(older as usize) {
            Some(older) => older.newer = number,
            None => self.oldest = number,
        }
    }

    fn unlink(&mut self, number: u32) {
        let Place { newer, older, .. } = self.places[number as usize];
        match self.places.get_mut(newer as usize) {
            Some(newer) => newer.older = older,
            None => self.newest = older,
        }
        match self.places.get_mut(older as usize) {
            Some(older) => older.newer = newer,
            None => self.oldest = newer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same by a list, the newest line first.
    struct Naive {
        most: usize,
        lines: Vec<usize>,
    }

    impl Naive {
        fn uses(&mut self, line: usize) -> Option<usize> {
            self.lines.retain(|it| *it != line);
            self.lines.insert(0, line);
            if self.lines.len() > self.most { self.lines.pop() } else { None }
        }
    }

    #[test]
    fn the_line_that_was_used_longest_ago_goes() {
        let (mut recent, mut naive) = (Recent::new(7), Naive { most: 7, lines: Vec::new() });
        let mut random = 1u32;
        for step in 0..10_000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let line = (random >> 16) as usize % 12;
            if step % 5 == 0 {
                recent.forgets(line);
                naive.lines.retain(|it| *it != line);
            } else {
                assert_eq!(recent.uses(line), naive.uses(line), "step {step}");
            }
            assert_eq!(recent.numbers.len(), naive.lines.len());
        }
        assert!(recent.places.len() <= 8, "places of lines that are gone serve others");
    }
}
