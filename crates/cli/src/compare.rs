//! `quarry compare`: one program on several allocators.

use crate::exit_status;
use crate::library::{self, LibraryError};
use crate::options::Setting;
use crate::program::{self, CannotRun, CommandLine};
use quarry_compare::{BuiltIn, Ending, Request, Runs, compare};
use quarry_core::slab::slab_names;
use quarry_harness::Usage;
use std::env;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

/// Exit status of a comparison in which something failed or nothing could be compared.
const EXIT_INCOMPLETE: i32 = 1;

/// Find out which allocator is best for a program.
///
/// Runs CMD on each allocator in turn, in blocks of shuffled order, every run a fresh process, and
/// prints what differs, with 95 % intervals of the paired differences and a verdict for each. Each
/// run proves which allocator served it; where none can make a difference (static, Go, Python's own
/// allocator, ...) it says why and what would help. A second copy of the baseline runs along and
/// shows the noise. Every run reads standard input from its beginning, also where that is a pipe.
/// Ctrl-C prints what there is.
///
/// Exit status 0: every run counts; 1: something failed, or there is nothing to compare; 2: a wrong
/// option, and nothing ran; 126 and 127: CMD cannot be executed or is not found; 130: interrupted.
#[derive(clap::Args)]
pub(crate) struct CompareArgs {
    /// Allocators: glibc, jemalloc, tcmalloc, mimalloc, quarry, quarry-slub and others by name, or
    /// NAME=FILE. NAME:KEY=VALUE sets an option, of quarry as `--set` does (quarry:PCP=order0), of
    /// others in the environment (glibc:MALLOC_ARENA_MAX=1).
    #[arg(
        long,
        value_name = "A,B",
        value_delimiter = ',',
        default_value = "glibc,jemalloc,tcmalloc,mimalloc,quarry"
    )]
    allocators: Vec<String>,
    /// Runs on each allocator, a warm-up not counted; below 6 there are no intervals.
    #[arg(long, value_name = "N", default_value_t = 10,
        value_parser = clap::value_parser!(u32).range(1..=100_000))]
    runs: u32,
    /// Run until the interval of every allocator is within this much to either side, such as 1%.
    #[arg(long, value_name = "PERCENT", conflicts_with = "runs", value_parser = percent)]
    target_ci: Option<f64>,
    /// Most runs for --target-ci.
    #[arg(long, value_name = "N", default_value_t = 100, requires = "target_ci",
        value_parser = clap::value_parser!(u32).range(6..=100_000))]
    max_runs: u32,
    /// The allocator that the others are compared with [default: glibc, else the first].
    #[arg(long, value_name = "NAME")]
    baseline: Option<String>,
    /// A number that the program prints: a regular expression with one capture group around it. The
    /// group's name, if any, is the number's: `higher:(?<rate>[0-9.]+) requests per second`. Say
    /// `higher:` or `lower:` in front for a verdict. The last match counts. The first --metric
    /// takes the place of wall time as what verdicts are about.
    #[arg(long, value_name = "REGEX")]
    metric: Vec<String>,
    /// A run that prints something else on standard output than the first one has failed.
    #[arg(long)]
    check_output: bool,
    /// A run that takes longer has failed, such as 30s or 5m.
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = duration)]
    timeout: Duration,
    /// What every run reads, from its beginning [default: standard input, of which a pipe is kept
    /// in a file first; nothing where that is a terminal].
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Write everything that was measured, and the verdicts, to a file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a page with pictures, verdicts and every sample to a new file; it needs no network.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Results directory for `quarry lab`: every run is there as soon as it is over.
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

fn duration(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        _ => Err("accepted: a number with its unit, such as 500ms, 30s or 5m".to_owned()),
    }
}

/// Compares; returns the exit status.
pub(crate) fn run(args: CompareArgs, out: &mut dyn Write) -> i32 {
    let path = env::var_os("PATH");
    let file = match program::locate(&args.program.command[0], path.as_deref()) {
        Ok(file) => file,
        Err(reason) => return cannot_run(&args, reason),
    };
    let interpreter =
        program::interpreter_of(&file, path.as_deref()).unwrap_or_else(|_| file.clone());
    let request = Request {
        allocators: args.allocators,
        runs: match args.target_ci {
            None => Runs::Exactly(args.runs),
            Some(share) => Runs::UntilInterval { share, at_most: args.max_runs },
        },
        baseline: args.baseline,
        metrics: args.metric,
        check_output: args.check_output,
        timeout: args.timeout,
        input: args.input,
        json: args.json,
        html: args.html,
        out: args.out,
        seed: args.seed,
        file,
        interpreter,
        command: args.program.command,
    };
    let find = |slab: Option<&str>| library::find(slab, None).map_err(LibraryError::into_error);
    let setting = |text: &str| match Setting::parse(text) {
        Ok(setting) => Ok((format!("QUARRY_{}", setting.key), setting.value)),
        Err(error) => Err(Usage(format!("--allocators: {error}")).into()),
    };
    let slabs: Vec<&str> = slab_names().collect();
    let built_in = BuiltIn { slabs: &slabs, find: &find, setting: &setting };
    match compare(&request, &built_in, out) {
        Ok(Ending::Complete) => 0,
        Ok(Ending::Incomplete) => EXIT_INCOMPLETE,
        // The status that shells report for a death by a signal.
        Ok(Ending::Interrupted(signal)) => 128 + signal as i32,
        Err(error) => exit_status::report(Err(error)),
    }
}

fn cannot_run(args: &CompareArgs, reason: CannotRun) -> i32 {
    let name = args.program.command[0].display();
    let _ = writeln!(io::stderr(), "quarry compare: {name}: {}", reason.message());
    reason.exit_status()
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
