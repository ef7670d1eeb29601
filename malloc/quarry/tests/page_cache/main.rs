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
#[path = "../modes/mod.rs"]
mod modes;
mod reading;
mod refusals;
mod resize;
mod store;
mod threads;
mod writing;

/// All but the tests that count the pages of a small limit: the checks hold a part of it.
#[test]
fn in_every_mode() {
    modes::run(&["at_limit::", "budget::", "groups::", "resize::"]);
}
