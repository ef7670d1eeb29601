//! Comparing allocators under any program: `quarry compare`, and samples of programs for the lab.
//!
//! ```text
//! allocators  who can serve a sample, where it is, and the proof that it did
//! contenders  allocators with their settings, as the variants of a run
//! interpose   whether a preloaded library would serve a program, and if not, why not
//! inside      sanitizers and allocators that a program carries inside
//! allocator_spec  which allocators, with which settings, and where they are
//! reach       whether an allocator can make a difference to the program; who served a sample
//! supervisor  the process that runs one sample and watches what comes of it
//! tree        the processes of a sample
//! weight      whether the allocator has enough influence on it for a comparison
//! witness     what they say about themselves
//! launch      starts a sample
//! raw         a sample as it came
//! sample      one sample of what is compared: checked, measured
//! input       what every run reads
//! figure      figures that the program prints
//! interrupt   Ctrl-C
//! judgement   from a run to verdicts
//! answer      how all of it is printed
//! ```

mod allocator_spec;
pub mod allocators;
mod answer;
pub mod contenders;
mod figure;
mod input;
pub mod inside;
pub mod interpose;
mod interrupt;
mod judgement;
mod launch;
mod raw;
mod reach;
mod sample;
mod supervisor;
mod tree;
mod weight;
mod witness;

pub use allocator_spec::BuiltIn;
pub use interrupt::Interrupt;
pub use launch::{Clients, Launcher, Program, Served};
pub use raw::{Raw, difference};
pub use reach::Probe;
pub use supervisor::SuperviseArgs;

use crate::allocators::GLIBC;
use crate::contenders::Contender;
use answer::Answer;
use anyhow::{Context, Result};
use figure::Figure;
use indicatif::ProgressBar;
use input::Input;
use judgement::Judgement;
use quarry_harness::destination::{Destination, Present};
use quarry_harness::nearest;
use quarry_harness::report;
use quarry_harness::results::{self, Direction, Metric, Run, Verify, Workload};
use quarry_harness::runner::{Design, INTERRUPTED, Session, Spot};
use reach::Excuse;
use sample::Bench;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
use weight::Weight;

/// Name of the hidden subcommand that runs one sample of a program and watches it.
pub const SUPERVISE_COMMAND: &str = "__supervise";

/// Finds `libquarry.so`; called only where it is needed.
pub type FindLibrary<'a> = &'a dyn Fn() -> Result<PathBuf>;

/// When there are enough runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Runs {
    /// So many of each.
    Exactly(u32),
    /// Until the interval of each is no wider than this share of it to either side.
    UntilInterval {
        /// The share.
        share: f64,
        /// The end in any case.
        at_most: u32,
    },
}

impl Runs {
    fn at_most(self) -> u32 {
        match self {
            Self::Exactly(runs) => runs,
            Self::UntilInterval { at_most, .. } => at_most,
        }
    }
}

/// What is to be compared.
#[derive(Clone, Debug)]
pub struct Request {
    /// Allocators as `NAME`, `NAME:KEY=VALUE` or `NAME=FILE`.
    pub allocators: Vec<String>,
    /// When there are enough.
    pub runs: Runs,
    /// The one that the others are compared with; `None`: glibc, else the first.
    pub baseline: Option<String>,
    /// Figures that the program prints.
    pub metrics: Vec<String>,
    /// Whether all runs must print the same.
    pub check_output: bool,
    /// When a run has failed.
    pub timeout: Duration,
    /// What every run reads; `None`: what standard input is.
    pub input: Option<PathBuf>,
    /// Where everything is written as JSON.
    pub json: Option<PathBuf>,
    /// Where it is written as a page with pictures; a new file.
    pub html: Option<PathBuf>,
    /// Results directory for `quarry lab`.
    pub out: Option<PathBuf>,
    /// Seed of the order; `None`: from the clock.
    pub seed: Option<u64>,
    /// The file that is executed.
    pub file: PathBuf,
    /// The file whose code runs in the end: an interpreter, where the program is a script.
    pub interpreter: PathBuf,
    /// Name and arguments.
    pub command: Vec<OsString>,
}

/// How a comparison ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Every run counts.
    Complete,
    /// Something failed, or no allocator makes a difference; what there is has been printed.
    Incomplete,
    /// A signal ended it; what there was has been printed.
    Interrupted(u32),
}

/// Takes one sample in this process, as the command asks its supervisor to.
///
/// # Errors
/// Where the sample could not be taken.
pub fn supervise(args: &SuperviseArgs, out: &mut dyn Write) -> Result<()> {
    let report = args.supervise()?;
    Ok(writeln!(out, "{}", serde_json::to_string(&report)?)?)
}

