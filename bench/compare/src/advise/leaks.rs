//! The call sites of memory that a program never frees, from one run on Quarry with a heap profile.

use crate::allocator_spec::{self, BuiltIn};
use crate::allocators::QUARRY;
use crate::supervised_program::SupervisedProgram;
use quarry_harness::sampler::{SampleKey, Sampler};
use std::mem;

/// Lines that name the call sites, if the program keeps much memory and Quarry can serve it.
pub(super) fn named(
    program: &mut SupervisedProgram,
    built_in: &BuiltIn<'_>,
    is_much: bool,
) -> Vec<String> {
    let found = is_much.then(|| allocator_spec::find_named(QUARRY, built_in));
    let (Some(Ok(Ok(quarry))), Ok(folder)) = (found, tempfile::tempdir()) else {
        return Vec::new();
    };
    let file = folder.path().join("%p.raw").display().to_string();
    let settings = [("QUARRY_PROFILE", file.as_str()), ("QUARRY_PROFILE_MEAN", "64K")];
    let profiled = vec![quarry.with("quarry under its profile", &settings)];
    let others = mem::replace(&mut program.contenders, profiled);
    let taken = program.sample(SampleKey { round: 1, workload: 0, tasks: 1, variant: 0 });
    program.contenders = others;
    taken.map_or_else(|_| Vec::new(), |_| (built_in.held)(folder.path()))
}
