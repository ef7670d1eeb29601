//! Chooses the mode of one (cache, CPU) by the traffic of its slow paths.
//!
//! A *miss* is a request that found the array empty, or a free that found it full. A *run* is the
//! objects that frees have pushed out of the array since it was last empty. After every [`LOOK`]
//! misses the CPU takes a *look*: it compares what it has seen with this table:
//!
//! | seen since the last look (the first row that applies) | mode that fits |
//! |---|---|
//! | at least 3/4 of the misses are frees, and 1/2 of these free what another CPU took | remote |
//! | a run of at least [`LONG`] objects ended | linked |
//! | runs ended, and all were shorter | array |
//! | no run ended: the CPU only allocates, or is within a run | no opinion |
//!
//! For a CPU already in mode remote, the first row's fractions are 1/2 and 1/4; in mode linked, a
//! run counts as long from half of [`LONG`] on.
//!
//! The CPU changes its mode once another mode fits [`WINS`] looks in a row, not counting looks
//! without an opinion. For linked, one look is enough: a long run lasts several looks.

use crate::slab::mechanisms::SlamMode;
use quarry_sys::primitive::{AtomicU64, Ordering};

/// Misses from one look to the next.
pub(super) const LOOK: u64 = if cfg!(quarry_model) { 2 } else { 16 };
pub(super) const WINS: u64 = if cfg!(quarry_model) { 1 } else { 2 };
/// A long run has at least as many objects as the smallest barn may hold: slabs may get the rest.
pub(super) const LONG: u64 = if cfg!(quarry_model) { 4 } else { 4096 };
const RUN_MOST: u64 = 0xffff;

#[derive(Clone, Copy, Debug)]
pub(super) enum Miss {
    /// The array was empty.
    Empty,
    /// The array was full: `leaving` objects leave it. `foreign`: another CPU took the one freed.
    Full { foreign: bool, leaving: usize },
}

/// The traffic since the last look, and the mode; one word in memory:
/// `{- : 9 | fulls : 8 | foreign : 8 | misses : 8 | run : 16 | was full : 1 | long : 1 |
/// ended : 1 | wins : 8 | rival : 2 | mode : 2}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RecentTraffic {
    mode: SlamMode,
    rival: SlamMode,
    wins: u64,
    /// `ended`: a run has ended since the last look; `long`: one of these runs was long.
    ended: bool,
    long: bool,
    was_full: bool,
    run: u64,
    misses: u64,
    foreign: u64,
    fulls: u64,
}

fn mode_of(bits: u64) -> SlamMode {
    match bits & 3 {
        1 => SlamMode::Linked,
        2 => SlamMode::Remote,
        _ => SlamMode::Array,
    }
}

impl RecentTraffic {
    fn of(word: u64) -> Self {
        Self {
            mode: mode_of(word),
            rival: mode_of(word >> 2),
            wins: word >> 4 & 0xff,
            ended: word >> 12 & 1 != 0,
            long: word >> 13 & 1 != 0,
            was_full: word >> 14 & 1 != 0,
            run: word >> 15 & RUN_MOST,
            misses: word >> 31 & 0xff,
            foreign: word >> 39 & 0xff,
            fulls: word >> 47 & 0xff,
        }
    }

    fn word(self) -> u64 {
        self.mode as u64
            | (self.rival as u64) << 2
            | self.wins << 4
            | u64::from(self.ended) << 12
            | u64::from(self.long) << 13
            | u64::from(self.was_full) << 14
            | self.run << 15
            | self.misses << 31
            | self.foreign << 39
            | self.fulls << 47
    }

    fn note(&mut self, miss: Miss) {
        match miss {
            Miss::Full { foreign, leaving } => {
                self.fulls += 1;
                self.foreign += u64::from(foreign);
                self.run = (self.run + leaving as u64).min(RUN_MOST);
                self.was_full = true;
            }
            Miss::Empty => {
                let least = if self.mode == SlamMode::Linked { LONG / 2 } else { LONG };
                self.ended |= self.was_full;
                self.long |= self.was_full && self.run >= least;
                (self.was_full, self.run) = (false, 0);
            }
        }
        self.misses += 1;
        if self.misses >= LOOK {
            let fits = self.fits();
            self.vote(fits);
            (self.misses, self.fulls, self.foreign) = (0, 0, 0);
            (self.ended, self.long) = (false, false);
        }
    }

    /// The mode that fits, by the table at the head of the file.
    fn fits(&self) -> Option<SlamMode> {
        let is_remote = match self.mode {
            SlamMode::Remote => 2 * self.fulls >= self.misses && 4 * self.foreign >= self.fulls,
            _ => 4 * self.fulls >= 3 * self.misses && 2 * self.foreign >= self.fulls,
        };
        match self {
            _ if is_remote && self.fulls > 0 => Some(SlamMode::Remote),
            _ if self.long => Some(SlamMode::Linked),
            _ if self.ended => Some(SlamMode::Array),
            _ => None,
        }
    }

