//! The parts that the commands `quarry` and `quarry-lab` share.
//!
//! ```text
//! policies     the slab policies of which there are libraries
//! program      a program as it stands on the command line, and which file it runs
//! library      where the shared object is
//! output       the command line, and standard output, whose errors name it
//! exit_status  with which status a command ends
//! completions  answers to shells that complete a line
//! pages        man pages, and the files by which shells ask for completions
//! ```

pub mod completions;
pub mod exit_status;
pub mod library;
pub mod output;
pub mod pages;
pub mod policies;
pub mod program;
