//! `quarry advise`: which allocator, or which of Quarry's own policies, is best for a program.
//!
//! ```text
//! request     what it is asked
//! facts       what is known of the machine and the program before anything is compared
//! candidates  what is worth a look by these facts
//! leaks       who asked for what the program never frees
//! plan        how many runs fit into the time
//! search      a first look at all, a second at the best of them, then the test of one
//! verdict     the answer that the test supports
//! deploy      the lines that put an answer into effect
//! telling     how all of it is printed
//! conduct     the whole of it
//! ```
//!
//! The best of many candidates looks better than it is, because chance helped to pick it. So the
//! runs that pick a candidate are not the runs that test it. The last stage runs the candidate
//! beside glibc and a second copy of glibc. Its number of rounds is fixed before its first one, and
//! only these runs decide the answer.

mod candidates;
mod conduct;
mod deploy;
mod facts;
mod leaks;
mod plan;
mod request;
mod search;
mod telling;
mod verdict;

pub use conduct::advise;
pub use request::{AdviceEnding, AdviceRequest, Goal};
