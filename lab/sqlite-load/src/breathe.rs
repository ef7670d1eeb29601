//! A heap that grows and shrinks beside readers and writers of the page cache, in one budget or
//! with fixed halves of the same memory: the experiment `one-budget`.

use crate::histogram::Histogram;
use crate::random::Random;
use anyhow::{Result, anyhow};
use clap::{Args, ValueEnum};
use quarry::{Backing, Error, Group, GroupOptions, Mapping, OsError, PageCache, Quarry, ReadWrite};
use serde::Serialize;
use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

const PAGE: usize = 4096;
const LARGE: usize = 1 << 20;
const SMALL: usize = 100;
/// Number of small blocks that are allocated after each large one.
const SMALL_EACH: usize = 64;

/// How the memory is divided.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Division {
    /// The heap and the cache take what the other one does not need.
    One,
    /// Half of the memory is the cache's.
    Split,
}

#[derive(Args)]
pub(crate) struct Breathe {
    #[arg(value_enum)]
    division: Division,
    /// Bytes of heap and cache together.
    #[arg(long, default_value = "67108864")]
    budget: u64,
    /// Threads that read pages at random, from four times as many pages as fit into `--budget`.
    #[arg(long, default_value = "4")]
    readers: usize,
    /// Threads that read in the same way, and change one page in four.
    #[arg(long, default_value = "2")]
    writers: usize,
    /// Length of the run, in milliseconds.
    #[arg(long, default_value = "2000")]
    millis: u64,
    /// Time of the device for a page, in microseconds.
    #[arg(long, default_value = "50")]
    latency_us: u64,
}

#[derive(Default, Serialize)]
pub(crate) struct Figures {
    lookups: u64,
    verified: u64,
    ns: u64,
    page_reads: u64,
    /// Look-ups that failed because there was no memory.
    lookups_refused: u64,
    large: u64,
    large_refused: u64,
    large_p999_ns: u64,
    large_longest_ns: u64,
    small: u64,
    small_refused: u64,
    small_p999_ns: u64,
    small_longest_ns: u64,
}

/// A device on which each page contains its own offset.
struct Device {
    bytes: u64,
    latency: Duration,
}

impl Device {
    fn spend(&self, pages: usize) {
        let end = Instant::now() + self.latency * pages as u32;
        while Instant::now() < end {
            std::hint::spin_loop();
        }
    }
}

impl Backing for Device {
    type Access = ReadWrite;

    fn size(&self) -> u64 {
        self.bytes
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<usize, OsError> {
        self.spend(bytes.len() / PAGE);
        for (page, offset) in bytes.chunks_mut(PAGE).zip((offset..).step_by(PAGE)) {
            page[..8].copy_from_slice(&offset.to_le_bytes());
        }
        Ok(bytes.len())
    }

    fn write_pages(&self, _: u64, pages: &[&[u8]]) -> Result<usize, OsError> {
        Ok(pages.iter().map(|page| page.len()).sum())
    }
}

impl Breathe {
    pub(crate) fn run(self) -> Result<Figures> {
        let bytes = usize::try_from(self.budget)?;
        Quarry::set_limit(bytes)?;
        let options = match self.division {
            Division::One => GroupOptions::default(),
            Division::Split => {
                GroupOptions { min: bytes / 2, max: bytes / 2, ..GroupOptions::default() }
            }
        };
        let group = Group::new("job", &options).map_err(|error| anyhow!("a group: {error}"))?;
        let latency = Duration::from_micros(self.latency_us);
        let device = Device { bytes: 4 * self.budget, latency };
        let mapping = PageCache::builder().read_ahead(0).group(&group).open(device)?;
        let over = AtomicBool::new(false);
        let start = Instant::now();
        let mut figures = thread::scope(|scope| {
            let tasks: Vec<_> = (0..self.readers + self.writers)
                .map(|number| {
                    let (mapping, over, writes) = (&mapping, &over, number >= self.readers);
                    scope.spawn(move || look_up(mapping, number as u64, writes, over))
                })
                .collect();
            let figures = self.breathe(bytes, start);
            over.store(true, Relaxed);
            tasks.into_iter().try_fold(figures, |mut all, task| {
                let done = task.join().map_err(|_| anyhow!("a thread has panicked"))??;
                all.lookups += done.lookups;
                all.lookups_refused += done.lookups_refused;
                all.verified += done.verified;
                anyhow::Ok(all)
            })
        })?;
        figures.ns = u64::try_from(start.elapsed().as_nanos())?;
        let reads = PageCache::stats().events().find(|(name, _)| *name == "pgpgin");
        figures.page_reads = reads.map_or(0, |(_, kib)| kib / 4);
        Ok(figures)
    }

    /// Grows the heap to three quarters of the memory, or until a block is refused, then frees it,
    /// again and again until the time is over.
    fn breathe(&self, bytes: usize, start: Instant) -> Figures {
        let layouts = [Layout::new::<[u128; LARGE / 16]>(), Layout::new::<[u8; SMALL]>()];
        let (mut times, mut refused) = ([Histogram::new(), Histogram::new()], [0; 2]);
        while start.elapsed() < Duration::from_millis(self.millis) {
            let mut held = Vec::new();
            while held.len() < bytes / 4 * 3 / LARGE * (SMALL_EACH + 1) {
                let kind = usize::from(held.len() % (SMALL_EACH + 1) != 0);
                let asked = Instant::now();
                // SAFETY: both layouts have a size.
                let block = unsafe { Quarry.alloc(layouts[kind]) };
                times[kind].add(asked.elapsed().as_nanos() as u64);
                if block.is_null() {
                    refused[kind] += 1;
                    break;
                }
                // SAFETY: the block was just allocated, and has a first byte.
                unsafe { block.write(1) };
                held.push((block, layouts[kind]));
            }
            for (block, layout) in held {
                // SAFETY: allocated above with this layout, and freed once.
                unsafe { Quarry.dealloc(block, layout) };
            }
        }
        let ([large, small], [large_refused, small_refused]) = (times, refused);
        Figures {
            large: large.total(),
            large_refused,
            large_p999_ns: large.quantile(0.999),
            large_longest_ns: large.most(),
            small: small.total(),
            small_refused,
            small_p999_ns: small.quantile(0.999),
            small_longest_ns: small.most(),
            ..Figures::default()
        }
    }
}

/// Looks pages up at random and, if `writes` is true, changes one page in four.
fn look_up(
    mapping: &Mapping<Device>,
    seed: u64,
    writes: bool,
    over: &AtomicBool,
) -> Result<Figures> {
    let (mut random, mut done) = (Random::new(seed + 1), Figures::default());
    let pages = mapping.backing().size() / PAGE as u64;
    while !over.load(Relaxed) {
        let index = random.next() % pages;
        done.lookups += 1;
        let page = match mapping.read(index) {
            Ok(page) => page,
            Err(Error::Full) => {
                done.lookups_refused += 1;
                done.verified += 1;
                continue;
            }
            Err(error) => return Err(anyhow!("page {index}: {error}")),
        };
        if writes && random.next() % 4 == 0 {
            page.latch_exclusive()[PAGE - 1] = 1;
            done.verified += 1;
        } else {
            let number = page.latch_shared()[..8].try_into()?;
            done.verified += u64::from(u64::from_le_bytes(number) == index * PAGE as u64);
        }
    }
    Ok(done)
}
