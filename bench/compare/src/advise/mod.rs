//! `quarry advise`: which allocator, or which of Quarry's own policies, is best for a program.
//!
//! ```text
//! request     the options of `quarry advise`
//! facts       what is known of the machine and the program before anything is compared
//! candidates  the allocators and policies that these facts make worth measuring
//! plan        how many runs fit into the time
//! search      measures all, measures the best of them again, then tests one
//! verdict     the answer that the test supports
//! deploy      the lines that put an answer into effect
//! telling     prints the answer with its evidence
//! conduct     runs all these steps in turn
//! ```
//!
//! The best of many candidates looks better than it is, because chance helped to pick it. So the
//! runs that pick a candidate are not the runs that test it. The last stage, the test, runs the
//! candidate beside the baseline and a copy of the baseline. Its rounds are planned before it
//! begins, and only lack of time can cut them short. Only the runs of the test decide the answer.

mod candidates;
mod conduct;
mod deploy;
mod facts;
mod plan;
mod request;
mod search;
mod telling;
mod verdict;

pub use conduct::advise;
pub use request::{AdviceEnding, AdviceRequest, Goal};
