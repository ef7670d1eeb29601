//! `quarry compare`: an experiment whose workloads are runs of a supervised program.

use crate::allocator_spec::{self, BuiltIn};
use crate::allocators::{GLIBC, QUARRY};
use crate::answer::Answer;
use crate::condition::{Condition, Finding};
use crate::contenders::{self, Contender};
use crate::first_look::{FirstLook, concerns_every_run};
use crate::input::{EMPTY_INPUT, Input};
use crate::interrupt::Interrupt;
use crate::judgement::Judgements;
use crate::launch::Program;
use crate::load::Load;
use crate::metrics::Wanted;
use crate::reach::{self, NoVerdict};
use crate::request::{AGED, Ending, FRESH, HEAP, Request, Work, line};
use crate::supervised_program::SupervisedProgram;
use crate::supervisor::IDLE;
use crate::{export, raw};
use anyhow::{Context, Result, bail};
use quarry_harness::destination::{Destination, NEW, Present};
use quarry_harness::experiment::{Enough, Experiment, Stop, progress_bar};
use quarry_harness::nearest;
use quarry_harness::results::{self, Metric, Run, Verify, Workload};
use quarry_harness::statistics::MIN_PAIRS;
use quarry_harness::usage::Usage;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The allocators that are compared if none are named.
const USUAL_ALLOCATORS: [&str; 5] = [GLIBC, "jemalloc", "tcmalloc", "mimalloc", QUARRY];

/// Compares `works`, one for each of [`Request::variants`], and prints to `out`.
///
/// # Errors
/// A fault of the request, or the reason why nothing could be measured.
pub fn compare(
    request: &Request,
    mut works: Vec<Work>,
    built_in: &BuiltIn<'_>,
    out: &mut dyn Write,
) -> Result<Ending> {
    let wanted = Wanted::parse(&request.metric, request.latencies.clone())?;
    let conditions = conditions(request, &wanted)?;
    request.check_durations()?;
    let mut absent = Vec::new();
    let mut contenders = present(request, built_in, &mut absent)?;
    let baseline = baseline_of(&contenders, request.baseline.as_deref())?;
    let library = contenders[0].allocator.file()?;
    for work in &works {
        if let Some(no_verdict) = reach::before_it_runs(&work.interpreter, &library) {
            out.write_all(&absent)?;
            return refuse(&no_verdict, None, out);
        }
    }
    let load = Load::now();
    let places = Places::open(request)?;
    let input = Input::find(request.input.as_deref())?;
    let interrupt = Rc::new(Interrupt::listen()?);
    contenders::add_copy(&mut contenders, &baseline);
    let program = |it| Program {
        idle_for: request.idle_for,
        ..Program::of(it, input.path.clone(), request.timeout, request.ignore_failure)
    };
    let programs = works.iter().map(program).collect();
    let checks = request.check_output;
    let mut program = SupervisedProgram::new(programs, contenders, wanted, checks, &interrupt)?;
    if let Some(warning) = load.and_then(|load| load.warning()) {
        writeln!(out, "{warning}")?;
    }
    out.write_all(&absent)?;
    let look = |work| match FirstLook::at(&program, work, false) {
        Err(error) if concerns_every_run(&error) => Err(error),
        look => Ok(look),
    };
    let mut looks = (0..works.len()).map(look).collect::<Result<Vec<_>>>()?;
    if let Some(signal) = interrupt.signal() {
        writeln!(out, "interrupted before the first round: there is nothing to print")?;
        return Ok(Ending::Interrupted(signal));
    }
    let empty = input.is_empty.then_some(EMPTY_INPUT);
    let refused = leave_out(request, &mut works, &mut program, &mut looks, &library, empty, out)?;
    if let Some(ending) = refused {
        return Ok(ending);
    }
    let looks = match request.aged {
        true => with_aged(&mut works, &mut program, &looks)?,
        false => looks.iter().collect(),
    };
    let idles = looks.iter().any(|look| look.as_ref().is_ok_and(|look| look.idles));
    let waits = looks.iter().filter_map(|look| look.as_ref().ok()).map(|look| look.probe.waits());
    let (metrics, why) = program.wanted.decided(waits, idles)?;
    let run = experiment(request, &works, baseline, program, metrics);
    let run = run.of_program(&request.program.command, input.said.clone()).conduct()?;
    let remarks = [Some(why), empty.map(str::to_owned)].into_iter().flatten().collect();
    let answer = Answer::new(request, &works, &run, looks, remarks);
    write!(out, "{answer}")?;
    places.write(&answer)?;
    let mut ending = ending_of(&run, &interrupt);
    for condition in &conditions {
        ending = fail_if(condition, &answer, ending, out)?;
    }
    Ok(ending)
}

