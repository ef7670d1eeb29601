//! The heap of one program of a fleet, built after its production profile.
//!
//! A profile gives for each size the births per unit of time and the mean number alive. Births of a
//! size are a Poisson process. An object lives for an exponentially distributed time with the mean
//! `alive / rate` (Little's law), so `count` objects of a size die at `rate * count / alive`. One
//! factor scales all `alive` to the live bytes of the sample.
//!
//! A sample first draws the population. Then it records births and deaths, followed by those that
//! restore the population, and replays this record in rounds. The first word and the last byte of
//! an object are written at its birth; at its death no byte is read.

mod record;

use super::heap::{Block, Heap};
use super::watched::{self, Table};
use super::window::Done;
use anyhow::{Context, Result};
use quarry_harness::launch::Work;
use quarry_harness::results::Measurement;
use quarry_harness::{affinity, proc, statistics};
use rand::SeedableRng;
use rand::rngs::StdRng;
use record::{Op, Record};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Barrier, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

/// Name of the figure: resident memory divided by live bytes.
pub(crate) const OVER_LIVE: &str = "resident over live";
const LINE: usize = 64;

/// The profiles, by number.
pub(crate) const PROFILES: [&str; 5] = [
    include_str!("../../data/fleet/profile_0.csv"),
    include_str!("../../data/fleet/profile_1.csv"),
    include_str!("../../data/fleet/profile_2.csv"),
    include_str!("../../data/fleet/profile_3.csv"),
    include_str!("../../data/fleet/profile_4.csv"),
];

/// The use of the objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Form {
    /// An object dies in the thread of its birth.
    Own,
    /// An object dies in the next thread.
    Passed,
    /// Every line of an object is written at its birth.
    Touched,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct FleetSample {
    pub(crate) profile: usize,
    pub(crate) mib: u64,
    pub(crate) threads: usize,
    pub(crate) form: Form,
    /// Births and deaths in the record of each thread, without those that restore the population.
    pub(crate) events: usize,
    pub(crate) rounds: usize,
    /// CPUs of the threads, taken in turn.
    pub(crate) cpus: Vec<usize>,
}

/// A record, and the objects that live in it, by slot.
struct Life {
    record: Record,
    objects: Table<usize>,
}

impl Life {
    fn new(record: Record) -> Self {
        let mut objects = Table::new(record.slots);
        // Written here, so that the table's pages do not count as memory of the allocator.
        objects.fill(0);
        Self { record, objects }
    }

    fn begin(&mut self, heap: Heap, form: Form) {
        for (slot, size) in self.record.population.iter().enumerate() {
            self.objects[slot] = born(heap, *size as usize, slot, form);
        }
    }

    fn play(&mut self, heap: Heap, form: Form) {
        for Op { slot, size } in self.record.ops() {
            let object = &mut self.objects[slot as usize];
            if size == Op::DEATH {
                // SAFETY: the record frees only live objects, each once, so the word is that of a
                // block without another owner.
                heap.free_unread(unsafe { Block::from_word(*object) });
            } else {
                *object = born(heap, size as usize, slot as usize, form);
            }
        }
    }

    /// Counts the objects of the population that still have their mark, and frees all.
    fn end(&mut self, heap: Heap) -> u64 {
        let mut verified = 0;
        for slot in 0..self.record.population.len() {
            // SAFETY: a whole record restores the population, so the block is live.
            heap.free(unsafe { Block::from_word(self.objects[slot]) }, slot as u64);
            verified += 1;
        }
        verified
    }
}

fn born(heap: Heap, size: usize, slot: usize, form: Form) -> usize {
    let word = heap.allocate(size, slot as u64).into_word();
    let lines = (LINE..if form == Form::Touched { size } else { LINE }).step_by(LINE);
    for at in lines.chain((size > size_of::<u64>()).then_some(size - 1)) {
        // SAFETY: inside the block of `size` bytes, after its mark, and only this thread has it.
        unsafe { ((word + at) as *mut u8).write_volatile(1) };
    }
    word
}

impl FleetSample {
    fn lives(&self) -> Result<Vec<Mutex<Life>>> {
        let profile = record::parse(PROFILES[self.profile]).context("a line of the profile")?;
        let live = (self.mib << 20) as f64 / self.threads as f64;
        let life = |thread: usize| {
            let mut random = StdRng::seed_from_u64(thread as u64);
            Mutex::new(Life::new(Record::new(&profile, live, self.events, &mut random)))
        };
        Ok((0..self.threads).map(life).collect())
    }

    /// Plays all rounds in thread number `thread`; returns each round's nanoseconds per operation.
    fn play(&self, thread: usize, heap: Heap, lives: &[Mutex<Life>], all: &Barrier) -> Vec<f64> {
        if let Some(&cpu) = self.cpus.get(thread % self.cpus.len().max(1)) {
            // A thread that cannot be bound runs on any CPU.
            let _ = affinity::pin(cpu);
        }
        let mut times = Vec::with_capacity(self.rounds);
        lock(&lives[thread]).begin(heap, self.form);
        for round in 0..self.rounds {
            let passed = if self.form == Form::Passed { round + 1 } else { 0 };
            all.wait();
            let mut life = lock(&lives[(thread + passed) % self.threads]);
            let start = Instant::now();
            life.play(heap, self.form);
            times.push(start.elapsed().as_nanos() as f64 / life.record.ops().len() as f64);
        }
        all.wait();
        times
    }
}

fn lock(life: &Mutex<Life>) -> MutexGuard<'_, Life> {
    life.lock().expect("a thread that plays a record does not panic")
}

impl Work for FleetSample {
    const NAME: &'static str = "fleet";

    fn measure(self) -> Result<Measurement> {
        // The alarm that usually limits a sample would end a large one.
        nix::unistd::alarm::set(3600);
        let (heap, lives) = (Heap::of_this_process(), self.lives()?);
        let (before, all) = (watched::resident(), Barrier::new(self.threads));
        let play = |thread| self.play(thread, heap, &lives, &all);
        let times: Vec<Vec<f64>> = thread::scope(|scope| {
            let threads: Vec<_> =
                (0..self.threads).map(|thread| scope.spawn(move || play(thread))).collect();
            threads.into_iter().map(|it| it.join().expect("it does not panic")).collect()
        });
        let held = watched::resident().saturating_sub(before);
        let huge = proc::huge(std::process::id()).unwrap_or(0);
        let sum = |of: fn(&Record) -> u64| lives.iter().map(|it| of(&lock(it).record)).sum::<u64>();
        let (operations, bytes) = (sum(|it| it.ops().len() as u64), sum(|it| it.live_bytes));
        let objects = sum(|it| it.population.len() as u64);
        let verified = lives.iter().map(|it| lock(it).end(heap)).sum();
        let of_round =
            |round: usize| times.iter().map(|of| of[round]).sum::<f64>() / times.len() as f64;
        let rounds: Vec<f64> = (0..self.rounds).map(of_round).collect();
        let ns = statistics::median(&rounds).context("no round")? * operations as f64;
        let faults = watched::minor_faults()?;
        let counters = [("objects", objects), ("minor_faults", faults), ("huge_kib", huge >> 10)];
        let done = Done { operations, verified };
        let answer = watched::answer(heap, done, Duration::from_nanos(ns as u64), &counters)?;
        let figures = [(OVER_LIVE.to_owned(), held as f64 / bytes as f64)];
        Ok(Measurement { figures: BTreeMap::from(figures), ..answer })
    }
}