    fn vote(&mut self, fits: Option<SlamMode>) {
        match fits {
            None => {}
            Some(mode) if mode == self.mode => self.wins = 0,
            Some(mode) => {
                let looks = if mode == SlamMode::Linked { WINS } else { 1 };
                self.wins = if mode == self.rival { self.wins + looks } else { looks };
                self.rival = mode;
                if self.wins >= WINS {
                    (self.mode, self.wins) = (mode, 0);
                }
            }
        }
    }
}

/// The word of one (cache, CPU). Its CPU writes it by plain stores: an update may be lost.
pub(super) struct Traffic(AtomicU64);

impl Traffic {
    /// Notes a miss; returns the mode from then on, `fixed` if given, and whether it has changed.
    #[inline]
    pub(super) fn note(&self, miss: Miss, fixed: Option<SlamMode>) -> (SlamMode, bool) {
        let mut seen = RecentTraffic::of(self.0.load(Ordering::Relaxed));
        let before = seen.mode;
        seen.note(miss);
        seen.mode = fixed.unwrap_or(seen.mode);
        self.0.store(seen.word(), Ordering::Relaxed);
        (seen.mode, seen.mode != before)
    }

    pub(super) fn mode(&self) -> SlamMode {
        mode_of(self.0.load(Ordering::Relaxed))
    }

    pub(super) fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(quarry_model)))]
mod tests {
    use super::*;

    const LOCAL: Miss = Miss::Full { foreign: false, leaving: 64 };
    const FOREIGN: Miss = Miss::Full { foreign: true, leaving: 64 };

    fn after(traffic: &Traffic, misses: impl IntoIterator<Item = Miss>) -> SlamMode {
        misses.into_iter().for_each(|miss| {
            traffic.note(miss, None);
        });
        traffic.mode()
    }

    /// The misses of `runs` rounds: frees that push `objects` out, then allocations of as many.
    fn bursts(runs: usize, objects: usize) -> impl Iterator<Item = Miss> {
        let misses = objects / 64;
        (0..runs * 2).flat_map(move |half| {
            std::iter::repeat_n(if half % 2 == 0 { LOCAL } else { Miss::Empty }, misses)
        })
    }

    #[test]
    fn a_word_holds_all_that_was_seen() {
        let mut seen = RecentTraffic::of(0);
        assert_eq!(seen.word(), 0);
        for step in 0..2_000u64 {
            let leaving = (step * 37 % 900) as usize;
            let miss = match step * step % 7 {
                0 | 3 => Miss::Empty,
                remainder => Miss::Full { foreign: remainder % 2 == 0, leaving },
            };
            seen.note(miss);
            assert_eq!(RecentTraffic::of(seen.word()), seen);
        }
    }

    #[test]
    fn each_mode_is_reached_from_its_traffic_and_left_again() {
        let traffic = Traffic(AtomicU64::new(0));
        assert_eq!(after(&traffic, bursts(20, 128)), SlamMode::Array);
        assert_eq!(after(&traffic, bursts(4, 8192)), SlamMode::Linked);
        assert_eq!(after(&traffic, [FOREIGN; 48]), SlamMode::Remote);
        assert_eq!(after(&traffic, bursts(20, 128)), SlamMode::Array);
        assert_eq!(after(&traffic, [FOREIGN; 48]), SlamMode::Remote);
        assert_eq!(after(&traffic, bursts(4, 8192)), SlamMode::Linked);
        assert_eq!(after(&traffic, bursts(20, 128)), SlamMode::Array);
    }

    #[test]
    fn a_mode_has_to_win_in_a_row() {
        let traffic = Traffic(AtomicU64::new(0));
        let look = LOOK as usize;
        for _ in 0..20 {
            assert_eq!(after(&traffic, std::iter::repeat_n(FOREIGN, look)), SlamMode::Array);
            assert_eq!(after(&traffic, bursts(1, 64 * look / 2)), SlamMode::Array);
        }
        let twice = std::iter::repeat_n(FOREIGN, look * WINS as usize);
        assert_eq!(after(&traffic, twice), SlamMode::Remote);
    }

    #[test]
    fn a_mode_is_not_left_for_a_little_less_of_its_traffic() {
        let traffic = Traffic(AtomicU64::new(0));
        after(&traffic, bursts(4, 8192));
        assert_eq!(after(&traffic, bursts(8, 3072)), SlamMode::Linked, "not below LONG / 2");
        let traffic = Traffic(AtomicU64::new(0));
        assert_eq!(after(&traffic, bursts(8, 3072)), SlamMode::Array);
        after(&traffic, [FOREIGN; 64]);
        let some = [FOREIGN, LOCAL, LOCAL, Miss::Empty].into_iter().cycle().take(640);
        assert_eq!(after(&traffic, some), SlamMode::Remote);
    }

    #[test]
    fn who_only_allocates_has_no_reason_to_change() {
        let traffic = Traffic(AtomicU64::new(0));
        after(&traffic, bursts(4, 8192));
        assert_eq!(after(&traffic, [Miss::Empty; 1000]), SlamMode::Linked);
    }

    #[test]
    fn a_fixed_mode_stays() {
        let traffic = Traffic(AtomicU64::new(0));
        for _ in 0..1000 {
            assert_eq!(traffic.note(FOREIGN, Some(SlamMode::Linked)).0, SlamMode::Linked);
        }
    }
}
