//! Loads of file systems on the page cache of a stack: those that document 001 measures or names.
//!
//! ```text
//! loads     the loads by name, read from data, and the process that runs one
//! system    a file system in memory: directories, inodes, dentries, and pages in the cache
//! device    the file system's device, with a stated time for each request
//! tally     the work that a task has done
//! sparse    sparsetruncate: the time of each unlink
//! bonnie    creation, reading and deletion of files, in order or at random
//! varmail   a mail server of filebench
//! dbench    the mix of calls of dbench
//! aim       the disk jobs of reaim
//! ```

mod aim;
mod bonnie;
mod dbench;
mod device;
mod loads;
mod sparse;
mod system;
mod tally;
mod varmail;

pub use loads::{FileLoad, Loaded};
