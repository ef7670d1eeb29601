//! The disk jobs of reaim (AIM VII): reads and writes, in order or at random, copies, and searches
//! of directories. Writes and copies also have a synchronous form. Every job uses files of its own.

use super::system::{FileSystem, Inode};
use super::tally::Tally;
use crate::file_cache::FileCache;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde::Deserialize;
use std::sync::Arc;

/// A task's jobs.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Aim {
    /// Pages of a file, and pages that a job handles.
    pages: u64,
    job: u64,
}

#[derive(Clone, Copy)]
enum Job {
    ReadInOrder,
    ReadAtRandom,
    WriteInOrder,
    WriteAtRandom,
    Copy,
    Search,
}

/// The jobs, and whether each writes synchronously.
const JOBS: [(Job, bool); 9] = [
    (Job::ReadInOrder, false),
    (Job::ReadAtRandom, false),
    (Job::WriteInOrder, false),
    (Job::WriteAtRandom, false),
    (Job::Copy, false),
    (Job::Search, false),
    (Job::WriteInOrder, true),
    (Job::WriteAtRandom, true),
    (Job::Copy, true),
];

/// Names that a search job looks up.
const SEARCHES: usize = 75;

impl Aim {
    /// Runs all jobs `turns` times; each job counts as one operation.
    pub(crate) fn run<M: FileCache>(
        self,
        system: &FileSystem<'_, M>,
        turns: u32,
        (task, _): (u32, u32),
    ) -> Tally {
        let (directory, _) = system.dealt(task.into());
        let mut random = StdRng::seed_from_u64(task.into());
        let mut tally = Tally::default();
        for _ in 0..turns {
            for job in JOBS {
                tally.count(self.carry_out(job, system, directory, &mut random));
            }
        }
        tally
    }

    /// Makes the job's file, handles as many pages as the job has, and deletes the file.
    fn carry_out<M: FileCache>(
        self,
        (job, synced): (Job, bool),
        system: &FileSystem<'_, M>,
        directory: usize,
        random: &mut StdRng,
    ) -> bool {
        let (place, file) = system.create(directory);
        let mut is_right = match job {
            Job::Search => (0..SEARCHES).all(|number| {
                let found = system.open(directory, (place + number) % (place + 1));
                found.is_none_or(|found| system.length(&found) <= self.pages)
            }),
            _ => self.fill(system, &file, false),
        };
        let mut page = || random.random_range(0..self.pages);
        is_right &= match job {
            Job::Search => true,
            Job::ReadInOrder => self.each(|number| system.read(&file, number, 1)),
            Job::ReadAtRandom => self.each(|_| system.read(&file, page(), 1)),
            Job::WriteInOrder => !synced || self.fill(system, &file, true),
            Job::WriteAtRandom => {
                self.each(|_| system.write(&file, page(), 1) && (!synced || system.fsync(&file)))
            }
            Job::Copy => {
                let (copy_place, copy) = system.create(directory);
                let is_read = system.read(&file, 0, self.pages);
                let is_written = self.fill(system, &copy, synced);
                is_read & is_written & system.unlink(directory, copy_place)
            }
        };
        is_right & system.unlink(directory, place)
    }

    fn fill<M: FileCache>(
        self,
        system: &FileSystem<'_, M>,
        file: &Arc<Inode<M>>,
        synced: bool,
    ) -> bool {
        (0..self.pages).all(|index| system.write(file, index, 1) && (!synced || system.fsync(file)))
    }

    fn each(self, mut act: impl FnMut(u64) -> bool) -> bool {
        (0..self.job).all(|number| act(number % self.pages))
    }
}