fn ending_of(run: &Run, interrupt: &Interrupt) -> Ending {
    match interrupt.signal() {
        Some(signal) => Ending::Interrupted(signal),
        None if run.failures().is_empty() => Ending::Complete,
        None => Ending::Incomplete,
    }
}

/// Makes two workloads of each: one on a fresh heap, and one on an aged heap. Returns their looks.
fn with_aged<'a>(
    works: &mut Vec<Work>,
    program: &mut SupervisedProgram,
    looks: &'a [Result<FirstLook>],
) -> Result<Vec<&'a Result<FirstLook>>> {
    let (mut both, mut programs) = (Vec::new(), Vec::new());
    for (at, work) in works.iter().enumerate() {
        let fresh = program.programs[at].clone();
        let aged = Program { plan: Some(program.plan(at)?), ..fresh.clone() };
        for (value, one) in [(FRESH, fresh), (AGED, aged)] {
            both.push(Work { variant: work.variant.marked(HEAP, value), ..work.clone() });
            programs.push(one);
        }
    }
    (*works, program.programs) = (both, programs);
    Ok(looks.iter().flat_map(|look| [look, look]).collect())
}

/// Leaves out the workloads that no allocator can change. If none remains, prints why and returns
/// how the comparison ends.
fn leave_out(
    request: &Request,
    works: &mut Vec<Work>,
    program: &mut SupervisedProgram,
    looks: &mut Vec<Result<FirstLook>>,
    library: &Path,
    remark: Option<&str>,
    out: &mut dyn Write,
) -> Result<Option<Ending>> {
    let no_verdict = |look: &Result<FirstLook>| {
        look.as_ref().ok().and_then(|look| look.no_verdict(library, request.force))
    };
    let refusals: Vec<Option<NoVerdict>> = looks.iter().map(no_verdict).collect();
    let stays: Vec<bool> = refusals.iter().map(Option::is_none).collect();
    let name = request.program_name();
    for (work, refusal) in works.iter().zip(refusals) {
        let Some(refusal) = refusal else { continue };
        if stays.iter().all(|stays| !stays) {
            return refuse(&refusal, remark, out).map(Some);
        }
        writeln!(out, "left out: {}: {}", work.variant.name(&name), refusal.why)?;
    }
    retain(works, &stays);
    retain(&mut program.programs, &stays);
    retain(looks, &stays);
    Ok(None)
}

fn retain<T>(all: &mut Vec<T>, stays: &[bool]) {
    let mut stays = stays.iter();
    all.retain(|_| stays.next().is_some_and(|stays| *stays));
}

fn conditions(request: &Request, wanted: &Wanted) -> Result<Vec<Condition>> {
    let metrics = wanted.metrics(true);
    let names: Vec<&str> = metrics.iter().map(|metric| metric.name.as_str()).collect();
    let conditions = request.fail_if.iter().map(|text| Condition::parse(text, &names));
    let conditions: Vec<Condition> = conditions.collect::<Result<_>>()?;
    if !conditions.is_empty() && (request.at_most() as usize) < MIN_PAIRS {
        bail!(Usage(format!(
            "--fail-if judges intervals, which fewer than {MIN_PAIRS} runs do not have; accepted: \
             --runs {MIN_PAIRS} or more"
        )));
    }
    Ok(conditions)
}

/// Prints the finding on a condition, and returns how the comparison ends because of it.
fn fail_if(
    condition: &Condition,
    answer: &Answer<'_>,
    ending: Ending,
    out: &mut dyn Write,
) -> Result<Ending> {
    let finding = condition.find(answer.run, &answer.judgements);
    match &finding {
        Finding::Met(text) => writeln!(out, "FAIL: {text}")?,
        Finding::NotMet => writeln!(out, "ok: --fail-if '{}': not shown by any", condition.text)?,
        Finding::Empty(text) => writeln!(out, "FAIL: nothing to judge: {text}")?,
    }
    Ok(match (ending, finding) {
        (Ending::Interrupted(signal), _) => Ending::Interrupted(signal),
        (_, Finding::Met(_)) => Ending::Failing,
        (Ending::Complete, Finding::Empty(_)) => Ending::Incomplete,
        (ending, _) => ending,
    })
}

