//! `quarry compare`: an experiment whose one workload is a supervised program.

use crate::allocator_spec::{self, BuiltIn};
use crate::allocators::GLIBC;
use crate::answer::Answer;
use crate::contenders::{self, Contender};
use crate::figure::Figure;
use crate::first_look::FirstLook;
use crate::input::Input;
use crate::interrupt::Interrupt;
use crate::judgement::Judgements;
use crate::launch::Program;
use crate::raw;
use crate::reach::{self, NoVerdict};
use crate::request::{Ending, Request, Runs};
use crate::supervised_program::SupervisedProgram;
use anyhow::{Context, Result};
use quarry_harness::destination::{Destination, Present};
use quarry_harness::experiment::{Enough, Experiment, Stop};
use quarry_harness::nearest;
use quarry_harness::report;
use quarry_harness::results::{self, Direction, Metric, Origin, Run, Verify, Workload};
use std::collections::BTreeMap;
use std::io::Write;
use std::rc::Rc;

/// Compares, and prints to `out`.
///
/// # Errors
/// What is wrong with the request, or where nothing could be measured.
pub fn compare(request: &Request, built_in: &BuiltIn<'_>, out: &mut dyn Write) -> Result<Ending> {
    let figures = Figure::parse_all(&request.metrics)?;
    let contenders = present(request, built_in, out)?;
    let baseline = baseline_of(&contenders, request.baseline.as_deref())?;
    let library = contenders[0].allocator.file()?;
    if let Some(no_verdict) = reach::before_it_runs(&request.interpreter, &library) {
        return refuse(&no_verdict, out);
    }
    let places = Places::open(request)?;
    let input = Input::find(request.input.as_deref())?;
    let interrupt = Rc::new(Interrupt::listen()?);
    let program = supervised(request, &input, contenders, &baseline, figures, &interrupt)?;
    let look = FirstLook::at(&program);
    if let Some(signal) = interrupt.signal() {
        writeln!(out, "interrupted before the first round: there is nothing to print")?;
        return Ok(Ending::Interrupted(signal));
    }
    if let Some(no_verdict) = look.as_ref().ok().and_then(|look| look.no_verdict(&library)) {
        return refuse(&no_verdict, out);
    }
    let idles = look.as_ref().is_ok_and(|look| look.idles);
    let run = experiment(request, baseline, program, idles);
    let run = run.of_program(&request.command, input.stdin()).conduct()?;
    let answer = Answer::new(request, &run, look.as_ref());
    write!(out, "{answer}")?;
    places.write(&answer)?;
    Ok(match interrupt.signal() {
        Some(signal) => Ending::Interrupted(signal),
        None if run.failures().is_empty() => Ending::Complete,
        None => Ending::Incomplete,
    })
}

/// The allocators that are there; `out` is told of the others.
fn present(
    request: &Request,
    built_in: &BuiltIn<'_>,
    out: &mut dyn Write,
) -> Result<Vec<Contender>> {
    let found = allocator_spec::find(&request.allocators, built_in)?;
    for absent in &found.absent {
        writeln!(out, "absent: {absent}")?;
    }
    Ok(found.contenders)
}

fn refuse(no_verdict: &NoVerdict, out: &mut dyn Write) -> Result<Ending> {
    writeln!(out, "{no_verdict}")?;
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

/// Files that are written at the end, and opened before anything begins.
struct Places {
    json: Option<Destination>,
    html: Option<Destination>,
}

impl Places {
    fn open(request: &Request) -> Result<Self> {
        let open = |option, place: Option<&_>, present| {
            place.map(|place| Destination::open(option, place, present)).transpose()
        };
        let new = Present::Refused("never replaced; accepted: a new file");
        let json = open("--json", request.json.as_deref(), Present::Replaced)?;
        let html = open("--html", request.html.as_deref(), new)?;
        request.out.as_deref().map_or(Ok(()), results::prepare)?;
        Ok(Self { json, html })
    }

    fn write(self, answer: &Answer<'_>) -> Result<()> {
        if let Some(json) = self.json {
            json.write(serde_json::to_string(&answer.as_json())?.as_bytes())?;
        }
        if let Some(html) = self.html {
            let name = answer.run.meta.workloads[0].name.clone();
            let page = report::page(vec![(name, answer.run.clone())])?;
            html.write(page.as_bytes())?;
        }
        Ok(())
    }
}

/// The program on all contenders and the A/A copy of the baseline.
fn supervised(
    request: &Request,
    input: &Input,
    mut contenders: Vec<Contender>,
    baseline: &str,
    figures: Vec<Figure>,
    interrupt: &Rc<Interrupt>,
) -> Result<SupervisedProgram> {
    contenders::add_copy(&mut contenders, baseline);
    let program = Program {
        file: request.file.clone(),
        command: request.command.clone(),
        stdin: input.path(),
        variables: Vec::new(),
        timeout: request.timeout,
        may_serve_itself: false,
        proportional: false,
    };
    SupervisedProgram::new(program, contenders, figures, request.check_output, interrupt)
}

/// A warm-up, then rounds until there are enough of them.
fn experiment(
    request: &Request,
    baseline: String,
    program: SupervisedProgram,
    idles: bool,
) -> Experiment {
    let name = request.command[0].to_string_lossy();
    let name = name.rsplit('/').next().unwrap_or_default();
    let words: Vec<_> = request.command.iter().map(|it| it.to_string_lossy()).collect();
    let experiment = Experiment {
        name: "compare".to_owned(),
        about: "the whole program.".to_owned(),
        variants: contenders::variants(&program.contenders),
        baseline,
        workloads: vec![Workload::new(name, Verify::PerOperation(1))],
        tasks: vec![1],
        metrics: metrics(&program.figures, idles),
        targets: Vec::new(),
        strict: true,
        options: BTreeMap::new(),
        origin: Origin::now(),
        rounds: request.runs.at_most(),
        warm_up: true,
        enough: Some(enough(request.runs)),
        seed: request.seed,
        out: request.out.clone(),
        sampler: Box::new(program),
    };
    experiment
        .option("command", words.join(" "))
        .option("timeout", raw::seconds(request.timeout))
        .option("check-output", request.check_output)
}

/// Ends a comparison in which every run fails, or whose intervals are as narrow as was asked for.
fn enough(runs: Runs) -> Stop {
    Box::new(move |run: &Run| {
        let no = Enough::No { expected: None };
        if run.samples.iter().all(|sample| sample.failure.is_some()) {
            return Enough::Yes;
        }
        let Runs::UntilInterval { share, at_most } = runs else { return no };
        let judgements = Judgements::of(run);
        let expected = judgements.runs_until_within(share);
        let expected = expected.map(|runs| runs.max(run.rounds() + 1).min(at_most as usize));
        if judgements.is_within(share) { Enough::Yes } else { Enough::No { expected } }
    })
}

/// The metrics of every run. The primary one is the first figure that the program prints, or the
/// time that it takes.
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
