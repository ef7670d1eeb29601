//! sparsetruncate: it reads files of holes once, page by page, so that the page cache holds their
//! pages, zeroed and clean. Then it unlinks each file and times the unlink.

use super::system::FileSystem;
use super::tally::Tally;
use crate::file_cache::FileCache;
use crate::host::Moment;
use serde::Deserialize;

/// Files of `pages` pages each, dealt to the directories.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sparse {
    pub(crate) pages: u64,
}

impl Sparse {
    /// Creates this many files and reads all their pages.
    pub(crate) fn prepare<M: FileCache>(self, system: &FileSystem<'_, M>, files: u32) {
        for number in 0..u64::from(files) {
            let (_, file) = system.create(system.dealt(number).0);
            system.set_length(&file, self.pages);
            for index in 0..self.pages {
                assert!(system.read(&file, index, 1), "a hole reads as zeros");
            }
        }
    }

    /// Unlinks all files, in the order in which they were made.
    pub(crate) fn run<M: FileCache>(self, system: &FileSystem<'_, M>, files: u32) -> Tally {
        let mut tally = Tally::default();
        for number in 0..u64::from(files) {
            let (directory, place) = system.dealt(number);
            let start = Moment::now();
            let is_gone = system.unlink(directory, place);
            // The original subtracts two calls of gettimeofday, in whole microseconds.
            tally.each_us.push(start.elapsed().as_micros() as u64);
            tally.count(is_gone);
        }
        tally
    }
}
