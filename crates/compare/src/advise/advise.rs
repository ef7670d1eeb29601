//! `quarry advise`: from a program to an answer, in less time than was given.

use super::candidates::{self, Candidate};
use super::facts::Facts;
use super::plan::{Plan, plan};
use super::request::{AdviceEnding, AdviceRequest};
use super::search::{Samples, Search};
use super::telling::Telling;
use super::verdict::{Answer, Verdict, verdict};
use crate::allocator_spec::BuiltIn;
use crate::allocators;
use crate::compare::metrics;
use crate::contenders::Contender;
use crate::figure::Figure;
use crate::first_look::FirstLook;
use crate::input::Input;
use crate::interrupt::Interrupt;
use crate::launch::Program;
use crate::reach;
use crate::supervised_program::SupervisedProgram;
use anyhow::{Result, bail};
use quarry_harness::destination::{Destination, Present};
use quarry_harness::results::{Direction, Metric, Variant};
use quarry_harness::sampler::{NoSample, SampleKey, Sampler, Taken};
use quarry_harness::usage::Usage;
use std::io::Write;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Share of the time that one run may take: longer ones leave no room for a test.
const LONGEST_RUN: u32 = 20;
/// A candidate's run fails after this many times what it takes on glibc, and not before
/// [`PATIENCE`].
const SLOWEST: u32 = 10;
const PATIENCE: Duration = Duration::from_secs(2);
/// A program whose runs take less than this mostly starts.
const SHORT: Duration = Duration::from_millis(10);

/// Advises, and prints to `out`.
///
/// # Errors
/// What is wrong with the request, or where nothing could be measured.
pub fn advise(
    request: &AdviceRequest,
    built_in: &BuiltIn<'_>,
    out: &mut dyn Write,
) -> Result<AdviceEnding> {
    let began = Instant::now();
    let figures = Figure::parse_all(&request.metrics)?;
    if figures.first().is_some_and(|figure| figure.direction == Direction::None) {
        bail!(Usage(format!(
            "--metric {}: no direction; accepted: 'higher:' or 'lower:' in front of the first",
            request.metrics[0]
        )));
    }
    let json = request.json.as_deref();
    let json = json.map(|it| Destination::open("--json", it, Present::Replaced)).transpose()?;
    let mut telling = Telling { command: line(request), ..Telling::default() };
    let ending = conduct(request, built_in, figures, began, &mut telling)?;
    telling.spent = began.elapsed();
    if let AdviceEnding::Interrupted(_) = ending {
        writeln!(out, "interrupted before there was an answer")?;
        return Ok(ending);
    }
    write!(out, "{telling}")?;
    if let Some(json) = json {
        json.write(serde_json::to_string(&telling.as_json())?.as_bytes())?;
    }
    Ok(ending)
}

fn line(request: &AdviceRequest) -> String {
    let words: Vec<_> =
        request.work.variant.command.iter().map(|it| it.to_string_lossy()).collect();
    words.join(" ")
}

/// Everything but the printing.
fn conduct(
    request: &AdviceRequest,
    built_in: &BuiltIn<'_>,
    figures: Vec<Figure>,
    began: Instant,
    telling: &mut Telling,
) -> Result<AdviceEnding> {
    let glibc = Contender::from(allocators::glibc());
    let library = glibc.allocator.file()?;
    if let Some(why) = reach::before_it_runs(&request.work.interpreter, &library) {
        return Ok(answered(telling, out_of_reach(&why)));
    }
    let input = Input::find(request.input.as_deref())?;
    let interrupt = Rc::new(Interrupt::listen()?);
    let program = program(request, &input);
    let contenders = vec![glibc];
    let mut program = SupervisedProgram::new(
        vec![program],
        contenders,
        figures,
        request.check_output,
        &interrupt,
    )?;
    let looked = Instant::now();
    let look = FirstLook::at(&program, 0);
    if let Some(signal) = interrupt.signal() {
        return Ok(AdviceEnding::Interrupted(signal));
    }
    let look = match look {
        Ok(look) => look,
        Err(_) if looked.elapsed() >= program.programs[0].timeout => {
            return Ok(answered(telling, too_long(request.budget, None)));
        }
        Err(error) => bail!("it fails on glibc: {error:#}"),
    };
    let facts = Facts::of(&look);
    if let Some(why) = look.no_verdict(&library, request.force) {
        telling.facts = Some(facts);
        return Ok(answered(telling, out_of_reach(&why)));
    }
    let cost = looked.elapsed() / look.runs as u32;
    program.programs[0].timeout =
        (cost * SLOWEST).max(PATIENCE).min(request.budget / 4).max(PATIENCE);
    telling.candidates = candidates::find(&request.allocators, &facts, built_in)?;
    telling.notes = notes(&facts, request.force);
    telling.facts = Some(facts);
    let left = request.budget.saturating_sub(began.elapsed());
    let there = &telling.candidates.there;
    if there.is_empty() {
        return Ok(answered(telling, Verdict::undecided("no other allocator is installed here")));
    }
    match plan(there.len() as u32, cost, left) {
        Err(needed) => Ok(answered(telling, too_long(request.budget, Some(needed)))),
        Ok(plan) => {
            telling.plan = Some(plan);
            test(request, plan, program, look.idles, began, &interrupt, telling)
        }
    }
}

