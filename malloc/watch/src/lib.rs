//! The instruments of a stack: their data and their reports.
//!
//! The stack's type parameter `Watch` is [`HeapProfile`], [`WithChecks`] or `()`.
//! Instruments use the stack; the stack knows only the hooks of [`Watch`](quarry_mm::stack::Watch).
//!
//! Each file uses only files before it: `backtrace`, `checks`, `profile`; `checker`; `findings`;
//! `guarded`, `hiding`, `zero_sized`; `waiting`; `checked`; `hardened`; `checking`, `profiling`.
#![cfg_attr(not(test), no_std)]

mod backtrace;
mod checked;
mod checker;
mod checking;
mod checks;
mod findings;
mod guarded;
mod hardened;
mod hiding;
pub mod profile;
mod profiling;
mod waiting;
mod zero_sized;

pub use checking::WithChecks;
pub use checks::Checks;
pub use profile::HeapProfile;

/// All instruments.
pub type AllInstruments = WithChecks<HeapProfile, true>;
