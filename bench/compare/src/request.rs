//! The options of `quarry compare`, and the ways in which a comparison ends.

use crate::parameters::{CommandVariant, scan};
use crate::raw::seconds;
use anyhow::{Result, bail};
use quarry_harness::options;
use quarry_harness::usage::Usage;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Name and values of the parameter that tells fresh heaps from aged ones.
pub(super) const HEAP: &str = "heap";
pub(super) const FRESH: &str = "fresh";
pub(super) const AGED: &str = "aged";

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
pub struct Request {
    /// Allocators: glibc, jemalloc, tcmalloc, mimalloc, quarry, quarry-slub and others by name, or
    /// NAME=FILE. NAME:KEY=VALUE sets an option: for quarry as `--set` does (quarry:LIMIT=1G), for
    /// others in the environment (glibc:MALLOC_ARENA_MAX=1) [default:
    /// glibc,jemalloc,tcmalloc,mimalloc,quarry].
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub(super) allocators: Vec<String>,
    /// Runs on each allocator, besides a warm-up; below 6 there are no intervals.
    #[arg(long, value_name = "N", default_value_t = 10,
        value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) runs: u32,
    /// Run until every allocator's interval reaches at most this far to either side, such as 1%.
    #[arg(long, value_name = "PERCENT", conflicts_with = "runs", value_parser = percent)]
    pub(super) target_ci: Option<f64>,
    /// Maximum number of runs for --target-ci.
    #[arg(long, value_name = "N", default_value_t = 100, requires = "target_ci",
        value_parser = clap::value_parser!(u32).range(6..=100_000))]
    pub(super) max_runs: u32,
    /// The allocator that the others are compared with [default: glibc, else the first].
    #[arg(long, value_name = "NAME")]
    pub(super) baseline: Option<String>,
    /// A number that the program prints: a regular expression with one capture group around it. The
    /// name of the group, or else the expression, is the number's name: `higher:(?<rate>[0-9.]+)
    /// requests per second`. `higher:` or `lower:` asks for a verdict, and the closing sentence is
    /// then about the first such number, not a time. The last match counts. The name of a measured
    /// figure (cpu, wall, 'peak RSS', p50, ..) makes that one decide [default: cpu where no thread
    /// waits, else wall].
    #[arg(long, value_name = "REGEX|NAME")]
    pub(super) metric: Vec<String>,
    /// A file that each run writes, with a number at the beginning of each line, such as the
    /// latencies of requests: its quantiles p50, p90, p99 and p99.9 and its maximum are compared,
    /// and p99 decides.
    #[arg(long, value_name = "FILE")]
    pub(super) latencies: Option<PathBuf>,
    /// A run whose standard output differs from that of the first one has failed. If glibc's own
    /// second run differs, nothing is compared.
    #[arg(long)]
    pub(super) check_output: bool,
    /// A run that takes longer than this, such as 30s or 5m, has failed.
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = options::duration)]
    pub(super) timeout: Duration,
    /// How long processes that outlive the program must be idle before their memory is taken as
    /// idle memory and they are ended [default: 2s, after which some allocators still shrink].
    #[arg(long, value_name = "DURATION", value_parser = options::duration)]
    pub(super) idle_for: Option<Duration>,
    /// File that every run reads, from its beginning [default: standard input; a pipe is first
    /// copied to a file, and a terminal counts as empty].
    #[arg(long, value_name = "FILE")]
    pub(super) input: Option<PathBuf>,
    /// A shell command that runs before each run, on the C library's allocator. Its time is not
    /// counted, processes that it leaves running are ended, and if it fails the run has failed.
    #[arg(long, value_name = "CMD")]
    pub(super) prepare: Option<OsString>,
    /// Count runs whatever their exit status is. A signal or the timeout still fails a run.
    #[arg(short = 'i', long)]
    pub(super) ignore_failure: bool,
    /// Compare once for each value, which replaces {NAME} in CMD and in --prepare: -L n 1,2,4. With
    /// several -L every combination is compared.
    #[arg(short = 'L', long, num_args = 2, value_names = ["NAME", "VALUES"])]
    pub(super) parameter_list: Vec<String>,
    /// Also compare on aged heaps: before `main`, blocks of the program's own sizes and lifetimes,
    /// recorded in a run of its own, are allocated and freed until the memory that remains is
    /// stationary. The verdicts on fresh and on aged heaps stand side by side. What ageing costs is
    /// not counted.
    #[arg(long)]
    pub(super) aged: bool,
    /// Fail with status 3 if the 95 % interval of an allocator's difference from the baseline lies
    /// beyond a bound: 'peak RSS > +5 %' or 'rate < -3 %'. Can be given several times. If nothing
    /// can be judged, or one of the --allocators is absent, the status is 1.
    #[arg(long, value_name = "CONDITION")]
    pub(super) fail_if: Vec<String>,
    /// Compare even if an allocator has hardly any influence on the program.
    #[arg(long)]
    pub(super) force: bool,
    /// Write every figure to a CSV file: a row for each allocator and metric.
    #[arg(long, value_name = "FILE")]
    pub(super) export_csv: Option<PathBuf>,
    /// Write the printed text to a file of Markdown.
    #[arg(long, value_name = "FILE")]
    pub(super) export_markdown: Option<PathBuf>,
    /// Write all measurements, and the verdicts, to a file, as JSON.
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Write a page with pictures, verdicts and every sample to a new file; it needs no network.
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
    /// Results directory for `quarry lab`; each run is written to it as soon as it ends.
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// Seed of the order of runs [default: from the clock].
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u64>,
    #[command(flatten)]
    pub(super) program: CommandLine,
}

