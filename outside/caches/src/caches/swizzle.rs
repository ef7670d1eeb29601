//! The mechanism of LeanStore (Leis, Haubenschild, Kemper, Neumann: "LeanStore: In-Memory Data
//! Management Beyond Main Memory", ICDE 2018), a small implementation from its description. The
//! reference to a hot page is the page's place in memory. Pages are chosen at random to cool: their
//! references get a mark, and they wait in a FIFO queue. A task that follows a cooling reference
//! makes the page hot again. The page that has waited longest is evicted. LeanStore keeps
//! references in the inner nodes of its trees; here they are one array.

use super::PageCache;
use super::pool::Pool;
use crate::page::{Key, Page, Reading};
use crate::random::Random;
use anyhow::Result;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const COOLING_PERCENT: u32 = 10;

/// A reference is the number of a frame, or `EVICTED`. `COOLING` is set while the page cools.
const COOLING: u32 = 1 << 31;
const EVICTED: u32 = u32::MAX;
/// Stands for the page of a frame that holds no page. A frame here is a place for one page.
const NO_PAGE: u32 = u32::MAX;

struct Frame {
    /// Odd while the frame's bytes change.
    version: AtomicU64,
    page: AtomicU32,
}

/// The pages that cool and the frames that are free, under one latch.
struct Stage {
    free: Vec<u32>,
    /// Pages in the order in which they began to cool, each with its ticket at that time. A page
    /// whose ticket has changed since is hot again.
    cooling: VecDeque<(u32, u32)>,
    tickets: Vec<u32>,
    /// Number of pages that cool.
    cool: u32,
    random: Random,
}

/// The cache.
pub struct Swizzle {
    references: Vec<AtomicU32>,
    frames: Vec<Frame>,
    memory: Pool,
    stage: Mutex<Stage>,
}

impl Swizzle {
    /// Makes a cache for `capacity` of `pages` pages.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn new(capacity: u32, pages: u32) -> Result<Self> {
        let frame = |_| Frame { version: AtomicU64::new(0), page: AtomicU32::new(NO_PAGE) };
        let memory = Pool::reserve(capacity)?;
        memory.set_huge(true);
        let stage = Stage {
            free: (0..capacity).rev().collect(),
            cooling: VecDeque::new(),
            tickets: vec![0; pages as usize],
            cool: 0,
            random: Random::new(1),
        };
        Ok(Self {
            references: (0..pages).map(|_| AtomicU32::new(EVICTED)).collect(),
            frames: (0..capacity).map(frame).collect(),
            memory,
            stage: Mutex::new(stage),
        })
    }

    fn latch(&self) -> std::sync::MutexGuard<'_, Stage> {
        self.stage.lock().expect("no task panics with the latch")
    }

    #[cold]
    fn rescue(&self, number: u32) {
        let mut stage = self.latch();
        let reference = &self.references[number as usize];
        let now = reference.load(Ordering::Relaxed);
        if now != EVICTED && now & COOLING != 0 {
            reference.store(now & !COOLING, Ordering::Release);
            stage.tickets[number as usize] += 1;
            stage.cool -= 1;
        }
    }

    /// Takes a frame for a page: a free frame, or the frame of the page that has cooled longest.
    fn take(&self, stage: &mut Stage) -> u32 {
        loop {
            self.cool(stage);
            if let Some(frame) = stage.free.pop() {
                return frame;
            }
            let Some((page, ticket)) = stage.cooling.pop_front() else { continue };
            if stage.tickets[page as usize] != ticket {
                continue;
            }
            let reference = &self.references[page as usize];
            let frame = reference.load(Ordering::Relaxed) & !COOLING;
            stage.tickets[page as usize] += 1;
            let header = &self.frames[frame as usize];
            // Readers that follow the old reference find the odd version, or later the new version.
            header.version.fetch_add(1, Ordering::AcqRel);
            header.page.store(NO_PAGE, Ordering::Relaxed);
            reference.store(EVICTED, Ordering::Release);
            stage.cool -= 1;
            return frame;
        }
    }

    /// Chooses random pages to cool until enough do; free frames count as cooling pages.
    fn cool(&self, stage: &mut Stage) {
        let frames = self.frames.len() as u32;
        let share = (frames * COOLING_PERCENT / 100).max(1);
        let wanted = share.saturating_sub(stage.free.len() as u32);
        let mut tries = 0;
        while stage.cool < wanted && tries < 16 * frames {
            tries += 1;
            let frame = stage.random.below(frames);
            let page = self.frames[frame as usize].page.load(Ordering::Relaxed);
            if page == NO_PAGE {
                continue;
            }
            let reference = &self.references[page as usize];
            if reference.load(Ordering::Relaxed) == frame {
                reference.store(frame | COOLING, Ordering::Release);
                let ticket = stage.tickets[page as usize];
                stage.cooling.push_back((page, ticket));
                stage.cool += 1;
            }
        }
    }
}

impl PageCache for Swizzle {
    #[inline(always)]
    fn get(&self, key: Key, reading: Reading) -> Option<u64> {
        let number = key.number();
        let reference = &self.references[number as usize];
        loop {
            let now = reference.load(Ordering::Acquire);
            if now & COOLING != 0 {
                if now == EVICTED {
                    return None;
                }
                self.rescue(number);
                continue;
            }
            let header = &self.frames[now as usize];
            let before = header.version.load(Ordering::Acquire);
            if before.is_multiple_of(2) && reference.load(Ordering::Acquire) == now {
                let seen = self.memory.page(now).read(key, reading);
                std::sync::atomic::fence(Ordering::Acquire);
                if header.version.load(Ordering::Relaxed) == before {
                    return Some(seen);
                }
            }
            std::hint::spin_loop();
        }
    }

    fn insert(&self, key: Key, fill: impl FnOnce(&Page)) -> bool {
        let number = key.number();
        let mut stage = self.latch();
        let frame = self.take(&mut stage);
        drop(stage);
        let header = &self.frames[frame as usize];
        // A free frame's version is even; `take` has made that of an evicted page's frame odd.
        if header.version.load(Ordering::Relaxed).is_multiple_of(2) {
            header.version.fetch_add(1, Ordering::AcqRel);
        }
        fill(self.memory.page(frame));
        header.version.fetch_add(1, Ordering::Release);
        let mut stage = self.latch();
        let reference = &self.references[number as usize];
        if reference.load(Ordering::Relaxed) == EVICTED {
            header.page.store(number, Ordering::Relaxed);
            reference.store(frame, Ordering::Release);
        } else {
            stage.free.push(frame);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn following_a_cooling_reference_makes_it_hot() {
        let cache = Swizzle::new(100, 200).unwrap();
        for number in 0..100 {
            cache.insert(Key::of(number), |page| page.write(Key::of(number)));
        }
        let mut stage = cache.latch();
        cache.cool(&mut stage);
        let waiting: Vec<u32> = stage.cooling.iter().map(|(page, _)| *page).collect();
        assert_eq!((waiting.len(), stage.cool), (10, 10));
        drop(stage);
        assert!(cache.get(Key::of(waiting[0]), Reading::Word).is_some());
        assert_eq!(cache.latch().cool, 9);
        cache.insert(Key::of(150), |page| page.write(Key::of(150)));
        assert!(cache.get(Key::of(waiting[0]), Reading::Word).is_some(), "it is hot");
        assert!(cache.get(Key::of(waiting[1]), Reading::Word).is_none(), "the next one left");
    }
}
