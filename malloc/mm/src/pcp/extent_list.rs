//! The extents that one CPU has freed, for its next requests of an exact number of frames.
//!
//! Each word of a list names one extent. Each change is one compare-and-exchange of one word: it
//! takes an extent or its front, puts an extent, or joins an extent to a neighbour. So the list
//! needs no lock, signal handlers and children of a fork never find it half changed, and tasks may
//! use it outside the gate. ABA does no harm, because a word describes its extent completely.
//!
//! A request takes the front of the shortest extent that is long enough. The rest stays on the
//! list, however short it is: when the front is freed, it usually joins the rest again.
//!
//! Invariants, for the extent in every word that is not 0:
//! * its frames count as used in the budget, have no kind, and are on no other list
//! * they lie in one pageblock, which was movable when they were put on the list

use crate::frame::{FrameTable, Kind, Order, PAGEBLOCK_FRAMES, Pfn, fresh_zero};
use quarry_sys::broken::{Broken, Check};
use quarry_sys::local;
use quarry_sys::primitive::{
    AtomicU64,
    Ordering::{AcqRel, Relaxed},
};

/// Maximum number of extents. A request examines all. (With 24, the zone got no fewer requests.)
pub(super) const EXTENTS: usize = 16;
/// Attempts of a request; more than one, because another CPU may change the word first.
const ATTEMPTS: usize = 2;
/// A bit of an entry: the extent has not changed since the last call of `age`.
const AGED: u64 = 1 << 63;

/// Extents that leave a list: pairs of first frame and number of frames.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaving {
    extents: [(Pfn, u32); EXTENTS],
    count: usize,
}

impl Leaving {
    const NONE: Self = Self { extents: [(Pfn::NONE, 0); EXTENTS], count: 0 };

    fn add(&mut self, entry: Entry) {
        self.extents[self.count] = (entry.first(), entry.frames());
        self.count += 1;
    }

    pub(super) fn extents(&self) -> &[(Pfn, u32)] {
        &self.extents[..self.count]
    }
}

/// The way in which an extent was taken or put.
#[derive(Clone, Copy, Debug)]
pub(super) enum Movement {
    /// Taken by a request inside the gate.
    Taken,
    /// Taken outside the gate.
    TakenOutside,
    /// Put by a free inside the gate.
    Put,
    /// Put outside the gate.
    PutOutside,
}

/// One extent in a word: `{aged : 1 | frames : 31 | first : 32}`; 0 = none.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Entry(u64);

impl Entry {
    const NONE: Self = Self(0);

    #[inline(always)]
    fn new(first: Pfn, frames: u32) -> Self {
        Self(u64::from(frames) << 32 | u64::from(first.0))
    }

    #[inline(always)]
    fn first(self) -> Pfn {
        Pfn(self.0 as u32)
    }

    #[inline(always)]
    fn frames(self) -> u32 {
        ((self.0 & !AGED) >> 32) as u32
    }

    #[inline(always)]
    fn end(self) -> Pfn {
        self.first().plus(self.frames())
    }

    #[inline(always)]
    fn without(self, count: u32) -> Self {
        match self.frames() - count {
            0 => Self::NONE,
            left => Self::new(self.first().plus(count), left),
        }
    }
}

fresh_zero! {
    #[derive(Default)]
    #[repr(align(128))]
    pub(super) struct ExtentList {
        words: [AtomicU64; EXTENTS],
        traffic: [AtomicU64; 4],
    }
}

impl ExtentList {
    fn entry(&self, at: usize) -> Entry {
        Entry(self.words[at].load(Relaxed))
    }