/// Searches, and judges what was tested.
fn test(
    request: &AdviceRequest,
    plan: Plan,
    mut program: SupervisedProgram,
    idles: bool,
    began: Instant,
    interrupt: &Interrupt,
    telling: &mut Telling,
) -> Result<AdviceEnding> {
    let metrics: Vec<Metric> = metrics(&program.figures, idles);
    let there = &telling.candidates.there;
    program.contenders.extend(there.iter().map(|it| it.contender.clone()));
    let baseline = program.contenders[0].variant.clone();
    let variant = |it: &Candidate| -> Variant { it.contender.variant.clone() };
    let search = Search {
        baseline,
        candidates: there.iter().map(variant).collect(),
        metrics: &metrics,
        goal: request.goal,
        plan,
        deadline: request.budget,
        seed: request.seed,
        samples: Rc::new(RealProgram { program, began }),
    };
    let outcome = search.conduct()?;
    if let Some(signal) = interrupt.signal() {
        return Ok(AdviceEnding::Interrupted(signal));
    }
    let verdict = match &outcome.test {
        Some((candidate, run)) => {
            let name = there[*candidate].contender.name();
            verdict(run, name, plan.candidates as usize, request.goal)
        }
        None => {
            let first = outcome.first.seen.iter().find_map(|it| it.failure.as_deref());
            let why = first.unwrap_or("no round was completed");
            Verdict::undecided(&format!("every candidate failed, such as by: {why}"))
        }
    };
    telling.outcome = Some(outcome);
    Ok(answered(telling, verdict))
}

fn answered(telling: &mut Telling, verdict: Verdict) -> AdviceEnding {
    let is_undecided = verdict.answer == Answer::Undecided;
    telling.verdict = Some(verdict);
    if is_undecided { AdviceEnding::Undecided } else { AdviceEnding::Answered }
}

fn out_of_reach(why: &reach::NoVerdict) -> Verdict {
    let forced = if why.can_be_forced { "; --force measures all the same" } else { "" };
    Verdict::keep(&format!(
        "no other allocator would make a difference, as {}; what would help: {}{forced}",
        why.why, why.remedy
    ))
}

fn too_long(budget: Duration, needed: Option<Duration>) -> Verdict {
    let minutes = |duration: Duration| match duration.as_secs() {
        seconds if seconds < 120 => format!("{seconds} s"),
        seconds => format!("{} minutes", seconds.div_ceil(60)),
    };
    let needed = match needed {
        Some(needed) => format!("--budget {}m would do", needed.as_secs().div_ceil(60)),
        None => format!("--budget has to be more than {LONGEST_RUN} times as long as a run"),
    };
    Verdict::undecided(&format!(
        "a run takes too long for a test within {}; a shorter workload or {needed}",
        minutes(budget)
    ))
}

fn notes(facts: &Facts, is_forced: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if Duration::from_nanos(facts.wall_ns) < SHORT {
        notes.push(format!(
            "too short: a run takes {:.1} ms, most of which is starting a process and loading its \
             libraries; the answer is about that, so give the program more to do",
            facts.wall_ns as f64 / 1e6
        ));
    }
    if is_forced {
        notes.push("--force: an allocator may have hardly any influence on this".to_owned());
    }
    notes
}

fn program(request: &AdviceRequest, input: &Input) -> Program {
    let work = &request.work;
    Program {
        file: work.file.clone(),
        command: work.variant.command.clone(),
        stdin: input.path(),
        variables: Vec::new(),
        timeout: (request.budget / LONGEST_RUN).max(PATIENCE),
        may_serve_itself: false,
        proportional: false,
        prepare: work.variant.prepare.clone(),
        ignore_failure: request.ignore_failure,
    }
}

/// The program on glibc, the first contender, and on the candidates behind it.
struct RealProgram {
    program: SupervisedProgram,
    began: Instant,
}

impl Samples for RealProgram {
    fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    fn sample(&self, candidate: Option<usize>, key: SampleKey) -> Result<Taken, NoSample> {
        let variant = candidate.map_or(0, |candidate| candidate + 1);
        self.program.sample(SampleKey { variant, ..key })
    }
}