/// Compares, and prints to `out`.
///
/// # Errors
/// What is wrong with the request, or where nothing could be measured.
pub fn compare(request: &Request, built_in: &BuiltIn<'_>, out: &mut dyn Write) -> Result<Ending> {
    let figures: Vec<Figure> = (1..)
        .zip(&request.metrics)
        .map(|(number, text)| Figure::parse(text, number))
        .collect::<Result<_>>()?;
    let found = allocator_spec::find(&request.allocators, built_in)?;
    for absent in &found.absent {
        writeln!(out, "absent: {absent}")?;
    }
    let baseline = baseline_of(&found.contenders, request.baseline.as_deref())?;
    let library = allocator_spec::file_of(&found.contenders[0])?;
    if let Some(excuse) = reach::before_it_runs(&request.interpreter, &library) {
        return refuse(&excuse, out);
    }
    let json = destination(request.json.as_deref(), "--json", Present::Replaced)?;
    let new = Present::Refused("never replaced; accepted: a new file");
    let html = destination(request.html.as_deref(), "--html", new)?;
    if let Some(place) = &request.out {
        results::prepare(place)?;
    }
    let input = Input::find(request.input.as_deref())?;
    let interrupt = Interrupt::listen()?;
    let program = Program {
        file: request.file.clone(),
        command: request.command.clone(),
        stdin: input.path(),
        variables: Vec::new(),
        timeout: request.timeout,
        may_serve_itself: false,
        proportional: false,
    };
    let bench = Bench::new(program, &figures, request.check_output, &interrupt)?;
    let look = first_look(&bench, python_malloc().as_deref());
    if let Some(signal) = interrupt.signal() {
        writeln!(out, "interrupted before the first round: there is nothing to print")?;
        return Ok(Ending::Interrupted(signal));
    }
    let idles = look.as_ref().is_ok_and(|look| look.idles);
    if let Ok(look) = &look
        && let Some(excuse) = look.excuse(&library, python_malloc().as_deref())
    {
        return refuse(&excuse, out);
    }
    let mut contenders = found.contenders;
    contenders::add_copy(&mut contenders, &baseline);
    let mut comparison =
        Comparison { request, bench: &bench, contenders, baseline, figures: &figures };
    let run = comparison.conduct(idles)?;
    let judgement = Judgement::of(&run);
    let answer = Answer { request, run: &run, judgement: &judgement, look: look.as_ref() };
    write!(out, "{answer}")?;
    if let Some(json) = json {
        json.write(serde_json::to_string(&answer.as_json())?.as_bytes())?;
    }
    let has_failed = !run.failures().is_empty();
    if let Some(html) = html {
        let name = run.meta.workloads[0].name.clone();
        html.write(report::page(vec![(name, run)], &|_| None)?.as_bytes())?;
    }
    Ok(match interrupt.signal() {
        Some(signal) => Ending::Interrupted(signal),
        None if has_failed => Ending::Incomplete,
        None => Ending::Complete,
    })
}

fn destination(
    place: Option<&Path>,
    option: &str,
    present: Present,
) -> Result<Option<Destination>> {
    place.map(|place| Destination::open(option, place, present)).transpose()
}

fn python_malloc() -> Option<OsString> {
    std::env::var_os("PYTHONMALLOC")
}

fn refuse(excuse: &Excuse, out: &mut dyn Write) -> Result<Ending> {
    writeln!(out, "{excuse}")?;
    Ok(Ending::Incomplete)
}

/// Name of the contender that the others are compared with.
fn baseline_of(contenders: &[Contender], asked: Option<&str>) -> Result<String> {
    let names = contenders::names(contenders);
    let first = names.first().context("no allocators")?;
    let name = match asked {
        Some(name) if names.contains(&name) => name,
        Some(name) => return Err(nearest::unknown("allocator --baseline", name, &names)),
        None if names.contains(&GLIBC) => GLIBC,
        None => first,
    };
    Ok(name.to_owned())
}

/// What runs under the counter showed.
struct FirstLook {
    /// The one that stands for all of them: in the middle, by the allocator's influence.
    probe: Probe,
    /// How many there were.
    runs: usize,
    weight: Weight,
    /// Whether something lives on for so long that it is idle.
    idles: bool,
}

impl FirstLook {
    /// Why there is no comparison, if so.
    fn excuse(&self, library: &Path, python: Option<&OsStr>) -> Option<Excuse> {
        let is_nothing = self.weight == Weight::Nothing;
        self.probe.obstacle(library).or_else(|| is_nothing.then(|| self.probe.excuse(python)))
    }
}

