//! The page cache of a process: mappings over files, and over backings that fail, do only a part of
//! a call, stall and panic.

mod alone;
mod at_limit;

mod budget;
mod example;
mod files;
mod forks;
mod groups;
mod hostile;
mod killed;
mod reading;
mod refusals;
mod resize;
mod store;
mod threads;
mod writing;
