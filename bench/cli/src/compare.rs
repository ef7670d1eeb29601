//! `quarry compare`: runs a program on several allocators.

use crate::exit_status;
use crate::library::{self, FULL, object_for};
use crate::options::Setting;
use crate::program::{self, CommandLine};
use quarry_compare::{BuiltIn, CommandVariant, Ending, Request, Runs, Work, compare, scan};
use quarry_harness::Usage;
use quarry_mm::slab::slab_names;
use std::env;
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

const EXIT_INCOMPLETE: i32 = 1;
const EXIT_FAILING: i32 = 3;

const USUAL_ALLOCATORS: [&str; 5] = ["glibc", "jemalloc", "tcmalloc", "mimalloc", "quarry"];

/// Find out which allocator is best for a program.
///
/// Runs CMD on each allocator in turn, in blocks of shuffled order; every run is a fresh process.
/// Prints the differences, with 95 % intervals of the paired differences and a verdict for each.
/// Each run proves which allocator served it. If none can make a difference (static, Go, Python's
/// own allocator, ...), prints the reason and what would help. A second copy of the baseline runs
/// along and shows the noise. Every run reads standard input from its beginning, even from a pipe.
/// Ctrl-C prints the results so far. The last lines sum up the result in a sentence.
///
/// Exit status 0: no run failed; 1: something failed, or there is nothing to compare; 2: a wrong
/// option, and nothing ran; 3: a condition of --fail-if is met; 126 and 127: CMD cannot be executed
/// or is not found; 130: interrupted.
#[derive(clap::Args)]
pub(crate) struct CompareArgs {
    /// Allocators: glibc, jemalloc, tcmalloc, mimalloc, quarry, quarry-slub and others by name, or
    /// NAME=FILE. NAME:KEY=VALUE sets an option: for quarry as `--set` does (quarry:LIMIT=1G), for
    /// others in the environment (glibc:MALLOC_ARENA_MAX=1) [default:
    /// glibc,jemalloc,tcmalloc,mimalloc,quarry].
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    allocators: Vec<String>,
    /// Runs on each allocator, besides a warm-up; below 6 there are no intervals.
    #[arg(long, value_name = "N", default_value_t = 10,
        value_parser = clap::value_parser!(u32).range(1..=100_000))]
    runs: u32,
    /// Run until every allocator's interval reaches at most this far to either side, such as 1%.
    #[arg(long, value_name = "PERCENT", conflicts_with = "runs", value_parser = percent)]
    target_ci: Option<f64>,
    /// Maximum number of runs for --target-ci.
    #[arg(long, value_name = "N", default_value_t = 100, requires = "target_ci",
        value_parser = clap::value_parser!(u32).range(6..=100_000))]
    max_runs: u32,
    /// The allocator that the others are compared with [default: glibc, else the first].
    #[arg(long, value_name = "NAME")]
    baseline: Option<String>,
    /// A number that the program prints: a regular expression with one capture group around it. The
    /// name of the group, or else the expression, is the number's name: `higher:(?<rate>[0-9.]+)
    /// requests per second`. `higher:` or `lower:` asks for a verdict, and the closing sentence is
    /// then about the first such number, not wall time. The last match counts.
    #[arg(long, value_name = "REGEX")]
    metric: Vec<String>,
    /// A run whose standard output differs from that of the first one has failed.
    #[arg(long)]
    check_output: bool,
    /// A run that takes longer than this, such as 30s or 5m, has failed.
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = duration)]
    timeout: Duration,
    /// File that every run reads, from its beginning [default: standard input; a pipe is first
    /// copied to a file, and a terminal counts as empty].
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// A shell command that runs before each run, on the C library's allocator. Its time is not
    /// counted, processes that it leaves running are ended, and if it fails the run has failed.
    #[arg(long, value_name = "CMD")]
    prepare: Option<OsString>,
    /// Count runs whatever their exit status is. A signal or the timeout still fails a run.
    #[arg(short = 'i', long)]
    ignore_failure: bool,
    /// Compare once for each value, which replaces {NAME} in CMD and in --prepare: -L n 1,2,4. With
    /// several -L every combination is compared.
    #[arg(short = 'L', long, num_args = 2, value_names = ["NAME", "VALUES"])]
    parameter_list: Vec<String>,
    /// Fail with status 3 if the 95 % interval of an allocator's difference from the baseline lies
    /// beyond a bound: 'peak RSS > +5 %' or 'rate < -3 %'. Can be given several times. If nothing
    /// can be judged, or one of the --allocators is absent, the status is 1.
    #[arg(long, value_name = "CONDITION")]
    fail_if: Vec<String>,
    /// Compare even if an allocator has hardly any influence on the program.
    #[arg(long)]
    force: bool,
    /// Write every figure to a CSV file: a row for each allocator and metric.
    #[arg(long, value_name = "FILE")]
    export_csv: Option<PathBuf>,
    /// Write the printed text to a file of Markdown.
    #[arg(long, value_name = "FILE")]
    export_markdown: Option<PathBuf>,
    /// Write all measurements, and the verdicts, to a file, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a page with pictures, verdicts and every sample to a new file; it needs no network.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Results directory for `quarry lab`; each run is written to it as soon as it ends.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Seed of the order of runs [default: from the clock].
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    #[command(flatten)]
    program: CommandLine,
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim();
    match number.parse::<f64>() {
        Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(percent / 100.0),
        _ => Err("accepted: a percentage above 0, such as 1% or 0.5%".to_owned()),
    }
}

pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        _ => Err("accepted: a number with its unit, such as 500ms, 30s or 5m".to_owned()),
    }
}

pub(crate) fn run(args: CompareArgs, out: &mut dyn Write) -> i32 {
    let prepare = args.prepare.as_deref();
    let variants = match scan(&args.parameter_list, &args.program.command, prepare) {
        Ok(variants) => variants,
        Err(error) => return exit_status::report(Err(error)),
    };
    let works = match variants.into_iter().map(work).collect::<Result<Vec<Work>, i32>>() {
        Ok(works) => works,
        Err(status) => return status,
    };
    let is_named = !args.allocators.is_empty();
    let usual = || USUAL_ALLOCATORS.map(str::to_owned).to_vec();
    let request = Request {
        needs_all: is_named && !args.fail_if.is_empty(),
        allocators: if is_named { args.allocators } else { usual() },
        runs: match args.target_ci {
            None => Runs::Exactly(args.runs),
            Some(share) => Runs::UntilInterval { share, at_most: args.max_runs },
        },
        baseline: args.baseline,
        metrics: args.metric,
        check_output: args.check_output,
        timeout: args.timeout,
        input: args.input,
        ignore_failure: args.ignore_failure,
        force: args.force,
        fail_if: args.fail_if,
        csv: args.export_csv,
        markdown: args.export_markdown,
        json: args.json,
        html: args.html,
        out: args.out,
        seed: args.seed,
        command: args.program.command,
        works,
    };
    match with_built_in(|built_in| compare(&request, built_in, out)) {
        Ok(Ending::Complete) => 0,
        Ok(Ending::Incomplete) => EXIT_INCOMPLETE,
        Ok(Ending::Failing) => EXIT_FAILING,
        // Shells report this status for a death by a signal.
        Ok(Ending::Interrupted(signal)) => 128 + signal as i32,
        Err(error) => exit_status::report(Err(error)),
    }
}

/// Finds the program of a command line. An error is an exit status, and its message was printed.
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
    let slabs: Vec<&str> = slab_names().chain([FULL]).collect();
    run(&BuiltIn { slabs: &slabs, find: &find, setting: &setting, held: &quarry_profile::held })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_and_durations() {
        assert_eq!(percent("1%"), Ok(0.01));
        assert_eq!(percent("0.5"), Ok(0.005));
        for text in ["", "0%", "x%", "-1%", "200%", "NaN"] {
            assert!(percent(text).is_err(), "{text}");
        }
        assert_eq!(duration("30s"), Ok(Duration::from_secs(30)));
        for text in ["", "30", "0s", "soon"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
