//! SQLite gives the same answers on Quarry as on its own page cache, also after errors and kills.

mod answers;
mod faults;
mod object;
mod stress;
mod support;
