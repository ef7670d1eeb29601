//! SQLite on Quarry beside SQLite on its own page cache: the same answers, whatever happens.

mod answers;
mod faults;
mod object;
mod stress;
mod support;
