//! Divides a reclaim's work between cached pages and registered objects by the cost of making them
//! again, as Linux 5.8 and 5.9 do for file and anonymous pages (`lru_note_cost`, `get_scan_count`).
//!
//! A refault is a page or an object that was reclaimed and had to be made again. The side with more
//! refaults lately is scanned less. With `c` and `d` refaults of the two sides, `c + d` is added to
//! each, so that no side is ever scanned more than twice as much as the other:
//!
//! ```text
//! share of the first side = (2 d + c) / (3 c + 3 d)
//! ```
//! A scan looks at the number of pages or objects that its priority selects, times twice this
//! share. Old refaults fade: when `c + d` exceeds a quarter of all pages, `c` and `d` are halved.

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Costs {
    pages: u64,
    objects: u64,
    /// The counts at the last call of `note`.
    seen_pages: u64,
    seen_objects: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    numerator: u64,
    denominator: u64,
}

impl Share {
    #[cfg(test)]
    pub(super) const EVEN: Self = Self { numerator: 1, denominator: 2 };

    /// The share without the part `left / of` of it, to within a 1,024th.
    pub(super) fn less(self, left: u64, of: u64) -> Self {
        const UNIT: u64 = 1024;
        let part = left.min(of).saturating_mul(UNIT) / of.max(1);
        let numerator = self.numerator.saturating_mul(UNIT - part);
        Self { numerator, denominator: self.denominator.saturating_mul(UNIT) }
    }

    pub(super) fn of(self, amount: u64) -> u64 {
        let part = u128::from(amount) * 2 * u128::from(self.numerator);
        u64::try_from(part / u128::from(self.denominator)).unwrap_or(u64::MAX)
    }
}

impl Costs {
    pub(super) const fn new() -> Self {
        Self { pages: 0, objects: 0, seen_pages: 0, seen_objects: 0 }
    }

    /// Records the refaults of pages and objects so far; `all` pages are cached.
    pub(super) fn note(&mut self, pages: u64, objects: u64, all: u64) {
        // A count falls when a shrinker is removed.
        self.pages += pages.saturating_sub(self.seen_pages);
        self.objects += objects.saturating_sub(self.seen_objects);
        (self.seen_pages, self.seen_objects) = (pages, objects);
        while self.pages.saturating_add(self.objects) > (all / 4).max(32) {
            self.pages /= 2;
            self.objects /= 2;
        }
    }

    pub(super) fn of_pages(&self) -> Share {
        share(self.pages, self.objects)
    }

    pub(super) fn of_objects(&self) -> Share {
        share(self.objects, self.pages)
    }
}

fn share(own: u64, other: u64) -> Share {
    // One more on each side, so that both sides share equally when there are no refaults.
    let (own, other) = (own + 1, other + 1);
    let total = own + other;
    Share { numerator: total + other, denominator: 3 * total }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_side_that_comes_back_is_scanned_less() {
        let mut costs = Costs::new();
        assert_eq!((costs.of_pages().of(1000), costs.of_objects().of(1000)), (1000, 1000));
        costs.note(1_000_000, 0, 1 << 30);
        let (pages, objects) = (costs.of_pages().of(3000), costs.of_objects().of(3000));
        assert!((2000..2010).contains(&pages), "at least a third of all: {pages}");
        assert!((3990..=4000).contains(&objects), "at most two thirds: {objects}");
        assert_eq!(Share::EVEN.of(77), 77);
        assert_eq!(Share::EVEN.less(0, 0).of(77), 77);
        assert_eq!(Share::EVEN.less(25, 100).of(1000), 750);
        assert_eq!(Share::EVEN.less(100, 100).of(1000), 0);
        assert_eq!(Share::EVEN.of(u64::MAX), u64::MAX);
    }

    #[test]
    fn events_fade() {
        let mut costs = Costs::new();
        costs.note(1000, 0, 100_000);
        let before = costs.of_pages().of(3000);
        for _ in 0..40 {
            costs.note(1000, 1_000_000, 10);
            costs.note(1000, 0, 10);
        }
        assert!(costs.of_pages().of(3000) > before, "the refaults of pages were long ago");
    }
}