/// Checks that processes can be idle for that long within the time of a run.
pub(super) fn check_idle_for(
    idle_for: Option<Duration>,
    limit: &str,
    longest: Duration,
) -> Result<()> {
    let Some(idle_for) = idle_for else { return Ok(()) };
    if idle_for >= longest {
        bail!(Usage(format!(
            "--idle-for {}: accepted: less than {limit} ({})",
            seconds(idle_for),
            seconds(longest)
        )));
    }
    Ok(())
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim();
    match number.parse::<f64>() {
        Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(percent / 100.0),
        _ => Err("accepted: a percentage above 0, such as 1% or 0.5%".to_owned()),
    }
}

impl Request {
    /// The command lines of all combinations of values of `-L`.
    ///
    /// # Errors
    /// A usage error: an invalid name or list, or a name that the command does not mention.
    pub fn variants(&self) -> Result<Vec<CommandVariant>> {
        if self.aged && self.parameter_list.iter().step_by(2).any(|name| name == HEAP) {
            bail!(Usage(format!("-L {HEAP}: --aged takes this name; accepted: another name")));
        }
        scan(&self.parameter_list, &self.program.command, self.prepare.as_deref())
    }

    /// Checks that a run can become idle before its time is over.
    ///
    /// # Errors
    /// A usage error.
    pub(super) fn check_durations(&self) -> Result<()> {
        check_idle_for(self.idle_for, "--timeout", self.timeout)
    }

    /// Maximum number of runs on each allocator.
    pub(super) fn at_most(&self) -> u32 {
        if self.target_ci.is_some() { self.max_runs } else { self.runs }
    }

    /// The program's name, without its folder.
    pub(super) fn program_name(&self) -> String {
        let name = self.program.command.first().map(|it| it.to_string_lossy()).unwrap_or_default();
        name.rsplit('/').next().unwrap_or_default().to_owned()
    }
}

#[derive(clap::Args)]
#[expect(missing_docs, reason = "clap would make it the about text of commands that flatten it")]
pub struct CommandLine {
    /// The program and its arguments.
    // `allow_hyphen_values` is not set, because with it clap would take a mistyped option before
    // the command for the command.
    #[arg(value_name = "CMD", required = true, trailing_var_arg = true)]
    pub command: Vec<OsString>,
}

/// A program that is compared.
#[derive(Clone, Debug)]
pub struct Work {
    /// The command line with its values.
    pub variant: CommandVariant,
    /// The file to execute.
    pub file: PathBuf,
    /// The file whose code runs in the end: for a script its interpreter.
    pub interpreter: PathBuf,
}

/// The words of a command with blanks between them.
pub(super) fn line(command: &[OsString]) -> String {
    let words: Vec<_> = command.iter().map(|it| it.to_string_lossy()).collect();
    words.join(" ")
}

/// The way in which a comparison ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// No run failed.
    Complete,
    /// A condition of `--fail-if` is met.
    Failing,
    /// A run failed, or no allocator makes a difference; the results so far were printed.
    Incomplete,
    /// A signal ended the comparison; the results so far were printed.
    Interrupted(u32),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_shares() {
        assert_eq!(percent("1%"), Ok(0.01));
        assert_eq!(percent("0.5"), Ok(0.005));
        for text in ["", "0%", "x%", "-1%", "200%", "NaN"] {
            assert!(percent(text).is_err(), "{text}");
        }
    }
}
