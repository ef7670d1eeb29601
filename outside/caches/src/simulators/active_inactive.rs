//! Active and inactive lists with shadow entries: the policy of Linux and of Quarry.

use super::Simulator;
use super::queue::Queue;

/// Maximum number of pages that a scan takes from a list (`SWAP_CLUSTER_MAX`, Linux 6.18).
const BATCH: u32 = 32;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Nowhere,
    Inactive,
    Active,
}

/// New pages are inactive. A scan of the inactive list activates used pages, and ends when it has
/// evicted one page; a scan of the active list deactivates unused pages. A hit moves nothing. The
/// refault distance of a page is the number of evictions and activations since its eviction. The
/// page returns as active if the distance is at most the number of active pages. A distance of at
/// most `capacity` also moves the target length of the inactive list: up by one page if the page
/// was never active before its eviction, down by one if it was.
///
/// Invariant: `inactive.len + active.len <= capacity`.
pub struct ActiveInactive {
    capacity: u32,
    place: Vec<Place>,
    is_used: Vec<bool>,
    was_active: Vec<bool>,
    inactive: Queue,
    active: Queue,
    /// Pages that were evicted or activated so far.
    age: u64,
    /// The age at each page's last eviction; 0 if there was none.
    shadow: Vec<u64>,
    /// The target length of the inactive list.
    wanted: u32,
}

impl ActiveInactive {
    /// A cache for `capacity` of `pages` pages.
    #[must_use]
    pub fn new(capacity: u32, pages: u32) -> Self {
        Self {
            capacity,
            place: vec![Place::Nowhere; pages as usize],
            is_used: vec![false; pages as usize],
            was_active: vec![false; pages as usize],
            inactive: Queue::new(pages),
            active: Queue::new(pages),
            age: 0,
            shadow: vec![0; pages as usize],
            // At first the two lists may be equally long: the rule below 1 GiB (`inactive_is_low`,
            // Linux 6.18).
            wanted: capacity / 2,
        }
    }

    fn add(&mut self, page: u32, place: Place) {
        self.place[page as usize] = place;
        match place {
            Place::Active => self.active.push(page),
            _ => self.inactive.push(page),
        }
    }

    fn reclaim(&mut self) {
        while self.inactive.len() + self.active.len() >= self.capacity {
            if self.inactive.len() < self.wanted {
                self.deactivate();
            }
            for _ in 0..BATCH {
                let Some(page) = self.inactive.pop() else { break };
                if std::mem::take(&mut self.is_used[page as usize]) {
                    self.age += 1;
                    self.add(page, Place::Active);
                } else {
                    self.age += 1;
                    self.place[page as usize] = Place::Nowhere;
                    self.shadow[page as usize] = self.age;
                    break;
                }
            }
        }
    }

    fn deactivate(&mut self) {
        for _ in 0..BATCH {
            let Some(page) = self.active.pop() else { break };
            if std::mem::take(&mut self.is_used[page as usize]) {
                self.add(page, Place::Active);
            } else {
                self.was_active[page as usize] = true;
                self.add(page, Place::Inactive);
            }
        }
    }

    fn note_refault(&mut self, distance: u64, was_active: bool) {
        if distance <= u64::from(self.capacity) {
            let step = if was_active { self.wanted.saturating_sub(1) } else { self.wanted + 1 };
            self.wanted = step.clamp(self.capacity.div_ceil(32), self.capacity);
        }
    }
}

impl Simulator for ActiveInactive {
    fn lookup(&mut self, page: u32) -> bool {
        let at = page as usize;
        if self.place[at] != Place::Nowhere {
            self.is_used[at] = true;
            return true;
        }
        self.reclaim();
        let shadow = std::mem::take(&mut self.shadow[at]);
        let is_refault = shadow != 0 && self.age - shadow <= u64::from(self.active.len());
        let was_active = std::mem::take(&mut self.was_active[at]);
        if shadow != 0 {
            self.note_refault(self.age - shadow, was_active);
        }
        self.was_active[at] = is_refault && was_active;
        self.is_used[at] = false;
        self.add(page, if is_refault { Place::Active } else { Place::Inactive });
        self.age += u64::from(is_refault);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn used_pages_outlive_a_scan() {
        let mut cache = ActiveInactive::new(100, 10_000);
        for page in (0..40).chain(0..40) {
            cache.lookup(page);
        }
        for page in 100..250 {
            cache.lookup(page);
        }
        assert!((0..40).all(|page| cache.lookup(page)));
    }

    #[test]
    fn it_never_holds_more_than_it_may() {
        let mut cache = ActiveInactive::new(50, 200);
        for turn in 0_u32..20_000 {
            cache.lookup(turn.wrapping_mul(2_654_435_761) >> 20 & 127);
            assert!(cache.inactive.len() + cache.active.len() <= 50);
        }
        let cached = cache.place.iter().filter(|it| **it != Place::Nowhere);
        assert_eq!(cached.count(), 50);
    }
}
