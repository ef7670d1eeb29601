//! The page cache of a process: mappings over files, and over backings that fail, stop in the
//! middle, stall and panic.

mod alone;
mod budget;
mod example;
mod files;
mod forks;
mod groups;
mod hostile;
mod reading;
mod store;
mod threads;
mod writing;
