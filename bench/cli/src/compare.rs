//! `quarry compare`: runs a program on several allocators.

use crate::exit_status;
use crate::library::{self, FULL, object_for};
use crate::options::Setting;
use crate::program;
use quarry_cli::policies;
use quarry_compare::{BuiltIn, CommandVariant, Ending, Request, Work, compare};
use quarry_harness::Usage;
use std::env;
use std::io::Write;

const EXIT_INCOMPLETE: i32 = 1;
const EXIT_FAILING: i32 = 3;

/// Runs the command; returns its exit status.
pub(crate) fn run(request: &Request, out: &mut dyn Write) -> i32 {
    let variants = match request.variants() {
        Ok(variants) => variants,
        Err(error) => return exit_status::report(Err(error)),
    };
    let works = match variants.into_iter().map(work).collect::<Result<Vec<Work>, i32>>() {
        Ok(works) => works,
        Err(status) => return status,
    };
    match with_built_in(|built_in| compare(request, works, built_in, out)) {
        Ok(Ending::Complete) => 0,
        Ok(Ending::Incomplete) => EXIT_INCOMPLETE,
        Ok(Ending::Failing) => EXIT_FAILING,
        // Shells report this status for a death by a signal.
        Ok(Ending::Interrupted(signal)) => 128 + signal as i32,
        Err(error) => exit_status::report(Err(error)),
    }
}

/// Finds the program of a command line, else prints the reason and returns an exit status.
pub(crate) fn work(variant: CommandVariant) -> Result<Work, i32> {
    let path = env::var_os("PATH");
    let file = program::locate(&variant.command[0], path.as_deref())
        .map_err(|reason| reason.told_of(&variant.command[0]))?;
    let interpreter = program::interpreter_of(&file, path.as_deref());
    Ok(Work { variant, file, interpreter })
}

/// Calls `run` with Quarry's shared objects and options.
pub(crate) fn with_built_in<T>(run: impl FnOnce(&BuiltIn<'_>) -> T) -> T {
    let find = |slab: Option<&str>, settings: &[(String, String)]| {
        let settings = settings
            .iter()
            .filter_map(|(key, value)| Some((key.strip_prefix("QUARRY_")?, value.as_str())));
        library::find(object_for(slab, settings), None)
    };
    let setting = |text: &str| match Setting::parse(text) {
        Ok(setting) => Ok((format!("QUARRY_{}", setting.key), setting.value)),
        Err(error) => Err(Usage(format!("--allocators: {error}")).into()),
    };
    let slabs: Vec<&str> = policies::names().chain([FULL]).collect();
    run(&BuiltIn { slabs: &slabs, find: &find, setting: &setting, held: &quarry_profile::held })
}