fn present(
    request: &Request,
    built_in: &BuiltIn<'_>,
    out: &mut dyn Write,
) -> Result<Vec<Contender>> {
    let usual = USUAL_ALLOCATORS.map(str::to_owned);
    let named = &request.allocators[..];
    let found = allocator_spec::find(if named.is_empty() { &usual } else { named }, built_in)?;
    let needs_all = !named.is_empty() && !request.fail_if.is_empty();
    if needs_all && !found.absent.is_empty() {
        bail!(
            "--fail-if: not every allocator of --allocators is there: {}",
            found.absent.join("; ")
        );
    }
    for absent in &found.absent {
        writeln!(out, "absent: {absent}")?;
    }
    Ok(found.contenders)
}

fn refuse(no_verdict: &NoVerdict, remark: Option<&str>, out: &mut dyn Write) -> Result<Ending> {
    writeln!(out, "{no_verdict}")?;
    remark.map_or(Ok(()), |remark| writeln!(out, "{remark}"))?;
    if no_verdict.can_be_forced {
        writeln!(out, "to compare all the same: --force")?;
    }
    Ok(Ending::Incomplete)
}

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

/// Files that are written at the end, and opened before anything runs.
struct Places(Vec<(Destination, Content)>);

type Content = fn(&Answer<'_>) -> Result<Vec<u8>>;

impl Places {
    fn open(request: &Request) -> Result<Self> {
        let all: [(&str, &Option<PathBuf>, Present, Content); 4] = [
            ("--export-csv", &request.export_csv, Present::Replaced, export::csv),
            ("--export-markdown", &request.export_markdown, Present::Replaced, |it| {
                Ok(it.markdown().into_bytes())
            }),
            ("--json", &request.json, Present::Replaced, |it| {
                Ok(serde_json::to_vec(&it.as_json())?)
            }),
            ("--html", &request.html, NEW, |it| it.page()),
        ];
        let asked = all.into_iter().filter_map(|(option, place, present, content)| {
            let open = |place: &PathBuf| Destination::open(option, place, present);
            Some(open(place.as_ref()?).map(|it| (it, content)))
        });
        let places = asked.collect::<Result<_>>()?;
        request.out.as_deref().map_or(Ok(()), results::prepare)?;
        Ok(Self(places))
    }

    fn write(self, answer: &Answer<'_>) -> Result<()> {
        self.0.into_iter().try_for_each(|(place, content)| place.write(&content(answer)?))
    }
}

fn experiment(
    request: &Request,
    works: &[Work],
    baseline: String,
    program: SupervisedProgram,
    metrics: Vec<Metric>,
) -> Experiment {
    let name = request.program_name();
    let workload = |work: &Work| Workload::new(&work.variant.name(&name), Verify::PerOperation(1));
    let prepare = works[0].variant.prepare.as_ref();
    let workloads = works.iter().map(workload).collect();
    let variants = contenders::variants(&program.contenders);
    let progress = progress_bar();
    program.show_on(&progress);
    let mut experiment = Experiment::new("compare", variants, workloads, program);
    experiment.progress = progress;
    experiment.enough = Some(enough(request.target_ci, request.at_most()));
    experiment.out.clone_from(&request.out);
    let meta = &mut experiment.meta;
    (meta.baseline, meta.metrics, meta.strict) = (baseline, metrics, true);
    meta.rounds = request.at_most();
    meta.seed = request.seed.unwrap_or(meta.seed);
    if let Some(prepare) = prepare {
        experiment = experiment.option("prepare", prepare.display());
    }
    experiment
        .option("command", line(&request.program.command))
        .option("ignore-failure", request.ignore_failure)
        .option("timeout", raw::seconds(request.timeout))
        .option("check-output", request.check_output)
        .option("idle-for", raw::seconds(request.idle_for.unwrap_or(IDLE)))
}

/// Ends a comparison if every run fails, or once the intervals are as narrow as requested.
fn enough(target: Option<f64>, at_most: u32) -> Stop {
    Box::new(move |run: &Run| {
        let no = Enough::No { expected: None };
        if run.samples.iter().all(|sample| sample.failure.is_some()) {
            return Enough::Yes;
        }
        let Some(share) = target else { return no };
        let judgements = Judgements::of(run);
        let expected = judgements.runs_until_within(share);
        let expected = expected.map(|runs| runs.max(run.rounds() + 1).min(at_most as usize));
        if judgements.is_within(share) { Enough::Yes } else { Enough::No { expected } }
    })
}
