//! The load varmail of filebench: a mail server. In each round a thread deletes a message, writes a
//! new one, reads a third and appends to it, and reads a fourth.

use super::system::FileSystem;
use super::tally::Tally;
use crate::file_cache::FileCache;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde::Deserialize;

/// The files of a mail server: `files` files, of `pages` pages on average.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Varmail {
    files: u32,
    pages: u64,
}

/// Calls of a round, counted as filebench counts operations: delete; create, append, fsync, close;
/// open, read, append, fsync, close; open, read, close.
const CALLS: u64 = 13;

impl Varmail {
    pub(crate) fn prepare<M: FileCache>(
        self,
        system: &FileSystem<'_, M>,
        (task, tasks): (u32, u32),
    ) {
        let mut random = StdRng::seed_from_u64(task.into());
        for _ in 0..self.files.div_ceil(tasks) {
            let (_, file) = system.create(0);
            system.append(&file, self.length(&mut random));
            system.fsync(&file);
        }
    }

    pub(crate) fn run<M: FileCache>(
        self,
        system: &FileSystem<'_, M>,
        rounds: u32,
        (task, _): (u32, u32),
    ) -> Tally {
        let mut random = StdRng::seed_from_u64(1000 + u64::from(task));
        let mut tally = Tally::default();
        for _ in 0..rounds {
            let is_right = self.round(system, &mut random);
            (0..CALLS).for_each(|_| tally.count(is_right));
        }
        tally
    }

    fn round<M: FileCache>(self, system: &FileSystem<'_, M>, random: &mut StdRng) -> bool {
        system.unlink_any(0, random);
        let (_, fresh) = system.create(0);
        let mut is_right = system.append(&fresh, self.length(random)) && system.fsync(&fresh);
        let (changed, seen) = (system.open_any(0, random), system.open_any(0, random));
        is_right &= system.read(&changed, 0, u64::MAX / 2);
        // Another task may have deleted the message meanwhile.
        let _was_there = system.append(&changed, self.pages);
        is_right &= system.fsync(&changed);
        is_right & system.read(&seen, 0, u64::MAX / 2)
    }

    /// A random length with mean `pages`; filebench draws it from a gamma distribution.
    fn length(self, random: &mut StdRng) -> u64 {
        random.random_range(1..2 * self.pages)
    }
}
