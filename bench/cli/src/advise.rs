//! `quarry advise`: says which allocator a program should have.

use crate::compare::{with_built_in, work};
use crate::exit_status;
use quarry_compare::{AdviceEnding, AdviceRequest, advise};
use std::io::Write;

const EXIT_UNDECIDED: i32 = 1;

/// Runs the command; returns its exit status.
pub(crate) fn run(request: &AdviceRequest, out: &mut dyn Write) -> i32 {
    let work = match work(request.variant()) {
        Ok(work) => work,
        Err(status) => return status,
    };
    match with_built_in(|built_in| advise(request, &work, built_in, out)) {
        Ok(AdviceEnding::Answered) => 0,
        Ok(AdviceEnding::Undecided) => EXIT_UNDECIDED,
        // Shells report this status for a death by a signal.
        Ok(AdviceEnding::Interrupted(signal)) => 128 + signal as i32,
        Err(error) => exit_status::report(Err(error)),
    }
}