/// Runs the program under the counter: once, or as often as it takes to judge by.
fn first_look(bench: &Bench<'_>, python: Option<&OsStr>) -> Result<FirstLook> {
    let spinner = ProgressBar::new_spinner().with_message("counting calls of malloc");
    spinner.enable_steady_tick(Duration::from_millis(200));
    let (mut probes, mut seen, mut idles) = (Vec::new(), Vec::new(), false);
    let weight = loop {
        let raw = bench.probe()?;
        idles |= raw.report.idle_bytes.is_some();
        let probe = Probe::of(&raw, &bench.program.file);
        seen.push(probe.seen());
        let weight = weight::of(&seen, probe.negligible(python));
        let is_out_of_reach = probe.is_out_of_reach();
        probes.push(probe);
        if is_out_of_reach || weight != Weight::Unknown {
            break weight;
        }
    };
    spinner.finish_and_clear();
    let runs = probes.len();
    probes.sort_by(|one, other| one.influence().total_cmp(&other.influence()));
    Ok(FirstLook { probe: probes.swap_remove(runs / 2), runs, weight, idles })
}

/// A run of the program on all contenders.
struct Comparison<'a> {
    request: &'a Request,
    bench: &'a Bench<'a>,
    contenders: Vec<Contender>,
    baseline: String,
    figures: &'a [Figure],
}

impl Comparison<'_> {
    /// Takes the samples: a warm-up, then rounds until there are enough of them.
    fn conduct(&mut self, idles: bool) -> Result<Run> {
        let mut session = Session::begin(self.design(idles))?;
        let interrupted = Cell::new(false);
        let take = |spot: Spot| {
            let taken = self.bench.take(&self.contenders[spot.variant], spot.round == 0);
            interrupted.set(interrupted.get() || taken.as_ref().is_err_and(|it| it == INTERRUPTED));
            taken
        };
        for round in 0..=self.request.runs.at_most() {
            session.round(round, take)?;
            let hopeless = session.run.samples.iter().all(|sample| sample.failure.is_some());
            if interrupted.get() || hopeless || self.is_enough(&session) {
                break;
            }
        }
        Ok(session.end())
    }

    fn is_enough(&self, session: &Session) -> bool {
        let Runs::UntilInterval { share, at_most } = self.request.runs else { return false };
        let judgement = Judgement::of(&session.run);
        if let Some(runs) = judgement.runs_until_within(share) {
            session.expect(runs.max(session.run.rounds() + 1).min(at_most as usize));
        }
        judgement.is_within(share)
    }

    fn design(&self, idles: bool) -> Design {
        let name = self.request.command[0].to_string_lossy();
        let name = name.rsplit('/').next().unwrap_or_default().to_owned();
        let words: Vec<_> = self.request.command.iter().map(|it| it.to_string_lossy()).collect();
        let design = Design {
            experiment: "compare".to_owned(),
            variants: contenders::variants(&self.contenders),
            baseline: self.baseline.clone(),
            workloads: vec![Workload::new(&name, Verify::PerOperation(1))],
            tasks: vec![1],
            metrics: metrics(self.figures, idles),
            options: BTreeMap::new(),
            rounds: self.request.runs.at_most(),
            warm_up: true,
            seed: self.request.seed,
            out: self.request.out.clone(),
        };
        design
            .option("command", words.join(" "))
            .option("timeout", raw::seconds(self.request.timeout))
            .option("check-output", self.request.check_output)
    }
}

/// What is measured of every run. The primary one is the first figure that the program prints, or
/// the time that it takes.
fn metrics(figures: &[Figure], idles: bool) -> Vec<Metric> {
    let mib = 1.0 / f64::from(1 << 20);
    let lower = |name: &str, unit: &str, of: &str, times: f64, digits: u8| {
        Metric::new(name, unit, Direction::Lower, of).times(times).digits(digits)
    };
    let mut metrics: Vec<Metric> = figures.iter().map(Figure::metric).collect();
    metrics.extend([
        lower("wall", "s", "wall_ns", 1e-9, 3),
        // The kernel divides CPU time between the two by ticks of 1 to 10 ms.
        lower("user", "s", "user_ns", 1e-9, 3).near_zero(0.01),
        lower("sys", "s", "sys_ns", 1e-9, 3).near_zero(0.01),
        lower("peak RSS", "MiB", "peak_bytes", mib, 1).near_zero(0.1),
    ]);
    if idles {
        metrics.push(lower("idle RSS", "MiB", "idle_bytes", mib, 1).near_zero(0.1));
    }
    let count =
        |name: &str, of: &str| Metric::new(name, "", Direction::None, of).digits(0).near_zero(10.0);
    metrics.extend([count("faults", "page_faults"), count("switches", "switches")]);
    let first = metrics.remove(0);
    metrics.insert(0, first.primary());
    metrics
}
