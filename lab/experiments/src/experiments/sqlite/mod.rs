//! SQLite with its own page cache, and with Quarry's.
//!
//! ```text
//! load      the program that does the work, and what it prints
//! budget    many databases under one budget, and the bytes that make all processes equally large
//! hot       one database that fits into the cache
//! truncate    a million cached pages that are freed at once
//! one_budget  a heap that breathes beside the page cache, without SQLite
//! ```

pub(super) mod budget;
pub(super) mod hot;
mod load;
pub(super) mod one_budget;
pub(super) mod truncate;
