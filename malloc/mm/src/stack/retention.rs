//! Decides how long freed memory is kept before it goes back to the system: for the delay (option
//! `PURGE_DELAY`), and longer if memory was needed again soon after it went back.
//!
//! A program that works in bursts frees memory that the next burst needs, and faulting it in again
//! may cost more than the burst itself. If at least half of the memory that went back is needed
//! again within [`MOST_LOOKS`] looks, Quarry keeps memory longer from then on, by the time that
//! this memory was away. If much was not needed again, it keeps memory for half as long as before.
//!
//! Time is counted in looks, each half a delay. Looks that a sleeping thread skips count as well.
//!
//! Equations: `1 <= looks <= MOST_LOOKS`; `back <= gone`.

/// The most looks for which memory is kept: eight delays, by default 4 s.
pub(super) const MOST_LOOKS: usize = 16;
/// Fewer frames than this, 16 MiB, do not matter: they fault in within some milliseconds.
const LEAST_GONE: u32 = 4096;
/// Nothing changes if less than the footprint divided by this went back for good.
const SMALL_SHARE: u32 = 8;

/// See the head of the file.
pub(super) struct Retention {
    /// `looks - 1`.
    more_looks: usize,
    /// Frames that may be in memory: those at the last look, minus those that went back since.
    footprint: u32,
    /// Frames that went back since `since_ns`, and how many were needed again.
    gone: u32,
    back: u32,
    since_ns: u64,
    now_ns: u64,
}

impl Retention {
    pub(super) const fn new() -> Self {
        Self { more_looks: 0, footprint: 0, gone: 0, back: 0, since_ns: 0, now_ns: 0 }
    }

    pub(super) fn looks(&self) -> usize {
        self.more_looks + 1
    }

    /// Notes a look at `now_ns`, when `footprint` frames may be in memory.
    pub(super) fn see(&mut self, footprint: u32, now_ns: u64, delay_ns: u64) {
        let grown = footprint.saturating_sub(self.footprint);
        (self.footprint, self.now_ns) = (footprint, now_ns);
        if self.gone == 0 {
            return;
        }
        let away = now_ns.saturating_sub(self.since_ns) / (delay_ns / 2).max(1);
        let away = usize::try_from(away).unwrap_or(usize::MAX);
        self.back = self.back.saturating_add(grown).min(self.gone);
        if away >= MOST_LOOKS {
            // Not even the longest delay would have kept the memory. A small amount shows nothing.
            if self.gone >= LEAST_GONE.max(footprint / SMALL_SHARE) {
                let halvings = (away / MOST_LOOKS).min(MOST_LOOKS);
                self.more_looks = (self.looks() >> halvings).max(1) - 1;
            }
            self.forget();
        } else if self.gone >= LEAST_GONE && self.back >= self.gone / 2 {
            self.more_looks = (self.looks() + away).min(MOST_LOOKS - 1);
            self.forget();
        }
    }

    pub(super) fn gave_back(&mut self, frames: u32) {
        if frames == 0 {
            return;
        }
        if self.gone == 0 {
            self.since_ns = self.now_ns;
        }
        self.gone = self.gone.saturating_add(frames);
        self.footprint = self.footprint.saturating_sub(frames);
    }

    fn forget(&mut self) {
        (self.gone, self.back) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAY: u64 = 500_000_000;
    const LOOK: u64 = DELAY / 2;
    const BURST: u32 = 8 * LEAST_GONE;

    struct Bursts {
        retention: Retention,
        now_ns: u64,
    }

    impl Bursts {
        fn new() -> Self {
            let mut bursts = Self { retention: Retention::new(), now_ns: 7 };
            bursts.retention.see(0, 7, DELAY);
            bursts
        }

        fn look(&mut self, footprint: u32) {
            self.now_ns += LOOK;
            self.retention.see(footprint, self.now_ns, DELAY);
        }

        /// Uses `frames` once, then looks `rest` times. Returns whether they were kept that long.
        fn burst(&mut self, frames: u32, rest: usize) -> bool {
            self.look(frames);
            let mut footprint = frames;
            for look in 1..=rest {
                self.look(footprint);
                if look > self.retention.looks() && footprint > 0 {
                    self.retention.gave_back(footprint);
                    footprint = 0;
                }
            }
            footprint > 0
        }
    }

    #[test]
    fn what_was_needed_again_soon_is_kept_for_that_long_from_then_on() {
        let mut bursts = Bursts::new();
        assert!(!bursts.burst(BURST, 9));
        assert_eq!(bursts.retention.looks(), 1, "nothing has come back yet");
        assert!(bursts.burst(BURST, 9), "it has");
        assert!((0..20).all(|_| bursts.burst(BURST, 9)));
        assert!(bursts.retention.looks() <= 12, "{} looks", bursts.retention.looks());
    }

    #[test]
    fn the_time_is_bounded() {
        let mut bursts = Bursts::new();
        for rest in 2..MOST_LOOKS + 2 {
            bursts.burst(BURST, rest);
            assert!((1..=MOST_LOOKS).contains(&bursts.retention.looks()));
        }
        assert_eq!(bursts.retention.looks(), MOST_LOOKS);
        assert!(!bursts.burst(BURST, MOST_LOOKS + 1));
    }

    #[test]
    fn it_halves_when_nothing_comes_back_in_time() {
        let mut bursts = Bursts::new();
        bursts.burst(BURST, 12);
        bursts.burst(BURST, 12);
        let mut looks = bursts.retention.looks();
        assert!(looks > 8);
        while looks > 1 {
            assert!(!bursts.burst(BURST, 3 * MOST_LOOKS));
            looks /= 2;
            assert_eq!(bursts.retention.looks(), looks);
        }
        bursts.burst(BURST, 12);
        bursts.burst(BURST, 20);
        bursts.now_ns += 4 * MOST_LOOKS as u64 * LOOK;
        bursts.look(0);
        assert_eq!(bursts.retention.looks(), 1);
    }

    #[test]
    fn a_little_that_goes_for_good_does_not_take_the_rest_along() {
        let mut bursts = Bursts::new();
        bursts.burst(BURST, 9);
        bursts.burst(BURST, 9);
        let looks = bursts.retention.looks();
        bursts.look(BURST);
        bursts.retention.gave_back(BURST / 16);
        (0..2 * MOST_LOOKS).for_each(|_| bursts.look(BURST - BURST / 16));
        assert_eq!(bursts.retention.looks(), looks);
    }

    #[test]
    fn a_part_or_a_little_that_comes_back_changes_nothing() {
        let mut bursts = Bursts::new();
        bursts.burst(BURST, 4);
        bursts.burst(BURST / 2 - 1, 1);
        assert_eq!(bursts.retention.looks(), 1);
        let mut bursts = Bursts::new();
        assert!((0..20).all(|_| !bursts.burst(LEAST_GONE / 4, 4)));
    }
}
