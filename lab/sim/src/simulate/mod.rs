//! A recorded program on many CPUs: its threads, copied until every CPU has one, on one heap of
//! Quarry.
//!
//! Order of the files, each using only those before it: `cell` (question and answer), `program`
//! (what each thread does), `play` (doing it).

mod cell;
#[cfg(quarry_sim)]
mod play;
mod program;

pub use cell::{Answer, Cell};
#[cfg(quarry_sim)]
pub use play::answer;
pub use program::{Op, Program, Step};