    fn entries(&self) -> impl Iterator<Item = Entry> + '_ {
        (0..EXTENTS).map(|at| self.entry(at)).filter(|entry| *entry != Entry::NONE)
    }

    #[inline(always)]
    fn exchange(&self, at: usize, old: Entry, new: Entry) -> bool {
        local::compare_exchange(&self.words[at], old.0, new.0)
    }

    /// Takes the front of the shortest extent of `count` or more frames whose start is aligned.
    #[inline]
    pub(super) fn take(&self, count: u32, align: Order) -> Option<Pfn> {
        for _ in 0..ATTEMPTS {
            let (mut best, mut shortest) = (None, u32::MAX);
            for at in 0..EXTENTS {
                let entry = self.entry(at);
                let frames = entry.frames();
                if frames >= count && frames < shortest && entry.first().is_aligned(align) {
                    (best, shortest) = (Some((at, entry)), frames);
                    if frames == count {
                        break;
                    }
                }
            }
            let (at, entry) = best?;
            if self.exchange(at, entry, entry.without(count)) {
                return Some(entry.first());
            }
        }
        None
    }

    /// Takes the `count` frames from `first` on, if an extent begins with them.
    pub(super) fn take_at(&self, first: Pfn, count: u32) -> bool {
        let found = (0..EXTENTS)
            .map(|at| (at, self.entry(at)))
            .find(|(_, entry)| entry.frames() >= count && entry.first() == first);
        found.is_some_and(|(at, entry)| self.exchange(at, entry, entry.without(count)))
    }

    pub(super) fn overlaps(&self, first: Pfn, count: u32) -> bool {
        self.entries().any(|entry| entry.first() < first.plus(count) && first < entry.end())
    }

    /// Puts an extent of one pageblock on the list, if the list then has at most `most` frames or
    /// only this extent; returns whether it did.
    #[inline]
    pub(super) fn put(&self, first: Pfn, count: u32, most: u32) -> bool {
        let end = first.plus(count);
        let (mut listed, mut place, mut is_beside) = (0, None, false);
        for at in 0..EXTENTS {
            let entry = self.entry(at);
            listed += entry.frames();
            if is_beside {
                continue;
            }
            let at_front = entry.end() == first && !first.0.is_multiple_of(PAGEBLOCK_FRAMES);
            let behind = entry.first() == end && !end.0.is_multiple_of(PAGEBLOCK_FRAMES);
            if entry == Entry::NONE {
                place = place.or(Some((at, entry, Entry::new(first, count))));
            } else if at_front || behind {
                let from = if at_front { entry.first() } else { first };
                place = Some((at, entry, Entry::new(from, entry.frames() + count)));
                is_beside = true;
            }
        }
        if listed > 0 && listed + count > most {
            return false;
        }
        place.is_some_and(|(at, old, new)| self.exchange(at, old, new))
    }

    fn remove(&self, at: usize) -> Option<Entry> {
        let entry = Entry(self.words[at].swap(0, AcqRel));
        (entry != Entry::NONE).then_some(entry)
    }

    /// Takes one extent off a list that has no room: the shortest if every word is in use, else the
    /// longest. (An earlier version took half of all extents: the zone had half as many critical
    /// sections, but one call in ten thousand took two microseconds.)
    pub(super) fn make_room(&self) -> Option<(Pfn, u32)> {
        let (mut shortest, mut longest, mut is_full) = (0, 0, true);
        for at in 0..EXTENTS {
            let frames = self.entry(at).frames();
            is_full &= frames > 0;
            if frames < self.entry(shortest).frames() {
                shortest = at;
            }
            if frames > self.entry(longest).frames() {
                longest = at;
            }
        }
        let entry = self.remove(if is_full { shortest } else { longest })?;
        Some((entry.first(), entry.frames()))
    }

    pub(super) fn drain(&self) -> Leaving {
        let mut leaving = Leaving::NONE;
        (0..EXTENTS).filter_map(|at| self.remove(at)).for_each(|entry| leaving.add(entry));
        leaving
    }

    /// Takes off the extents that have not changed since the last call, and marks the others.
    pub(super) fn age(&self) -> Leaving {
        let mut leaving = Leaving::NONE;
        for at in 0..EXTENTS {
            let entry = self.entry(at);
            if entry == Entry::NONE {
                continue;
            }
            let is_aged = entry.0 & AGED != 0;
            let next = if is_aged { Entry::NONE } else { Entry(entry.0 | AGED) };
            // If this fails, a task has just used the extent.
            if self.exchange(at, entry, next) && is_aged {
                leaving.add(entry);
            }
        }
        leaving
    }

    pub(super) fn frames(&self) -> u32 {
        self.entries().map(Entry::frames).sum()
    }

    /// Counts an extent taken or put, usually on the running CPU's list: see [`local::add`].
    #[inline(always)]
    pub(super) fn note(&self, what: Movement) {
        local::add(&self.traffic[what as usize], 1);
    }

    pub(super) fn passed(&self, what: Movement) -> u64 {
        self.traffic[what as usize].load(Relaxed)
    }

    /// Checks the list. `is_kept` returns whether the zone has any of the given frames as free.
    pub(super) fn validate(
        &self,
        frames: &FrameTable,
        is_kept: impl Fn(Pfn, u32) -> bool,
    ) -> Result<(), Broken> {
        for at in 0..EXTENTS {
            let entry = self.entry(at);
            if entry == Entry::NONE {
                continue;
            }
            let (first, count) = (entry.first(), entry.frames());
            let extent = Check::of("listed extent").at(first.0);
            let overlapping = self
                .entries()
                .filter(|other| other.first() < entry.end() && first < other.end())
                .count();
            let mut all = (0..count).map(|offset| first.plus(offset));
            let is_free = all.all(|pfn| frames.kind(pfn) == Kind::NONE) && !is_kept(first, count);
            let is_inside = first.0 % PAGEBLOCK_FRAMES + count <= PAGEBLOCK_FRAMES;
            // A thread outside the gate may have taken the extent since the loop loaded it.
            if self.entry(at) == entry {
                extent.that(count > 0, "a listed extent has frames")?;
                extent.that(is_inside, "a listed extent lies in one pageblock")?;
                extent.that(overlapping == 1, "no two listed extents have a frame in common")?;
                extent.that(is_free, "no one else has a frame of a listed extent")?;
            }
        }
        Ok(())
    }
}
