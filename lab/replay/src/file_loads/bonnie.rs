//! The directory operations of bonnie++: it creates and writes files, reads them, and deletes them,
//! each either in the order of creation or in random order.

use super::system::FileSystem;
use super::tally::Tally;
use crate::file_cache::FileCache;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use serde::Deserialize;

/// The phase that is measured. The phases before it run, too, but are not timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Phase {
    /// Files are created, and their pages written.
    Create,
    /// Files are opened and read.
    Read,
    /// Files are deleted.
    Delete,
}

/// Seed of the random order: the same for all variants.
const SEED: u64 = 20_480;

/// Files of `pages` pages each, dealt to the directories.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Bonnie {
    pub(crate) pages: u64,
    random: bool,
    phase: Phase,
}

impl Bonnie {
    /// Runs the phases before the one that is measured.
    pub(crate) fn prepare<M: FileCache>(self, system: &FileSystem<'_, M>, files: u32) {
        for phase in [Phase::Create, Phase::Read] {
            if phase < self.phase {
                let tally = self.carry_out(phase, system, files);
                assert_eq!(tally.verified, tally.operations, "{phase:?} found wrong bytes");
            }
        }
    }

    /// Runs the phase that is measured.
    pub(crate) fn run<M: FileCache>(self, system: &FileSystem<'_, M>, files: u32) -> Tally {
        self.carry_out(self.phase, system, files)
    }

    fn carry_out<M: FileCache>(
        self,
        phase: Phase,
        system: &FileSystem<'_, M>,
        files: u32,
    ) -> Tally {
        let mut order: Vec<u64> = (0..files.into()).collect();
        // Names are created in order. In bonnie++ the names themselves are random; here the later
        // phases visit the directory in random order instead.
        if self.random && phase != Phase::Create {
            order.shuffle(&mut StdRng::seed_from_u64(SEED));
        }
        let mut tally = Tally::default();
        for number in order {
            let (directory, place) = system.dealt(number);
            tally.count(match phase {
                Phase::Create => {
                    let (_, file) = system.create(directory);
                    (0..self.pages).all(|index| system.write(&file, index, 1))
                }
                Phase::Read => system
                    .open(directory, place)
                    .is_some_and(|file| system.read(&file, 0, self.pages)),
                Phase::Delete => system.unlink(directory, place),
            });
        }
        tally
    }
}
