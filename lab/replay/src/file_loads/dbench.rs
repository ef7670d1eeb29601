//! The mix of calls of dbench, which replays an office suite on a file server. Each client has a
//! directory of its own.

use super::system::{FileSystem, Inode};
use super::tally::Tally;
use crate::file_cache::FileCache;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use serde::Deserialize;
use std::sync::Arc;

/// How often a client makes each call in one execution of its load file.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Dbench {
    /// Files of a client before it begins, and pages of each.
    files: u32,
    pages: u64,
    /// Pages of a read and of a write.
    request: u64,
    opens: u32,
    unlinks: u32,
    queries: u32,
    writes: u32,
    reads: u32,
    flushes: u32,
}

#[derive(Clone, Copy)]
enum Call {
    Open,
    Unlink,
    Query,
    Write,
    Read,
    Flush,
}

impl Dbench {
    /// Writes the files of a client.
    pub(crate) fn prepare<M: FileCache>(self, system: &FileSystem<'_, M>, (task, _): (u32, u32)) {
        for _ in 0..self.files {
            let (_, file) = system.create(system.dealt(task.into()).0);
            system.write(&file, 0, self.pages);
        }
    }

    /// Executes the load file this many times; each execution counts as one operation.
    pub(crate) fn run<M: FileCache>(
        self,
        system: &FileSystem<'_, M>,
        executions: u32,
        (task, _): (u32, u32),
    ) -> Tally {
        let calls = self.calls();
        let (directory, _) = system.dealt(task.into());
        let mut random = StdRng::seed_from_u64(task.into());
        let mut tally = Tally::default();
        let mut open = system.open_any(directory, &mut random);
        for _ in 0..executions {
            let mut is_right = true;
            for call in &calls {
                is_right &= self.make(*call, system, directory, &mut random, &mut open);
            }
            tally.count(is_right);
        }
        tally
    }

    /// The calls of one execution, in an order that is the same for all executions.
    fn calls(self) -> Vec<Call> {
        let counts = [
            (Call::Open, self.opens),
            (Call::Unlink, self.unlinks),
            (Call::Query, self.queries),
            (Call::Write, self.writes),
            (Call::Read, self.reads),
            (Call::Flush, self.flushes),
        ];
        let repeated = |(call, count): (Call, u32)| vec![call; count as usize];
        let mut calls: Vec<Call> = counts.into_iter().flat_map(repeated).collect();
        calls.shuffle(&mut StdRng::seed_from_u64(4));
        calls
    }

    fn make<M: FileCache>(
        self,
        call: Call,
        system: &FileSystem<'_, M>,
        directory: usize,
        random: &mut StdRng,
        open: &mut Arc<Inode<M>>,
    ) -> bool {
        let length = system.length(open);
        match call {
            Call::Open => *open = system.open_any(directory, random),
            Call::Query => {
                let found = system.open(directory, system.any_place(directory, random));
                return found.is_none_or(|file| system.length(&file) > 0);
            }
            Call::Unlink => {
                // A new file replaces the deleted one, so that the number of files stays the same.
                system.unlink_any(directory, random);
                let (_, file) = system.create(directory);
                *open = file;
                return system.write(open, 0, self.pages);
            }
            Call::Write => {
                let from = random.random_range(0..self.pages);
                return system.write(open, from, self.request) || length == 0;
            }
            Call::Read => {
                let from = random.random_range(0..length.max(1));
                return system.read(open, from, self.request);
            }
            Call::Flush => return system.fsync(open),
        }
        true
    }
}
